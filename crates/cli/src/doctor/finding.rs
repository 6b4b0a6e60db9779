//! A line of the report: its subject, its state, and the remedy.

use serde::Serialize;

/// How it stands with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// It works, and could be better.
    Could,
    /// Not there; matters to those who want it.
    None,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Could => "could",
            Self::None => "none",
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The heading under which it stands.
    pub(super) area: &'static str,
    /// The thing that was examined.
    pub(super) name: String,
    pub(super) state: State,
    /// How it is.
    pub(super) value: String,
    /// Advice to the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn new(area: &'static str, name: impl Into<String>, state: State, value: impl Into<String>) -> Self {
        Self {
            area,
            name: name.into(),
            state,
            value: value.into(),
            advice: None,
        }
    }

    /// Advice to the user if something is not as it should be.
    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        if self.state != State::Ok {
            self.advice = Some(advice.into());
        }
        self
    }
}
