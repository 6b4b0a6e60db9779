//! Ranks that die, leave or compute for long, under `hikyaku run`: what the launcher says, and what the others see.

#[path = "support/built.rs"]
mod built;

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use built::{example, launcher};

/// How long a silent rank is waited for.
const DEATH: &str = "300ms";

/// A job of the example `lost`. Its ranks ignore SIGTERM, so that those that are left have time to say what they see
/// before the launcher kills them.
fn job(size: u32, how: &[&str], settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(launcher());
    command
        .args([
            "run",
            "-n",
            &size.to_string(),
            "sh",
            "-c",
            "trap '' TERM; exec \"$@\"",
            "sh",
        ])
        .arg(example("lost"))
        .args(how)
        .envs(settings.iter().copied())
        .stdin(Stdio::null());
    command
}

/// Starts a job whose last rank says its process id; gives that, too.
fn victim(size: u32, how: &str) -> (Child, BufReader<impl Read>, String) {
    let settings = [("HIKYAKU_DEATH_TIMEOUT", DEATH), ("HIKYAKU_KEEPALIVE", "100ms")];
    let mut command = job(size, &[how], &settings);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let Some(pid) = line.trim().strip_prefix(&format!("rank {} pid ", size - 1)) else {
        panic!("not the last rank: {line}");
    };
    (child, stdout, pid.to_owned())
}

fn end(child: Child, mut stdout: impl Read) -> (Option<i32>, String, String) {
    let mut said = String::new();
    stdout.read_to_string(&mut said).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said, errors)
}

/// Every rank but the last has had this call fail with the last one's rank, and goes on with the others.
fn check_survivors(size: u32, call: &str, said: &str, errors: &str) {
    let (last, left) = (size - 1, size - 1);
    for rank in 0..last {
        let failed =
            format!("rank {rank}: ProcFailed: {call} with rank {last} on communicator 0: a process has failed");
        assert!(said.contains(&failed), "{failed}\n{said}{errors}");
        assert!(
            said.contains(&format!("rank {rank}: {left} are left")),
            "{said}{errors}"
        );
    }
}

fn killed(size: u32, how: &str, call: &str) {
    let (child, stdout, pid) = victim(size, how);
    let kill = Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    assert!(kill.success());
    let (code, said, errors) = end(child, stdout);
    let cause = format!(
        "rank {} (pid {pid} on localhost): killed by signal 9 (SIGKILL)",
        size - 1
    );
    assert!(errors.contains(&cause), "{errors}");
    assert_eq!(code, Some(137), "{errors}");
    check_survivors(size, call, &said, &errors);
}

#[test]
fn killed_while_others_are_in_a_barrier() {
    killed(2, "barrier", "MPI_Barrier");
    killed(4, "barrier", "MPI_Barrier");
}

#[test]
fn killed_while_others_receive_from_it() {
    killed(4, "receive", "MPI_Recv");
}

#[test]
fn killed_while_others_probe_for_its_messages() {
    killed(4, "probe", "MPI_Mprobe");
}

#[test]
fn killed_while_others_are_in_a_large_reduction() {
    killed(4, "collective", "MPI_Allreduce");
    killed(5, "collective", "MPI_Allreduce");
}

/// Most of its time goes to copying messages into memory in common: as a rule it is killed in the middle of one.
#[test]
fn killed_while_it_sends_long_messages() {
    for _ in 0..4 {
        killed(2, "stream", "MPI_Recv");
    }
    killed(4, "stream", "MPI_Recv");
}

#[test]
fn who_leaves_without_finalizing_is_lost() {
    let (child, stdout, pid) = victim(4, "leave");
    let (code, said, errors) = end(child, stdout);
    let cause = format!("rank 3 (pid {pid} on localhost): exited without finalize");
    assert!(errors.contains(&cause), "{errors}");
    assert_eq!(code, Some(1), "{errors}");
    check_survivors(4, "MPI_Barrier", &said, &errors);
}

/// A rank that computes for so long is only late: its messages are acknowledged meanwhile.
fn computes(time: Duration, settings: &[(&str, &str)]) {
    let time = time.as_millis().to_string();
    let Output { status, stdout, stderr } = job(3, &["compute", &time], settings).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{said}{errors}");
    for rank in 0..2 {
        assert!(said.contains(&format!("rank {rank}: nobody is lost")), "{said}{errors}");
    }
}

#[test]
fn who_computes_for_long_is_not_lost() {
    let settings = [("HIKYAKU_DEATH_TIMEOUT", DEATH), ("HIKYAKU_KEEPALIVE", "100ms")];
    computes(Duration::from_millis(1_500), &settings);
}

#[test]
#[ignore = "needs 10 s: cargo xtask launchers"]
fn who_computes_for_longer_than_the_usual_limit_is_not_lost() {
    computes(Duration::from_secs(10), &[]);
}

/// Nothing is set: the usual limits are shorter than what the launcher gives those that are left.
#[test]
#[ignore = "needs some seconds: cargo xtask launchers"]
fn an_idle_rank_that_is_killed_is_noticed_in_time() {
    let mut child = job(3, &["receive"], &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let pid = line.trim().strip_prefix("rank 2 pid ").unwrap();
    assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
    let (_, said, errors) = end(child, stdout);
    check_survivors(3, "MPI_Recv", &said, &errors);
}

/// Starting several processes with a backend that works only within one gives an error that says so.
#[test]
fn loopback_does_not_reach_another_process() {
    let job = |size: &str| {
        let mut command = Command::new(launcher());
        command
            .args(["run", "-n", size, "--backend", "loopback"])
            .arg(example("simple"));
        command.stdin(Stdio::null()).output().unwrap()
    };
    let refused = job("2");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("beginning MPI: the backend loopback carries nothing between processes"),
        "{said}"
    );
    assert!(!refused.status.success());
    assert!(job("1").status.success());
}
