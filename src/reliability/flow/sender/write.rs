//! Writes the packets of a flow.

use super::{
    super::packet::{Form, Record},
    plan::{Lane, Plan, take_from_queue},
};
use crate::{
    config::WindowMode,
    reliability::{
        burst::{Burst, MAX_SEGMENTS},
        packet_builder::{Body, Written, finish, finish_extensions},
        sealing::Sealing,
    },
    wire::{Base, Builder, Flags, Kind},
};

/// How far a burst has been filled.
pub(in crate::reliability) struct Filled {
    /// There may be more to send.
    pub(in crate::reliability) more: bool,
    /// The next packet is too large for its path, and whether it has been sent before.
    pub(in crate::reliability) too_large: Option<bool>,
}

impl Lane<'_> {
    /// Fills `burst` with resends and new data, as much as fits one burst of equal segments. Returns whether there may
    /// be more, and whether the next packet is too large for its path.
    #[inline]
    pub(in crate::reliability) fn fill(&mut self, burst: &mut Burst) -> Filled {
        let most = self.limits.max_segments.clamp(1, MAX_SEGMENTS);
        let max_batch = self.limits.max_batch;
        let mut filled = Filled {
            more: true,
            too_large: None,
        };
        while burst.segments() < most {
            let Some(plan) = self.next_packet() else {
                if self.restores_order() {
                    continue;
                }
                filled.more = false;
                break;
            };
            let size = plan.size();
            let is_first = burst.is_empty();
            let common = if is_first { self.largest() } else { burst.segment_size() };
            if size < common || self.passed > 0 {
                let room = burst.segments() + 1 < most && burst.len() + 2 * common <= max_batch;
                if self.changes_order(&plan, common, room) {
                    continue;
                }
            }
            let too_large = size > common;
            if !is_first {
                if too_large || burst.len() + size > max_batch {
                    break;
                }
            } else if too_large {
                if self.peer.settles() && self.peer.is_confirmed() {
                    filled.too_large = Some(plan.resend);
                    break;
                }
                burst.allow_fragmentation();
            }
            self.write(&plan, burst);
            // The last one of a burst may be shorter.
            if if is_first { too_large } else { size < common } {
                break;
            }
            // Most messages are alone.
            if self.send.queue.is_empty() && self.send.lost_count == 0 {
                filled.more = false;
                break;
            }
        }
        filled
    }

    /// Writes one data packet and notes that it is in flight.
    #[inline(always)]
    fn write(&mut self, plan: &Plan, burst: &mut Burst) {
        self.launch(plan);
        let record = &plan.record;
        let ask = self.send.want_ack
            || plan.resend
            || record.form == Form::Goodbye
            || self.ends_placement(record)
            || self.exhausted(record.len.into());
        if self.send.queue.is_empty() {
            self.send.want_ack = false;
        }
        let (kind, mut flags) = match record.form {
            Form::Goodbye => (Kind::Goodbye, Flags::empty()),
            Form::Return => (Kind::Return, Flags::empty()),
            Form::Bundle => (Kind::Data, Flags::BUNDLE),
            Form::Single | Form::Whole | Form::Placed => (Kind::Data, Flags::empty()),
        };
        flags.set(Flags::ACK_REQUEST, ask);
        let base = Base {
            kind,
            channel: self.flow.channel(),
            source: record.from,
            destination: record.to,
            session: self.peer.remote_token(),
            sequence: plan.seq,
            acknowledgement: self.flow.expected,
            rail: self.flow.rail(),
            message: record.message,
        };
        let mut header = Builder::new(burst.header(), &base);
        header.set(flags);
        if plan.header > self.overhead {
            self.describe(&mut header, record);
        }
        finish_extensions(&mut header, self.stamp, None, self.checksum, self.open.as_ref());
        let written = Written::of(header, plan.payload);
        let seal = if self.sealing.is_some() { Sealing::LEN } else { 0 };
        debug_assert_eq!(
            written.len() + seal,
            plan.header,
            "the plan's size is the packet's size"
        );
        let body = Body::Part {
            sources: self.sources,
            source: record.source,
            from: record.offset as usize + usize::from(record.len) - plan.payload,
            len: plan.payload,
        };
        finish(burst, written, body, self.sealing.as_deref_mut());
        self.stats.packets_sent += 1;
    }

    /// The last packet of a placement, whose acknowledgement completes it: its sender waits for that.
    #[inline(always)]
    fn ends_placement(&self, record: &Record) -> bool {
        record.form == Form::Placed && record.offset + u32::from(record.len) == self.sources.whole(record.source).len
    }

    /// Notes that the packet is in flight, for the first time or again.
    #[inline(always)]
    fn launch(&mut self, plan: &Plan) {
        let send = &mut *self.send;
        let len = u32::from(plan.record.len);
        if plan.resend {
            self.stats.resends += 1;
            send.lost.clear(plan.seq);
            send.lost_count -= 1;
            let record = send.record_mut(plan.seq);
            record.sent_at = self.now;
            record.resends = record.resends.saturating_add(1);
        } else {
            take_from_queue(send, self.passed, plan, self.sources);
            send.push_record(plan.seq, plan.record);
            self.flow.send_next = plan.seq.plus(1);
            self.stats.payload_sent += plan.payload as u64;
            if plan.messages > 1 {
                self.stats.messages_bundled += u64::from(plan.messages);
            }
        }
        send.bytes_in_flight += len;
        send.packets_in_flight += 1;
        send.probe = false;
        if self.config.window_mode == WindowMode::BurstThenWait
            && self.flow.send_next.distance(send.una) >= self.config.window_packets.into()
        {
            send.waiting = true;
        }
    }
}
