//! The final checks of a world, and its description if they fail.

use std::time::Duration;

use hikyaku::{
    PeerError,
    reliability::{Endpoint, Event},
    time::Instant,
};

use super::world::World;

impl World {
    /// Everything must be as if nothing had ever been sent.
    pub(crate) fn check_finished(&mut self) {
        assert_eq!(self.model.missing(), 0, "messages are missing\n{}", self.describe());
        // What a dead incarnation had begun to send stays until its successor speaks.
        let lasting = self.nodes.iter().all(|node| node.incarnation == 1);
        for (number, node) in self.nodes.iter_mut().enumerate() {
            if node.stack.is_none() {
                continue;
            }
            let endpoint = node.endpoint();
            assert!(endpoint.all_idle(), "node {number} is not idle");
            let bulk = node.stack().bulk();
            assert!(bulk.is_none_or(Endpoint::all_idle), "node {number} places something");
            for peer in node.peer_of.values() {
                let Some(stats) = endpoint.peer_stats(*peer) else {
                    panic!("node {number}: no {peer}");
                };
                assert!(endpoint.is_idle(*peer), "node {number}: {peer} is not idle");
                let unexpected = if node.options.proxy {
                    // A sixteenth may still be there, where the messages are.
                    stats
                        .unexpected
                        .saturating_sub((node.options.config.unexpected_bytes / 16).into())
                } else {
                    stats.unexpected
                };
                let left = (
                    if lasting { unexpected } else { 0 },
                    stats.in_flight,
                    stats.packets_in_flight,
                    stats.queued,
                );
                assert_eq!(
                    left,
                    (0, 0, 0, 0),
                    "node {number}, {peer}: unexpected, in flight, packets in flight, queued"
                );
            }
            assert_eq!(
                node.stack().poll_timeout(),
                None,
                "node {number} is idle but has a timer"
            );
            assert_eq!(
                node.incomplete(),
                0,
                "node {number}: messages by reference never completed"
            );
            assert_eq!(node.memory.outstanding(), 0, "node {number}: memory leaks");
            assert!(node.backlog.is_empty(), "node {number}: messages were never sent");
        }
    }

    /// Runs until idle and checks that all is well.
    pub(crate) fn finish(&mut self, limit: Duration) {
        self.run_idle(limit);
        self.check_finished();
    }

    pub(crate) fn describe(&self) -> String {
        let mut text = format!("at {:?}, missing: {:?}\n", self.now, self.model.missing_by_pair());
        for (number, node) in self.nodes.iter().enumerate().take(8) {
            text += &format!(
                "node {number}: backlog {:?}, inbox {}",
                node.backlog.len(),
                node.inbox.len()
            );
            let Some(stack) = &node.stack else {
                text += ", crashed\n";
                continue;
            };
            text += &format!(
                ", deadline {:?}\n  {:?}\n",
                stack.poll_timeout(),
                stack.endpoint().stats()
            );
            for (peer_node, peer) in node.peer_of.iter().take(8) {
                text += &format!("  to node {peer_node}: {:?}\n", stack.endpoint().peer_stats(*peer));
            }
        }
        text
    }

    /// Times at which `node` lost a peer, with the reason.
    pub(crate) fn downs(&self, node: usize) -> Vec<(Instant, usize, PeerError)> {
        let node = &self.nodes[node];
        let down = |&(at, event): &(Instant, Event)| match event {
            Event::Down { peer, error, .. } => Some((at, node.peers[peer.index()], error)),
            _ => None,
        };
        node.events.iter().filter_map(down).collect()
    }

    /// The counters of a node's peer.
    pub(crate) fn peer_stats(&self, node: usize, peer: usize) -> hikyaku::PeerStats {
        let id = self.nodes[node].peer_of[&peer];
        self.nodes[node].endpoint().peer_stats(id).unwrap_or_default()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.describe());
        }
    }
}
