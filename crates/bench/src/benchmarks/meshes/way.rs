//! What `bench meshes` compares, and with which programs.

use clap::ValueEnum;
use hikyaku::sim::Routing;

/// How processes reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Way {
    Full,
    Protocol,
    Torus,
    Ring,
    Tree,
    Chain,
}

impl Way {
    pub(super) const ALL: [Self; 6] = [
        Self::Full,
        Self::Protocol,
        Self::Torus,
        Self::Ring,
        Self::Tree,
        Self::Chain,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Protocol => "protocol",
            Self::Torus => "torus",
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Chain => "chain",
        }
    }

    /// Of TCP: which connections there are, all or those of a mesh.
    pub(super) const fn routing(self) -> Option<Option<Routing>> {
        match self {
            Self::Protocol => None,
            Self::Full => Some(None),
            Self::Torus => Some(Some(Routing::Torus)),
            Self::Ring => Some(Some(Routing::Ring)),
            Self::Tree => Some(Some(Routing::Tree)),
            Self::Chain => Some(Some(Routing::Chain)),
        }
    }
}

/// What they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Program {
    Othello,
    Sor,
}

impl Program {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Othello => "othello",
            Self::Sor => "sor",
        }
    }
}
