//! The DPDK backend: datagrams without the kernel, by DPDK's poll-mode drivers.
//!
//! A port of a device carries Ethernet frames with IP and UDP in them. So they cross switches, and the other end can be
//! a process with a UDP socket of the kernel. The backend finds Ethernet addresses by ARP, or for IPv6 by neighbour
//! discovery; it asks and answers itself. The port has IP addresses of its own, which no interface of the kernel has.
//!
//! - **Out**: payload is copied once, behind headers from a template of the neighbour, into buffers of a pool for
//!   sending. It is not copied at all where that is faster: where the device itself copies it before the sending call
//!   returns. A few datagrams to a neighbour whose address is not known yet wait for the address.
//! - **In**: bursts are received into buffers of another pool, so that neither direction can starve the other; the
//!   payload is handed up where it lies.
//! - **Waiting** is polling (there are no interrupts), with short sleeps after a while.
//!
//! [`DpdkBackend::bind`] opens a port for one backend; several backends of a process share a [`DpdkPort`]. The first
//! port of a process starts DPDK; its settings count for all later ones.

mod device_selection;
mod discovery;
mod eal;
mod error;
mod ethernet;
mod exclusive_port;
mod frame;
mod gather;
mod guest;
mod guests;
mod neighbours;
mod options;
mod port;
mod single;
mod sleep;
mod slots;
mod stats;
mod sys;
#[cfg(test)]
mod tests;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use self::{
    discovery::Notice,
    ethernet::{ETHERNET, Host, Useless},
    frame::{Datagram, Frame, Headers, Template, UdpChecksum, Usual},
    gather::Gather,
    neighbours::Neighbours,
    port::{Item, Mailbox, STRIDE, Seat},
    sleep::Sleeps,
    slots::{Slot, Slots},
    sys::{Attached, BURST, Burst, Packet, Payload, Pool, ReceiveQueue, Rule, Scope, SendQueue},
};
pub use self::{
    error::DpdkError,
    options::{Checksum, Device, DpdkOptions, Memory},
    port::{DpdkPort, PoolUse, Pools, Steering},
    stats::DpdkStats,
};
pub(crate) use self::{
    exclusive_port::{Lent, lending_room, lending_size},
    gather::Outgoing,
    guest::{GuestBackend, Steered, remove_files},
    guests::{Guest, Renewal, offer, require},
    port::Lending,
};
use super::{Backend, BackendStats, Capabilities, Received, Sent, Transmit, Wake};
use crate::{span::Span, time::Instant};

/// The most sending calls for one burst. Packets that the port has not taken by then are given up.
const TRIES: usize = 64;
/// A port that takes nothing for this long is stuck, and its datagrams are dropped, ns.
const STUCK: u64 = 10_000_000;
/// The most datagrams that wait for their neighbours' addresses, over all neighbours.
const PARKED: usize = BURST;
/// The most bursts that one receive takes from the queues to find a datagram for this backend.
const LOOKS: usize = 4;
/// Payload of at least this many bytes in one place is sent by reference, where the device allows it: that is faster
/// than a copy (measured over memif).
const ATTACH: usize = 2048;
/// A datagram that waits for its neighbour's Ethernet address.
struct Parked {
    /// The source UDP port.
    from: u16,
    to: SocketAddr,
    packet: Packet,
}

