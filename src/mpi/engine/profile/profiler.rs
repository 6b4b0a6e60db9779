//! The interface of profilers: how they learn of calls.

use alloc::{vec, vec::Vec};
use core::fmt::Debug;

use super::super::{
    fabric::CallNote,
    regions::Region,
    status::{ANY_SOURCE, PROC_NULL, Status},
};
use crate::{
    mpi::{
        Rank,
        collectives::{Blocks, Call, Role},
        datatype::{Datatype, Kind},
        error::Error,
        group::Group,
        operation::Operation,
    },
    time::Instant,
};

/// Is told when calls of the engine begin and end ([`Options::profiler`](super::super::Options::profiler)): only calls that
/// the program has made, not those that calls of the engine make in turn.
///
/// All threads that call MPI call it, without holding any lock; it must not call MPI. Times are those of the engine's
/// network ([`Instant`]: a real process's clock, or a simulation's). A panic in it ends the process: the calls that it
/// is told of have begun to use buffers.
pub trait Profiler: Debug + Send + Sync {
    /// The engine has started as process `process` of `size`.
    fn open(&self, now: Instant, process: u32, size: u32) {
        let _ = (now, process, size);
    }

    /// A call begins.
    fn enter(&self, now: Instant, entry: &Entry) {
        let _ = (now, entry);
    }

    /// A call that began at `begun` ends.
    fn leave(&self, begun: Instant, now: Instant, entry: &Entry, exit: &Exit<'_>);

    /// The process takes part in no more communication ([`Engine::finalize`](super::super::Engine::finalize)).
    fn close(&self, now: Instant) {
        let _ = now;
    }
}

/// A call with its arguments, as far as communication depends on them. Arguments that a call does not have are `None`,
/// 0 or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its MPI name.
    pub call: &'static str,
    /// The context of the communicator; for a window, that of the window's own communicator.
    pub context: u32,
    /// Rank of the other side, or of the root, as given: it may be a wildcard.
    pub peer: Option<Rank>,
    /// The tag, as given.
    pub tag: Option<i32>,
    /// Number of elements of the datatype: of the message, or of this rank's vector or block. For `MPI_Pready`, the
    /// number of partitions.
    pub count: u64,
    /// Bytes of these elements. When a window is created: its size here; when memory is attached: its size.
    pub bytes: u64,
    /// The kind of all elements, if they are of one predefined kind.
    pub kind: Option<Kind>,
    /// The reduction, by its MPI name or `user`.
    pub operation: Option<&'static str>,
    /// Number of partitions of a message.
    pub partitions: Option<u32>,
    /// The partitions that are ready. If they are contiguous, they are [`count`](Self::count) from
    /// [`displacement`](Self::displacement) on.
    pub ready: Vec<u32>,
    /// Displacement in the target's window. When a window is created: its displacement unit; when memory is attached or
    /// detached: its address; else a partition.
    pub displacement: Option<i64>,
    /// Lock type of a window, by its MPI name.
    pub lock: Option<&'static str>,
    /// Bytes that a collective takes from each of its blocks: for each rank, or for each neighbour. One number if they
    /// are all alike.
    pub sent: Vec<u64>,
    /// The same for blocks that it receives; for `MPI_Sendrecv` the size of the receive buffer.
    pub received: Vec<u64>,
    /// Ranks from which a neighbourhood collective receives (or `MPI_PROC_NULL`).
    pub sources: Vec<Rank>,
    /// Ranks to which it sends; or the group of [`Window::post`](super::super::Window::post) and the like.
    pub destinations: Vec<Rank>,
    /// The numbers of the requests that the call takes: see [`Exit::request`].
    pub requests: Vec<u64>,
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Exit<'a> {
    /// The error, if it has failed.
    pub error: Option<&'a Error>,
    /// Number of the request that it has begun, or of the message that a matched probe has found; this process gives
    /// out each number once. The call that waits for the request, or receives the message, has the number in
    /// [`Entry::requests`].
    pub request: Option<u64>,
    /// The operations that have ended with it, or the message found by a probe: number of the request (0 for the call
    /// itself) and status. Empty if a test has found nothing; where a call has no status, that is empty.
    pub ended: &'a [(u64, Status)],
    /// The communicator that it has created, or that of the window.
    pub made: Option<Made<'a>>,
}

/// A communicator that a call has created.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// Its context.
    pub context: u32,
    /// Its processes, by rank.
    pub group: &'a Group,
    /// The remote group of an intercommunicator.
    pub remote: Option<&'a Group>,
}

