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
    wire::{Base, Flags, Kind, Record as Stored, Seq, write_plain},
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

    /// Writes the packet of a message that is sent [at once](Self::sends_at_once), past the queue, and changes nothing.
    /// Payload of more than [`INLINE`] bytes is to follow what `burst` then holds. When the packet is under way, the
    /// message is [stored](Self::store_at_once).
    #[inline(always)]
    pub(crate) fn write_at_once(&self, lone: &Following<'_>, message: &Outgoing, data: &[u8], burst: &mut Burst) {
        let packet = Lone {
            message: message.message,
            from: message.source,
            to: message.destination,
            match_bits: message.match_bits,
            len: Stored::header_len(message.match_bits) + data.len(),
            data: Span::new(data),
        };
        self.write_lone(lone, &packet, burst);
    }

    /// Keeps a message whose packet has been [written at once](Self::write_at_once). Returns the record of the packet,
    /// which is then to be [noted](Self::note_lone).
    #[inline(always)]
    pub(crate) fn store_at_once(&mut self, now: u64, sources: &mut Sources, message: &Outgoing, data: &[u8]) -> Record {
        let (offset, len) = self.store_record(sources, message.match_bits, Span::new(data));
        sources.retain(self.tail);
        Record {
            sent_at: now,
            source: self.tail,
            offset,
            len: len as u16,
            resends: 0,
            form: Form::Single,
            message: message.message,
            from: message.source,
            to: message.destination,
        }
    }

    /// Writes the packet of the only queued message, if it may go now in a packet of its own without checksum and the
    /// flow owes nothing but an acknowledgement. Returns the record of the packet, which is then to be
    /// [noted](Self::note_lone), and the bytes of its payload. `None`: nothing was done. The packet equals the one that
    /// [`Lane::fill`](super::Lane::fill) would write.
    #[inline(always)]
    pub(crate) fn write_only_queued(
        &mut self,
        lone: &Following<'_>,
        sources: &Sources,
        burst: &mut Burst,
    ) -> Option<(Record, usize)> {
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
        let packet = Lone {
            message: record.message,
            from: record.from,
            to: record.to,
            match_bits,
            len: run.len(),
            data: Span::new(data),
        };
        self.write_lone(lone, &packet, burst);
        Some((record, data.len()))
    }

    /// Writes a packet of one message.
    #[inline(always)]
    fn write_lone(&self, lone: &Following<'_>, packet: &Lone<'_>, burst: &mut Burst) {
        let Following {
            config,
            peer,
            flow,
            receive,
            ..
        } = lone;
        let window = self.window().min(peer.window);
        let is_last = flow.send_next.distance(self.una) + 1 >= config.window_packets.into();
        // The window allows no other packet of this size: sending on needs the acknowledgement of this one.
        let ask = self.want_ack || is_last || !self.has_room_beyond(window, packet.len);
        let base = Base {
            kind: Kind::Data,
            channel: flow.channel(),
            source: packet.from,
            destination: packet.to,
            session: peer.remote_token(),
            sequence: flow.send_next,
            acknowledgement: flow.expected,
            rail: flow.rail(),
            message: packet.message,
        };
        let stamp = receive.timestamp(lone.now, config);
        let data = packet.data;
        let len = data.len() as u16;
        let header = write_plain(burst.header(), &base, marks(ask), packet.match_bits, stamp, len);
        if data.len() <= INLINE {
            burst.push_inline(header, data);
        } else {
            burst.push_head(header, len.into());
        }
    }

    /// Notes that a packet of one message is in flight.
    #[inline(always)]
    pub(crate) fn note_lone(&mut self, config: &Config, flow: &mut Flow, record: &Record) {
        let seq = flow.send_next;
        self.push_record(seq, *record);
        flow.send_next = seq.plus(1);
        self.bytes_in_flight += u32::from(record.len);
        self.packets_in_flight += 1;
        self.probe = false;
        self.want_ack = false;
        let is_last = flow.send_next.distance(self.una) >= config.window_packets.into();
        self.waiting = is_last && config.window_mode == WindowMode::BurstThenWait;
    }
}

/// A packet of one message.
struct Lone<'a> {
    message: Seq,
    from: u32,
    to: u32,
    match_bits: Option<u64>,
    /// Bytes of its record.
    len: usize,
    data: Span<'a>,
}

/// What a packet says beside its message, and the flow in which it follows the packets before.
pub(in crate::reliability) struct Following<'a> {
    pub(in crate::reliability) config: &'a Config,
    pub(in crate::reliability) now: u64,
    pub(in crate::reliability) peer: &'a Peer,
    pub(in crate::reliability) flow: &'a Flow,
    pub(in crate::reliability) receive: &'a Receiver,
}

/// `ask`: for an acknowledgement at once.
#[inline]
fn marks(ask: bool) -> Flags {
    if ask { Flags::ACK_REQUEST } else { Flags::empty() }
}
