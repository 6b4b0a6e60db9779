//! Input: datagrams from the network.

use core::{net::SocketAddr, slice::Chunks};

use super::{Endpoint, IDLE};
use crate::{
    config::{MAX_WINDOW_PACKETS, Recovery},
    error::{DropReason, PeerError},
    reliability::{
        Origin, Path, PeerId, Sink, Verdict,
        credit::cost_of,
        flow::{Active, FlowKey},
        peer::is_of_session,
        timers::Timer,
    },
    time::Instant,
    wire::{self, Base, Flags, Kind, Packet, Seq, Token, checksum},
};

/// A packet with the fields that are read several times.
pub(super) struct Arrival<'a> {
    pub(super) source: SocketAddr,
    pub(super) bytes: &'a [u8],
    pub(super) packet: Packet<&'a [u8]>,
    pub(super) base: Base,
    pub(super) flags: Flags,
}

impl<'a> Arrival<'a> {
    /// `packet` is the parsed form of `bytes`.
    #[inline(always)]
    pub(super) fn new(source: SocketAddr, bytes: &'a [u8], packet: Packet<&'a [u8]>) -> Self {
        Self {
            source,
            bytes,
            packet,
            base: packet.base(),
            flags: packet.flags(),
        }
    }
}

impl Endpoint {
    /// Handles datagrams that came by one path; an address stands for the path by port 0. `data` holds them back to
    /// back, `stride` bytes each except the last, which may be shorter: the layout of receive offload. A single datagram
    /// has `stride == data.len()`. New packets go to `sink`, which may refer to `data` only during the call.
    #[inline]
    pub fn handle_datagrams<S: Sink + ?Sized>(
        &mut self,
        now: Instant,
        path: impl Into<Path>,
        data: &mut [u8],
        stride: usize,
        sink: &mut S,
    ) {
        let Path { address: source, port } = path.into();
        self.port = port;
        self.advance(now);
        if data.len() <= stride && self.handle_predicted(&source, data, sink) {
            return;
        }
        if self.sealing.is_some() {
            // (Not generic, so that the usual way has `handle_packet` in line.)
            self.handle_sealed(source, data, stride, &mut { sink });
            return;
        }
        let mut rest = data.chunks(stride.max(1));
        while let Some(bytes) = rest.next() {
            self.stats.packets_received += 1;
            if let Err(reason) = self.handle_packet(source, bytes, &mut rest, sink) {
                self.count_drop(reason);
            }
        }
    }

    /// Takes in one packet, and those behind it that just go on. An error is why it (or the last one) is dropped;
    /// `Ok` also stands for drops that are counted already.
    #[inline]
    pub(super) fn handle_packet<S: Sink + ?Sized>(
        &mut self,
        source: SocketAddr,
        bytes: &[u8],
        rest: &mut Chunks<'_, u8>,
        sink: &mut S,
    ) -> Result<(), DropReason> {
        let packet = Packet::new_checked(bytes).map_err(DropReason::of)?;
        let arrival = Arrival::new(source, bytes, packet);
        self.handle_any(&arrival, rest, sink)
    }