impl Entry {
    /// A call with `count` elements.
    pub(in super::super) fn of(call: &'static str, count: u64, datatype: &Datatype) -> Self {
        Self {
            call,
            count,
            bytes: count.saturating_mul(datatype.size()),
            kind: datatype.element_kind(),
            ..Self::default()
        }
    }

    /// A call with no further arguments.
    pub(in super::super) fn named(call: &'static str) -> Self {
        Self {
            call,
            ..Self::default()
        }
    }

    pub(in super::super) fn with_peer(self, peer: Rank) -> Self {
        Self {
            peer: Some(peer),
            ..self
        }
    }

    pub(in super::super) fn with_tag(self, tag: i32) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// A call with the processes of `group`, by their ranks in `all`.
    pub(in super::super) fn among(call: &'static str, all: &Group, group: &Group) -> Self {
        let ranks = group.processes().map(|process| all.rank_of(process));
        Self {
            destinations: ranks.map(|rank| rank.unwrap_or(ANY_SOURCE)).collect(),
            ..Self::named(call)
        }
    }

    /// A collective.
    pub(in super::super) fn collective(
        name: &'static str,
        call: &Call<'_>,
        (input, output): (&Region<'_>, &Region<'_>),
        operation: Option<&Operation>,
    ) -> Self {
        let own = |count: usize, region: &Region<'_>| match region {
            Region::Plain(_, datatype) => Self::of(name, count as u64, datatype),
            Region::None | Region::Each(..) => Self {
                count: count as u64,
                ..Self::named(name)
            },
        };
        let vector = if matches!(output, Region::None) { input } else { output };
        let (sent, received) = (call.input.single(), call.output.single());
        let mut entry = match call.roles() {
            (Role::Packed, _) => match vector {
                Region::Plain(_, datatype) => {
                    let elements = (received as u64).checked_div(datatype.size()).unwrap_or(0);
                    Self::of(name, elements, datatype)
                }
                _ => own(received, vector),
            },
            (Role::Vector, _) => own(received, vector),
            (Role::Divided, _) => own(call.output.total(1), vector),
            (Role::Block, _) => own(sent, if call.in_place { output } else { input }),
            (_, Role::Block) => own(received, if call.in_place { input } else { output }),
            _ => Self::named(name),
        };
        entry.received = match call.collective().output() {
            Role::Blocks => bytes(&call.output, output),
            Role::Divided => bytes(&call.output, vector),
            _ => Vec::new(),
        };
        entry.sent = match call.roles() {
            (Role::Blocks, _) => bytes(&call.input, input),
            (Role::None, _) => entry.received.clone(),
            _ => Vec::new(),
        };
        let ranks = |ranks: &[Option<usize>]| {
            let rank = |rank: &Option<usize>| rank.map_or(PROC_NULL, |rank| rank as Rank);
            ranks.iter().map(rank).collect()
        };
        (entry.sources, entry.destinations) = (ranks(call.sources), ranks(call.destinations));
        entry.peer = call.root().map(|root| root as Rank);
        entry.operation = operation.map(|operation| operation.as_predefined().map_or("user", |known| known.name()));
        entry
    }
}

/// Bytes of each block; one number if they are alike.
fn bytes(blocks: &Blocks<'_>, region: &Region<'_>) -> Vec<u64> {
    let size = |index: usize| match region {
        Region::Plain(_, datatype) => datatype.size(),
        Region::None => 0,
        Region::Each(_, elements) => elements
            .get(index)
            .map_or(0, |(_, count, datatype)| count * datatype.size()),
    };
    match *blocks {
        Blocks::Even { count } => vec![size(0).saturating_mul(count as u64)],
        Blocks::Uneven { counts, .. } => counts
            .iter()
            .enumerate()
            .map(|(index, count)| size(index).saturating_mul(*count as u64))
            .collect(),
        Blocks::Pieces { total, parts } => (0..parts)
            .map(|index| size(0).saturating_mul((total / parts + usize::from(index < total % parts)) as u64))
            .collect(),
    }
}

impl From<CallNote> for Entry {
    fn from(note: CallNote) -> Self {
        Self {
            call: note.call,
            context: note.context,
            peer: note.peer,
            tag: note.tag,
            ..Self::default()
        }
    }
}

/// Whether the operation goes on after this function: it gives a request (MPI 3.7).
#[inline]
pub(in super::super) fn is_immediate(call: &str) -> bool {
    // (All names begin alike, so the byte behind that is looked at first.)
    match call.as_bytes().get(4) {
        Some(b'I') => call.starts_with("MPI_I"),
        Some(b'S') => call.starts_with("MPI_Start"),
        _ => false,
    }
}
