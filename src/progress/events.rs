//! Events until the application asks for them.

use std::collections::{BTreeMap, VecDeque};

use crate::reliability::{Event, PeerId, SendToken};

/// Most messages by reference whose end ([`Event::Sent`]) waits to be told; beyond, no more are taken.
pub(super) const MAX_SENT: u32 = 65_536;

/// A queue of events that does not grow while nobody asks. Of sessions that have begun and ended untold, only the last end
/// is told; what comes back of a peer's messages is summed up; that there is room again is told once. The one kind that
/// must be told one by one is counted.
#[derive(Default)]
pub(super) struct Events {
    queue: VecDeque<Entry>,
    /// Entries ever taken.
    taken: u64,
    /// Which entry tells of a peer what is told once, counted from the first ever.
    places: BTreeMap<(PeerId, Once), u64>,
    /// Untold [`Event::Sent`].
    sent: u32,
    /// The message whose end nobody wants to be told.
    muted: Option<SendToken>,
}

struct Entry {
    event: Event,
    /// A session that has begun since this one ended.
    up: Option<Event>,
}

/// What is told of a peer by one entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Once {
    End,
    Returned,
    Room,
}

impl Once {
    fn of(event: &Event) -> Option<(PeerId, Self)> {
        match *event {
            Event::Down { peer, .. } => Some((peer, Self::End)),
            Event::Returned { peer, .. } => Some((peer, Self::Returned)),
            Event::Writable { peer } => Some((peer, Self::Room)),
            Event::Up { .. } | Event::Sent { .. } => None,
        }
    }
}

impl Events {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// [`Event::Sent`] that wait to be told.
    pub(super) fn sent(&self) -> u32 {
        self.sent
    }

    /// The end of this message will not be told, but [`is_muted`](Self::is_muted) says whether it has come.
    pub(super) fn mute(&mut self, token: SendToken) {
        self.muted = Some(token);
    }

    /// This message, which was muted last, has not been acknowledged as a whole.
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
            // Takes the place of the one that is told now.
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
    /// The later event of the same kind and peer is told together with this one.
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
            // The first is told, with how many there are.
            (Event::Returned { messages: sum, .. }, Event::Returned { messages, .. }) => {
                *sum = sum.saturating_add(messages);
            }
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
