#![expect(unsafe_code, reason = "buffers are memory of the caller")]
//! Which collectives go by memory that all ranks have mapped, and how that memory is made.

use alloc::boxed::Box;

use super::{
    board::Board,
    calls::{self, Arguments},
    state::State,
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

/// The arguments of a collective, as [`Communicator::collective`] has them.
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
    /// Returns whether blocking collectives may go by memory. All ranks say the same: what only one of them knows is not
    /// asked before the memory is to be made.
    pub(in crate::mpi::engine) fn may_be_on_host(&self) -> bool {
        let engine = self.engine();
        (2..=RANKS).contains(&self.size()) && !engine.check && !self.is_inter() && engine.fabric.is_native()
    }

    /// Runs a collective whose arguments have been checked by memory that all ranks have mapped. `None`: it takes the
    /// general way, at all ranks.
    ///
    /// # Safety
    /// See [`collective`](Self::collective).
    pub(in crate::mpi::engine) unsafe fn run_on_host(&self, asked: &Asked<'_>) -> Option<Result<(), Error>> {
        if !calls::suits(asked.call, asked.buffers) {
            return None;
        }
        // (Collectives within the making of the memory find it taken.)
        let mut state = self.on_host().0.try_lock().ok()?;
        let board = match &mut *state {
            State::Made(board) => board,
            State::Without => return None,
            State::Early(left) if *left > 1 => {
                *left -= 1;
                return None;
            }
            state @ State::Early(_) => match self.make_board(asked.name) {
                Ok(Some(board)) => {
                    *state = State::Made(Box::new(board));
                    let State::Made(board) = state else { return None };
                    board
                }
                Ok(None) => {
                    *state = State::Without;
                    return None;
                }
                Err(error) => {
                    *state = State::Without;
                    return Some(Err(error));
                }
            },
        };
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
        let may_share = self.engine().has_rings() && self.are_all_in_memory();
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
        Ok(mapped.map(|mapped| Board::new(mapped.into_segment(), self.rank() as usize, size)))
    }
}