/// A [`Backend`] on a port of DPDK.
pub struct DpdkBackend {
    // Fields that hold packets come before the port and the pools: they are dropped in this order.
    slots: Slots,
    staged: Burst,
    outgoing: Burst,
    parked: Vec<Parked>,
    mailbox: Arc<Mailbox>,
    _rule: Option<Rule>,
    queues: Vec<SendQueue>,
    /// All receive queues, if no other backend can receive from them.
    alone: Vec<ReceiveQueue>,
    port: DpdkPort,
    steering: Steering,
    neighbours: Neighbours,
    /// The state for payload that is sent by reference. `None`: payload is always copied.
    attached: Option<Attached>,
    host: Host,
    usual: Usual,
    /// The address under which the port knows this backend.
    seat: SocketAddr,
    /// Receives datagrams for any UDP port of the address.
    exclusive: bool,
    checksum: UdpChecksum,
    max_datagram: usize,
    /// The largest datagram that [`transmit_single`](Self::transmit_single) sends.
    single: usize,
    identification: u16,
    /// The index in `queues` of the queue that sends next.
    next_queue: usize,
    /// The queues that send in turn.
    in_turn: Range<usize>,
    /// The order in which receive queues are looked into: the backend's own queues before each of the others. Empty:
    /// none is polled.
    schedule: Vec<u16>,
    next_look: usize,
    /// The number of looks that cover all of its own queues and, if there are others, one other.
    span: usize,
    /// The time since which the port has taken nothing.
    full_since: Option<Instant>,
    stats: BackendStats,
    more: DpdkStats,
}

impl DpdkPort {
    /// Makes a backend at `addr` with `queues` (at least 1) of the port's eager queues. The backend sends over them in
    /// turn, and the port spreads incoming datagrams over all eager queues, if it can. Datagrams for a backend with one
    /// queue are steered to that queue.
    ///
    /// The IP address must be the port's own: not one of the kernel's interfaces, no wildcard and no group. Backends of
    /// a port may share it, with different UDP ports; port 0 takes a free one.
    ///
    /// # Errors
    /// [`DpdkError::Address`], [`DpdkError::AddressTaken`], [`DpdkError::NoQueue`].
    pub fn bind(&self, addr: SocketAddr, queues: u16) -> Result<DpdkBackend, DpdkError> {
        self.seat(addr, queues.max(1), 0)
            .map(|seat| DpdkBackend::new(self.clone(), seat))
    }

    /// Makes a backend at `addr` with a queue of its own ([`DpdkOptions::own_queues`]), into which the port puts only
    /// datagrams that are steered there.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_own(&self, addr: SocketAddr) -> Result<DpdkBackend, DpdkError> {
        self.seat(addr, 1, 1).map(|seat| DpdkBackend::new(self.clone(), seat))
    }
}

impl DpdkBackend {
    /// Opens a port for this backend alone, with all of its eager queues, at the address `addr`. Port 0 takes a free
    /// port, the wildcard takes [`DpdkOptions::address`].
    ///
    /// # Errors
    /// [`DpdkError`] says what to do.
    pub fn bind(addr: SocketAddr, options: &DpdkOptions) -> Result<Self, DpdkError> {
        let addr = match addr.ip().is_unspecified() {
            true => SocketAddr::new(options.address, addr.port()),
            false => addr,
        };
        port::check_address(addr)?;
        DpdkPort::open(options)?.bind(addr, options.queues)
    }

    fn new(port: DpdkPort, seat: Seat) -> Self {
        let Seat {
            host,
            queues,
            alone,
            mailbox,
            rule,
            steering,
        } = seat;
        let own: Vec<u16> = queues.iter().map(SendQueue::index).collect();
        let others: Vec<u16> = (0..port.queues()).filter(|queue| !own.contains(queue)).collect();
        let schedule = match others.is_empty() {
            true => own.clone(),
            false => others
                .iter()
                .flat_map(|other| own.iter().chain([other]).copied())
                .collect(),
        };
        let shared = &port.shared;
        let checksum = shared.checksum(host.addr.is_ipv4());
        // A checksum over payload sent by reference would read the payload once more.
        let attaches =
            shared.options.device.copies_when_sent() && checksum == UdpChecksum::Absent && host.addr.is_ipv4();
        let mut this = Self {
            slots: Slots::new(),
            staged: Burst::new(),
            outgoing: Burst::new(),
            parked: Vec::with_capacity(PARKED),
            mailbox,
            _rule: rule,
            queues,
            alone,
            steering,
            neighbours: Neighbours::new(host),
            attached: attaches.then(Attached::new),
            host,
            usual: Usual::new(&host),
            checksum,
            seat: host.addr,
            exclusive: false,
            max_datagram: usize::from(shared.options.packet_size()) - host.overhead(),
            single: 0,
            identification: 0,
            next_queue: 0,
            in_turn: 0..own.len(),
            span: own.len() + usize::from(!others.is_empty()),
            schedule,
            next_look: 0,
            full_since: None,
            stats: BackendStats::default(),
            more: DpdkStats::default(),
            port,
        };
        this.single = this.most_single();
        // Neighbours that know this address with another Ethernet address learn the new one.
        if !this.port.shared.port.is_borrowed() {
            this.send_alone(&discovery::announce(&host));
        }
        this
    }

