//! The output and the memory of a node, and the contracts about them.

use std::{net::SocketAddr, sync::Arc};

use hikyaku::{
    reliability::Burst,
    wire::{Kind, Packet},
};

use super::node::{Departure, Node, Output};

impl Node {
    /// The memory that one peer makes us hold is bounded.
    pub(super) fn check_bounds(&self, from: SocketAddr) {
        let endpoint = self.endpoint();
        let Some(peer) = endpoint.peer_by_address(from) else {
            return;
        };
        if let Some(stats) = endpoint.peer_stats(peer) {
            // What comes before the bound is known is allowed in any case.
            let bound = u64::from(endpoint.config().unexpected_bytes).max(64 << 10);
            assert!(
                stats.unexpected <= bound,
                "{peer} holds {} bytes of unexpected memory, the bound is {bound}",
                stats.unexpected
            );
        }
    }

    /// Takes over what a burst holds; checks contract I5.
    pub(super) fn emit(&mut self, burst: &Burst, output: &mut Output) {
        let mut bytes = Vec::with_capacity(burst.len());
        let mut blocks = Vec::new();
        let memory = &self.memory;
        let limits = self.options.limits;
        let holds = limits.holds_references;
        let stack = match &self.stack {
            Some(stack) => stack.as_ref(),
            None => return,
        };
        stack.gather(burst, &mut |slice| {
            bytes.extend_from_slice(slice);
            if holds && let Some(block) = memory.block_of(slice) {
                block.hold();
                blocks.push(Arc::clone(block));
            }
        });
        let (size, len) = (burst.segment_size(), burst.len());
        assert_eq!(bytes.len(), len, "a burst's length is wrong");
        assert!(size >= 1 && len >= 1, "an empty burst");
        assert_eq!(burst.segments(), len.div_ceil(size), "a burst's segments are wrong");
        assert!(
            burst.segments() <= limits.max_segments && len <= limits.max_batch.max(size),
            "burst of {len} bytes in {} segments: {limits:?}",
            burst.segments()
        );
        let is_of_bulk = stack.is_of_bulk();
        let endpoint = stack.bulk().filter(|_| is_of_bulk).unwrap_or_else(|| stack.endpoint());
        let config = endpoint.config();
        let limit = limits.max_datagram.min(config.max_datagram.into());
        let known = endpoint
            .peer_by_address(burst.destination())
            // (Each rail has an MTU of its own.)
            .filter(|_| burst.port() == 0)
            .and_then(|peer| endpoint.peer_stats(peer))
            .map_or(0, |stats| stats.max_datagram as usize);
        for segment in bytes.chunks(size) {
            let packet = match Packet::new_checked(segment) {
                Ok(packet) => packet,
                Err(error) => panic!("emitted what is no packet: {error}: {segment:02x?}"),
            };
            assert!(
                segment.len() <= limit || !burst.dont_fragment(),
                "I5: datagram of {} bytes, the limit is {limit}",
                segment.len()
            );
            assert!(
                segment.len() <= known || known == 0 || packet.kind() == Kind::Probe || !burst.dont_fragment(),
                "I5: datagram of {} bytes, {known} is the most known to pass",
                segment.len()
            );
            assert!(
                packet.payload().len() <= usize::from(config.max_payload) || packet.kind() == Kind::Probe,
                "payload of {} bytes",
                packet.payload().len()
            );
            output.departures.push(Departure {
                destination: burst.destination(),
                bytes: segment.to_vec(),
                dont_fragment: burst.dont_fragment(),
                port: burst.port(),
                is_of_bulk,
            });
        }
        if burst.token() != 0 {
            assert!(holds, "a token where no references are held");
            let old = self.held.insert(burst.token(), blocks);
            assert!(old.is_none(), "burst token {} was used twice", burst.token());
            output.held.push(burst.token());
        }
    }
}
