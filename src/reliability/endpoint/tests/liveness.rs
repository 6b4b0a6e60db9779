//! Refusals quote a packet; the tests show their effects.

use super::*;
use crate::PeerError;

fn refuse(pair: &mut Pair, quoted: &[u8]) {
    let (now, address) = (Instant::from_nanos(pair.now), pair.ends[1].1);
    pair.ends[0].0.handle_unreachable(now, address, quoted);
}

/// The packets that the first sends now, none of which arrive.
fn lost(pair: &mut Pair) -> Vec<Vec<u8>> {
    pair.transmit();
    pair.wire.drain(..).map(|(_, bytes, _)| bytes).collect()
}

/// Refuses all that the first sends, for so long. Is the session lost?
fn refuse_all(pair: &mut Pair, mut quoted: Vec<Vec<u8>>, time: u64) -> bool {
    let end = pair.now + time;
    while pair.now < end {
        quoted.extend(lost(pair));
        for packet in quoted.drain(..) {
            refuse(pair, &packet);
        }
        while pair.ends[0].0.poll_event().is_some() {}
        let next = pair.ends[0].0.poll_timeout().map_or(end, |at| at.as_nanos());
        pair.now = next.clamp(pair.now + 1, end);
        pair.ends[0].0.handle_timeout(Instant::from_nanos(pair.now));
    }
    pair.ends[0].0.down(PeerId(0)) == Some(PeerError::Refused)
}

/// One message has crossed, another is under way: the packet with it.
fn under_way() -> (Pair, Vec<u8>) {
    let (mut pair, to_b, _) = Pair::new(&Config {
        path_mtu_discovery: false,
        ..Config::default()
    });
    pair.send(0, to_b, 0, Payload::Copy(b"first"));
    pair.pump();
    pair.send(0, to_b, 1, Payload::Copy(b"second"));
    let packet = lost(&mut pair).remove(0);
    (pair, packet)
}

#[test]
fn what_is_under_way_is_believed_in_the_end() {
    let (mut pair, packet) = under_way();
    let asked = pair.ends[0].0.stats().acks_alone;
    refuse(&mut pair, &packet);
    assert_eq!(lost(&mut pair).len(), 1, "a question");
    assert_eq!(pair.ends[0].0.stats().acks_alone, asked + 1);
    assert!(!refuse_all(&mut pair, vec![], 99_000_000), "too early");
    assert!(refuse_all(&mut pair, vec![], 3_000_000));
}

/// However often one packet is refused: it takes a question that is refused, too.
#[test]
fn one_packet_is_not_enough() {
    let (mut pair, packet) = under_way();
    for _ in 0..1_000 {
        refuse(&mut pair, &packet);
        pair.now += 90_000;
    }
    assert_eq!(pair.ends[0].0.down(PeerId(0)), None);
}

/// Every bit of what identifies the packet counts.
#[test]
fn what_is_not_under_way_is_ignored() {
    let (pair, packet) = under_way();
    let header = Packet::quoted(&packet[..]).unwrap().base;
    let session_and_number = (12..28).chain([1]);
    for bit in session_and_number.flat_map(|byte| 8 * byte..8 * byte + 8) {
        let mut quoted = packet.clone();
        quoted[bit / 8] ^= 1 << (bit % 8);
        let other = Packet::quoted(&quoted[..]).unwrap().base;
        let same = (other.session, other.sequence, other.channel) == (header.session, header.sequence, header.channel);
        let mut twin = pair.ends[0].0.clone();
        let now = Instant::from_nanos(pair.now);
        twin.handle_unreachable(now, pair.ends[1].1, &quoted);
        assert_eq!(twin.stats().refusals_ignored, u64::from(!same), "bit {bit}");
    }
    // What has arrived before.
    let (mut pair, packet) = under_way();
    pair.pump();
    refuse(&mut pair, &packet);
    assert_eq!(pair.ends[0].0.stats().refusals_ignored, 1);
    // Whatever is quoted, nothing happens to whom it does not concern.
    let now = Instant::from_nanos(pair.now);
    let stranger = SocketAddr::from(([127, 0, 0, 1], 9));
    pair.ends[0].0.handle_unreachable(now, stranger, &packet);
    assert_eq!(pair.ends[0].0.stats().refusals_ignored, 2);
}

/// An opening names no session, but us.
#[test]
fn openings_are_recognised() {
    for late_peers in [false, true] {
        let config = Config {
            late_peers,
            ..Config::default()
        };
        let (mut pair, to_b, to_a) = Pair::new(&config);
        pair.send(1, to_a, 0, Payload::Copy(b"theirs"));
        pair.transmit();
        let (_, theirs, _) = pair.wire.pop_front().unwrap();
        pair.send(0, to_b, 0, Payload::Copy(b"ours"));
        refuse(&mut pair, &theirs);
        assert_eq!(pair.ends[0].0.stats().refusals_ignored, 1, "not ours");
        assert_eq!(refuse_all(&mut pair, vec![], 110_000_000), !late_peers);
    }
}

/// A peer whose packets are quoted too briefly is asked, but not more often than that.
#[test]
fn hints_ask_and_no_more() {
    let (mut pair, packet) = under_way();
    let before = pair.ends[0].0.stats();
    let mut asked = 0;
    for n in 0..1_000 {
        refuse(&mut pair, &packet[..n % 8]);
        asked += lost(&mut pair).len();
        pair.now += 900_000;
    }
    assert!((90..=101).contains(&asked), "{asked} in less than a second");
    let after = pair.ends[0].0.stats();
    assert_eq!(after.refusals_ignored, before.refusals_ignored + 1_000 - asked as u64);
    assert_eq!(pair.ends[0].0.down(PeerId(0)), None);
    // It is there, and says so.
    pair.now += 100_000_000;
    pair.ends[0].0.handle_timeout(Instant::from_nanos(pair.now));
    refuse(&mut pair, &[]);
    pair.pump();
    assert_eq!(pair.ends[1].2.messages.len(), 2);
}
