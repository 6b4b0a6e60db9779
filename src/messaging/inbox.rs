//! Where packets arrive: admits messages in the order of their numbers.

mod promotion;

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

#[cfg(feature = "std")]
use super::ready::Next;
use super::{
    arena::Pool,
    assembly::{Assembly, Refusal},
    memory_region::MemoryRegions,
    message::Message,
    pair::{Busy, Candidate, Current, IDLE, Inbound, MAX_PAIRS, NOBODY, Pair, Slab, reach},
    ready::{Head, Ready},
};
use crate::{
    config::Config,
    prefetch::Locate,
    reliability::{Arriving, Inward, Origin, PeerId, Sink, Verdict},
    span::Span,
    wire::{ANY_PROCESSOR, Base, Flags, Head as PacketHead, Packet, Plain, Records, Seq},
};

/// A message number further ahead than this is impossible: no credit ([`Config::unexpected_bytes`]) covers that many
/// messages, since a record takes at least 4 bytes. It also separates old numbers from new.
const MAX_AHEAD: u32 = 1 << 29;
/// Most fragments of a peer, over all its messages, that may wait for an earlier fragment: each takes memory beside its
/// bytes, which credit does not cover. Further ones are put off. (A packet that is next in its flow follows the one
/// before it, and is always taken.)
const MAX_SCATTERED: usize = 4_096;

/// A packet, wherever its payload lies.
#[derive(Clone, Copy)]
struct Arrived<'a> {
    origin: Origin,
    head: PacketHead<'a>,
    payload: Span<'a>,
    /// Its payload, if it may be looked at where it lies. Then that of a bundle has been.
    open: Option<&'a [u8]>,
}

/// A packet or message that cannot be admitted yet.
enum Wait {
    /// A packet that came before its turn: a message, or a bundle of so many.
    Packet {
        head: Head,
        records: Option<usize>,
        buffer: Vec<u8>,
        len: usize,
    },
    /// A message in fragments.
    Parts(Assembly),
}

/// Credit to give back: of this peer, in this session, so much.
pub(super) type Release = (PeerId, u32, u32);

pub(super) struct Inbox {
    /// Our first processor.
    processor: u32,
    /// The others, sorted.
    others: Vec<u32>,
    max_message: u64,
    /// Most bytes of buffers per peer that credit does not cover.
    max_region: u64,
    /// A message that holds more credit than this, and is the oldest, gets it back as it lands.
    half: u64,
    unexpected: u64,
    peers: Vec<Inbound>,
    busy: Slab<Busy>,
    /// Emptied ones, for reuse.
    idle: Vec<Busy>,
    waits: Slab<Wait>,
    current: Option<Current>,
    ready: Ready,
    /// A message that is the only one may stay in the datagram that comes in now.
    lends: bool,
    pool: Pool,
    candidates: VecDeque<Candidate>,
    releases: Vec<Release>,
    pub(super) regions: MemoryRegions,
}

impl Locate<PeerId> for Inbox {
    #[inline]
    fn locate(&self, peer: PeerId, mut tell: impl FnMut(*const u8, usize)) {
        if let Some(inbound) = self.peers.get(peer.index()) {
            tell((&raw const *inbound).cast(), size_of::<Inbound>());
        }
    }
}

impl Inbox {
    /// For `processors`, of which there is at least one.
    pub(super) fn new(config: &Config, processors: &[u32]) -> Self {
        let (&processor, others) = processors.split_first().unwrap_or((&0, &[]));
        let mut others = others.to_vec();
        others.sort_unstable();
        let unexpected = u64::from(config.unexpected_bytes);
        Self {
            processor,
            others,
            max_message: config.max_message.into(),
            max_region: Pool::size(config.max_message as usize) as u64,
            half: unexpected / 2,
            unexpected,
            peers: Vec::new(),
            busy: Slab::default(),
            idle: Vec::new(),
            waits: Slab::default(),
            current: None,
            ready: Ready::default(),
            lends: false,
            pool: Pool::default(),
            candidates: VecDeque::new(),
            releases: Vec::new(),
            regions: MemoryRegions::default(),
        }
    }

