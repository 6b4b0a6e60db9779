//! Rendezvous: large messages, whose payload is placed straight into the receiver's memory.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;

use super::{
    completion::{Completion, Envelope, Outcome},
    content::Content,
    control::{Control, Exposure, FollowUp, Grant},
    crossing::{Copies, Crossing, Limits},
    hash::Hash,
    outbox::Answers,
};
use crate::{
    error::{PeerError, SendError},
    messaging::{Access, MemoryRegion, Messenger, RegionId},
    reliability::{PeerId, SendToken},
    time::Instant,
};

/// Most bytes that are granted and have not landed, if only one peer sends.
pub const GRANT_BYTES: u64 = 4 << 20;
/// The same if several do, in all: more than wires and hosts need to be busy, less than a switch's queue holds.
pub const SHARED_GRANT_BYTES: u64 = 384 << 10;
/// The same for each rail, if one of them can be reached by several, of which each has a switch and a wire of its own. Bytes
/// wait longer at their senders then: the last piece of a grant is there when the slowest rail has carried its own.
pub const RAIL_GRANT_BYTES: u64 = 768 << 10;
/// So many messages are granted something at a time.
pub const SERVED: usize = 64;

/// Payload is placed on this channel, so that small messages do not wait behind it.
pub const BULK: u8 = 1;
/// Most bytes in one placement: only its end is reported.
const CHUNK: u64 = 1 << 20;
/// Least that is granted at once.
const MIN_GRANT: u64 = 64 << 10;
/// A grant that has not moved for this long is not counted against others: its sender has stopped, or lies.
const PATIENCE: Duration = Duration::from_millis(100);

pub(super) struct Outgoing {
    pub(super) peer: PeerId,
    bits: u64,
    request: u64,
    pub(super) content: Box<dyn Content>,
    /// How it will end.
    outcome: Outcome,
    pub(super) region: RegionId,
    pub(super) granted: bool,
    /// May be sent up to here; this much is wanted in all; this much was sent.
    pub(super) until: u64,
    limit: u64,
    pub(super) sent: u64,
    /// Chunks that are under way.
    pub(super) under_way: u32,
    /// The system copies its bytes.
    pub(super) crossing: Option<Crossing>,
    /// All of its bytes, which the receiver may read until it answers.
    pub(super) offer: Option<Bytes>,
}

impl Outgoing {
    fn is_done(&self) -> bool {
        self.granted && self.sent == self.limit && self.under_way == 0
    }

    fn completion(&self, outcome: Outcome) -> Completion {
        Completion {
            request: self.request,
            envelope: Envelope::default(),
            outcome,
        }
    }
}

/// A message on its way to us.
pub(super) struct Incoming {
    peer: PeerId,
    /// The sender's id.
    id: u32,
    /// Where it lands …
    region: RegionId,
    /// … once something of it is granted; until then this is its memory.
    memory: Option<Box<dyn MemoryRegion>>,
    /// The address of that memory, if the system may copy to it.
    address: Option<u64>,
    granted: u64,
    /// This much had landed, and was not more since, or something was granted then.
    landed: u64,
    moved: Instant,
    limit: u64,
    envelope: Envelope,
    request: u64,
    /// Where its peer's share is, while grants are made; `None`: it is passed over.
    share: Option<usize>,
}

impl Incoming {
    pub(super) fn new(
        peer: PeerId,
        id: u32,
        limit: u64,
        envelope: Envelope,
        request: u64,
        memory: Box<dyn MemoryRegion>,
    ) -> Self {
        Self {
            peer,
            id,
            region: RegionId { region: 0, key: 0 },
            memory: Some(memory),
            address: None,
            granted: 0,
            landed: 0,
            moved: Instant::ZERO,
            limit,
            envelope,
            request,
            share: None,
        }
    }

    fn under_way(&self) -> u64 {
        self.granted - self.landed
    }

