//! A peer that is lost.

use std::time::Duration;

use hikyaku::{
    PeerError, PeerId, SendError,
    transport::{Event, Transport, WaitError},
};

/// Makes progress until the peer is lost, talking to it all the while.
pub(crate) fn until_down(transport: &mut Transport, peer: PeerId) -> PeerError {
    loop {
        match transport.send(peer, b"are you there?") {
            Ok(()) | Err(SendError::WouldBlock(_) | SendError::Peer(..)) => {}
            Err(error) => panic!("{error}"),
        }
        match transport.receive(Some(Duration::from_millis(10))) {
            Ok(_) | Err(WaitError::TimedOut(_)) => {}
            Err(error) => panic!("{error}"),
        }
        while let Some(event) = transport.next_event() {
            match event {
                Event::PeerDown { peer: lost, error } if lost == peer => return error,
                Event::PeerDown { .. } | Event::PeerClosed { .. } => panic!("{event:?}"),
                _ => {}
            }
        }
    }
}