    #[inline]
    pub(super) fn processor(&self) -> u32 {
        self.processor
    }

    /// Messages that can be taken.
    #[inline]
    pub(super) fn messages(&self) -> usize {
        self.ready.messages()
    }

    /// The next message; the one taken before must have been [retired](Self::retire). A message in place is at the end
    /// of `datagram`.
    #[inline]
    pub(super) fn take<'a>(&'a mut self, datagram: &'a [u8]) -> Option<Message<'a>> {
        self.ready.take(datagram)
    }

    /// Whether a message that is the only one may stay in the datagram that comes in now.
    #[inline]
    pub(super) fn lend(&mut self, on: bool) {
        self.lends = on;
    }

    /// See [`Ready::is_in_place`].
    #[inline]
    pub(super) fn is_in_place(&self) -> bool {
        self.ready.is_in_place()
    }

    /// Copies the message in place, at the end of `datagram`.
    pub(super) fn copy_out(&mut self, datagram: &[u8]) {
        self.ready.copy_out(datagram, &mut self.pool);
    }

    /// There is something to [retire](Self::retire).
    #[inline]
    pub(super) fn is_lent(&self) -> bool {
        self.ready.is_lent()
    }

    /// Frees the memory of the taken message. Returns the credit to pass to `Endpoint::release` for it.
    #[inline]
    pub(super) fn retire(&mut self) -> Option<Release> {
        let retired = self.ready.retire(&mut self.pool)?;
        if let Some(inbound) = self.peers.get(retired.peer.index())
            && inbound.busy != IDLE
        {
            self.retire_of_busy(retired.peer, retired.session, retired.cost, retired.promoted);
        }
        if !self.candidates.is_empty() {
            self.promote_candidates();
        }
        Some((retired.peer, retired.session, retired.cost - retired.kept))
    }

    fn retire_of_busy(&mut self, peer: PeerId, session: u32, cost: u32, promoted: u64) {
        let inbound = self.peers[peer.index()];
        let Some(busy) = self.busy.get_mut(inbound.busy) else {
            return;
        };
        if session == inbound.session {
            busy.region = busy.region.saturating_sub(promoted);
            self.feed_starved(peer);
        } else {
            busy.stale = busy.stale.saturating_sub(u64::from(cost) + promoted);
        }
        self.rest(peer);
    }

    /// Returns whether a message is no longer than this side takes.
    #[inline]
    pub(super) fn takes(&self, len: usize) -> bool {
        len as u64 <= self.max_message
    }

    /// Returns whether a short message with this number is the next of its pair, and nothing of its peer waits.
    #[inline]
    pub(super) fn is_next_short(&self, of: &Inward, number: u32) -> bool {
        let pair = self.peers.get(of.peer.index());
        pair.is_some_and(|pair| pair.is_next_short((of.source, of.session), number))
    }

    /// The number of the next message of the pair of a short message, if it is that one, and nothing of its peer waits.
    #[inline(always)]
    pub(super) fn next_of_short(&mut self, short: &Arriving<'_>) -> Option<&mut Seq> {
        self.peers.get_mut(short.peer.index())?.next_of_short(short)
    }

    /// What is known of the messages from this peer.
    #[cfg(feature = "mpi")]
    pub(super) fn inbound_of_short(&mut self, peer: PeerId) -> Option<&mut Inbound> {
        self.peers.get_mut(peer.index())
    }

