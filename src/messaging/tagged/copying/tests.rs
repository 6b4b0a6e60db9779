//! Two sides whose memories a stand-in for the system copies between; it may stop doing so at any byte.
#![expect(unsafe_code, reason = "the stand-in copies between addresses, as the system does")]

use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};
use core::{fmt, net::SocketAddr, ptr, time::Duration};
use std::sync::Mutex;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{
    config::Config,
    error::PeerError,
    messaging::{
        MemoryRegion,
        tagged::{Completion, Content, Outcome, Posting, Selector, Tagged},
    },
    reliability::{Burst, CrossMemory, Event, Limits, MemoryLayer},
    ring::Exchange,
    span::Span,
};

const PEER: PeerId = PeerId(0);
const LIMITS: Limits = Limits {
    max_datagram: 32 << 10,
    max_segments: 1,
    max_batch: 32 << 10,
    receive_buffer: 1 << 20,
    holds_references: false,
    ack_bytes: usize::MAX,
    receive_port: 0,
};

/// What both sides know of each other's memory.
#[derive(Debug, Default)]
struct Common {
    permissions: [u32; 2],
    /// Bytes that are copied before nothing is any more; `None`: all.
    left: Option<usize>,
    copied: usize,
}

#[derive(Debug)]
struct StandIn {
    common: Arc<Mutex<Common>>,
    side: usize,
    is_closed: bool,
}

impl StandIn {
    fn copy(&mut self, permission: Option<u32>, from: *const u8, to: *mut u8, len: usize) -> bool {
        let mut common = self.common.lock().unwrap();
        if permission.is_some_and(|permission| common.permissions[1 - self.side] != permission) {
            return false;
        }
        // (The system may have copied some of the bytes when it fails.)
        let copied = common.left.map_or(len, |left| left.min(len));
        // SAFETY: the addresses are those of a message and of a buffer of the test, which live while the permission holds.
        unsafe { ptr::copy_nonoverlapping(from, to, copied) };
        common.left = common.left.map(|left| left - copied);
        common.copied += copied;
        self.is_closed = copied < len;
        !self.is_closed
    }
}

impl CrossMemory for StandIn {
    fn is_open(&self) -> bool {
        !self.is_closed
    }

    fn read(&mut self, permission: Option<u32>, address: u64, into: &mut [u8]) -> bool {
        self.copy(permission, address as usize as *const u8, into.as_mut_ptr(), into.len())
    }

    fn permission(&mut self) -> u32 {
        self.common.lock().unwrap().permissions[self.side]
    }

    fn write(&mut self, permission: u32, address: u64, bytes: &[u8]) -> bool {
        self.copy(
            Some(permission),
            bytes.as_ptr(),
            address as usize as *mut u8,
            bytes.len(),
        )
    }

    fn withdraw(&mut self) {
        self.common.lock().unwrap().permissions[self.side] += 1;
    }
}

/// A buffer that can be looked at when it was given away.
#[derive(Clone)]
struct Shared {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// It is one run.
    is_whole: bool,
}

impl MemoryRegion for Shared {
    fn capacity(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn place(&mut self, offset: u64, bytes: Span<'_>) {
        MemoryRegion::place(&mut *self.bytes.lock().unwrap(), offset, bytes);
    }

    fn whole(&mut self) -> Option<&mut [u8]> {
        let mut bytes = self.bytes.lock().unwrap();
        // SAFETY: the vector is not made longer, and no other thread uses it.
        self.is_whole
            .then(|| unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr(), bytes.len()) })
    }
}

/// A message whose bytes come in pieces of so many bytes.
struct Pieces(Bytes, u64);

impl Content for Pieces {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn chunk(&mut self, offset: u64, max: u64) -> Bytes {
        Content::chunk(&mut self.0, offset, max.min(self.1))
    }
}

struct Half {
    messenger: Messenger,
    tagged: Tagged<Shared>,
    done: Vec<Completion>,
}

struct Pair {
    halves: [Half; 2],
    common: Arc<Mutex<Common>>,
    now: Instant,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("common", &self.common)
            .finish_non_exhaustive()
    }
}

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1_000 + side as u16))
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + salt * 13) as u8).collect()
}

