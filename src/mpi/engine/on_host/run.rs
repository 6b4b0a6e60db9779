#![expect(unsafe_code, reason = "buffers are memory of the caller")]
//! Which collectives go by memory that all ranks have mapped, and how that memory is made.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{
    arguments::{Arguments, suits},
    asked::Asked,
    board::Board,
    hosts::Hosts,
    levels,
    medium::register,
    state::{Borrowed, State, TwoLevels},
    steps::Steps,
};
use crate::{
    events::event,
    mpi::{
        collectives::{Call, Levels},
        engine::{
            communicator::Communicator,
            regions::Buffers,
            uninterrupted,
            window::memory::{Mapped, Offer},
        },
        error::Error,
        operation::Predefined,
    },
};

/// Most ranks on a board. Each looks at the lines of all others, so more of them are better off with a tree of messages.
const RANKS: usize = 64;
/// Most ranks of a communicator that knows their hosts: each keeps a few bytes of all.
const RANKS_OF_HOSTS: i32 = 4_096;

impl Communicator {
    /// The memory by which a blocking collective goes; made now, if it is time. `None`: the collective goes by messages, at
    /// all ranks. These say the same, because what only one of them knows is not asked before the memory is to be made.
    ///
    /// # Errors
    /// It is time, and a process is lost.
    pub(in crate::mpi::engine) fn board(
        &self,
        name: &'static str,
        call: &Call<'_>,
        buffers: &Buffers<'_>,
    ) -> Option<Result<Borrowed<'_>, Error>> {
        let engine = self.engine();
        let is_usual = (2..=RANKS_OF_HOSTS).contains(&self.size()) && !engine.check && !self.is_inter();
        if !is_usual {
            return None;
        }
        // (Collectives within the making of the memory find it taken.)
        let mut state = self.on_host().try_lock()?;
        let ranks = match &*state {
            State::Levels(levels) => levels.hosts.shape.most,
            _ => self.size() as usize,
        };
        if !suits(call, buffers, ranks) {
            return None;
        }
        match &mut *state {
            State::Made(_) | State::Levels(_) => {}
            State::Without => return None,
            State::Early(_) if !engine.fabric.is_native() => {
                *state = self.simulated();
                return matches!(*state, State::Levels(_)).then_some(Ok(state));
            }
            State::Early(left) if *left > 1 => {
                *left -= 1;
                return None;
            }
            State::Early(_) => {
                *state = State::Without;
                match self.make(name) {
                    Ok(made) => *state = made?,
                    Err(error) => return Some(Err(error)),
                }
            }
        }
        Some(Ok(state))
    }

    /// In a simulation all know all hosts, and talk by messages there, too.
    fn simulated(&self) -> State {
        let engine = self.engine();
        if engine.policy.levels == Levels::Off {
            return State::Without;
        }
        let labels = self.group().processes().map(|process| engine.fabric.host_of(process));
        let hosts = Hosts::new(labels, self.rank() as usize);
        hosts.map_or(State::Without, |hosts| {
            State::Levels(TwoLevels::new(hosts, None).into())
        })
    }

    /// Runs a collective by memory. `None`: a buffer does not fit into the address space.
    ///
    /// # Safety
    /// See [`collective`](Self::collective).
    pub(in crate::mpi::engine) unsafe fn run_on_host(
        &self,
        mut state: Borrowed<'_>,
        asked: &Asked<'_>,
    ) -> Option<Result<(), Error>> {
        let board = match &mut *state {
            State::Made(board) => board,
            // SAFETY: the caller's contract.
            State::Levels(levels) => return uninterrupted(|| unsafe { levels::run(levels, self, asked) }),
            State::Without | State::Early(_) => return None,
        };
        let arguments = Arguments::new(asked.call, asked.buffers, asked.operation);
        let mut steps = Steps {
            board,
            communicator: self,
            members: None,
            name: asked.name,
            mark: asked.mark,
            bits: asked.bits,
            yields: self.engine().yields(),
        };
        if steps.board.given_up().is_some() {
            return Some(Err(steps.failed()));
        }
        // A panic of the program's operation would leave the other ranks waiting.
        uninterrupted(|| steps.run(&arguments)).transpose()
    }

    /// How many ranks this one reaches through memory, with itself.
    fn count_in_memory(&self) -> usize {
        let (own, group) = (self.engine().process(), self.group());
        let mut near = 0;
        self.access((), |core, messenger, _| {
            let is_near = |process: &u32| {
                let peer = core.peers.get(*process);
                *process == own || peer.is_some_and(|peer| messenger.layer().is_in_memory(peer))
            };
            near = group.processes().filter(is_near).count();
        });
        near
    }

    /// Finds out which ranks share a host, and makes the memory of those that do, together with all other ranks. `None`:
    /// there is none, at any rank.
    fn make(&self, name: &'static str) -> Result<Option<State>, Error> {
        let (rank, size) = (self.rank() as usize, self.size() as usize);
        let near = if self.engine().has_memory() {
            self.count_in_memory()
        } else {
            1
        };
        let offer = (near > 1).then(|| Offer::open(self.engine())).flatten();
        let mut own = offer.as_ref().map_or_else(Default::default, Offer::words).to_vec();
        own.push(near as i64);
        let all = self.share(name, &own)?;
        let words = || all.chunks_exact(own.len()).map(|own| own.split_at(own.len() - 1));
        let labels: Vec<_> = words().map(|(words, _)| Offer::host_of(words)).collect();
        // All ranks of a host must reach each other, or none uses memory: all see that alike.
        if !all_reach(&labels, words().map(|(_, near)| near[0])) {
            return Ok(None);
        }
        let one = labels[0].is_some() && labels.iter().all(|label| *label == labels[0]);
        let hosts = match one {
            true => None,
            false if self.engine().policy.levels == Levels::Off => return Ok(None),
            false => match Hosts::new(labels.iter().map(Option::as_ref), rank) {
                None => return Ok(None),
                some => some,
            },
        };
        let most = hosts.as_ref().map_or(size, |hosts| hosts.shape.most);
        if most > RANKS {
            return Ok(None);
        }
        let (place, here, first) = hosts.as_ref().map_or((rank, size, 0), |hosts| {
            (hosts.place, hosts.here.len(), hosts.here[0] as usize)
        });
        let giver = words().nth(first).map(|(words, _)| words.to_vec());
        let offer = offer.filter(|_| here > 1);
        let mapped = offer.and_then(|offer| self.map_board(offer, (place, here), giver));
        let mut missing = [mapped.is_none() && here > 1, !register()].map(i64::from);
        self.agree(name, &mut missing, Predefined::Max)?;
        let [is_made, one_sided] = missing.map(|missing| missing == 0);
        event!(
            DEBUG,
            rank = self.rank(),
            size,
            here,
            is_made,
            "memory of a communicator"
        );
        if !is_made {
            return Ok(None);
        }
        let board = mapped.map(|mapped| Board::new(mapped, (place, here), one_sided));
        Ok(match hosts {
            Some(hosts) => Some(State::Levels(TwoLevels::new(hosts, board).into())),
            None => board.map(State::Made),
        })
    }

    /// Maps the memory of this host's ranks, of which this one has that place: the first one makes it, and is found by the
    /// words of `giver`.
    fn map_board(&self, mut offer: Offer, (place, here): (usize, usize), giver: Option<Vec<i64>>) -> Option<Mapped> {
        let len = Board::bytes(here) as u64;
        if place > 0 {
            let giver = giver.map(|words| (words, len));
            return offer.exchange(self.engine(), 0, giver.as_slice()).pop().flatten();
        }
        let made = offer.make(len);
        offer.exchange(self.engine(), here - 1, &[]);
        made
    }
}

/// Whether each rank with a label reaches as many through memory as have that label.
fn all_reach<L: Ord>(labels: &[Option<L>], near: impl Iterator<Item = i64>) -> bool {
    let mut members = BTreeMap::new();
    for label in labels.iter().flatten() {
        *members.entry(label).or_insert(0) += 1;
    }
    let mut each = labels.iter().zip(near);
    each.all(|(label, near)| label.as_ref().is_none_or(|label| members[label] == near))
}
