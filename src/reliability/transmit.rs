//! What goes out: bursts of one flow's packets, acknowledgements alone, packets of control.

use super::{
    burst::{Burst, INLINE, MAX_SEGMENTS},
    congestion::Controller,
    endpoint::{Control, Endpoint},
    flow::{Flow, Form, Queued, Record, Sender},
    peer::{PACKET_COST, Peer, Phase, successor},
    source::{NONE, Sources},
    timers::Timer,
};
use crate::{
    config::{Config, MAX_WINDOW_PACKETS, Recovery, WindowMode},
    time::Instant,
    wire::{
        self, Base, Builder, Credit, Flags, Fragment, Kind, MAX_SACK_WORDS, Open, Records, Seq,
        Timestamp, checksum::Crc32c,
    },
};

/// A timestamp is echoed for so long, ns: beyond, its 32 bits could be mistaken.
const STAMP_AGE: u64 = 1_000_000_000;

/// The next packet of a flow.
struct Plan {
    seq: Seq,
    record: Record,
    /// Octets of payload on the wire.
    payload: usize,
    header: usize,
    fragment: Option<Fragment>,
    match_bits: Option<u64>,
    immediate: Option<u64>,
    resend: bool,
    /// Messages in it.
    messages: u32,
}

impl Endpoint {
    /// Fills `burst` with what is to be transmitted next; `false`: nothing (until the next command or `handle_*`).
    ///
    /// Flows take turns, a burst each. Acknowledgements ride on data where there is any.
    pub fn poll_transmit(&mut self, now: Instant, burst: &mut Burst) -> bool {
        self.advance(now);
        if let Some(control) = self.control.pop_front() {
            self.write_control(control, burst);
            return true;
        }
        while let Some(index) = self.ready.pop_front() {
            let active = &mut self.actives[index as usize];
            active.ready = false;
            if active.flow == NONE {
                continue;
            }
            let flow = &self.flows[active.flow as usize];
            burst.begin(self.peers[flow.peer as usize].address);
            let more = self.fill(index, burst);
            self.reschedule(index);
            if !burst.is_empty() {
                if more {
                    self.mark_ready(index);
                }
                self.hold(burst);
                return true;
            }
        }
        false
    }

    /// Fills `burst` from one flow; tells whether there may be more.
    fn fill(&mut self, index: u32, burst: &mut Burst) -> bool {
        let active = &mut self.actives[index as usize];
        let flow = active.flow;
        let receive = &active.receive;
        let state = &self.flows[flow as usize];
        let gap =
            receive.has_gap(state.expected) && self.config.recovery == Recovery::SelectiveRepeat;
        if receive.nack_now || receive.tell_credit || (receive.ack_now && gap) {
            self.write_ack(index, burst);
            return true;
        }
        if active.probe.is_due() && self.peers[state.peer as usize].remote_token != 0 {
            self.write_probe(index, burst);
            return true;
        }
        let more = self.fill_data(index, burst);
        if burst.is_empty() {
            let active = &self.actives[index as usize];
            if active.receive.ack_now || active.send.ask_alone {
                self.write_ack(index, burst);
            }
            return false;
        }
        more
    }

    /// Resends and new data, as much as fits one burst of equal segments.
    fn fill_data(&mut self, index: u32, burst: &mut Burst) -> bool {
        let most = self.limits.max_segments.clamp(1, MAX_SEGMENTS);
        let max_batch = self.limits.max_batch;
        while burst.segments() < most {
            let active = &mut self.actives[index as usize];
            let flow = &self.flows[active.flow as usize];
            let peer = &self.peers[flow.peer as usize];
            let Some(plan) = next_packet(&self.config, &self.sources, peer, flow, &active.send)
            else {
                self.note_blocked(index);
                return false;
            };
            let size = plan.header + plan.payload;
            let oversize = size > usize::from(peer.mtu);
            if burst.segments() > 0 {
                if size > burst.segment_size() || oversize || burst.len() + size > max_batch {
                    return true;
                }
            } else if oversize {
                burst.allow_fragmentation();
            }
            let last = size < burst.segment_size();
            self.write_data(index, &plan, burst);
            if last || oversize {
                return true;
            }
        }
        true
    }

