//! Reports of the host to a [`ProxyEndpoint`].
//!
//! Records lie in memory where their writer may still write, and a broken one may do so at any time. What is decided by is
//! copied first, once, so that what is used is what was looked at. The payload of a packet goes straight to where it stays.

use core::mem;

use super::ProxyEndpoint;
use crate::{
    id::{PeerId, SendToken},
    poller::protocol::record::{DELIVERY, Kind, LOST, NEW, RAIL_DOWN, RAIL_UP, Record},
    reliability::{Event, Origin, Sink, Verdict},
    span::Span,
    time::Instant,
    wire::{Flags, Head, Kind as PacketKind, Packet, Seq},
};

/// So many bytes of a record are copied to look at. The header of nearly every packet is among them, and all of every
/// record that brings none.
const NEAR: usize = 96;

/// The incoming side.
impl ProxyEndpoint {
    /// Takes in a record of the host's, which may change while it is read.
    #[inline]
    pub(crate) fn read_record<S: Sink + ?Sized>(&mut self, now: Instant, record: Span<'_>, sink: &mut S) {
        self.now = self.now.max(now);
        self.stats.packets_received += 1;
        let mut near = [0; NEAR];
        if record.len() < NEAR {
            let near = &mut near[..record.len()];
            record.copy_to(near);
            return self.handle_bytes(near, sink);
        }
        let (beginning, rest) = record.split_at(NEAR);
        beginning.copy_to(&mut near);
        if near[0] != Kind::Deliver as u8 {
            return self.handle_bytes(&near, sink);
        }
        let packet = record.len() - DELIVERY;
        if sink.takes_apart()
            && let Some((head, header)) = Head::of_data(&near[DELIVERY..], packet)
        {
            let Some((peer, delivery)) = self.addressed(&near) else {
                return;
            };
            let payload = record.part(DELIVERY + header..record.len());
            let origin = self.begin_delivery(peer, &delivery, payload.len());
            let verdict = sink.deliver_apart(origin, head, payload);
            return self.end_delivery(&origin, verdict);
        }
        self.handle_whole(&near, rest, sink);
    }

    /// The same for one whose packet must be looked at as a whole, of which the beginning is here already.
    fn handle_whole<S: Sink + ?Sized>(&mut self, beginning: &[u8], rest: Span<'_>, sink: &mut S) {
        let mut whole = mem::take(&mut self.whole);
        whole.clear();
        whole.extend_from_slice(beginning);
        rest.append_to(&mut whole);
        self.handle_bytes(&whole, sink);
        self.whole = whole;
    }

    /// The content of a record, and the peer that it is about.
    #[inline(always)]
    fn addressed(&self, bytes: &[u8]) -> Option<(PeerId, Record)> {
        let record = Record::report(bytes)?;
        let &peer = self.ours.get(record.peer as usize)?;
        // The host may have said that it has more than we allow.
        ((peer as usize) < self.peers.len()).then_some((PeerId(peer), record))
    }

    /// Takes in a record that does not change any more.
    fn handle_bytes<S: Sink + ?Sized>(&mut self, bytes: &[u8], sink: &mut S) {
        match Record::report(bytes) {
            Some(record) if record.kind == Kind::Peer => return self.learn(&record),
            Some(record) if record.kind == Kind::Idle => {
                self.idle = record.a;
                return;
            }
            _ => {}
        }
        let Some((peer, record)) = self.addressed(bytes) else {
            return;
        };
        match record.kind {
            Kind::Deliver => self.deliver(peer, &record, &bytes[DELIVERY..], sink),
            Kind::Up => {
                self.follow(peer, record.session);
                self.events.push_back(Event::Up {
                    peer,
                    session: record.session,
                });
            }
            Kind::Down => self.end(peer, &record),
            Kind::Sent => self.handle_sent(peer, record.c),
            Kind::Returned => self.events.push_back(Event::Returned {
                peer,
                source: record.source,
                destination: record.destination,
                message: Seq(record.value),
                messages: record.a,
            }),
            Kind::Room => {
                let p = &mut self.peers[peer.index()];
                if p.session == record.session {
                    p.copies -= p.asked.take().unwrap_or(0).min(p.copies);
                }
                self.unblock(peer);
            }
            Kind::Credit => {
                self.follow(peer, record.session);
                let p = &mut self.peers[peer.index()];
                if p.session == record.session {
                    p.cost_limit = record.a;
                    p.up = true;
                }
            }
            Kind::Rail => self.note_rail(peer, &record),
            _ => {}
        }
    }

