//! A small message that finds its flow quiet is written at once, past the queue: the usual case of request and answer, in
//! which nothing counts but how short this way is.

use super::{
    Outgoing, PeerId,
    burst::Burst,
    endpoint::Endpoint,
    flow::{Form, Record},
    peer::MESSAGE_COST,
    plan::Plan,
    send::{fits_record, store_record},
};
use crate::time::Instant;

impl Endpoint {
    /// Writes the packet of a message to `burst` and notes it as sent, if it fits one, and nothing else of its flow is
    /// queued, unacknowledged or owed. `false`: nothing was done, and [`send`](Self::send) takes it or says why not.
    ///
    /// It is what `send` and [`poll_transmit`](Self::poll_transmit) would do together, but for what others have to transmit,
    /// which waits for the next `poll_transmit`.
    #[inline]
    pub fn send_alone(
        &mut self,
        now: Instant,
        peer: PeerId,
        channel: u8,
        message: &Outgoing,
        data: &[u8],
        burst: &mut Burst,
    ) -> bool {
        let Some(flow) = self.find_flow(peer.0, channel) else {
            return false;
        };
        let state = &self.flows[flow as usize];
        let index = state.active;
        let Some(active) = self.actives.get_mut(index as usize) else {
            return false;
        };
        let p = &mut self.peers[peer.index()];
        let (send, receive) = (&mut active.send, &active.receive);
        let cost = data.len() as u64 + u64::from(MESSAGE_COST);
        let quiet = send.una == state.send_next && send.queue.is_empty() && !active.probe.is_due();
        let owes = receive.nack_now || receive.tell_credit || receive.has_gap(state.expected);
        let may_go = p.confirmed && p.is_open() && p.cost_queued + cost <= p.cost_limit;
        if !quiet
            || owes
            || !may_go
            || message.immediate.is_some()
            || !fits_record(&self.config, p, message, data.len())
        {
            return false;
        }
        p.cost_queued += cost;
        if !active.busy {
            active.busy = true;
            self.busy += 1;
        }
        let (offset, len) = store_record(send, &mut self.sources, message.match_bits, data);
        self.sources.retain(send.tail);
        let (seq, source, address) = (state.send_next, send.tail, p.address);
        self.advance(now);
        burst.begin(address);
        let mut lane = self.lane(index);
        let plan = Plan {
            seq,
            record: Record {
                sent_at: lane.now,
                source,
                offset,
                len: len as u16,
                resends: 0,
                form: Form::Single,
                message: message.message,
                from: message.source,
                to: message.destination,
            },
            payload: data.len(),
            header: lane.overhead + 8 * usize::from(message.match_bits.is_some()),
            resend: false,
            messages: 1,
            cost,
        };
        lane.write(&plan, burst);
        self.launched(index, true);
        self.reschedule(index);
        self.hold(burst);
        true
    }
}