fn any(bits: u64) -> Selector {
    Selector {
        source: None,
        bits,
        ignore: 0,
    }
}

impl Pair {
    fn new() -> Self {
        let (exchange, common) = (Exchange::default(), Arc::<Mutex<Common>>::default());
        let halves = [0, 1].map(|side: usize| {
            let common = Arc::clone(&common);
            let stand_in = move |at: SocketAddr| -> Option<Box<dyn CrossMemory>> {
                Some(Box::new(StandIn {
                    common: Arc::clone(&common),
                    side: usize::from(at == address(0)),
                    is_closed: false,
                }))
            };
            let layer = MemoryLayer::new(Config::default(), LIMITS, 7 + side as u64).unwrap();
            let mut messenger = Messenger::new(
                Box::new(layer.with_rings(exchange.clone()).with_cross_memory(stand_in)),
                &[side as u32],
            );
            messenger.add_peer(address(1 - side), 1 - side as u32).unwrap();
            Half {
                tagged: Tagged::new(&messenger, 4_096),
                messenger,
                done: Vec::new(),
            }
        });
        let mut pair = Self {
            halves,
            common,
            now: Instant::from_nanos(1_000),
        };
        // A first message each opens the session.
        for side in 0..2 {
            pair.halves[side].messenger.connect(pair.now, PEER);
        }
        pair.run();
        pair
    }

    fn run(&mut self) {
        let mut quiet = 0;
        while quiet < 40 {
            quiet = if self.step() { 0 } else { quiet + 1 };
        }
    }

    /// Each side has its turn once. Returns whether something happened.
    fn step(&mut self) -> bool {
        self.now += Duration::from_micros(3);
        let mut any = false;
        for side in 0..2 {
            any |= self.carry(side);
            any |= self.work(side);
        }
        any
    }

    fn carry(&mut self, side: usize) -> bool {
        let (mut burst, mut any) = (Burst::default(), false);
        while self.halves[side].messenger.poll_transmit(self.now, &mut burst) {
            let mut bytes = Vec::new();
            let gather = |piece: &[u8]| bytes.extend_from_slice(piece);
            self.halves[side].messenger.gather(&burst, gather);
            let other = &mut self.halves[1 - side].messenger;
            other.handle_datagrams(self.now, address(side), &mut bytes, burst.segment_size());
            any = true;
        }
        any
    }

    fn work(&mut self, side: usize) -> bool {
        let half = &mut self.halves[side];
        if half.messenger.poll_timeout().is_some_and(|at| at <= self.now) {
            half.messenger.handle_timeout(self.now);
        }
        while let Some(event) = half.messenger.poll_event() {
            match event {
                Event::Sent { token, .. } => assert!(half.tagged.handle_sent(token)),
                Event::Down { peer, error, .. } => half.tagged.handle_down(&mut half.messenger, peer, error),
                _ => {}
            }
        }
        half.tagged.handle_ready(&mut half.messenger, self.now, &mut ());
        let before = half.done.len();
        half.done.extend(core::iter::from_fn(|| half.tagged.poll_completion()));
        half.done.len() > before || !half.tagged.rendezvous.copies.is_empty()
    }

    fn send(&mut self, side: usize, bits: u64, content: impl Content + 'static, request: u64) {
        let Half { messenger, tagged, .. } = &mut self.halves[side];
        tagged
            .send(messenger, self.now, PEER, bits, Box::new(content), request)
            .unwrap();
    }

    fn receive(&mut self, side: usize, bits: u64, len: usize, is_whole: bool) -> Shared {
        let buffer = Shared {
            bytes: Arc::new(Mutex::new(vec![0xee; len])),
            is_whole,
        };
        let Half {
            messenger,
            tagged,
            done,
        } = &mut self.halves[side];
        if let Posting::Done(completion) = tagged.receive(messenger, self.now, any(bits), buffer.clone(), 100 + bits) {
            done.push(completion);
        }
        buffer
    }

