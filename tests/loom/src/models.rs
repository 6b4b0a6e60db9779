//! Models of the library's parts, used by several threads.

use std::io::IoSlice;

use loom::{
    cell::UnsafeCell,
    model::Builder,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};

use crate::{medium::Mapped, right::sleepers::Sleepers, segment::Segment};

/// Switches between threads where neither of them waits: more of them find no other mistakes in parts as small as these.
const PREEMPTIONS: usize = 3;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

/// An eventfd: readable from when it is written to until it is read.
#[derive(Default)]
struct Descriptor {
    readable: Mutex<bool>,
    changed: Condvar,
}

impl Descriptor {
    fn write(&self) {
        *self.readable.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn poll(&self) {
        let mut readable = self.readable.lock().unwrap();
        while !*readable {
            readable = self.changed.wait(readable).unwrap();
        }
    }

    fn read(&self) {
        *self.readable.lock().unwrap() = false;
    }
}

macro_rules! models {
    ($($world:ident)+) => {$(
        pub mod $world {
            use super::*;
            const KIND: u32 = 1;
            use crate::$world::{
                bell::Bell,
                board::{Board, Posted},
                holders::{Given, Holders, Places, REST},
                lines,
                lock::Lock,
                pins::Pins,
                ring::{CONTROL, Consumer, Place, Producer},
            };

            /// Room for two records, which each lap writes over.
            const RING: Place = Place { control: 0, data: CONTROL, size: 32 };

            fn ring() -> (Arc<Segment>, Producer, Consumer) {
                let memory = Arc::new(Segment::new(CONTROL + 32));
                let producer = Producer::new(Arc::clone(&memory), RING);
                let consumer = Consumer::new(Arc::clone(&memory), RING);
                (memory, producer, consumer)
            }

            /// The records of a poller's ring come whole and in order, and their places are not written to too early.
            pub fn ring_carries_records() {
                check(|| {
                    let (memory, mut producer, mut consumer) = ring();
                    let writer = thread::spawn(move || {
                        for number in 1..=3_u64 {
                            while !producer.has_room(8).unwrap() {
                                thread::yield_now();
                            }
                            producer.push(KIND, &[IoSlice::new(&number.to_le_bytes())]);
                            producer.publish();
                        }
                    });
                    for number in 1..=3 {
                        let found = loop {
                            match consumer.next().unwrap() {
                                Some(found) => break found,
                                None => thread::yield_now(),
                            }
                        };
                        assert_eq!((found.kind, found.len, memory.read(found.at)), (KIND, 8, number));
                        consumer.release();
                    }
                    writer.join().unwrap();
                });
            }

            /// The eventfd of a poller's ring wakes a thread that sleeps by it.
            pub fn ring_wakes_its_reader() {
                check(|| {
                    let (_memory, mut producer, mut consumer) = ring();
                    let bell = Arc::new(Descriptor::default());
                    let ours = Arc::clone(&bell);
                    let writer = thread::spawn(move || {
                        producer.push(KIND, &[IoSlice::new(&[7; 8])]);
                        if producer.publish() {
                            ours.write();
                        }
                    });
                    while consumer.next().unwrap().is_none() {
                        if consumer.arm().unwrap() {
                            bell.poll();
                            consumer.disarm();
                            bell.read();
                        }
                    }
                    writer.join().unwrap();
                });
            }

            /// The number, match bits and bytes of the next short record.
            fn pop(consumer: &mut lines::Consumer) -> Option<(u32, u64, Vec<u8>)> {
                let front = consumer.front()?;
                let mut data = vec![0; front.len()];
                front.copy_to(&mut data);
                let (number, bits) = (front.number, front.bits);
                front.take();
                Some((number, bits, data))
            }

            /// Records with bytes beside their lines come whole and in order, and no chunk is written to before it is free,
            /// though the second one of each is copied while its consumer reads the first one.
            pub fn lines_carry_long_records() {
                check(|| {
                    let (mut producer, mut consumer) = lines::ring_from(4, [4, 0, 0], 0);
                    let writer = thread::spawn(move || {
                        for number in 1..=3 {
                            while !producer.push(u64::from(number), number, &[number as u8; 128]) {
                                thread::yield_now();
                            }
                        }
                    });
                    for number in 1..=3 {
                        let mut data = [0; 128];
                        loop {
                            if let Some(front) = consumer.front_early()
                                && front.copy_to(&mut data)
                            {
                                assert_eq!((front.number, front.bits, front.len()), (number, u64::from(number), 128));
                                front.take();
                                break;
                            }
                            thread::yield_now();
                        }
                        assert_eq!(data, [number as u8; 128]);
                    }
                    writer.join().unwrap();
                });
            }

            /// Short records come whole and in order, and no line is written to before it is free.
            pub fn lines_carry_records() {
                check(|| {
                    let (mut producer, mut consumer) = lines::ring_from(4, [0; 3], 0);
                    let writer = thread::spawn(move || {
                        for number in 1..=5 {
                            while !producer.push(u64::from(number), number, &[7; 8]) {
                                thread::yield_now();
                            }
                        }
                    });
                    for number in 1..=5 {
                        let record = loop {
                            match pop(&mut consumer) {
                                Some(record) => break record,
                                None => thread::yield_now(),
                            }
                        };
                        assert_eq!(record, (number, u64::from(number), vec![7; 8]));
                    }
                    writer.join().unwrap();
                });
            }

            /// The same for records of two lines, of which the last one begins in the last line.
            pub fn lines_carry_records_of_two_lines() {
                const SIZES: [usize; 3] = [8, 100, 100];
                check(|| {
                    let (mut producer, mut consumer) = lines::ring_from(4, [0; 3], 0);
                    let writer = thread::spawn(move || {
                        for (number, size) in (1..).zip(SIZES) {
                            while !producer.push(u64::from(number), number, &vec![number as u8; size]) {
                                thread::yield_now();
                            }
                        }
                    });
                    for (number, size) in (1..).zip(SIZES) {
                        let record = loop {
                            match pop(&mut consumer) {
                                Some(record) => break record,
                                None => thread::yield_now(),
                            }
                        };
                        assert_eq!(record, (number, u64::from(number), vec![number as u8; size]));
                    }
                    writer.join().unwrap();
                });
            }

            /// A consumer of short records that sleeps is woken up.
            pub fn lines_wake_their_reader() {
                check(|| {
                    let (mut producer, mut consumer) = lines::ring_from(4, [0; 3], 0);
                    let bell = Arc::new(Descriptor::default());
                    let ours = Arc::clone(&bell);
                    let writer = thread::spawn(move || {
                        assert!(producer.push(1, 1, &[]));
                        if producer.wakes() {
                            ours.write();
                        }
                    });
                    while pop(&mut consumer).is_none() {
                        consumer.set_asleep(true);
                        if !consumer.has_record() {
                            bell.poll();
                            bell.read();
                        }
                        consumer.set_asleep(false);
                    }
                    writer.join().unwrap();
                });
            }

            /// Each sender wakes a thread that sleeps in the backend `loopback`.
            pub fn bell_wakes_who_sleeps() {
                check(|| {
                    let shared = Arc::new((AtomicUsize::new(0), Bell::default()));
                    let ours = Arc::clone(&shared);
                    let sender = thread::spawn(move || {
                        for _ in 0..2 {
                            ours.0.fetch_add(1, Ordering::Release);
                            ours.1.ring();
                        }
                    });
                    let (sent, bell) = &*shared;
                    let mut seen = 0;
                    while seen < 2 {
                        bell.sleep(None, || sent.load(Ordering::Acquire) != seen);
                        seen = sent.load(Ordering::Acquire);
                    }
                    sender.join().unwrap();
                });
            }

            /// Threads that take a lock see what the others have done under it, and none of them is there at the same
            /// time.
            pub fn lock_lets_one_thread_in() {
                check(|| {
                    let lock = Arc::new(Lock::new(UnsafeCell::new(0)));
                    let count = |lock: &Lock<UnsafeCell<usize>>| {
                        let guard = lock.try_lock();
                        // SAFETY: loom checks that no other thread reads or writes meanwhile.
                        let add = |cell: &UnsafeCell<usize>| cell.with_mut(|place| unsafe { *place += 1 });
                        guard.as_deref().map(add).is_some()
                    };
                    let theirs = Arc::clone(&lock);
                    let other = thread::spawn(move || [count(&theirs), count(&theirs)]);
                    let ours = [count(&lock), count(&lock)];
                    let counted = [ours, other.join().unwrap()].concat().iter().filter(|one| **one).count();
                    assert!(counted > 0, "the first one to ask gets it");
                    // SAFETY: as above.
                    lock.lock().with(|place| assert_eq!(unsafe { *place }, counted));
                });
            }

            /// Each thread that waits for a lock gets it, though it may sleep and no call be heard.
            pub fn lock_is_waited_for() {
                check(|| {
                    let lock = Arc::new(Lock::new(UnsafeCell::new(0)));
                    // SAFETY: loom checks that no other thread reads or writes meanwhile.
                    let add = |cell: &UnsafeCell<usize>| cell.with_mut(|place| unsafe { *place += 1 });
                    let theirs = Arc::clone(&lock);
                    let other = thread::spawn(move || add(&theirs.lock()));
                    add(&lock.lock());
                    other.join().unwrap();
                    // SAFETY: as above.
                    lock.lock().with(|place| assert_eq!(unsafe { *place }, 2));
                });
            }

            /// Processes that take a lock by themselves see what the others have done under it, and none of them is there
            /// at the same time.
            pub fn holders_are_alone() {
                check(|| {
                    let shared = Arc::new((AtomicU64::new(0), UnsafeCell::new(0)));
                    let add = |(word, cell): &(AtomicU64, UnsafeCell<usize>), place| {
                        while !Holders(word).take(place, true) {
                            thread::yield_now();
                        }
                        // SAFETY: loom checks that no other thread reads or writes meanwhile.
                        cell.with_mut(|sum| unsafe { *sum += 1 });
                        assert_eq!(Holders(word).give(place), Given::Back);
                    };
                    let theirs = Arc::clone(&shared);
                    let other = thread::spawn(move || add(&theirs, 1));
                    add(&shared, 0);
                    other.join().unwrap();
                    // SAFETY: as above.
                    shared.1.with(|sum| assert_eq!(unsafe { *sum }, 2));
                });
            }

            /// A lock that one waits for is handed over by its owner: it is told when the one that holds it gives it back,
            /// though another one takes it whenever it can.
            pub fn holders_are_waited_for(give: fn(&AtomicU64) -> bool) {
                check(move || {
                    let shared = Arc::new((AtomicU64::new(0), UnsafeCell::new(0), Descriptor::default()));
                    // SAFETY: loom checks that no other thread reads or writes meanwhile.
                    let add = |cell: &UnsafeCell<usize>| cell.with_mut(|sum| unsafe { *sum += 1 });
                    assert!(Holders(&shared.0).take(0, true));
                    let theirs = Arc::clone(&shared);
                    let holder = thread::spawn(move || {
                        let (word, cell, letters) = &*theirs;
                        add(cell);
                        if give(word) {
                            letters.write();
                        }
                        // Once more, if it is free.
                        let again = Holders(word).take(0, false);
                        if again {
                            add(cell);
                            if give(word) {
                                letters.write();
                            }
                        }
                        again
                    });
                    let (word, cell, letters) = &*shared;
                    while !Holders(word).grant(REST, true, Places::first(1)) {
                        letters.poll();
                        letters.read();
                        Holders(word).withdraw(0);
                    }
                    add(cell);
                    assert!(Holders(word).withdraw(REST));
                    Holders(word).calm();
                    let again = holder.join().unwrap();
                    // SAFETY: as above.
                    cell.with(|sum| assert_eq!(unsafe { *sum }, 2 + usize::from(again)));
                });
            }

            /// Gives a lock back. Returns whether the owner must be told.
            pub fn give(word: &AtomicU64) -> bool {
                Holders(word).give(0) == Given::Untold
            }

            fn boards() -> [Board; 2] {
                let memory = Arc::new(Segment::new(Board::bytes(2)));
                [0, 1].map(|rank| Board::new(Mapped(Arc::clone(&memory)), (rank, 2), false))
            }

            /// What a rank posts comes whole, step by step, and is not written over before the other one has read it: in
            /// the lines and in the slots.
            pub fn board_carries_posts(len: usize) {
                check(move || {
                    let [mut root, mut other] = boards();
                    let writer = thread::spawn(move || {
                        for number in 1..=3_u64 {
                            root.begin();
                            while !root.has_room(len) {
                                thread::yield_now();
                            }
                            root.write(len, 0, &number.to_le_bytes().repeat(len / 8));
                            root.post(Posted { mark: 5, len });
                            root.end();
                        }
                    });
                    for number in 1..=3 {
                        other.begin();
                        let posted = loop {
                            match other.posted(0) {
                                Some(posted) => break posted,
                                None => thread::yield_now(),
                            }
                        };
                        assert_eq!(posted, Posted { mark: 5, len });
                        assert_eq!(other.read(0, len, 0..len).words(), vec![number; len / 8]);
                        other.end();
                    }
                    writer.join().unwrap();
                });
            }

            /// A rank that sleeps is woken by one that posts.
            pub fn board_wakes_sleepers() {
                check(|| {
                    let [mut root, mut other] = boards();
                    let bell = Arc::new(Descriptor::default());
                    let ours = Arc::clone(&bell);
                    let poster = thread::spawn(move || {
                        root.begin();
                        if root.post(Posted { mark: 5, len: 0 }) && root.take_sleepers().count() > 0 {
                            ours.write();
                        }
                    });
                    other.begin();
                    loop {
                        other.sleep();
                        if other.posted(0).is_some() {
                            break;
                        }
                        bell.poll();
                        bell.read();
                    }
                    other.awake();
                    poster.join().unwrap();
                });
            }

            /// Segment that was lent is its owner's when all have given it back, and not before.
            pub fn loans_come_back() {
                check(|| {
                    let memory = Arc::new(UnsafeCell::new(1));
                    let pins = Pins::default();
                    let leases = [pins.lend(), pins.lend()];
                    for pin in leases {
                        let theirs = Arc::clone(&memory);
                        thread::spawn(move || {
                            // SAFETY: loom checks that no thread writes meanwhile.
                            assert_eq!(theirs.with(|place| unsafe { *place }), 1);
                            drop(pin);
                        });
                    }
                    while !pins.are_released() {
                        thread::yield_now();
                    }
                    // SAFETY: as above.
                    memory.with_mut(|place| unsafe { *place = 2 });
                });
            }
        }
    )+};
}

models! { right weak unfenced }

/// Looks whether others wait for a lock, and then gives it back.
pub fn hasty_give(word: &AtomicU64) -> bool {
    let waits = word.load(Ordering::SeqCst) >> 63 == 1;
    word.fetch_and(1 << 63, Ordering::SeqCst);
    waits
}

/// How threads that sleep on one descriptor are woken up.
trait Sleeping: Default + Send + 'static {
    type Ticket;

