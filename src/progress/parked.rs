//! Bursts that wait beside others.

use std::net::SocketAddr;

use crate::reliability::Burst;

/// A burst that waits for room in its port.
pub(super) enum Parked {
    /// Its bytes are copied.
    Copied {
        port: u8,
        destination: SocketAddr,
        segment_size: usize,
        dont_fragment: bool,
        bytes: Vec<u8>,
    },
    /// The backend may refer to memory after it has sent, so the endpoint keeps that until the backend gives it back.
    Referring(Burst),
}

impl Parked {
    pub(super) fn port(&self) -> u8 {
        match self {
            Self::Copied { port, .. } => *port,
            Self::Referring(burst) => burst.port(),
        }
    }
}

#[cfg(all(feature = "loopback", feature = "udp", target_os = "linux"))]
#[cfg(test)]
mod tests {
    use std::{
        io, mem,
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        },
    };

    use bytes::Bytes;

    use crate::{
        backends::{Backend, BindOptions, Capabilities, Notice, Sent, Transmit, bind, ports::Ports},
        config::Config,
        forward_backend,
        messaging::{Messenger, SendOptions},
        progress::{Acks, Driver, WaitPolicy},
        reliability::{Endpoint, Event, Limits, Path, Payload},
        time::Instant,
    };

    /// The second port.
    const SECOND: u8 = 1;

    #[derive(Debug, Default)]
    struct State {
        is_full: AtomicBool,
        /// The next burst that the second port could take gets lost.
        loses: AtomicBool,
        refused: AtomicU64,
        /// Bytes that the first port has taken.
        by_first: AtomicU64,
    }

    /// Two ports, of which the second may be full.
    struct Narrow {
        ports: Ports,
        state: Arc<State>,
        holds_references: bool,
        kept: Vec<u64>,
    }

    impl Backend for Narrow {
        forward_backend!(self => self.ports; name, local_addr, receive, received, wait, stats, ports);

        fn capabilities(&self) -> Capabilities {
            Capabilities {
                holds_references: self.holds_references,
                ..self.ports.capabilities()
            }
        }

        fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
            let state = &self.state;
            if transmit.port != SECOND {
                state.by_first.fetch_add(transmit.len as u64, Relaxed);
            } else if state.is_full.load(Relaxed) {
                state.refused.fetch_add(1, Relaxed);
                return Ok(Sent::Busy);
            } else if state.loses.swap(false, Relaxed) {
                return Ok(Sent::Dropped);
            }
            let sent = self.ports.transmit(now, transmit)?;
            if self.holds_references && sent == Sent::All && transmit.token != 0 {
                self.kept.push(transmit.token);
            }
            Ok(sent)
        }

        fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
            mem::take(&mut self.kept)
                .into_iter()
                .map(Notice::Released)
                .for_each(each);
        }
    }

    fn two() -> Ports {
        let loopback = || bind("loopback", "127.0.0.1:0".parse().unwrap(), &BindOptions::default()).unwrap();
        Ports::new(vec![loopback(), loopback()]).unwrap()
    }

    fn driver(processor: u32, backend: Box<dyn Backend>) -> Driver {
        let limits = Limits::from(&backend.capabilities());
        let seed = u64::from(processor);
        let endpoint = Endpoint::new(Config::default(), limits, seed, seed.into()).unwrap();
        Driver::new(Messenger::new(endpoint, &[processor]), backend, WaitPolicy::Spin)
    }

    /// What leaves by a full port waits, and everything else goes on; then it goes, or is lost and sent again.
    fn waits(holds_references: bool, loses: bool) {
        let state = Arc::new(State::default());
        let narrow = Narrow {
            ports: two(),
            state: Arc::clone(&state),
            holds_references,
            kept: Vec::new(),
        };
        let mut ends = [driver(1, Box::new(narrow)), driver(2, Box::new(two()))];
        let addresses =
            [0, 1].map(|end: usize| [0, 1].map(|port: usize| ends[end].backend().ports()[port].local_addr()));
        let peers = [0, 1].map(|end: usize| ends[end].add_peer(addresses[1 - end][0], 2 - end as u32).unwrap());
        for end in 0..2 {
            let path = Path::new(addresses[1 - end][1], SECOND);
            assert_eq!(ends[end].add_rail(peers[end], path), Ok(1));
        }
        let [a, b] = &mut ends;
        let data = Bytes::from((0..1 << 20).map(|at: u32| (at >> 8 ^ at) as u8).collect::<Vec<u8>>());
        let mut received = 0;
        let mut round = |a: &mut Driver, b: &mut Driver| {
            a.progress(Acks::Now).unwrap();
            b.progress(Acks::Now).unwrap();
            while let Some(message) = b.receive() {
                assert!(message.data() == data);
                received += 1;
            }
            received
        };
        let send = |a: &mut Driver| a.send(peers[0], &SendOptions::default(), Payload::Shared(data.clone()));
        send(a).unwrap();
        let is_up = |event| matches!(event, Event::RailUp { rail: 1, .. });
        while !core::iter::from_fn(|| a.poll_event()).any(is_up) {
            round(a, b);
        }
        state.is_full.store(true, Relaxed);
        for _ in 0..8 {
            send(a).unwrap();
        }
        while a.parked.is_empty() {
            round(a, b);
        }
        let before = state.by_first.load(Relaxed);
        while state.by_first.load(Relaxed) < before + (2 << 20) {
            round(a, b);
            assert!(a.parked.len() == 1 && !a.held, "the first port goes on");
        }
        assert_eq!(a.parked[0].port(), SECOND);
        state.loses.store(loses, Relaxed);
        state.is_full.store(false, Relaxed);
        while round(a, b) < 9 {
            assert!(a.parked.is_empty());
        }
        assert!(state.refused.load(Relaxed) > 0);
        while !a.messenger().layer().all_idle() {
            round(a, b);
        }
        assert_eq!(a.messenger().layer().stats().rails_down, 0);
        round(a, b);
        assert!(data.is_unique(), "nobody refers to the bytes any more");
    }

    #[test]
    fn a_copy_waits_for_a_full_port() {
        waits(false, false);
        waits(false, true);
    }

    #[test]
    fn a_burst_that_refers_to_memory_waits_for_a_full_port() {
        waits(true, false);
        waits(true, true);
    }
}
