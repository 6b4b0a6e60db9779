//! The short ways of a small message that is a packet of its own: past the queue, and out of it.

use super::{
    super::{
        packet::{Form, Record},
        receiver::Receiver,
        resident::Flow,
        source::Sources,
    },
    Sender,
};
use crate::{
    config::{Config, MAX_WINDOW_PACKETS, WindowMode},
    reliability::{
        Outgoing,
        burst::{Burst, INLINE},
        credit::MESSAGE_COST,
        packet_builder::message::of_record,
        peer::Peer,
    },
    span::Span,
    wire::{Base, Flags, Kind, Record as Stored, write_plain},
};

impl Sender {
    /// The session is open and without checksums, the flow has nothing queued, in flight or to be sent again, and owes
    /// nothing but an acknowledgement.
    #[inline(always)]
    pub(crate) fn sends_at_once(&self, receive: &Receiver, flow: &Flow, peer: &Peer) -> bool {
        let waits = !self.queue.is_empty() || self.timeouts > 0;
        let owes = receive.owes_more() || receive.has_gap(flow);
        self.is_quiet(flow) && !waits && !owes && peer.format.is_plain() && peer.is_open()
    }

    /// Writes the packet of a message that is sent [at once](Self::sends_at_once), past the queue.
    #[inline(always)]
    pub(crate) fn write_at_once(
        &mut self,
        lone: Following<'_>,
        sources: &mut Sources,
        message: &Outgoing,
        data: &[u8],
        burst: &mut Burst,
    ) {
        let data = Span::new(data);
        let (offset, len) = self.store_record(sources, message.match_bits, data);
        sources.retain(self.tail);
        let record = Record {
            sent_at: lone.now,
            source: self.tail,
            offset,
            len: len as u16,
            resends: 0,
            form: Form::Single,
            message: message.message,
            from: message.source,
            to: message.destination,
        };
        self.write_lone(lone, &record, message.match_bits, data, burst);
    }

    /// Writes the packet of the only queued message, if it may go now in a packet of its own without checksum and the
    /// flow owes nothing but an acknowledgement. Returns the bytes of its payload. `None`: nothing was done. The packet
    /// equals the one that [`Lane::fill`](super::Lane::fill) would write.
    #[inline(always)]
    pub(crate) fn write_only_queued(
        &mut self,
        lone: Following<'_>,
        sources: &Sources,
        burst: &mut Burst,
    ) -> Option<usize> {
        let (receive, config, peer) = (lone.receive, lone.config, lone.peer);
        let in_flight = lone.flow.send_next.distance(self.una);
        let queued = self.queue.front().filter(|_| self.queue.len() == 1)?;
        let owes = receive.owes_more() || receive.has_gap(lone.flow);
        let waits = self.lost_count > 0 || self.waiting || self.owes_beside();
        let most = u32::from(config.window_packets.min(MAX_WINDOW_PACKETS));
        let plain = matches!(queued.form, Form::Single | Form::Bundle) && peer.format.is_plain();
        if owes || waits || !plain || in_flight >= most {
            return None;
        }
        let run = &sources.bytes(queued.source)[queued.at as usize..queued.end as usize];
        let Ok((Stored { match_bits, data }, [])) = Stored::split(run) else {
            return None;
        };
        let window = self.window().min(peer.window);
        let cost = queued.cost + data.len() as u64 + u64::from(MESSAGE_COST);
        let header = peer.format.overhead() + of_record(match_bits);
        let fits = data.len() <= INLINE && header + data.len() <= peer.mtu.into();
        if !fits || cost > peer.cost_limit || !self.has_room(window, run.len()) {
            return None;
        }
        let record = Record {
            sent_at: lone.now,
            source: queued.source,
            offset: queued.at,
            len: run.len() as u16,
            resends: 0,
            form: Form::Single,
            message: queued.message,
            from: queued.from,
            to: queued.to,
        };
        // The packet takes over the queue's own reference.
        self.queue.pop_front();
        self.queued_bytes = self.queued_bytes.saturating_sub(record.len.into());
        self.write_lone(lone, &record, match_bits, Span::new(data), burst);
        Some(data.len())
    }

    /// Writes a packet of one small message, and notes that it is in flight.
    #[inline(always)]
    fn write_lone(
        &mut self,
        lone: Following<'_>,
        record: &Record,
        match_bits: Option<u64>,
        data: Span<'_>,
        burst: &mut Burst,
    ) {
        let Following {
            config,
            peer,
            flow,
            receive,
            ..
        } = lone;
        let seq = flow.send_next;
        let window = self.window().min(peer.window);
        self.push_record(seq, *record);
        flow.send_next = seq.plus(1);
        self.bytes_in_flight += u32::from(record.len);
        self.packets_in_flight += 1;
        self.probe = false;
        let is_last = flow.send_next.distance(self.una) >= config.window_packets.into();
        self.waiting = is_last && config.window_mode == WindowMode::BurstThenWait;
        // The window allows no other packet of this size: sending on needs the acknowledgement of this one.
        let ask = self.want_ack || is_last || !self.has_room(window, record.len.into());
        self.want_ack = false;
        let base = Base {
            kind: Kind::Data,
            channel: flow.channel,
            source: record.from,
            destination: record.to,
            session: peer.remote_token(),
            sequence: seq,
            acknowledgement: flow.expected,
            rail: 0,
            message: record.message,
        };
        let stamp = receive.timestamp(record.sent_at, config);
        let header = write_plain(burst.header(), &base, marks(ask), match_bits, stamp, data.len() as u16);
        if data.len() <= INLINE {
            burst.push_inline(header, data);
        } else {
            let at = record.offset + u32::from(record.len) - data.len() as u32;
            burst.push_reference(header, record.source, at, data.len() as u32);
        }
    }
}

/// What a packet says beside its message, and the flow in which it follows the packets before.
pub(in crate::reliability) struct Following<'a> {
    pub(in crate::reliability) config: &'a Config,
    pub(in crate::reliability) now: u64,
    pub(in crate::reliability) peer: &'a Peer,
    pub(in crate::reliability) flow: &'a mut Flow,
    pub(in crate::reliability) receive: &'a Receiver,
}

/// `ask`: for an acknowledgement at once.
#[inline]
fn marks(ask: bool) -> Flags {
    if ask { Flags::ACK_REQUEST } else { Flags::empty() }
}
