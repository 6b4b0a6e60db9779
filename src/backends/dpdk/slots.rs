//! Received datagrams, which stay until the next call that receives.

use std::{
    array, mem,
    net::{Ipv4Addr, SocketAddr},
    ops::{Index, IndexMut},
};

use super::sys::{BURST, Payload, Returning};

/// A received datagram.
pub(super) struct Slot {
    /// `None` once it has been taken.
    payload: Option<Payload>,
    pub(super) source: SocketAddr,
}

impl Slot {
    #[inline]
    pub(super) fn new(payload: Payload, source: SocketAddr) -> Self {
        Self {
            payload: Some(payload),
            source,
        }
    }

    fn empty() -> Self {
        Self {
            payload: None,
            source: (Ipv4Addr::UNSPECIFIED, 0).into(),
        }
    }

    /// # Panics
    /// If it has been taken.
    #[inline]
    pub(super) fn payload(&mut self) -> &mut Payload {
        self.payload.as_mut().expect("the buffer has been taken")
    }

    /// Takes the payload.
    ///
    /// # Panics
    /// If it has been taken already.
    #[inline]
    pub(super) fn take(&mut self) -> Payload {
        self.payload.take().expect("the buffer has been taken")
    }
}

/// Up to [`BURST`] received datagrams. An unused slot looks as if its datagram had been taken.
pub(super) struct Slots {
    all: [Slot; BURST],
    len: usize,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self {
            all: array::from_fn(|_| Slot::empty()),
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a datagram.
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    pub(super) fn push(&mut self, slot: Slot) {
        // The old slot is empty, so nothing needs to be dropped.
        mem::forget(mem::replace(&mut self.all[self.len], slot));
        self.len += 1;
    }

    /// Sets the only datagram. There must be none yet.
    #[inline]
    pub(super) fn set(&mut self, slot: Slot) {
        debug_assert!(self.is_empty());
        mem::forget(mem::replace(&mut self.all[0], slot));
        self.len = 1;
    }

    /// Gives back the buffers that have not been taken.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.len > 1 {
            self.return_all();
        } else {
            self.all[0].payload = None;
        }
        self.len = 0;
    }

    #[inline(never)]
    fn return_all(&mut self) {
        let mut returning = Returning::new();
        for slot in &mut self.all[..self.len] {
            slot.payload
                .take()
                .into_iter()
                .for_each(|payload| returning.push(payload));
        }
    }
}

impl Index<usize> for Slots {
    type Output = Slot;

    #[inline]
    fn index(&self, index: usize) -> &Slot {
        &self.all[index]
    }
}

impl IndexMut<usize> for Slots {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Slot {
        &mut self.all[index]
    }
}
