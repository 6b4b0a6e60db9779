//! Packets that have become too large for their path are cut anew: their flow is settled first.

use core::net::SocketAddr;

use super::Endpoint;
use crate::{
    error::DropReason,
    events::event,
    reliability::{
        burst::Burst,
        flow::{BASE_DATAGRAM, FlowKey},
        packet_builder::{Body, Written, finish, finish_extensions},
        timers::Timer,
    },
    wire::{Base, Builder, Flags, Kind, Packet, Seq},
};

impl Endpoint {
    /// Nothing is acknowledged again and again. If that can be because large datagrams do not pass any more, the peer is
    /// asked by a small one.
    pub(super) fn ask_by_small(&mut self, index: u32) {
        if self.may_be_too_large(index) {
            self.actives[index as usize].send.ask_before_all();
        }
    }

    /// Something in flight is larger than what passes nearly everywhere, and may be cut.
    fn may_be_too_large(&self, index: u32) -> bool {
        let active = &self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let p = &self.peers[flow.peer as usize];
        let most = usize::from(BASE_DATAGRAM) - p.format.overhead();
        p.settles() && p.is_confirmed() && self.mtu_of(flow) > BASE_DATAGRAM && active.send.exceeds(flow, most)
    }

    /// The peer answers, but acknowledges nothing of what was sent again and again: small datagrams pass, and large ones
    /// do not (a black hole: RFC 8899, 4.3). What is in flight is cut anew.
    #[cold]
    pub(super) fn suspect_path(&mut self, index: u32) {
        if self.actives[index as usize].send.is_settling() || !self.may_be_too_large(index) {
            return;
        }
        let flow = &self.flows[self.actives[index as usize].flow as usize];
        let (peer, rail) = (flow.peer, flow.rail());
        #[cfg(feature = "tracing")]
        let (before, address) = (self.mtu_of(flow), self.peers[peer as usize].address);
        event!(
            INFO, processor = self.processor, peer, %address, rail, before, bytes = BASE_DATAGRAM,
            "large datagrams are lost: path MTU taken back"
        );
        self.set_mtu((peer, rail), BASE_DATAGRAM, false);
        // A search that runs does not look below the size from which it has begun.
        if let Some(flow) = self.find_flow(peer, FlowKey::new(rail, 0)) {
            let active = self.activate(flow);
            let active = &mut self.actives[active as usize];
            if active.probe.running() {
                active.probe.stop();
                active.deadlines.stop(Timer::Mtu);
            }
        }
        self.settle(index);
    }

    /// A packet that is to go next does not fit the path any more. `again`: it has been sent before.
    #[cold]
    pub(super) fn cut_anew(&mut self, index: u32, again: bool) {
        if again {
            self.settle(index);
            return;
        }
        let room = self.room_of(index);
        let active = &mut self.actives[index as usize];
        active.send.cut_queue(&mut self.sources, room);
        self.mark_ready(index);
    }

    /// Asks the peer to declare void what is in flight. Until it has, nothing of the flow is sent.
    pub(super) fn settle(&mut self, index: u32) {
        let now = self.now;
        self.actives[index as usize].send.begin_settling(now);
        let at = now + self.rto(index);
        let deadlines = &mut self.actives[index as usize].deadlines;
        deadlines.stop(Timer::Reorder);
        deadlines.set(Timer::Rto, at);
        self.mark_ready(index);
    }

    pub(super) fn write_settle(&mut self, index: u32, number: Seq, burst: &mut Burst) {
        let flow = &self.flows[self.actives[index as usize].flow as usize];
        let numbers = (flow.send_next(), flow.expected());
        self.write_about(index, Kind::Settle, numbers, number, &[], burst);
    }

    pub(super) fn write_settled(&mut self, index: u32, burst: &mut Burst) {
        let active = &mut self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let next = flow.send_next();
        if let Some(&path) = self.rails.reply(flow.peer, flow.rail()) {
            burst.redirect(path);
        }
        let Some(done) = active.receive.take_settled() else {
            return;
        };
        let (words, count) = done.bitmap;
        let numbers = (next, done.expected);
        self.write_about(index, Kind::Settled, numbers, done.number, &words[..count], burst);
    }

    /// Writes a packet about the numbers of a flow.
    fn write_about(
        &mut self,
        index: u32,
        kind: Kind,
        (sequence, acknowledgement): (Seq, Seq),
        message: Seq,
        bitmap: &[u64],
        burst: &mut Burst,
    ) {
        let active = &self.actives[index as usize];
        let flow = &self.flows[active.flow as usize];
        let peer = &self.peers[flow.peer as usize];
        let base = Base {
            kind,
            channel: flow.channel(),
            source: self.processor,
            destination: peer.processor,
            session: peer.remote_token(),
            sequence,
            acknowledgement,
            rail: flow.rail(),
            message,
        };
        let stamp = active.receive.timestamp(self.now, &self.config);
        let mut header = Builder::new(burst.header(), &base);
        finish_extensions(&mut header, stamp, None, peer.checksums(), None);
        if !bitmap.is_empty() {
            header.sack(bitmap);
        }
        let written = Written::of(header, 0);
        finish(burst, written, Body::Empty, self.sealing.as_deref_mut());
        self.stats.packets_sent += 1;
    }

    /// The peer wants what is in flight to us void.
    #[cold]
    pub(super) fn handle_settle(&mut self, peer: u32, source: SocketAddr, base: &Base) -> Result<(), DropReason> {
        let flow = self.flow_for(peer, FlowKey::of(base));
        let index = self.activate(flow);
        let active = &mut self.actives[index as usize];
        let state = &mut self.flows[flow as usize];
        if !active.receive.settle(state, base.message, base.sequence) {
            return Err(DropReason::BeyondWindow);
        }
        active.deadlines.stop(Timer::Nack);
        active.receive.answer_settle();
        self.note_reply_of_old(peer, base.rail, source);
        self.mark_ready(index);
        Ok(())
    }

    /// What was in flight is void, except for what had arrived.
    #[cold]
    pub(super) fn handle_settled(&mut self, peer: u32, packet: &Packet<&[u8]>, base: &Base) -> Result<(), DropReason> {
        let flow = self.find_flow(peer, FlowKey::of(base)).ok_or(DropReason::Unsolicited)?;
        let index = self.flows[flow as usize].active;
        let active = self.actives.get_mut(index as usize).ok_or(DropReason::Unsolicited)?;
        let send = &mut active.send;
        let ack = base.acknowledgement;
        if !send.awaits_settled(base.message) {
            return Err(DropReason::Unsolicited);
        }
        if ack.before(send.first_unacknowledged()) || ack.after(self.flows[flow as usize].send_next()) {
            return Err(DropReason::BadAck);
        }
        send.end_settling();
        self.release_up_to(index, ack);
        if packet.flags().contains(Flags::SACK) {
            self.apply_bitmap(index, packet);
        }
        let room = self.room_of(index);
        let active = &mut self.actives[index as usize];
        active.send.requeue(&self.flows[flow as usize], &mut self.sources, room);
        for timer in [Timer::Rto, Timer::Reorder, Timer::Persist] {
            active.deadlines.stop(timer);
        }
        self.stats.flows_settled += 1;
        self.search_mtu_again(index);
        self.leave_rail(index);
        self.after_ack(index, true);
        Ok(())
    }
}
