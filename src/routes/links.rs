//! The processes that this one shares memory with, as a backend sees them: sending, receiving, sleeping, and their ends.

use std::{collections::HashMap, io, net::SocketAddr, os::fd::BorrowedFd, sync::Arc, time::Duration};

use super::{
    pair::{Inward, Outward, Pushed},
    socket::{Ended, News, Presence, Sockets, Way},
    streams::Streams,
};
use crate::{
    backends::{BackendStats, Data, Notice, Received, Refusals, Sent, Transmit},
    events::event,
    reliability::Gate,
    shm::{Corrupt, Found},
    time::{Instant, nanos},
};

/// Passes that find nothing in memory between two looks at the connections.
const LOOKS: u32 = 1_024;
/// Packets that are at least so long are not copied to a buffer first.
const LENT: usize = 2 << 10;
/// A direction that was silent so long gives memory back.
const REST: Duration = Duration::from_secs(1);
/// Time, ns, after which a process that is sent something is asked for again, where its end is not told: what a rank sends to
/// one that it waits for comes so often.
pub(super) const PROBE: u64 = 90_000_000;
/// Longest time between two probes that counts as silence, ns: when this process did not run, the other one may not have run
/// either.
const COUNTED: u64 = 200_000_000;
/// A datagram that no process of hikyaku sends: the packet layer ends the session with who sends it.
const NONSENSE: [u8; 1] = [0xff];

/// A process of this host.
#[derive(Debug)]
struct Link {
    address: SocketAddr,
    outward: Outward,
    inward: Inward,
    state: State,
    /// Closed while there is no room for packets to it.
    gate: Option<Gate>,
    probed: Instant,
    /// How much the process had read then, and how long, ns, it had read nothing of what there was.
    read: u64,
    silence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The process has ended; what it sent before can still be read. It may have said why there is no way to it.
    Ended(Option<u8>),
    /// It has ended, or does not keep to the rules, and nothing more is read from it.
    Closed,
}

/// A packet of the last look.
#[derive(Clone, Copy, Debug)]
struct Packet {
    link: usize,
    len: usize,
    /// Where it lies in the memory, if it was not copied to the buffer.
    at: Option<usize>,
}

/// All of them. Short packets that were received lie in buffers, longer ones where they came.
#[derive(Debug)]
pub(super) struct Links {
    links: Vec<Link>,
    places: HashMap<SocketAddr, usize>,
    /// The links whose gates are closed.
    full: Vec<usize>,
    /// The link of the last burst.
    last: usize,
    pub(super) sockets: Sockets,
    buffers: Vec<[u8; LENT]>,
    received: Vec<Packet>,
    /// The links with packets of the last look that still lie in the memory.
    lent: Vec<usize>,
    /// The link that is read first next time.
    first: usize,
    empty: u32,
    refusals: Refusals,
    rested: Instant,
    /// The rings of short messages, which the packet layer has.
    streams: Arc<Streams>,
    stats: BackendStats,
}

/// Both directions of the memory in common with a process.
pub(super) type Ends = (Outward, Inward);

impl Links {
    /// None yet. `sockets`: what wakes beside them is among these. `streams`: what their rings of short messages have.
    pub(super) fn new(sockets: Sockets, streams: Arc<Streams>) -> Self {
        Self {
            links: Vec::new(),
            places: HashMap::new(),
            full: Vec::new(),
            last: 0,
            sockets,
            buffers: Vec::new(),
            received: Vec::new(),
            lent: Vec::new(),
            first: 0,
            empty: 0,
            refusals: Refusals::default(),
            rested: Instant::ZERO,
            streams,
            stats: BackendStats::default(),
        }
    }