    /// There is something queued that must not go now: see that it is woken up.
    fn note_blocked(&mut self, index: u32) {
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        if active.send.queue.is_empty() || active.send.una != flow.send_next {
            return;
        }
        // Nothing in flight and nothing may go: it is the peer's credit. Ask for it after a while.
        if !active.deadlines.is_set(Timer::Persist) {
            self.stats.blocked_on_credit += 1;
            active.send.waiting_since = self.now - self.stalled.min(self.now);
            let timeout = self.rto(index);
            self.actives[index as usize]
                .deadlines
                .set(Timer::Persist, self.now + timeout);
        }
    }

    /// Writes one data packet and notes that it is in flight.
    fn write_data(&mut self, index: u32, plan: &Plan, burst: &mut Burst) {
        let now = self.now;
        let active = &mut self.actives[index as usize];
        let flow = &mut self.flows[active.flow as usize];
        let peer = &mut self.peers[flow.peer as usize];
        let record = &plan.record;
        let mut record_now = *record;
        record_now.sent_at = now;
        if plan.resend {
            self.stats.resends += 1;
            active.send.lost.clear(plan.seq);
            active.send.lost_count -= 1;
            record_now.resends = record.resends.saturating_add(1);
            *active.send.record_mut(plan.seq) = record_now;
        } else {
            if active.send.una == flow.send_next {
                active.send.waiting_since = now - self.stalled.min(now);
            }
            take_from_queue(&mut active.send, plan, &mut self.sources);
            active.send.push_record(plan.seq, record_now);
            flow.send_next = plan.seq.plus(1);
            peer.cost_sent = peer
                .cost_sent
                .wrapping_add(plan.payload as u32 + PACKET_COST);
            self.stats.payload_sent += plan.payload as u64;
            if plan.messages > 1 {
                self.stats.messages_bundled += u64::from(plan.messages);
            }
        }
        let send = &mut active.send;
        send.bytes_in_flight += u32::from(record.len);
        send.packets_in_flight += 1;
        if self.config.window_mode == WindowMode::BurstThenWait
            && flow.send_next.distance(send.una) >= self.config.window_packets.into()
        {
            send.waiting = true;
        }
        send.probe = false;
        let ask = send.want_ack
            || plan.resend
            || record.form == Form::Goodbye
            || (record.form == Form::Whole && send.queue.is_empty())
            || exhausted(&self.config, peer, flow, send, record.len.into());
        if send.queue.is_empty() {
            send.want_ack = false;
        }

        let (kind, mut flags) = match record.form {
            Form::Goodbye => (Kind::Goodbye, Flags::empty()),
            Form::Bundle => (Kind::Data, Flags::BUNDLE),
            Form::Single | Form::Whole => (Kind::Data, Flags::empty()),
        };
        flags.set(Flags::ACK_REQUEST, ask);
        let base = Base {
            kind,
            channel: flow.channel,
            source: record.from,
            destination: record.to,
            session: peer.remote_token,
            sequence: plan.seq,
            acknowledgement: flow.expected,
            reply_queue: 0,
            message: record.message,
        };
        let stamp = timestamp(
            now,
            &self.config,
            active.receive.stamp,
            active.receive.stamp_at,
        );
        let open = (!peer.confirmed).then(|| {
            open_of(
                &self.config,
                &self.limits,
                self.epoch,
                peer.local_token,
                window_of(&self.limits, &self.config, 1),
            )
        });
        let start = burst.position();
        let mut header = Builder::new(burst.header(), &base);
        header.set(flags);
        if let Some(bits) = plan.match_bits {
            header.match_bits(bits);
        }
        if let Some(data) = plan.immediate {
            header.immediate(data);
        }
        if let Some(fragment) = plan.fragment {
            header.fragment(fragment);
        }
        let checksum = finish_extensions(&mut header, &self.config, stamp, None, open.as_ref());
        let header_len = header.finish(plan.payload as u16);
        debug_assert_eq!(
            header_len, plan.header,
            "the plan's size is the packet's size"
        );
        let skip = usize::from(record.len) - plan.payload;
        let from = record.offset as usize + skip;
        let payload: &[u8] = if record.source == NONE {
            &[]
        } else {
            &self.sources.bytes(record.source)[from..from + plan.payload]
        };
        if let Some(at) = checksum {
            let crc = Crc32c::new()
                .update(burst.arena(start, start + header_len))
                .update(payload)
                .finish();
            burst.patch(start + at, crc.to_be_bytes());
        }
        if payload.len() <= INLINE {
            burst.push_inline(header_len, payload);
        } else {
            burst.push_reference(header_len, record.source, from as u32, payload.len() as u32);
        }
        self.stats.packets_sent += 1;
        self.update_after_send(index);
    }

