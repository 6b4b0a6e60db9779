//! A process of `bench rails`: end 0 sends until it is killed, end 1 says how much came a second.

use std::{
    io,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use clap::ValueEnum;
use hikyaku::{
    PeerId,
    backends::{Backend, BindOptions},
    reliability::Path,
    transport::{Event, Incoming, Transport, WaitPolicy},
};

use super::{
    namespaces::{NODES, address_of},
    sockets::{Flood, failed},
};

/// An end that waits longer gives up.
pub(super) const LIMIT: Duration = Duration::from_secs(20);
/// What comes before this time has passed does not count: windows open, and rails are found.
const WARM_UP: Duration = Duration::from_millis(1_000);
/// Between two reports of an end that tells.
const TELL_EVERY: Duration = Duration::from_millis(5);
/// Messages under way at once.
pub(super) const WINDOW: usize = 4;
/// Between two tries of a sender all of whose sockets are full.
const NAP: Duration = Duration::from_micros(50);

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Way {
    /// Datagrams, as fast as the sockets take them.
    Udp,
    Transport,
    Mpi,
    /// MPI with buffer arrays, which need no copies. (In a grid: `mpi` copies each message on both sides.)
    Arrays,
}

impl Way {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Transport => "transport",
            Self::Mpi => "mpi",
            Self::Arrays => "arrays",
        }
    }

    /// As documents have it.
    pub(super) fn transport(self) -> &'static str {
        if self == Self::Udp { "udp" } else { "hikyaku/udp" }
    }
}

/// One end of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) number: usize,
    pub(super) rails: usize,
    /// Of the grid in which it is a node; 0: there are two nodes, and one sends.
    pub(super) dimensions: usize,
    /// Bytes of a message.
    pub(super) size: usize,
    /// How long it measures.
    pub(super) time: Duration,
    /// It tells again and again how many bytes have come, and goes on until it is killed.
    pub(super) tells: bool,
}

impl End {
    /// Nodes in all.
    pub(super) const fn nodes(&self) -> usize {
        if self.dimensions == 0 { 2 } else { NODES }
    }

    pub(super) fn addresses(&self, end: usize) -> Vec<SocketAddr> {
        (0..self.rails).map(|rail| address_of(end, rail)).collect()
    }

    /// Plays it with datagrams; the receiving one prints `ready`, and then bytes a second.
    pub(super) fn play_udp(&self) -> io::Result<()> {
        if self.number == 0 { self.flood() } else { self.count() }
    }

    /// The same with messages of a transport.
    pub(super) fn play_transport(&self) -> io::Result<()> {
        if self.number == 0 { self.send() } else { self.receive() }
    }

    fn flood(&self) -> io::Result<()> {
        let mut sockets = Flood::bind(&self.addresses(0))?;
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            let mut is_full = true;
            for (port, destination) in (0..).zip(self.addresses(1)) {
                is_full &= !sockets.send(port, destination)?;
            }
            if is_full {
                thread::sleep(NAP);
            }
        }
        Ok(())
    }

    fn count(&self) -> io::Result<()> {
        let mut sockets = Flood::bind(&self.addresses(1))?;
        println!("ready");
        let mut meter = Meter::new(self);
        loop {
            sockets.backend.wait(Some(LIMIT))?;
            let bytes = sockets.take()?;
            if meter.add(bytes)? {
                return Ok(());
            }
        }
    }

    /// A transport at all rails, with these other processes as peers.
    pub(super) fn transport_to(&self, others: &[usize]) -> io::Result<(Transport, Vec<PeerId>)> {
        let own = self.addresses(self.number);
        let mut options = BindOptions::default();
        options.ports = own[1..].to_vec();
        let builder = Transport::builder().processor(self.number as u32).environment();
        let builder = builder.bind_options(options).wait(WaitPolicy::default());
        let mut transport = builder.bind_udp(own[0]).map_err(failed)?;
        let mut peers = Vec::new();
        for &other in others {
            let theirs = self.addresses(other);
            let peer = transport.add_peer(theirs[0], other as u32).map_err(failed)?;
            for (port, &address) in (0..).zip(&theirs).skip(1) {
                transport.add_rail(peer, Path::new(address, port)).map_err(failed)?;
            }
            peers.push(peer);
        }
        Ok((transport, peers))
    }

    fn send(&self) -> io::Result<()> {
        let (mut transport, peers) = self.transport_to(&[1])?;
        let message = Bytes::from(vec![0xa5; self.size]);
        let mut under_way = 0;
        loop {
            while under_way < WINDOW {
                transport.send_bytes(peers[0], message.clone()).map_err(failed)?;
                under_way += 1;
            }
            if let Event::Sent { .. } = transport.wait_event(Some(LIMIT)).map_err(failed)? {
                under_way -= 1;
            }
        }
    }

    fn receive(&self) -> io::Result<()> {
        let (mut transport, _) = self.transport_to(&[0])?;
        println!("ready");
        let mut meter = Meter::new(self);
        loop {
            let bytes = match transport.wait_any(Some(LIMIT)).map_err(failed)? {
                Incoming::Message(message) => message.len(),
                Incoming::Event(_) => 0,
            };
            if bytes > 0 && meter.add(bytes)? {
                return Ok(());
            }
        }
    }
}

/// Bytes a second, from the first arrival after the warm-up to the first one after the time to measure.
pub(super) struct Meter {
    time: Duration,
    tells: bool,
    told: Option<Instant>,
    /// The first arrival of all.
    first: Option<Instant>,
    /// The arrival from which on bytes count.
    begun: Option<Instant>,
    bytes: usize,
    /// The result is printed.
    is_over: bool,
}

impl Meter {
    pub(super) const fn new(end: &End) -> Self {
        Self {
            time: end.time,
            tells: end.tells,
            told: None,
            first: None,
            begun: None,
            bytes: 0,
            is_over: false,
        }
    }

    /// Bytes have arrived. Prints the result and returns true at the end.
    pub(super) fn add(&mut self, bytes: usize) -> io::Result<bool> {
        let now = Instant::now();
        if self.tells {
            self.bytes += bytes;
            if self.told.is_none_or(|told| now - told >= TELL_EVERY) {
                self.told = Some(now);
                println!("{}", self.bytes);
            }
            return Ok(false);
        }
        if self.is_over {
            return Ok(true);
        }
        let Some(begun) = self.begun else {
            let first = *self.first.get_or_insert(now);
            if now - first >= WARM_UP {
                self.begun = Some(now);
            }
            return Ok(false);
        };
        self.bytes += bytes;
        if now - begun < self.time {
            return Ok(false);
        }
        println!("{}", self.bytes as f64 / (now - begun).as_secs_f64());
        self.is_over = true;
        Ok(true)
    }
}