    /// Adds a process. If there is a way to that address already, that one stays, as long as its process is there.
    /// Returns its number.
    pub(super) fn add(&mut self, address: SocketAddr, (outward, inward): Ends, way: Way) -> io::Result<usize> {
        let link = Link {
            address,
            outward,
            inward,
            state: State::Open,
            gate: None,
            probed: Instant::ZERO,
            read: 0,
            silence: 0,
        };
        let index = match self.links.iter().position(|link| link.state == State::Closed) {
            Some(index) => index,
            None => self.links.len(),
        };
        self.sockets.put(index, way)?;
        if let Some(old) = self.links.get_mut(index) {
            if self.places.get(&old.address) == Some(&index) {
                self.places.remove(&old.address);
            }
            *old = link;
        } else {
            self.links.push(link);
        }
        let place = self.places.entry(address).or_insert(index);
        if self.links[*place].state != State::Open {
            *place = index;
        }
        Ok(index)
    }

    /// Packets to this process have to pass a gate.
    pub(super) fn set_gate(&mut self, index: usize, gate: Gate) {
        self.links[index].gate = Some(gate);
    }

    /// Writes into the memory in common with a process what no process writes.
    #[cfg(test)]
    pub(super) fn scribble(&self, index: usize) {
        self.links[index].outward.scribble();
    }

