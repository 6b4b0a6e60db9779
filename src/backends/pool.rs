//! Reusable receive buffers: allocated when first needed, lent out as [`Bytes`], reused when they come back.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// A free list of buffers of one size, shared with the loans.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Most buffers kept for reuse; more are given to the allocator.
    keep: usize,
    free: Mutex<Vec<Box<[u8]>>>,
}

impl Shared {
    fn give_back(&self, buffer: Box<[u8]>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.keep {
            free.push(buffer);
        }
    }
}

/// The owner inside a [`Bytes`] made by [`Pool::lend`].
struct Loan {
    /// Always there until drop.
    buffer: Option<Box<[u8]>>,
    len: usize,
    home: Arc<Shared>,
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer[..self.len])
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.home.give_back(buffer);
        }
    }
}

impl Pool {
    /// Keeps at most `keep` unused buffers.
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                keep,
                free: Mutex::new(Vec::new()),
            }),
        }
    }

    /// A buffer of `size` bytes, the same size at each call, with arbitrary content.
    #[cfg(any(test, all(feature = "udp", target_os = "linux")))]
    pub(crate) fn get(&self, size: usize) -> Box<[u8]> {
        let reused = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // Zeroed pages come from the kernel as they are touched, so large buffers cost nothing in advance.
        reused.unwrap_or_else(|| vec![0; size].into_boxed_slice())
    }

    /// The first `len` bytes of `buffer`; it comes back when the last handle is dropped.
    pub(crate) fn lend(&self, buffer: Box<[u8]>, len: usize) -> Bytes {
        debug_assert!(len <= buffer.len());
        Bytes::from_owner(Loan {
            buffer: Some(buffer),
            len,
            home: Arc::clone(&self.shared),
        })
    }

    /// Takes out all buffers that have returned.
    #[cfg(feature = "loopback")]
    pub(crate) fn collect(&self, mut each: impl FnMut(Box<[u8]>)) {
        self.shared
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
            .for_each(&mut each);
    }

    /// Number of unused buffers at present.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.shared.free.lock().unwrap().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loan_comes_back_from_another_thread() {
        let pool = Pool::new(1);
        let mut buffer = pool.get(16);
        buffer[..3].copy_from_slice(b"abc");
        let address = buffer.as_ptr();
        let bytes = pool.lend(buffer, 3);
        let part = bytes.slice(1..);
        drop(bytes);
        assert_eq!(pool.free(), 0);
        std::thread::spawn(move || assert_eq!(&part[..], b"bc")).join().unwrap();
        assert_eq!(pool.free(), 1);
        let again = pool.get(16);
        assert_eq!(again.as_ptr(), address);
    }

    #[test]
    fn no_more_than_agreed_are_kept() {
        let pool = Pool::new(1);
        let (a, b) = (pool.get(16), pool.get(16));
        drop((pool.lend(a, 0), pool.lend(b, 16)));
        assert_eq!(pool.free(), 1);
    }
}