    /// Its sender places what was granted to it, or has not had the time.
    fn is_moving(&mut self, messenger: &mut Messenger, now: Instant) -> bool {
        let landed = messenger.landed(self.region);
        if landed > self.landed {
            (self.landed, self.moved) = (landed, now);
        }
        self.under_way() == 0 || now < self.moved + PATIENCE
    }

    /// Where its sender may write, if the system can copy between the two.
    fn exposure(&self, messenger: &mut Messenger) -> Option<Exposure> {
        let address = self.address?;
        let permission = messenger.cross(self.peer)?.permission();
        Some(Exposure { address, permission })
    }

    /// Ends it before all has landed: from here on nothing is written to its memory.
    fn give_up(&self, messenger: &mut Messenger) {
        let memory = messenger.deregister(self.region);
        if self.address.is_some() {
            messenger.withdraw(self.peer);
        }
        drop(memory);
    }

    fn completion(&self, outcome: Outcome) -> Completion {
        Completion {
            request: self.request,
            envelope: self.envelope,
            outcome,
        }
    }
}

pub(super) struct Rendezvous {
    /// The bytes that may still be granted to each peer that is served.
    shares: Vec<(PeerId, u64)>,
    /// By their ids, in the order in which they began.
    pub(super) sends: BTreeMap<u32, Outgoing>,
    /// Those that were revoked before something was granted to them.
    withdrawn: BTreeMap<u32, PeerId>,
    /// The next id, if it is free.
    next: u32,
    /// Which send a placement belongs to.
    pub(super) tokens: HashMap<u64, u32, Hash>,
    /// Longer messages are copied by the system where it can, others placed.
    pub(super) cma_limits: Limits,
    /// What the system is to copy.
    pub(super) copies: Copies,
    /// Sends that could not place anything for want of room.
    stalled: VecDeque<u32>,
    /// The messages on their way to us, oldest first: each is granted something in its turn.
    pub(super) incoming: VecDeque<Incoming>,
}

impl Default for Rendezvous {
    fn default() -> Self {
        Self {
            shares: Vec::new(),
            sends: BTreeMap::new(),
            withdrawn: BTreeMap::new(),
            next: 0,
            tokens: HashMap::default(),
            cma_limits: Limits::new(None),
            copies: Copies::default(),
            stalled: VecDeque::new(),
            incoming: VecDeque::new(),
        }
    }
}

impl Rendezvous {
    /// Gives the id for the request to send.
    pub(super) fn begin_send(&mut self, peer: PeerId, bits: u64, content: Box<dyn Content>, request: u64) -> u32 {
        // (There is a free one: each of those that are not takes memory of its own.)
        while self.sends.contains_key(&self.next) || self.withdrawn.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        let send = Outgoing {
            peer,
            bits,
            request,
            content,
            outcome: Outcome::Complete,
            region: RegionId { region: 0, key: 0 },
            granted: false,
            until: 0,
            limit: 0,
            sent: 0,
            under_way: 0,
            crossing: None,
            offer: None,
        };
        self.sends.insert(id, send);
        id
    }

    /// Handles a grant. An invalid one (from another peer, or of a send that has ended) is dropped.
    pub(super) fn granted(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        (peer, id): (PeerId, u32),
        grant: &Grant,
        answers: &mut Answers<'_>,
    ) -> Option<Completion> {
        let send = self.sends.get_mut(&id)?;
        if send.peer != peer || send.outcome != Outcome::Complete {
            return None;
        }
        let len = send.content.len();
        send.offer = None;
        if !send.granted {
            send.granted = true;
            send.region = grant.region;
            send.limit = grant.limit.min(len);
        }
        send.until = send.until.max(grant.until.min(send.limit));
        if let Some(exposure) = grant.exposure.filter(|_| messenger.cross(peer).is_some()) {
            let crossing = send.crossing.get_or_insert_with(|| Crossing::new(exposure));
            crossing.exposure = exposure;
        }
        self.pump(messenger, now, id, answers)
    }

