//! State of one process: its requests, and the operations that they wait for.

mod in_turn;
mod leaving;
mod losses;
pub(crate) mod numbered;
mod parked;
mod request_id;
mod short;

use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};
use core::task::Waker;

pub(crate) use self::{
    in_turn::{InTurn, Known},
    leaving::AnyOf,
    numbered::MARK as NUMBERED,
    request_id::RequestId,
};
use self::{leaving::Leaving, parked::Parked};
use super::{
    buffer::{Buffer, PinnedBuffer, Pins},
    packed::Packs,
    peers::Peers,
};
use crate::{
    error::{PeerError, SendError},
    messaging::{
        Messenger, RegionId,
        tagged::{ActiveMessages, Completion, Envelope, Handle, Outcome, Posting, Selector, Tagged, TaggedStats},
    },
    mpi::error::ErrorClass,
    reliability::{Event, PeerId},
    time::Instant,
};

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// For a receive: what was received. For a failed request: the source is the process that is lost.
    pub(crate) envelope: Envelope,
    pub(crate) outcome: Outcome,
    /// Set if the other side has refused the operation.
    pub(crate) refused: Option<ErrorClass>,
    /// For a message of a collective whose length was wrong: the expected length, bytes.
    pub(crate) wanted: Option<u64>,
}

impl Ended {
    pub(super) const WELL: Self = Self {
        envelope: Envelope {
            source: 0,
            bits: 0,
            len: 0,
        },
        outcome: Outcome::Complete,
        refused: None,
        wanted: None,
    };

    #[inline(always)]
    fn of(done: &Completion) -> Self {
        Self {
            envelope: done.envelope,
            outcome: done.outcome,
            ..Self::WELL
        }
    }

    /// Returns whether it has ended as it should.
    #[inline]
    pub(super) fn is_well(&self) -> bool {
        matches!(self.outcome, Outcome::Complete) && self.refused.is_none()
    }

    pub(super) fn with(outcome: Outcome) -> Self {
        Self { outcome, ..Self::WELL }
    }

    /// Failed, since `process` is lost.
    pub(super) fn failed(process: u32, error: PeerError) -> Self {
        let mut ended = Self::with(Outcome::Failed(error));
        ended.envelope.source = process;
        ended
    }
}

/// The result that is reported when a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The application.
    Caller,
    /// Nothing: the request is forgotten when it ends.
    Nobody,
    /// The collective with this index.
    Collective(u32),
    /// A message of a partitioned channel: index of the channel, number of the message.
    Partitioned(u32, u32),
}

enum State {
    Free,
    Pending,
    Ended(Ended),
}

struct Slot {
    generation: u32,
    owner: Owner,
    state: State,
    /// Set for a receive that is posted.
    handle: Option<Handle>,
    /// Set for a send, which has not ended before all pins are back.
    pins: Option<Pins>,
    /// The peer that the request needs, if it names one.
    peer: Option<PeerId>,
    /// The processes of which it needs one, if it names no source.
    any_of: Option<Box<AnyOf>>,
    /// Of a receive that its caller knows by its number alone: what is kept for that one, and the size of its buffer.
    /// Else 0.
    word: u64,
    room: u64,
}

impl Slot {
    const FREE: Self = Self {
        generation: 0,
        owner: Owner::Nobody,
        state: State::Free,
        handle: None,
        pins: None,
        peer: None,
        any_of: None,
        word: 0,
        room: 0,
    };

    /// Frees it; its number is given out again.
    #[inline]
    fn clear(&mut self) {
        self.state = State::Free;
        self.handle = None;
        if self.pins.is_some() {
            self.pins = None;
        }
        if self.any_of.is_some() {
            self.any_of = None;
        }
    }
}

/// Destination of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// The process.
    pub(crate) process: u32,
    /// Match bits.
    pub(crate) bits: u64,
}