    /// Other credit to pass to `Endpoint::release` now.
    #[inline]
    pub(super) fn releases(&mut self) -> impl Iterator<Item = Release> + '_ {
        self.releases.drain(..)
    }

    /// The next message, if none is lent or in place.
    #[cfg(feature = "std")]
    pub(super) fn next(&self) -> Option<Next> {
        self.ready.next()
    }

    #[inline]
    pub(super) fn has_releases(&self) -> bool {
        !self.releases.is_empty()
    }

    #[inline]
    pub(super) fn release(&mut self, peer: PeerId, session: u32, cost: u32) {
        if cost == 0 {
            return;
        }
        if let Some((last, of, sum)) = self.releases.last_mut()
            && *last == peer
            && *of == session
            && let Some(both) = sum.checked_add(cost)
        {
            *sum = both;
            return;
        }
        self.releases.push((peer, session, cost));
    }

    /// The session has ended: messages that wait for admission are dropped.
    pub(super) fn end(&mut self, peer: PeerId, session: u32) {
        if let Some(inbound) = self.peers.get(peer.index())
            && inbound.session == session
        {
            self.drop_waiting(peer);
            self.rest(peer);
        }
    }

    fn drop_waiting(&mut self, peer: PeerId) {
        let Inbound { session, busy, .. } = self.peers[peer.index()];
        self.candidates.retain(|candidate| candidate.peer != peer);
        self.current = None;
        while let Some(index) = self.busy.get_mut(busy).and_then(|busy| busy.waiting.pop()) {
            match self.waits.remove(index) {
                Some(Wait::Packet { head, buffer, .. }) => {
                    self.pool.give(buffer);
                    self.release(peer, session, head.cost);
                }
                Some(Wait::Parts(assembly)) => {
                    self.release(peer, session, assembly.cost);
                    assembly.discard(&mut self.pool);
                }
                None => {}
            }
        }
        if let Some(busy) = self.busy.get_mut(busy) {
            busy.pairs.clear();
            // Its admitted messages are counted as stale when the next session begins.
            busy.region = 0;
            busy.claimed = 0;
            busy.scattered = 0;
            busy.starved.clear();
        }
    }

    fn begin(&mut self, peer: PeerId, session: u32) {
        self.drop_waiting(peer);
        let stale = self.ready.held_by(peer);
        let inbound = &mut self.peers[peer.index()];
        *inbound = Inbound {
            session,
            busy: inbound.busy,
            ..Inbound::NEW
        };
        if stale > 0 {
            self.busy_of(peer).stale = stale;
        }
        self.rest(peer);
    }

    /// The peer's waiting messages; makes it busy.
    fn busy_of(&mut self, peer: PeerId) -> &mut Busy {
        let inbound = &mut self.peers[peer.index()];
        if self.busy.get(inbound.busy).is_none() {
            inbound.busy = self.busy.insert(self.idle.pop().unwrap_or_default());
        }
        // It was made just now if it was not there.
        self.busy.get_mut(inbound.busy).unwrap_or_else(|| unreachable!())
    }

    /// Frees the state that a peer needs only while messages of it wait.
    #[inline]
    fn rest(&mut self, peer: PeerId) {
        let inbound = &mut self.peers[peer.index()];
        if self.busy.get(inbound.busy).is_some_and(Busy::is_idle)
            && let Some(busy) = self.busy.remove(inbound.busy)
        {
            inbound.busy = IDLE;
            if self.idle.len() < 64 {
                self.idle.push(busy);
            }
        }
    }

    fn is_local(&self, processor: u32) -> bool {
        processor == self.processor || processor == ANY_PROCESSOR || self.others.binary_search(&processor).is_ok()
    }

    /// Returns whether a message is the next of its pair, or follows one that waits, or is one that waits, or is old.
    fn follows(&self, peer: PeerId, pair: Pair, number: Seq) -> bool {
        let inbound = &self.peers[peer.index()];
        let busy = self.busy.get(inbound.busy);
        let next = if pair == (inbound.source, self.processor) {
            Some(inbound.next)
        } else {
            busy.and_then(|busy| busy.pairs.get(&pair)).copied()
        };
        if next.is_some_and(|next| !number.after(next)) {
            return true;
        }
        let Some(busy) = busy else { return false };
        let count = |index| match self.waits.get(index) {
            Some(Wait::Packet { records, .. }) => records.unwrap_or(1) as u32,
            _ => 1,
        };
        busy.waiting.get(pair, number).is_some()
            || (busy.waiting.before(pair, number)).is_some_and(|(index, distance)| distance == count(index))
    }

    /// Number of the next message of a pair to admit; `None`: too many pairs.
    fn next_of(&mut self, peer: PeerId, pair: Pair) -> Option<&mut Seq> {
        let processor = self.processor;
        let inbound = &mut self.peers[peer.index()];
        if inbound.source == NOBODY && pair.1 == processor {
            inbound.source = pair.0;
        }
        if pair == (inbound.source, processor) {
            return Some(&mut self.peers[peer.index()].next);
        }
        let pairs: &mut BTreeMap<Pair, Seq> = &mut self.busy_of(peer).pairs;
        if pairs.len() >= MAX_PAIRS && !pairs.contains_key(&pair) {
            return None;
        }
        Some(pairs.entry(pair).or_default())
    }

    /// Counts the messages of a packet that is no fragment: `None` for a plain one. Fails on one that is too large.
    #[inline(always)]
    fn count(&self, arrived: &Arrived<'_>, flags: Flags) -> Result<Option<usize>, Verdict> {
        if !flags.contains(Flags::BUNDLE) {
            return if arrived.payload.len() as u64 <= self.max_message {
                Ok(None)
            } else {
                Err(Verdict::Impossible)
            };
        }
        let mut records = 0;
        for record in Records::new(arrived.open.unwrap_or_default()) {
            if record.data.len() as u64 > self.max_message {
                return Err(Verdict::Impossible);
            }
            records += 1;
        }
        Ok(Some(records))
    }

    #[inline(never)]
    fn deliver_slowly(&mut self, arrived: &Arrived<'_>, base: &Base) -> Verdict {
        let origin = arrived.origin;
        let peer = origin.peer;
        if !self.is_local(base.destination) {
            return Verdict::Misaddressed;
        }
        if base.source == NOBODY {
            return Verdict::Impossible;
        }
        reach(&mut self.peers, peer.index(), Inbound::NEW);
        if self.peers[peer.index()].session != origin.session {
            self.begin(peer, origin.session);
        }
        let busy = self.busy.get(self.peers[peer.index()].busy);
        if busy.is_some_and(|busy| busy.stale > self.unexpected) {
            // A peer that restarts again and again must not fill the memory; it will send this again.
            return Verdict::NoRoom;
        }
        let pair = (base.source, base.destination);
        if !origin.confirmed && !self.follows(peer, pair, base.message) {
            return Verdict::Doubtful;
        }
        let Some(&mut next) = self.next_of(peer, pair) else {
            return Verdict::Impossible;
        };
        let verdict = if base.message.distance(next) > MAX_AHEAD {
            Verdict::Impossible
        } else if let Some(fragment) = arrived.head.fragment()
            && fragment.total as usize != arrived.payload.len()
        {
            self.deliver_fragment(arrived, base, next)
        } else {
            self.deliver_packet(arrived, base, next)
        };
        self.rest(peer);
        verdict
    }

    /// A message is ready.
    #[inline(always)]
    fn push_whole(&mut self, head: &Head, data: Span<'_>) {
        if self.lends && self.ready.is_empty() {
            self.ready.push_in_place(head, data.len());
        } else {
            self.ready.push(head, None, data, &mut self.pool);
        }
    }

    fn deliver_packet(&mut self, arrived: &Arrived<'_>, base: &Base, next: Seq) -> Verdict {
        let records = match self.count(arrived, arrived.head.flags()) {
            Ok(records) => records,
            Err(verdict) => return verdict,
        };
        let (peer, pair) = (arrived.origin.peer, (base.source, base.destination));
        let busy = self.busy.get(self.peers[peer.index()].busy);
        if busy.is_some_and(|busy| busy.waiting.get(pair, base.message).is_some()) {
            return Verdict::Impossible;
        }
        let (head, data) = (head(arrived, base), arrived.payload);
        if base.message == next {
            self.ready.push(&head, records, data, &mut self.pool);
            self.advance(peer, pair, next.plus(records.unwrap_or(1) as u32));
        } else {
            let wait = Wait::Packet {
                head,
                records,
                buffer: self.pool.copy(data),
                len: data.len(),
            };
            let index = self.waits.insert(wait);
            self.busy_of(peer).waiting.insert(pair, base.message, index);
        }
        Verdict::Taken
    }

    fn deliver_fragment(&mut self, arrived: &Arrived<'_>, base: &Base, next: Seq) -> Verdict {
        let &Arrived {
            origin, head, payload, ..
        } = arrived;
        let Some(fragment) = head.fragment() else {
            return Verdict::Impossible;
        };
        if u64::from(fragment.total) > self.max_message
            || payload.is_empty()
            || u64::from(fragment.offset) + payload.len() as u64 > fragment.total.into()
        {
            return Verdict::Impossible;
        }
        let (peer, pair) = (origin.peer, (base.source, base.destination));
        let busy = self.busy_of(peer);
        let crowded = busy.scattered >= MAX_SCATTERED;
        let index = match busy.waiting.get(pair, base.message) {
            Some(index) => index,
            None if crowded && fragment.offset > 0 => return Verdict::NoRoom,
            None => {
                let index = self.waits.insert(Wait::Parts(Assembly::new(fragment.total)));
                self.busy_of(peer).waiting.insert(pair, base.message, index);
                index
            }
        };
        self.reserve(peer, index);
        let Some(Wait::Parts(assembly)) = self.waits.get_mut(index) else {
            // A whole message with this number has come already.
            return Verdict::Impossible;
        };
        if assembly.total != fragment.total {
            return Verdict::Impossible;
        }
        if crowded && !assembly.follows(fragment.offset) {
            return Verdict::NoRoom;
        }
        let before = assembly.scattered();
        if let Err(refusal) = assembly.land(fragment.offset, payload, &self.pool) {
            return self.put_off(peer, pair, base.message, index, refusal);
        }
        let after = assembly.scattered();
        assembly.tag = assembly.tag.or_else(|| head.match_bits());
        assembly.immediate = assembly.immediate.or_else(|| head.immediate());
        let give_back = if assembly.promoted {
            origin.cost
        } else if let Some(sum) = assembly.cost.checked_add(origin.cost) {
            assembly.cost = sum;
            0
        } else {
            origin.cost
        };
        let complete = assembly.is_complete();
        if !complete {
            let of = (peer, origin.session, pair, base.message);
            self.current = Some(Current { of, index });
        }
        let (region, promoted, total) = (assembly.reserved() as u64, assembly.promoted, assembly.total);
        let earned = if assembly.has_earned() {
            core::mem::take(&mut assembly.claim)
        } else {
            0
        };
        let busy = self.busy_of(peer);
        busy.claimed -= earned;
        busy.scattered = busy.scattered + after - before;
        if complete {
            // From now on its credit covers it, or its length if the credit was given back.
            let covered = if promoted { u64::from(total) } else { 0 };
            busy.region = busy.region.saturating_sub(region) + covered;
        }
        self.release(peer, origin.session, give_back);
        if base.message == next {
            self.advance(peer, pair, next);
        }
        if complete {
            self.feed_starved(peer);
        }
        Verdict::Taken
    }

    /// A fragment has not landed. A message of which nothing has is not remembered: no credit pays for it.
    #[cold]
    fn put_off(&mut self, peer: PeerId, pair: Pair, number: Seq, index: u32, refusal: Refusal) -> Verdict {
        if let Some(Wait::Parts(assembly)) = self.waits.get(index)
            && assembly.landed() == 0
        {
            let (reserved, claim) = (assembly.reserved() as u64, assembly.claim);
            if let Some(Wait::Parts(assembly)) = self.waits.remove(index) {
                assembly.discard(&mut self.pool);
            }
            self.current = None;
            let busy = self.busy_of(peer);
            busy.waiting.remove(pair, number);
            busy.region = busy.region.saturating_sub(reserved);
            busy.claimed -= claim;
        }
        match refusal {
            Refusal::Overlap => Verdict::Impossible,
            Refusal::FarAhead => Verdict::NoRoom,
            Refusal::NoMemory => Verdict::NoMemory,
        }
    }

    /// Takes the next fragment of the message that the last one was of, unless it ends it. `false`: nothing was done.
    #[inline]
    fn deliver_next(&mut self, arrived: &Arrived<'_>, base: &Base, flags: Flags) -> bool {
        let origin = &arrived.origin;
        let pair = (base.source, base.destination);
        let Some(Current { of, index }) = self.current else {
            return false;
        };
        if of != (origin.peer, origin.session, pair, base.message) || flags.intersects(Flags::MATCH | Flags::IMMEDIATE)
        {
            return false;
        }
        let (Some(fragment), Some(Wait::Parts(assembly))) = (arrived.head.fragment(), self.waits.get_mut(index)) else {
            return false;
        };
        // A large message may have to get its credit back.
        let cost = assembly.cost.saturating_add(origin.cost);
        let small = u64::from(assembly.total) <= self.half && u64::from(cost) <= self.half;
        if !(assembly.promoted || small) || !assembly.append(fragment, arrived.payload) {
            return false;
        }
        if assembly.promoted {
            self.release(origin.peer, origin.session, origin.cost);
        } else {
            assembly.cost = cost;
        }
        true
    }

    /// All messages of `pair` before `next` have been admitted: admits those that follow, and remembers where they end.
    fn advance(&mut self, peer: PeerId, pair: Pair, mut next: Seq) {
        let session = self.peers[peer.index()].session;
        loop {
            let busy = self.busy.get(self.peers[peer.index()].busy);
            let Some(index) = busy.and_then(|busy| busy.waiting.get(pair, next)) else {
                break;
            };
            let pushed = self.ready.pushed;
            if let Some(Wait::Parts(assembly)) = self.waits.get_mut(index)
                && !assembly.is_complete()
            {
                assembly.after.get_or_insert(pushed);
                self.promote(peer, pair, next, index);
                break;
            }
            let scattered = match self.waits.get(index) {
                Some(Wait::Parts(assembly)) => assembly.scattered(),
                _ => 0,
            };
            let busy = self.busy_of(peer);
            busy.scattered -= scattered;
            busy.waiting.remove(pair, next);
            self.current = None;
            match self.waits.remove(index) {
                Some(Wait::Packet {
                    head,
                    records,
                    buffer,
                    len,
                }) => {
                    self.ready.push_buffer(&head, records, buffer, len, false);
                    next = next.plus(records.unwrap_or(1) as u32);
                }
                Some(Wait::Parts(assembly)) => {
                    let head = Head {
                        peer,
                        session,
                        source: pair.0,
                        destination: pair.1,
                        cost: assembly.cost,
                        tag: assembly.tag,
                        immediate: assembly.immediate,
                    };
                    let (total, promoted) = (assembly.total as usize, assembly.promoted);
                    let buffer = assembly.into_buffer();
                    self.ready.push_buffer(&head, None, buffer, total, promoted);
                    next = next.plus(1);
                }
                None => break,
            }
        }
        if let Some(place) = self.next_of(peer, pair) {
            *place = next;
        }
    }
}