    fn outcomes(&self, side: usize) -> Vec<(u64, Outcome)> {
        let done = self.halves[side].done.iter();
        done.map(|done| (done.request, done.outcome)).collect()
    }

    fn copied(&self) -> usize {
        self.common.lock().unwrap().copied
    }
}

#[test]
fn each_byte_is_copied_once_by_the_receiver_or_both_sides() {
    for (late, len) in [
        (false, (64 << 10) + 1),
        (true, ALONE),
        (false, ALONE + 1),
        (true, 300_000),
        (false, 1 << 20),
        (true, 9 << 20),
    ] {
        let mut pair = Pair::new();
        let data = pattern(len, 1);
        if late {
            pair.send(0, 5, Bytes::from(data.clone()), 1);
            pair.run();
        }
        let buffer = pair.receive(1, 5, len, true);
        if !late {
            pair.send(0, 5, Bytes::from(data.clone()), 1);
        }
        pair.run();
        assert_eq!(pair.outcomes(0), [(1, Outcome::Complete)], "{len}");
        assert_eq!(pair.outcomes(1), [(105, Outcome::Complete)], "{len}");
        assert!(*buffer.bytes.lock().unwrap() == data, "{len}");
        assert_eq!(pair.copied(), len);
        let copies = pair.halves.each_ref().map(|half| half.tagged.stats().crossed);
        match len <= ALONE {
            true => assert_eq!(copies, [0, 1]),
            false => assert!(copies[0] > 0 && copies[1] > 0, "{copies:?}"),
        }
    }
}

/// Of messages that come one behind the other, each side copies some.
#[test]
fn a_stream_of_messages_is_copied_by_both_sides() {
    let mut pair = Pair::new();
    let buffers: Vec<_> = (0..12).map(|bits| pair.receive(1, bits, ALONE, true)).collect();
    for bits in 0..12 {
        pair.send(0, bits, Bytes::from(pattern(ALONE, bits as usize)), bits);
    }
    pair.run();
    for (bits, buffer) in buffers.iter().enumerate() {
        assert!(*buffer.bytes.lock().unwrap() == pattern(ALONE, bits), "{bits}");
    }
    let copies = pair.halves.each_ref().map(|half| half.tagged.stats().crossed);
    assert!(
        copies[0] > 1 && copies[1] > 1 && copies[0] + copies[1] == 12,
        "{copies:?}"
    );
    assert_eq!(pair.copied(), 12 * ALONE);
}

/// A receive that is shorter than the message takes what fits; one that is in pieces, or wants nothing read, is granted
/// the message.
#[test]
fn an_offer_need_not_be_taken() {
    let mut pair = Pair::new();
    let data = pattern(ALONE, 1);
    let mut send = |len: usize, is_whole: bool| {
        let before = pair.copied();
        let buffer = pair.receive(1, 5, len, is_whole);
        pair.send(0, 5, Bytes::from(data.clone()), 1);
        pair.run();
        let bytes = buffer.bytes.lock().unwrap();
        assert!(*bytes == data[..len]);
        let ended = pair
            .halves
            .each_mut()
            .map(|half| half.done.pop().map(|done| done.outcome));
        let outcome = match len < ALONE {
            true => Outcome::Truncated,
            false => Outcome::Complete,
        };
        assert_eq!(ended, [Some(Outcome::Complete), Some(outcome)]);
        pair.copied() - before
    };
    assert_eq!(send(50_000, true), 50_000);
    assert_eq!(send(100, true), 0);
    assert_eq!(send(0, true), 0);
    assert_eq!(send(ALONE, false), 0);
    pair.halves[1].tagged.set_cma_limit(Some(u32::MAX));
    let buffer = pair.receive(1, 5, ALONE, true);
    pair.send(0, 5, Bytes::from(data.clone()), 1);
    pair.run();
    assert!(*buffer.bytes.lock().unwrap() == data);
    assert!(
        pair.halves
            .iter()
            .all(|half| half.tagged.is_settled() && half.tagged.rendezvous.sends.is_empty())
    );
}

