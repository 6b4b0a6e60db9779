#![expect(unsafe_code, reason = "buffers are memory of the caller")]
//! Which collectives go by memory that all ranks have mapped, and how that memory is made.

use super::{
    arguments::{Arguments, suits},
    board::Board,
    state::{Borrowed, State},
    steps::Steps,
};
use crate::{
    events::event,
    mpi::{
        collectives::Call,
        engine::{communicator::Communicator, regions::Buffers, uninterrupted, window::memory::Offer},
        error::Error,
        operation::{Operation, Predefined},
    },
};

/// Most ranks. Each looks at the lines of all others, so more of them are better off with a tree of messages.
const RANKS: i32 = 64;

/// The arguments of a collective that goes by memory, as [`Communicator::collective`] has them.
#[derive(Clone, Copy)]
pub(in crate::mpi::engine) struct Asked<'a> {
    pub(in crate::mpi::engine) name: &'static str,
    pub(in crate::mpi::engine) call: &'a Call<'a>,
    pub(in crate::mpi::engine) buffers: &'a Buffers<'a>,
    pub(in crate::mpi::engine) operation: Option<&'a Operation>,
    /// A hash of the call.
    pub(in crate::mpi::engine) mark: u32,
    /// Match bits of its messages, if it had any.
    pub(in crate::mpi::engine) bits: u64,
}

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
        let is_usual = (2..=RANKS).contains(&self.size()) && !engine.check && !self.is_inter();
        if !is_usual || !engine.fabric.is_native() || !suits(call, buffers, self.size() as usize) {
            return None;
        }
        // (Collectives within the making of the memory find it taken.)
        let mut state = self.on_host().try_lock()?;
        match &mut *state {
            State::Made(_) => {}
            State::Without => return None,
            State::Early(left) if *left > 1 => {
                *left -= 1;
                return None;
            }
            State::Early(_) => {
                *state = State::Without;
                match self.make_board(name) {
                    Ok(board) => *state = State::Made(board?),
                    Err(error) => return Some(Err(error)),
                }
            }
        }
        Some(Ok(state))
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
        let State::Made(board) = &mut *state else { return None };
        let arguments = Arguments::new(asked.call, asked.buffers, asked.operation);
        let mut steps = Steps {
            board,
            communicator: self,
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

    /// Returns whether this rank reaches all others through memory.
    fn are_all_in_memory(&self) -> bool {
        let (own, group) = (self.engine().process(), self.group());
        let mut is_near = false;
        self.access((), |core, messenger, _| {
            is_near = group.processes().filter(|process| *process != own).all(|process| {
                let peer = core.peers.get(process);
                peer.is_some_and(|peer| messenger.layer().is_in_memory(peer))
            });
        });
        is_near
    }

    /// Makes the memory, together with all other ranks. `None`: there is none, at any rank.
    fn make_board(&self, name: &'static str) -> Result<Option<Board>, Error> {
        let size = self.size() as usize;
        let may_share = self.engine().has_memory() && self.are_all_in_memory();
        let offer = may_share.then(|| Offer::open(self.engine())).flatten();
        let own = offer.as_ref().map_or_else(Default::default, Offer::words);
        let all = self.share(name, &own)?;
        let is_near = |offer: &Offer| all.chunks_exact(own.len()).all(|words| offer.meets(words));
        let Some(mut offer) = offer.filter(is_near) else {
            return Ok(None);
        };
        let len = Board::bytes(size) as u64;
        // The first rank makes the memory.
        let mapped = if self.rank() == 0 {
            let made = offer.make(len);
            offer.exchange(self.engine(), size - 1, &[]);
            made
        } else {
            let first = (all[..own.len()].to_vec(), len);
            offer.exchange(self.engine(), 0, &[first]).pop().flatten()
        };
        let mut missing = [i64::from(mapped.is_none())];
        self.agree(name, &mut missing, Predefined::Max)?;
        let mapped = mapped.filter(|_| missing == [0]);
        event!(
            DEBUG,
            rank = self.rank(),
            size,
            is_made = mapped.is_some(),
            "memory of a communicator"
        );
        Ok(mapped.map(|mapped| Board::new(mapped, self.rank() as usize, size)))
    }
}
