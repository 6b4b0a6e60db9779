//! A backend for tests of wrappers: records what is sent, and receives what the test has scripted.

use std::{collections::VecDeque, io, net::SocketAddr, time::Duration};

use super::{Backend, BackendStats, Capabilities, Notice, Received, Sent, Transmit, Wake};
use crate::time::Instant;

/// Records what it sends, and receives the scripted datagrams.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Datagrams that were sent, with the time.
    pub(crate) sent: Vec<(Instant, Vec<u8>)>,
    /// Answers [`Sent::Busy`].
    pub(crate) busy: bool,
    /// Keeps references and gives the tokens back as notices.
    pub(crate) holds_references: bool,
    pub(crate) tokens: Vec<u64>,
    /// Data to be received, with its stride.
    pub(crate) incoming: VecDeque<(Vec<u8>, usize)>,
    current: Option<(Vec<u8>, usize)>,
    /// The timeouts of `wait`.
    pub(crate) waits: Vec<Option<Duration>>,
    stats: BackendStats,
}

impl Script {
    pub(crate) const MAX_DATAGRAM: usize = 2000;

    pub(crate) fn local() -> SocketAddr {
        "192.0.2.1:7000".parse().unwrap()
    }

    pub(crate) fn peer() -> SocketAddr {
        "192.0.2.2:7001".parse().unwrap()
    }
}

impl Backend for Script {
    fn name(&self) -> &'static str {
        "script"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_segments: 64,
            max_batch: 65_507,
            receive_buffer: 1 << 20,
            holds_references: self.holds_references,
            ..Capabilities::new(Self::MAX_DATAGRAM)
        }
    }

    fn local_addr(&self) -> SocketAddr {
        Self::local()
    }

    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        if self.busy {
            self.stats.busy += 1;
            return Ok(Sent::Busy);
        }
        if transmit.segment_size > Self::MAX_DATAGRAM {
            self.stats.dropped += 1;
            return Ok(Sent::Dropped);
        }
        let data: Vec<u8> = transmit.slices.iter().flat_map(|slice| slice.to_vec()).collect();
        self.sent.extend(
            data.chunks(transmit.segment_size)
                .map(|datagram| (now, datagram.to_vec())),
        );
        if self.holds_references {
            self.tokens.push(transmit.token);
        }
        Ok(Sent::All)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.tokens.drain(..).map(Notice::Released).for_each(each);
    }

    fn receive(&mut self, _now: Instant, budget: usize) -> io::Result<usize> {
        self.current = if budget > 0 { self.incoming.pop_front() } else { None };
        Ok(self.current.iter().count())
    }

    fn received(&mut self, index: usize) -> Received<'_> {
        assert_eq!(index, 0);
        let (data, stride) = self.current.as_mut().unwrap();
        Received {
            source: Self::peer(),
            port: 0,
            stride: *stride,
            data: data.as_mut_slice().into(),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        self.waits.push(timeout);
        Ok(Wake::TimedOut)
    }

    fn stats(&self) -> BackendStats {
        self.stats
    }
}

/// A burst of `data` to [`Script::peer`].
pub(crate) fn send(
    backend: &mut dyn Backend,
    now: Instant,
    segment_size: usize,
    data: &[u8],
    token: u64,
) -> io::Result<Sent> {
    let (head, tail) = data.split_at(data.len() / 3);
    let slices = [io::IoSlice::new(head), io::IoSlice::new(tail)];
    let transmit = Transmit {
        destination: Script::peer(),
        port: 0,
        segment_size,
        len: data.len(),
        slices: &slices,
        dont_fragment: true,
        token,
    };
    backend.transmit(now, &transmit)
}
