//! What waits in one flow goes by another one.

use alloc::collections::VecDeque;

use super::{
    super::{
        packet::{Form, Queued},
        resident::Flow,
        source::{NONE, SourceId, Sources, charge},
    },
    Sender,
};
use crate::reliability::packet_builder::message::Cut;

/// A message of which less is left is not divided, in packets.
const WORTH: usize = 2;
/// The same, in bytes.
const LARGE: u32 = 4 << 10;
/// The end of a message of which no more is left than this is to be acknowledged at once, bytes.
const END: u32 = 256 << 10;

/// A part of the queue of a flow on its way to another.
#[derive(Debug)]
pub(crate) struct Moved {
    queue: VecDeque<Queued>,
    queued_bytes: u32,
    copied_bytes: u32,
    ends: bool,
}

impl Moved {
    pub(crate) fn sources(&self) -> impl Iterator<Item = SourceId> + '_ {
        self.queue
            .iter()
            .map(|queued| queued.source)
            .filter(|&source| source != NONE)
    }
}

impl Sender {
    /// Bytes that wait, if the first of them are of a large message of which other flows may send a piece. (A receiver
    /// that has nothing of a message yet doubts pieces of it, so its first packet goes first.)
    pub(crate) fn queued_to_give(&self) -> u32 {
        let Some(first) = self.queue.front() else { return 0 };
        let gives = match first.form {
            Form::Whole => first.at > 0,
            form => form == Form::Placed,
        };
        if gives && (first.end - first.at >= LARGE || self.is_rest(first)) {
            self.queued_bytes
        } else {
            0
        }
    }

    /// The rest of a placement with others behind it: these do not wait until the rail of this flow has room for it.
    fn is_rest(&self, first: &Queued) -> bool {
        first.form == Form::Placed && first.at > 0 && self.queue.len() > 1
    }

    /// Bytes that a flow may take from another: it has nothing of its own, no trouble, and so much room in its windows.
    pub(crate) fn room_to_draw(&self, window: u32, packets: u32, flow: &Flow) -> u32 {
        let has_own = !self.queue.is_empty() || self.lost_count > 0;
        if has_own || self.timeouts > 0 || self.waiting || self.settling {
            return 0;
        }
        if flow.send_next.distance(self.una) >= packets {
            return 0;
        }
        self.window().min(window).saturating_sub(self.bytes_in_flight)
    }

    /// Cuts a piece of `most` bytes at most off the front of the queue, and of no more than the share of one of so many
    /// rails in what is left: packets with room for `packet` bytes beside the fixed part of a header, and `largest` bytes
    /// of payload at most. Those that take credit reach up to `limit` at most.
    pub(crate) fn cut_off(
        &mut self,
        sources: &mut Sources,
        (packet, largest): (usize, usize),
        (most, rails): (usize, usize),
        limit: u64,
    ) -> Option<Moved> {
        if self.queued_to_give() == 0 || self.settling {
            return None;
        }
        let is_rest = self.is_rest(self.queue.front()?);
        let first = self.queue.front_mut()?;
        let left = (first.end - first.at) as usize;
        let each = match first.form {
            Form::Whole => Cut::of_message(left, 0, false, packet, largest).payload,
            _ => Cut::of_placement(left, packet, largest).payload,
        };
        let credit = if first.takes_credit() {
            usize::try_from(limit.saturating_sub(first.cost)).unwrap_or(usize::MAX)
        } else {
            usize::MAX
        };
        let most = most.min(credit);
        let share = left.div_ceil(each.max(1)).div_ceil(rails.max(1));
        let len = if left >= WORTH * each {
            (most.min(left) / each.max(1)).min(share) * each
        } else if is_rest && left <= most {
            left
        } else {
            0
        };
        if len == 0 {
            return None;
        }
        let len = len as u32;
        let copied = first.form == Form::Whole && sources.whole(first.source).copied;
        let ends = first.end - first.at - len <= END;
        let piece = Queued {
            end: first.at + len,
            ..*first
        };
        if piece.end == first.end {
            self.queue.pop_front();
        } else {
            first.at += len;
            if first.takes_credit() {
                first.cost += u64::from(len);
            }
            sources.retain(piece.source);
        }
        self.queued_bytes = self.queued_bytes.saturating_sub(len);
        let copied_bytes = if copied { len } else { 0 };
        self.copied_bytes -= copied_bytes;
        Some(Moved {
            queue: [piece].into(),
            queued_bytes: len,
            copied_bytes,
            ends,
        })
    }

    /// Takes all that waits.
    pub(crate) fn take_queue(&mut self, sources: &Sources) -> Moved {
        let queue = core::mem::take(&mut self.queue);
        let copied_bytes = queue.iter().map(|queued| copied(queued, sources)).sum();
        self.copied_bytes -= copied_bytes;
        Moved {
            queue,
            queued_bytes: core::mem::take(&mut self.queued_bytes),
            copied_bytes,
            ends: true,
        }
    }

    /// Puts what another flow had before its own.
    pub(crate) fn put_before(&mut self, moved: Moved) {
        let mut queue = moved.queue;
        queue.append(&mut self.queue);
        // Returns go before everything else.
        queue
            .make_contiguous()
            .sort_by_key(|queued| queued.form != Form::Return);
        self.queue = queue;
        self.queued_bytes = self.queued_bytes.saturating_add(moved.queued_bytes);
        self.copied_bytes += moved.copied_bytes;
        self.want_ack |= moved.ends;
    }
}

/// Bytes of the send queue that it takes.
fn copied(queued: &Queued, sources: &Sources) -> u32 {
    let len = queued.end - queued.at;
    match queued.form {
        Form::Single | Form::Bundle => len,
        Form::Whole if sources.whole(queued.source).copied => {
            let whole = sources.whole(queued.source).len;
            len + if queued.at == 0 { charge(whole) - whole } else { 0 }
        }
        _ => 0,
    }
}
