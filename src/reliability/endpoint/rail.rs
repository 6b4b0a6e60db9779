//! What is known of the rails of each peer.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use core::{net::SocketAddr, time::Duration};

use super::{pace::Pace, watch::Watch};
use crate::reliability::{
    Path,
    flow::{BASE_DATAGRAM, NONE},
};

/// Whether a rail can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RailState {
    /// The peer has not answered on it in this session.
    #[default]
    Unproven,
    /// Data goes there.
    Up,
    /// It was up, and nothing has come through since.
    Down,
}

/// The state of one rail to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RailStats {
    /// Where its packets go.
    pub path: Path,
    /// Whether it can be used.
    pub state: RailState,
    /// Round trip of the last probe that was answered; zero: none was.
    pub round_trip: Duration,
    /// Largest datagram known to pass, bytes.
    pub max_datagram: u16,
    /// Bytes of the datagrams that its flows have sent since the rail was added.
    pub bytes_sent: u64,
    /// Times that it was found dead since the rail was added.
    pub failures: u64,
}

impl RailStats {
    /// Nothing has gone there yet.
    pub(crate) fn new(path: Path, state: RailState) -> Self {
        Self {
            path,
            state,
            round_trip: Duration::ZERO,
            max_datagram: 0,
            bytes_sent: 0,
            failures: 0,
        }
    }
}

#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(super) struct Rail {
    /// Where our packets go. `None`: where the peer's own address is (the first rail), or we have no such rail.
    pub(super) path: Option<Path>,
    /// Where the peer's last packet with a number of this rail came from: its acknowledgement goes there.
    pub(super) reply: Option<Path>,
    pub(super) state: RailState,
    /// It stands in for others, see [`backup`](super::backup).
    pub(super) is_backup: bool,
    /// It is a backup, and those for which it stands in are up.
    pub(super) rests: bool,
    pub(super) mtu: u16,
    pub(super) mtu_found: bool,
    /// The probes that are under way, or were last.
    question: Option<Question>,
    /// When the first of them was sent, and when one was answered last, ns.
    pub(super) silent_since: u64,
    pub(super) answered_at: u64,
    /// Round trip of that, ns.
    pub(super) round_trip: u64,
    /// Probes since the rail was up.
    pub(super) tries: u32,
    pub(super) bytes_sent: u64,
    /// Times that it was found dead.
    pub(super) failures: u64,
    pub(super) failures_of_session: u64,
    pub(super) pace: Pace,
    pub(super) watch: Watch,
}

/// Probes that can be told from each other by their answers. With the back-off between two, an answer comes sooner than so
/// many.
const PROBES: u32 = 16;

/// What a rail is asked until it answers, by one probe after the other.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
struct Question {
    /// The number of the first probe, a multiple of [`PROBES`]. That of each is larger by its place in `asked`.
    secret: u32,
    /// When the probes were sent, ns.
    asked: [u64; PROBES as usize],
    last: u8,
    answered: bool,
}

/// What an answer to a probe is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// To no probe of this rail.
    Foreign,
    /// The rail works.
    First,
    /// One more, after the first: a measurement.
    Further,
}

impl Rail {
    /// New data goes there.
    pub(super) fn carries(&self) -> bool {
        self.state == RailState::Up && !self.rests
    }

    /// The peer has been asked, and has not answered.
    pub(super) fn owes(&self) -> bool {
        self.question.as_ref().is_some_and(|question| !question.answered)
    }

    /// When it was asked last, ns.
    pub(super) fn asked_at(&self) -> Option<u64> {
        { self.question.as_ref() }.map(|question| question.asked[usize::from(question.last)])
    }

    /// Within so many ns before now, it was not asked.
    pub(super) fn is_unasked_for(&self, now: u64, nanos: u64) -> bool {
        self.asked_at().is_none_or(|asked| now - asked > nanos)
    }

