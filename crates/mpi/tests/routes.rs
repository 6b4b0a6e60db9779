//! Ranks of one host that are processes, and reach each other through memory: all of them, and some.
#![cfg(all(feature = "shm", feature = "events", target_os = "linux"))]

#[path = "support/built.rs"]
mod built;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use built::{example, launcher};

/// No rank notices another's silence in this time.
const SILENCE: &str = "60s";

/// A job whose ranks say how they reach each other.
fn job(options: &[&str]) -> Command {
    let mut command = Command::new(launcher());
    command
        .arg("run")
        .args(options)
        .env("HIKYAKU_LOG", "info")
        .env("HIKYAKU_DEATH_TIMEOUT", SILENCE)
        .env("HIKYAKU_KEEPALIVE", SILENCE)
        .stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    let both = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Runs an example as so many ranks, all of which reach all others through memory.
fn through_memory(ranks: usize, program: &[&str]) {
    let [name, arguments @ ..] = program else {
        panic!("no program")
    };
    let output = job(&["-n", &ranks.to_string(), "--env", "HIKYAKU_ROUTES=memory"])
        .arg(example(name))
        .args(arguments)
        .output()
        .unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{program:?}\n{said}");
    let chosen = format!("routes chosen memory={} network=0", ranks - 1);
    assert_eq!(said.matches(&chosen).count(), ranks, "{program:?}\n{said}");
    assert!(!said.contains("WARN"), "{said}");
}

const PROGRAMS: [&[&str]; 10] = [
    &["send_receive"],
    &["immediate_multiple_requests"],
    &["matched_probe"],
    &["buffered"],
    &["structured"],
    &["window"],
    &["intercommunicator"],
    &["sizes", "3000", "30"],
    &["ft", "16"],
    &["halo", "9", "3"],
];

#[test]
fn two_ranks() {
    PROGRAMS.into_iter().for_each(|program| through_memory(2, program));
}

#[test]
fn four_ranks() {
    PROGRAMS.into_iter().for_each(|program| through_memory(4, program));
}

#[test]
fn eight_ranks() {
    PROGRAMS.into_iter().for_each(|program| through_memory(8, program));
}

/// Two pairs of ranks: one reaches each other through memory, all others over the network.
#[test]
fn some_of_the_ranks() {
    for program in PROGRAMS {
        let [name, arguments @ ..] = program else {
            panic!("no program")
        };
        let program = example(name);
        let (program, arguments) = (program.to_str().unwrap(), arguments.iter().copied());
        let mut both: Vec<&str> = vec![program];
        both.extend(arguments.clone());
        both.extend([":", "-n", "2", "--env", "HIKYAKU_ROUTES=network", program]);
        both.extend(arguments);
        let output = job(&["-n", "2", "--env", "HIKYAKU_ROUTES=auto"])
            .args(&both)
            .output()
            .unwrap();
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches("routes chosen memory=1 network=2").count(), 2, "{said}");
    }
}

fn lost(routes: &str) -> Child {
    job(&["-n", "4", "--on-failure", "continue", "--env", routes])
        .arg(example("lost"))
        .arg("receive")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The process id that a rank in trouble says.
fn victim(job: &mut Child) -> (String, String) {
    let mut output = BufReader::new(job.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let pid = line.trim().split_once(" pid ").unwrap().1.to_owned();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    (pid, rest)
}

/// A rank that is killed is missed at once, and the others go on.
#[test]
fn a_rank_that_is_killed_is_missed() {
    let begun = Instant::now();
    let mut job = lost("HIKYAKU_ROUTES=memory");
    let (_, said) = victim(&mut job);
    let errors = job.wait_with_output().unwrap().stderr;
    let errors = String::from_utf8_lossy(&errors);
    for rank in 0..3 {
        let failed = format!("rank {rank}: ProcFailed: MPI_Recv with rank 3 on communicator 0");
        assert!(
            said.contains(&failed) && said.contains(&format!("rank {rank}: 3 are left")),
            "{said}{errors}"
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// Sockets of entrances, of all processes.
fn entrances() -> Vec<String> {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    let names = sockets.lines().filter_map(|line| line.split_whitespace().nth(7));
    names
        .filter(|name| name.starts_with("@hikyaku-"))
        .map(str::to_owned)
        .collect()
}

/// Memory has no name in a file system, and the entrances are closed when all have met.
#[test]
fn nothing_has_a_name() {
    let shared = || {
        let names = fs::read_dir("/dev/shm").map(|names| names.flatten().map(|name| name.file_name()).collect());
        names.unwrap_or_else(|_| Vec::new())
    };
    let before = shared();
    let mut job = lost("HIKYAKU_ROUTES=memory");
    victim(&mut job);
    job.wait().unwrap();
    let new: Vec<_> = shared().into_iter().filter(|name| !before.contains(name)).collect();
    assert!(
        !new.iter().any(|name| name.to_string_lossy().contains("hikyaku")),
        "{new:?}"
    );
    // Other tests may be starting jobs, whose entrances close soon.
    let end = Instant::now() + Duration::from_secs(20);
    let mine = entrances();
    while mine.iter().any(|name| entrances().contains(name)) {
        assert!(Instant::now() < end, "{mine:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_rank_that_is_alone_needs_no_memory() {
    through_memory(1, &["simple"]);
}
