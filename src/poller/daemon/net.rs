//! The ports of a poller, and what its processes have in common there.

use std::{
    collections::VecDeque,
    io, iter, mem,
    net::{IpAddr, SocketAddr},
};

use crate::{
    backends::{
        Backend, BackendStats, Sent,
        dpdk::{DpdkBackend, Outgoing},
    },
    reliability::{Burst, Limits, Path},
    span::Span,
    time::Instant,
};

/// Number of parts that most bursts do not exceed.
const FEW_SPANS: usize = 8;
/// Buffers kept for local datagrams.
const SPARE: usize = 256;

/// The ports, and state shared by all processes.
pub(super) struct Net {
    /// The port that is used now: the only one, or the one that was [chosen](Self::choose) last.
    pub(super) backend: Box<DpdkBackend>,
    /// Its number.
    pub(super) port: u8,
    /// The others, by their numbers; none in its own place.
    others: Vec<Option<Box<DpdkBackend>>>,
    /// Of each port: its address, and the bytes of the largest datagram that it takes.
    sides: Vec<(IpAddr, usize)>,
    pub(super) limits: Limits,
    /// Buffers on loan to all processes, and their limit.
    pub(super) on_loan: u32,
    pub(super) most: u32,
    pub(super) lent: u64,
    pub(super) copied: u64,
    pub(super) put_off: u64,
    pub(super) unread: u64,
    /// Datagrams from one local process to another, which the port would not carry.
    local: VecDeque<Local>,
    /// Free buffers for them.
    spare: Vec<Vec<u8>>,
    /// UDP port of the current sender.
    from: u16,
}

/// A datagram from one local process to another.
pub(super) struct Local {
    /// The UDP ports.
    pub(super) from: u16,
    pub(super) to: u16,
    /// The numbers of the ports by which it leaves, and to which it comes.
    ports: [u8; 2],
    pub(super) bytes: Vec<u8>,
}

impl Net {
    /// With the first port, and further ones.
    pub(super) fn new(first: DpdkBackend, further: Vec<DpdkBackend>, limits: Limits, most: u32) -> Self {
        let all = iter::once(&first).chain(&further);
        let sides = all.map(|port| (port.local_addr().ip(), port.capabilities().max_datagram));
        Self {
            sides: sides.collect(),
            others: iter::once(None)
                .chain(further.into_iter().map(|port| Some(Box::new(port))))
                .collect(),
            backend: Box::new(first),
            port: 0,
            local: VecDeque::new(),
            spare: Vec::new(),
            from: 0,
            limits,
            on_loan: 0,
            most,
            lent: 0,
            copied: 0,
            put_off: 0,
            unread: 0,
        }
    }

    /// The number of ports.
    pub(super) fn count(&self) -> u8 {
        self.sides.len() as u8
    }

    /// All ports, in the order of their numbers.
    pub(super) fn ports(&self) -> impl Iterator<Item = &DpdkBackend> {
        let ports = self.others.iter();
        ports.map(|port| port.as_ref().map_or(&*self.backend, |port| port))
    }

    /// The first port: its queues are for other processes, too.
    pub(super) fn first(&self) -> &DpdkBackend {
        let first = self.others.first().and_then(Option::as_ref);
        first.map_or(&*self.backend, |port| port)
    }

