//! Interfaces of the kernel, on a veth pair between two network namespaces.

use std::{env, fs, process::Command, time::Duration};

use super::{
    ETHERNET, JUMBO, LOSSY, START_LIMIT, Socket, finish_with_buffers,
    hugepages::{Huge, IN_MEMORY},
    netns::{INTERFACE, Namespace, Process, ROLE, Veth},
    part_variables,
};

/// A pair of namespaces in which the interfaces of `dpdk` belong to DPDK: the kernel has no address there.
fn veth(mtu: u32, dpdk: impl Fn(&Veth) -> Vec<&Namespace>) -> Option<Veth> {
    let veth = Veth::new(mtu)?;
    let limit = Duration::from_secs(10);
    for end in dpdk(&veth) {
        end.exec("ip", &["address", "flush", "dev", INTERFACE], limit);
    }
    for end in [&veth.a, &veth.b] {
        // Packets between the two kernels need no checksums, and carry none; DPDK wants to see them.
        end.exec("ethtool", &["-K", INTERFACE, "tx", "off"], limit);
    }
    Some(veth)
}

/// Both interfaces belong to DPDK.
fn dpdk_only(mtu: u32) -> Option<Veth> {
    veth(mtu, |veth| vec![&veth.a, &veth.b])
}

fn af_packet() -> String {
    format!("af_packet:iface={INTERFACE}")
}

fn af_xdp() -> String {
    format!("af_xdp:iface={INTERFACE}")
}

/// The driver forgets what it has given the kernel to write to.
const AF_XDP_KEEPS: (&str, &str) = ("NETNS_KEPT", "2112");

fn between(veth: &Veth, devices: [&str; 2], more: &[(&str, &str)]) {
    between_roles(veth, "exchange", devices, more, |_| ());
}

/// `during`: done while the part `role` runs in `veth.a`.
fn between_roles(
    veth: &Veth,
    role: &str,
    devices: [&str; 2],
    more: &[(&str, &str)],
    during: impl FnOnce(&mut Process),
) {
    let mut answers = veth
        .b
        .spawn_role("part", "answers", &part_variables(1, devices[1], more));
    answers.wait_for("answers", START_LIMIT);
    let mut asks = veth.a.spawn_role("part", role, &part_variables(0, devices[0], more));
    during(&mut asks);
    finish_with_buffers(asks);
    finish_with_buffers(answers);
}

#[test]
fn af_packet_over_veth() {
    let Some(veth) = dpdk_only(1500) else {
        return;
    };
    between(&veth, [&af_packet(), &af_packet()], &[]);
}

#[test]
fn af_packet_over_veth_jumbo() {
    let Some(veth) = dpdk_only(9000) else {
        return;
    };
    between(&veth, [&af_packet(), &af_packet()], &[JUMBO]);
}

#[test]
fn af_packet_in_hugepages() {
    let (Some(_huge), Some(veth)) = (Huge::reserve(), dpdk_only(9000)) else {
        return;
    };
    for mtu in [ETHERNET, JUMBO] {
        between(&veth, [&af_packet(), &af_packet()], &[IN_MEMORY, mtu]);
    }
}

#[test]
fn af_packet_with_several_queues() {
    let Some(veth) = dpdk_only(1500) else { return };
    between(&veth, [&af_packet(), &af_packet()], &[("HIKYAKU_DPDK_QUEUES", "2")]);
}

#[test]
fn af_packet_with_loss() {
    let Some(veth) = dpdk_only(9000) else { return };
    for end in [&veth.a, &veth.b] {
        lose(end, 2);
    }
    for mtu in [ETHERNET, JUMBO] {
        between(&veth, [&af_packet(), &af_packet()], &[LOSSY, mtu]);
    }
}

#[test]
fn a_link_that_goes_and_comes_back() {
    let Some(veth) = dpdk_only(1500) else { return };
    let flag = Socket::new("until");
    let until = [("NETNS_UNTIL", flag.0.to_str().unwrap())];
    between_roles(&veth, "link", [&af_packet(), &af_packet()], &until, |asks| {
        asks.wait_for("talks", START_LIMIT);
        veth.a.link(false);
        asks.wait_for("silent", START_LIMIT);
        veth.a.link(true);
        fs::write(&flag.0, "").unwrap();
    });
}

/// The largest MTU with which the kernel runs an XDP program on a veth pair; its frames fill the driver's buffers.
const XDP_JUMBO: (&str, &str) = ("HIKYAKU_DPDK_MTU", "3000");

#[test]
fn af_xdp_over_veth() {
    let Some(veth) = dpdk_only(3000) else { return };
    for mtu in [ETHERNET, XDP_JUMBO] {
        between(&veth, [&af_xdp(), &af_xdp()], &[mtu, AF_XDP_KEEPS]);
    }
}

