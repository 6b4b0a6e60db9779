//! Processes that are spawned in the middle of a job by `hikyaku run`.

#[path = "support/built.rs"]
mod built;
#[path = "support/rails.rs"]
mod rails;

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
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

/// Two hosts with two networks in common, each of 400 Mbit/s, until the command has ended.
const TWO_HOSTS: &str = r#"
set -e
mount -t tmpfs tmpfs /run
ip netns add a
ip netns add b
for rail in 0 1; do
  ip link add veth$rail netns a type veth peer name veth$rail netns b
  ip -n a address add 10.7$rail.0.1/24 dev veth$rail
  ip -n b address add 10.7$rail.0.2/24 dev veth$rail
  for host in a b; do
    ip -n $host link set lo up
    ip -n $host link set veth$rail up
    tc -n $host qdisc add dev veth$rail root tbf rate 400mbit burst 256kb limit 16mb
  done
done
for rail in 0 1; do
  for host in a b; do
    until ip -n $host link show veth$rail | grep -q "state UP"; do sleep 0.01; done
  done
done
exec "$@"
"#;

/// What takes the place of ssh: runs the command on the host with that address.
const REACH: &str = r#"#!/bin/sh
case $1 in
  10.70.0.1 | a) exec ip netns exec a sh -c "$2" ;;
  10.70.0.2 | b) exec ip netns exec b sh -c "$2" ;;
esac
"#;

/// What the spawned processes of `hosts` say, and those that spawn them, once the shell has done `more` to the two hosts.
/// None: there are no network namespaces here.
fn swap_between(hosts: &str, more: &str) -> Option<String> {
    let script = TWO_HOSTS.replace("exec \"$@\"", &format!("{more}\nexec \"$@\""));
    let outer = "unshare --user --map-root-user --net --mount --pid --fork --kill-child sh -c";
    let outer: Vec<&str> = outer.split(' ').chain([&*script, "sh"]).collect();
    let tried = Command::new(outer[0]).args(&outer[1..]).arg("true").output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        println!("skipped: no network namespaces here");
        return None;
    }
    let reach = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("reach-{}-{}", std::process::id(), hosts.len()));
    fs::write(&reach, REACH).unwrap();
    fs::set_permissions(&reach, fs::Permissions::from_mode(0o700)).unwrap();
    let outer = [&outer[..], &["env", "HIKYAKU_STATS=-"]].concat();
    let ssh = reach.to_str().unwrap();
    let run = ["--timeout", "60", "--host", hosts, "--ssh", ssh];
    let (output, text) = spawn_within(&outer, &run, &["swap"]);
    fs::remove_file(&reach).unwrap();
    assert!(output.status.success(), "{text}");
    Some(text)
}

/// One host has both families, and the other one IPv6 only.
#[test]
fn worlds_on_hosts_of_different_families_reach_each_other() {
    let more = "ip -n a address add fd70::1/64 dev veth0 nodad\nip -n b address add fd70::2/64 dev veth0 nodad\n\
                ip -n b address del 10.70.0.2/24 dev veth0\nip -n b address del 10.71.0.2/24 dev veth1";
    if let Some(text) = swap_between("a,b", more) {
        assert_eq!(text.matches("has swapped").count(), 4, "{text}");
    }
}

#[test]
fn worlds_on_two_hosts_use_all_ways_between_them() {
    let Some(text) = swap_between("10.70.0.1,10.70.0.2", "") else {
        return;
    };
    assert_eq!(text.matches("has swapped").count(), 4, "{text}");
    let all = rails::rails(&text);
    // Processes 0 and 1 have started 2 and 3, one of each on each host.
    for (of, to) in [(0, 3), (3, 0), (1, 2), (2, 1)] {
        let between: Vec<_> = all.iter().filter(|rail| (rail.of, rail.to) == (of, to)).collect();
        let addresses: Vec<_> = between.iter().map(|rail| (rail.number, rail.address.clone())).collect();
        let at = [0, 1].map(|rail| (rail, format!("10.7{rail}.0.{}", 1 + to % 2)));
        assert_eq!(addresses, at, "from {of} to {to}: {text}");
        let are_used = { between.iter() }.all(|rail| rail.is_proven && rail.bytes_sent > 2 << 20);
        assert!(are_used, "from {of} to {to}: {between:?}\n{text}");
    }
}

/// Two worlds of one host use memory as one world does: each process reaches the three others so, and has sent nothing over
/// the network that has to be sent again or waits for acknowledgements.
#[test]
fn worlds_on_one_host_share_memory() {
    for (routes, reached) in [("memory", "memory=3 network=0"), ("network", "")] {
        let outer = ["env", "HIKYAKU_LOG=info", &format!("HIKYAKU_ROUTES={routes}")].map(str::to_owned);
        let outer: Vec<&str> = outer.iter().map(String::as_str).collect();
        let (output, text) = spawn_within(&outer, &[], &["swap"]);
        assert!(output.status.success(), "{text}");
        assert_eq!(text.matches("has swapped").count(), 4, "{text}");
        if reached.is_empty() {
            assert!(!text.contains("routes chosen"), "{text}");
        } else {
            assert_eq!(text.matches(reached).count(), 4, "{text}");
        }
    }
}

/// MPICH's launcher, by both versions of PMI.
#[test]
fn hydra_starts_processes_too() {
    let hydra = |pmi: &str, arguments: &[&str]| {
        let output = Command::new("mpiexec.hydra")
            .args(["-n", "2"])
            .arg(example("spawn"))
            .args(arguments)
            .env("HIKYAKU_BOOTSTRAP", pmi)
            .env(
                "HIKYAKU_BOOTSTRAP_TIMEOUT",
                if arguments.contains(&"-c") { "1" } else { "60" },
            )
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{text}");
        text
    };
    if Command::new("mpiexec.hydra").arg("--version").output().is_err() {
        println!("skipped: no mpiexec.hydra here");
        return;
    }
    for pmi in ["pmi1", "pmi2"] {
        assert!(hydra(pmi, &[]).contains("3 processes of 2 say that pi is 3.141593"));
        assert_eq!(hydra(pmi, &["swap"]).matches("has swapped").count(), 4);
        assert!(hydra(pmi, &["in-turn"]).contains("30 processes, one after another"));
        assert!(hydra(pmi, &["apart"]).contains("the spawned process: MPI_Intercomm_create"));
        let text = hydra(pmi, &["/nowhere/program"]);
        assert!(text.contains("/nowhere/program: No such file"), "{text}");
        assert!(
            text.contains("rank 1: MPI_Comm_spawn") && text.contains("MPI_ERR_SPAWN"),
            "{text}"
        );
        let text = hydra(pmi, &["sh", "-c", "exit 3"]);
        assert!(text.contains("nothing came within 1 s"), "{text}");
    }
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