    fn enter(&mut self) -> Self::Ticket;
    fn call(&mut self) -> bool;
    fn leave(&mut self, ticket: Self::Ticket) -> bool;
}

impl Sleeping for Sleepers {
    type Ticket = crate::right::sleepers::Ticket;

    fn enter(&mut self) -> Self::Ticket {
        self.enter()
    }

    fn call(&mut self) -> bool {
        self.call()
    }

    fn leave(&mut self, ticket: Self::Ticket) -> bool {
        self.leave(ticket)
    }
}

/// The thread that wakes up reads the descriptor, so that others who were called may find nothing.
#[derive(Default)]
struct Greedy(usize);

impl Sleeping for Greedy {
    type Ticket = ();

    fn enter(&mut self) {
        self.0 += 1;
    }

    fn call(&mut self) -> bool {
        self.0 > 0
    }

    fn leave(&mut self, (): ()) -> bool {
        self.0 -= 1;
        true
    }
}

/// Two threads of a process wait for something each, and a third one makes both happen.
fn sleepers_wake_up<S: Sleeping>() {
    #[derive(Default)]
    struct State<S> {
        happened: [bool; 2],
        sleepers: S,
    }
    check(|| {
        let shared = Arc::new((Mutex::new(State::<S>::default()), Descriptor::default()));
        let wait = |shared: &(Mutex<State<S>>, Descriptor), what: usize| {
            let (state, bell) = shared;
            loop {
                let mut locked = state.lock().unwrap();
                if locked.happened[what] {
                    return;
                }
                let ticket = locked.sleepers.enter();
                drop(locked);
                bell.poll();
                let mut locked = state.lock().unwrap();
                if locked.sleepers.leave(ticket) {
                    bell.read();
                }
                drop(locked);
                thread::yield_now();
            }
        };
        let ours = Arc::clone(&shared);
        let waiter = thread::spawn(move || wait(&ours, 0));
        let ours = Arc::clone(&shared);
        let maker = thread::spawn(move || {
            let (state, bell) = &*ours;
            for what in 0..2 {
                let mut locked = state.lock().unwrap();
                locked.happened[what] = true;
                let rings = locked.sleepers.call();
                drop(locked);
                if rings {
                    bell.write();
                }
            }
        });
        wait(&shared, 1);
        waiter.join().unwrap();
        maker.join().unwrap();
    });
}

/// As the engine's threads do it.
pub fn sleepers_share_a_call() {
    sleepers_wake_up::<Sleepers>();
}

/// As they did it once.
pub fn greedy_sleepers() {
    sleepers_wake_up::<Greedy>();
}
