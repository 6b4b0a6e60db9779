//! Links the core into a program without `std`. The panic handler below is a language item that `std` defines too, so
//! a crate that pulls `std` in by any way makes this fail to compile (E0152).
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use core::{
    alloc::{GlobalAlloc, Layout},
    net::SocketAddr,
    panic::PanicInfo,
    ptr,
};

use bytes::Bytes;
use hikyaku::{
    Config,
    messaging::{Messenger, SendOptions},
    reliability::{Burst, Endpoint, Limits, Payload},
    time::Instant,
};

struct NoMemory;

// SAFETY: an allocator may fail always; nothing is ever handed out, so nothing comes back.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _layout: Layout) -> *mut u8 {
        ptr::null_mut()
    }
    unsafe fn dealloc(&self, _ptr: *mut u8, _layout: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Two endpoints with their messengers, one message from the first to the second: everything that the core does is
/// instantiated here, so none of it is left out because nobody calls it. Gives the bytes received; 0 if it fails.
///
/// That outsiders can call it gives the linker a reason to keep it.
#[unsafe(no_mangle)]
pub extern "C" fn hikyaku_no_std(nanos: u64) -> usize {
    exchange(Instant::from_nanos(nanos)).unwrap_or(0)
}

fn exchange(now: Instant) -> Option<usize> {
    let (here, there) = (address(1), address(2));
    let mut sender = messenger(1)?;
    let mut receiver = messenger(2)?;
    let to = sender.add_peer(there, 2).ok()?;
    receiver.add_peer(here, 1).ok()?;

    let payload = Payload::Shared(Bytes::from_static(b"hello"));
    sender.send(now, to, &SendOptions::default(), payload).ok()?;
    let mut burst = Burst::default();
    carry(now, &mut sender, here, &mut receiver, &mut burst);
    let received = receiver.receive()?.len();
    carry(now, &mut receiver, there, &mut sender, &mut burst);
    if let Some(due) = sender.poll_timeout() {
        sender.handle_timeout(due);
    }
    while sender.poll_event().is_some() {}
    sender.close(now, to);
    Some(received)
}

/// Hands in at `to` what `from`, which is at `source`, has to transmit.
fn carry(now: Instant, from: &mut Messenger, source: SocketAddr, to: &mut Messenger, burst: &mut Burst) {
    while from.poll_transmit(now, burst) {
        let mut datagrams = Vec::with_capacity(burst.len());
        from.gather(burst, |bytes| datagrams.extend_from_slice(bytes));
        to.handle_datagrams(now, source, &mut datagrams, burst.segment_size());
    }
}

fn messenger(processor: u32) -> Option<Messenger> {
    let limits = Limits {
        max_datagram: 1_472,
        max_segments: 1,
        max_batch: 1_472,
        receive_buffer: 64 << 10,
        holds_references: false,
        ack_bytes: usize::MAX,
        receive_port: 0,
    };
    let endpoint = Endpoint::new(Config::default(), limits, processor.into(), 17).ok()?;
    Some(Messenger::new(endpoint, &[processor]))
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 1_000))
}
