//! The lock of a window at its target (MPI 12.5.3): exclusive or shared, first come first served.

use alloc::{
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};

/// A request for the lock: the process, and its id of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) process: u32,
    pub(super) id: u32,
    pub(super) exclusive: bool,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    holders: BTreeSet<u32>,
    exclusive: bool,
    waiting: VecDeque<Asked>,
}

impl Lock {
    /// Queues a request; [`grant`](Self::grant) tells when it is granted. False if the process has or wants the lock
    /// already.
    pub(super) fn ask(&mut self, asked: Asked) -> bool {
        let process = asked.process;
        let again = self.holders.contains(&process) || self.waiting.iter().any(|other| other.process == process);
        if !again {
            self.waiting.push_back(asked);
        }
        !again
    }

    /// Grants the lock as far as possible; gives the granted requests.
    pub(super) fn grant(&mut self) -> Vec<Asked> {
        let mut granted = Vec::new();
        while let Some(&first) = self.waiting.front()
            && (self.holders.is_empty() || !self.exclusive && !first.exclusive)
        {
            self.waiting.pop_front();
            self.holders.insert(first.process);
            self.exclusive = first.exclusive;
            granted.push(first);
        }
        granted
    }

    /// Gives whether the process had the lock.
    pub(super) fn release(&mut self, process: u32) -> bool {
        self.holders.remove(&process)
    }

    /// The process is lost: drops its lock and its request.
    pub(super) fn forget(&mut self, process: u32) {
        self.holders.remove(&process);
        self.waiting.retain(|asked| asked.process != process);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(process: u32, exclusive: bool) -> Asked {
        Asked {
            process,
            id: process,
            exclusive,
        }
    }

    #[test]
    fn who_comes_first_has_it_first() {
        let mut lock = Lock::default();
        assert!(lock.ask(asked(1, false)) && lock.ask(asked(2, false)));
        assert_eq!(lock.grant(), [asked(1, false), asked(2, false)]);
        assert!(lock.ask(asked(3, true)) && lock.ask(asked(4, false)));
        assert!(!lock.ask(asked(3, false)) && !lock.ask(asked(1, true)));
        assert!(lock.release(1) && !lock.release(1));
        assert_eq!(lock.grant(), []);
        lock.forget(2);
        assert_eq!(lock.grant(), [asked(3, true)]);
        lock.forget(3);
        assert_eq!(lock.grant(), [asked(4, false)]);
    }

    proptest! {
        #[test]
        fn nobody_shares_with_one_who_has_it_alone(steps in prop::collection::vec((0..3_u8, 0..6_u32), 0..200)) {
            let mut lock = Lock::default();
            let mut holders: Vec<Asked> = Vec::new();
            let mut waiting = 0;
            for (what, process) in steps {
                if what < 2 {
                    waiting += usize::from(lock.ask(asked(process, what == 0)));
                } else if lock.release(process) {
                    holders.retain(|holder| holder.process != process);
                }
                let granted = lock.grant();
                waiting -= granted.len();
                holders.extend(granted);
                prop_assert!(holders.len() < 2 || holders.iter().all(|holder| !holder.exclusive));
                prop_assert!(!holders.is_empty() || waiting == 0);
            }
        }
    }
}