    /// The number of a probe that is sent now. `secret`: for a new question.
    pub(super) fn ask(&mut self, now: u64, secret: u32) -> u32 {
        let question = match &mut self.question {
            Some(question) if !question.answered => {
                question.last = (question.last + 1) % PROBES as u8;
                question
            }
            known => {
                self.silent_since = now;
                known.insert(Question {
                    secret: secret / PROBES * PROBES,
                    asked: [now; PROBES as usize],
                    last: 0,
                    answered: false,
                })
            }
        };
        question.asked[usize::from(question.last)] = now;
        question.secret + u32::from(question.last)
    }

    /// A probe is answered. The round trip is the shortest of a question: of the first ones, an answer may have waited long.
    pub(super) fn answer(&mut self, now: u64, number: u32) -> Answer {
        let matches = |question: &&mut Question| question.secret == number / PROBES * PROBES;
        let Some(question) = self.question.as_mut().filter(matches) else {
            return Answer::Foreign;
        };
        let trip = now - question.asked[(number % PROBES) as usize];
        if core::mem::replace(&mut question.answered, true) {
            // It may be a copy, which shows nothing of now.
            self.round_trip = self.round_trip.min(trip);
            return Answer::Further;
        }
        (self.answered_at, self.tries) = (now, 0);
        let is_only = question.asked[usize::from(question.last)] == self.silent_since;
        if self.round_trip == 0 || is_only {
            self.round_trip = trip;
        }
        Answer::First
    }

    /// Another session begins, in which nothing is under way.
    pub(super) fn begin(&mut self) {
        (self.reply, self.question, self.tries, self.failures_of_session) = (None, None, 0, 0);
        self.rests = false;
        self.pace.stop();
        self.watch = Watch::default();
    }
}

/// The rails of one peer.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(super) struct Several {
    pub(super) rails: Vec<Rail>,
    /// The backend's port by which the first rail leaves.
    pub(super) port: u8,
    /// The rail by which a session is opened; another one is taken when there is no answer.
    pub(super) opens_by: u8,
    /// Since when, ns.
    pub(super) opens_since: u64,
    /// Small messages that have come by another rail than ours go by, see [`Endpoint::follow`](super::Endpoint).
    pub(super) apart: u8,
    /// The round trip that small messages have if nothing is in their way, ns; 0: none is known.
    pub(super) usual_trip: u32,
}

/// The rails of the peers that have several, or one by another port than 0.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(super) struct Rails {
    /// By the peer's place in its table, up to the last that has any: each packet of a session with rails looks here.
    of: Vec<Option<Box<Several>>>,
    /// The peers to which rails lead, by the addresses there; [`NONE`] if those of several peers lead to one.
    at: BTreeMap<SocketAddr, u32>,
    /// Probes so far: no two have the same number.
    pub(super) probes: u64,
}

impl Rails {
    #[inline]
    fn of(&self, peer: u32) -> Option<&Several> {
        self.of.get(peer as usize)?.as_deref()
    }

    #[inline]
    fn of_mut(&mut self, peer: u32) -> Option<&mut Several> {
        self.of.get_mut(peer as usize)?.as_deref_mut()
    }

    /// Those of a peer, of which nothing may be known yet.
    pub(super) fn enter(&mut self, peer: u32) -> &mut Several {
        let place = peer as usize;
        if self.of.len() <= place {
            self.of.resize_with(place + 1, || None);
        }
        self.of[place].get_or_insert_default()
    }

    #[inline]
    pub(super) fn get(&self, peer: u32, rail: u8) -> Option<&Rail> {
        self.of(peer)?.rails.get(usize::from(rail))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, peer: u32, rail: u8) -> Option<&mut Rail> {
        self.of_mut(peer)?.rails.get_mut(usize::from(rail))
    }

    /// All of a peer, those that only the peer has included.
    #[inline]
    pub(super) fn all(&self, peer: u32) -> &[Rail] {
        self.of(peer).map_or(&[], |several| &several.rails)
    }

    /// The port by which the first rail leaves.
    pub(super) fn port(&self, peer: u32) -> u8 {
        self.of(peer).map_or(0, |several| several.port)
    }

    /// The way back to where packets of the peer's rail come from.
    #[inline]
    pub(super) fn reply(&self, peer: u32, rail: u8) -> Option<&Path> {
        self.get(peer, rail)?.reply.as_ref()
    }

