//! Two pollers on this machine whose ports are the ends of a memif, and ranks behind them in turns.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    thread,
};

use crate::shell::{Cmd, built};

/// The part of a rank's command line that gives it the poller of its end: `$0` is the folder of the sockets.
const BESIDE: &str = r#"HIKYAKU_POLLER=$0/p$((HIKYAKU_RANK % 2)) exec taskset -c $((HIKYAKU_RANK % 2)) "$@""#;
const ANYWHERE: &str = r#"HIKYAKU_POLLER=$0/p$((HIKYAKU_RANK % 2)) exec "$@""#;

/// Killed when it is dropped.
pub(super) struct Pollers {
    children: Vec<Child>,
    folder: PathBuf,
    shares: bool,
    /// Ranks have queues of the port for large messages.
    queues: bool,
}

/// Whether pollers and so many ranks share CPUs. Then ranks sleep while they wait, and the pollers poll in the time that
/// the ranks leave (`SCHED_IDLE`): otherwise each would wait for the end of another one's time slice.
pub(super) fn share(ranks: u32) -> bool {
    cpus() < ranks as usize + 2
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

impl Pollers {
    /// Starts them for a job of so many ranks, with `queues` of the port for each of these, or without.
    pub(super) fn start(ranks: u32, queues: bool) -> Result<Self, String> {
        let folder = env::temp_dir().join(format!("hikyaku-bench-dpdk-{}", process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut pollers = Self {
            children: Vec::new(),
            folder,
            shares: share(ranks),
            queues,
        };
        for (end, role) in ["server", "client"].into_iter().enumerate() {
            let child = pollers.one(end, role).map_err(|error| format!("a poller: {error}"))?;
            pollers.children.push(child);
        }
        Ok(pollers)
    }

    fn one(&self, end: usize, role: &str) -> Result<Child, String> {
        let (cpu, idle) = match self.shares {
            true => (end % cpus(), &["chrt", "--idle", "0"][..]),
            false => (cpus() - 1 - end, &[][..]),
        };
        let cpu = cpu.to_string();
        let pinned = ["taskset", "-c", &cpu];
        let mut words = idle.iter().chain(&pinned);
        let folder = self.folder.display();
        let mut child = Command::new(words.next().unwrap_or(&"taskset"))
            .args(words)
            .arg(built("release/hikyaku"))
            .args(["poller", "--wait", "spin", "--address", &format!("10.99.0.{}", 1 + end)])
            .args(["--device", &format!("memif:socket={folder}/link,role={role}")])
            .args(["--socket", &format!("{folder}/p{end}")])
            .args(["--bulk-queues", if self.queues { "2" } else { "0" }])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut line = String::new();
        let said = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        match said {
            Some(Ok(_)) if line.contains("HIKYAKU_POLLER=") => Ok(child),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("does not start: {line}"))
            }
        }
    }

    /// Has `run`, a command of `hikyaku run` without its program, start a program whose ranks are behind the pollers.
    pub(super) fn ranks(&self, run: Cmd, program: &[String]) -> Cmd {
        let (wait, script) = match self.shares {
            true => ("block", BESIDE),
            false => ("spin", ANYWHERE),
        };
        run.env("HIKYAKU_WAIT", wait)
            .args([
                "--backend",
                "poller",
                "sh",
                "-c",
                script,
                &self.folder.display().to_string(),
            ])
            .args(program)
    }
}

impl Drop for Pollers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
