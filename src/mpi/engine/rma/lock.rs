//! The lock of a window at its target (MPI 12.5.3): exclusive or shared, first come first served.
//!
//! Who holds it is said by a [word](Holders), which processes of the same host may have mapped: these take the lock, and
//! give it back, without the target. All others ask it by messages, and so do these when the lock is held.

use alloc::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::{fmt, sync::atomic::AtomicU64};

use crate::sync::{Holders, PLACES, Places, REST};

/// Where the word of a lock lies.
pub(in crate::mpi::engine) trait Spot: fmt::Debug + Send + Sync {
    /// The word: always the same one.
    fn word(&self) -> &AtomicU64;
}

/// Memory of this process.
impl Spot for AtomicU64 {
    fn word(&self) -> &AtomicU64 {
        self
    }
}

/// A request for the lock: the process, and its id of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) process: u32,
    pub(super) id: u32,
    pub(super) exclusive: bool,
}

#[derive(Debug)]
pub(super) struct Lock {
    spot: Arc<dyn Spot>,
    /// The process of each place.
    processes: Vec<u32>,
    /// The places of those that are not lost.
    places: Places,
    /// Processes without a place that hold the lock: together they have the place [`REST`].
    rest: BTreeSet<u32>,
    waiting: VecDeque<Asked>,
}

impl Default for Lock {
    fn default() -> Self {
        Self {
            spot: Arc::new(AtomicU64::new(0)),
            processes: Vec::new(),
            places: Places::default(),
            rest: BTreeSet::new(),
            waiting: VecDeque::new(),
        }
    }
}

impl Lock {
    /// The word lies there, and is 0. Nobody has asked for the lock yet.
    pub(super) fn lie_at(&mut self, spot: Arc<dyn Spot>) {
        self.spot = spot;
    }

    /// From now on these processes may take the lock by themselves, each at the place of its number in the list, as far as
    /// there are places.
    pub(super) fn admit(&mut self, processes: impl Iterator<Item = u32>) {
        self.processes = processes.take(PLACES as usize).collect();
        self.places = Places::first(self.processes.len() as u32);
    }