    #[inline]
    fn deliver<S: Sink + ?Sized>(&mut self, peer: PeerId, record: &Record, packet: &[u8], sink: &mut S) {
        let Ok(packet) = Packet::new_checked(packet) else {
            return;
        };
        // What was sealed has been opened where the endpoint is.
        if packet.kind() != PacketKind::Data || packet.flags().contains(Flags::SEAL) {
            return;
        }
        let origin = self.begin_delivery(peer, record, packet.payload().len());
        let verdict = sink.deliver(origin, packet);
        self.end_delivery(&origin, verdict);
    }

    #[inline(always)]
    fn begin_delivery(&mut self, peer: PeerId, record: &Record, payload: usize) -> Origin {
        self.follow(peer, record.session);
        self.stats.note_delivered(1, payload as u32);
        let p = &mut self.peers[peer.index()];
        p.taken = p.taken.saturating_add(record.value);
        Origin {
            peer,
            channel: record.channel,
            session: record.session,
            cost: record.value,
            confirmed: true,
        }
    }

    #[inline(always)]
    fn end_delivery(&mut self, origin: &Origin, verdict: Verdict) {
        // It has been acknowledged: it cannot be put off any more. No correct peer comes to that.
        if verdict != Verdict::Taken && self.peers[origin.peer.index()].session == origin.session {
            self.give_up(origin.peer);
        }
    }

    /// Ends the session, whose end will be told.
    pub(crate) fn give_up(&mut self, peer: PeerId) {
        let p = &mut self.peers[peer.index()];
        if !p.broken {
            p.broken = true;
            self.order(Kind::GiveUp, peer, 0);
        }
    }

    /// The host has a peer.
    #[cold]
    fn learn(&mut self, record: &Record) {
        if record.peer as usize != self.ours.len() {
            return;
        }
        let address = record.address();
        let ours = match self.addresses.get(&address) {
            Some(&peer) => peer,
            None => match self.new_peer(address, record.destination, record.peer) {
                Some(peer) => peer.0,
                // The host has no more than we allow.
                None => NEW,
            },
        };
        self.ours.push(ours);
    }

    /// A record of this session has come: the sessions before it are over.
    #[inline]
    fn follow(&mut self, peer: PeerId, session: u32) {
        let Some(p) = self.peers.get_mut(peer.index()) else {
            return;
        };
        if p.session != session && session.wrapping_sub(p.session) < 1 << 31 {
            p.begin(session);
        }
        if p.session == session && !self.down.is_empty() {
            self.down.remove(&peer.0);
        }
    }

    #[cold]
    fn end(&mut self, peer: PeerId, record: &Record) {
        let p = &mut self.peers[peer.index()];
        let (session, error) = (record.session, record.error());
        let lost = record.flags & LOST != 0 || p.last > record.c;
        if p.session == session {
            p.begin(session.wrapping_add(1));
            self.down.insert(peer.0, error);
        }
        p.shared = 0;
        p.large = 0;
        self.outstanding.retain(|_, outstanding| outstanding.peer != peer.0);
        self.events.push_back(Event::Down {
            peer,
            session,
            error,
            lost,
        });
        self.unblock(peer);
    }

    /// What is known of a rail. (The host's endpoint has no others but those that it was told to add.)
    #[cold]
    fn note_rail(&mut self, peer: PeerId, record: &Record) {
        let rail = record.channel;
        let Some(known) = self.peers[peer.index()].rails.get_mut(usize::from(rail)) else {
            return;
        };
        *known = record.rail();
        if record.flags & RAIL_UP != 0 {
            self.events.push_back(Event::RailUp { peer, rail });
        }
        if record.flags & RAIL_DOWN != 0 {
            self.events.push_back(Event::RailDown { peer, rail });
        }
    }

    fn unblock(&mut self, peer: PeerId) {
        let p = &mut self.peers[peer.index()];
        if p.blocked {
            p.blocked = false;
            self.events.push_back(Event::Writable { peer });
        }
    }

    fn handle_sent(&mut self, peer: PeerId, token: u64) {
        let Some(outstanding) = self.outstanding.get_mut(&token) else {
            return;
        };
        let p = &mut self.peers[peer.index()];
        p.shared = p.shared.saturating_sub(1);
        p.large = p.large.saturating_sub(outstanding.copy);
        outstanding.parts -= 1;
        if outstanding.parts == 0 {
            if outstanding.notify.is_some() {
                let token = SendToken(token);
                self.events.push_back(Event::Sent { peer, token });
            }
            self.outstanding.remove(&token);
        }
        self.unblock(peer);
    }
}