    /// Any packet carries the acknowledgement; a data packet wants one.
    fn update_after_send(&mut self, index: u32) {
        self.acknowledged(index);
        if !self.actives[index as usize].deadlines.is_set(Timer::Rto) {
            let timeout = self.rto(index);
            self.actives[index as usize]
                .deadlines
                .set(Timer::Rto, self.now + timeout);
        }
    }

    fn acknowledged(&mut self, index: u32) {
        let active = &mut self.actives[index as usize];
        active.last_use = self.now;
        active.receive.ack_now = false;
        active.receive.unacked_bytes = 0;
        active.receive.unacked_packets = 0;
        active.deadlines.stop(Timer::Ack);
    }

    /// An acknowledgement alone: with a bitmap if there are gaps, and with credit.
    fn write_ack(&mut self, index: u32, burst: &mut Burst) {
        let inbound = self.actives.len() as u32 - self.free_count();
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let peer = &mut self.peers[flow.peer as usize];
        let base = Base {
            kind: Kind::Ack,
            channel: flow.channel,
            source: self.processor,
            destination: peer.processor,
            session: peer.remote_token,
            sequence: flow.send_next,
            acknowledgement: flow.expected,
            reply_queue: 0,
            message: Seq(0),
        };
        let mut flags = Flags::empty();
        flags.set(Flags::NACK, active.receive.nack_now);
        flags.set(Flags::ACK_REQUEST, active.send.ask_alone);
        let window = window_of(&self.limits, &self.config, inbound);
        let limit = peer
            .cost_released
            .wrapping_add(self.config.unexpected_bytes);
        peer.limit_told = limit;
        let stamp = timestamp(
            self.now,
            &self.config,
            active.receive.stamp,
            active.receive.stamp_at,
        );
        let open = (!peer.confirmed).then(|| {
            open_of(
                &self.config,
                &self.limits,
                self.epoch,
                peer.local_token,
                window,
            )
        });
        let start = burst.position();
        let mut header = Builder::new(burst.header(), &base);
        header.set(flags);
        let checksum = finish_extensions(
            &mut header,
            &self.config,
            stamp,
            Some(Credit { limit, window }),
            open.as_ref(),
        );
        if self.config.recovery == Recovery::SelectiveRepeat
            && active.receive.has_gap(flow.expected)
        {
            let mut words = [0; MAX_SACK_WORDS];
            let first = flow.expected.plus(1);
            let count = active
                .receive
                .end
                .distance(first)
                .div_ceil(64)
                .clamp(1, MAX_SACK_WORDS as u32) as usize;
            for (n, word) in words[..count].iter_mut().enumerate() {
                *word = active.receive.arrived.word_at(first.plus(64 * n as u32));
            }
            // The bitmap's ring may show, beyond the end, what belongs to its other side.
            let beyond = active
                .receive
                .end
                .distance(first.plus(64 * (count as u32 - 1)));
            if beyond < 64 {
                words[count - 1] &= (1 << beyond) - 1;
            }
            header.sack(&words[..count]);
        }
        let header_len = header.finish(0);
        if let Some(at) = checksum {
            let crc = Crc32c::new()
                .update(burst.arena(start, start + header_len))
                .finish();
            burst.patch(start + at, crc.to_be_bytes());
        }
        burst.push_inline(header_len, &[]);
        self.stats.packets_sent += 1;
        self.stats.acks_alone += 1;
        if flags.contains(Flags::NACK) {
            self.stats.nacks_sent += 1;
        }
        active.receive.nack_now = false;
        active.receive.tell_credit = false;
        active.send.ask_alone = false;
        self.acknowledged(index);
    }

