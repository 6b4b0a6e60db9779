//! Events until the application asks for them.

use std::collections::{BTreeMap, VecDeque};

use crate::reliability::{Event, PeerId};

/// A queue of events that does not grow while a peer comes and goes and nobody asks: of sessions that have begun and ended
/// untold, only the last end is told.
#[derive(Default)]
pub(super) struct Events {
    queue: VecDeque<Entry>,
    /// Entries ever taken.
    taken: u64,
    /// Which entry tells of the end of a peer's session, counted from the first ever.
    ends: BTreeMap<PeerId, u64>,
}

struct Entry {
    event: Event,
    /// A session that has begun since this one ended.
    up: Option<Event>,
}

impl Events {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn push(&mut self, event: Event) {
        match event {
            Event::Up { peer, .. } => {
                if let Some(end) = self.end_of(peer) {
                    end.up = Some(event);
                    return;
                }
            }
            Event::Down {
                peer,
                session,
                error,
                lost,
            } => {
                if let Some(end) = self.end_of(peer) {
                    let before = matches!(end.event, Event::Down { lost: true, .. });
                    end.event = Event::Down {
                        peer,
                        session,
                        error,
                        lost: lost || before,
                    };
                    end.up = None;
                    return;
                }
                self.ends.insert(peer, self.taken + self.queue.len() as u64);
            }
            Event::Sent { .. } | Event::Writable { .. } => {}
        }
        self.queue.push_back(Entry { event, up: None });
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let Entry { event, up } = self.queue.pop_front()?;
        if let Event::Down { peer, .. } = event {
            self.ends.remove(&peer);
        }
        if let Some(event) = up {
            // Takes the place of the one that is told now.
            self.queue.push_front(Entry { event, up: None });
        } else {
            self.taken += 1;
        }
        Some(event)
    }

    /// The untold end of a peer's session.
    fn end_of(&mut self, peer: PeerId) -> Option<&mut Entry> {
        let place = self.ends.get(&peer)? - self.taken;
        self.queue.get_mut(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PeerError, reliability::SendToken};

    fn up(peer: u32, session: u32) -> Event {
        let peer = PeerId(peer);
        Event::Up { peer, session }
    }

    fn down(peer: u32, session: u32, lost: bool) -> Event {
        Event::Down {
            peer: PeerId(peer),
            session,
            error: PeerError::Closed,
            lost,
        }
    }

    #[test]
    fn a_peer_that_comes_and_goes_takes_no_memory() {
        let mut events = Events::default();
        for session in 1..=1_000 {
            for peer in 0..10 {
                events.push(up(peer, session));
                events.push(down(peer, session, session == 3));
            }
        }
        assert_eq!(events.queue.len(), 20);
        events.push(up(4, 1_001));
        for peer in 0..10 {
            assert_eq!(events.pop(), Some(up(peer, 1)));
            assert_eq!(events.pop(), Some(down(peer, 1_000, true)));
            if peer == 4 {
                assert_eq!(events.pop(), Some(up(peer, 1_001)));
            }
        }
        assert_eq!(events.pop(), None);
    }

    #[test]
    fn what_is_told_in_time_is_told_as_it_came() {
        let mut events = Events::default();
        let sent = Event::Sent {
            peer: PeerId(1),
            token: SendToken(1),
        };
        for session in 1..10 {
            for event in [up(1, session), sent, down(1, session, false), up(2, session)] {
                events.push(event);
            }
            events.push(down(2, session, false));
            for event in [up(1, session), sent, down(1, session, false), up(2, session)] {
                assert_eq!(events.pop(), Some(event));
            }
            assert_eq!(events.pop(), Some(down(2, session, false)));
        }
        assert!(events.is_empty() && events.ends.is_empty());
    }
}