    /// From now on, the way back is this one for packets of all the peer's rails.
    #[cold]
    pub(super) fn reply_by(&mut self, peer: u32, path: Path) {
        let rails = self.of_mut(peer).into_iter().flat_map(|several| &mut several.rails);
        for reply in rails.filter_map(|rail| rail.reply.as_mut()) {
            *reply = path;
        }
    }

    /// There are more than the first, on one side at least.
    pub(super) fn are_several(&self, peer: u32) -> bool {
        self.all(peer).len() > 1
    }

    /// The rail, made if need be; `rail` is below [`MAX_RAILS`].
    pub(super) fn make(&mut self, peer: u32, rail: u8) -> &mut Rail {
        let rails = &mut self.enter(peer).rails;
        while rails.len() <= usize::from(rail) {
            let state = if rails.is_empty() {
                RailState::Up
            } else {
                RailState::Unproven
            };
            rails.push(Rail {
                state,
                mtu: BASE_DATAGRAM,
                ..Rail::default()
            });
        }
        &mut rails[usize::from(rail)]
    }

    #[cold]
    pub(super) fn mtu(&self, peer: u32, rail: u8) -> u16 {
        self.get(peer, rail).map_or(BASE_DATAGRAM, |rail| rail.mtu)
    }

    /// No backend's port takes more.
    pub(super) fn limit_mtu(&mut self, most: u16) {
        for rail in { self.of.iter_mut().flatten() }.flat_map(|several| &mut several.rails) {
            rail.mtu = rail.mtu.min(most);
        }
    }

    /// The numbers of the rails that data goes by: those that are up and do not rest.
    pub(super) fn up(&self, peer: u32) -> impl Iterator<Item = u8> + '_ {
        (0..)
            .zip(self.all(peer))
            .filter(|(_, rail)| rail.carries())
            .map(|(number, _)| number)
    }

    /// A rail of the peer leads to that address.
    pub(super) fn leads_to(&mut self, peer: u32, address: SocketAddr) {
        let known = self.at.entry(address).or_insert(peer);
        if *known != peer {
            *known = NONE;
        }
    }

    /// The peer of which a rail leads to that address, if it is the only one. (Hosts in different places may have the
    /// same private address.)
    #[cold]
    pub(super) fn peer_at(&self, address: SocketAddr) -> Option<u32> {
        self.at.get(&address).copied().filter(|&peer| peer != NONE)
    }

    /// The number of the peer's rail with that path; `first`: the path of the first one.
    pub(super) fn find(&self, peer: u32, path: Path, first: Path) -> Option<u8> {
        let paths = { self.all(peer).iter() }.map(|rail| rail.path);
        let mut all = core::iter::once(Some(first)).chain(paths.skip(1)).zip(0..);
        all.find(|(its, _)| *its == Some(path)).map(|(_, number)| number)
    }

    /// The rail by which a session is opened.
    #[cold]
    pub(super) fn opens_by(&self, peer: u32) -> u8 {
        self.of(peer).map_or(0, |several| several.opens_by)
    }

    pub(super) fn open_by(&mut self, peer: u32, rail: u8, now: u64) {
        if let Some(several) = self.of_mut(peer) {
            (several.opens_by, several.opens_since) = (rail, now);
        }
    }

    /// A session is opened by the next rail, unless that has been so for less than `patience`.
    pub(super) fn open_by_next(&mut self, peer: u32, now: u64, patience: u64) {
        let Some(several) = self.of_mut(peer) else { return };
        if now - several.opens_since < patience {
            return;
        }
        let after = usize::from(several.opens_by) + 1;
        let mut rest = several.rails.iter().zip(0..).skip(after);
        let next = rest.find(|(rail, _)| rail.path.is_some());
        (several.opens_by, several.opens_since) = (next.map_or(0, |(_, number)| number), now);
    }

    pub(super) fn forget(&mut self, peer: u32) {
        let several = self.of.get_mut(peer as usize).and_then(Option::take);
        let Some(several) = several else { return };
        for path in several.rails.iter().filter_map(|rail| rail.path) {
            if self.at.get(&path.address) == Some(&peer) {
                self.at.remove(&path.address);
            }
        }
    }
}
