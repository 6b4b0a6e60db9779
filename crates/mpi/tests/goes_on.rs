//! Jobs that go on without ranks that have failed (`hikyaku run --on-failure continue`), or have ended MPI before the others.

#[path = "support/built.rs"]
mod built;

use std::{
    env, fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use built::{example, launcher};

/// No rank notices another's silence in this time: one that knows of a loss has been told by the launcher.
const SILENCE: Duration = Duration::from_secs(60);

struct Job {
    child: Child,
    stdout: BufReader<ChildStdout>,
    begun: Instant,
}

/// The example `lost` in a job with these options.
fn start(options: &[&str], how: &str) -> Job {
    let silence = format!("{}s", SILENCE.as_secs());
    let mut child = Command::new(launcher())
        .args(["run", "--on-failure", "continue"])
        .args(options)
        .arg(example("lost"))
        .arg(how)
        .env("HIKYAKU_DEATH_TIMEOUT", &silence)
        .env("HIKYAKU_KEEPALIVE", &silence)
        .env("HIKYAKU_LOG", "warn")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Job {
        stdout: BufReader::new(child.stdout.take().unwrap()),
        child,
        begun: Instant::now(),
    }
}

impl Job {
    /// The process ids of so many ranks in trouble, which say them first.
    fn victims(&mut self, count: usize) -> Vec<String> {
        let mut pid = || {
            let mut line = String::new();
            self.stdout.read_line(&mut line).unwrap();
            let (_, pid) = line
                .trim()
                .split_once(" pid ")
                .unwrap_or_else(|| panic!("no victim: {line}"));
            pid.to_owned()
        };
        (0..count).map(|_| pid()).collect()
    }

    /// Exit code, and what was printed on standard output and standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).unwrap();
        let output = self.child.wait_with_output().unwrap();
        assert!(self.begun.elapsed() < SILENCE, "they were not told");
        (
            output.status.code(),
            said,
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }
}

fn kill(pids: &[String]) {
    assert!(Command::new("kill").arg("-KILL").args(pids).status().unwrap().success());
}

/// Those that are left have missed these, have gone on, and have ended as if nothing were.
fn check(said: &str, errors: &str, size: u32, lost: &[u32]) {
    for rank in (0..size).filter(|rank| !lost.contains(rank)) {
        for missed in lost {
            let failed = format!("rank {rank}: ProcFailed: MPI_Recv with rank {missed} on communicator 0");
            assert!(said.contains(&failed), "{failed}\n{said}{errors}");
        }
        let left = format!("rank {rank}: {} are left", size - lost.len() as u32);
        assert!(said.contains(&left), "{left}\n{said}{errors}");
    }
    assert!(!errors.contains("ending MPI"), "{errors}");
    let lost: Vec<String> = lost.iter().map(u32::to_string).collect();
    let plural = if lost.len() == 1 { "" } else { "s" };
    let last = format!(
        "hikyaku run: {} of {size} ranks failed: rank{plural} {}",
        lost.len(),
        lost.join(", ")
    );
    assert_eq!(errors.lines().last(), Some(last.as_str()), "{errors}");
}

#[test]
fn without_one_that_is_killed() {
    let mut job = start(&["-n", "4"], "receive");
    let victims = job.victims(1);
    kill(&victims);
    let (code, said, errors) = job.end();
    assert_eq!(code, Some(137), "{errors}");
    let cause = format!(
        "rank 3 (pid {} on localhost): killed by signal 9 (SIGKILL); the others go on",
        victims[0]
    );
    assert!(errors.contains(&cause), "{errors}");
    for rank in 0..3 {
        let event = format!(" WARN hikyaku::mpi::engine::core::losses: rank lost rank={rank} lost=3 error=");
        assert_eq!(errors.matches(&event).count(), 1, "{errors}");
    }
    check(&said, &errors, 4, &[3]);
}

#[test]
fn without_one_that_leaves() {
    let mut job = start(&["-n", "3"], "leave");
    let victims = job.victims(1);
    let (code, said, errors) = job.end();
    assert_eq!(code, Some(1), "{errors}");
    let cause = format!(
        "rank 2 (pid {} on localhost): exited without finalize; the others go on",
        victims[0]
    );
    assert!(errors.contains(&cause), "{errors}");
    assert!(
        said.contains("rank 0: 2 are left") && said.contains("rank 1: 2 are left"),
        "{said}{errors}"
    );
    assert_eq!(errors.lines().last(), Some("hikyaku run: 1 of 3 ranks failed: rank 2"));
}

/// No rank has a sum to which the one that has left would have had to add; nobody has failed, so the job ends well.
#[test]
fn without_one_that_ends_mpi() {
    for size in [3, 4, 7] {
        for how in [&["run"][..], &["run", "--on-failure", "continue"]] {
            let output = Command::new(launcher())
                .args(how)
                .args(["-n", &size.to_string(), "--bind-to", "none"])
                .arg(example("lost"))
                .arg("finalize")
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            let well = output.status.success() && !errors.contains("fail") && !errors.contains("ending MPI");
            assert!(well, "{said}{errors}");
            for rank in 0..size - 1 {
                let missed = format!("rank {rank}: ProcFailed: MPI_Allreduce with rank {}", size - 1);
                assert!(said.contains(&missed), "{missed}\n{said}");
                let left = format!("rank {rank}: {} are left", size - 1);
                assert!(said.contains(&left), "{left}\n{said}");
            }
        }
    }
}

#[test]
fn without_several_of_two_hosts_that_are_killed_at_once() {
    let ssh = fake_ssh();
    let mut job = start(
        &[
            "--host",
            "nodea:3,nodeb:4",
            "--bind-to",
            "none",
            "--ssh",
            ssh.to_str().unwrap(),
        ],
        "several",
    );
    let victims = job.victims(3);
    kill(&victims);
    let (code, said, errors) = job.end();
    fs::remove_file(ssh).unwrap();
    assert_eq!(code, Some(137), "{errors}");
    assert_eq!(errors.matches("; the others go on").count(), 3, "{errors}");
    check(&said, &errors, 7, &[1, 3, 5]);
}

/// A stand-in for ssh: it starts the processes of other hosts on this one.
fn fake_ssh() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ssh-{}", std::process::id()));
    let script = "#!/bin/sh\nshift; export SSH_CONNECTION='127.0.0.1 50000 127.0.0.1 22'; exec sh -c \"$*\"\n";
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A mistake of all ranks is reported once, although each of them fails because of it.
#[test]
fn a_mistake_of_the_whole_job_is_said_once() {
    let output = Command::new(launcher())
        .args(["run", "-n", "8", "--backend", "udq"])
        .arg(example("simple"))
        // A backtrace is of one rank.
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert_eq!(said.matches("\"udq\"").count(), 1, "{said}");
    assert!(said.contains("beginning MPI: "), "{said}");
}
