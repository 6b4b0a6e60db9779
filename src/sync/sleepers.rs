//! Threads that sleep on one descriptor, which stays readable until it is read: a thread that reads it must not take
//! the wake-up away from other threads that were called, too.
//!
//! The methods are called under the lock of the state that the threads wait for; the descriptor is written and waited
//! for without the lock. A call is for all threads that sleep at that moment, and the last of them to wake up reads the
//! descriptor. A thread that goes to sleep before that wakes up for nothing, and sleeps again.

/// The threads that sleep.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    asleep: usize,
    /// How many of those have been called and are not awake yet.
    called: usize,
    calls: u64,
}

/// Held by a thread that sleeps.
#[derive(Debug)]
#[must_use]
pub(crate) struct Ticket {
    calls: u64,
}

impl Sleepers {
    /// The caller sleeps as soon as it has released the lock.
    pub(crate) fn enter(&mut self) -> Ticket {
        self.asleep += 1;
        Ticket { calls: self.calls }
    }

    /// Whether any thread sleeps.
    pub(crate) fn any(&self) -> bool {
        self.asleep > 0
    }

    /// Something has happened for which any of them may wait. Gives whether the caller must write to the descriptor
    /// after it has released the lock.
    #[inline]
    pub(crate) fn call(&mut self) -> bool {
        if self.asleep == 0 {
            return false;
        }
        self.called = self.asleep;
        self.calls += 1;
        true
    }

    /// The caller is awake, and has the lock again. Gives whether it must read the descriptor, under the lock.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> bool {
        self.asleep -= 1;
        if ticket.calls < self.calls {
            self.called -= 1;
        }
        self.called == 0
    }
}