/// A sender that revokes what it has offered has its memory back at once: a receiver that reads there afterwards is told
/// that nothing comes.
#[test]
fn what_was_offered_and_is_revoked_is_not_read() {
    for is_posted in [true, false] {
        let mut pair = Pair::new();
        let mut memory = vec![7_u8; ALONE];
        let start = memory.as_mut_ptr();
        if is_posted {
            pair.receive(1, 5, ALONE, true);
        }
        // SAFETY: the memory lives until the end of this turn, and is not changed before the send has ended.
        let content = Bytes::from_static(unsafe { core::slice::from_raw_parts(start, ALONE) });
        pair.send(0, 5, content, 1);
        let Half { messenger, tagged, .. } = &mut pair.halves[0];
        tagged.revoke(messenger, pair.now, 5, 0);
        pair.work(0);
        assert_eq!(pair.outcomes(0), [(1, Outcome::Revoked)]);
        // SAFETY: the send has ended.
        unsafe { start.write_bytes(9, ALONE) };
        pair.run();
        if !is_posted {
            pair.receive(1, 5, ALONE, true);
            pair.run();
        }
        assert_eq!(pair.outcomes(1), [(105, Outcome::Revoked)]);
        // One that was read before it was revoked has come.
        let buffer = pair.receive(1, 6, ALONE, true);
        pair.send(0, 6, Bytes::from(vec![8; ALONE]), 2);
        pair.carry(0);
        pair.work(1);
        let Half { messenger, tagged, .. } = &mut pair.halves[0];
        tagged.revoke(messenger, pair.now, 6, 0);
        pair.run();
        assert_eq!(pair.outcomes(1)[1..], [(106, Outcome::Complete)]);
        assert!(buffer.bytes.lock().unwrap().iter().all(|&byte| byte == 8));
        assert!(
            !pair.halves[0].tagged.rendezvous.take_withdrawn(PEER, 1),
            "nothing is kept of it"
        );
    }
}

/// Between near cores, a message of 32 KB goes by the ring; between far ones, or if it asks first anyway, it crosses.
#[test]
fn how_far_the_cores_are_decides_about_some() {
    let crosses = |pair: &Pair, len: u64| pair.halves[0].tagged.crosses(&pair.halves[0].messenger, PEER, len);
    let mut pair = Pair::new();
    let seen = |pair: &Pair| [1 << 10, 32 << 10, 64 << 10, 65 << 10].map(|len| crosses(pair, len));
    assert_eq!(seen(&pair), [false, false, false, true]);
    let memory = pair.halves[0].messenger.layer.memory_mut().expect("memory");
    memory.set_far(PEER);
    assert_eq!(seen(&pair), [false, true, true, true]);
    pair.halves[0].tagged.set_cma_limit(Some(64 << 10));
    assert_eq!(seen(&pair), [false, false, false, true]);
    pair.halves[0].tagged.set_cma_limit(Some(u32::MAX));
    assert_eq!(seen(&pair), [false; 4]);
    // (Only the sender knows.)
    pair.halves[0].tagged.set_cma_limit(None);
    let buffer = pair.receive(1, 5, 64 << 10, true);
    pair.send(0, 5, Bytes::from(pattern(64 << 10, 1)), 1);
    pair.run();
    assert!(*buffer.bytes.lock().unwrap() == pattern(64 << 10, 1));
    assert_eq!(pair.copied(), 64 << 10);
}

#[test]
fn short_messages_and_those_in_pieces_are_placed() {
    let mut pair = Pair::new();
    for (bits, len, whole, piece) in [
        (1, 8 << 10, true, u64::MAX),
        (2, 300_000, false, u64::MAX),
        (3, 300_000, true, 4_096),
    ] {
        let data = pattern(len, bits as usize);
        let buffer = pair.receive(1, bits, len, whole);
        pair.send(0, bits, Pieces(Bytes::from(data.clone()), piece), bits);
        pair.run();
        assert!(*buffer.bytes.lock().unwrap() == data, "{len}");
    }
    assert_eq!(pair.copied(), 0);
    assert_eq!(pair.outcomes(1).len(), 3);
    // So are longer ones, if the receiver wants that.
    pair.halves[1].tagged.set_cma_limit(Some(u32::MAX));
    let buffer = pair.receive(1, 9, 300_000, true);
    pair.send(0, 9, Bytes::from(pattern(300_000, 9)), 9);
    pair.run();
    assert!(*buffer.bytes.lock().unwrap() == pattern(300_000, 9));
    assert_eq!(pair.copied(), 0);
}