/// Requests of one process, and the queues behind them. Always used with the messenger of the same process.
pub(crate) struct Core {
    process: u32,
    /// At least one process is lost without having said goodbye.
    pub(super) any_failed: bool,
    pub(super) tagged: Tagged<Buffer>,
    pub(super) inbox: Inbox,
    /// Ended messages of channels: index of the channel, number of the message, request.
    pub(super) channel_news: VecDeque<(u32, u32, RequestId)>,
    /// Collectives whose round is complete.
    pub(super) advancing: VecDeque<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The only receive that is posted, if it has no slot yet …
    parked: Option<Parked>,
    /// … and the slot that it, or the next one, gets.
    spare: RequestId,
    /// Peers and channels to which something may be waiting to be transmitted.
    pub(super) touched: Vec<(PeerId, u8)>,
    pub(crate) peers: Peers,
    /// Requests ended since the start.
    pub(crate) ended: u64,
    /// Tasks that wait for requests …
    sleepers: Vec<(RequestId, Waker)>,
    /// … and wakers to be called after the lock is released.
    woken: Vec<Waker>,
    pub(super) scratch: Vec<u8>,
    pub(super) packs: Packs,
    /// Peers whose messages are waited for without a request: by probes.
    probed: Vec<PeerId>,
    /// The same for probes that name no source.
    probed_any: Vec<AnyOf>,
    /// Processes that were lost without having said goodbye.
    failures: Vec<u32>,
    /// The losses of which the program has been told: context of the communicator, process.
    told: BTreeSet<(u32, u32)>,
    /// Processes that have called `MPI_Finalize`.
    pub(super) leaving: Leaving,
    /// The only thread of the program that calls is waiting, so this process cannot send to itself.
    pub(super) sole_caller_waits: bool,
    /// Processes lost of which the operations that stand on requests have not been told.
    pub(super) losses: VecDeque<(u32, PeerError)>,
    /// It has become known that a process takes no part in a collective.
    pub(super) misses: bool,
}

/// Keeps active messages until they are asked for.
#[derive(Default)]
pub(super) struct Inbox(pub(super) VecDeque<Arrived>);

pub(super) enum Arrived {
    Active {
        /// `None`: this process itself.
        peer: Option<PeerId>,
        handler: u32,
        data: Vec<u8>,
    },
    Landed(RegionId),
}

impl Inbox {
    pub(super) fn push(&mut self, peer: Option<PeerId>, handler: u32, data: &[u8]) {
        let data = data.to_vec();
        self.0.push_back(Arrived::Active { peer, handler, data });
    }
}

/// Handler: the process named in the data (4 bytes, network byte order) is lost.
const LOST: u32 = 0;
/// Handler: the sender has called `MPI_Finalize`, and begins nothing more.
const LEAVING: u32 = 2;
/// Handler: a collective needs the process named in the data (first 4 bytes), which has called `MPI_Finalize`.
const MISSED: u32 = 3;
/// Handler: the receiver is asleep, and there is something for it elsewhere.
const WAKE: u32 = 4;

impl ActiveMessages for Inbox {
    fn handle(&mut self, peer: PeerId, _: u32, handler: u32, data: &[u8]) {
        self.push(Some(peer), handler, data);
    }

    fn landed(&mut self, id: RegionId) {
        self.0.push_back(Arrived::Landed(id));
    }
}

impl Core {
    /// `peers` are the processes of the job.
    pub(crate) fn new(messenger: &Messenger, peers: Peers, eager_limit: u32) -> Self {
        Self {
            tagged: Tagged::new(messenger, eager_limit),
            process: messenger.processor(),
            any_failed: false,
            peers,
            slots: Vec::new(),
            probed: Vec::new(),
            probed_any: Vec::new(),
            failures: Vec::new(),
            told: BTreeSet::new(),
            leaving: Leaving::default(),
            sole_caller_waits: false,
            free: Vec::new(),
            parked: None,
            spare: RequestId::NONE,
            scratch: Vec::new(),
            packs: Packs::default(),
            advancing: VecDeque::new(),
            losses: VecDeque::new(),
            misses: false,
            channel_news: VecDeque::new(),
            ended: 0,
            touched: Vec::new(),
            sleepers: Vec::new(),
            woken: Vec::new(),
            inbox: Inbox::default(),
        }
    }

    /// The number of this process.
    pub(super) fn process(&self) -> u32 {
        self.process
    }

    pub(crate) fn stats(&self) -> TaggedStats {
        self.tagged.stats()
    }

    /// Number of requests that have not been forgotten.
    pub(crate) fn requests(&self) -> usize {
        let is_spare = self.parked.is_none() && self.spare != RequestId::NONE;
        self.slots.len() - self.free.len() - usize::from(is_spare)
    }

