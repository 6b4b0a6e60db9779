//! Tests of the port's rules (`rte_flow`): a TAP device, with the kernel's UDP at its other end.
//!
//! TAP asks the kernel to make its rules, which not every kernel can (it needs `sch_multiq`, `cls_flower` and
//! `act_skbedit`). On such a kernel every datagram is handed over, as on a device without rules.

use std::{net::UdpSocket, process::Command, thread};

use super::{super::frame::parse, sharing::drain, *};

/// The kernel's end of the TAP device.
const INTERFACE: &str = "steered";
const KERNEL: [&str; 2] = ["10.77.0.9", "fd77::9"];
const COUNT: usize = 20;

fn ip(line: &str) {
    let status = Command::new("ip").args(line.split_whitespace()).status().unwrap();
    assert!(status.success(), "ip {line}");
}

/// A port with two queues, in a network namespace of this thread. `None`: the port cannot be opened; the reason is
/// printed.
fn tap() -> Option<DpdkPort> {
    let tap = DpdkOptions {
        queues: 2,
        mtu: Some(1500),
        ..options(&format!("net_tap,iface={INTERFACE}"))
    };
    let opened = sys::own_network().map_err(|error| error.to_string());
    match opened.and_then(|()| DpdkPort::open(&tap).map_err(|error| error.to_string())) {
        Ok(port) => Some(port),
        Err(error) => {
            println!("skipped: a TAP device needs root and /dev/net/tun: {error}");
            None
        }
    }
}

/// Lets the kernel send `COUNT` datagrams to each address.
fn kernel_sends(to: [SocketAddr; 2]) {
    for (from, to) in KERNEL.iter().zip(to) {
        let socket = UdpSocket::bind((*from, 5_000)).unwrap();
        for number in 0..COUNT {
            socket.send_to(&[number as u8; 100], to).unwrap();
        }
    }
}

/// Looks until `COUNT` items have arrived. A TAP device has packets only a moment later, when a signal has announced
/// them.
fn come<T>(mut look: impl FnMut() -> Vec<T>) -> Vec<T> {
    let mut all = Vec::new();
    for _ in 0..100_000 {
        all.extend(look());
        if all.len() >= COUNT {
            break;
        }
        thread::yield_now();
    }
    all
}

/// The UDP ports of the datagrams in a queue.
fn look_into(port: &DpdkPort, queue: u16) -> Vec<u16> {
    let mut packets = Burst::new();
    let mut ports = Vec::new();
    while port.shared.receive(queue, &mut packets) {
        while let Some(packet) = packets.pop() {
            if let Ok(Frame::Datagram(datagram)) = parse(packet.data(), &port.mac()) {
                ports.push(datagram.destination.port());
            }
        }
    }
    ports
}

#[test]
fn datagrams_come_to_their_backend_by_rules_or_by_handing_over() {
    let Some(port) = tap() else { return };
    let ours: [SocketAddr; 2] = ["10.77.0.1:7001", "[fd77::1]:7002"].map(|addr| addr.parse().unwrap());
    ip(&format!("address add {}/24 dev {INTERFACE}", KERNEL[0]));
    ip(&format!("address add {}/64 dev {INTERFACE} nodad", KERNEL[1]));
    ip(&format!("link set {INTERFACE} up"));
    let mac = port.mac().map(|byte| format!("{byte:02x}")).join(":");
    for addr in ours {
        ip(&format!("neighbour replace {} lladdr {mac} dev {INTERFACE}", addr.ip()));
    }
    // The second round follows the end of the first backends, because rules end with their backends.
    for _ in 0..2 {
        let mut backends = ours.map(|addr| port.bind(addr, 1).unwrap());
        let steering = backends.each_ref().map(DpdkBackend::steering);
        println!("{steering:?}");
        assert_eq!(steering[0], steering[1]);
        assert_ne!(steering[0], Steering::Software, "TAP knows rules");
        if steering[0] == Steering::Port {
            kernel_sends(ours);
            for (queue, addr) in ours.iter().enumerate() {
                let found = come(|| look_into(&port, queue as u16));
                assert_eq!(found, [addr.port(); COUNT], "queue {queue}");
            }
        }
        kernel_sends(ours);
        for backend in &mut backends {
            let got = come(|| drain(backend));
            assert_eq!(got.len(), COUNT, "{:?}", backend.dpdk_stats());
            assert!(
                got.iter()
                    .enumerate()
                    .all(|(number, data)| *data == [number as u8; 100])
            );
        }
    }
    let pools = port.pools();
    drop(port);
    assert_eq!((pools.receive().in_use, pools.send().in_use), (0, 0));
}