#[test]
fn af_xdp_in_hugepages() {
    let (Some(_huge), Some(veth)) = (Huge::reserve(), dpdk_only(3000)) else {
        return;
    };
    for mtu in [ETHERNET, XDP_JUMBO] {
        between(&veth, [&af_xdp(), &af_xdp()], &[IN_MEMORY, mtu, AF_XDP_KEEPS]);
    }
}

/// The kernel's UDP at the other end knows nothing of it.
#[test]
fn af_xdp_and_the_kernel() {
    let Some(veth) = veth(1500, |veth| vec![&veth.a]) else {
        return;
    };
    between(&veth, [&af_xdp(), "kernel"], &[AF_XDP_KEEPS]);
}

/// A program in the kernel throws frames away before they reach the socket.
#[test]
fn af_xdp_with_loss() {
    let Some(veth) = dpdk_only(3000) else { return };
    let program = Socket::new("lossy.o");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dpdk/lossy.bpf.c");
    let compiled = Command::new("clang")
        .args(["-O2", "-g", "-target", "bpf", "-c", source, "-o"])
        .arg(&program.0)
        .arg(format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH))
        .output();
    if !compiled.is_ok_and(|output| output.status.success()) {
        println!("skipped: the program that loses frames needs clang and libbpf-dev (cargo xtask setup)");
        return;
    }
    let device = format!("{},xdp_prog={}", af_xdp(), program.0.display());
    for mtu in [ETHERNET, XDP_JUMBO] {
        between(&veth, [&device, &device], &[LOSSY, mtu, AF_XDP_KEEPS]);
    }
}

/// Of what DPDK hands to the interface, which no other filter sees.
fn lose(end: &Namespace, percent: u32) {
    let rules = [
        "add table netdev hikyaku".to_owned(),
        format!(
            "add chain netdev hikyaku out {{ type filter hook egress device \"{INTERFACE}\" priority 0; policy accept; }}"
        ),
        format!("add rule netdev hikyaku out numgen random mod 100 < {percent} drop"),
    ];
    for rule in rules {
        end.exec("nft", &[&rule], Duration::from_secs(10));
    }
}

#[test]
fn dpdk_and_the_kernel_talk_to_each_other() {
    with_the_kernel(&[]);
}

/// The kernel asks by neighbour solicitation where we are, and tells where it is.
#[test]
fn dpdk_and_the_kernel_talk_to_each_other_over_ipv6() {
    with_the_kernel(&[("NETNS_IPV6", "1")]);
}

fn with_the_kernel(more: &[(&str, &str)]) {
    for kernel_asks in [false, true] {
        let dpdk_end = |veth: &Veth| {
            if kernel_asks {
                veth.b.name.clone()
            } else {
                veth.a.name.clone()
            }
        };
        let made = veth(1500, |veth| {
            let name = dpdk_end(veth);
            [&veth.a, &veth.b].into_iter().filter(|end| end.name == name).collect()
        });
        let Some(veth) = made else { return };
        let device = af_packet();
        let devices = if kernel_asks {
            ["kernel", device.as_str()]
        } else {
            [device.as_str(), "kernel"]
        };
        between(&veth, devices, more);
    }
}

/// Two processes of one network, whose ids are to the numbers of their interfaces so that DPDK's driver makes the same
/// number of both.
#[test]
fn packet_sockets_with_the_same_number() {
    let Some(veth) = dpdk_only(1500) else {
        return;
    };
    let limit = Duration::from_secs(10);
    let variables = |device| part_variables(0, device, &[]);
    let (first, second) = (af_packet(), "af_packet:iface=other".to_owned());
    let mut first = veth.a.spawn_role("part", "holds", &variables(&first));
    let id: u32 = first.wait_for("holds as ", START_LIMIT).parse().unwrap();
    let file = format!("/sys/class/net/{INTERFACE}/ifindex");
    let index: u32 = veth.a.exec("cat", &[&file], limit).trim().parse().unwrap();
    // The lower 16 bits count; one above them keeps the number from being that of an interface that is there.
    let script = format!(
        "ip link add other index $((({id} ^ {index} ^ $$) & 0xffff | 0x10000)) type veth peer name beside && \
         ip link set other up && ip link set beside up && exec \"$@\""
    );
    let binary = env::current_exe().unwrap();
    let arguments = [
        "-c",
        &script,
        "sh",
        binary.to_str().unwrap(),
        "--exact",
        "part",
        "--include-ignored",
        "--nocapture",
    ];
    let environment = [&variables(&second)[..], &[(ROLE, "holds")]].concat();
    let mut second = veth.a.spawn("sh", &arguments, &environment);
    second.wait_for("holds as ", START_LIMIT);
    second.kill();
    first.kill();
}