    /// Sets the largest datagram, bytes; the MTU may lower it.
    #[must_use]
    pub fn max_datagram(mut self, bytes: usize) -> Self {
        self.max_datagram = bytes.clamp(1, self.max_datagram);
        self.single = self.most_single();
        self
    }

    /// Shows how the packet buffers are used.
    #[must_use]
    pub fn pools(&self) -> Pools {
        self.port.pools()
    }

    /// The port's Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.host.mac
    }

    /// The port of this backend, which other backends can use as well.
    #[must_use]
    pub fn port(&self) -> &DpdkPort {
        &self.port
    }

    /// How datagrams reach this backend.
    #[must_use]
    pub fn steering(&self) -> Steering {
        self.steering
    }

    /// Sets the Ethernet address of `ip` to `mac`, as known by other means, so that the backend does not ask for it. An
    /// address that the neighbour itself announces later replaces it.
    pub fn add_neighbour(&mut self, ip: IpAddr, mac: [u8; 6]) {
        self.neighbours.learn(ip, mac);
        self.port.shared.populate();
    }

    /// Counters that only this backend has.
    #[must_use]
    pub fn dpdk_stats(&self) -> DpdkStats {
        let counters = self.port.shared.port.counters();
        DpdkStats {
            handed_over: self.mailbox.handed_over(),
            overflows: self.mailbox.overflows(),
            link_up: self.port.is_up(),
            port_received: counters.received,
            port_sent: counters.sent,
            port_missed: counters.missed,
            port_receive_errors: counters.receive_errors,
            port_send_errors: counters.send_errors,
            port_no_buffer: counters.no_buffer,
            ..self.more
        }
    }

    /// Sends one frame that this backend has made. A frame that cannot be sent now is lost.
    fn send_alone(&mut self, bytes: &[u8]) {
        let mut one = Burst::new();
        if self.port.shared.pools.send.take(1, bytes.len(), &mut one) {
            one.for_each(|_, packet| packet.data_mut().copy_from_slice(bytes));
            self.queues[0].send(&mut one);
        }
    }

    /// Sends the packets in `outgoing`, and drops those that the port does not take.
    #[inline]
    fn push_out(&mut self, now: Instant) -> Sent {
        let all = self.outgoing.len();
        let mut sent = 0;
        for _ in 0..TRIES {
            self.stats.transmit_calls += 1;
            sent += self.queues[self.next_queue].send(&mut self.outgoing);
            self.turn();
            if sent == all {
                self.full_since = None;
                return Sent::All;
            }
            std::hint::spin_loop();
        }
        let left = self.outgoing.len();
        self.outgoing.clear();
        let since = *self.full_since.get_or_insert(now);
        let stuck = now.saturating_since(since).as_nanos() as u64 >= STUCK;
        if sent > 0 {
            self.full_since = None;
        }
        if sent > 0 || stuck || !self.port.is_up() {
            self.more.untaken += left as u64;
            Sent::Dropped
        } else {
            Sent::Busy
        }
    }

    /// Sends the datagrams of `transmit`, which must fit one burst. With a `scope`, large pieces of payload are sent by
    /// reference; afterwards nothing refers to them any more.
    #[inline(always)]
    fn send<'env>(&mut self, now: Instant, transmit: &Outgoing<'env>, scope: Option<&Scope<'_, 'env>>) -> Sent {
        if transmit.len <= transmit.segment_size
            && let Some(sent) = self.send_one(now, transmit, scope)
        {
            return sent;
        }
        self.send_burst(now, transmit, scope)
    }

    fn send_burst<'env>(&mut self, now: Instant, transmit: &Outgoing<'env>, scope: Option<&Scope<'_, 'env>>) -> Sent {
        let to = transmit.destination;
        let route = self.neighbours.route(now, to.ip());
        let ask = route.ask;
        let pool = &*self.port.shared.pools.send;
        let scope = scope.filter(|_| route.template.is_some());
        let sent = if !load(&mut self.outgoing, pool, transmit, self.host.headers(), scope) {
            // All buffers are in the port's queue.
            Sent::Busy
        } else if let Some(template) = route.template {
            let ports = [self.host.addr.port(), to.port()];
            address(
                &mut self.outgoing,
                template,
                ports,
                self.checksum,
                &mut self.identification,
            );
            self.push_out(now)
        } else {
            self.park(to);
            Sent::All
        };
        if ask {
            self.more.neighbours_asked += 1;
            self.send_alone(&discovery::ask(&self.host, to.ip()));
        }
        sent
    }

    /// Moves on to the next send queue.
    #[inline]
    fn turn(&mut self) {
        self.next_queue += 1;
        if self.next_queue == self.in_turn.end {
            self.next_queue = self.in_turn.start;
        }
    }

    /// Sends by this queue alone from now on.
    pub(super) fn use_queue(&mut self, index: usize) {
        self.in_turn = index..index + 1;
        self.next_queue = index;
    }

    /// Receives from no queue until [`poll_queue`](Self::poll_queue) names some.
    pub(super) fn poll_no_queue(&mut self) {
        self.schedule.clear();
        (self.span, self.next_look) = (0, 0);
    }

    /// No queue is named.
    #[inline]
    pub(super) fn polls_no_queue(&self) -> bool {
        self.schedule.is_empty()
    }

    /// Receives from this queue of its own, too.
    pub(super) fn poll_queue(&mut self, index: usize) {
        let queue = self.queues[index].index();
        if !self.schedule.contains(&queue) {
            self.schedule.push(queue);
            self.span += 1;
        }
    }

    /// Keeps the packets in `outgoing` until `to` has told its Ethernet address. Drops the oldest ones if too many
    /// wait.
    fn park(&mut self, to: SocketAddr) {
        while let Some(packet) = self.outgoing.pop() {
            if self.parked.len() == PARKED {
                self.parked.remove(0);
                self.more.unresolved += 1;
            }
            let from = self.host.addr.port();
            self.parked.push(Parked { from, to, packet });
        }
    }

    /// Sends the packets that have waited for the address of `ip`.
    fn unpark(&mut self, now: Instant, ip: IpAddr) {
        let Some(template) = self.neighbours.route(now, ip).template.cloned() else {
            return;
        };
        let (ready, waiting) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|parked| parked.to.ip() == ip);
        self.parked = waiting;
        for Parked { from, to, packet } in ready {
            if self.outgoing.push(packet).is_err() {
                continue;
            }
            address(
                &mut self.outgoing,
                &template,
                [from, to.port()],
                self.checksum,
                &mut self.identification,
            );
            let _ = self.push_out(now);
        }
    }

    fn hear(&mut self, now: Instant, notice: &Notice) {
        self.port.shared.populate();
        if let Some(ip) = self.neighbours.hear(now, notice) {
            self.unpark(now, ip);
        }
    }

    /// Handles a notice that no other backend of the port has seen. `from`: the Ethernet address of its sender.
    fn notice(&mut self, now: Instant, notice: &Notice, from: ethernet::Mac) {
        let asks_us = self.port.shared.tell(&self.mailbox, notice);
        let answer = discovery::answer(self.host.mac, notice.target, notice, from);
        if let Some(answer) = answer.filter(|_| asks_us) {
            self.more.neighbours_answered += 1;
            self.send_alone(&answer);
        }
        self.hear(now, notice);
    }

    fn count(&mut self, useless: Useless) {
        let counter = match useless {
            Useless::Malformed => &mut self.more.malformed,
            Useless::Vlan => &mut self.more.vlan,
            Useless::OtherProtocol => &mut self.more.other_protocol,
            Useless::NotOurs => &mut self.more.not_ours,
            Useless::Fragment => &mut self.more.fragments,
            Useless::BadChecksum => &mut self.more.bad_checksum,
        };
        *counter += 1;
    }

    /// Reads the oldest staged packet, which becomes a slot if it is a datagram for this backend. `false`: there is
    /// none.
    #[inline]
    fn look(&mut self, now: Instant) -> bool {
        let Some(packet) = self.staged.pop() else {
            return false;
        };
        match self.usual.read(packet.data(), || packet.udp_checksum() == Some(true)) {
            Some((source, end)) => {
                self.stats.bytes_received += (end - Usual::HEADERS) as u64;
                let payload = Payload::new(packet, Usual::HEADERS..end);
                self.slots.push(Slot::new(payload, source));
            }
            None => self.look_closer(now, packet),
        }
        true
    }

    /// Reads a packet that is not a usual datagram.
    #[inline(never)]
    fn look_closer(&mut self, now: Instant, packet: Packet) {
        if !packet.is_whole() {
            self.more.oversized += 1;
            return;
        }
        let read = match packet.udp_checksum() {
            Some(false) => Err(Useless::BadChecksum),
            _ => frame::parse(packet.data(), &self.host.mac),
        };
        match read {
            Ok(Frame::Datagram(datagram)) => self.look_at_datagram(packet, &datagram),
            Ok(Frame::Notice(notice)) => {
                let from = packet.data()[6..12].try_into().expect("six bytes");
                self.notice(now, &notice, from);
            }
            Err(useless) => self.count(useless),
        }
    }

    fn look_at_datagram(&mut self, packet: Packet, datagram: &Datagram) {
        let Datagram { source, start, end, .. } = *datagram;
        if packet.udp_checksum() != Some(true) && !datagram.is_intact(packet.data()) {
            self.count(Useless::BadChecksum);
            return;
        }
        // As with sockets, an empty datagram is not handed up.
        if start == end {
            return;
        }
        let payload = Payload::new(packet, start..end);
        if datagram.destination == self.host.addr
            || (self.exclusive && datagram.destination.ip() == self.host.addr.ip())
        {
            self.keep(Slot::new(payload, source));
        } else if !self
            .port
            .shared
            .hand_over(datagram.destination, Slot::new(payload, source))
        {
            self.count(Useless::NotOurs);
        }
    }

    /// Adds a datagram to those that are handed up.
    fn keep(&mut self, mut slot: Slot) {
        self.stats.bytes_received += slot.payload().len() as u64;
        self.slots.push(slot);
    }

    /// Receives packets from this backend's own queues or, in turn, from one other. Returns whether there were any.
    #[inline]
    fn stage(&mut self) -> bool {
        for _ in 0..self.span {
            let queue = self.schedule[self.next_look];
            self.next_look += 1;
            if self.next_look == self.schedule.len() {
                self.next_look = 0;
            }
            self.stats.receive_calls += 1;
            let found = match self.alone.get_mut(usize::from(queue)) {
                Some(queue) => queue.receive(&mut self.staged) > 0,
                None => self.port.shared.receive(queue, &mut self.staged),
            };
            if found {
                return true;
            }
        }
        false
    }

    /// Takes the datagrams and notices that other backends have put into the mailbox.
    fn open_mailbox(&mut self, now: Instant, budget: usize) {
        while self.slots.len() < budget {
            match self.mailbox.pop() {
                Some(Item::Datagram(slot)) => self.keep(slot),
                Some(Item::Notice(notice)) => self.hear(now, &notice),
                None => break,
            }
        }
    }

    /// [`Backend::transmit`] for payload that no slice may refer to. The payload is copied, or the device reads it in
    /// place.
    #[inline(always)]
    pub(crate) fn transmit_spans(&mut self, now: Instant, transmit: Outgoing<'_>) -> io::Result<Sent> {
        let single = self.transmit_single(now, transmit);
        Ok(single.unwrap_or_else(|| self.transmit_any(now, &transmit)))
    }

    #[inline(never)]
    fn transmit_any(&mut self, now: Instant, transmit: &Outgoing<'_>) -> Sent {
        if transmit.len == 0 {
            return Sent::All;
        }
        let to = transmit.destination;
        if to.is_ipv4() != self.host.addr.is_ipv4() {
            return self.dropped();
        }
        // This backend does not fragment: a datagram that does not fit cannot be sent, whatever the caller allows.
        let datagram = transmit.segment_size.min(transmit.len);
        if datagram > self.max_datagram || datagram == 0 || transmit.segments() > BURST {
            return self.dropped();
        }
        let sent = if datagram >= ATTACH
            && let Some(attached) = self.attached.take()
        {
            let sent = attached.scope(|scope| self.send(now, transmit, Some(scope)));
            self.attached = Some(attached);
            sent
        } else {
            self.send(now, transmit, None)
        };
        self.count_sent(sent, transmit.segments(), transmit.len);
        sent
    }

    #[inline]
    fn count_sent(&mut self, sent: Sent, datagrams: usize, bytes: usize) {
        match sent {
            Sent::All => {
                self.stats.datagrams_sent += datagrams as u64;
                self.stats.bytes_sent += bytes as u64;
            }
            Sent::Busy => self.stats.busy += 1,
            Sent::Dropped => self.stats.dropped += 1,
        }
    }

    /// Receives at most `budget` datagrams. `looks`: the number of looks into queues that this receive has already
    /// made.
    #[inline(never)]
    fn receive_any(&mut self, now: Instant, budget: usize, mut looks: usize) -> usize {
        let budget = budget.min(BURST);
        if !self.mailbox.is_empty() {
            self.open_mailbox(now, budget);
        }
        loop {
            while self.slots.len() < budget && self.look(now) {}
            if !self.slots.is_empty() || looks == LOOKS || budget == 0 || !self.stage() {
                break;
            }
            looks += 1;
        }
        self.stats.datagrams_received += self.slots.len() as u64;
        self.slots.len()
    }

    /// Bytes of datagrams that may wait in this backend's queues.
    fn receive_buffer(&self) -> usize {
        self.queues.len() * self.port.shared.share() * self.max_datagram
    }

    fn dropped(&mut self) -> Sent {
        self.stats.dropped += 1;
        Sent::Dropped
    }
}

