//! Parts that are played in processes of their own: this test binary once more, to run only the test `part`.

use std::{env, process::Command, time::Duration};

use super::netns::{Process, ROLE};

/// The command that starts the part `role` here, and not in a namespace.
pub(crate) fn command(role: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env::current_exe().expect("a test knows its binary"));
    command
        .args([
            "--exact",
            "part",
            "--include-ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .envs(variables.iter().copied())
        .env(ROLE, role);
    command
}

/// Starts the part `role`.
pub(crate) fn start(role: &str, variables: &[(&str, &str)]) -> Process {
    Process::spawn(command(role, variables))
}

/// Waits for the end of a part, and gives what it has printed.
///
/// # Panics
///
/// If it fails, or does not end within `limit`.
pub(crate) fn finish(process: Process, limit: Duration) -> String {
    let (status, output) = process.finish(limit);
    assert!(status.success(), "{output}");
    output
}
