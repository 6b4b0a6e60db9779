//! How things are looked at: files, folders and programs of the machine.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A file of the kernel, trimmed; empty if it cannot be read.
pub(super) fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

/// Names in a folder, sorted; none if it cannot be read.
pub(super) fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Where a program is, as a shell would find it; administrators' folders count.
pub(super) fn which(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// The output of a program; `None` if it is not installed or fails.
pub(super) fn ask(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(which(program)?).args(args).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