#[inline(always)]
fn head(arrived: &Arrived<'_>, base: &Base) -> Head {
    let Arrived { origin, head, .. } = arrived;
    Head {
        peer: origin.peer,
        session: origin.session,
        source: base.source,
        destination: base.destination,
        cost: origin.cost,
        tag: head.match_bits(),
        immediate: head.immediate(),
    }
}

impl Inbox {
    #[inline(always)]
    fn take_in(&mut self, arrived: &Arrived<'_>) -> Verdict {
        let &Arrived {
            origin,
            head: of,
            payload,
            ..
        } = arrived;
        let base = of.base();
        let flags = of.flags();
        if let Some(placement) = of.placement() {
            return self.regions.deliver(origin.peer, placement, base.message.0, payload);
        }
        // The short way: whole messages that are next in order, of a peer from which nothing waits.
        if let Some(inbound) = self.peers.get(origin.peer.index())
            && inbound.is_next(&origin, base.source, base.message)
            && base.destination == self.processor
            && !flags.contains(Flags::FRAGMENT)
        {
            if flags.contains(Flags::BUNDLE) && arrived.open.is_none() {
                return self.take_bundle(arrived, &base);
            }
            let records = match self.count(arrived, flags) {
                Ok(records) => records,
                Err(verdict) => return verdict,
            };
            self.peers[origin.peer.index()].next = base.message.plus(records.unwrap_or(1) as u32);
            let head = head(arrived, &base);
            match records {
                None => self.push_whole(&head, payload),
                records => self.ready.push(&head, records, payload, &mut self.pool),
            }
            return Verdict::Taken;
        }
        if flags.contains(Flags::FRAGMENT) && self.deliver_next(arrived, &base, flags) {
            return Verdict::Taken;
        }
        if flags.contains(Flags::BUNDLE) && arrived.open.is_none() {
            return self.deliver_copy(arrived, &base);
        }
        self.deliver_slowly(arrived, &base)
    }

