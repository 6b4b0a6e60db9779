//! Prefetches what the next events need while one is handled. With thousands of processes, nothing of a process is in a
//! near cache when its turn comes ([`heap`]).

use super::{
    heap,
    node::Node,
    queue::{Event, Queue},
    wires::Wires,
};
use crate::prefetch::{Locate, Part, named_peer};

/// The process whose state an event needs.
#[inline]
pub(super) fn turn(wires: &Wires, event: Event) -> Option<u32> {
    match event {
        Event::Arrive(packet) => wires.ends_at(packet),
        Event::Timer(process) | Event::Wake(process) => Some(process),
        Event::Depart(_) | Event::Medium(_) | Event::Optics | Event::Fault(_) => None,
    }
}

/// Prefetches for the next events while this one is handled, in steps: each uses what the step before has
/// prefetched.
#[inline]
pub(super) fn ask_ahead(queue: &Queue, wires: &Wires, nodes: &[Box<Node>]) {
    if !heap::is_far() {
        return;
    }
    if let Some(Event::Arrive(packet)) = queue.peek(6) {
        wires.ask(packet);
    }
    if let Some(event) = queue.peek(5)
        && let Some(process) = turn(wires, event)
    {
        heap::announce(process);
        if let Event::Arrive(packet) = event {
            wires.ask_data(packet);
        }
    }
    if let Some(process) = queue.peek(4).and_then(|event| turn(wires, event)) {
        heap::ask(process);
    }
    for (after, part) in [(3, Part::Peer), (2, Part::Flow), (1, Part::Active), (0, Part::Sent)] {
        if let Some(event) = queue.peek(after) {
            ask_part(wires, nodes, event, part);
        }
    }
}

/// Prefetches a part of a process's state about the peer that a packet comes from, and about the one that it will
/// probably send to next.
#[inline]
pub(super) fn ask_part(wires: &Wires, nodes: &[Box<Node>], event: Event, part: Part) {
    if let Event::Arrive(packet) = event
        && let Some(process) = wires.ends_at(packet)
        && let Some(peer) = named_peer(wires.data(packet))
    {
        let node = &nodes[process as usize];
        let Some(endpoint) = node.messenger.layer().as_endpoint() else {
            return;
        };
        let next = node.habit.after(peer);
        endpoint.locate((peer, part), heap::ask_lines);
        if next != peer {
            endpoint.locate((next, part), heap::ask_lines);
        }
        if part == Part::Peer {
            node.messenger.locate(peer, heap::ask_lines);
            node.messenger.locate(next, heap::ask_lines);
        }
    }
}
