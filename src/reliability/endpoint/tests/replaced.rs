//! A process begins at the address of one that has ended.

use super::*;
use crate::{AddPeerError, PeerError};

/// What the first process had to do with this end before it has ended.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    /// A message is queued for it.
    Queued,
    /// Messages have crossed.
    Talked,
}

#[test]
fn a_process_at_the_address_of_one_that_has_ended_is_another_peer() {
    for before in [Before::Nothing, Before::Queued, Before::Talked] {
        let (mut pair, first, to_a) = Pair::new(&Config::default());
        if before != Before::Nothing {
            pair.send(0, first, 0, Payload::Copy(b"to the first"));
        }
        if before == Before::Talked {
            pair.send(1, to_a, 0, Payload::Copy(b"of the first"));
            pair.pump();
        }
        let address = pair.ends[1].1;
        assert_eq!(pair.ends[0].0.add_peer(address, 2), Err(AddPeerError::Exists(first)));

        // It does not say goodbye.
        pair.ends[1].0 = Endpoint::new(Config::default(), LIMITS, 33, 3).unwrap();
        pair.ends[1].2 = Got::default();
        let to_a = pair.ends[1].0.add_peer(pair.ends[0].1, 0).unwrap();
        let second = pair.ends[0].0.replace_peer(address, 2).unwrap();
        assert_ne!(first, second);
        pair.ends[0].2 = Got::default();
        pair.send(0, second, 0, Payload::Copy(b"to the second"));
        pair.send(1, to_a, 0, Payload::Copy(b"of the second"));
        pair.pump();
        assert_eq!(pair.ends[0].2.messages, [(0, b"of the second".to_vec())]);
        assert_eq!(pair.ends[1].2.messages, [(0, b"to the second".to_vec())]);
        let [(end, ..), _] = &pair.ends;
        assert_eq!((end.down(first), end.down(second)), (Some(PeerError::Closed), None));
        assert_eq!((end.processor(second), end.session(second)), (Some(2), 1));
        assert_eq!(end.peer_by_address(address), Some(second));
        let lost = pair.ends[0]
            .3
            .iter()
            .filter(|event| matches!(event, Event::Down { lost: true, .. }));
        assert_eq!(lost.count(), usize::from(before == Before::Queued));
    }
}

#[test]
fn there_is_a_limit_to_peers_that_are_replaced() {
    let config = Config {
        max_peers: 2,
        ..Config::default()
    };
    let mut endpoint = Endpoint::new(config, LIMITS, 1, 1).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let first = endpoint.replace_peer(address, 1).unwrap();
    let second = endpoint.replace_peer(address, 2).unwrap();
    assert_eq!(endpoint.replace_peer(address, 3), Err(AddPeerError::TooMany(2)));
    assert_eq!(endpoint.peer_by_address(address), Some(second));
    assert_eq!(endpoint.down(first), Some(PeerError::Closed));
}
