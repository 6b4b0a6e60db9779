//! A process that sends back what it gets.

use std::time::Duration;

use hikyaku::{PeerId, transport::Transport};

/// Says goodbye to a peer that answers.
pub(crate) const END: &[u8] = b"this is the end";

/// Sends every message back to the peer until [`END`], and closes. No wait for a message takes longer than `limit`.
pub(crate) fn send_back(mut transport: Transport, peer: PeerId, limit: Duration, linger: Duration) {
    loop {
        let data = transport.receive(Some(limit)).unwrap().into_vec();
        if data == END {
            break;
        }
        transport.send_blocking(peer, &data).unwrap();
    }
    transport.close(linger).unwrap();
}
