//! One collective on a board: posting, waiting for the others, and what happens when they do not come.

use super::{
    board::{Board, Posted, ROOM},
    medium::SLOT,
};
use crate::{
    error::PeerError,
    helper::give_way,
    messaging::tagged::{Outcome, Selector},
    mpi::{
        Rank,
        engine::{Communicator, buffer::Buffer, class::Class, core::Ended, request::About},
        error::{Detail, Error, ErrorClass},
    },
    span::Span,
};
use core::{cell::Cell, hint, ops::Range};

/// Looks of a rank that waits before it asks the network, too: a few microseconds.
const LOOKS: u32 = 2_000;
/// The same of a rank that shares its core with others, before it yields; and how often it yields. (The others cannot run
/// while it looks.)
const LOOKS_SHARED: u32 = 4;
const TURNS: u32 = 64;

/// Bytes of a piece, where each rank has a core: it stays in that core's cache while the next one is written.
const PIECE: usize = 16 << 10;

/// Ranks have called different collectives, or with other arguments.
const MISMATCH: u64 = u64::MAX;
/// The bit of a rank that has left without taking part; else it is dead. The lower half is one more than its process.
const LEFT: u64 = 1 << 32;

/// A collective that this rank takes part in.
pub(super) struct Steps<'a> {
    pub(super) board: &'a mut Board,
    pub(super) communicator: &'a Communicator,
    /// The ranks on the board, if these are not all of the communicator's: its *places* stand for them.
    pub(super) members: Option<&'a [u32]>,
    /// The MPI function.
    pub(super) name: &'static str,
    /// A hash of the call.
    pub(super) mark: u32,
    /// Match bits of its messages, if it had any.
    pub(super) bits: u64,
    /// Ranks share cores.
    pub(super) yields: bool,
}

