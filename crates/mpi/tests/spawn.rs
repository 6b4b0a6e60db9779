//! Processes that are spawned in the middle of a job by `hikyaku run`.

#[path = "support/built.rs"]
mod built;

use std::{
    ffi::OsString,
    process::{Command, Output, Stdio},
};

use built::{example, launcher};

/// Runs the example with these arguments as two ranks; gives the output, standard output and standard error in one.
fn spawn(run: &[&str], arguments: &[&str]) -> (Output, String) {
    spawn_within(&[], run, arguments)
}

/// The same, by a command that runs another.
fn spawn_within(outer: &[&str], run: &[&str], arguments: &[&str]) -> (Output, String) {
    start("spawn", outer, run, arguments)
}

/// The same for any example.
fn start(name: &str, outer: &[&str], run: &[&str], arguments: &[&str]) -> (Output, String) {
    let mut words: Vec<OsString> = outer.iter().map(OsString::from).collect();
    words.push(launcher().into());
    let output = Command::new(&words[0])
        .args(&words[1..])
        .args(["run", "-n", "2"])
        .args(run)
        .arg(example(name))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output, text)
}

#[test]
fn spawned_processes_are_numbered_through_the_job() {
    let (output, text) = spawn(&["--tag-output", "--report-bindings"], &[]);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("3 processes of 2 say that pi is 3.141593"), "{text}");
    for rank in 0..5 {
        assert!(text.contains(&format!("rank {rank} (pid ")), "{text}");
    }
}

/// Seven times, for seven pieces of work; the memory lies at all processes, old and new.
#[test]
fn a_shared_memory_creates_its_processes() {
    let (output, text) = start("dse", &[], &["--tag-output", "--report-bindings"], &["3", "20"]);
    assert!(output.status.success(), "{text}");
    let results = "20x20 matrices, multiplied by 5 processes: as by one; 1728 knight's tours of 5x5 squares; \
                   21 processes were created, 3 at a time";
    assert!(text.contains(results), "{text}");
    for rank in 0..2 + 21 {
        assert!(text.contains(&format!("rank {rank} (pid ")), "{text}");
    }
}

#[test]
fn a_program_that_cannot_be_started_is_an_error_and_the_job_goes_on() {
    let (output, text) = spawn(&[], &["/nowhere/program"]);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("rank 0: MPI_Comm_spawn: ") && text.contains("/nowhere/program: No such file"),
        "{text}"
    );
    assert!(
        text.contains("rank 1: MPI_Comm_spawn") && text.contains("MPI_ERR_SPAWN"),
        "{text}"
    );
}

#[test]
fn a_spawned_process_that_fails_ends_the_job() {
    let (output, text) = spawn(&[], &["sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("exited with code 3"), "{text}");
}

/// Ranks that do not know a process are told so; one that was spawned spawns another.
#[test]
fn a_process_that_only_one_rank_knows_is_in_no_communicator_of_all() {
    let (output, text) = spawn(&[], &["apart"]);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("the spawned process: MPI_Intercomm_create"), "{text}");
}

/// Each of the processes that ends with success may be the first one.
#[test]
fn a_spawned_process_must_begin_mpi() {
    let (output, text) = spawn(&[], &["true"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("exited without joining the job as others have"), "{text}");
}

/// There are few ports, so that some processes have the address of one that has ended. (TCP needs some for a while, too.)
#[test]
fn a_process_may_have_the_address_of_one_that_has_ended() {
    let enter = "ip link set lo up && echo 40000 40079 > /proc/sys/net/ipv4/ip_local_port_range && exec \"$@\"";
    let outer = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", enter, "sh"];
    let mut tried = Command::new(outer[0]);
    tried.args(&outer[1..]).arg("true");
    if !tried.status().is_ok_and(|status| status.success()) {
        println!("skipped: no network namespaces here");
        return;
    }
    // By one way, and by two.
    for ways in ["127.0.0.1", "127.0.0.1,127.0.0.2"] {
        let iface = format!("HIKYAKU_IFACE={ways}");
        let outer = [&outer[..], &["env", &iface]].concat();
        let (output, text) = spawn_within(&outer, &[], &["in-turn"]);
        assert!(output.status.success(), "{ways}: {text}");
        assert!(text.contains("30 processes, one after another"), "{ways}: {text}");
    }
}