    /// Like [`handle_datagrams`](Self::handle_datagrams), without the fast paths.
    pub(super) fn handle_any<S: Sink + ?Sized>(
        &mut self,
        arrival: &Arrival<'_>,
        rest: &mut Chunks<'_, u8>,
        sink: &mut S,
    ) -> Result<(), DropReason> {
        let &Arrival {
            source,
            bytes,
            packet,
            base,
            flags,
        } = arrival;
        if !is_agreed(&base, flags) {
            return Err(self.refuse_sealed(source, &packet));
        }
        // (A sealer has verified the packet already.)
        let checked = (flags.contains(Flags::OPEN) || base.kind == Kind::Reset || self.must_be_checked(base.session))
            && self.sealing.is_none();
        if !is_intact(checked, &packet, bytes, flags) {
            return Err(DropReason::Checksum);
        }
        match base.kind {
            Kind::Reset => return self.handle_reset(source, &base),
            Kind::Challenge => return self.handle_challenge(source, &packet),
            _ => {}
        }
        let known = match base.session.index {
            0 | Token::COOKIE if is_about_settling(base.kind) => return Err(DropReason::Unagreed),
            0 | Token::COOKIE => self.open_session(source, &packet)?,
            _ => self.peer_of(base.session, source)?,
        };
        let Some(peer) = known else { return Ok(()) };
        let p = &self.peers[peer as usize];
        if is_about_settling(base.kind) && !p.settles() || base.rail != 0 && !self.allow_rail(peer, base.rail) {
            return Err(DropReason::Unagreed);
        }
        let p = &self.peers[peer as usize];
        let is_usual = p.is_confirmed() && p.is_bound() && !flags.contains(Flags::OPEN);
        if !is_usual {
            self.confirm(peer, &packet, is_of_session(base.session))?;
        }
        let active_now = self.active_now();
        self.peers[peer as usize].last_heard = active_now;
        if flags.contains(Flags::CREDIT) {
            self.handle_credit(peer, &packet);
        }
        match base.kind {
            Kind::Data | Kind::Goodbye | Kind::Return | Kind::Ack => self.handle_flow(peer, arrival, rest, sink),
            Kind::Probe => {
                self.answer_probe(peer, source, &base);
                Ok(())
            }
            Kind::ProbeAck => self.handle_probe_answer(peer, base.rail, base.message.0),
            Kind::Settle => self.handle_settle(peer, source, &base),
            Kind::Settled => self.handle_settled(peer, &packet, &base),
            Kind::Reset | Kind::Challenge => Ok(()),
        }
    }

    #[cold]
    fn handle_credit(&mut self, peer: u32, packet: &Packet<&[u8]>) {
        let Some(credit) = packet.credit() else {
            return;
        };
        let p = &mut self.peers[peer as usize];
        p.window = credit.window.max(1);
        let more = credit.limit.wrapping_sub(p.cost_limit as u32);
        if more != 0 && (more as i32) > 0 {
            p.cost_limit += u64::from(more);
            if let Some(news) = &mut self.credit_news {
                news.push(peer);
            }
        }
        self.wake_flows(peer);
    }

    #[cold]
    fn handle_probe_answer(&mut self, peer: u32, rail: u8, number: u32) -> Result<(), DropReason> {
        if self.peers[peer as usize].has_rails() && self.handle_rail_answer(peer, rail, number) {
            return Ok(());
        }
        let flow = self
            .find_flow(peer, FlowKey::new(rail, 0))
            .ok_or(DropReason::Unsolicited)?;
        let index = self.flows[flow as usize].active;
        let active = self.actives.get_mut(index as usize).ok_or(DropReason::Unsolicited)?;
        let (size, step) = active.probe.on_answer(number).ok_or(DropReason::Unsolicited)?;
        active.deadlines.stop(Timer::Mtu);
        self.set_mtu((peer, rail), size, false);
        self.on_mtu_step(index, step);
        Ok(())
    }

    /// Handles a packet that belongs to a flow: first its acknowledgement, then its content.
    #[inline]
    fn handle_flow<S: Sink + ?Sized>(
        &mut self,
        peer: u32,
        arrival: &Arrival<'_>,
        rest: &mut Chunks<'_, u8>,
        sink: &mut S,
    ) -> Result<(), DropReason> {
        let Arrival {
            packet, base, flags, ..
        } = arrival;
        let flow = match self.find_flow(peer, FlowKey::of(base)) {
            Some(flow) => flow,
            // An acknowledgement of nothing makes no flow, unless it wants an answer.
            None if !base.kind.is_sequenced() && !flags.contains(Flags::ACK_REQUEST) => {
                return Ok(());
            }
            None => self.flow_for(peer, FlowKey::of(base)),
        };
        // A sender that does not know our token cannot have received anything to acknowledge.
        if is_of_session(base.session) && self.is_news(flow, base.acknowledgement, *flags) {
            let session = self.peers[peer as usize].session;
            if !self.handle_ack(flow, packet, base.acknowledgement, *flags) {
                return Err(DropReason::BadAck);
            }
            if self.peers[peer as usize].session != session {
                return Ok(());
            }
        }
        if base.kind.is_sequenced() {
            return self.receive(peer, flow, arrival, rest, sink);
        }
        let index = self.flows[flow as usize].active;
        let is_silent = |active: &Active| active.send.timeouts() >= 2;
        if self.actives.get(index as usize).is_some_and(is_silent) {
            self.suspect_path(index);
        }
        if flags.contains(Flags::ACK_REQUEST) {
            let index = self.activate(flow);
            self.acknowledge_now(index);
        }
        Ok(())
    }

