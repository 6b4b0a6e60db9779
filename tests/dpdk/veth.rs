//! Interfaces of the kernel, on a veth pair between two network namespaces.

use std::time::Duration;

use super::{
    START_LIMIT, finish_with_buffers,
    netns::{INTERFACE, Namespace, Veth},
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

fn af_packet() -> String {
    format!("af_packet:iface={INTERFACE}")
}

fn between(veth: &Veth, devices: [&str; 2], more: &[(&str, &str)]) {
    let mut answers = veth
        .b
        .spawn_role("part", "answers", &part_variables(1, devices[1], more));
    answers.wait_for("answers", START_LIMIT);
    let asks = veth
        .a
        .spawn_role("part", "exchange", &part_variables(0, devices[0], more));
    finish_with_buffers(asks);
    finish_with_buffers(answers);
}

#[test]
fn af_packet_over_veth() {
    let Some(veth) = veth(1500, |veth| vec![&veth.a, &veth.b]) else {
        return;
    };
    between(&veth, [&af_packet(), &af_packet()], &[]);
}

#[test]
fn af_packet_over_veth_jumbo() {
    let Some(veth) = veth(9000, |veth| vec![&veth.a, &veth.b]) else {
        return;
    };
    between(&veth, [&af_packet(), &af_packet()], &[("HIKYAKU_DPDK_MTU", "9000")]);
}

#[test]
fn af_packet_with_loss() {
    let Some(veth) = veth(1500, |veth| vec![&veth.a, &veth.b]) else {
        return;
    };
    for end in [&veth.a, &veth.b] {
        lose(end, 2);
    }
    between(&veth, [&af_packet(), &af_packet()], &[]);
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
