//! What will happen when.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A packet (its index) comes to the end of its wire.
    Arrive(u32),
    /// A deadline of the protocol at a node.
    Timer(u32),
    /// The program of a node goes on.
    Wake(u32),
    /// Something of the light paths is due.
    Optics,
}

/// Events by time, ns; those of one time in the order in which they were entered, so that a run can be repeated.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    entered: u64,
}

impl Queue {
    pub(super) fn push(&mut self, time: u64, event: Event) {
        self.heap.push(Reverse((time, self.entered, event)));
        self.entered += 1;
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Event)> {
        let Reverse((time, _, event)) = self.heap.pop()?;
        Some((time, event))
    }

    /// Events entered since the start.
    pub(super) fn entered(&self) -> u64 {
        self.entered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
