#![expect(unsafe_code, reason = "windows are made of pointers")]
//! Misbehaving peers.

use alloc::{vec, vec::Vec};
use core::time::Duration;

use proptest::prelude::*;

use super::{
    message::{MAX_DATA, MAX_RUNS, Request, Run, Runs, Status},
    net::{LIMIT, MAX_WAITING},
    pair::{PEER, Pair, Side, drive},
    *,
};
use crate::mpi::{
    datatype::{Datatype, Kind},
    engine::buffer::Buffer,
    operation::Predefined,
};

impl Pair {
    /// Writes to the other side's window and reads it back.
    fn put_and_get(&mut self, own: u64, theirs: u64, at: i64, data: &mut [u8]) -> (Vec<u8>, Option<Failure>) {
        let mut back = vec![0; data.len()];
        let place = |len: usize| Place {
            process: 1,
            window: theirs,
            is_dynamic: false,
            base: at,
            count: len as u64,
            datatype: Datatype::predefined(Kind::Byte),
        };
        for (what, bytes) in [(What::Put, &mut *data), (What::Get, &mut back[..])] {
            let datatype = Datatype::predefined(Kind::Byte);
            // SAFETY: both live until the operations have ended.
            let buffer = unsafe { Buffer::new(bytes.as_mut_ptr(), bytes.len() as u64, &datatype) };
            let buffers = if what == What::Put {
                (buffer, None)
            } else {
                (None, buffer)
            };
            let place = place(bytes.len());
            let Side { messenger, core } = &mut self.sides[0];
            core.with_rma(messenger, self.now, |rma, net| {
                rma.begin(net, own, place, what, buffers, None)
            })
            .unwrap();
            self.run();
        }
        let window = self.sides[0].core.rma.it().window(own).unwrap();
        assert_eq!(window.operations(|_| true), 0);
        (back, window.take_failure(|_| true).map(|(_, failure)| failure))
    }
}

fn emit(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.emit(&mut bytes);
    bytes
}

