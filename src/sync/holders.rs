//! A lock in one word of memory that processes have in common: which of them hold it, and whether others wait for it.
//!
//! Each process has a *place*, which is a bit of the word. It takes the lock by setting its bit, if the word allows that,
//! and gives it back by clearing the bit. One process is the *owner* of the word: whoever finds the lock held asks the
//! owner, which keeps the queue, and hands the lock to the next one by setting the bit of that one's place.
//!
//! All is in one word because then two things need no more thought:
//!
//! - **Ends.** The instruction that takes the lock also says for whom, and the one that gives it back says that nobody has
//!   it. So at whatever instruction a process is killed, either it holds the lock, and its bit says so, or it does not. The
//!   owner [withdraws](Holders::withdraw) the lock from the lost.
//! - **Waiting.** The changes of one word have one order, which all see alike. The owner marks the word (`WAITS`) by the
//!   same instruction by which it finds the lock held ([`grant`](Holders::grant)). A holder that gives the lock back either
//!   does that before: then the owner finds it free. Or it comes later, finds the mark, and changes nothing: it has to tell
//!   the owner ([`Given::Untold`]), which withdraws the lock and looks again. So no one waits for a lock that is free. While
//!   the mark is there nobody takes the lock, so that whoever came first has it first.
//!
//! What a holder wrote before it gave the lock back is seen by the next ones: each change acquires and releases, also
//! those that the owner makes on behalf of others, which come and go by messages.
//!
//! Another process may write anything to the word. It is read once for each change, and any value means something: at
//! worst, the lock is held by all that have places, and by nobody.

use super::primitives::atomic::{AtomicU64, Ordering};

/// The number of places.
pub(crate) const PLACES: u32 = 61;
/// The place of all others together: the owner sets it while it knows one that holds the lock.
pub(crate) const REST: u32 = PLACES;
/// Bits of places.
const HOLDERS: u64 = (1 << (PLACES + 1)) - 1;
/// The one that holds it holds it alone.
const EXCLUSIVE: u64 = 1 << 62;
/// Others wait: nobody takes the lock but through the owner.
const WAITS: u64 = 1 << 63;

/// What has become of a lock that was to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// It is given back.
    Back,
    /// It is still held: the owner must be told, since others wait for it.
    Untold,
    /// It was not held: it has been withdrawn, or the word has been damaged.
    NotHeld,
}

/// The bit of a place.
const fn bit(place: u32) -> u64 {
    1 << place
}

/// A set of places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(u64);

impl Places {
    /// The first ones, as many as this.
    pub(crate) fn first(count: u32) -> Self {
        Self(bit(count.min(PLACES)) - 1)
    }

    pub(crate) fn has(self, place: u32) -> bool {
        self.0 & bit(place) != 0
    }

    #[must_use]
    pub(crate) fn without(self, place: u32) -> Self {
        Self(self.0 & !bit(place))
    }

    #[must_use]
    pub(crate) fn with(self, place: u32) -> Self {
        Self(self.0 | bit(place))
    }
}

/// A lock, see the module's documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holders<'a>(pub(crate) &'a AtomicU64);

/// What a process with a place does by itself.
impl Holders<'_> {
    /// Takes the lock, alone or with others. False: the owner must be asked.
    pub(crate) fn take(self, place: u32, exclusive: bool) -> bool {
        let taken = |word| {
            // (A bit that is set already is that of a lock that the owner has not been told of yet.)
            let is_free = word & (WAITS | bit(place)) == 0 && allows(word, exclusive);
            is_free.then(|| with(word, place, exclusive))
        };
        self.change(taken).is_ok()
    }

    /// Gives the lock back, if nobody waits for it.
    pub(crate) fn give(self, place: u32) -> Given {
        let given = |word| (word & bit(place) != 0 && word & WAITS == 0).then(|| without(word, place));
        match self.change(given) {
            Ok(_) => Given::Back,
            Err(word) if word & bit(place) != 0 => Given::Untold,
            Err(_) => Given::NotHeld,
        }
    }
}

/// What the owner does.
impl Holders<'_> {
    /// Takes the lock in the name of the one that waits first. False: it is held, by one of those that are `known`, and
    /// those that hold it will tell when they give it back. Bits of other places are cleared.
    pub(crate) fn grant(self, place: u32, exclusive: bool, known: Places) -> bool {
        let mut is_free = false;
        // (Nothing refuses this change.)
        let _ = self.change(|word| {
            let held = word & known.0;
            let word = if held == 0 { 0 } else { held | word & EXCLUSIVE };
            is_free = allows(word, exclusive);
            Some(WAITS | if is_free { with(word, place, exclusive) } else { word })
        });
        is_free
    }

    /// Nobody waits any more.
    pub(crate) fn calm(self) {
        if self.0.load(Ordering::Relaxed) & WAITS != 0 {
            self.0.fetch_and(!WAITS, Ordering::AcqRel);
        }
    }

    /// Ends that a place holds the lock. Returns whether it did.
    pub(crate) fn withdraw(self, place: u32) -> bool {
        let withdrawn = |word| (word & bit(place) != 0).then(|| without(word, place));
        self.change(withdrawn).is_ok()
    }

    /// The places that hold the lock now.
    pub(crate) fn now(self) -> Places {
        Places(self.0.load(Ordering::Relaxed) & HOLDERS)
    }
}

impl Holders<'_> {
    /// Changes the word to what `new_of` makes of it. `Err`: it makes nothing of this.
    fn change(self, mut new_of: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let new = new_of(word).ok_or(word)?;
            match self
                .0
                .compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(old) => return Ok(old),
                Err(now) => word = now,
            }
        }
    }
}

/// The lock may be taken by one more.
fn allows(word: u64, exclusive: bool) -> bool {
    word & HOLDERS == 0 || !exclusive && word & EXCLUSIVE == 0
}

fn with(word: u64, place: u32, exclusive: bool) -> u64 {
    // (Who holds it alone is the only one, so the mark of one that is not there any more means nothing.)
    let word = if word & HOLDERS == 0 { word & !EXCLUSIVE } else { word };
    word | bit(place) | if exclusive { EXCLUSIVE } else { 0 }
}

fn without(word: u64, place: u32) -> u64 {
    let word = word & !bit(place);
    if word & HOLDERS == 0 { word & !EXCLUSIVE } else { word }
}
