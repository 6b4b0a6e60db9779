#![expect(unsafe_code, reason = "windows are made of pointers")]
//! Two processes without a network in between, for tests; and the body of a fuzz target.

use alloc::{vec, vec::Vec};
use core::{net::SocketAddr, time::Duration};

use super::*;
use crate::{
    config::Config,
    mpi::engine::{peers::Peers, process::Process},
    reliability::{Burst, Endpoint, Limits},
    time::Instant,
};

pub(super) struct Side {
    pub(super) messenger: Messenger,
    pub(super) core: Process,
}

/// Two processes without a network in between.
pub(super) struct Pair {
    pub(super) sides: [Side; 2],
    pub(super) now: Instant,
}

pub(super) const PEER: PeerId = PeerId(0);

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1_000 + side as u16))
}

impl Pair {
    pub(super) fn new() -> Self {
        let sides = [0, 1].map(|side: usize| {
            let config = Config {
                unexpected_bytes: 256 << 10,
                ..Config::default()
            };
            let limits = Limits {
                max_datagram: 1_472,
                max_segments: 16,
                max_batch: 65_000,
                receive_buffer: 1 << 20,
                holds_references: false,
                ack_bytes: usize::MAX,
                receive_port: 0,
            };
            let endpoint = Endpoint::new(config, limits, 7 + side as u64, 9).unwrap();
            let mut messenger = Messenger::new(endpoint, &[side as u32]);
            messenger.add_peer(address(1 - side), 1 - side as u32).unwrap();
            let mut peers = vec![Some(PEER); 2];
            peers[side] = None;
            Side {
                core: Process::new(&messenger, Peers::all(peers), 4_096),
                messenger,
            }
        });
        let now = Instant::from_nanos(1_000);
        Self { sides, now }
    }

    /// Makes `memory` a window of one side.
    pub(super) fn expose(&mut self, side: usize, memory: &mut [u8]) -> u64 {
        let Side { messenger, core } = &mut self.sides[side];
        // SAFETY: every test keeps `memory` as long as the pair, and looks at it only between its calls.
        let memory = unsafe { Memory::new(memory.as_mut_ptr(), memory.len() as u64) };
        let name = core.remote.it().expose(messenger, memory, Group::world(2)).unwrap();
        core.remote.it().window(name).unwrap().epoch = Epoch::Fence { used: false };
        name
    }

    pub(super) fn send(&mut self, side: usize, bytes: &[u8]) {
        let Side { messenger, core } = &mut self.sides[side];
        core.tagged.send_active(messenger, self.now, PEER, HANDLER, bytes);
    }

    pub(super) fn step(&mut self, side: usize, takes: bool) -> bool {
        let mut burst = Burst::default();
        let mut busy = false;
        while self.sides[side].messenger.poll_transmit(self.now, &mut burst) {
            let mut bytes = Vec::new();
            let from = &self.sides[side].messenger;
            from.gather(&burst, |piece| bytes.extend_from_slice(piece));
            let other = &mut self.sides[1 - side].messenger;
            other.handle_datagrams(self.now, address(side), &mut bytes, burst.segment_size());
            busy = true;
        }
        let Side { messenger, core } = &mut self.sides[side];
        if messenger.poll_timeout().is_some_and(|at| at <= self.now) {
            messenger.handle_timeout(self.now);
        }
        if takes {
            core.pump(messenger, self.now);
        }
        while let Some(event) = messenger.poll_event() {
            core.handle_event(messenger, self.now, event);
        }
        busy
    }

    /// Runs both sides until both are quiet.
    pub(super) fn run(&mut self) {
        let mut quiet = 0;
        while quiet < 4 {
            quiet += 1;
            self.now += Duration::from_micros(300);
            for side in 0..2 {
                if self.step(side, true) {
                    quiet = 0;
                }
            }
        }
    }
}

/// Bytes before and after the window that must stay as they are.
const GUARD: usize = 64;
const WINDOW: usize = 4_096;

/// Messages that a peer may make up, parsed from any bytes: as they are, or close to valid ones, for an existing
/// window. Only the window changes, every message is counted, and neither process is taken for lost.
#[cfg_attr(not(fuzzing), expect(unreachable_pub, reason = "only fuzz targets are elsewhere"))]
pub fn drive(mut bytes: &[u8]) {
    let mut room = vec![0xaa; WINDOW + 2 * GUARD];
    let mut pair = Pair::new();
    let window = pair.expose(1, &mut room[GUARD..GUARD + WINDOW]);
    let mut sent = 0;
    while let Some((&[code, len], rest)) = bytes.split_first_chunk::<2>() {
        if sent == 500 {
            break;
        }
        let (message, rest) = rest.split_at(rest.len().min(len.into()));
        bytes = rest;
        let mut message = message.to_vec();
        if code & 1 == 0
            && let Some(name) = message.get_mut(8..16)
        {
            name.copy_from_slice(&window.to_be_bytes());
        }
        if code & 2 == 0
            && let Some([op, _, _, runs]) = message.first_chunk_mut()
        {
            (*op, *runs) = (*op % 10, *runs % 8);
        }
        // Small numbers are offsets in the window.
        for run in message.get_mut(16..).unwrap_or_default().chunks_exact_mut(12) {
            if code & 4 == 0 {
                run[..6].fill(0);
                run[8..10].fill(0);
            }
        }
        pair.send(0, &message);
        sent += 1;
        if code & 8 == 8 {
            pair.run();
        }
    }
    pair.run();
    let stats = pair.sides[1].core.remote.stats();
    assert_eq!(stats.served + stats.malformed + stats.refused, sent, "{stats:?}");
    let lost = [0, 1].map(|side| pair.sides[side].core.lost(1 - side as u32));
    assert_eq!(lost, [None; 2]);
    drop(pair);
    let guards = room[..GUARD].iter().chain(&room[GUARD + WINDOW..]);
    assert!(guards.into_iter().all(|byte| *byte == 0xaa), "beyond the window");
}