impl Steps<'_> {
    #[inline(always)]
    pub(super) fn rank(&self) -> usize {
        self.board.rank()
    }

    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        self.board.size()
    }

    /// The rank in the communicator.
    #[cold]
    fn rank_at(&self, place: usize) -> Rank {
        self.members
            .and_then(|members| members.get(place).copied())
            .map_or(place as Rank, |rank| rank as Rank)
    }

    pub(super) fn process_at(&self, place: usize) -> Option<u32> {
        self.communicator.group().process(self.rank_at(place))
    }

    /// Bytes that go in one step.
    #[inline]
    pub(super) fn piece(&self) -> usize {
        // A rank that shares its core waits for a turn in each step.
        if self.yields { SLOT } else { PIECE }
    }

    /// The other ranks, each beginning with the one after it.
    #[inline]
    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.rank(), self.size());
        (rank + 1..size).chain(0..rank)
    }

    /// The next step begins, in which this rank posts `len` bytes if there are some.
    #[inline(always)]
    pub(super) fn begin(&mut self, len: Option<usize>) -> Result<(), Error> {
        self.board.begin();
        let Some(len) = len else { return Ok(()) };
        if self.board.has_room(len) {
            return Ok(());
        }
        self.await_room(len)
    }

    #[inline(never)]
    fn await_room(&mut self, len: usize) -> Result<(), Error> {
        let slowest = self.board.slowest();
        self.wait(slowest.unwrap_or_default(), |board| board.has_room(len))
    }

    /// Posts what was written: `len` bytes.
    #[inline(always)]
    pub(super) fn post(&mut self, len: usize) {
        let mark = self.mark;
        if self.board.post(Posted { mark, len }) {
            self.wake();
        }
    }

    /// Waits for what another rank posts, which must be `len` bytes.
    #[inline(always)]
    pub(super) fn await_post(&mut self, rank: usize, len: usize) -> Result<(), Error> {
        let wanted = Posted { mark: self.mark, len };
        if self.board.posted(rank) == Some(wanted) {
            return Ok(());
        }
        self.await_post_later(rank, wanted)
    }

    #[inline(never)]
    fn await_post_later(&mut self, rank: usize, wanted: Posted) -> Result<(), Error> {
        self.wait(rank, |board| board.posted(rank).is_some())?;
        let posted = self.board.posted(rank).unwrap_or(wanted);
        if posted == wanted {
            return Ok(());
        }
        Err(self.mismatch(rank, posted, wanted))
    }

    /// Waits for what another rank posts, whatever its length, which is given.
    pub(super) fn await_any(&mut self, rank: usize) -> Result<usize, Error> {
        if self.board.posted(rank).is_none() {
            self.wait(rank, |board| board.posted(rank).is_some())?;
        }
        match self.board.posted(rank) {
            Some(posted) if posted.mark == self.mark => Ok(posted.len),
            _ => Err(self.differs(rank)),
        }
    }

    /// Waits for what all others post: `len` bytes each.
    #[inline]
    pub(super) fn await_all(&mut self, len: usize) -> Result<(), Error> {
        for rank in self.others() {
            self.await_post(rank, len)?;
        }
        self.board.all_have_posted();
        Ok(())
    }

    /// A part of what `rank` has posted, which is `len` bytes in all.
    #[inline]
    pub(super) fn read(&self, rank: usize, len: usize, part: Range<usize>) -> Span<'_> {
        self.board.read(rank, len, part)
    }

    /// This rank has read what it needs.
    #[inline(always)]
    pub(super) fn end(&mut self) {
        if self.board.end() {
            self.wake();
        }
    }

    /// The same, of a step in which no rank posts more than `len` bytes, as all know.
    #[inline(always)]
    pub(super) fn end_of(&mut self, len: usize) {
        let wakes = if len <= ROOM {
            self.board.end_in_lines()
        } else {
            self.board.end()
        };
        if wakes {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        for rank in self.board.take_sleepers() {
            if let Some(process) = self.process_at(rank) {
                self.communicator
                    .access((), |core, messenger, now| core.wake(messenger, now, process));
            }
        }
    }

    /// The steps of this collective begin with tables. A rank with other arguments may post data in the same step: so that
    /// neither is taken for the other, their marks differ.
    pub(super) fn begin_with_tables(&mut self) {
        self.mark = !self.mark;
    }

    #[cold]
    fn mismatch(&self, rank: usize, posted: Posted, wanted: Posted) -> Error {
        // (A mark has none of the bits of a collective's number, unless it is one of tables.)
        let is_a_table = |mark: u32| mark & Class::COLLECTIVES != 0;
        if is_a_table(posted.mark) != is_a_table(wanted.mark) || posted.len == wanted.len {
            self.differs(rank)
        } else {
            self.truncated(rank, posted.len, wanted.len)
        }
    }

    /// Another rank has called another collective, or with other arguments.
    #[cold]
    pub(super) fn differs(&self, rank: usize) -> Error {
        self.refuse(rank, self.not_same())
    }

    /// Another rank sends `sent` bytes, where this one has room for `wanted`.
    #[cold]
    pub(super) fn truncated(&self, rank: usize, sent: usize, wanted: usize) -> Error {
        self.refuse(rank, Error::truncated(self.name, sent as u64, wanted as u64))
    }

    fn refuse(&self, rank: usize, error: Error) -> Error {
        self.board.give_up(MISMATCH);
        self.wake();
        self.communicator.locate(error.with_peer(self.rank_at(rank)))
    }

    // ---- waiting

    /// Waits until `ready` says so of what `rank` does.
    #[inline]
    fn wait(&mut self, rank: usize, ready: impl Fn(&mut Board) -> bool) -> Result<(), Error> {
        if self.board.say_done() {
            self.wake();
        }
        if self.members.is_some() {
            self.serve_hosts();
        }
        let (looks, turns) = if self.yields { (LOOKS_SHARED, TURNS) } else { (LOOKS, 1) };
        for turn in 0..turns {
            for _ in 0..looks {
                if ready(self.board) {
                    return Ok(());
                }
                hint::spin_loop();
            }
            if turn + 1 < turns {
                give_way();
            }
        }
        self.wait_longer(rank, &ready)
    }

    /// Other hosts may need a message that this rank has left in its queue when it had all that it needed itself. (Those that
    /// follow others wait there until the process looks at the network.)
    fn serve_hosts(&self) {
        let is_idle = self
            .communicator
            .access(true, |_, messenger, _| messenger.layer().all_idle());
        if !is_idle {
            // What fails is reported when it is waited for.
            let _ = self.communicator.engine().fabric.progress();
        }
    }

    /// The same, and serves the network meanwhile; sleeps in the end. That the other process is lost, or this communicator
    /// revoked, is learned by a receive that no message ends.
    #[cold]
    fn wait_longer(&mut self, rank: usize, ready: &dyn Fn(&mut Board) -> bool) -> Result<(), Error> {
        let Some(process) = self.process_at(rank) else {
            return Ok(());
        };
        let selector = Selector {
            source: Some(process),
            bits: self.bits,
            ignore: 0,
        };
        let (mut is_ready, mut begun, ended) = (false, None, Cell::new(None));
        let (board, communicator) = (&mut *self.board, self.communicator);
        let fabric = &communicator.engine().fabric;
        let waited = fabric.wait(&mut |core, messenger, now| {
            board.sleep();
            is_ready = ready(board);
            if is_ready || board.given_up().is_some() {
                return true;
            }
            let begun = begun.get_or_insert_with(|| {
                // (Another thread may have revoked it since it was looked at. From now on that ends the receive.)
                if communicator.is_revoked() {
                    return Ok(Ended::with(Outcome::Revoked));
                }
                let nothing = Buffer::NOTHING;
                core.receive(messenger, now, selector, nothing, None, |_| true)
            });
            ended.set(match begun {
                Ok(ended) => Some(*ended),
                Err(id) => core.take_awaited(*id),
            });
            ended.get().is_some()
        });
        board.awake();
        let ended = ended.get();
        if let (Some(Err(id)), None) = (begun, ended) {
            self.communicator.access((), |core, _, _| {
                core.cancel(id);
                core.take(id);
            });
        }
        if is_ready {
            return Ok(());
        }
        if waited.is_err() {
            let error = self.communicator.broken(self.name);
            self.give_up(&error);
            return Err(error);
        }
        Err(self.why(ended))
    }

    /// Why the collective has failed: as the receive says, or as another rank has said.
    fn why(&self, ended: Option<Ended>) -> Error {
        if let Some(ended) = ended {
            if self.members.is_some() {
                // Those that have no part in this board wait for one that has.
                let of = (self.bits, self.communicator.group());
                self.communicator
                    .access((), |core, messenger, now| core.tell_missed(messenger, now, of, &ended));
            }
            let reason = match ended.outcome {
                Outcome::Failed(error) => reason_of(ended.envelope.source, error),
                _ => MISMATCH,
            };
            self.board.give_up(reason);
            self.wake();
            return self.error_of(&ended);
        }
        self.failed()
    }

    /// What this rank does for the others beside the board has failed: they fail as well.
    #[cold]
    pub(super) fn give_up(&self, error: &Error) {
        let lost = error.peer().filter(|_| error.class() == ErrorClass::ProcFailed);
        let process = lost.and_then(|rank| self.communicator.group().process(rank));
        let reason = process.map_or(MISMATCH, |process| {
            let lost = self.communicator.access(None, |core, _, _| core.lost(process));
            reason_of(process, lost.unwrap_or(PeerError::Closed))
        });
        self.board.give_up(reason);
        self.wake();
    }

    /// The board is out of use.
    #[cold]
    pub(super) fn failed(&self) -> Error {
        let (process, error) = match self.board.given_up() {
            Some(MISMATCH) | None => return self.communicator.locate(self.not_same()),
            Some(reason) => loss_of(reason),
        };
        let mut lost = None;
        self.communicator.access((), |core, messenger, now| {
            lost = core.lost(process);
            if self.members.is_some() {
                // Those of other hosts, which wait for this rank, must give up as well, if a rank has left. (Of the end of
                // a dead one all are told.) They may have been told of a later collective only: by a rank of this host
                // that had no need to wait in this one.
                let of = (self.bits, self.communicator.group());
                core.tell_missed(messenger, now, of, &Ended::failed(process, error));
            }
        });
        let ended = Ended::failed(process, lost.unwrap_or(error));
        self.error_of(&ended)
    }

    fn error_of(&self, ended: &Ended) -> Error {
        let about = About {
            call: self.name,
            room: 0,
        };
        // It has ended well if a message of the same collective has come: that rank does not use the board.
        let result = self.communicator.result(ended, about, None);
        result
            .err()
            .unwrap_or_else(|| self.communicator.locate(self.not_same()))
    }

    fn not_same(&self) -> Error {
        let detail = Detail::Text("another rank has called another collective, or with other arguments");
        Error::new(ErrorClass::NotSame, self.name).with_detail(detail)
    }
}

/// Why a board is given up, if a process is lost so.
fn reason_of(process: u32, error: PeerError) -> u64 {
    let left = if error == PeerError::Closed { LEFT } else { 0 };
    left | (1 + u64::from(process))
}

/// The reverse: which process is lost, and how. (Another process may have written any number.)
fn loss_of(reason: u64) -> (u32, PeerError) {
    let error = if reason & LEFT == 0 {
        PeerError::Refused
    } else {
        PeerError::Closed
    };
    ((reason as u32).wrapping_sub(1), error)
}