    /// Takes a bundle that cannot be looked at where it lies: it is copied to where it stays, and looked at there.
    #[inline]
    fn take_bundle(&mut self, arrived: &Arrived<'_>, base: &Base) -> Verdict {
        let most = usize::try_from(self.max_message).unwrap_or(usize::MAX);
        let head = head(arrived, base);
        let pushed = self.ready.push_bundle(&head, arrived.payload, most, &mut self.pool);
        let Some(records) = pushed else {
            return Verdict::Impossible;
        };
        self.peers[head.peer.index()].next = base.message.plus(records as u32);
        Verdict::Taken
    }

    /// The same where it has to wait.
    #[cold]
    fn deliver_copy(&mut self, arrived: &Arrived<'_>, base: &Base) -> Verdict {
        let copy = arrived.payload.to_vec();
        if Records::count(&copy, usize::MAX).is_none() {
            return Verdict::Impossible;
        }
        let copied = Arrived {
            payload: Span::new(&copy),
            open: Some(&copy),
            ..*arrived
        };
        self.deliver_slowly(&copied, base)
    }
}

impl Sink for Inbox {
    fn leave_datagram(&mut self) {
        self.lends = false;
    }

    #[inline]
    fn takes_apart(&self) -> bool {
        true
    }

    #[inline(always)]
    fn deliver_plain(&mut self, origin: &Origin, message: &Plain<'_>) -> bool {
        let Some(inbound) = self.peers.get_mut(origin.peer.index()) else {
            return false;
        };
        if !inbound.is_next(origin, message.source, message.message)
            || message.destination != self.processor
            || message.payload.len() as u64 > self.max_message
        {
            return false;
        }
        inbound.next = message.message.plus(1);
        let head = Head {
            peer: origin.peer,
            session: origin.session,
            source: message.source,
            destination: message.destination,
            cost: origin.cost,
            tag: message.match_bits,
            immediate: None,
        };
        self.push_whole(&head, Span::new(message.payload));
        true
    }