    fn word(&self) -> Holders<'_> {
        Holders(self.spot.word())
    }

    fn place(&self, process: u32) -> Option<u32> {
        let place = self.processes.iter().position(|other| *other == process)? as u32;
        self.places.has(place).then_some(place)
    }

    /// The places that may hold the lock. Others are those of the lost, or make no sense.
    fn known(&self) -> Places {
        if self.rest.is_empty() {
            self.places
        } else {
            self.places.with(REST)
        }
    }

    fn holds(&self, process: u32) -> bool {
        let holds = |place| self.word().now().has(place);
        self.rest.contains(&process) || self.place(process).is_some_and(holds)
    }

    /// Queues a request; [`grant`](Self::grant) tells when it is granted. False if the process has or wants the lock
    /// already.
    pub(super) fn ask(&mut self, asked: Asked) -> bool {
        let process = asked.process;
        let again = self.holds(process) || self.waiting.iter().any(|other| other.process == process);
        if !again {
            self.waiting.push_back(asked);
        }
        !again
    }

    /// Grants the lock as far as possible; gives the granted requests. If one has to wait, those that hold the lock tell
    /// when they give it back.
    pub(super) fn grant(&mut self) -> Vec<Asked> {
        let mut granted = Vec::new();
        while let Some(&first) = self.waiting.front() {
            let place = self.place(first.process).unwrap_or(REST);
            if !self.word().grant(place, first.exclusive, self.known()) {
                return granted;
            }
            self.waiting.pop_front();
            if place == REST {
                self.rest.insert(first.process);
            }
            granted.push(first);
        }
        self.word().calm();
        granted
    }

    /// Gives whether the process had the lock.
    pub(super) fn release(&mut self, process: u32) -> bool {
        if self.rest.remove(&process) {
            if self.rest.is_empty() {
                self.word().withdraw(REST);
            }
            return true;
        }
        self.place(process).is_some_and(|place| self.word().withdraw(place))
    }

    /// The process is lost: drops its lock and its request. If it is not dead, but was given up, it may go on to take the
    /// lock in the word; that does not count any more.
    pub(super) fn forget(&mut self, process: u32) {
        self.release(process);
        if let Some(place) = self.place(process) {
            self.places = self.places.without(place);
        }
        self.waiting.retain(|asked| asked.process != process);
    }

    /// The processes that hold the lock while others wait for it: nothing but their silence tells of their end.
    pub(super) fn awaited(&self) -> impl Iterator<Item = u32> + '_ {
        let now = match self.waiting.is_empty() {
            true => Places::default(),
            false => self.word().now(),
        };
        let held = move |(place, _): &(u32, &u32)| now.has(*place) && self.places.has(*place);
        let near = (0..).zip(&self.processes).filter(held).map(|(_, process)| process);
        let rest = self.rest.iter().filter(move |_| now.has(REST));
        near.chain(rest).copied()
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;

    use proptest::prelude::*;

    use super::*;
    use crate::sync::Given;

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

    /// The processes with places of their own; there are as many others.
    const NEAR: u32 = 4;

    /// What each process has or wants, and who comes when: the lock as it is meant to be.
    #[derive(Default)]
    struct Model {
        holders: Vec<Asked>,
        waiting: VecDeque<Asked>,
        lost: BTreeSet<u32>,
    }

    impl Model {
        fn grant(&mut self) {
            while let Some(&first) = self.waiting.front()
                && (self.holders.is_empty() || !first.exclusive && self.holders.iter().all(|holder| !holder.exclusive))
            {
                self.waiting.pop_front();
                self.holders.push(first);
            }
        }

        fn is_idle(&self, process: u32) -> bool {
            let mut busy = self.holders.iter().chain(&self.waiting);
            !self.lost.contains(&process) && busy.all(|asked| asked.process != process)
        }

        fn holds(&self, process: u32) -> bool {
            self.holders.iter().any(|holder| holder.process == process)
        }

        fn forget(&mut self, process: u32) {
            self.holders.retain(|holder| holder.process != process);
            self.waiting.retain(|asked| asked.process != process);
        }
    }

    fn shared() -> (Arc<AtomicU64>, Lock) {
        let word = Arc::new(AtomicU64::new(0));
        let mut lock = Lock::default();
        lock.lie_at(Arc::clone(&word) as Arc<dyn Spot>);
        lock.admit(0..NEAR);
        (word, lock)
    }

    proptest! {
        /// Some processes take the lock by themselves, if they can, and all others ask for it. Those that are lost may go
        /// on to take it, which does not count.
        #[test]
        fn it_makes_no_difference_who_takes_it(
            steps in prop::collection::vec((0..12_u8, 0..2 * NEAR, any::<bool>()), 0..200),
        ) {
            let (word, mut lock) = shared();
            let word = Holders(&word);
            let mut model = Model::default();
            for (what, process, exclusive) in steps {
                let is_near = process < NEAR;
                let mut granted = Vec::new();
                match what {
                    0..6 if model.is_idle(process) => {
                        let asked = asked(process, exclusive);
                        model.waiting.push_back(asked);
                        if is_near && word.take(process, exclusive) {
                            granted.push(asked);
                        } else {
                            prop_assert!(lock.ask(asked));
                        }
                    }
                    6..11 if model.holds(process) => {
                        model.forget(process);
                        match is_near.then(|| word.give(process)) {
                            Some(Given::Back) => {}
                            Some(Given::NotHeld) => prop_assert!(false, "it was held"),
                            Some(Given::Untold) | None => prop_assert!(lock.release(process)),
                        }
                    }
                    11 if model.lost.contains(&process) && is_near => {
                        word.take(process, exclusive);
                    }
                    11 if model.lost.len() < 3 => {
                        model.lost.insert(process);
                        model.forget(process);
                        lock.forget(process);
                    }
                    _ => continue,
                }
                let before = model.holders.len();
                model.grant();
                granted.extend(lock.grant());
                prop_assert_eq!(&granted[..], &model.holders[before..]);
                let holds = |process| lock.holds(process);
                prop_assert!((0..2 * NEAR).all(|process| holds(process) == model.holds(process)));
                let held = lock.awaited().collect::<Vec<_>>();
                let holders = (0..2 * NEAR).filter(|process| model.holds(*process) && !model.waiting.is_empty());
                prop_assert_eq!(held, holders.collect::<Vec<_>>());
            }
        }

        /// Whatever another process writes, those that are lost hold up nobody.
        #[test]
        fn any_word_means_something(words in prop::collection::vec(any::<u64>(), 1..20), exclusive: bool) {
            let (word, mut lock) = shared();
            for (turn, value) in (0..).zip(words) {
                word.store(value, Ordering::Relaxed);
                let process = turn % (2 * NEAR);
                let word = Holders(&word);
                let _ = (word.take(turn % NEAR, exclusive), word.give(turn % NEAR));
                let _ = (lock.ask(asked(process, exclusive)), lock.grant(), lock.release(process), lock.grant());
            }
            (0..2 * NEAR).for_each(|process| lock.forget(process));
            let last = asked(100, true);
            prop_assert!(lock.ask(last));
            prop_assert_eq!(lock.grant(), [last]);
            prop_assert!(!Holders(&word).take(0, false), "it is held");
            prop_assert!(lock.release(100));
            prop_assert!(Holders(&word).take(0, true), "it is free");
        }
    }

    /// One that finds the word held asks, and from then on nobody takes it without the owner.
    #[test]
    fn who_waits_is_told_of() {
        let (word, mut lock) = shared();
        let word = Holders(&word);
        assert!(word.take(0, false) && word.take(1, false) && !word.take(2, true));
        assert!(lock.ask(asked(2, true)));
        assert_eq!(lock.grant(), []);
        assert!(!word.take(3, false), "another one waits");
        assert_eq!(word.give(0), Given::Untold);
        assert!(lock.release(0) && !lock.release(0));
        assert_eq!(lock.grant(), []);
        // This one is killed, and so is the one that waits.
        lock.forget(2);
        lock.forget(1);
        assert_eq!(lock.grant(), []);
        assert!(word.take(3, true));
        assert_eq!(
            (word.give(1), word.give(3), word.give(3)),
            (Given::NotHeld, Given::Back, Given::NotHeld)
        );
    }

    /// More processes than places: the last ones ask.
    #[test]
    fn those_without_a_place_share_one() {
        let (word, mut lock) = shared();
        lock.admit(0..PLACES + 2);
        for process in PLACES..PLACES + 2 {
            assert!(lock.ask(asked(process, false)));
            assert_eq!(lock.grant(), [asked(process, false)]);
            assert!(!Holders(&word).take(PLACES - 1, true));
        }
        assert!(Holders(&word).take(PLACES - 1, false));
        assert!(lock.release(PLACES) && lock.holds(PLACES + 1));
        lock.forget(PLACES + 1);
        assert_eq!(Holders(&word).give(PLACES - 1), Given::Back);
        assert!(Holders(&word).take(0, true));
    }
}
