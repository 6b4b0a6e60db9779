//! A case over two rails whose instructions `cargo xtask callgrind` counts: see `instructions.rs`. It is a program by itself,
//! because the compiler inlines a function that is called from one place alone, as `instructions.rs` calls those that send.

use std::net::SocketAddr;

use hikyaku::{
    reliability::{Burst, Endpoint, Outgoing, Path, Payload},
    time::Instant,
    wire::Seq,
};

#[path = "support/cases.rs"]
mod cases;
#[expect(dead_code, reason = "instructions.rs uses all of it")]
mod support;
use cases::{Case, Work};
use support::{Count, Pair};

const CASES: &[Case] = &[("core_64b_answered_by_rails_x800", || answered(&[3; 64]))];

/// Requests and answers in turn, both ends: 1,600 messages.
fn answered(data: &'static [u8]) -> Work {
    let mut pair = Pair::quiet(8_972);
    let now = Instant::from_nanos(pair.now);
    let [own, other] = pair.addresses.map(|address| Path::new(at_port(address, 1), 1));
    pair.sender.add_rail(now, pair.to_receiver, other).expect("a new path");
    pair.receiver.add_rail(now, pair.to_sender, own).expect("a new path");
    while pair.sender.rails_up(pair.to_receiver) + pair.receiver.rails_up(pair.to_sender) < 4 {
        pair.exchange(&Payload::Copy(data), 1);
    }
    // What was learnt of the rails at their beginning is old.
    (0..1_000).for_each(|_| answer(&mut pair, data));
    Box::new(move || {
        (0..800).for_each(|_| answer(&mut pair, data));
        pair.got.bytes
    })
}

/// Sends a message, and one of the same bytes back, each of which carries the other's acknowledgement.
fn answer(pair: &mut Pair, data: &[u8]) {
    for turn in 0..2 {
        pair.now += 2_000;
        let Pair {
            sender,
            receiver,
            addresses,
            burst,
            wire,
            got,
            ..
        } = pair;
        let (from, to, peer, back) = match turn {
            0 => (sender, receiver, pair.to_receiver, pair.to_sender),
            _ => (receiver, sender, pair.to_sender, pair.to_receiver),
        };
        let message = Outgoing {
            source: turn,
            destination: 1 - turn,
            message: Seq(pair.next),
            match_bits: None,
            immediate: None,
        };
        let (now, address) = (Instant::from_nanos(pair.now), addresses[turn as usize]);
        if let Some(inline) = from.begin_inline(now, peer, 0, &message, data, burst) {
            from.finish_inline(&inline, data, burst);
            carry_burst((from, to), address, now, burst, wire, got);
        } else {
            let sent = from.send(now, peer, 0, &message, Payload::Copy(data));
            sent.expect("room in the queue");
        }
        while from.poll_transmit(now, burst) {
            carry_burst((from, to), address, now, burst, wire, got);
        }
        let (session, cost) = (to.session(back), std::mem::take(&mut got.cost));
        to.release(back, session, cost);
        while to.poll_transmit(now, burst) {
            carry_burst((to, from), addresses[1 - turn as usize], now, burst, wire, got);
        }
        while from.poll_event().is_some() {}
    }
    pair.next = pair.next.wrapping_add(1);
}

fn carry_burst(
    (from, to): (&Endpoint, &mut Endpoint),
    address: SocketAddr,
    now: Instant,
    burst: &Burst,
    wire: &mut Vec<u8>,
    got: &mut Count,
) {
    wire.clear();
    from.gather(burst, |piece| wire.extend_from_slice(piece));
    let path = Path::new(at_port(address, burst.port()), burst.port());
    to.handle_datagrams(now, path, wire, burst.segment_size(), got);
}

/// The address of the same process at another port of its backend.
fn at_port(address: SocketAddr, port: u8) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port() + 100 * u16::from(port))
}

fn main() {
    cases::run(CASES);
}