    /// The memory in common with a process.
    #[cfg(test)]
    pub(super) fn memory(&self, index: usize) -> &crate::shm::Segment {
        self.links[index].outward.memory()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub(super) const fn stats(&self) -> &BackendStats {
        &self.stats
    }

    /// The link to an address, by which a packet to it is sent.
    #[inline]
    pub(super) fn find(&self, address: SocketAddr) -> Option<usize> {
        match self.links.get(self.last) {
            Some(link) if link.address == address && link.state == State::Open => Some(self.last),
            _ => self.places.get(&address).copied(),
        }
    }

    /// The link to an address, unless its process has ended.
    #[inline]
    pub(super) fn find_open(&self, address: SocketAddr) -> Option<usize> {
        self.find(address)
            .filter(|&index| self.links[index].state == State::Open)
    }

    /// The process at this address has ended, and another one has the address.
    pub(super) fn forget(&mut self, address: SocketAddr) {
        for (index, link) in self.links.iter_mut().enumerate() {
            if link.address == address {
                link.state = State::Closed;
                self.sockets.close(index);
            }
        }
        self.places.remove(&address);
    }

    /// There is no way to this address (any more); why, if it is known.
    pub(super) fn refuse(&mut self, address: SocketAddr, why: Option<u8>) {
        self.stats.dropped += 1;
        self.refusals.push(address, why.as_ref().map(std::slice::from_ref));
    }

    /// Sends a burst.
    #[inline]
    pub(super) fn transmit(&mut self, now: Instant, index: usize, transmit: &Transmit<'_>) -> io::Result<Sent> {
        self.last = index;
        if now.nanos_since(self.links[index].probed) >= PROBE {
            self.probe(index, now);
        }
        let link = &mut self.links[index];
        match link.state {
            State::Open => {}
            // First what it sent before is read, then its end is reported.
            State::Ended(_) => {
                self.stats.dropped += 1;
                return Ok(Sent::Dropped);
            }
            State::Closed => {
                let address = link.address;
                self.refuse(address, None);
                return Ok(Sent::Dropped);
            }
        }
        let Ok(Pushed { is_sent, wakes }) = link.outward.push(transmit.slices, transmit.len) else {
            self.break_off(index);
            return Ok(Sent::Dropped);
        };
        if wakes {
            self.stats.transmit_calls += 1;
            self.ring(index);
        }
        if !is_sent {
            self.stats.busy += 1;
            self.look(Some(Duration::ZERO))?;
            return Ok(Sent::Busy);
        }
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += transmit.len as u64;
        let link = &mut self.links[index];
        if let Some(gate) = &link.gate
            && !link.outward.has_room().unwrap_or(true)
        {
            gate.set_open(false);
            self.full.push(index);
        }
        Ok(Sent::All)
    }

    #[cold]
    fn ring(&mut self, index: usize) {
        if !self.sockets.ring(index) {
            self.note_end(index, None);
        }
    }

    #[cold]
    fn probe(&mut self, index: usize, now: Instant) {
        let link = &mut self.links[index];
        let since = now.nanos_since(link.probed);
        link.probed = now;
        match link.outward.read() {
            Ok((read, false)) if read == link.read => link.silence += since.min(COUNTED),
            Ok((read, _)) => (link.read, link.silence) = (read, 0),
            Err(Corrupt) => return self.break_off(index),
        }
        if let Some(gate) = &link.gate {
            gate.set_silence(Duration::from_nanos(link.silence));
        }
        if !self.sockets.probe(index) {
            self.note_end(index, None);
        }
    }

    /// Probes the processes to which nothing can be sent, so that no packet does.
    #[cold]
    fn probe_full(&mut self, now: Instant) {
        for at in 0..self.full.len() {
            let index = self.full[at];
            if now.nanos_since(self.links[index].probed) >= PROBE {
                self.probe(index, now);
            }
        }
    }

    /// Looks for the process of this name, with which there is no memory.
    #[cold]
    pub(super) fn find_process(&self, name: u64) -> Presence {
        self.sockets.find(name)
    }

    /// What it sent before can still be read.
    fn note_end(&mut self, index: usize, why: Option<u8>) {
        let link = &mut self.links[index];
        if link.state == State::Open {
            link.state = State::Ended(why);
        }
    }

    /// Opens the gates of the links that have room again, or have ended: then packets are refused.
    #[inline]
    fn open_gates(&mut self) {
        let links = &mut self.links;
        self.full.retain(|index| {
            let link = &mut links[*index];
            let is_open = link.state != State::Open || link.outward.has_room().unwrap_or(true);
            if is_open && let Some(gate) = &link.gate {
                gate.set_open(true);
            }
            !is_open
        });
    }

    /// Reads what has come, into at most `budget` buffers. Returns their number.
    #[inline]
    pub(super) fn receive(&mut self, budget: usize) -> usize {
        self.give_back();
        if !self.full.is_empty() {
            self.open_gates();
        }
        while self.buffers.len() < budget {
            self.buffers.push([0; LENT]);
        }
        let links = self.links.len();
        for turn in 0..links {
            let index = (self.first + turn) % links;
            let link = &mut self.links[index];
            if link.state == State::Closed {
                continue;
            }
            let mut is_lent = false;
            while self.received.len() < budget {
                match link.inward.find() {
                    Ok(Some(Found { at, len, .. })) if len >= LENT => {
                        let at = Some(at);
                        self.received.push(Packet { link: index, len, at });
                        is_lent = true;
                    }
                    Ok(Some(Found { at, len, .. })) => {
                        link.inward.copy(at, &mut self.buffers[self.received.len()][..len]);
                        let at = None;
                        self.received.push(Packet { link: index, len, at });
                    }
                    Ok(None) => {
                        if let State::Ended(why) = link.state {
                            link.state = State::Closed;
                            self.refusals.push(link.address, why.as_ref().map(std::slice::from_ref));
                        }
                        break;
                    }
                    Err(Corrupt) => {
                        let buffer = &mut self.buffers[self.received.len()];
                        buffer[..NONSENSE.len()].copy_from_slice(&NONSENSE);
                        let (len, at) = (NONSENSE.len(), None);
                        self.received.push(Packet { link: index, len, at });
                        self.break_off(index);
                        break;
                    }
                }
            }
            let link = &mut self.links[index];
            if is_lent {
                self.lent.push(index);
            } else {
                link.inward.release();
            }
            if self.received.len() >= budget {
                self.first = index + 1;
                break;
            }
        }
        self.received.len()
    }

    /// Forgets the packets of the last look: their senders may use the places of those that were lent.
    #[inline]
    fn give_back(&mut self) {
        self.received.clear();
        for index in self.lent.drain(..) {
            self.links[index].inward.release();
        }
    }

    /// A received packet: where it came from, and its bytes.
    #[inline]
    pub(super) fn received(&mut self, index: usize) -> Received<'_> {
        let Packet { link, len, at } = self.received[index];
        let link = &self.links[link];
        Received {
            source: link.address,
            port: 0,
            stride: len,
            data: match at {
                Some(at) => link.inward.lend(at, len),
                None => Data::Own(&mut self.buffers[index][..len]),
            },
        }
    }

