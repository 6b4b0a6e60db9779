//! Threads that sleep on one descriptor, which stays readable until it is read: a thread that reads it must not take it
//! away from others that were called, too.
//!
//! All of this is under the lock of what they wait for; the descriptor is written and waited for without it. A call is for
//! all who sleep then, and the descriptor is read by the last of them to wake up. Who goes to sleep before that wakes up
//! for nothing, and comes again.

/// The threads that sleep.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    asleep: usize,
    /// How many of those have been called.
    called: usize,
    calls: u64,
}

/// A thread that sleeps.
#[derive(Debug)]
#[must_use]
pub(crate) struct Ticket {
    calls: u64,
}

impl Sleepers {
    /// The caller sleeps as soon as it has let go of the lock.
    pub(crate) fn enter(&mut self) -> Ticket {
        self.asleep += 1;
        Ticket { calls: self.calls }
    }

    /// Some thread sleeps.
    pub(crate) fn any(&self) -> bool {
        self.asleep > 0
    }

    /// Something has happened that any of them may wait for. Gives whether the descriptor is to be written to, when the lock
    /// has been let go of.
    #[inline]
    pub(crate) fn call(&mut self) -> bool {
        if self.asleep == 0 {
            return false;
        }
        self.called = self.asleep;
        self.calls += 1;
        true
    }

    /// The caller is awake, and has the lock again. Gives whether it is to read the descriptor, with the lock.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> bool {
        self.asleep -= 1;
        if ticket.calls < self.calls {
            self.called -= 1;
        }
        self.called == 0
    }
}