    #[inline]
    fn request(&mut self, owner: Owner, peer: Option<PeerId>) -> (RequestId, &mut Slot) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::FREE);
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.owner = owner;
        slot.state = State::Pending;
        slot.peer = peer;
        slot.word = 0;
        (RequestId(u64::from(slot.generation) << 32 | u64::from(index)), slot)
    }

    #[inline]
    fn slot(&mut self, id: RequestId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.0 as u32 as usize)?;
        let live = slot.generation == (id.0 >> 32) as u32 && !matches!(slot.state, State::Free);
        live.then_some(slot)
    }

    fn forget(&mut self, id: RequestId) {
        if let Some(slot) = self.slot(id) {
            slot.clear();
            self.free.push(id.0 as u32);
        }
    }

    /// How the request has ended; forgets it. `None`: it has not ended, or there is no such request.
    #[inline]
    pub(crate) fn take(&mut self, id: RequestId) -> Option<Ended> {
        let slot = self.slot(id)?;
        let State::Ended(ended) = slot.state else { return None };
        if slot.pins.as_ref().is_some_and(|pins| !pins.are_released()) {
            return None;
        }
        slot.clear();
        self.free.push(id.0 as u32);
        Some(ended)
    }

    /// Whether the request has ended.
    pub(crate) fn is_done(&mut self, id: RequestId) -> bool {
        self.slot(id).is_some_and(|slot| {
            matches!(slot.state, State::Ended(_)) && slot.pins.as_ref().is_none_or(Pins::are_released)
        })
    }

    /// How the request has ended, without forgetting it.
    pub(crate) fn peek(&mut self, id: RequestId) -> Option<Ended> {
        if !self.is_done(id) {
            return None;
        }
        match self.slot(id)?.state {
            State::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// The caller will not ask for the request any more.
    pub(crate) fn detach(&mut self, id: RequestId) {
        if self.take(id).is_none()
            && let Some(slot) = self.slot(id)
        {
            slot.owner = Owner::Nobody;
        }
    }

    /// Why a process is lost.
    pub(crate) fn lost(&self, process: u32) -> Option<PeerError> {
        self.peers.lost(process)
    }

    /// The processes that are lost.
    pub(crate) fn all_lost(&self) -> impl Iterator<Item = u32> + '_ {
        self.peers.all_lost()
    }

    // ---- messages

    /// Sends. A small message goes out at once and needs no request: `None`. A longer one, or a `synchronous` one,
    /// gives a request.
    pub(crate) fn send(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        route: Route,
        buffer: Buffer,
        synchronous: bool,
    ) -> Option<RequestId> {
        self.send_for(messenger, now, route, buffer, synchronous, Owner::Caller)
    }

    /// A send to this process should wait for the peer's answer instead of sending a request: see [`Tagged::is_early`].
    #[inline]
    pub(crate) fn is_early(&mut self, messenger: &mut Messenger, process: u32, len: u64) -> bool {
        let Some(peer) = self.peers.meet(messenger, process) else {
            return false;
        };
        self.tagged.is_early(messenger, peer, len) && self.lost(process).is_none()
    }

    pub(super) fn send_for(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        route: Route,
        buffer: Buffer,
        synchronous: bool,
        owner: Owner,
    ) -> Option<RequestId> {
        let Route { process, bits } = route;
        let len = buffer.len();
        let Some(peer) = self.peers.meet(messenger, process) else {
            return self.send_self(bits, buffer, synchronous, owner);
        };
        if !synchronous && self.tagged.is_eager(messenger, peer, len) {
            let tagged = &mut self.tagged;
            let sent = buffer.with_packed(&mut self.scratch, |data| {
                tagged.send_eager(messenger, now, peer, bits, data)
            });
            match sent {
                Ok(()) => {
                    self.touch(peer);
                    return None;
                }
                Err(SendError::WouldBlock(_)) => {}
                Err(error) => return Some(self.failed_at_once(owner, process, error)),
            }
        }
        if let Some(error) = self.absent(process, bits) {
            return Some(self.failed_to(owner, process, error));
        }
        let (pinned, pins) = PinnedBuffer::new(buffer, &self.packs);
        let (id, slot) = self.request(owner, Some(peer));
        slot.pins = Some(pins);
        if let Err(error) = self.tagged.send(messenger, now, peer, bits, Box::new(pinned), id.0) {
            self.forget(id);
            return Some(self.failed_at_once(owner, process, error));
        }
        self.touch(peer);
        Some(id)
    }

    fn send_self(&mut self, bits: u64, buffer: Buffer, synchronous: bool, owner: Owner) -> Option<RequestId> {
        if !synchronous && buffer.len() <= u64::from(self.tagged.eager_limit()) {
            let tagged = &mut self.tagged;
            buffer.with_packed(&mut self.scratch, |data| tagged.send_self(bits, data));
            self.collect();
            return None;
        }
        let (pinned, pins) = PinnedBuffer::new(buffer, &self.packs);
        let (id, slot) = self.request(owner, None);
        slot.pins = Some(pins);
        self.tagged.send_self_later(bits, Box::new(pinned), id.0);
        self.collect();
        Some(id)
    }

    /// Makes a request that has failed at once.
    fn failed_at_once(&mut self, owner: Owner, process: u32, error: SendError) -> RequestId {
        let error = match error {
            SendError::Peer(_, error) => error,
            _ => self.lost(process).unwrap_or(PeerError::Closed),
        };
        self.failed_to(owner, process, error)
    }

    fn failed_to(&mut self, owner: Owner, process: u32, error: PeerError) -> RequestId {
        self.ended_with(owner, Ended::failed(process, error))
    }

    /// Makes a request that has ended.
    fn ended_with(&mut self, owner: Owner, ended: Ended) -> RequestId {
        let (id, slot) = self.request(owner, None);
        slot.state = State::Ended(ended);
        self.ended += 1;
        self.tell(owner, id);
        id
    }

    /// Posts a receive; `any_of` are the processes from which it takes messages if it names no source. Gives how the
    /// receive has ended if it ends at once and that is `told` to its caller; else the call that waits is told.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        selector: Selector,
        buffer: Buffer,
        any_of: Option<AnyOf>,
        told: impl FnOnce(&Ended) -> bool,
    ) -> Result<Ended, RequestId> {
        if let Some(any_of) = &any_of
            && let Some(failed) = self.fail_any(any_of)
            && self.tagged.probe(&selector).is_none()
        {
            return match told(&failed) {
                true => Ok(failed),
                false => Err(self.ended_with(Owner::Caller, failed)),
            };
        }
        let before = self.ended;
        let id = self.receive_for(messenger, now, selector, buffer, Owner::Caller);
        if self.ended != before
            && let Some(State::Ended(ended)) = self.slot(id).map(|slot| &slot.state)
            && told(ended)
            && let Some(ended) = self.take(id)
        {
            return Ok(ended);
        }
        if let Some(any_of) = any_of
            && let Some(slot) = self.slot(id)
            && slot.handle.is_some()
        {
            slot.any_of = Some(Box::new(any_of));
        }
        Err(id)
    }

    #[inline]
    pub(super) fn receive_for(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        selector: Selector,
        buffer: Buffer,
        owner: Owner,
    ) -> RequestId {
        let peer = selector.source.and_then(|process| self.peers.meet(messenger, process));
        if self.any_absent()
            && let Some(process) = selector.source
            && let Some(error) = self.absent(process, selector.bits)
            && self.tagged.probe(&selector).is_none()
        {
            return self.failed_to(owner, process, error);
        }
        let (id, _) = self.request(owner, peer);
        let posting = self.tagged.receive(messenger, now, selector, buffer, id.0);
        self.posted(id, posting);
        id
    }

    #[inline]
    fn posted(&mut self, id: RequestId, posting: Posting) {
        match posting {
            Posting::Done(done) => self.complete(&done),
            Posting::Posted(handle) => {
                if let Some(slot) = self.slot(id) {
                    slot.handle = Some(handle);
                }
            }
            Posting::Matched => {}
        }
        // A send to this process itself may have ended with it.
        self.collect();
    }

    /// Receives a message that a matched probe has claimed.
    pub(crate) fn receive_claimed(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        claimed: crate::messaging::tagged::Claimed,
        buffer: Buffer,
    ) -> RequestId {
        // Its bytes may still have to come.
        let peer = self.peers.meet(messenger, claimed.envelope().source);
        let (id, _) = self.request(Owner::Caller, peer);
        let posting = self.tagged.receive_claimed(messenger, now, claimed, buffer, id.0);
        self.posted(id, posting);
        id
    }

    /// Cancels a receive that has matched no message yet, which ends it. Gives whether it did.
    pub(crate) fn cancel(&mut self, id: RequestId) -> bool {
        let cancelled = self.cancel_posted(id);
        if cancelled {
            self.end(id, Ended::with(Outcome::Cancelled));
        }
        cancelled || self.cancel_unanswered(id)
    }

    /// Takes back a receive that has matched no message yet. Gives whether it is one; its request must be ended.
    pub(super) fn cancel_posted(&mut self, id: RequestId) -> bool {
        let handle = self.slot(id).and_then(|slot| slot.handle.take());
        handle.is_some_and(|handle| self.tagged.cancel(handle).is_some())
    }

    // ---- for collectives

    pub(super) fn send_of_collective(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        route: Route,
        buffer: Buffer,
        index: u32,
    ) -> Option<RequestId> {
        self.send_for(messenger, now, route, buffer, false, Owner::Collective(index))
    }

    pub(super) fn receive_of_collective(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        selector: Selector,
        buffer: Buffer,
        index: u32,
    ) -> RequestId {
        self.receive_for(messenger, now, selector, buffer, Owner::Collective(index))
    }

    /// Makes a request without messages of its own: it stands for a collective towards its caller.
    pub(super) fn request_of_caller(&mut self) -> RequestId {
        self.request(Owner::Caller, None).0
    }

    /// Ends the request.
    pub(super) fn end(&mut self, id: RequestId, mut ended: Ended) {
        if let Outcome::Failed(_) = ended.outcome {
            self.name_lost(id, &mut ended);
        }
        let Some(slot) = self.slot(id) else { return };
        slot.state = State::Ended(ended);
        slot.handle = None;
        let owner = slot.owner;
        self.ended += 1;
        self.tell(owner, id);
    }

    /// Tells the owner of a request that has ended; the owner goes on with the next pass.
    #[inline]
    fn tell(&mut self, owner: Owner, id: RequestId) {
        match owner {
            Owner::Caller => {}
            Owner::Nobody => self.forget(id),
            Owner::Collective(index) => self.advancing.push_back(index),
            Owner::Partitioned(index, message) => self.channel_news.push_back((index, message, id)),
        }
    }

    /// Names the lost process in a failed request, whose envelope is empty: it is the peer that the request needed.
    #[cold]
    fn name_lost(&mut self, id: RequestId, ended: &mut Ended) {
        let peer = self.slot(id).and_then(|slot| slot.peer);
        if peer.is_some()
            && let Some(process) = (0..self.peers.size()).find(|process| self.peers.get(*process) == peer)
        {
            ended.envelope.source = process;
        }
    }

    // ---- progress

    fn touch(&mut self, peer: PeerId) {
        if self.touched.last() != Some(&(peer, 0)) {
            self.touched.push((peer, 0));
        }
    }

    /// Whether what was queued since the last call is worth transmitting at once.
    pub(crate) fn wants_transmit(&mut self, messenger: &Messenger) -> bool {
        let mut wants = false;
        for (peer, channel) in self.touched.drain(..) {
            wants = wants || messenger.layer().should_transmit(peer, channel);
        }
        wants
    }

    /// Everything queued is about to be transmitted: there is nothing left to ask for.
    pub(crate) fn forget_touched(&mut self) {
        self.touched.clear();
    }

    fn complete(&mut self, done: &Completion) {
        self.end(RequestId(done.request), Ended::of(done));
    }

    #[inline(always)]
    pub(super) fn collect(&mut self) {
        if self.tagged.has_completions() {
            self.complete_all();
        }
    }

    fn complete_all(&mut self) {
        while let Some(done) = self.tagged.poll_completion() {
            self.complete(&done);
        }
    }

    /// Takes what the messenger has ready, also a message that [is in place](Messenger::is_in_place) at the end of
    /// `datagram`.
    #[inline]
    pub(super) fn take_ready(&mut self, messenger: &mut Messenger, now: Instant, datagram: &[u8]) {
        self.tagged
            .handle_ready_in_place(messenger, now, &mut self.inbox, datagram);
    }

    /// Handles an event of the transport.
    pub(super) fn handle_event(&mut self, messenger: &mut Messenger, now: Instant, event: Event) {
        match event {
            Event::Down { peer, error, .. } => {
                self.tagged.handle_down(messenger, peer, error);
                if let Some(process) = messenger.layer().processor(peer) {
                    self.lose(messenger, now, process, error);
                }
            }
            // A processor that should be at that endpoint is not there: it is as good as lost.
            Event::Returned { destination, .. } => self.lose(messenger, now, destination, PeerError::Refused),
            // A process that was lost and comes back is a new one, which gets no answers: tell it so.
            Event::Up { peer, .. } => {
                let process = messenger.layer().processor(peer);
                match process.filter(|process| self.lost(*process).is_some()) {
                    Some(process) => self.refuse(messenger, now, process, peer),
                    None => self.tell_also(messenger, now, peer),
                }
            }
            Event::Sent { .. } | Event::Writable { .. } | Event::RailUp { .. } | Event::RailDown { .. } => {}
        }
        self.collect();
    }

    /// Handles an active message of another engine, if it is about processes that are lost or leave.
    pub(super) fn handle_notice(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        (peer, handler): (PeerId, u32),
        data: &[u8],
    ) {
        match handler {
            LOST => self.handle_lost(messenger, now, peer, data),
            LEAVING => self.handle_leaving(messenger, peer),
            MISSED => self.handle_missed(data),
            _ => {}
        }
    }

    // ---- tasks

    /// Wakes a task when the request has ended; false if it has ended already.
    pub(super) fn sleep(&mut self, id: RequestId, waker: &Waker) -> bool {
        if self.slot(id).is_none() || self.is_done(id) {
            return false;
        }
        match self.sleepers.iter_mut().find(|(sleeper, _)| *sleeper == id) {
            Some((_, known)) => known.clone_from(waker),
            None => self.sleepers.push((id, waker.clone())),
        }
        true
    }

    /// Whether any task waits for a request.
    pub(super) fn has_sleepers(&self) -> bool {
        !self.sleepers.is_empty()
    }

    /// Whether any task waits, or is to be woken.
    #[inline]
    pub(crate) fn has_tasks(&self) -> bool {
        !self.sleepers.is_empty() || !self.woken.is_empty()
    }

    /// Looks for tasks whose request has ended. Gives whether any task is to be woken.
    pub(super) fn find_woken(&mut self) -> bool {
        for index in (0..self.sleepers.len()).rev() {
            let id = self.sleepers[index].0;
            if self.slot(id).is_none() || self.is_done(id) {
                self.woken.push(self.sleepers.swap_remove(index).1);
            }
        }
        !self.woken.is_empty()
    }

    /// Takes the wakers of the tasks to be woken.
    pub(crate) fn take_woken(&mut self) -> Vec<Waker> {
        if !self.sleepers.is_empty() {
            self.find_woken();
        }
        core::mem::take(&mut self.woken)
    }

    /// The network has failed, and neither it nor this messenger is used any more: forgets all requests, so that
    /// nothing refers to memory of the caller from here on.
    pub(super) fn abandon(&mut self, messenger: &mut Messenger) {
        messenger.withdraw_all();
        self.tagged = Tagged::new(messenger, self.tagged.eager_limit());
        self.advancing.clear();
        self.channel_news.clear();
        self.inbox = Inbox::default();
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if matches!(slot.state, State::Pending) || slot.pins.is_some() {
                slot.clear();
                self.free.push(index as u32);
                self.ended += 1;
            }
        }
    }

    /// Ends every pending operation with these bits (but for the bits in `ignore`).
    pub(crate) fn revoke(&mut self, messenger: &mut Messenger, now: Instant, bits: u64, ignore: u64) {
        self.tagged.revoke(messenger, now, bits, ignore);
        self.collect();
    }

    /// The same for exactly these bits, where the other processes will notice by themselves.
    pub(super) fn give_up(&mut self, messenger: &mut Messenger, bits: u64) {
        self.tagged.give_up(messenger, bits);
        self.collect();
    }
}
