//! Programs without the kernel: ranks whose messages go through DPDK's virtual devices, started by `hikyaku run`.

#[path = "support/built.rs"]
mod built;
#[path = "support/rails.rs"]
mod rails;

use std::process::{Command, Output, Stdio};

use built::{example, launcher};

/// The output of programs that compare their result with that of one process.
const RIGHT: &str = "as in one process";

/// Starts an example as so many ranks with these devices.
fn run(device: &str, ranks: u32, program: &[&str]) -> Output {
    job(Command::new(launcher()), device, ranks, program)
}

fn job(mut command: Command, device: &str, ranks: u32, program: &[&str]) -> Output {
    let [name, arguments @ ..] = program else {
        panic!("no program")
    };
    command
        .args(["run", "--timeout", "60", "--backend", "dpdk", "--device", device])
        .args(["-n", &ranks.to_string()])
        .arg(example(name))
        .args(arguments)
        .env("RUST_BACKTRACE", "0")
        .env("HIKYAKU_ROUTES", "network")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
}

#[test]
fn two_ranks_that_share_memory() {
    for program in [&["sor", "64", "200"][..], &["halo", "16", "3"], &["ft", "S"]] {
        let output = run("memif", 2, program);
        succeeds(&output);
        println!("{}", said(&output));
    }
    // All kinds of messages, also those that are asked for.
    for name in ["sizes", "immediate", "window", "all_to_all", "intercommunicator"] {
        succeeds(&run("memif", 2, &[name]));
    }
}

/// The counters of all ranks are written at the end.
fn counted(mut command: Command) -> Command {
    command.env("HIKYAKU_STATS", "-");
    command
}

/// Each of the two ranks has sent more than probes by each of its two devices: how much of some megabytes goes by which
/// depends on when the system lets the two run.
fn has_used_both(output: &Output) {
    succeeds(output);
    let text = said(output);
    let mut all = rails::rails(&text);
    all.sort_by_key(|rail| (rail.of, rail.number));
    let rails: Vec<_> = all.iter().map(|rail| (rail.of, rail.to, rail.number)).collect();
    assert_eq!(rails, [(0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1)], "{text}");
    for rail in &all {
        assert!(rail.is_proven && rail.bytes_sent > 128 << 10, "{rail:?}\n{text}");
        assert_eq!(rail.address, format!("198.18.{}.{}", 16 * rail.number, 1 + rail.to));
    }
}

#[test]
fn two_devices_of_each_rank_are_two_rails() {
    let command = counted(Command::new(launcher()));
    has_used_both(&job(command, "memif,memif", 2, &["ft", "S"]));
    let mut command = counted(Command::new(launcher()));
    command.env("HIKYAKU_EAGER_LIMIT", "0");
    has_used_both(&job(command, "memif,memif", 2, &["ft", "S"]));
    for name in ["sizes", "immediate", "window", "all_to_all", "intercommunicator"] {
        succeeds(&run("memif,memif", 2, &[name]));
    }
}

#[test]
fn messages_that_ask_first() {
    let mut command = Command::new(launcher());
    command.env("HIKYAKU_EAGER_LIMIT", "0");
    succeeds(&job(command, "memif", 2, &["halo", "16", "3"]));
}

#[test]
fn what_does_not_join_the_ranks_is_said() {
    for (device, ranks, why) in [
        ("memif", 3, "such a device joins two"),
        ("ring", 2, "a ring leads back to its process"),
        ("ring+ring+ring", 2, "another number of devices"),
        ("pigeon", 2, "memif:socket=PATH"),
        ("port:0000:77:00.0", 1, "0000:77:00.0"),
    ] {
        let output = run(device, ranks, &["ping_pong"]);
        let text = said(&output);
        assert!(!output.status.success() && text.contains(why), "{device}: {text}");
        assert!(text.contains("beginning MPI: opening the network"), "{device}: {text}");
    }
}

/// Interfaces `r0`, `r1`, … on one bridge, in a network namespace of the command's own, which goes with it.
fn on_a_bridge(ranks: u32) -> Command {
    let mut script = "ip link set lo up && ip link add bridge type bridge && ip link set bridge up".to_owned();
    for rank in 0..ranks {
        script += &format!(
            " && ip link add r{rank} type veth peer name p{rank} && ip link set p{rank} master bridge \
             && ip link set r{rank} up && ip link set p{rank} up"
        );
    }
    script += " && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &script, "sh"]).arg(launcher());
    command
}

/// Root may, with iproute2.
fn can_make_networks() -> bool {
    let made = on_a_bridge(1).arg("--version").output();
    made.is_ok_and(|output| output.status.success())
}

#[test]
fn ranks_on_a_network_of_packet_sockets() {
    if !can_make_networks() {
        println!("skipped: network namespaces need root, unshare and iproute2");
        return;
    }
    for ranks in [2, 4] {
        let devices: Vec<String> = (0..ranks).map(|rank| format!("af_packet:iface=r{rank}")).collect();
        let output = job(on_a_bridge(ranks), &devices.join("+"), ranks, &["sor", "64", "100"]);
        succeeds(&output);
        assert!(said(&output).contains(RIGHT), "{}", said(&output));
        succeeds(&job(on_a_bridge(ranks), &devices.join("+"), ranks, &["all_to_all"]));
    }
}

/// Named by a variable; each rank has two interfaces on the bridge.
#[test]
fn two_packet_sockets_of_each_rank_are_two_rails() {
    if !can_make_networks() {
        println!("skipped: network namespaces need root, unshare and iproute2");
        return;
    }
    let devices = ["r0,af_packet:iface=r1", "r2,af_packet:iface=r3"].map(|own| format!("af_packet:iface={own}"));
    let output = counted(on_a_bridge(4))
        .args(["run", "--timeout", "60", "-n", "2"])
        .arg(example("ft"))
        .arg("S")
        .env("HIKYAKU_BACKEND", "dpdk")
        .env("HIKYAKU_DPDK_DEVICE", devices.join("+"))
        .env("HIKYAKU_ROUTES", "network")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    has_used_both(&output);
}