/// A receive that ends before its message is there gets nothing more, and its sender is not stuck.
#[test]
fn a_revoked_receive_is_not_written_to() {
    for steps in 0..30 {
        let mut pair = Pair::new();
        let len = 8 << 20;
        let buffer = pair.receive(1, 5, len, true);
        pair.send(0, 5, Bytes::from(vec![7; len]), 1);
        for _ in 0..steps {
            pair.step();
        }
        let Half { messenger, tagged, .. } = &mut pair.halves[1];
        tagged.revoke(messenger, pair.now, 5, 0);
        pair.work(1);
        let [(105, outcome)] = pair.outcomes(1)[..] else {
            panic!("{:?}", pair.outcomes(1));
        };
        buffer.bytes.lock().unwrap().fill(0xaa);
        pair.run();
        let bytes = buffer.bytes.lock().unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0xaa), "{steps}");
        if outcome == Outcome::Revoked {
            continue;
        }
        assert_eq!(pair.outcomes(0), [(1, Outcome::Complete)]);
    }
}

/// A sender that gives its receiver up has its memory back: what is read there afterwards completes nothing.
#[test]
fn what_is_read_from_a_sender_that_has_given_up_does_not_count() {
    const LEN: usize = 4 << 20;
    for steps in 1..8 {
        let mut pair = Pair::new();
        let mut memory = vec![7_u8; LEN];
        let start = memory.as_mut_ptr();
        let buffer = pair.receive(1, 5, LEN, true);
        // SAFETY: the memory lives until the end of this turn, and is not changed before the send has ended.
        let content = Bytes::from_static(unsafe { core::slice::from_raw_parts(start, LEN) });
        pair.send(0, 5, content, 1);
        for _ in 0..steps {
            pair.step();
        }
        // The receiver stops; the sender writes its part, and says so.
        for _ in 0..12 {
            pair.now += Duration::from_micros(3);
            pair.carry(0);
            pair.work(0);
        }
        let Half { messenger, tagged, .. } = &mut pair.halves[0];
        let error = PeerError::Refused;
        tagged.handle_down(messenger, PEER, error);
        pair.work(0);
        // SAFETY: the send has ended.
        unsafe { start.write_bytes(9, LEN) };
        pair.run();
        let outcome = pair.outcomes(0)[0].1;
        match &pair.outcomes(1)[..] {
            [(105, Outcome::Complete)] => assert!(buffer.bytes.lock().unwrap().iter().all(|&byte| byte == 7)),
            others => assert!(others.is_empty() && outcome == Outcome::Failed(error), "{others:?}"),
        }
    }
}

/// A sender whose peer leaves has its memory back, too, whatever that still reads.
#[test]
fn what_was_offered_to_a_peer_that_leaves_is_not_read() {
    let mut pair = Pair::new();
    let mut memory = vec![7_u8; ALONE];
    let start = memory.as_mut_ptr();
    pair.receive(1, 5, ALONE, true);
    // SAFETY: the memory lives until the end of the test, and is not changed before the send has ended.
    let content = Bytes::from_static(unsafe { core::slice::from_raw_parts(start, ALONE) });
    pair.send(0, 5, content, 1);
    let Half { messenger, tagged, .. } = &mut pair.halves[0];
    tagged.end_unmatched(messenger, (PEER, 1), |_| true, PeerError::Closed);
    pair.work(0);
    assert_eq!(pair.outcomes(0), [(1, Outcome::Failed(PeerError::Closed))]);
    // SAFETY: the send has ended.
    unsafe { start.write_bytes(9, ALONE) };
    pair.run();
    assert_eq!(pair.outcomes(1), []);
}