    fn write_probe(&mut self, index: u32, burst: &mut Burst) {
        let active = &mut self.actives[index as usize];
        let Some((number, size)) = active.probe.take_due() else {
            return;
        };
        let flow = &self.flows[active.flow as usize];
        let peer = &self.peers[flow.peer as usize];
        let header = self.control_base(Kind::Probe, peer.remote_token, peer.processor, number);
        let patience = self.times.initial_rto.max(2 * self.rto(index));
        self.actives[index as usize]
            .deadlines
            .set(Timer::Mtu, self.now + patience);
        self.write_plain(&header, None, usize::from(size), burst);
    }

    fn control_base(&self, kind: Kind, session: u32, destination: u32, message: u32) -> Base {
        Base {
            kind,
            channel: 0,
            source: self.processor,
            destination,
            session,
            sequence: Seq(0),
            acknowledgement: Seq(0),
            reply_queue: 0,
            message: Seq(message),
        }
    }

    /// A packet of control.
    fn write_control(&mut self, control: Control, burst: &mut Burst) {
        match control {
            Control::Reset {
                to,
                session,
                quoted,
            } => {
                burst.begin(to);
                self.stats.resets_sent += 1;
                let base = self.control_base(Kind::Reset, session, wire::ANY_PROCESSOR, quoted);
                self.write_plain(&base, None, 0, burst);
            }
            Control::Challenge { peer, to } => {
                burst.begin(to);
                let p = &self.peers[peer as usize];
                let session = p
                    .candidate
                    .as_ref()
                    .map_or(0, |candidate| candidate.open.token);
                let window = window_of(&self.limits, &self.config, 1);
                let open = open_of(
                    &self.config,
                    &self.limits,
                    self.epoch,
                    successor(p.local_token),
                    window,
                );
                let base = self.control_base(Kind::Ack, session, p.processor, 0);
                self.write_plain(&base, Some(&open), 0, burst);
            }
            Control::ProbeAck { peer, number } => {
                let p = &self.peers[peer as usize];
                burst.begin(p.address);
                let base = self.control_base(Kind::ProbeAck, p.remote_token, p.processor, number);
                self.write_plain(&base, None, 0, burst);
            }
            Control::LastAck {
                to,
                session,
                channel,
                sequence,
                acknowledgement,
            } => {
                burst.begin(to);
                let base = Base {
                    channel,
                    sequence,
                    acknowledgement,
                    ..self.control_base(Kind::Ack, session, wire::ANY_PROCESSOR, 0)
                };
                self.write_plain(&base, None, 0, burst);
            }
        }
    }

    /// A packet without a flow's extensions, padded with zeros to `size` octets.
    fn write_plain(&mut self, base: &Base, open: Option<&Open>, size: usize, burst: &mut Burst) {
        let start = burst.position();
        let mut header = Builder::new(burst.header(), base);
        let checksum = finish_extensions(&mut header, &self.config, None, None, open);
        let header_len = header.header_len();
        let padding = size.saturating_sub(header_len);
        header.finish(padding as u16);
        if let Some(at) = checksum {
            let mut crc = Crc32c::new().update(burst.arena(start, start + header_len));
            let mut left = padding;
            while left > 0 {
                let zeros = &[0; 256][..left.min(256)];
                crc = crc.update(zeros);
                left -= zeros.len();
            }
            burst.patch(start + at, crc.finish().to_be_bytes());
        }
        if padding > 0 {
            burst.push_padding(header_len, padding)
        } else {
            burst.push_inline(header_len, &[])
        }
        self.stats.packets_sent += 1;
    }

    /// Retransmission time-out of a flow with its back-off, ns.
    pub(super) fn rto(&self, index: u32) -> u64 {
        let active = &self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let peer = &self.peers[flow.peer as usize];
        let timeout = flow.rtt.timeout(
            self.times.initial_rto,
            self.times.min_rto,
            peer.ack_delay.into(),
        );
        // The first repetition is a probe and comes at the plain time-out; only then it backs off.
        let backoff = u32::from(active.send.timeouts.saturating_sub(1)).min(20);
        (timeout << backoff).min(self.times.max_rto.max(timeout))
    }

    /// Says goodbye as soon as nothing else is under way to the peer.
    pub(super) fn goodbye_if_drained(&mut self, peer: u32) {
        if !self.is_idle(super::PeerId(peer)) {
            return;
        }
        self.peers[peer as usize].phase = Phase::Goodbye;
        let flow = self.flow_for(peer, 0);
        let active = self.activate(flow);
        self.actives[active as usize]
            .send
            .queue
            .push_back(Queued::Goodbye);
        self.update_busy(flow);
        self.mark_ready(active);
    }
}

