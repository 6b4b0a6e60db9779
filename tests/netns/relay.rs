//! A relay on one of two rails, which holds datagrams back: what leaves at the same time comes in another order.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    START_LIMIT, finish, netns,
    rails::{MESSAGE, PORT, RECEIVER, rail, shape, sockets, stream_part},
};

/// So many datagrams of one direction have been overtaken: then the relay says it.
const OVERTAKEN: u32 = 200;

/// One direction: datagrams come by one socket and leave by the other.
struct Direction {
    end: Arc<UdpSocket>,
    other: Arc<UdpSocket>,
    to: SocketAddr,
    /// When they leave, and in which order they came.
    waiting: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    /// The youngest that has left, and how many left after a younger one.
    last: u64,
    overtaken: u32,
}

impl Direction {
    /// Sends all that is due. Returns how long the next one waits, if there is one.
    fn send_due(&mut self) -> Option<Duration> {
        loop {
            let now = netns::now();
            let Reverse((due, ..)) = self.waiting.peek()?;
            if *due > now {
                return Some(*due - now);
            }
            let Reverse((_, number, datagram)) = self.waiting.pop()?;
            self.overtaken += u32::from(number < self.last);
            self.last = self.last.max(number);
            // One that the other side refuses is lost.
            let _ = self.other.send_to(&datagram, self.to);
        }
    }

    /// Relays, with delays that are drawn from `draw` on.
    fn run(mut self, mut draw: u64) {
        let (mut datagram, mut is_said) = (vec![0; 65_536], false);
        for number in 0.. {
            let wait = self.send_due();
            if self.overtaken >= OVERTAKEN && !is_said {
                println!("many have been overtaken on the way to {}", self.to);
                is_said = true;
            }
            self.end.set_read_timeout(wait).unwrap();
            // Nothing has come, or the other side has refused something.
            let Ok(len) = self.end.recv(&mut datagram) else {
                continue;
            };
            draw = (draw ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            let due = netns::now() + Duration::from_micros(1_000 + draw % 4_000);
            self.waiting.push(Reverse((due, number, datagram[..len].to_vec())));
        }
    }
}

/// Relays datagrams between the peers at `RAILS_TO`, from a socket at each of `RAILS_AT`, each 1 to 5 ms later than it came: by
/// how much is drawn, so they overtake each other. (Not every kernel has the queue `netem`.) It ends when it is killed.
pub(super) fn play() {
    let peers = sockets("RAILS_TO");
    let bound = sockets("RAILS_AT").into_iter().map(|at| UdpSocket::bind(at).unwrap());
    let ends: Vec<Arc<UdpSocket>> = bound.map(Arc::new).collect();
    let relays = [0, 1].map(|from| {
        let direction = Direction {
            end: ends[from].clone(),
            other: ends[1 - from].clone(),
            to: peers[1 - from],
            waiting: BinaryHeap::new(),
            last: 0,
            overtaken: 0,
        };
        thread::spawn(move || direction.run(from as u64))
    });
    println!("relays");
    for relay in relays {
        relay.join().unwrap();
    }
}

/// Datagrams of one rail come milliseconds after those of the other that left at the same time, and overtake each other: each
/// message comes once, whole and in its order, and nobody is lost.
///
/// ```text
///   namespace …-a                                   namespace …-b
///   veth0 10.77.0.1  ─────────────────────────────  veth0 10.77.0.2
///                            namespace …-r
///   veth1 10.78.0.1  ───  at 10.78.0.2, 10.79.0.1  ───  veth1 10.79.0.2
/// ```
#[test]
#[ignore = "needs root and iproute2: cargo xtask ci"]
fn rails_that_overtake_each_other_keep_the_order() {
    let Some([a, b, r]) = netns::namespaces(["a", "b", "r"]) else {
        return;
    };
    netns::join([(&a, "veth0"), (&b, "veth0")], [1500; 2]);
    netns::join([(&a, "veth1"), (&r, "veth0")], [1500; 2]);
    netns::join([(&r, "veth1"), (&b, "veth1")], [1500; 2]);
    let interfaces = [
        (&a, "veth0", "10.77.0.1"),
        (&b, "veth0", "10.77.0.2"),
        (&a, "veth1", "10.78.0.1"),
        (&r, "veth0", "10.78.0.2"),
        (&r, "veth1", "10.79.0.1"),
        (&b, "veth1", "10.79.0.2"),
    ];
    for (end, interface, address) in interfaces {
        netns::ip(&format!("-n {} address add {address}/24 dev {interface}", end.name));
        end.wait_until_up(interface);
    }
    // The quick rail alone would be done before the other one has answered.
    for (end, interface, _) in interfaces {
        shape(end, interface, 100);
    }
    let at = |addresses: [&str; 2]| addresses.map(|address| format!("{address}:{PORT}")).join(",");
    let envs = [
        ("RAILS_AT", at(["10.78.0.2", "10.79.0.1"])),
        ("RAILS_TO", at(["10.78.0.1", "10.79.0.2"])),
    ];
    let mut relay = r.spawn_role("part", "rails-relay", &envs.each_ref().map(|(name, at)| (*name, &**at)));
    relay.wait_for("relays", START_LIMIT);
    // Each knows the other's second address as that of the relay.
    let count = 32;
    let (at_a, at_b) = (at(["10.77.0.1", "10.78.0.1"]), at(["10.77.0.2", "10.79.0.2"]));
    let (a_for_b, b_for_a) = (at(["10.77.0.1", "10.79.0.1"]), at(["10.77.0.2", "10.78.0.2"]));
    let mut receiver = stream_part(&b, "rails-receive", [&at_b, &a_for_b], count, &[]);
    receiver.wait_for("listens", START_LIMIT);
    let sender = stream_part(&a, "rails-send", [&at_a, &b_for_a], count, &[]);
    // A peer that is lost ends its part.
    let said = finish(sender);
    finish(receiver);
    // Of the data.
    relay.wait_for(
        &format!("many have been overtaken on the way to 10.79.0.2:{PORT}"),
        START_LIMIT,
    );
    for number in 0..2 {
        let (state, _, bytes) = rail(&said, RECEIVER, number);
        assert!(state == "Up" && bytes > MESSAGE as u64, "rail {number}: {said}");
    }
    assert!(!said.contains("is down"), "{said}");
}
