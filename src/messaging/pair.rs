//! Order of the messages of each ordered pair of processors: the next number to send, the next number to admit.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use crate::{
    prefetch::Locate,
    reliability::{Arriving, Origin, PeerId},
    wire::Seq,
};

/// An ordered pair of processors: source, destination.
pub(super) type Pair = (u32, u32);

/// Most pairs of processors that the messages of one peer may use in one session, in each direction: a receiver
/// remembers a number for each of them.
pub(super) const MAX_PAIRS: usize = 4_096;

/// No processor has this number.
pub(super) const NOBODY: u32 = crate::wire::ANY_PROCESSOR;

/// Grows `peers` to hold `index`, by an eighth at least: idle peers are many, and doubling would waste as many again.
pub(super) fn reach<T: Clone>(peers: &mut Vec<T>, index: usize, empty: T) {
    if index >= peers.len() {
        let len = index + 1;
        if len > peers.capacity() {
            peers.reserve_exact((len - peers.len()).max(peers.len() / 8).max(16));
        }
        peers.resize(len, empty);
    }
}

/// Numbers of the messages that go out.
#[derive(Default)]
pub(super) struct Numbers {
    /// Of the usual pair of each peer: our first processor and the peer's.
    usual: Vec<Next>,
    others: BTreeMap<PeerId, Others>,
}

/// Numbers of a peer's other pairs in one session.
#[derive(Default)]
struct Others {
    session: u32,
    next: BTreeMap<Pair, Seq>,
}

#[derive(Clone, Copy, Default)]
struct Next {
    session: u32,
    number: Seq,
}

impl Locate<PeerId> for Numbers {
    #[inline]
    fn locate(&self, peer: PeerId, mut tell: impl FnMut(*const u8, usize)) {
        if let Some(next) = self.usual.get(peer.index()) {
            tell((&raw const *next).cast(), size_of::<Next>());
        }
    }
}

impl Numbers {
    /// Number of the next message of a pair; the caller uses it up by setting its successor. `None`: the pair would be
    /// one too many for the receiver.
    #[inline(always)]
    pub(super) fn next(&mut self, peer: PeerId, session: u32, other: Option<Pair>) -> Option<&mut Seq> {
        if let Some(pair) = other {
            return self.next_of_other(peer, session, pair);
        }
        if peer.index() >= self.usual.len() {
            reach(&mut self.usual, peer.index(), Next::default());
        }
        let next = &mut self.usual[peer.index()];
        if next.session != session {
            *next = Next {
                session,
                number: Seq(0),
            };
        }
        Some(&mut next.number)
    }

    /// The session with a peer, as far as messages of its usual pair were sent in it, and the number of the next one; the
    /// caller uses it up by setting its successor.
    #[inline(always)]
    pub(super) fn usual(&mut self, peer: PeerId) -> Option<(u32, &mut Seq)> {
        let next = self.usual.get_mut(peer.index())?;
        Some((next.session, &mut next.number))
    }

    fn next_of_other(&mut self, peer: PeerId, session: u32, pair: Pair) -> Option<&mut Seq> {
        let others = self.others.entry(peer).or_default();
        if others.session != session {
            *others = Others {
                session,
                next: BTreeMap::new(),
            };
        }
        // The usual pair is one of them too.
        if others.next.len() >= MAX_PAIRS - 1 && !others.next.contains_key(&pair) {
            return None;
        }
        Some(others.next.entry(pair).or_default())
    }
}

/// A message that may become the oldest of its pair without anything arriving for it.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) after: u64,
    pub(super) peer: PeerId,
    pub(super) session: u32,
    pub(super) pair: Pair,
    pub(super) number: Seq,
}

/// The message that the last fragment was of, if more of it is to come.
#[derive(Clone, Copy)]
pub(super) struct Current {
    /// Its peer, session, pair and number.
    pub(super) of: (PeerId, u32, Pair, Seq),
    /// Where it waits.
    pub(super) index: u32,
}

/// No [`Busy`].
pub(super) const IDLE: u32 = u32::MAX;

/// The state of every peer that has sent something.
#[derive(Clone, Copy)]
pub(super) struct Inbound {
    /// The session that the rest belongs to; 0: none yet.
    pub(super) session: u32,
    /// Source of its usual pair: the first one that sent to our first processor. [`NOBODY`]: none yet.
    pub(super) source: u32,
    /// Number of the next message of the usual pair to admit.
    pub(super) next: Seq,
    /// Index of its [`Busy`], or [`IDLE`].
    pub(super) busy: u32,
}

impl Inbound {
    pub(super) const NEW: Self = Self {
        session: 0,
        source: NOBODY,
        next: Seq(0),
        busy: IDLE,
    };

    /// This is the next message of its usual pair if that has the right receiver, and nothing of the peer waits.
    #[inline(always)]
    pub(super) fn is_next(&self, origin: &Origin, source: u32, message: Seq) -> bool {
        self.busy == IDLE && self.session == origin.session && self.source == source && self.next == message
    }

    /// The number of the next message of the pair of a short message, if it is that one, and nothing of its peer waits.
    #[inline(always)]
    pub(super) fn next_of_short(&mut self, short: &Arriving<'_>) -> Option<&mut Seq> {
        let is_next = self.is_next_short((short.source, short.session), short.front.number);
        is_next.then_some(&mut self.next)
    }