/// Writes the extensions that any packet may have; gives the offset of the checksum.
fn finish_extensions(
    header: &mut Builder<'_>,
    config: &Config,
    stamp: Option<Timestamp>,
    credit: Option<Credit>,
    open: Option<&Open>,
) -> Option<usize> {
    if let Some(stamp) = stamp {
        header.timestamp(stamp);
    }
    if let Some(credit) = credit {
        header.credit(credit);
    }
    if config.checksum {
        header.checksum();
    }
    let at = header.checksum_offset();
    if let Some(open) = open {
        header.open(open);
    }
    at
}

#[inline]
fn timestamp(now: u64, config: &Config, stamp: u32, stamp_at: u64) -> Option<Timestamp> {
    if !config.timestamps {
        return None;
    }
    let held = now.saturating_sub(stamp_at);
    let echo = if stamp == 0 || held > STAMP_AGE {
        0
    } else {
        stamp.wrapping_add(held as u32) | 1
    };
    Some(Timestamp {
        value: now as u32 | 1,
        echo,
    })
}

/// What we allow each of `inbound` senders to have in flight: a share of half the receive buffer (the kernel counts
/// its own overhead too).
pub(super) fn window_of(limits: &super::Limits, config: &Config, inbound: u32) -> u32 {
    let share = limits.receive_buffer / 2 / inbound.max(1) as usize;
    config
        .window_bytes
        .min(u32::try_from(share).unwrap_or(u32::MAX))
        .max(4 << 10)
}

fn open_of(config: &Config, limits: &super::Limits, epoch: u64, token: u32, window: u32) -> Open {
    Open {
        epoch,
        token,
        features: 0,
        credit: Credit {
            limit: config.unexpected_bytes,
            window,
        },
        ack_delay: u32::try_from(config.ack_delay.as_nanos()).unwrap_or(u32::MAX),
        max_datagram: config
            .max_datagram
            .min(u16::try_from(limits.max_datagram).unwrap_or(u16::MAX)),
        port: limits.receive_port,
    }
}

/// Room in the windows for another packet of `len` octets.
#[inline]
fn in_window(peer: &Peer, send: &Sender, len: usize) -> bool {
    if send.packets_in_flight == 0 || send.probe {
        return true;
    }
    // After two time-outs in a row a single packet has to prove that the path is alive.
    send.timeouts < 2
        && send.bytes_in_flight as usize + len <= send.congestion.window().min(peer.window) as usize
}

/// Another packet like the last one would not be allowed: its acknowledgement is what we wait for.
#[inline]
fn exhausted(config: &Config, peer: &Peer, flow: &Flow, send: &Sender, len: usize) -> bool {
    !in_window(peer, send, len)
        || send.waiting
        || flow.send_next.distance(send.una) >= config.window_packets.into()
        || peer.credit() < len as u32 + PACKET_COST
}

