//! Single datagrams, as in request and reply: a short way for the usual case. All other cases use the code for bursts.

use std::net::{IpAddr, SocketAddr};

use super::{
    ATTACH, DpdkBackend, ETHERNET, Packet, Payload, Scope, Slot, UdpChecksum, Usual,
    gather::{Gather, Outgoing, copy_all},
    is_large,
    sys::Found,
};
use crate::{backends::Sent, time::Instant};

impl DpdkBackend {
    /// The largest datagram that [`transmit_single`](Self::transmit_single) sends, in bytes. 0: it sends none.
    pub(super) fn most_single(&self) -> usize {
        match self.checksum {
            UdpChecksum::Absent => self.max_datagram.min(ATTACH - 1),
            UdpChecksum::Software | UdpChecksum::Port => 0,
        }
    }

    /// Sends a datagram over IPv4 to the neighbour of the last datagram, if it is copied as a whole and needs no
    /// checksum. `None`: it is another datagram, or there is no buffer for it.
    #[inline(always)]
    pub(super) fn transmit_single(&mut self, now: Instant, transmit: Outgoing<'_>) -> Option<Sent> {
        let len = transmit.len;
        let SocketAddr::V4(to) = transmit.destination else {
            return None;
        };
        if !(1..=self.single).contains(&len) || len > transmit.segment_size {
            return None;
        }
        let template = self.neighbours.last(now, IpAddr::V4(*to.ip()))?;
        let mut packet = self.port.shared.pools.send.take_one(Usual::HEADERS + len)?;
        let (head, payload) = packet.data_mut().split_first_chunk_mut()?;
        self.identification = self.identification.wrapping_add(1);
        let ports = [self.host.addr.port(), to.port()];
        template.write_usual(head, len as u16, ports, self.identification);
        copy_all(transmit.spans, payload);
        let sent = self.send_packet(now, packet);
        self.count_sent(sent, 1, len);
        Some(sent)
    }

    /// Sends a single datagram to a neighbour whose Ethernet address is known. `None`: the address is not known. With a
    /// `scope`, the last piece of the payload is sent by reference if it is large; afterwards nothing refers to it any
    /// more.
    #[inline(always)]
    pub(super) fn send_one<'env>(
        &mut self,
        now: Instant,
        transmit: &Outgoing<'env>,
        scope: Option<&Scope<'_, 'env>>,
    ) -> Option<Sent> {
        let to = transmit.destination;
        let template = self.neighbours.last(now, to.ip())?;
        let at = template.len();
        let pool = &*self.port.shared.pools.send;
        let mut gather = Gather::new(transmit.spans);
        let stays = scope.and_then(|scope| Some((scope, gather.tail(transmit.len).filter(is_large)?)));
        let copied = transmit.len - stays.map_or(0, |(_, tail)| tail.len());
        let Some(mut packet) = pool.take_one(at + copied) else {
            // All buffers are in the port's queue.
            return Some(Sent::Busy);
        };
        let frame = packet.data_mut();
        gather.copy(&mut frame[at..]);
        let ports = [self.host.addr.port(), to.port()];
        self.identification = self.identification.wrapping_add(1);
        let headers = template.headers(at + transmit.len, ports, self.checksum);
        headers.write(frame, self.identification);
        if self.checksum == UdpChecksum::Port {
            packet.ask_udp_checksum(ETHERNET, headers.ip());
        }
        if let Some((scope, tail)) = stays
            && !scope.attach(&mut packet, pool, tail)
        {
            return Some(Sent::Busy);
        }
        Some(self.send_packet(now, packet))
    }

    #[inline(always)]
    fn send_packet(&mut self, now: Instant, packet: Packet) -> Sent {
        self.stats.transmit_calls += 1;
        let sent = self.queues[self.next_queue].send_one(packet);
        self.turn();
        match sent {
            Ok(()) => {
                self.full_since = None;
                Sent::All
            }
            Err(packet) => self.insist(now, packet),
        }
    }

    /// Sends a packet that the port has not taken at the first call.
    #[cold]
    fn insist(&mut self, now: Instant, packet: Packet) -> Sent {
        match self.outgoing.push(packet) {
            Ok(()) => self.push_out(now),
            Err(_) => Sent::Dropped,
        }
    }

    /// Receives from the only queue, if that holds just one usual datagram. `None`: there are other queues, packets are
    /// staged already, `budget` is 0, or the queue holds anything else. `looks` is then the number of looks into the
    /// queue.
    #[inline(always)]
    pub(super) fn receive_single(&mut self, budget: usize, looks: &mut usize) -> Option<usize> {
        let [queue] = &mut self.alone[..] else {
            return None;
        };
        if budget == 0 || !self.staged.is_empty() {
            return None;
        }
        // A backend with all queues has the port for itself.
        debug_assert!(self.mailbox.is_empty());
        self.stats.receive_calls += 1;
        let packet = match queue.receive_or_give(&mut self.staged) {
            Found::Nothing => return Some(0),
            Found::Single(packet) => packet,
            Found::Several => {
                *looks = 1;
                return None;
            }
        };
        let checked = || packet.udp_checksum() == Some(true);
        let Some((source, end)) = self.usual.read(packet.data(), checked) else {
            *looks = 1;
            // `staged` is empty, so it has room.
            let _ = self.staged.push(packet);
            return None;
        };
        let payload = Payload::new(packet, Usual::HEADERS..end);
        self.stats.datagrams_received += 1;
        self.stats.bytes_received += payload.len() as u64;
        self.slots.set(Slot::new(payload, source));
        Some(1)
    }
}
