//! Configures network namespaces, by the commands of iproute2.

use std::process::Command;

use crate::failure::Failure;

/// Runs `ip` or `tc` with these words, for the benchmark of this name, whose needs the error says.
pub(crate) fn configure(benchmark: &str, program: &str, words: &str) -> Result<(), Failure> {
    let output = Command::new(program).args(words.split_whitespace()).output();
    let output =
        output.map_err(|error| Failure::usage(format!("bench {benchmark} needs iproute2 ({program}: {error})")))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "bench {benchmark} needs root, and network namespaces with bridges, veth pairs and tbf; `{program} {words}` \
             says: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}