/// The packet that the flow may send now, if any: what was lost first, then what is queued.
#[inline]
fn next_packet(
    config: &Config,
    sources: &Sources,
    peer: &Peer,
    flow: &Flow,
    send: &Sender,
) -> Option<Plan> {
    let overhead = Endpoint::overhead(config, peer);
    if send.lost_count > 0 {
        let seq = send.lost.first_set(send.una, flow.send_next)?;
        let record = *send.record(seq);
        if !in_window(peer, send, record.len.into()) {
            return None;
        }
        return Some(plan_of(sources, overhead, seq, record, true, 1));
    }
    let queued = send.queue.front()?;
    let in_flight = flow.send_next.distance(send.una);
    if send.waiting || in_flight >= config.window_packets.min(MAX_WINDOW_PACKETS).into() {
        return None;
    }
    let room = usize::from(peer.mtu) - overhead;
    let (record, messages) = match *queued {
        Queued::Run {
            source,
            at,
            end,
            message,
            from,
            to,
            ..
        } => {
            let room = room.min(config.max_payload.into());
            let run = &sources.bytes(source)[at as usize..end as usize];
            let (len, count) = split_run(run, room, config.bundle);
            let form = if count == 1 {
                Form::Single
            } else {
                Form::Bundle
            };
            (
                Record {
                    source,
                    offset: at,
                    len: len as u16,
                    form,
                    message,
                    from,
                    to,
                    ..Record::EMPTY
                },
                count,
            )
        }
        Queued::Whole {
            source,
            at,
            len,
            message,
            from,
            to,
        } => {
            let left = (len - at) as usize;
            let whole = sources.whole(source);
            let first = if at == 0 {
                8 * (usize::from(whole.match_bits.is_some())
                    + usize::from(whole.immediate.is_some()))
            } else {
                0
            };
            let alone = (room - first).min(config.max_payload.into());
            let most = if at == 0 && left <= alone {
                alone
            } else {
                alone.min(room - first - 8)
            };
            let take = left.min(most) as u16;
            (
                Record {
                    source,
                    offset: at,
                    len: take,
                    form: Form::Whole,
                    message,
                    from,
                    to,
                    ..Record::EMPTY
                },
                1,
            )
        }
        Queued::Goodbye => (
            Record {
                form: Form::Goodbye,
                to: peer.processor,
                ..Record::EMPTY
            },
            0,
        ),
    };
    if !in_window(peer, send, record.len.into()) {
        return None;
    }
    let plan = plan_of(sources, overhead, flow.send_next, record, false, messages);
    if plan.payload as u32 + PACKET_COST > peer.credit() && record.form != Form::Goodbye {
        return None;
    }
    Some(plan)
}

/// How many octets and records from the front of a run fit a payload of `room` octets.
#[inline]
fn split_run(run: &[u8], room: usize, bundle: bool) -> (usize, u32) {
    let mut records = Records::new(run);
    let mut rest = run;
    let mut count = 0;
    let mut len = 0;
    while let Some(record) = records.next() {
        let size = wire::Record::header_len(record.match_bits) + record.data.len();
        if count > 0 && (len + size > room || !bundle) {
            break;
        }
        len += size;
        count += 1;
        rest = &rest[size..];
        if rest.is_empty() {
            break;
        }
    }
    (len, count)
}

/// What the header of `record` holds, and the packet's size.
#[inline]
fn plan_of(
    sources: &Sources,
    overhead: usize,
    seq: Seq,
    record: Record,
    resend: bool,
    messages: u32,
) -> Plan {
    let mut plan = Plan {
        seq,
        record,
        payload: record.len.into(),
        header: overhead,
        fragment: None,
        match_bits: None,
        immediate: None,
        resend,
        messages,
    };
    match record.form {
        Form::Single => {
            let bytes = &sources.bytes(record.source)[record.offset as usize..];
            if let Ok((single, _)) = wire::Record::split(bytes) {
                plan.match_bits = single.match_bits;
                plan.payload = single.data.len();
            }
        }
        Form::Whole => {
            let whole = sources.whole(record.source);
            if u32::from(record.len) != whole.len {
                plan.fragment = Some(Fragment {
                    offset: record.offset,
                    total: whole.len,
                });
            }
            if record.offset == 0 {
                plan.match_bits = whole.match_bits;
                plan.immediate = whole.immediate;
            }
        }
        Form::Bundle | Form::Goodbye => {}
    }
    let extensions = [
        plan.match_bits.is_some(),
        plan.immediate.is_some(),
        plan.fragment.is_some(),
    ];
    plan.header += 8 * extensions.into_iter().filter(|&present| present).count();
    plan
}

/// The packet is sent for the first time: the queue moves on, and the packet refers to its source.
#[inline]
fn take_from_queue(send: &mut Sender, plan: &Plan, sources: &mut Sources) {
    let len = u32::from(plan.record.len);
    send.queued_bytes = send.queued_bytes.saturating_sub(len);
    let done = match send.queue.front_mut() {
        Some(Queued::Run {
            at, end, message, ..
        }) => {
            *at += len;
            *message = message.plus(plan.messages);
            at == end
        }
        Some(Queued::Whole { at, len: total, .. }) => {
            *at += len;
            at == total
        }
        Some(Queued::Goodbye) | None => {
            send.queue.pop_front();
            return;
        }
    };
    // The last packet takes over the queue's own reference.
    if done {
        send.queue.pop_front();
    } else {
        sources.retain(plan.record.source);
    }
}
