//! Has the system copy what is due of large messages: both sides of a [`Crossing`](super::crossing::Crossing).

use alloc::collections::VecDeque;

use bytes::{Buf, Bytes};

use super::{
    completion::Completion,
    control::{Control, Exposure, FollowUp, Range},
    crossing::{Race, Reading},
    outbox::Answers,
    rendezvous::{BULK, Outgoing, Rendezvous},
};
use crate::{error::SendError, messaging::Messenger, reliability::PeerId, time::Instant};

/// Bytes that a process copies in a turn.
const STEP: usize = 512 << 10;
/// Fewer bytes that were granted are read by the receiver: a sender has no part of so few.
const SPLIT: usize = 16 << 10;
/// Most bytes of a message that is offered to its receiver.
const OFFERED: u64 = 128 << 10;
/// So many bytes are copied by one of the two sides, by the receiver if they were offered and by the sender if they were
/// granted: what the two would say to each other about two parts takes longer.
const ALONE: usize = 64 << 10;
/// The second part begins at a page, so that none is looked up twice.
const PAGE: usize = 4 << 10;
/// Turns after which the second part is copied whatever else waits to be transmitted to the receiver.
const TURNS: u64 = 16;
/// Ranges of a peer that wait to be read, at most. Those of honest peers are fewer: each has a quarter of [`SPLIT`] bytes
/// at least, or is the end of what was granted.
const READS: usize = 1_024;

impl Rendezvous {
    /// Offers the bytes of a send to its receiver, if they are contiguous, and neither too few nor too many.
    pub(super) fn offer(&mut self, messenger: &mut Messenger, id: u32) -> Option<Exposure> {
        let limits = self.cma_limits;
        let fits = |send: &&mut Outgoing| send.content.len() <= OFFERED && limits.may_cross(send.content.len());
        let send = self.sends.get_mut(&id).filter(fits)?;
        let permission = messenger.cross(send.peer)?.permission();
        let bytes = send.content.run()?;
        let address = bytes.as_ptr() as u64;
        send.offer = Some(bytes);
        Some(Exposure { address, permission })
    }

    /// Reads what was offered. Returns whether it is there. While more messages `wait`, every second one is left to its
    /// sender, which writes it meanwhile; but not those for the memory of the last one, which is in this side's cache.
    pub(super) fn take_offer(
        &mut self,
        messenger: &mut Messenger,
        (peer, id): (PeerId, u32),
        offer: Exposure,
        into: &mut [u8],
        waits: bool,
        answers: &mut Answers<'_>,
    ) -> bool {
        let start = into.as_ptr() as usize;
        let last = core::mem::replace(&mut self.copies.place, start);
        let is_again = waits && start == last && into.len() as u64 <= OFFERED;
        self.copies.leaves = waits && !is_again && !self.copies.leaves;
        let reads = is_again || into.len() <= ALONE && !self.copies.leaves;
        if !reads || !self.cma_limits.may_cross(into.len() as u64) {
            return false;
        }
        let Exposure { address, permission } = offer;
        let cross = messenger.cross(peer);
        let is_read = cross.is_some_and(|cross| cross.read(Some(permission), address, into));
        if is_read {
            self.copies.done += 1;
            let what = FollowUp::WasRead { len: into.len() as u64 };
            answers.say(messenger, peer, &Control::FollowUp { id, what });
        }
        is_read
    }