fn runs(list: &[(u64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(offset, len) in list {
        Runs::push(&mut bytes, Run { offset, len });
    }
    bytes
}

/// One request of each kind for this window.
fn requests(window: u64, list: &[(u64, u32)]) -> Vec<Vec<u8>> {
    let bytes = runs(list);
    let runs = Runs::new(&bytes).unwrap();
    let operand = vec![0xbb; runs.total() as usize];
    let one = self::runs(&[(list[0].0, 8)]);
    let accumulate = |fetch, operation| Request::Accumulate {
        kind: Kind::Byte,
        operation,
        fetch,
        runs,
        operand: &operand,
    };
    let requests = [
        accumulate(false, Predefined::Replace),
        accumulate(true, Predefined::Bxor),
        Request::Swap {
            kind: Kind::I64,
            runs: Runs::new(&one).unwrap(),
            operands: &[0; 16],
        },
        Request::Get { runs, region: 77 },
        Request::Lock { exclusive: true },
        Request::Unlock,
        Request::Post,
        Request::Complete,
    ];
    let mut all = Vec::new();
    for (id, request) in (0..).zip(requests) {
        all.push(emit(&Message::Request { id, window, request }));
    }
    for status in [Status::Done, Status::Range] {
        let data = &[1; 5];
        all.push(emit(&Message::Answer { id: 0, status, data }));
        all.push(emit(&Message::Answer {
            id: 0,
            status,
            data: &[],
        }));
    }
    all
}

/// Size of the memory that has the window in its middle.
const ROOM: usize = 3_000;

fn guarded() -> Vec<u8> {
    vec![0xaa; ROOM]
}

fn middle(room: &mut [u8]) -> &mut [u8] {
    &mut room[1_000..2_000]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_makes_no_sense_is_counted_and_harmless(
        list in prop::collection::vec((0..1_200_u64, 1..300_u32), 1..10),
        far in prop::option::of(any::<u64>()),
        mutations in prop::collection::vec((0..12_usize, any::<prop::sample::Index>(), any::<u8>()), 0..40),
    ) {
        let (mut room, mut other) = (guarded(), vec![0; 10]);
        let mut pair = Pair::new();
        let theirs = pair.expose(1, middle(&mut room));
        let own = pair.expose(0, &mut other);
        let mut list = list;
        if let (Some(far), Some(run)) = (far, list.last_mut()) {
            run.0 = far;
        }
        let messages = requests(theirs, &list);
        let mut sent = 0;
        for message in &messages {
            pair.send(0, message);
            sent += 1;
        }
        for (which, index, to) in mutations {
            let mut message = messages[which % messages.len()].clone();
            let at = index.index(message.len());
            message[at] = to;
            pair.send(0, &message);
            pair.send(0, &message[..at]);
            sent += 2;
        }
        pair.run();
        let stats = pair.sides[1].core.rma.stats();
        prop_assert_eq!(stats.served + stats.malformed + stats.refused, sent);
        prop_assert!(pair.sides[0].core.lost(1).is_none() && pair.sides[1].core.lost(0).is_none());
        prop_assert!(room[..1_000].iter().chain(&room[2_000..]).all(|byte| *byte == 0xaa));
        let mut data = vec![0x55; 900];
        let (back, failure) = pair.put_and_get(own, theirs, 50, &mut data);
        prop_assert_eq!((back, failure), (data, None));
    }
}

proptest! {
    /// The fuzz target's body under random bytes.
    #[test]
    fn whatever_a_peer_says_stays_in_the_window(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        drive(&bytes);
    }
}

#[test]
fn who_does_not_listen_fills_no_memory() {
    let mut memory = vec![0; 1 << 20];
    let mut pair = Pair::new();
    let window = pair.expose(1, &mut memory);
    // So that both sides have a session.
    pair.send(0, &[]);
    pair.run();
    let short: Vec<(u64, u32)> = (0..MAX_RUNS as u64).map(|n| (n * 1_024, 1_023)).collect();
    let get = runs(&short);
    let fetch = runs(&[(0, MAX_DATA as u32)]);
    let operand = vec![0; MAX_DATA as usize];
    let mut waiting = 0;
    for n in 0..3_000 {
        let request = match n % 3 {
            0 => Request::Get {
                runs: Runs::new(&get).unwrap(),
                region: n,
            },
            1 => Request::Accumulate {
                kind: Kind::Byte,
                operation: Predefined::Bxor,
                fetch: true,
                runs: Runs::new(&fetch).unwrap(),
                operand: &operand,
            },
            _ => Request::Lock { exclusive: false },
        };
        let bytes = emit(&Message::Request {
            id: n as u32,
            window,
            request,
        });
        pair.send(0, &bytes);
        pair.now += Duration::from_micros(100);
        // It takes credit, but no messages.
        pair.step(0, false);
        pair.step(1, true);
        let Side { core, .. } = &mut pair.sides[1];
        assert!(core.rma.it().serving.len() <= LIMIT);
        waiting = waiting.max(core.tagged.waiting(PEER));
    }
    assert_eq!(waiting, MAX_WAITING);
    let stats = pair.sides[1].core.rma.stats();
    assert!(stats.served > 100 && stats.refused > 1_000, "{stats:?}");
}

#[test]
fn an_answer_is_that_of_who_was_asked_and_fits() {
    let (mut memory, mut own) = (guarded(), vec![0; 10]);
    let mut pair = Pair::new();
    let theirs = pair.expose(1, &mut memory);
    let name = pair.expose(0, &mut own);
    let mut data = [0x11; 300];
    let datatype = Datatype::vector(100, 3, 9, &Datatype::predefined(Kind::Byte)).unwrap();
    let place = Place {
        process: 1,
        window: theirs,
        is_dynamic: false,
        base: 0,
        count: 1,
        datatype,
    };
    let bytes = Datatype::predefined(Kind::Byte);
    // SAFETY: `data` live until the end.
    let buffer = unsafe { Buffer::new(data.as_mut_ptr(), 300, &bytes) };
    let Side { messenger, core } = &mut pair.sides[0];
    core.with_rma(messenger, pair.now, |rma, net| {
        rma.begin(net, name, place, What::Put, (buffer, None), None)
    })
    .unwrap();
    // With data that were not requested, and for ids that do not exist.
    for (id, data) in [(0, &[1_u8][..]), (5, &[]), (u32::MAX, &[])] {
        pair.send(
            1,
            &emit(&Message::Answer {
                id,
                status: Status::Done,
                data,
            }),
        );
    }
    pair.step(1, true);
    pair.step(0, true);
    let rma = pair.sides[0].core.rma.it();
    assert_eq!(rma.stats().malformed, 3);
    assert_eq!(rma.window(name).unwrap().operations(|process| process == 1), 1);
    pair.run();
    let window = pair.sides[0].core.rma.it().window(name).unwrap();
    assert_eq!((window.operations(|_| true), window.take_failure(|_| true)), (0, None));
    for (at, byte) in memory[..900].iter().enumerate() {
        assert_eq!(*byte, if at % 9 < 3 { 0x11 } else { 0xaa });
    }
}

/// It was under way when its origin was found lost.
#[test]
fn one_that_is_lost_gets_no_lock() {
    let mut memory = [0; 10];
    let mut pair = Pair::new();
    let window = pair.expose(1, &mut memory);
    let lock = |id| {
        let request = Request::Lock { exclusive: true };
        emit(&Message::Request { id, window, request })
    };
    let Side { messenger, core } = &mut pair.sides[1];
    core.with_rma(messenger, pair.now, |rma, net| {
        assert!(net.peers.lose(0, PeerError::Refused));
        rma.handle(net, Some(PEER), &lock(0));
        assert_eq!((rma.stats().served, rma.stats().refused), (0, 1));
        rma.handle(net, None, &lock(1));
        assert_eq!(rma.window(window).unwrap().lock.grant(), []);
        assert_eq!(rma.stats().served, 1, "the lock is free");
    });
}