    /// Nothing was received in this pass. Returns whether it is time to look at the connections.
    #[inline]
    pub(super) fn note_empty(&mut self) -> bool {
        self.empty += 1;
        let is_time = self.empty >= LOOKS;
        if is_time {
            self.empty = 0;
        }
        is_time
    }

    /// Ends the connection to a process that does not keep to the rules.
    #[cold]
    fn break_off(&mut self, index: usize) {
        self.stats.dropped += 1;
        self.sockets.close(index);
        let link = &mut self.links[index];
        link.state = State::Closed;
        self.refusals.push(link.address, []);
        event!(WARN, address = %link.address, "a process has written into shared memory what no process writes");
    }

    /// Looks at the connections, for at most `timeout`: what rings, and which processes have ended.
    #[cold]
    pub(super) fn look(&mut self, timeout: Option<Duration>) -> io::Result<News> {
        let news = self.sockets.look(timeout)?;
        for &Ended { index, why } in &news.ended {
            self.note_end(index, why);
        }
        Ok(news)
    }

    /// Asks to be woken, and looks at the connections for at most `timeout`, or until one of these descriptors of the
    /// `network` is readable. `None`: there is something to read.
    pub(super) fn sleep(&mut self, network: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Option<News>> {
        self.give_back();
        if !self.arm() {
            self.disarm();
            return Ok(None);
        }
        self.stats.receive_calls += 1;
        let news = self.look_beside(network, timeout);
        self.disarm();
        news.map(Some)
    }

    fn look_beside(&mut self, network: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<News> {
        if network.is_empty() {
            return self.look(timeout);
        }
        let has_received = self.sockets.sleep(network, timeout)?;
        let mut news = self.look(Some(Duration::ZERO))?;
        news.is_rung |= has_received;
        Ok(news)
    }

    /// Gives memory of silent directions back, if it is time, and looks whether those still read that do not.
    #[inline]
    pub(super) fn rest(&mut self, now: Instant) {
        if !self.full.is_empty() {
            self.probe_full(now);
        }
        if now.nanos_since(self.rested) >= nanos(REST) {
            self.rest_all(now);
        }
    }

    #[cold]
    fn rest_all(&mut self, now: Instant) {
        self.rested = now;
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if link.state != State::Open {
                continue;
            }
            match link.outward.rest() {
                Ok(true) => self.ring(index),
                Ok(false) => {}
                Err(Corrupt) => self.break_off(index),
            }
            self.probe(index, now);
        }
    }

    /// When [`rest`](Self::rest) has something to do.
    pub(super) fn next_rest(&self) -> Option<Instant> {
        let is_large = |link: &Link| link.state == State::Open && link.outward.is_large();
        let is_large = self.streams.have_grown() || self.links.iter().any(is_large);
        is_large.then(|| self.rested + REST)
    }

    /// Asks all processes of this host to wake this one. `false`: there is something to read already.
    pub(super) fn arm(&mut self) -> bool {
        let open = |link: &Link| link.state == State::Open;
        let armed = self
            .links
            .iter_mut()
            .filter(|link| open(link))
            .all(|link| link.inward.arm().unwrap_or(false));
        armed && self.links.iter().all(|link| !matches!(link.state, State::Ended(_)))
    }

    pub(super) fn disarm(&self) {
        self.links.iter().for_each(|link| link.inward.disarm());
    }

    /// Reports the addresses to which there is no way.
    pub(super) fn report(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.refusals.report(each);
    }
}