/// A sender that sleeps is woken by a receiver that reads what it was offered, and does nothing else.
#[cfg(feature = "mpi")]
#[test]
fn a_sender_that_sleeps_is_woken_when_its_message_was_read() {
    for sleeps in [false, true] {
        let mut pair = Pair::new();
        // (The first message makes the ring.)
        pair.receive(0, 9, 1, true);
        pair.send(1, 9, Bytes::from_static(b"x"), 9);
        pair.send(0, 5, Bytes::from(pattern(ALONE, 1)), 1);
        pair.run();
        pair.halves[1].done.clear();
        pair.halves[1].tagged.take_wakes();
        pair.halves[0].messenger.set_asleep(sleeps);
        pair.receive(1, 5, ALONE, true);
        assert_eq!(pair.outcomes(1), [(105, Outcome::Complete)]);
        assert_eq!(pair.halves[1].tagged.take_wakes(), sleeps);
    }
}

/// One that wants the same bytes read again and again, others' bytes, or more than fits, gets no memory for that, and
/// harms no other message.
#[test]
fn a_peer_that_lies_is_not_believed() {
    let mut pair = Pair::new();
    let (own, other) = (pair.receive(1, 5, 1 << 20, true), pair.receive(1, 6, 200_000, true));
    pair.send(0, 5, Bytes::from(vec![7; 1 << 20]), 1);
    pair.step();
    let lies = vec![9_u8; 1 << 20];
    for n in 0..5_000_u32 {
        let range = Range {
            region: crate::messaging::RegionId { region: n % 3, key: n },
            offset: u64::from(n) << 40,
            len: u64::MAX - u64::from(n),
        };
        let from = Exposure {
            address: lies.as_ptr() as u64,
            permission: 0,
        };
        let what = match n % 3 {
            0 => FollowUp::Read { range, from },
            1 => FollowUp::Written { range },
            _ => FollowUp::WasRead { len: range.len },
        };
        let mut bytes = Vec::new();
        Control::FollowUp { id: n % 5, what }.emit(&mut bytes);
        let options = crate::messaging::SendOptions::default();
        let payload = crate::reliability::Payload::Copy(&bytes);
        let _ = pair.halves[0].messenger.send(pair.now, PEER, &options, payload);
        if n % 50 == 0 {
            pair.step();
        }
        assert!(pair.halves[1].tagged.rendezvous.copies.reads.len() <= READS + 1);
    }
    pair.send(0, 6, Bytes::from(pattern(200_000, 6)), 2);
    pair.run();
    assert!(*other.bytes.lock().unwrap() == pattern(200_000, 6));
    assert!(own.bytes.lock().unwrap().iter().all(|&byte| byte == 7 || byte == 0xee));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is sent in both directions, and wherever the system stops to copy, all of it arrives.
    #[test]
    fn all_arrives_wherever_the_system_stops(
        messages in prop::collection::vec((0..2_usize, 1..700_000_usize, prop::bool::weighted(0.8), 0..3_u8), 1..8),
        left in prop::option::of(0..2_000_000_usize),
    ) {
        let mut pair = Pair::new();
        pair.common.lock().unwrap().left = left;
        let mut buffers = Vec::new();
        for (index, &(side, len, whole, piece)) in messages.iter().enumerate() {
            let bits = index as u64;
            buffers.push(pair.receive(1 - side, bits, len, whole));
            let piece = [u64::MAX, 20_000, 5_000][usize::from(piece)];
            pair.send(side, bits, Pieces(Bytes::from(pattern(len, index)), piece), bits);
            if index % 3 == 0 {
                pair.step();
            }
        }
        pair.run();
        for (index, &(side, len, ..)) in messages.iter().enumerate() {
            prop_assert!(*buffers[index].bytes.lock().unwrap() == pattern(len, index), "{index}");
            prop_assert!(pair.outcomes(side).contains(&(index as u64, Outcome::Complete)));
            prop_assert!(pair.outcomes(1 - side).contains(&(100 + index as u64, Outcome::Complete)));
        }
        for half in &pair.halves {
            prop_assert_eq!(half.messenger.layer().down(PEER), None);
            prop_assert!(half.tagged.is_settled());
        }
    }
}
