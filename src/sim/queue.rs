//! The events of a simulation by time.

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The packet with this index reaches the end of its wire.
    Arrive(u32),
    /// The packet with this index leaves its host, delayed.
    Depart(u32),
    /// A protocol deadline of this node.
    Timer(u32),
    /// The program of this node is resumed.
    Wake(u32),
    /// An event of the shared medium, for this host.
    Medium(u32),
    /// An event of the circuits.
    Optics,
    /// The fault with this index in the plan.
    Fault(u32),
}

/// Events by time, ns; those of one time in the order in which they were entered, so that a run can be repeated.
///
/// A radix heap: an event lies in the bucket of the highest bit in which its time differs from the one popped last, and
/// moves to lower ones as that bit is reached. So an event costs a few sequential copies, where a binary heap would
/// wait for memory at each level. Nothing can be entered for a time that is over.
#[derive(Debug)]
pub(super) struct Queue {
    /// Bucket 0 has the events of `last`, of which `popped` are gone; bucket `n` those whose highest differing bit is
    /// `n - 1`.
    buckets: [Vec<(u64, Event)>; 65],
    popped: usize,
    /// Buckets beyond 0 that are not empty: a bit for each.
    filled: u64,
    last: u64,
    entered: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            buckets: [const { Vec::new() }; 65],
            popped: 0,
            filled: 0,
            last: 0,
            entered: 0,
        }
    }
}

impl Queue {
    pub(super) fn push(&mut self, time: u64, event: Event) {
        self.entered += 1;
        self.put(time.max(self.last), event);
    }

    #[inline]
    fn put(&mut self, time: u64, event: Event) {
        let differs = 64 - (time ^ self.last).leading_zeros();
        if differs > 0 {
            self.filled |= 1 << (differs - 1);
        }
        self.buckets[differs as usize].push((time, event));
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Event)> {
        if let Some(&next) = self.buckets[0].get(self.popped) {
            self.popped += 1;
            return Some(next);
        }
        self.buckets[0].clear();
        self.popped = 0;
        if self.filled == 0 {
            return None;
        }
        let lowest = self.filled.trailing_zeros();
        self.filled &= self.filled - 1;
        // All lower ones are empty, and these go there in their order.
        let mut bucket = std::mem::take(&mut self.buckets[lowest as usize + 1]);
        self.last = bucket.iter().map(|(time, _)| *time).min()?;
        for (time, event) in bucket.drain(..) {
            self.put(time, event);
        }
        self.buckets[lowest as usize + 1] = bucket;
        self.popped = 1;
        self.buckets[0].first().copied()
    }

    /// The event that comes `after` events later, if that is certain.
    #[inline]
    pub(super) fn peek(&self, after: usize) -> Option<Event> {
        self.buckets[0].get(self.popped + after).map(|(_, event)| *event)
    }

    pub(super) fn clear(&mut self) {
        *self = Self {
            entered: self.entered,
            ..Self::default()
        };
    }

    /// Number of events entered since the start.
    pub(super) fn entered(&self) -> u64 {
        self.entered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    #[test]
    fn events_come_by_time_and_then_in_their_order() {
        let mut queue = Queue::default();
        for (time, node) in [(7, 0), (3, 9), (3, 1), (7, 2), (0, 5), (3, 4)] {
            queue.push(time, Event::Wake(node));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let expected = [(0, 5), (3, 9), (3, 1), (3, 4), (7, 0), (7, 2)];
        assert_eq!(order, expected.map(|(time, node)| (time, Event::Wake(node))));
        assert_eq!(queue.entered(), 6);
    }

    #[test]
    fn the_order_is_that_of_a_sorted_list() {
        let (mut queue, mut rng) = (Queue::default(), Prng::new(1));
        let mut waiting: Vec<(u64, u32)> = Vec::new();
        let mut now = 0;
        for number in 0..20_000 {
            let time = now + (rng.next_u64() >> (40 + rng.next_u64() % 24));
            queue.push(time, Event::Arrive(number));
            waiting.push((time, number));
            if rng.chance(0.45) {
                let least = waiting.iter().enumerate().min_by_key(|(_, entry)| **entry).unwrap().0;
                let expected = waiting.remove(least);
                assert_eq!(queue.pop(), Some((expected.0, Event::Arrive(expected.1))));
                now = expected.0;
            }
        }
        waiting.sort_unstable();
        for (time, number) in waiting {
            assert_eq!(queue.pop(), Some((time, Event::Arrive(number))));
        }
        assert_eq!(queue.pop(), None);
    }
}
