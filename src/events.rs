//! Events: what happens in the protocol and to a job, for subscribers of the crate `tracing`.
//!
//! Each is emitted once for what it tells of, not once per packet; `docs/events.md` lists them. Without the feature
//! `tracing` nothing of them is compiled.

/// Emits an event, as `tracing::event!` does: a level, fields, a message. Where it stands gives its target.
macro_rules! event {
    ($level:ident, $($rest:tt)+) => {{
        #[cfg(feature = "tracing")]
        ::tracing::event!(::tracing::Level::$level, $($rest)+);
    }};
}

pub(crate) use event;

/// Whether any subscriber listens to events of the level `DEBUG`: then the data path looks for some.
#[cfg(feature = "tracing")]
#[inline(always)]
pub(crate) fn are_debugged() -> bool {
    // Loggers are not asked here: each event asks for itself.
    cfg!(feature = "log") || ::tracing::level_filters::LevelFilter::current() >= ::tracing::Level::DEBUG
}