    /// Handles a sequenced packet: delivers it if it is new and fits the window and the credit. The packets behind it
    /// in the same burst that are next in sequence are handled here too, without another lookup.
    #[inline]
    fn receive<S: Sink + ?Sized>(
        &mut self,
        peer: u32,
        flow: u32,
        arrival: &Arrival<'_>,
        rest: &mut Chunks<'_, u8>,
        sink: &mut S,
    ) -> Result<(), DropReason> {
        let base = &arrival.base;
        let index = self.activate(flow);
        if base.sequence != self.flows[flow as usize].expected()
            && let Some(reason) = self.refuse(index, base, arrival.flags)
        {
            self.note_reply_of_old(peer, base.rail, arrival.source);
            return Err(reason);
        }
        if base.kind == Kind::Return && !self.note_return(peer, &arrival.packet, base) {
            return Err(self.put_off(index));
        }
        let state = &mut self.flows[flow as usize];
        let active = &mut self.actives[index as usize];
        let receive = &mut active.receive;
        let p = &mut self.peers[peer as usize];
        let in_order = base.sequence == state.expected() && !receive.has_gap(state);
        let goes_on = in_order && base.kind == Kind::Data && is_of_session(base.session);
        let limit = p.cost_released.wrapping_add(self.config.unexpected_bytes);
        let checked = p.checksums();
        let (mut packet, mut flags) = (arrival.packet, arrival.flags);
        let (mut taken, mut bytes, mut marks, mut verdict) = (0, 0, Flags::empty(), Verdict::Taken);
        loop {
            let len = packet.payload().len() as u32;
            if base.kind == Kind::Data {
                let cost = cost_of(&packet, flags);
                // A packet beyond the announced limit may have been sent before the peer knew the limit.
                if p.exceeds(cost, p.limit_told) && p.exceeds(cost, limit) {
                    verdict = Verdict::NoRoom;
                    break;
                }
                let origin = Origin {
                    peer: PeerId(peer),
                    channel: base.channel,
                    session: p.session,
                    cost,
                    confirmed: false,
                };
                verdict = sink.deliver(origin, packet);
                if verdict == Verdict::Doubtful {
                    // (A packet that is refused leaves a gap, so its next copy is believed.)
                    let is_next = in_order && base.rail == 0 && !(p.has_rails() && self.rails.are_several(peer));
                    let confirmed = !is_next || p.format.is_verified() || p.begins(&packet);
                    if confirmed {
                        verdict = sink.deliver(Origin { confirmed, ..origin }, packet);
                    }
                }
                if verdict != Verdict::Taken {
                    break;
                }
                p.cost_received = p.cost_received.wrapping_add(cost);
            }
            taken += 1;
            bytes += len;
            marks |= flags;
            if !goes_on {
                break;
            }
            let Some(bytes) = rest.clone().next() else { break };
            let Some(next) = follower(checked, bytes, &arrival.packet, base.sequence.plus(taken)) else {
                break;
            };
            (packet, flags) = next;
            rest.next();
            self.stats.packets_received += 1;
        }
        if taken > 0 {
            if base.kind == Kind::Data {
                self.stats.note_delivered(taken, bytes);
            }
            receive.note_taken(taken, bytes, self.now, packet.timestamp());
            let (moved, has_rails) = (p.address != arrival.source && !p.split_ports, p.has_rails());
            let due = receive.is_due(marks, &self.config, self.ack_bytes);
            if !in_order {
                self.note_beside_gap(index, base.sequence, due);
            } else {
                receive.move_on(state, base.sequence.plus(taken));
                if due {
                    self.acknowledge_now(index);
                } else {
                    let at = self.now + self.times.ack_delay;
                    active.deadlines.arm_once(&mut self.heap, index, Timer::Ack, at);
                }
            }
            if marks.contains(Flags::PLACEMENT) {
                let placed = self.actives[index as usize].receive.placed();
                if self.placers.is_first(placed, self.now) {
                    self.note_placing(peer, index);
                    self.share_window(peer, index);
                }
            }
            if has_rails {
                self.note_reply(peer, base.rail, arrival.source);
                if base.kind == Kind::Data && !marks.intersects(Flags::FRAGMENT | Flags::PLACEMENT) {
                    self.follow(peer, base.rail);
                }
            }
            if moved && self.flows[flow as usize].expected().after(base.sequence) {
                self.move_peer(peer, arrival.source);
            }
        }
        if verdict != Verdict::Taken {
            return Err(self.refused(peer, index, &packet, flags, verdict));
        }
        if base.kind == Kind::Goodbye {
            self.peer_said_goodbye(peer, arrival.source, base);
        }
        Ok(())
    }

