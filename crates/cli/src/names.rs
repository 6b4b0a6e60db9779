//! Names of other programs under which this one is called, too. `cargo xtask install` makes them links to it.

/// (name, the command that it stands for)
pub(crate) const NAMES: [(&str, &str); 5] = [
    ("mpicc", "cc"),
    ("mpicxx", "cxx"),
    ("mpic++", "cxx"),
    ("mpiexec", "run"),
    ("mpirun", "run"),
];