impl Drop for DpdkBackend {
    fn drop(&mut self) {
        self.port.shared.leave(self.seat, &mut self.queues, &mut self.alone);
        while self.mailbox.pop().is_some() {}
    }
}

/// Returns whether a piece is worth being sent by reference.
#[inline]
fn is_large(payload: &Span<'_>) -> bool {
    payload.len() >= ATTACH
}

/// Fills `burst` with the datagrams of `transmit`, behind room for `headers` bytes of headers. With a `scope`, large
/// pieces of payload are sent by reference. `false`: there are not enough buffers.
#[inline]
fn load<'env>(
    burst: &mut Burst,
    pool: &Pool,
    transmit: &Outgoing<'env>,
    headers: usize,
    scope: Option<&Scope<'_, 'env>>,
) -> bool {
    let segment = transmit.segment_size.min(transmit.len);
    let segments = transmit.segments();
    if !pool.take(segments, headers + segment, burst) {
        return false;
    }
    let last = transmit.len - (segments - 1) * segment;
    let mut gather = Gather::new(transmit.spans);
    let Some(scope) = scope else {
        if last != segment {
            burst.cut_last(headers + last);
        }
        burst.for_each(|_, packet| gather.copy(&mut packet.data_mut()[headers..]));
        return true;
    };
    let mut complete = true;
    burst.for_each(|index, packet| {
        let len = if index + 1 == segments { last } else { segment };
        let tail = gather.tail(len).filter(is_large);
        let copied = len - tail.map_or(0, |tail| tail.len());
        if copied < segment {
            packet.cut(headers + copied);
        }
        gather.copy(&mut packet.data_mut()[headers..]);
        if let Some(tail) = tail {
            complete &= scope.attach(packet, pool, tail);
            gather.skip(tail.len());
        }
    });
    if !complete {
        burst.clear();
    }
    complete
}

