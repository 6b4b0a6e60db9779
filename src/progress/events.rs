//! Keeps events until the application asks for them.

use std::collections::{BTreeMap, VecDeque};

use crate::reliability::{Event, PeerId, SendToken};

/// Most [`Event::Sent`] that wait for the application. Beyond that, the driver takes no further messages by reference.
pub(super) const MAX_SENT: u32 = 65_536;

/// A queue of events that does not grow while the application takes none. If several sessions of a peer begin and end
/// meanwhile, the queue reports only the last end. It adds up the returned messages of each peer, and reports only once
/// that a peer has room again, and of each rail its last state. [`Event::Sent`] is the one kind that must be reported one
/// by one, so the queue counts these events.
#[derive(Default)]
pub(super) struct Events {
    queue: VecDeque<Entry>,
    /// Entries that have left the queue since the start.
    taken: u64,
    /// For each kind of event that a peer has once: the number of its entry, counted from the first entry ever.
    places: BTreeMap<(PeerId, Once), u64>,
    /// Number of [`Event::Sent`] in the queue.
    sent: u32,
    /// The message whose [`Event::Sent`] is not reported.
    muted: Option<SendToken>,
}

struct Entry {
    event: Event,
    /// A session that has begun since this one ended.
    up: Option<Event>,
}

/// A kind of event that shares one entry per peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Once {
    End,
    Returned,
    Room,
    Rail(u8),
}

impl Once {
    fn of(event: &Event) -> Option<(PeerId, Self)> {
        match *event {
            Event::Down { peer, .. } => Some((peer, Self::End)),
            Event::Returned { peer, .. } => Some((peer, Self::Returned)),
            Event::Writable { peer } => Some((peer, Self::Room)),
            Event::RailUp { peer, rail } | Event::RailDown { peer, rail } => Some((peer, Self::Rail(rail))),
            Event::Up { .. } | Event::Sent { .. } => None,
        }
    }
}

impl Events {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of [`Event::Sent`] that the application has not taken yet.
    pub(super) fn sent(&self) -> u32 {
        self.sent
    }

    /// Suppresses the [`Event::Sent`] of this message. [`is_muted`](Self::is_muted) returns whether it is still to
    /// come.
    pub(super) fn mute(&mut self, token: SendToken) {
        self.muted = Some(token);
    }

    /// Returns whether this message, the last one muted, has not been acknowledged as a whole.
    pub(super) fn is_muted(&self, token: SendToken) -> bool {
        self.muted == Some(token)
    }

    pub(super) fn push(&mut self, event: Event) {
        if let Event::Sent { token, .. } = event {
            if self.muted == Some(token) {
                self.muted = None;
                return;
            }
            self.sent += 1;
        }
        if let Event::Up { peer, .. } = event
            && let Some(end) = self.untold((peer, Once::End))
        {
            end.up = Some(event);
            return;
        }
        if let Some(key) = Once::of(&event) {
            if let Some(entry) = self.untold(key) {
                entry.merge(event);
                return;
            }
            self.places.insert(key, self.taken + self.queue.len() as u64);
        }
        self.queue.push_back(Entry { event, up: None });
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let Entry { event, up } = self.queue.pop_front()?;
        if let Some(key) = Once::of(&event) {
            self.places.remove(&key);
        }
        self.sent -= u32::from(matches!(event, Event::Sent { .. }));
        if let Some(event) = up {
            // The start of the later session takes the place of the event that is returned now.
            self.queue.push_front(Entry { event, up: None });
        } else {
            self.taken += 1;
        }
        Some(event)
    }

    fn untold(&mut self, key: (PeerId, Once)) -> Option<&mut Entry> {
        let place = self.places.get(&key)? - self.taken;
        self.queue.get_mut(place as usize)
    }
}

impl Entry {
    /// Merges a later event of the same kind and peer into this entry.
    fn merge(&mut self, later: Event) {
        match (&mut self.event, later) {
            (
                Event::Down { lost: before, .. },
                Event::Down {
                    peer,
                    session,
                    error,
                    lost,
                },
            ) => {
                let lost = lost || *before;
                self.event = Event::Down {
                    peer,
                    session,
                    error,
                    lost,
                };
                self.up = None;
            }
            // The first event stays, with the number of messages of both.
            (Event::Returned { messages: sum, .. }, Event::Returned { messages, .. }) => {
                *sum = sum.saturating_add(messages);
            }
            (Event::RailUp { .. } | Event::RailDown { .. }, later) => self.event = later,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PeerError, wire::Seq};

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
        assert!(events.is_empty() && events.places.is_empty());
    }

    #[test]
    fn what_comes_back_is_summed_up_and_room_is_told_once() {
        let returned = |peer, messages| Event::Returned {
            peer: PeerId(peer),
            source: 1,
            destination: 9,
            message: Seq(3),
            messages,
        };
        let mut events = Events::default();
        for _ in 0..1_000 {
            for peer in 0..2 {
                events.push(returned(peer, 2));
                events.push(Event::Writable { peer: PeerId(peer) });
            }
        }
        for peer in 0..2 {
            assert_eq!(events.pop(), Some(returned(peer, 2_000)));
            assert_eq!(events.pop(), Some(Event::Writable { peer: PeerId(peer) }));
        }
        assert!(events.is_empty() && events.places.is_empty());
    }
}
