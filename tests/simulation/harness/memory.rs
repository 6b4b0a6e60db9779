//! Memory sent by reference, watched: nothing leaks and nothing is freed early.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
};

use bytes::Bytes;

/// The record of one block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    freed: AtomicBool,
    held: AtomicU32,
    freed_early: AtomicBool,
}

impl Block {
    pub(crate) fn is_freed(&self) -> bool {
        self.freed.load(Relaxed)
    }

    pub(crate) fn hold(&self) {
        self.held.fetch_add(1, Relaxed);
    }

    pub(crate) fn let_go(&self) {
        self.held.fetch_sub(1, Relaxed);
    }

    /// Panics if it was freed while the backend held it.
    pub(crate) fn check(&self) {
        assert!(
            !self.freed_early.load(Relaxed),
            "memory was freed while the backend still referred to it"
        );
    }
}

struct Owner {
    bytes: Vec<u8>,
    block: Arc<Block>,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.block.freed.store(true, Relaxed);
        if self.block.held.load(Relaxed) > 0 {
            self.block.freed_early.store(true, Relaxed);
        }
    }
}

/// All blocks of one node.
#[derive(Default)]
pub(crate) struct Memory {
    by_address: BTreeMap<usize, (usize, Arc<Block>)>,
    all: Vec<Arc<Block>>,
}

impl Memory {
    /// Makes bytes that are watched.
    pub(crate) fn lend(&mut self, bytes: Vec<u8>) -> (Bytes, Arc<Block>) {
        let block = Arc::new(Block::default());
        if !bytes.is_empty() {
            let at = bytes.as_ptr() as usize;
            self.by_address.insert(at, (bytes.len(), Arc::clone(&block)));
        }
        self.all.push(Arc::clone(&block));
        let owner = Owner {
            bytes,
            block: Arc::clone(&block),
        };
        (Bytes::from_owner(owner), block)
    }

    /// The block in which `slice` lies.
    pub(crate) fn block_of(&self, slice: &[u8]) -> Option<&Arc<Block>> {
        let at = slice.as_ptr() as usize;
        let (&start, (len, block)) = self.by_address.range(..=at).next_back()?;
        (at + slice.len() <= start + len && !block.is_freed()).then_some(block)
    }

    /// Forgets what is freed, gives the number of blocks that are not, and checks all.
    pub(crate) fn outstanding(&mut self) -> usize {
        self.all.iter().for_each(|block| block.check());
        self.all.retain(|block| !block.is_freed());
        self.by_address.retain(|_, (_, block)| !block.is_freed());
        self.all.len()
    }
}
