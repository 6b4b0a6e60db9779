//! Ethernet frames from anybody: a datagram within the frame, a question that can be answered, or useless.
#![no_main]

// The part of the backend that needs no DPDK.
#[expect(dead_code, reason = "what only sends is not of interest here")]
#[path = "../../src/backends/dpdk/discovery.rs"]
mod discovery;
#[allow(dead_code, reason = "what only sends is not of interest here")]
#[path = "../../src/backends/dpdk/ethernet.rs"]
mod ethernet;
#[expect(dead_code, reason = "what only sends is not of interest here")]
#[path = "../../src/backends/dpdk/frame.rs"]
mod frame;

use frame::{Frame, parse};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn look(bytes: &[u8]) {
    match parse(bytes, &MAC) {
        Ok(Frame::Datagram(datagram)) => {
            assert!(datagram.start <= datagram.end && datagram.end <= bytes.len());
            assert_eq!(datagram.source.is_ipv4(), datagram.destination.is_ipv4());
            let _ = datagram.is_intact(bytes);
        }
        Ok(Frame::Notice(notice)) if notice.is_request => {
            let from = bytes[6..12].try_into().unwrap();
            let answer = discovery::answer(MAC, notice.target, &notice, from);
            // To one who asks, or to everybody; that he may not understand it is his own mistake.
            if let Some(answer) = answer {
                let to: [u8; 6] = answer[..6].try_into().unwrap();
                assert!(matches!(parse(&answer, &to), Ok(Frame::Notice(told)) if !told.is_request));
            }
        }
        Ok(Frame::Notice(_)) | Err(_) => {}
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    look(bytes);
    // Most are not for us, and not of a kind that is looked into; these are.
    for kind in [[8, 0], [0x86, 0xdd], [8, 6]] {
        let mut frame = [MAC, [2; 6]].concat();
        frame.extend(kind);
        frame.extend(bytes);
        look(&frame);
    }
});
