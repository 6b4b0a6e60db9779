//! Packets that arrive: where they wait, which process takes them, and what becomes of those that no process takes.

use super::{
    heap,
    node::{Doing, address_on},
    polling::Polling,
    scheduler::Scheduler,
    wires::{Arrival, Packet},
};
use crate::{prefetch::named_peer, prng::mix, reliability::Path};

/// Whether a packet carries no token of the receiver: its sender may not be the receiver's peer yet.
fn opens(data: &[u8]) -> bool {
    data.get(12..16).is_none_or(|token| token == [0; 4])
}

impl Scheduler {
    /// A packet has arrived somewhere. Gives the process whose program goes on.
    pub(super) fn arrive(&mut self, packet: u32) -> Option<u32> {
        match self.wires.arrive(&mut self.queue, self.now, packet) {
            Arrival::There => {}
            Arrival::Between => return None,
            Arrival::Relay(index) => {
                self.pass_on(index, packet);
                return None;
            }
        }
        let &mut Packet {
            source, destination, ..
        } = self.wires.get(packet);
        if self.is_dark(source, destination) {
            self.wires.stats.delivered -= 1;
            self.wires.stats.dark += 1;
            self.wires.drop_packet(packet);
            return None;
        }
        let taker = self.taker(packet);
        match taker {
            Polling::Process if self.leave_it(packet) => None,
            Polling::Dedicated if !self.poll(packet) => None,
            _ => self.take(packet, taker),
        }
    }

    /// Which process takes a packet, the poller or its own.
    fn taker(&mut self, packet: u32) -> Polling {
        match self.polling {
            // The payload of rendezvous has a channel of its own.
            Polling::Combined if self.wires.get(packet).data.get(1) == Some(&0) => Polling::Dedicated,
            Polling::Combined => Polling::Process,
            other => other,
        }
    }

    /// The poller of a host takes a packet; the process handles it when that is done. False: the packet is lost.
    fn poll(&mut self, packet: u32) -> bool {
        let (cpu, now) = (&self.cpu, self.now);
        let p = self.wires.get(packet);
        let (index, cost) = (p.destination, cpu.cost(cpu.receive, p.data.len()));
        let host = self.wires.host(index) as usize;
        let taken = self.pollers[host].take(now, cost, self.queues);
        match taken {
            Some(taken) => {
                let node = &mut self.nodes[index as usize];
                node.local = node.local.max(taken);
            }
            None => self.lose_unread(packet),
        }
        taken.is_some()
    }

    /// Leaves a packet in its queue while the process computes. Gives whether it does.
    fn leave_it(&mut self, packet: u32) -> bool {
        let index = self.wires.get(packet).destination;
        let node = &mut self.nodes[index as usize];
        let Doing::Away(_) = node.doing else { return false };
        if node.left.len() < (self.queues.count * self.queues.length) as usize {
            node.left.push_back(packet);
        } else {
            self.lose_unread(packet);
        }
        true
    }

    fn lose_unread(&mut self, packet: u32) {
        self.wires.stats.unread += 1;
        self.wires.drop_packet(packet);
    }

    /// Whether the path that a packet needs has been cut.
    #[inline(always)]
    fn is_dark(&self, source: u32, destination: u32) -> bool {
        let circuits = self.circuits.as_ref();
        circuits.is_some_and(|circuits| !circuits.carries(source, destination))
    }

    /// Hands a packet to the protocol.
    pub(super) fn take(&mut self, packet: u32, taker: Polling) -> Option<u32> {
        let polled = taker == Polling::Dedicated;
        let Self {
            now,
            wires,
            nodes,
            cpu,
            receive_buffer,
            digest,
            shared_memory,
            ..
        } = self;
        let p = wires.get(packet);
        let (source, index, bytes) = (p.source, p.destination, p.data.len());
        let in_memory = *shared_memory && wires.host(source) == wires.host(index);
        let p = wires.get(packet);
        let node = &mut nodes[index as usize];
        if let Doing::Crashed { refuse } = node.doing {
            return self.refuse(packet, refuse);
        }
        if !polled && !in_memory && !node.accept(*now, bytes as u32, *receive_buffer) {
            self.lose_unread(packet);
            return None;
        }
        *digest = mix(*digest ^ *now ^ u64::from(source) << 40 ^ u64::from(index) << 16 ^ bytes as u64);
        let cost = if polled { 0 } else { cpu.cost(cpu.receive, bytes) };
        node.local = node.local.max(*now) + cost;
        if in_memory || opens(&p.data) {
            // A process that has been heard of is a peer from then on.
            node.core.peers.meet(&mut node.messenger, source);
        }
        node.habit.hear(named_peer(&p.data));
        let at = node.now();
        let path = Path::new(address_on(source, p.rail), p.rail);
        node.messenger.handle_datagrams(at, path, &mut p.data, bytes);
        heap::go_on();
        wires.drop_packet(packet);
        self.settle(index)
    }

    /// A node relays a packet that is not for it.
    fn pass_on(&mut self, index: u32, packet: u32) {
        let bytes = self.wires.get(packet).data.len();
        let node = &mut self.nodes[index as usize];
        if matches!(node.doing, Doing::Crashed { .. }) || !node.accept(self.now, bytes as u32, self.receive_buffer) {
            return self.lose_unread(packet);
        }
        let cpu = &self.cpu;
        node.local = node.local.max(self.now) + cpu.cost(cpu.receive, bytes) + cpu.cost(cpu.send, bytes);
        self.wires.pass_on(&mut self.queue, node.local, packet, index);
    }

    /// A packet has arrived at a crashed process: tells its sender, if the host does so.
    fn refuse(&mut self, packet: u32, refuse: bool) -> Option<u32> {
        self.trouble.stats.refused += 1;
        let p = self.wires.get(packet);
        let (source, destination, rail) = (p.source, p.destination, p.rail);
        let quoted = std::mem::take(&mut p.data);
        self.wires.drop_packet(packet);
        let node = &mut self.nodes[source as usize];
        if !refuse || matches!(node.doing, Doing::Crashed { .. }) {
            return None;
        }
        node.local = node.local.max(self.now);
        node.messenger
            .handle_unreachable(node.now(), address_on(destination, rail), &quoted);
        self.settle(source)
    }
}
