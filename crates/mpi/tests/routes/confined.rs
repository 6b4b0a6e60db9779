//! Ranks in containers, with little memory, and ranks that are stopped.

use std::{
    fs,
    io::{BufRead, Read},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    time::Duration,
};

use super::{SILENCE, example, is_root, job, kill, mixed, said, victim};

/// Returns whether a command works here.
fn works(command: &[&str]) -> bool {
    let status = Command::new(command[0])
        .args(&command[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Each in a container of its own, but for the network: with its own files, process numbers, host name, and `/dev/shm`.
#[test]
fn containers_of_one_network_share_memory() {
    if !is_root() {
        return eprintln!("skipped: not root");
    }
    let enter = "mount -t tmpfs -o size=64m tmpfs /dev/shm && hostname box && exec \"$@\"";
    let kinds = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--cgroup"];
    let wrapped = [&kinds[..], &["--fork", "--mount-proc", "sh", "-c", enter, "sh"]].concat();
    if !works(&[&wrapped[..], &["true"]].concat()) {
        return eprintln!("skipped: no containers here");
    }
    for (program, arguments) in [("send_receive", &[][..]), ("window", &[]), ("sizes", &["3000", "30"])] {
        let program = example(program);
        let output = job(&["-n", "3", "--env", "HIKYAKU_ROUTES=memory"])
            .args(&wrapped)
            .arg(program)
            .args(arguments)
            .output()
            .unwrap();
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches("routes chosen memory=2 network=0").count(), 3, "{said}");
    }
}

/// Memory in common is no locked memory, and takes nothing of `/dev/shm`.
#[test]
fn no_locked_memory_is_needed() {
    let wrapped = ["sh", "-c", "ulimit -l 0 && exec \"$@\"", "sh"];
    let output = mixed(&[], &wrapped, &example("send_receive"));
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("routes chosen memory=3 network=0").count(), 4, "{said}");
}

/// A control group with so many bytes of memory.
struct Group(PathBuf);

impl Group {
    fn with(bytes: u64) -> Option<Self> {
        let name = format!("hikyaku-{}", process::id());
        let places = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        places.into_iter().find_map(|(root, limit)| {
            let path = Path::new(root).join(&name);
            fs::create_dir(&path).ok()?;
            let group = Self(path);
            fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            // Without this, a system that swaps has more.
            let _ = fs::write(group.0.join("memory.swap.max"), "0");
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The kernel ends a rank for which there is no memory left, in the middle of messages; the others are told which one.
#[test]
fn a_rank_without_memory_is_missed() {
    let group = if is_root() { Group::with(64 << 20) } else { None };
    let Some(group) = group else {
        return eprintln!("skipped: no control group of its own here");
    };
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
    let program = example("lost");
    let program = program.to_str().unwrap();
    let output = job(&["--on-failure", "continue", "-n", "3", program, "memory", ":", "-n", "1"])
        .args(["sh", "-c", &enter, "sh", program, "memory"])
        .output()
        .unwrap();
    let said = said(&output);
    assert!(!said.contains("there is no limit"), "{said}");
    for rank in 0..3 {
        let failed = format!("rank {rank}: ProcFailed: MPI_Recv with rank 3 on communicator 0");
        assert!(said.contains(&failed), "{said}");
        assert!(said.contains(&format!("rank {rank}: 3 are left")), "{said}");
    }
}

/// All pairs of 256 ranks have memory in common then.
#[test]
#[ignore = "256 processes: cargo xtask ci"]
fn an_alltoall_of_256_ranks_takes_less_than_a_gigabyte() {
    let mut job = job(&["-n", "256", "--timeout", "280", "--env", "HIKYAKU_ROUTES=memory"]);
    job.env("HIKYAKU_LOG", "warn").env("HIKYAKU_ALLTOALL", "pairwise");
    let output = job.arg(example("memory")).output().unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let (_, numbers) = said.split_once("256 ranks take ").expect(&said);
    let (all, shared) = numbers.split_once(" MB, ").expect(&said);
    let shared: u64 = shared.split_once(" MB").expect(&said).0.parse().unwrap();
    println!("{shared} MB in common, {all} MB in all");
    assert!(shared > 0 && shared < 1_000, "{said}");
}

/// A job whose last rank waits to be stopped, until a file is there.
fn stoppable(options: &[&str], death: &str, until: &Path) -> Child {
    let _ = fs::remove_file(until);
    job(&[&["-n", "3"], options].concat())
        .env("HIKYAKU_DEATH_TIMEOUT", death)
        .arg(example("lost"))
        .arg("stopped")
        .arg(until)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn go_on(pid: &str, until: &Path) {
    fs::write(until, "").unwrap();
    kill("-CONT", pid);
}

/// A rank that is stopped, and reads nothing, is given up like one that is silent over the network. When it goes on, it
/// learns of it, and does not wait for ever.
#[test]
fn a_rank_that_is_stopped_is_missed() {
    let until = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stopped");
    let mut job = stoppable(&["--on-failure", "continue"], "500ms", &until);
    let (mut output, pid) = victim(&mut job);
    kill("-STOP", &pid);
    let mut said = String::new();
    while said.matches(" are left").count() < 2 && output.read_line(&mut said).unwrap() > 0 {}
    go_on(&pid, &until);
    output.read_to_string(&mut said).unwrap();
    let errors = job.wait_with_output().unwrap().stderr;
    let errors = String::from_utf8_lossy(&errors);
    for rank in 0..2 {
        let failed = format!("rank {rank}: ProcFailed: MPI_Recv with rank 2 on communicator 0");
        assert!(said.contains(&failed), "{said}{errors}");
    }
    assert!(said.contains("rank 2: given up: ProcFailed"), "{said}{errors}");
}

/// One that is stopped for less goes on as if nothing had been.
#[test]
fn a_rank_that_goes_on_in_time_is_not_missed() {
    let until = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("goes-on");
    let mut job = stoppable(&[], SILENCE, &until);
    let (mut output, pid) = victim(&mut job);
    kill("-STOP", &pid);
    std::thread::sleep(Duration::from_secs(2));
    go_on(&pid, &until);
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    let status = job.wait().unwrap();
    assert!(
        status.success() && said.matches("nobody is lost").count() == 3,
        "{said}"
    );
}
