//! Messages of many sizes to a peer that sends them back.

use std::time::Duration;

use bytes::Bytes;
use hikyaku::{PeerId, SendError, transport::Transport};

/// No wait in these tests ends by this, unless something is broken.
pub(crate) const LONG: Duration = Duration::from_secs(15);

/// Bytes that tell messages, and places in them, from each other.
pub(crate) fn content(number: usize, len: usize) -> Vec<u8> {
    let mut x = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut data = vec![0; len];
    for chunk in data.chunks_mut(8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        chunk.copy_from_slice(&x.to_le_bytes()[..chunk.len()]);
    }
    data
}

/// Sends messages of all these lengths, which come back; compares contents and order. One in `blocking` (0: none) is sent
/// from where it lies, the others by reference.
pub(crate) fn exchange(transport: &mut Transport, peer: PeerId, lens: &[usize], blocking: usize) {
    let mut received = 0;
    let mut check = |transport: &mut Transport, wait: bool| {
        let message = if wait {
            Some(transport.receive(Some(LONG)).unwrap())
        } else {
            transport.try_receive().unwrap()
        };
        let Some(message) = message else { return false };
        assert_eq!(message.peer(), peer);
        assert!(
            message.data() == content(received, lens[received]),
            "message {received}"
        );
        received += 1;
        received < lens.len()
    };
    for (i, &len) in lens.iter().enumerate() {
        let data = content(i, len);
        if blocking > 0 && i % blocking == 0 {
            transport.send_blocking(peer, &data).unwrap();
        } else {
            let data = Bytes::from(data);
            while let Err(error) = transport.send_bytes(peer, data.clone()) {
                assert_eq!(error, SendError::WouldBlock(peer));
                check(transport, false);
            }
        }
        while transport.ready() > 0 {
            check(transport, false);
        }
    }
    while check(transport, true) {}
}
