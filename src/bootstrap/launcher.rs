//! The launchers, by name.

use std::{fmt, str::FromStr};

/// How this process was started, and the protocol of its launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// `hikyaku run`.
    Hikyaku,
    /// PMI version 1.
    Pmi1,
    /// PMI version 2.
    Pmi2,
    /// PMIx.
    Pmix,
    /// Slurm without PMI.
    Slurm,
    /// torchrun, and what sets the same variables.
    Torch,
    /// No launcher: rank 0 is the meeting point.
    Rendezvous,
    /// Nothing: a world of one.
    Alone,
}

const LAUNCHERS: [(&str, Launcher); 8] = [
    ("hikyaku", Launcher::Hikyaku),
    ("pmi1", Launcher::Pmi1),
    ("pmi2", Launcher::Pmi2),
    ("pmix", Launcher::Pmix),
    ("slurm", Launcher::Slurm),
    ("torch", Launcher::Torch),
    ("rendezvous", Launcher::Rendezvous),
    ("alone", Launcher::Alone),
];

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = LAUNCHERS.iter().find(|(_, launcher)| launcher == self);
        f.write_str(found.map_or("unknown", |(name, _)| name))
    }
}

impl FromStr for Launcher {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let found = LAUNCHERS.iter().find(|(name, _)| *name == text);
        found.map(|(_, launcher)| *launcher).ok_or(())
    }
}