/// Writes the headers of all packets of a burst. Nearly all of the packets are of one length.
#[inline]
fn address(burst: &mut Burst, template: &Template, ports: [u16; 2], checksum: UdpChecksum, identification: &mut u16) {
    let mut last: Option<(usize, Headers<'_>)> = None;
    burst.for_each(|_, packet| {
        *identification = identification.wrapping_add(1);
        let bytes = packet.len();
        let headers = match &last {
            Some((len, headers)) if *len == bytes => headers,
            _ => &last.insert((bytes, template.headers(bytes, ports, checksum))).1,
        };
        headers.write(packet.data_mut(), *identification);
        if checksum == UdpChecksum::Port {
            packet.ask_udp_checksum(ETHERNET, headers.ip());
        }
    });
}

impl Backend for DpdkBackend {
    fn name(&self) -> &'static str {
        "dpdk"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_segments: self.port.shared.burst,
            max_batch: self.port.shared.burst * self.max_datagram,
            receive_buffer: self.receive_buffer(),
            ack_bytes: match self.port.shared.options.device.is_memory() {
                true => STRIDE,
                false => usize::MAX,
            },
            ..Capabilities::new(self.max_datagram)
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.host.addr
    }

    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        // (Made twice, because the first one nearly always stays out of memory.)
        let single = self.transmit_single(now, Outgoing::new(transmit));
        Ok(single.unwrap_or_else(|| self.transmit_any(now, &Outgoing::new(transmit))))
    }

    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        let mut looks = 0;
        self.slots.clear();
        let single = self.receive_single(budget, &mut looks);
        Ok(single.unwrap_or_else(|| self.receive_any(now, budget, looks)))
    }

    fn received(&mut self, index: usize) -> Received<'_> {
        let slot = &mut self.slots[index];
        let source = slot.source;
        let data = slot.payload().data_mut();
        Received {
            source,
            port: 0,
            stride: data.len(),
            data: data.into(),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        let mut sleeps = Sleeps::new(timeout);
        loop {
            if !self.staged.is_empty() || !self.mailbox.is_empty() || self.stage() {
                return Ok(Wake::Readable);
            }
            if !sleeps.next() {
                return Ok(Wake::TimedOut);
            }
        }
    }

    fn stats(&self) -> BackendStats {
        self.stats
    }

    fn neighbours(&mut self) -> Option<&mut dyn super::Neighbours> {
        Some(self)
    }
}

impl super::Neighbours for DpdkBackend {
    /// The port's Ethernet address.
    fn link_address(&self) -> Vec<u8> {
        self.host.mac.to_vec()
    }

    fn introduce(&mut self, address: SocketAddr, link: &[u8]) -> io::Result<()> {
        // A group address belongs to no single host.
        if let Ok(mac) = <[u8; 6]>::try_from(link)
            && mac[0] & 1 == 0
            && address.ip() != self.host.addr.ip()
        {
            self.add_neighbour(address.ip(), mac);
        }
        Ok(())
    }
}

impl fmt::Debug for DpdkBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpdkBackend")
            .field("local", &self.host.addr)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// DPDK's version, for instance `DPDK 22.11.11`.
#[must_use]
pub fn version() -> String {
    sys::version()
}