    /// Has what is granted copied, unless this side is still busy with what was granted before.
    pub(super) fn cross(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        id: u32,
        answers: &mut Answers<'_>,
    ) -> Option<Completion> {
        let send = self.sends.get_mut(&id)?;
        let crossing = send.crossing.as_mut()?;
        if !crossing.own.is_empty() {
            return None;
        }
        if send.sent == send.until {
            return self.finish(id);
        }
        let left = send.until - send.sent;
        let mut theirs = send.content.chunk(send.sent, left);
        let len = theirs.len() as u64;
        // (Bytes that do not lie together are not worth a call each.)
        let is_whole = len == left || theirs.len() >= SPLIT;
        let permission = match messenger.cross(send.peer) {
            Some(cross) if is_whole => cross.permission(),
            _ => {
                crossing.is_over = true;
                return self.pump(messenger, now, id, answers);
            }
        };
        let mut rest = Range {
            region: send.region,
            offset: send.sent,
            len,
        };
        send.sent += len;
        let mut own = Bytes::new();
        if theirs.len() > ALONE {
            let part = self.copies.balance.part(theirs.len());
            own = theirs.split_off(part / PAGE * PAGE);
            crossing.race = Race::Runs(len);
        } else if theirs.len() >= SPLIT {
            own = core::mem::take(&mut theirs);
        }
        let range = rest.take_front(theirs.len() as u64);
        if !own.is_empty() {
            crossing.own.push_back((rest, own));
            send.under_way += 1;
        }
        if !theirs.is_empty() {
            send.under_way += 1;
            let from = Exposure {
                address: theirs.as_ptr() as u64,
                permission,
            };
            crossing.theirs.push_back((range, theirs));
            let what = FollowUp::Read { range, from };
            answers.say(messenger, send.peer, &Control::FollowUp { id, what });
        }
        self.copies.add_send(id);
        messenger.wake_at(now);
        None
    }

    /// A peer wants a range read. `false`: it wants too many.
    pub(super) fn read(&mut self, peer: PeerId, id: u32, range: Range, from: Exposure) -> bool {
        let others = self.copies.reads.iter().filter(|reading| reading.peer == peer);
        let has_room = others.count() < READS;
        if has_room {
            self.copies.reads.push_back(Reading {
                peer,
                id,
                range,
                from,
                done: 0,
            });
        }
        has_room
    }

    /// Copies what is due in this turn.
    pub(super) fn copy(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        completions: &mut VecDeque<Completion>,
        answers: &mut Answers<'_>,
    ) {
        let reads_on = self.copy_reads(messenger, answers);
        let writes_on = self.copy_sends(messenger, now, completions, answers);
        self.copies.turn += 1;
        if reads_on || writes_on {
            messenger.wake_at(now);
        }
    }

    /// Reads what peers want read, at most a [`STEP`]. Returns whether it goes on in the next turn.
    fn copy_reads(&mut self, messenger: &mut Messenger, answers: &mut Answers<'_>) -> bool {
        let (mut left, mut at) = (STEP as u64, 0);
        while let Some(reading) = self.copies.reads.get_mut(at) {
            if !answers.are_taken(reading.peer) {
                at += 1;
                continue;
            }
            if left == 0 {
                return true;
            }
            let Range { region, offset, len } = reading.range;
            let Exposure { address, permission } = reading.from;
            let step = len.min(left);
            let is_read = messenger.pull(reading.peer, region, (offset, step), (address, permission));
            left -= step;
            if is_read {
                reading.done += step;
                reading.range.take_front(step);
                reading.from.address = address.wrapping_add(step);
            }
            if is_read && step < len {
                return true;
            }
            self.copies.done += u64::from(is_read);
            let Reading { peer, id, done, .. } = *reading;
            self.copies.reads.remove(at);
            let what = FollowUp::WasRead { len: done };
            answers.say(messenger, peer, &Control::FollowUp { id, what });
        }
        false
    }

    /// Writes what is this side's of sends, at most a [`STEP`]. Returns whether that goes on in the next turn.
    fn copy_sends(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        completions: &mut VecDeque<Completion>,
        answers: &mut Answers<'_>,
    ) -> bool {
        let (mut left, mut goes_on) = (STEP, false);
        for _ in 0..self.copies.sends.len() {
            let Some((id, begun)) = self.copies.sends.pop_front() else {
                break;
            };
            let Some(send) = self.sends.get(&id) else { continue };
            let is_told = !messenger.has_queued(send.peer) || self.copies.turn - begun >= TURNS;
            if self.decide(id) {
                completions.extend(self.pump(messenger, now, id, answers));
            } else if left == 0 || !is_told {
                self.copies.sends.push_back((id, begun));
                goes_on = true;
            } else if self.write(messenger, now, id, &mut left, answers) {
                self.copies.add_send(id);
                goes_on = true;
            } else if left == 0 {
                self.copies.sends.push_front((id, begun));
                return true;
            } else {
                // There is no room for what has to be placed, until something comes.
                self.copies.sends.push_back((id, begun));
            }
        }
        goes_on
    }

