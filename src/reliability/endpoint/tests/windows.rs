//! How peers share the receive buffer.

use super::*;
use crate::reliability::flow::{FlowKey, window_of};

const CHANNELS: u32 = 255;
const BUFFER: u32 = LIMITS.receive_buffer as u32 / 2;

/// An endpoint with two peers, the first of which uses all channels.
fn greedy_and_modest() -> (Endpoint, [PeerId; 2]) {
    let config = Config {
        window_bytes: 64 << 20,
        ..Config::default()
    };
    let mut endpoint = Endpoint::new(config, LIMITS, 1, 1).unwrap();
    let peers = [1, 2].map(|port| endpoint.add_peer(SocketAddr::from(([10, 0, 0, 1], port)), 0).unwrap());
    for channel in 0..CHANNELS {
        let flow = endpoint.flow_for(peers[0].0, FlowKey::new(0, channel as u8));
        endpoint.activate(flow);
    }
    let flow = endpoint.flow_for(peers[1].0, FlowKey::FIRST);
    endpoint.activate(flow);
    (endpoint, peers)
}

#[test]
fn many_flows_of_one_peer_share_that_peers_share() {
    let (mut endpoint, [greedy, modest]) = greedy_and_modest();
    assert_eq!(endpoint.window_for(modest.0), BUFFER / 2);
    assert_eq!(endpoint.window_for(greedy.0), BUFFER / 2 / CHANNELS);
    // All of them have come to rest.
    for flow in endpoint.flows_of(greedy.0).collect::<Vec<_>>() {
        endpoint.deactivate(flow);
    }
    assert_eq!(endpoint.window_for(modest.0), window_of(&LIMITS, endpoint.config(), 1));
}

#[test]
fn who_places_on_many_flows_counts_once() {
    let (mut endpoint, [greedy, modest]) = greedy_and_modest();
    for peer in [greedy, modest] {
        for flow in endpoint.flows_of(peer.0).collect::<Vec<_>>() {
            let active = endpoint.activate(flow);
            endpoint.note_placing(peer.0, active);
        }
    }
    assert_eq!(endpoint.window_for(modest.0), BUFFER / 2);
    assert_eq!(endpoint.window_for(greedy.0), BUFFER / 2 / CHANNELS);
}

#[test]
fn sessions_that_end_give_their_share_back() {
    let (mut endpoint, [greedy, modest]) = greedy_and_modest();
    endpoint.expel(greedy, crate::PeerError::Misbehaved);
    assert_eq!(endpoint.window_for(modest.0), window_of(&LIMITS, endpoint.config(), 1));
    assert_eq!(endpoint.active_peers, 1);
}