    #[inline]
    fn deliver(&mut self, origin: Origin, packet: Packet<&[u8]>) -> Verdict {
        let payload = packet.into_payload();
        self.take_in(&Arrived {
            origin,
            head: packet.head(),
            payload: Span::new(payload),
            open: Some(payload),
        })
    }

    #[inline]
    fn deliver_apart(&mut self, origin: Origin, head: PacketHead<'_>, payload: Span<'_>) -> Verdict {
        self.take_in(&Arrived {
            origin,
            head,
            payload,
            open: None,
        })
    }
}

#[cfg(test)]
impl Inbox {
    /// Where the memory comes from.
    pub(super) fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Things that wait.
    pub(super) fn waits_len(&self) -> usize {
        self.waits.len()
    }

    /// Messages that may be promoted once those before them are taken.
    pub(super) fn candidates_len(&self) -> usize {
        self.candidates.len()
    }

    /// Bytes of payload and buffers in use.
    pub(super) fn memory(&self) -> u64 {
        let waits = self.waits.iter().map(|wait| match wait {
            Wait::Packet { buffer, .. } => buffer.len() as u64,
            Wait::Parts(assembly) => assembly.memory(),
        });
        waits.sum::<u64>() + self.ready.memory()
    }

    /// Makes `next` the next number of the usual pair.
    pub(super) fn set_next(&mut self, peer: PeerId, next: Seq) {
        self.peers[peer.index()].next = next;
    }
}