    #[inline(always)]
    pub(super) fn is_next_short(&self, (source, session): (u32, u32), number: u32) -> bool {
        self.busy == IDLE && self.session == session && self.source == source && self.next == Seq(number)
    }
}

const _: () = assert!(size_of::<Inbound>() + size_of::<Next>() <= 24, "idle peers are many");

/// The state of a peer with waiting messages, or with several pairs of processors.
#[derive(Default)]
pub(super) struct Busy {
    /// Number of the next message to admit, of pairs other than the usual one.
    pub(super) pairs: BTreeMap<Pair, Seq>,
    /// The messages that cannot be admitted yet: indices into [`Waits`].
    pub(super) waiting: Waiting,
    /// Bytes of buffers that their packets' credit does not cover: messages that are not complete, and messages whose
    /// credit was returned before they were taken.
    pub(super) region: u64,
    /// Bytes of memory that messages have claimed before they have landed.
    pub(super) claimed: usize,
    /// Credit of messages of former sessions that have not been taken, and the bytes of those without credit.
    pub(super) stale: u64,
    /// Fragments that arrived before the ones they follow, and are tracked one by one.
    pub(super) scattered: usize,
    /// Large messages, each the first of its pair, which wait for `region` to become smaller.
    pub(super) starved: VecDeque<(Pair, Seq)>,
}

impl Busy {
    pub(super) fn is_idle(&self) -> bool {
        self.pairs.is_empty() && self.waiting.is_empty() && self.region == 0 && self.stale == 0
    }
}

/// The waiting messages, by pair and number. Mostly there is only one; the map is used for more.
#[derive(Default)]
pub(super) struct Waiting {
    one: Option<((Pair, u32), u32)>,
    more: BTreeMap<(Pair, u32), u32>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.one.is_none() && self.more.is_empty()
    }

    pub(super) fn get(&self, pair: Pair, number: Seq) -> Option<u32> {
        let key = (pair, number.0);
        match self.one {
            Some((one, index)) if one == key => Some(index),
            _ if self.more.is_empty() => None,
            _ => self.more.get(&key).copied(),
        }
    }

    pub(super) fn insert(&mut self, pair: Pair, number: Seq, index: u32) {
        let key = (pair, number.0);
        if self.one.is_none() {
            self.one = Some((key, index));
        } else {
            self.more.insert(key, index);
        }
    }

    /// The last message of a pair before `number` that waits: its index, and by how much it is before that.
    pub(super) fn before(&self, pair: Pair, number: Seq) -> Option<(u32, u32)> {
        let more = self.more.range(..(pair, number.0)).next_back();
        let all = self.one.into_iter().chain(more.map(|(key, index)| (*key, *index)));
        all.filter(|((of, at), _)| *of == pair && *at < number.0)
            .map(|((_, at), index)| (index, number.0 - at))
            .min_by_key(|(_, distance)| *distance)
    }

    pub(super) fn remove(&mut self, pair: Pair, number: Seq) {
        let key = (pair, number.0);
        match self.one {
            Some((one, _)) if one == key => self.one = None,
            _ => {
                self.more.remove(&key);
            }
        }
    }

    /// Takes out anything.
    pub(super) fn pop(&mut self) -> Option<u32> {
        match self.one.take() {
            Some((_, index)) => Some(index),
            None => self.more.pop_first().map(|(_, index)| index),
        }
    }
}

/// Values with numbers; numbers and memory are used again.
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(value);
            return index;
        }
        self.slots.push(Some(value));
        (self.slots.len() - 1) as u32
    }

    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(value)
    }
}

#[cfg(test)]
impl<T> Slab<T> {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_restart_with_the_session_and_pairs_are_apart() {
        let mut numbers = Numbers::default();
        let peer = PeerId(3);
        let mut draw = |session, other| {
            let next = numbers.next(peer, session, other).unwrap();
            let number = next.0;
            *next = next.plus(1);
            number
        };
        assert_eq!((draw(1, None), draw(1, None)), (0, 1));
        assert_eq!(
            (draw(1, Some((7, 8))), draw(1, Some((7, 9))), draw(1, Some((7, 8)))),
            (0, 0, 1)
        );
        assert_eq!((draw(2, None), draw(2, Some((7, 8)))), (0, 0));
        assert_eq!((draw(2, None), draw(2, Some((7, 8)))), (1, 1));
    }

    #[test]
    fn pairs_are_bounded_in_each_session() {
        let mut numbers = Numbers::default();
        let most = MAX_PAIRS as u32;
        for session in 1..3 {
            assert!(numbers.next(PeerId(0), session, None).is_some());
            for n in 0..2 * most {
                let allowed = numbers.next(PeerId(0), session, Some((1, n))).is_some();
                assert_eq!(allowed, n < most - 1, "{n}");
            }
            // Those that are known stay, and other peers are not affected.
            assert!(numbers.next(PeerId(0), session, Some((1, 7))).is_some());
            assert!(numbers.next(PeerId(1), session, Some((1, most))).is_some());
        }
    }

    #[test]
    fn idle_peers_are_small() {
        let mut peers = Vec::new();
        for index in 0..100_000 {
            reach(&mut peers, index, Inbound::NEW);
        }
        assert!(peers.capacity() <= 100_000 * 9 / 8 + 16);
    }
}
