//! For which session the rings of short messages of a memory are used.
//!
//! Each side writes that into a line of the memory when it takes its ends, and writes into its ring only once the other
//! side has said the same of itself. So rings stay unused, and messages go as packets, if the two sides do not mean the
//! same:
//!
//! - one of them may know a process that has ended at the address of the other, or a session that the other one has not
//!   heard of;
//! - one may know the other by a processor that is not its first one;
//! - each may have taken the rings of another memory, when both made one at the same moment.
//!
//! ```text
//! 0     the epoch of this side's process
//! 8     the epoch of the other side's process
//! 16    the processors, this side's above the other's
//! 24    the numbers of the session, this side's above the other's; 0: nobody has taken the rings
//! ```

use std::sync::{
    Arc, OnceLock,
    atomic::Ordering::{Acquire, Relaxed, Release},
};

use crate::{ring::Side, shm::Segment};

/// Bytes of a side.
pub(super) const LEN: usize = 64;
const EPOCHS: [usize; 2] = [0, 8];
const PROCESSORS: usize = 16;
const SESSIONS: usize = 24;

/// What both sides of a memory say of it.
#[derive(Debug)]
pub(super) struct Claim {
    memory: Arc<Segment>,
    /// Where the two sides write.
    own: usize,
    other: usize,
    /// This side, and the other one, once the rings were taken.
    sides: OnceLock<(Side, Side)>,
}

/// Two numbers of the sides, the first above the other.
fn both(own: u32, other: u32) -> u64 {
    u64::from(own) << 32 | u64::from(other)
}

impl Claim {
    pub(super) fn new(memory: Arc<Segment>, (own, other): (usize, usize)) -> Self {
        Self {
            memory,
            own,
            other,
            sides: OnceLock::new(),
        }
    }

    /// The rings are used for the session between these two from now on. (They are taken once.)
    pub(super) fn take(&self, own: Side, other: Side) {
        if self.sides.set((own, other)).is_ok() {
            let [this, that] = EPOCHS.map(|at| self.memory.atomic(self.own + at));
            this.store(own.epoch, Relaxed);
            that.store(other.epoch, Relaxed);
            let processors = both(own.processor, other.processor);
            self.memory.atomic(self.own + PROCESSORS).store(processors, Relaxed);
            self.memory
                .atomic(self.own + SESSIONS)
                .store(both(own.session, other.session), Release);
        }
    }

    /// Returns whether the other side has taken the rings for the same session.
    pub(super) fn is_mutual(&self) -> bool {
        let Some(&(own, other)) = self.sides.get() else {
            return false;
        };
        let said = |at: usize, order| self.memory.atomic(self.other + at).load(order);
        said(SESSIONS, Acquire) == both(other.session, own.session)
            && said(PROCESSORS, Relaxed) == both(other.processor, own.processor)
            && EPOCHS.map(|at| said(at, Relaxed)) == [other.epoch, own.epoch]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::Access;

    #[test]
    fn rings_are_used_once_both_mean_the_same_session() {
        let side = |processor, session, epoch| Side {
            processor,
            session,
            epoch,
        };
        let (a, b) = (side(0, 1, 7), side(1, 3, 9));
        let cases = [
            ((b, a), true),
            // A session that the other side ended before, a process that has ended, and one that takes this one for it.
            ((side(1, 2, 9), a), false),
            ((b, side(0, 2, 7)), false),
            ((side(1, 3, 8), a), false),
            ((b, side(0, 1, 6)), false),
            // A peer that was added by another of its processors.
            ((b, side(2, 1, 7)), false),
        ];
        for ((own, other), is_mutual) in cases {
            let (memory, _) = Segment::create("claims", 4_096, Access::Write).unwrap();
            let memory = Arc::new(memory);
            let [one, two] = [(0, LEN), (LEN, 0)].map(|places| Claim::new(Arc::clone(&memory), places));
            assert!(!one.is_mutual());
            two.take(own, other);
            assert!(!one.is_mutual() && !two.is_mutual());
            one.take(a, b);
            assert_eq!((one.is_mutual(), two.is_mutual()), (is_mutual, is_mutual));
        }
    }
}