    /// Places the bytes that are granted, or has the system copy them.
    pub(super) fn pump(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        id: u32,
        answers: &mut Answers<'_>,
    ) -> Option<Completion> {
        let send = self.sends.get_mut(&id)?;
        if send.crossing.as_ref().is_some_and(|crossing| !crossing.is_over) {
            return self.cross(messenger, now, id, answers);
        }
        while send.sent < send.until {
            if send.content.is_busy() {
                self.stalled.push_back(id);
                if send.under_way == 0 {
                    // (Only what is under way is heard of when it ends.)
                    messenger.wake_at(now);
                }
                return None;
            }
            let most = (send.until - send.sent).min(CHUNK);
            let chunk = send.content.chunk(send.sent, most);
            let len = chunk.len() as u64;
            match messenger.place(now, send.peer, BULK, send.region, send.sent, chunk) {
                Ok(token) => {
                    self.tokens.insert(token.0, id);
                    send.sent += len;
                    send.under_way += 1;
                }
                Err(SendError::WouldBlock(_)) => {
                    self.stalled.push_back(id);
                    return None;
                }
                // An event reports the end of the peer.
                Err(_) => return None,
            }
        }
        self.finish(id)
    }

    pub(super) fn finish(&mut self, id: u32) -> Option<Completion> {
        if !self.sends.get(&id)?.is_done() {
            return None;
        }
        let send = self.sends.remove(&id)?;
        Some(send.completion(send.outcome))
    }

    /// A placement is there. `None`: it was none of ours.
    pub(super) fn sent(&mut self, token: SendToken) -> Option<Option<Completion>> {
        let id = self.tokens.remove(&token.0)?;
        if let Some(send) = self.sends.get_mut(&id) {
            send.under_way -= 1;
        }
        Some(self.finish(id))
    }

