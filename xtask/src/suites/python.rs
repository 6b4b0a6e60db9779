//! Suites in Python: mpi4py as PyPI has it, which opens the library that `MPI4PY_LIBMPI` names.

use std::path::PathBuf;

use super::place::{Library, Place, Verified, text};
use crate::shell::{self, Cmd};

fn environment(place: &Place) -> Result<PathBuf, String> {
    place.environment("python", &["mpi4py==4.1.2", "numpy", "dask-mpi"], &[])
}

pub(super) fn fetch(place: &Place) -> Result<(), String> {
    environment(place).map(|_| ())
}

/// Runs a script of ours; gives the line that it prints.
fn script(place: &Place, library: &Library, options: &[&str], name: &str) -> Verified {
    let python = environment(place)?.join("bin/python").display().to_string();
    let script = shell::root().join("xtask/suites").join(name).display().to_string();
    let command = Cmd::new(&library.program("mpiexec"))
        .args(["-n", "3", &python])
        .args(options)
        .args([&script])
        .env("MPI4PY_LIBMPI", &library.mpich_abi.display().to_string())
        .limit_s(120);
    let output = text(&command)?;
    let line = output.lines().find(|line| line.contains("sum of squares"));
    line.map(str::to_owned).ok_or(output)
}

pub(super) fn futures(place: &Place, library: &Library) -> Verified {
    script(place, library, &["-m", "mpi4py.futures"], "futures_pool.py")
}

pub(super) fn dask(place: &Place, library: &Library) -> Verified {
    script(place, library, &[], "dask_job.py")
}