    /// This side has written its part of what was granted in the turn before, so the receiver is slower if it has not read
    /// the other one. Returns whether that was so.
    fn decide(&mut self, id: u32) -> bool {
        let crossing = self.sends.get_mut(&id).and_then(|send| send.crossing.as_mut());
        let Some(crossing) = crossing.filter(|crossing| crossing.own.is_empty()) else {
            return false;
        };
        if let Race::Written(len) = crossing.race {
            self.copies.balance.note(len, false);
        }
        crossing.race = Race::Decided;
        true
    }

    /// Writes what is this side's, at most `left` bytes. Returns whether that was all.
    fn write(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        id: u32,
        left: &mut usize,
        answers: &mut Answers<'_>,
    ) -> bool {
        let Some(send) = self.sends.get_mut(&id) else {
            return true;
        };
        let Some(crossing) = &mut send.crossing else {
            return true;
        };
        while let Some((range, bytes)) = crossing.own.front_mut() {
            let offset = range.offset + range.len - bytes.len() as u64;
            if !crossing.is_over {
                let Exposure { address, permission } = crossing.exposure;
                let step = bytes.len().min(*left);
                let cross = messenger.cross(send.peer);
                if cross.is_some_and(|cross| cross.write(permission, address.wrapping_add(offset), &bytes[..step])) {
                    *left -= step;
                    bytes.advance(step);
                } else {
                    crossing.is_over = true;
                }
            }
            let is_written = bytes.is_empty();
            if !is_written && !crossing.is_over {
                return false;
            }
            // (It is said once, also where the rest has to wait.)
            let written = range.take_front(range.len - bytes.len() as u64);
            if written.len > 0 {
                let what = FollowUp::Written { range: written };
                answers.say(messenger, send.peer, &Control::FollowUp { id, what });
            }
            if is_written {
                send.under_way -= 1;
                self.copies.done += 1;
                if let Race::Runs(len) = crossing.race {
                    crossing.race = Race::Written(len);
                }
            } else {
                match messenger.place(now, send.peer, BULK, send.region, range.offset, bytes.clone()) {
                    Err(SendError::WouldBlock(_)) => return false,
                    Ok(token) => drop(self.tokens.insert(token.0, id)),
                    // An event reports the end of the peer.
                    Err(_) => {}
                }
            }
            crossing.own.pop_front();
        }
        true
    }

    /// The receiver has read what it was offered, or so many bytes of the oldest range that it was to read.
    pub(super) fn was_read(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        (peer, id): (PeerId, u32),
        len: u64,
    ) -> Option<Completion> {
        let send = self.sends.get_mut(&id).filter(|send| send.peer == peer)?;
        if send.offer.take().is_some() {
            send.granted = true;
            return self.finish(id);
        }
        let crossing = send.crossing.as_mut()?;
        let (mut range, mut bytes) = crossing.theirs.pop_front()?;
        if len >= range.len {
            if let Race::Runs(len) | Race::Written(len) = crossing.race
                && crossing.theirs.is_empty()
            {
                crossing.race = Race::Decided;
                self.copies.balance.note(len, true);
            }
            send.under_way -= 1;
            return self.finish(id);
        }
        crossing.is_over = true;
        range.take_front(len);
        bytes.advance(len as usize);
        crossing.own.push_back((range, bytes));
        self.copies.add_send(id);
        messenger.wake_at(now);
        None
    }
}

#[cfg(test)]
mod tests;
