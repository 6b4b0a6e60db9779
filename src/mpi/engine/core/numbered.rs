//! Receives that their callers know by a number alone.
//!
//! What a [`Request`](crate::mpi::engine::Request) would hold is kept in the slot, so that beginning and ending many of
//! them touches nothing else.

use super::{Core, RequestId, State, in_turn::Known};
use crate::{
    messaging::tagged::{Envelope, Selector},
    mpi::engine::buffer::PlainRun,
};

/// Bits of the place; those above are the lowest ones of the generation.
const PLACE_BITS: u32 = 22;
/// The highest bit of the place: it is always set.
pub(crate) const MARK: u32 = 1 << (PLACE_BITS - 1);
/// Bits of a number.
const NUMBER: u32 = (1 << 30) - 1;
/// Receives get numbers as long as there are fewer slots.
pub(crate) const MOST: usize = 1 << 20;

/// The number of a place that is low enough, in a generation.
#[inline(always)]
pub(crate) fn number(place: u32, generation: u32) -> u32 {
    (generation << PLACE_BITS | MARK | place) & NUMBER
}

/// The place in a number.
#[inline(always)]
pub(crate) fn place_of(number: u32) -> usize {
    (number & (MARK - 1)) as usize
}

#[inline(always)]
fn number_of(id: RequestId) -> u32 {
    number(id.0 as u32, (id.0 >> 32) as u32)
}

impl Known<'_> {
    /// The receive of this number that is not forgotten, and the word kept with it.
    #[inline(always)]
    pub(crate) fn numbered(self, number: u32) -> Option<(RequestId, u64)> {
        if let Some(parked) = self.parked
            && number_of(parked.id) == number
        {
            return (parked.word != 0).then_some((parked.id, parked.word));
        }
        let place = place_of(number);
        let slot = self.slots.get(place)?;
        let id = RequestId(u64::from(slot.generation) << 32 | place as u64);
        let is_it = slot.word != 0 && !matches!(slot.state, State::Free) && number_of(id) == number;
        is_it.then_some((id, slot.word))
    }
}

impl Core {
    /// Posts a receive as [`post`](Self::post), known by its number, with which `word` is kept, which is not 0.
    #[inline(always)]
    pub(crate) fn post_numbered(&mut self, selector: Selector, room: PlainRun, calm: bool, word: u64) -> Option<u32> {
        if self.slots.len() >= MOST {
            return None;
        }
        self.post(selector, room, calm, word).map(number_of)
    }

    /// See [`Known::numbered`].
    #[inline(always)]
    pub(crate) fn numbered(&self, number: u32) -> Option<(RequestId, u64)> {
        self.known().numbered(number)
    }

    /// From now on its caller knows the receive, which is not parked, by its id; that comes with the size of its buffer.
    pub(crate) fn adopt(&mut self, number: u32) -> Option<(RequestId, u64)> {
        let (id, _) = self.numbered(number)?;
        let slot = self.slot(id)?;
        slot.word = 0;
        Some((id, slot.room))
    }

    /// What was received, if the request has ended well; it is forgotten then.
    pub(crate) fn take_well(&mut self, id: RequestId) -> Option<Envelope> {
        match &self.slot(id)?.state {
            State::Ended(ended) if ended.is_well() => self.take(id).map(|ended| ended.envelope),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_by_place_and_generation() {
        let number = |generation: u64, place: u64| number_of(RequestId(generation << 32 | place));
        assert_ne!(number(1, 5), number(1, 6));
        assert_ne!(number(1, 5), number(2, 5));
        assert_eq!(number(1, 5), number(257, 5));
        for generation in [0, 255, 256, u64::from(u32::MAX)] {
            for place in [0, MOST as u64] {
                assert_eq!(number(generation, place) & !NUMBER, 0);
                assert_eq!(number(generation, place) & (2 * MARK - 1), MARK | place as u32);
            }
        }
    }
}
