//! What a [`Remote`] is told by its host.

use super::Remote;
use crate::{
    id::{PeerId, SendToken},
    reliability::{
        Event, Origin, Sink, Verdict,
        delegated::record::{DELIVERY, Kind, LOST, NEW, Record},
    },
    time::Instant,
    wire::{Packet, Seq},
};

/// What comes in.
impl Remote {
    /// Takes in a record of the host's.
    #[inline]
    pub(in crate::reliability::delegated) fn handle_record<S: Sink>(
        &mut self,
        now: Instant,
        octets: &[u8],
        sink: &mut S,
    ) {
        self.now = self.now.max(now);
        self.stats.packets_received += 1;
        let Some(record) = Record::report(octets) else {
            return;
        };
        if record.kind == Kind::Peer {
            return self.learn(&record);
        }
        if record.kind == Kind::Idle {
            self.idle = record.a;
            return;
        }
        let Some(&peer) = self.ours.get(record.peer as usize) else {
            return;
        };
        let peer = PeerId(peer);
        match record.kind {
            Kind::Deliver => self.deliver(peer, &record, &octets[DELIVERY..], sink),
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
            _ => {}
        }
    }

    #[inline]
    fn deliver<S: Sink>(&mut self, peer: PeerId, record: &Record, packet: &[u8], sink: &mut S) {
        let Ok(packet) = Packet::new_checked(packet) else {
            return;
        };
        self.follow(peer, record.session);
        self.stats.note_delivered(packet.payload().len() as u32);
        let p = &mut self.peers[peer.index()];
        p.taken = p.taken.saturating_add(record.value);
        let origin = Origin {
            peer,
            channel: record.channel,
            session: record.session,
            cost: record.value,
        };
        // It has been acknowledged: it can not be put off any more. No correct peer comes to that.
        if sink.deliver(origin, packet) != Verdict::Taken && p.session == record.session {
            self.give_up(peer);
        }
    }

    /// Ends the session, whose end will be told.
    pub(in crate::reliability::delegated) fn give_up(&mut self, peer: PeerId) {
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

    /// Something of this session has come: what came before is over.
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
            if outstanding.told.is_some() {
                let token = SendToken(token);
                self.events.push_back(Event::Sent { peer, token });
            }
            self.outstanding.remove(&token);
        }
        self.unblock(peer);
    }
}
