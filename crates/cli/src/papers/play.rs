//! Runs the commands of the table.

use std::{
    collections::BTreeMap,
    env,
    io::Read,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use hikyaku_bench::{
    failure::{Failure, While},
    report::{Output, Progress},
};
use serde::Serialize;

use super::parts::Part;

/// No command may take longer.
const LIMIT: Duration = Duration::from_secs(600);
/// Lines of an error that are kept.
const LINES: usize = 5;

/// What became of a command.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Played {
    /// It has run: its time, and what it printed (of ours, its JSON).
    Ran { seconds: f64, result: serde_json::Value },
    /// It failed, or took too long.
    Failed { seconds: f64, error: String },
    /// It was not run, and why.
    Skipped { because: String },
}

impl Played {
    pub(super) const fn has_failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    pub(super) fn summary(&self) -> String {
        match self {
            Self::Ran { seconds, .. } => format!("{seconds:.1} s; the result is in --format json"),
            Self::Failed { seconds, error } => format!("failed after {seconds:.1} s: {error}"),
            Self::Skipped { because } => format!("no: {because}"),
        }
    }
}

/// Whether a command needs a part that this build does not have.
pub(super) fn is_absent(command: &str) -> bool {
    !cfg!(feature = "dpdk") && (command.contains("dpdk ") || command.contains("overflow"))
        || !cfg!(feature = "sim") && command.starts_with("hikyaku sim")
}

/// Runs each command once; gives what became of those of each part, in order.
pub(super) fn play(parts: &[&Part], checkout: Option<&Path>, output: &Output) -> Result<Vec<Played>, Failure> {
    let mut done: BTreeMap<&str, Played> = BTreeMap::new();
    let mut different: Vec<&str> = parts.iter().map(|part| part.command).collect();
    different.sort_unstable();
    different.dedup();
    let mut progress = Progress::new(output.progress, different.len());
    let mut all = Vec::new();
    for part in parts {
        if !done.contains_key(part.command) {
            progress.step(part.command, 0);
            done.insert(part.command, once(part.command, checkout)?);
        }
        all.extend(done.get(part.command).cloned());
    }
    Ok(all)
}

fn once(line: &str, checkout: Option<&Path>) -> Result<Played, Failure> {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default();
    let mut command = match (program, checkout) {
        ("hikyaku", _) if is_absent(line) => {
            let because = "this build has no feature dpdk or sim".into();
            return Ok(Played::Skipped { because });
        }
        ("hikyaku", _) => {
            let mut command = Command::new(env::current_exe().or_fail("this program")?);
            command.args(words).args(["--format", "json"]);
            command
        }
        (program, Some(checkout)) => {
            let mut command = Command::new(program);
            command.args(words).current_dir(checkout);
            command
        }
        (_, None) => {
            let because = "it needs a checkout of the project (--checkout DIR)".into();
            return Ok(Played::Skipped { because });
        }
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.spawn().or_fail(line)?;
    let out = reader(child.stdout.take());
    let err = reader(child.stderr.take());
    // It closes its output when it ends.
    let printed = out.recv_timeout(LIMIT);
    if printed.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().or_fail(line)?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(match printed {
        Ok(out) if status.success() => Played::Ran {
            seconds,
            result: serde_json::from_str(&out).unwrap_or(serde_json::Value::String(out)),
        },
        Ok(_) => {
            let error = last_lines(&err.recv().unwrap_or_default());
            // A command that is called rightly, as a test sees to, and cannot do its work here.
            if status.code() == Some(2) && error.contains(" needs ") {
                return Ok(Played::Skipped { because: error });
            }
            Played::Failed {
                seconds,
                error: format!("{status}: {error}"),
            }
        }
        Err(_) => Played::Failed {
            seconds,
            error: format!("it takes longer than {LIMIT:?}"),
        },
    })
}

/// Reads all of a stream, which is given when it ends.
fn reader(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What came before an error is what there is.
            let _ = stream.read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}
