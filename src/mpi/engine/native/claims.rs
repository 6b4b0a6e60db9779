//! Messages that a matched probe has taken out of a ring, and that their caller knows by numbers until it receives them.

use std::{boxed::Box, mem, vec::Vec};

use super::super::{
    core::numbered::{MOST, number, place_of},
    status::Status,
};

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Claims {
    slots: Vec<Claim>,
    /// The places of those that hold no message.
    free: Vec<u32>,
    /// Memory of a message that was received, for the next one.
    spare: Vec<u8>,
}

struct Claim {
    generation: u32,
    /// Kept for the caller; 0: there is no message.
    word: u32,
    status: Status,
    /// The message is at the beginning.
    bytes: Vec<u8>,
}

impl Claim {
    fn message(&self) -> &[u8] {
        &self.bytes[..self.status.len as usize]
    }
}

impl Claims {
    /// Memory for a message; [`put`](Self::put) takes it with one, [`give_back`](Self::give_back) without.
    #[inline]
    pub(super) fn memory(&mut self) -> Vec<u8> {
        mem::take(&mut self.spare)
    }

    #[inline]
    pub(super) fn give_back(&mut self, memory: Vec<u8>) {
        if memory.len() > self.spare.len() {
            self.spare = memory;
        }
    }

    /// Whether another message gets a number.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.slots.len() < MOST || !self.free.is_empty()
    }

    /// Keeps a message, of which `bytes` has as many as its status says. Gives its number.
    #[inline]
    pub(super) fn put(&mut self, word: u32, status: Status, bytes: Vec<u8>) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Claim {
                generation: 0,
                word: 0,
                status: Status::EMPTY,
                bytes: Vec::new(),
            });
            self.slots.len() as u32 - 1
        });
        let claim = &mut self.slots[place as usize];
        (claim.word, claim.status, claim.bytes) = (word, status, bytes);
        number(place, claim.generation)
    }

    #[inline]
    fn find(&self, named: u32) -> Option<&Claim> {
        let place = place_of(named);
        let claim = self.slots.get(place)?;
        let is_it = claim.word != 0 && number(place as u32, claim.generation) == named;
        is_it.then_some(claim)
    }

    /// The word kept with a message.
    pub(super) fn word_of(&self, number: u32) -> Option<u32> {
        self.find(number).map(|claim| claim.word)
    }

    /// Receives the message of this number into `room`, if it fits; it has no number then.
    #[inline]
    pub(super) fn receive(&mut self, number: u32, room: &mut [u8]) -> Option<Status> {
        let claim = self.find(number)?;
        let status = claim.status;
        room.get_mut(..status.len as usize)?.copy_from_slice(claim.message());
        let bytes = self.forget(number);
        self.give_back(bytes);
        Some(status)
    }

    /// The message of this number, which it has no more.
    pub(super) fn adopt(&mut self, number: u32) -> Option<(Status, Box<[u8]>)> {
        let status = self.find(number)?.status;
        let mut bytes = self.forget(number);
        bytes.truncate(status.len as usize);
        Some((status, bytes.into_boxed_slice()))
    }

    fn forget(&mut self, number: u32) -> Vec<u8> {
        let place = place_of(number);
        let claim = &mut self.slots[place];
        claim.word = 0;
        claim.generation = claim.generation.wrapping_add(1);
        self.free.push(place as u32);
        mem::take(&mut claim.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(claims: &mut Claims, message: &[u8]) -> u32 {
        let mut bytes = claims.memory();
        bytes.resize(bytes.len().max(message.len()), 0);
        bytes[..message.len()].copy_from_slice(message);
        let status = Status {
            len: message.len() as u64,
            ..Status::EMPTY
        };
        claims.put(5, status, bytes)
    }

    #[test]
    fn a_message_is_received_once_and_where_it_fits() {
        let mut claims = Claims::default();
        let (first, second) = (put(&mut claims, b"longer"), put(&mut claims, b"two"));
        assert_eq!((claims.word_of(first), claims.word_of(second)), (Some(5), Some(5)));
        let mut room = [0; 4];
        assert!(claims.receive(first, &mut room).is_none());
        assert_eq!(claims.receive(second, &mut room).map(|status| status.len), Some(3));
        assert_eq!(&room, b"two\0");
        assert!(claims.receive(second, &mut room).is_none() && claims.word_of(second).is_none());
        let (status, bytes) = claims.adopt(first).expect("it is there still");
        assert_eq!((status.len, &*bytes), (6, &b"longer"[..]));
        assert!(claims.adopt(first).is_none());
    }

    #[test]
    fn a_number_is_of_no_later_message() {
        let mut claims = Claims::default();
        let first = put(&mut claims, b"long one");
        assert!(claims.receive(first, &mut [0; 8]).is_some());
        let second = put(&mut claims, b"2");
        assert_ne!(first, second);
        let mut room = [0; 8];
        assert!(claims.receive(first, &mut room).is_none());
        assert_eq!(claims.receive(second, &mut room).map(|status| status.len), Some(1));
        assert_eq!(room, *b"2\0\0\0\0\0\0\0");
    }
}