    /// A packet that is not the next one: why it is not even looked at, if so.
    #[cold]
    fn refuse(&mut self, index: u32, base: &Base, flags: Flags) -> Option<DropReason> {
        let active = &self.actives[index as usize];
        let ahead = base.sequence.distance(self.flows[active.flow as usize].expected());
        if ahead >= MAX_WINDOW_PACKETS.into() || active.receive.has_arrived(base.sequence) {
            // Old or double: our acknowledgement was lost. (Or far ahead: then it is no honest packet.)
            let duplicate = ahead >= 1 << 31 || ahead < MAX_WINDOW_PACKETS.into();
            // The network doubles packets too, but what a peer sends again asks for an acknowledgement.
            if duplicate && flags.contains(Flags::ACK_REQUEST) {
                self.actives[index as usize].receive.note_lost_acknowledgement();
            }
            self.acknowledge_now(index);
            return Some(if duplicate {
                DropReason::Duplicate
            } else {
                DropReason::BeyondWindow
            });
        }
        if self.config.recovery == Recovery::GoBackN || base.kind == Kind::Goodbye {
            self.note_gap(index, base.sequence);
            return Some(DropReason::OutOfOrder);
        }
        None
    }

    /// A packet was not taken, for want of credit or by the layer above.
    #[cold]
    pub(super) fn refused(
        &mut self,
        peer: u32,
        index: u32,
        packet: &Packet<&[u8]>,
        flags: Flags,
        verdict: Verdict,
    ) -> DropReason {
        match verdict {
            Verdict::Doubtful => {
                self.note_gap(index, packet.base().sequence);
                DropReason::Doubtful
            }
            Verdict::Misaddressed => self.take_back(peer, index, packet, cost_of(packet, flags)),
            Verdict::Taken | Verdict::NoRoom => self.put_off(index),
            Verdict::NoMemory => {
                self.put_off(index);
                DropReason::NoMemory
            }
            Verdict::Impossible => {
                self.end_session(peer, PeerError::Misbehaved);
                DropReason::Refused
            }
        }
    }

    /// There is no room for a packet now. The peer will send it again and must hear that we are alive.
    #[cold]
    pub(super) fn put_off(&mut self, index: u32) -> DropReason {
        self.acknowledge_now(index);
        DropReason::BeyondCredit
    }

    /// Announces the share of a peer that sends placements if it has changed by half or more. An explicit announcement
    /// is needed because acknowledgements on data do not carry the window.
    fn share_window(&mut self, peer: u32, index: u32) {
        let (window, advertised) = (self.window_for(peer), self.peers[peer as usize].window_advertised);
        if window / 2 >= advertised || advertised / 2 >= window {
            self.actives[index as usize].receive.announce_credit();
            self.mark_ready(index);
        }
    }

    #[inline(always)]
    pub(super) fn acknowledge_now(&mut self, index: u32) {
        self.actives[index as usize].receive.acknowledge();
        self.mark_ready(index);
    }

    /// Notes that a new packet has arrived, before or beyond a gap. `due`: it must be acknowledged at once in any case.
    #[cold]
    pub(super) fn note_beside_gap(&mut self, index: u32, sequence: Seq, due: bool) {
        let active = &mut self.actives[index as usize];
        let state = &mut self.flows[active.flow as usize];
        if sequence != state.expected() {
            self.note_beyond_gap(index, sequence, due);
            return;
        }
        if active.receive.fill_gap(state) {
            active.deadlines.stop(Timer::Nack);
            let at = self.now + IDLE;
            active.deadlines.arm_once(&mut self.heap, index, Timer::Idle, at);
        } else if !active.receive.has_asked(state) && !active.deadlines.is_set(Timer::Nack) {
            self.await_gap(index);
        }
        self.acknowledge_now(index);
    }