    /// The addresses of the ports.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.sides.iter().map(|(address, _)| *address)
    }

    /// The ports that take smaller datagrams than others, and the bytes of their largest.
    pub(super) fn smaller(&self) -> impl Iterator<Item = (u8, usize)> {
        let sides = (0..).zip(&self.sides).map(|(port, (_, most))| (port, *most));
        sides.filter(|(_, most)| *most < self.limits.max_datagram)
    }

    /// The sums over all ports.
    pub(super) fn stats(&self) -> BackendStats {
        self.ports().map(Backend::stats).sum()
    }

    /// Uses the port of this number from now on; `false`: there is none.
    #[inline]
    pub(super) fn choose(&mut self, port: u8) -> bool {
        port == self.port || self.change(port)
    }

    /// Uses the port after this one from now on; the first follows the last.
    pub(super) fn choose_next(&mut self) {
        self.choose((self.port + 1) % self.count());
    }

    #[inline(never)]
    fn change(&mut self, port: u8) -> bool {
        let found = self.others.get_mut(usize::from(port)).and_then(Option::take);
        let Some(found) = found else { return false };
        let before = mem::replace(&mut self.backend, found);
        self.others[usize::from(self.port)] = Some(before);
        self.port = port;
        self.backend.send_from(self.from);
        true
    }

    /// The number of the port that has this address, if it is one of several.
    #[inline]
    fn port_at(&self, address: IpAddr) -> Option<u8> {
        if self.sides.len() == 1 {
            return None;
        }
        let found = self.sides.iter().position(|(own, _)| *own == address);
        found.map(|port| port as u8)
    }

    /// Sets the source UDP port of what is sent from now on.
    #[inline]
    pub(super) fn send_from(&mut self, port: u16) {
        self.from = port;
        self.backend.send_from(port);
    }

    /// Keeps the datagrams of a burst for a local process. `at`: the number of the port to which it is addressed.
    #[cold]
    fn keep(&mut self, transmit: &Outgoing<'_>, at: u8) {
        let mut spans = transmit.spans.iter();
        let mut rest = Span::default();
        let mut left = transmit.len;
        while left > 0 {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            let len = left.min(transmit.segment_size);
            while bytes.len() < len {
                if rest.is_empty() {
                    let Some(&span) = spans.next() else { return };
                    rest = span;
                }
                let (now, later) = rest.split_at(rest.len().min(len - bytes.len()));
                now.append_to(&mut bytes);
                rest = later;
            }
            left -= len;
            self.local.push_back(Local {
                from: self.from,
                to: transmit.destination.port(),
                ports: [self.port, at],
                bytes,
            });
        }
    }

    /// The next local datagram.
    #[inline]
    pub(super) fn next_local(&mut self) -> Option<Local> {
        self.local.pop_front()
    }

    /// The way back to the sender of a local datagram.
    #[inline]
    pub(super) fn way_back(&self, local: &Local) -> Path {
        let [by, at] = local.ports;
        let (address, _) = self.sides[usize::from(by)];
        Path::new(SocketAddr::new(address, local.from), at)
    }

    /// Counts a datagram that was not taken: because there was no room for it, because its process does not read its
    /// reports, or because it has nothing for the process.
    #[inline]
    pub(super) fn note_untaken(&mut self, room: bool, full: bool) {
        self.unread += u64::from(full);
        self.put_off += u64::from(!room && !full);
    }

    pub(super) fn done(&mut self, local: Local) {
        if self.spare.len() < SPARE {
            self.spare.push(local.bytes);
        }
    }

    /// Sends a burst whose bytes `gather` shows, by its port. `false`: the port is busy.
    #[inline]
    pub(super) fn transmit<'a>(
        &mut self,
        now: Instant,
        burst: &Burst,
        gather: impl Fn(&mut dyn FnMut(Span<'a>)),
    ) -> io::Result<bool> {
        let mut few = [Span::default(); FEW_SPANS];
        let mut many = Vec::new();
        let mut count = 0;
        gather(&mut |bytes| {
            if let Some(span) = few.get_mut(count) {
                *span = bytes;
            }
            count += 1;
        });
        if count > FEW_SPANS {
            many.reserve(count);
            gather(&mut |bytes| many.push(bytes));
        }
        if !self.choose(burst.port()) {
            // The process may have named any: such a rail leads nowhere.
            return Ok(true);
        }
        let transmit = Outgoing {
            destination: burst.destination(),
            segment_size: burst.segment_size(),
            len: burst.len(),
            spans: few.get(..count).unwrap_or(&many),
        };
        let ip = transmit.destination.ip();
        if ip == self.backend.local_addr().ip() {
            self.keep(&transmit, self.port);
            return Ok(true);
        }
        if let Some(at) = self.port_at(ip) {
            self.keep(&transmit, at);
            return Ok(true);
        }
        Ok(self.backend.transmit_spans(now, transmit)? != Sent::Busy)
    }
}
