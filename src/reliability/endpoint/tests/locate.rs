//! The addresses that the simulator prefetches.

use super::*;
use crate::prefetch::{Locate, Part, named_peer};
use crate::reliability::{
    flow::{Active, Flow},
    peer::Peer,
};

fn located(endpoint: &Endpoint, peer: PeerId, part: Part) -> Vec<(*const u8, usize)> {
    let mut told = vec![];
    endpoint.locate((peer, part), |first, bytes| told.push((first, bytes)));
    told
}

#[test]
fn what_is_kept_of_a_peer_is_where_it_is_said_to_be() {
    let (mut pair, to_b, to_a) = Pair::new(&Config::default());
    let stranger = PeerId(7);
    for number in 0..3 {
        pair.send(0, to_b, number, Payload::Copy(&[number as u8; 8]));
        pair.settle();
        pair.send(1, to_a, number, Payload::Copy(&[9; 8]));
        pair.settle();
    }
    let end = &pair.ends[0].0;
    let (peer, flow, active) = (
        &raw const end.peers[0],
        &raw const end.flows[0],
        &raw const end.actives[0],
    );
    assert_eq!(located(end, to_b, Part::Peer), [(peer.cast(), size_of::<Peer>())]);
    assert_eq!(located(end, to_b, Part::Flow), [(flow.cast(), size_of::<Flow>())]);
    assert_eq!(located(end, to_b, Part::Active), [(active.cast(), size_of::<Active>())]);
    let copied = located(end, to_b, Part::Copied);
    let next = located(end, to_b, Part::Sent);
    for part in [Part::Peer, Part::Flow, Part::Active, Part::Sent, Part::Copied] {
        assert_eq!(located(end, stranger, part), []);
    }
    pair.send(0, to_b, 3, Payload::Copy(b"nearby.."));
    let end = &pair.ends[0].0;
    let send = &end.actives[0].send;
    let block = end.sources.bytes(send.tail());
    assert_eq!(copied, [(block.as_ptr(), 64)]);
    assert!(block[..64].windows(8).any(|bytes| bytes == b"nearby.."));
    pair.transmit();
    let (end, (_, datagram, _)) = (&pair.ends[0].0, &pair.wire[0]);
    let send = &end.actives[0].send;
    let record = send.first_record();
    assert!(
        next.iter().any(|(first, _)| *first == record),
        "the record of what was sent next"
    );
    assert_eq!(named_peer(datagram), Some(to_a), "as the receiver knows its sender");
    assert_eq!(named_peer(&datagram[..15]), None);
}