    /// A packet beyond a gap has arrived. Each new gap is reported to the sender once: when as many packets beyond it
    /// have arrived as make the sender declare a loss, or when the gap has outlived the reordering window, whichever
    /// comes first. Otherwise acknowledgements are as rare as without a gap, because under steady loss there nearly
    /// always is one.
    fn note_beyond_gap(&mut self, index: u32, sequence: Seq, due: bool) {
        let active = &mut self.actives[index as usize];
        let receive = &mut active.receive;
        let news = receive.note_beyond_gap(sequence);
        let asked = receive.has_asked(&self.flows[active.flow as usize]);
        if due || news || !self.config.nack {
            receive.forget_gap();
            self.acknowledge_now(index);
        } else {
            let at = self.now + self.times.ack_delay;
            active.deadlines.arm_once(&mut self.heap, index, Timer::Ack, at);
        }
        if !asked {
            self.await_gap(index);
        }
    }

    /// A packet beyond a gap has arrived that is not kept: ask for the gap.
    pub(super) fn note_gap(&mut self, index: u32, sequence: Seq) {
        let active = &mut self.actives[index as usize];
        active.receive.note_gap(sequence);
        let asked = active.receive.has_asked(&self.flows[active.flow as usize]);
        if self.config.recovery != Recovery::GoBackN {
            self.acknowledge_now(index);
        }
        if !asked {
            self.await_gap(index);
        }
    }

    fn await_gap(&mut self, index: u32) {
        if !self.config.nack {
            return;
        }
        let active = &mut self.actives[index as usize];
        if self.times.reordering == 0 {
            self.ask_for_gap(index);
        } else {
            let at = self.now + self.times.reordering;
            active.deadlines.arm_once(&mut self.heap, index, Timer::Nack, at);
        }
    }

    /// A valid packet that moved the window came from elsewhere: the peer has moved.
    #[cold]
    fn move_peer(&mut self, peer: u32, to: SocketAddr) {
        // (One with several rails sends from each, and stays where it is.)
        if self.rails.are_several(peer) || self.peer_by_address(to).is_some() {
            return;
        }
        if let Some(left) = self.addresses.get(&self.peers, to) {
            self.addresses.remove(&self.peers, left);
        }
        self.addresses.remove(&self.peers, peer);
        self.peers[peer as usize].address = to;
        self.answer_by_port(peer);
        self.addresses.insert(&self.peers, peer);
    }
}

/// The packet in `bytes`, if it is number `sequence` of the flow of `first` and its header brings nothing else that
/// needs handling.
#[inline]
fn follower<'a>(
    checked: bool,
    bytes: &'a [u8],
    first: &Packet<&[u8]>,
    sequence: Seq,
) -> Option<(Packet<&'a [u8]>, Flags)> {
    const MORE: Flags = Flags::CREDIT
        .union(Flags::OPEN)
        .union(Flags::SACK)
        .union(Flags::NACK)
        .union(Flags::SEAL);
    let packet = Packet::new_checked(bytes).ok()?;
    let flags = packet.flags();
    let goes_on = packet.goes_on(first, sequence) && !flags.intersects(MORE);
    (goes_on && is_intact(checked, &packet, bytes, flags)).then_some((packet, flags))
}

fn is_about_settling(kind: Kind) -> bool {
    kind as u8 >= Kind::Settle as u8
}

/// Nothing of the packet needs a feature that sessions of this release do not agree on.
#[inline]
fn is_agreed(base: &Base, flags: Flags) -> bool {
    // (Rails are agreed with some peers only.)
    (base.rail == 0 || is_of_session(base.session)) && !flags.contains(Flags::SEAL)
}

/// The checksum is right, or there is none and need not be.
#[inline]
fn is_intact(checked: bool, packet: &Packet<&[u8]>, bytes: &[u8], flags: Flags) -> bool {
    if flags.contains(Flags::CHECKSUM) {
        checksum::verify(packet, bytes)
    } else {
        !checked
    }
}

impl DropReason {
    /// Why what is no packet is dropped.
    #[cold]
    pub(super) fn of(error: wire::Error) -> Self {
        match error {
            wire::Error::Version(_) => Self::Version,
            _ => Self::Malformed,
        }
    }
}
