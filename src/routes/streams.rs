//! How much memory messages of this process may take on their way: a direction with a stream of short ones has a large
//! ring, and there are not many of those; and no ring is larger than the processor's caches allow.

use std::{
    fs,
    path::Path,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
};

use super::claim::Claim;
use crate::{ring::Owner, shm::Segment};

/// Large rings of a host, of up to 2 MB each: its processes have equal shares, of one at least.
const OF_A_HOST: u32 = 64;

/// The part of the last cache that a ring may take. A large message goes from cache to cache if the last one, which cores
/// share, holds the rings of both directions beside what is sent and received. If not, all of it goes through memory, and
/// takes twice as long (1 MB, with rings of 2 MB and a cache of 8).
const OF_THE_CACHE: usize = 8;
/// Where Linux describes the caches of the first core.
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

/// What the rings of a process have been lent. It is asked by one thread at a time.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Bytes of the last cache. `None`: nobody knows.
    cache: Option<usize>,
    /// Rings by which this process sends.
    rings: AtomicU32,
    /// Those with more memory than they begin with.
    grown: AtomicU32,
    /// Those with the memory for a stream.
    streams: AtomicU32,
}

impl Streams {
    /// Nothing is lent yet, on this host.
    pub(super) fn of_this_host() -> Self {
        Self::with_cache(last_cache(Path::new(CACHES)))
    }

    /// The same with a last cache of so many bytes.
    pub(super) fn with_cache(cache: Option<usize>) -> Self {
        Self {
            cache,
            ..Self::default()
        }
    }

    /// Most bytes of a ring.
    pub(super) fn largest_ring(&self) -> usize {
        self.cache.map_or(usize::MAX, |cache| cache / OF_THE_CACHE)
    }

    /// Returns whether a ring has more memory than it began with.
    pub(super) fn have_grown(&self) -> bool {
        self.grown.load(Relaxed) > 0
    }

    /// Returns whether one more ring may have the memory for a stream.
    fn have_room(&self) -> bool {
        let processes = self.rings.load(Relaxed) + 1;
        self.streams.load(Relaxed) < (OF_A_HOST / processes).max(1)
    }
}

/// The owner of the memory in which a ring lies by which this process sends.
#[derive(Debug)]
pub(super) struct Lender {
    memory: Arc<Segment>,
    claim: Arc<Claim>,
    all: Arc<Streams>,
    has_grown: AtomicBool,
    is_stream: AtomicBool,
}

impl Lender {
    pub(super) fn new(memory: &Arc<Segment>, claim: &Arc<Claim>, all: &Arc<Streams>) -> Self {
        all.rings.fetch_add(1, Relaxed);
        Self {
            memory: Arc::clone(memory),
            claim: Arc::clone(claim),
            all: Arc::clone(all),
            has_grown: AtomicBool::new(false),
            is_stream: AtomicBool::new(false),
        }
    }

    fn offset(&self, at: NonNull<u8>) -> usize {
        at.as_ptr() as usize - self.memory.base() as usize
    }

    fn end_loan(&self) {
        if self.has_grown.swap(false, Relaxed) {
            self.all.grown.fetch_sub(1, Relaxed);
        }
        if self.is_stream.swap(false, Relaxed) {
            self.all.streams.fetch_sub(1, Relaxed);
        }
    }
}

impl Owner for Lender {
    fn is_read(&self) -> bool {
        self.claim.is_mutual()
    }

    fn lend(&self, is_for_stream: bool) -> bool {
        if is_for_stream && !self.all.have_room() {
            return false;
        }
        if !self.has_grown.swap(true, Relaxed) {
            self.all.grown.fetch_add(1, Relaxed);
        }
        if is_for_stream && !self.is_stream.swap(true, Relaxed) {
            self.all.streams.fetch_add(1, Relaxed);
        }
        true
    }

    fn prepare(&self, at: NonNull<u8>, len: usize) {
        self.memory.populate(self.offset(at), len);
    }

    fn take_back(&self, at: NonNull<u8>, len: usize) {
        self.end_loan();
        self.memory.give_back(self.offset(at), len);
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.end_loan();
        self.all.rings.fetch_sub(1, Relaxed);
    }
}

/// Bytes of the last one of the caches that this folder describes.
fn last_cache(folder: &Path) -> Option<usize> {
    let size = |index: usize| {
        let text = fs::read_to_string(folder.join(format!("index{index}/size"))).ok()?;
        let kilobytes: usize = text.trim().strip_suffix('K')?.parse().ok()?;
        kilobytes.checked_mul(1 << 10)
    };
    (0..).map_while(size).last()
}

/// That of a ring by which this process receives.
impl Owner for Arc<Segment> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux describes them; and nothing that it does not.
    #[test]
    fn the_last_cache_is_the_one_of_the_highest_index() {
        let folder = std::env::temp_dir().join(format!("hikyaku-caches-{}", std::process::id()));
        assert_eq!(last_cache(&folder), None);
        for (index, size) in ["32K\n", "64K\n", "512K\n", "8192K\n"].iter().enumerate() {
            let cache = folder.join(format!("index{index}"));
            fs::create_dir_all(&cache).unwrap();
            fs::write(cache.join("size"), size).unwrap();
        }
        assert_eq!(last_cache(&folder), Some(8 << 20));
        fs::write(folder.join("index3/size"), "many\n").unwrap();
        assert_eq!(last_cache(&folder), Some(512 << 10));
        fs::remove_dir_all(&folder).unwrap();
    }
}
