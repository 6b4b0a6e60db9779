//! A program in C over the library as cargo has built it for tests.

use std::{
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use super::super::{Dir, PROGRAM};

/// A compiled program.
pub(super) struct Program(Dir);

impl Program {
    /// Compiles it, if there is a compiler and the library.
    pub(super) fn compiled() -> Option<Self> {
        let library = Path::new(PROGRAM).with_file_name("libmpi_abi.so");
        let compiler = Command::new("cc").arg("--version").stdout(Stdio::null()).status();
        if compiler.is_err() || !library.exists() {
            println!("skipped: no cc here, or no libmpi_abi.so: cargo build -p hikyaku-capi-abi");
            return None;
        }
        let dir = Dir::new("program");
        symlink(&library, dir.path("libmpi_abi.so.1")).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = Command::new("cc");
        command.arg(root.join("xtask/suites/program.c"));
        command.arg("-I").arg(root.join("crates/capi/include"));
        command.args(["-o", &dir.path("program"), &dir.path("libmpi_abi.so.1")]);
        command.arg(format!("-Wl,-rpath,{}", dir.path("")));
        assert!(command.status().unwrap().success(), "{command:?}");
        Some(Self(dir))
    }

    pub(super) fn path(&self) -> String {
        self.0.path("program")
    }
}