    /// Nothing is to be granted or placed.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.incoming.is_empty() && self.stalled.is_empty() && self.copies.is_empty()
    }

    /// There may be room again.
    pub(super) fn retry(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        completions: &mut VecDeque<Completion>,
        answers: &mut Answers<'_>,
    ) {
        for _ in 0..self.stalled.len() {
            if let Some(id) = self.stalled.pop_front() {
                completions.extend(self.pump(messenger, now, id, answers));
            }
        }
    }

    /// Grants more, as what was granted lands: to each peer its share, of which its oldest messages get as much as they
    /// want. (A peer sends them one after the other; in pieces they would only get in each other's way.) Peers have equal
    /// shares; where these would be too small, those with the oldest messages have them, and the others their turn later.
    /// A message that does not move is passed over until it does.
    pub(super) fn grant(&mut self, messenger: &mut Messenger, now: Instant, answers: &mut Answers<'_>) {
        if self.incoming.is_empty() {
            return;
        }
        self.shares.clear();
        let (mut served, mut looked_at, mut under_way, mut oldest) = (0, 0, 0, None);
        for incoming in &mut self.incoming {
            if served == SERVED {
                break;
            }
            looked_at += 1;
            incoming.share = None;
            if !incoming.is_moving(messenger, now) {
                continue;
            }
            served += 1;
            let known = self.shares.iter().position(|(peer, _)| *peer == incoming.peer);
            incoming.share = known.or(Some(self.shares.len()));
            if known.is_none() {
                self.shares.push((incoming.peer, 0));
            }
            if incoming.under_way() > 0 {
                under_way += incoming.under_way();
                oldest = Some(oldest.map_or(incoming.moved, |oldest: Instant| oldest.min(incoming.moved)));
            }
        }
        let (share, most) = match self.shares.len() as u64 {
            1 => (GRANT_BYTES, GRANT_BYTES),
            peers => {
                let rails = self.shares.iter().map(|(peer, _)| messenger.layer().rails_up(*peer));
                let most = match rails.max() {
                    None | Some(..=1) => SHARED_GRANT_BYTES,
                    Some(rails) => RAIL_GRANT_BYTES * rails as u64,
                };
                ((most / peers.max(1)).max(MIN_GRANT), most)
            }
        };
        // Less than nothing is left if one peer was alone before.
        let mut room = most.saturating_sub(under_way);
        let served = (most / MIN_GRANT) as usize;
        self.shares.iter_mut().take(served).for_each(|(_, left)| *left = share);
        let mut waits = self.incoming.len() > looked_at;
        for incoming in self.incoming.iter_mut().take(looked_at) {
            let Some((_, left)) = incoming.share.and_then(|share| self.shares.get_mut(share)) else {
                continue;
            };
            *left = left.saturating_sub(incoming.under_way());
            let wanted = incoming.limit - incoming.granted;
            if wanted == 0 {
                continue;
            }
            // No small pieces, and no younger message overtakes.
            let may = (*left).min(room);
            if may < wanted && may < share / 2 {
                *left = 0;
                waits = true;
                continue;
            }
            if incoming.memory.is_some() && !messenger.has_regions() {
                // When others have ended there are.
                continue;
            }
            if let Some(mut memory) = incoming.memory.take() {
                if self.cma_limits.may_cross(incoming.limit) {
                    incoming.address = memory.whole().map(|whole| whole.as_mut_ptr() as u64);
                }
                let access = Access::Once {
                    peer: incoming.peer,
                    len: incoming.limit,
                };
                let Some(region) = messenger.register(access, memory) else {
                    continue;
                };
                incoming.region = region;
            }
            let more = wanted.min(may);
            *left -= more;
            room -= more;
            incoming.granted += more;
            incoming.moved = now;
            messenger.allow(incoming.region, incoming.granted);
            let what = FollowUp::Grant(Grant {
                region: incoming.region,
                until: incoming.granted,
                limit: incoming.limit,
                exposure: incoming.exposure(messenger),
            });
            let id = incoming.id;
            answers.say(messenger, incoming.peer, &Control::FollowUp { id, what });
        }
        // If it does not move until then, another may have its turn.
        if let Some(oldest) = oldest.filter(|_| waits) {
            messenger.wake_at(oldest + PATIENCE);
        }
    }

    /// All has landed.
    pub(super) fn landed(&mut self, messenger: &mut Messenger, id: RegionId) -> Option<Completion> {
        let at = self.incoming.iter().position(|incoming| incoming.region == id)?;
        let incoming = self.incoming.remove(at)?;
        messenger.deregister(id);
        let outcome = Outcome::of(incoming.envelope.len, incoming.limit);
        Some(incoming.completion(outcome))
    }

    /// Ends everything with this peer.
    pub(super) fn fail(
        &mut self,
        messenger: &mut Messenger,
        peer: PeerId,
        error: PeerError,
        completions: &mut VecDeque<Completion>,
    ) {
        let outcome = Outcome::Failed(error);
        messenger.withdraw(peer);
        let of_peer = |(&id, send): (&u32, &Outgoing)| (send.peer == peer).then_some(id);
        let ended: Vec<u32> = self.sends.iter().filter_map(of_peer).collect();
        for id in &ended {
            let send = self.sends.remove(id);
            completions.extend(send.map(|send| send.completion(outcome)));
        }
        if !ended.is_empty() {
            let sends = &self.sends;
            self.tokens.retain(|_, id| sends.contains_key(id));
            self.stalled.retain(|id| sends.contains_key(id));
        }
        self.withdrawn.retain(|_, other| *other != peer);
        self.copies.forget(peer);
        self.end_incoming(messenger, |incoming| incoming.peer == peer, outcome, completions);
    }

    /// Ends the sends to this peer that it has not granted anything, if their bits are among `which`. (Nothing of them is
    /// under way, but it might still read what it was offered.)
    pub(super) fn end_ungranted(
        &mut self,
        messenger: &mut Messenger,
        peer: PeerId,
        which: impl Fn(u64) -> bool,
        outcome: Outcome,
        completions: &mut VecDeque<Completion>,
    ) {
        self.sends.retain(|_, send| {
            let ends = send.peer == peer && !send.granted && which(send.bits);
            if ends {
                if send.offer.is_some() {
                    messenger.withdraw(peer);
                }
                completions.push_back(send.completion(outcome));
            }
            !ends
        });
    }

    /// The send with this id was revoked before something was granted to it: when that comes, its receiver is to be told.
    pub(super) fn withdraw_later(&mut self, peer: PeerId, id: u32) {
        self.withdrawn.insert(id, peer);
    }

    /// Something was granted to such a send, or its bytes were read before it was revoked.
    pub(super) fn take_withdrawn(&mut self, peer: PeerId, id: u32) -> bool {
        let withdrawn = self.withdrawn.get(&id) == Some(&peer);
        withdrawn && self.withdrawn.remove(&id).is_some()
    }

    /// The sender has revoked a message for which it was granted a region.
    pub(super) fn handle_withdrawn(&mut self, messenger: &mut Messenger, peer: PeerId, id: u32) -> Option<Completion> {
        let same = |incoming: &Incoming| incoming.peer == peer && incoming.id == id;
        let at = self.incoming.iter().position(same)?;
        let incoming = self.incoming.remove(at)?;
        incoming.give_up(messenger);
        Some(incoming.completion(Outcome::Revoked))
    }

    /// Ends the sends and receives whose bits are the `same`; sends as soon as the network has given their memory back.
    /// Gives the sends whose receivers wait, or will, for what does not come, and whether something was granted to them.
    pub(super) fn revoke(
        &mut self,
        messenger: &mut Messenger,
        same: impl Fn(u64) -> bool,
        completions: &mut VecDeque<Completion>,
    ) -> Vec<(PeerId, u32, bool)> {
        let (mut done, mut missed) = (Vec::new(), Vec::new());
        for (&id, send) in &mut self.sends {
            if same(send.bits) && send.outcome == Outcome::Complete {
                if send.offer.take().is_some() {
                    messenger.withdraw(send.peer);
                }
                if !send.granted || send.sent < send.limit {
                    missed.push((send.peer, id, send.granted));
                }
                send.outcome = Outcome::Revoked;
                send.granted = true;
                (send.until, send.limit) = (send.sent, send.sent);
                done.push(id);
            }
        }
        completions.extend(done.into_iter().filter_map(|id| self.finish(id)));
        self.end_incoming(
            messenger,
            |incoming| same(incoming.envelope.bits),
            Outcome::Revoked,
            completions,
        );
        missed
    }

    fn end_incoming(
        &mut self,
        messenger: &mut Messenger,
        which: impl Fn(&Incoming) -> bool,
        outcome: Outcome,
        completions: &mut VecDeque<Completion>,
    ) {
        self.incoming.retain(|incoming| {
            let ends = which(incoming);
            if ends {
                incoming.give_up(messenger);
                completions.push_back(incoming.completion(outcome));
            }
            !ends
        });
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Ids begin anew after 2^32 sends. Those of sends that have not ended are passed over, and those of sends that were
    /// revoked and may still be granted something: their grants must not be taken for grants to a later send.
    #[test]
    fn an_id_is_not_used_again_before_its_grant() {
        const PEER: PeerId = PeerId(0);
        let mut rendezvous = Rendezvous::default();
        let begin = |rendezvous: &mut Rendezvous| {
            rendezvous.next = 0;
            rendezvous.begin_send(PEER, 5, Box::new(Bytes::from_static(&[1; 8])), 1)
        };
        assert_eq!([0; 2].map(|_| begin(&mut rendezvous)), [0, 1]);
        rendezvous.sends.clear();
        rendezvous.withdraw_later(PEER, 0);
        assert_eq!([0; 2].map(|_| begin(&mut rendezvous)), [1, 2]);
        assert!(rendezvous.take_withdrawn(PEER, 0));
        assert_eq!([0; 2].map(|_| begin(&mut rendezvous)), [0, 3]);
    }
}
