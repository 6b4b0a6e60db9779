//! What tests with a second link between two namespaces have in common.

use hikyaku::{
    PeerId,
    transport::{Event, Transport},
};

use super::exchange::exchange;

/// The second interface of each namespace.
pub(crate) const SECOND: &str = "second";
/// Its addresses, beside those of the first ports.
pub(crate) const BESIDE: [&str; 2] = ["10.78.0.1", "10.78.0.2"];

/// Exchanges messages of 100 KB until there is such an event; the peer stays.
pub(crate) fn exchange_until(transport: &mut Transport, peer: PeerId, wanted: &Event) {
    loop {
        while let Some(event) = transport.next_event() {
            assert!(!matches!(event, Event::PeerDown { .. }), "{event:?}");
            if event == *wanted {
                return;
            }
        }
        exchange(transport, peer, &[100_000; 4], 2);
    }
}
