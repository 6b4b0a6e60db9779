#![expect(unsafe_code, reason = "hands places to the engine")]
//! Begins collectives on places.
//!
//! A function whose name ends in `_init` only plans a collective, which is started later.
//!
//! The safety contract of all unsafe functions here: until the operation has ended, places to send from are borrowed,
//! places to receive into are borrowed mutably, and everything that the operation refers to lives.

use hikyaku::mpi::{
    collectives::{self, Call, Counts, NOBODY, ROOT},
    engine::{Buffers, Region},
    error::{Detail, Error, ErrorClass},
    operation::Operation as RawOperation,
};

use super::operation::Erased;
use crate::{
    Count,
    datatype::{Blocks, Place, Places},
    request::Running,
    topology::Handle,
};

/// The root of a collective.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rooted {
    pub(super) call: &'static str,
    pub(super) root: i32,
}

/// The rank that the root of a collective between two groups has for itself.
pub(super) const FACING: i32 = -1;

impl Rooted {
    /// As the engine calls it.
    fn root(self) -> usize {
        usize::try_from(self.root).unwrap_or(ROOT)
    }

    /// Checks that the root calls the root's method, and the others call theirs.
    fn check(self, handle: &Handle, is_for_root: bool) -> Result<usize, Error> {
        let Self { call, root } = self;
        if root == FACING {
            return Ok(self.root());
        }
        // A rank of another group is another process.
        let is_root = handle.comm.rank() == root && !handle.comm.is_inter();
        if is_root == is_for_root {
            return Ok(root as usize);
        }
        let text = if is_for_root {
            "only the root may call this; the others call it without `_root`"
        } else {
            "the root must call this with `_root`"
        };
        Err(Error::new(ErrorClass::Root, call)
            .with_detail(Detail::Text(text))
            .with_peer(root))
    }
}

/// The shares of all ranks, at the root of a gather or scatter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shares<'a> {
    /// The same number of elements for each rank.
    Even(&'a Place),
    /// A number of elements for each rank.
    Uneven(&'a Blocks),
    /// This rank is not the root; whether shares are even there.
    Elsewhere { even: bool },
}

impl Shares<'_> {
    fn place(&self) -> Option<&Place> {
        match self {
            Self::Even(place) => Some(place),
            Self::Uneven(blocks) => Some(&blocks.place),
            Self::Elsewhere { .. } => None,
        }
    }

    fn blocks(&self, call: &'static str, size: usize) -> Result<collectives::Blocks<'_>, Error> {
        Ok(match self {
            Self::Even(place) => collectives::Blocks::Even {
                count: place.share(call, size)?,
            },
            Self::Uneven(blocks) => blocks.blocks(),
            Self::Elsewhere { even: true } => collectives::Blocks::Even { count: 0 },
            Self::Elsewhere { even: false } => collectives::Blocks::Uneven {
                counts: &[],
                displacements: &[],
            },
        })
    }
}

/// The number of ranks to send to and receive from: of the other group, if there are two.
fn size(handle: &Handle) -> usize {
    handle.comm.remote_size().unwrap_or_else(|| handle.comm.size()) as usize
}

fn region(place: Option<&Place>) -> Region<'_> {
    place.map_or(Region::None, Place::region)
}

/// # Safety
/// See the module.
unsafe fn begin(
    handle: &Handle,
    name: &'static str,
    call: Result<Call<'_>, Error>,
    buffers: &Buffers<'_>,
    operation: Option<&RawOperation>,
) -> Running {
    if name.ends_with("_init") {
        // SAFETY: the caller's contract.
        let made = call.and_then(|call| unsafe { handle.comm.collective_init(name, &call, buffers, operation, None) });
        return Running::planned(made);
    }
    // SAFETY: the caller's contract.
    let begun = call.and_then(|call| unsafe { handle.comm.collective(name, &call, buffers, operation, None) });
    Running::new(begun)
}

pub(super) fn barrier(handle: &Handle, name: &'static str) -> Running {
    let buffers = Buffers {
        input: Region::None,
        output: Region::None,
    };
    // SAFETY: a barrier has no buffers.
    unsafe { begin(handle, name, Ok(Call::Barrier), &buffers, None) }
}

/// # Safety
/// See the module.
pub(super) unsafe fn all_gather(handle: &Handle, name: &'static str, from: &Place, into: &Place) -> Running {
    let call = into.share(name, size(handle)).map(|count| Call::Allgather {
        input: from.count as usize,
        output: collectives::Blocks::Even { count },
        in_place: false,
    });
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, call, &buffers(from, into), None) }.into_place(into)
}

fn buffers<'a>(from: &'a Place, into: &'a Place) -> Buffers<'a> {
    Buffers {
        input: from.region(),
        output: into.region(),
    }
}

/// # Safety
/// See the module.
pub(super) unsafe fn all_gather_varcount(handle: &Handle, name: &'static str, from: &Place, into: &Blocks) -> Running {
    let call = Call::Allgather {
        input: from.count as usize,
        output: into.blocks(),
        in_place: false,
    };
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, Ok(call), &buffers(from, &into.place), None) }.into_place(&into.place)
}

/// # Safety
/// See the module.
pub(super) unsafe fn all_to_all(handle: &Handle, name: &'static str, from: &Place, into: &Place) -> Running {
    let even = |place: &Place| {
        let count = place.share(name, size(handle))?;
        Ok(collectives::Blocks::Even { count })
    };
    let call = even(from).and_then(|input| {
        Ok(Call::Alltoall {
            input,
            output: even(into)?,
            in_place: false,
        })
    });
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, call, &buffers(from, into), None) }.into_place(into)
}

/// # Safety
/// See the module.
pub(super) unsafe fn all_to_all_varcount(handle: &Handle, name: &'static str, from: &Blocks, into: &Blocks) -> Running {
    let call = Call::Alltoall {
        input: from.blocks(),
        output: into.blocks(),
        in_place: false,
    };
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, Ok(call), &buffers(&from.place, &into.place), None) }.into_place(&into.place)
}

/// # Safety
/// See the module.
pub(super) unsafe fn all_to_all_parts(handle: &Handle, name: &'static str, from: &Places, into: &Places) -> Running {
    let call = Call::Alltoall {
        input: from.blocks(),
        output: into.blocks(),
        in_place: false,
    };
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, Ok(call), &parts(from, into), None) }.validated_by(into.validators.iter().copied())
}

fn parts<'a>(from: &'a Places, into: &'a Places) -> Buffers<'a> {
    Buffers {
        input: from.region(),
        output: into.region(),
    }
}

/// A reduction: both places have elements of one datatype.
fn alike(name: &'static str, from: &Place, into: &Place) -> Result<(), Error> {
    if from.datatype.is_same(&into.datatype) {
        return Ok(());
    }
    let detail = Detail::Text("both buffers of a reduction have elements of the same datatype");
    Err(Error::new(ErrorClass::Type, name).with_detail(detail))
}

/// … and as many of them, times `times`.
fn as_many(name: &'static str, from: &Place, into: &Place, times: usize) -> Result<usize, Error> {
    alike(name, from, into)?;
    exactly(
        name,
        "elements to send",
        from.count,
        into.count.checked_mul(times as u64),
    )?;
    Ok(into.count as usize)
}

/// A number must be this one; without one, it is too large.
fn exactly(name: &'static str, argument: &'static str, value: u64, needed: Option<u64>) -> Result<(), Error> {
    if needed == Some(value) {
        return Ok(());
    }
    let needed = needed.unwrap_or(u64::MAX) as i64;
    let detail = Detail::Value {
        argument,
        value: value as i64,
        min: needed,
        max: needed,
    };
    Err(Error::new(ErrorClass::Count, name).with_detail(detail))
}

/// Counts of the ranks' parts of a vector: as many as there are ranks, which add up to what is sent, and the own one is
/// what is received.
fn parts_of(
    handle: &Handle,
    name: &'static str,
    from: &Place,
    into: &Place,
    counts: &[Count],
) -> Result<Vec<usize>, Error> {
    alike(name, from, into)?;
    let comm = &handle.comm;
    exactly(name, "counts", counts.len() as u64, Some(comm.size() as u64))?;
    let unsigned = |&count: &Count| {
        let detail = Detail::Value {
            argument: "count",
            value: count,
            min: 0,
            max: i64::MAX,
        };
        usize::try_from(count).map_err(|_| Error::new(ErrorClass::Count, name).with_detail(detail))
    };
    let counts: Vec<usize> = counts.iter().map(unsigned).collect::<Result<_, _>>()?;
    let sum = counts
        .iter()
        .try_fold(0_u64, |sum, &count| sum.checked_add(count as u64));
    exactly(name, "elements to send", from.count, sum)?;
    let own = counts[comm.rank() as usize] as u64;
    exactly(name, "elements to receive", into.count, Some(own))?;
    Ok(counts)
}

/// # Safety
/// See the module.
pub(super) unsafe fn all_reduce(
    handle: &Handle,
    name: &'static str,
    from: &Place,
    into: &Place,
    op: &Erased,
) -> Running {
    let call = as_many(name, from, into, 1).map(|count| Call::Allreduce {
        count,
        commutative: op.operation.is_commutative(),
        in_place: false,
    });
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, call, &buffers(from, into), Some(&op.operation)) }
        .into_place(into)
        .with_operation(op.panicked.clone())
}

/// # Safety
/// See the module.
pub(super) unsafe fn reduce_scatter_block(
    handle: &Handle,
    name: &'static str,
    from: &Place,
    into: &Place,
    op: &Erased,
) -> Running {
    // Blocks are of the own group, also if there are two.
    let call = as_many(name, from, into, handle.comm.size() as usize).map(|count| Call::ReduceScatter {
        counts: Counts::Even(count),
        commutative: op.operation.is_commutative(),
        in_place: false,
    });
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, call, &buffers(from, into), Some(&op.operation)) }
        .into_place(into)
        .with_operation(op.panicked.clone())
}

/// # Safety
/// See the module.
pub(super) unsafe fn reduce_scatter(
    handle: &Handle,
    name: &'static str,
    from: &Place,
    into: &Place,
    counts: &[Count],
    op: &Erased,
) -> Running {
    let counts = parts_of(handle, name, from, into, counts);
    let call = counts.as_ref().map_err(Clone::clone).map(|counts| Call::ReduceScatter {
        counts: Counts::Each(counts),
        commutative: op.operation.is_commutative(),
        in_place: false,
    });
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, call, &buffers(from, into), Some(&op.operation)) }
        .into_place(into)
        .with_operation(op.panicked.clone())
}

/// # Safety
/// See the module.
pub(super) unsafe fn scan(
    handle: &Handle,
    name: &'static str,
    from: &Place,
    into: &Place,
    op: &Erased,
    exclusive: bool,
) -> Running {
    let call = as_many(name, from, into, 1).map(|count| Call::Scan {
        count,
        exclusive,
        in_place: false,
    });
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, call, &buffers(from, into), Some(&op.operation)) }
        .into_place(into)
        .with_operation(op.panicked.clone())
}

/// # Safety
/// See the module.
pub(super) unsafe fn broadcast(handle: &Handle, rooted: Rooted, place: &Place) -> Running {
    let call = Call::Bcast {
        root: rooted.root(),
        count: place.octets() as usize,
    };
    let (input, output) = match rooted.root {
        FACING => (place.region(), Region::None),
        _ => (Region::None, place.region()),
    };
    // SAFETY: the caller's contract.
    unsafe { begin(handle, rooted.call, Ok(call), &Buffers { input, output }, None) }.into_place(place)
}

/// # Safety
/// See the module.
pub(super) unsafe fn gather(handle: &Handle, rooted: Rooted, from: Option<&Place>, shares: &Shares<'_>) -> Running {
    let into = shares.place();
    let call = rooted.check(handle, into.is_some()).and_then(|root| {
        Ok(Call::Gather {
            root,
            input: from.map_or(0, |from| from.count as usize),
            output: shares.blocks(rooted.call, size(handle))?,
            in_place: false,
        })
    });
    let buffers = Buffers {
        input: region(from),
        output: region(into),
    };
    // SAFETY: the caller's contract.
    let running = unsafe { begin(handle, rooted.call, call, &buffers, None) };
    match into {
        Some(into) => running.into_place(into),
        None => running,
    }
}

/// # Safety
/// See the module.
pub(super) unsafe fn scatter(handle: &Handle, rooted: Rooted, shares: &Shares<'_>, into: Option<&Place>) -> Running {
    let from = shares.place();
    let call = rooted.check(handle, from.is_some()).and_then(|root| {
        Ok(Call::Scatter {
            root,
            input: shares.blocks(rooted.call, size(handle))?,
            output: into.map_or(0, |into| into.count as usize),
            in_place: false,
        })
    });
    let buffers = Buffers {
        input: region(from),
        output: region(into),
    };
    // SAFETY: the caller's contract.
    let running = unsafe { begin(handle, rooted.call, call, &buffers, None) };
    match into {
        Some(into) => running.into_place(into),
        None => running,
    }
}

/// For the root between two groups: what is reduced is on the other side.
///
/// # Safety
/// See the module.
pub(super) unsafe fn reduce_facing(handle: &Handle, rooted: Rooted, into: &Place) -> Running {
    let call = Call::Reduce {
        root: rooted.root(),
        count: into.count as usize,
        commutative: true,
        in_place: false,
    };
    let buffers = Buffers {
        input: Region::None,
        output: into.region(),
    };
    // SAFETY: the caller's contract.
    unsafe { begin(handle, rooted.call, Ok(call), &buffers, None) }.into_place(into)
}

/// The root is another rank of this group, where there are two groups.
pub(super) fn stand_aside(handle: &Handle, name: &'static str) -> Running {
    let call = Call::Bcast { root: NOBODY, count: 0 };
    let buffers = Buffers {
        input: Region::None,
        output: Region::None,
    };
    // SAFETY: there are no buffers.
    unsafe { begin(handle, name, Ok(call), &buffers, None) }
}

/// # Safety
/// See the module.
pub(super) unsafe fn reduce(
    handle: &Handle,
    rooted: Rooted,
    from: &Place,
    into: Option<&Place>,
    op: &Erased,
) -> Running {
    let call = rooted.check(handle, into.is_some()).and_then(|root| {
        Ok(Call::Reduce {
            root,
            count: match into {
                Some(into) => as_many(rooted.call, from, into, 1)?,
                None => from.count as usize,
            },
            commutative: op.operation.is_commutative(),
            in_place: false,
        })
    });
    let buffers = Buffers {
        input: from.region(),
        output: region(into),
    };
    // SAFETY: the caller's contract.
    let running = unsafe { begin(handle, rooted.call, call, &buffers, Some(&op.operation)) };
    let running = match into {
        Some(into) => running.into_place(into),
        None => running,
    };
    running.with_operation(op.panicked.clone())
}

/// Neighbours, to receive from and to send to.
#[derive(Clone, Debug)]
pub struct Neighbors {
    pub(super) sources: Vec<Option<usize>>,
    pub(super) destinations: Vec<Option<usize>>,
}

/// # Safety
/// See the module.
pub(super) unsafe fn neighbor_all_gather(
    handle: &Handle,
    name: &'static str,
    neighbors: &Neighbors,
    from: &Place,
    into: &Place,
) -> Running {
    let call = into
        .share(name, neighbors.sources.len().max(1))
        .map(|count| Call::NeighborAllgather {
            sources: &neighbors.sources,
            destinations: &neighbors.destinations,
            input: from.count as usize,
            output: collectives::Blocks::Even { count },
        });
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, call, &buffers(from, into), None) }.into_place(into)
}

/// # Safety
/// See the module.
pub(super) unsafe fn neighbor_all_to_all(
    handle: &Handle,
    name: &'static str,
    neighbors: &Neighbors,
    from: &Place,
    into: &Place,
) -> Running {
    let even = |place: &Place, parts: usize| {
        let count = place.share(name, parts.max(1))?;
        Ok(collectives::Blocks::Even { count })
    };
    let call = even(from, neighbors.destinations.len()).and_then(|input| {
        Ok(Call::NeighborAlltoall {
            sources: &neighbors.sources,
            destinations: &neighbors.destinations,
            input,
            output: even(into, neighbors.sources.len())?,
        })
    });
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, call, &buffers(from, into), None) }.into_place(into)
}

/// # Safety
/// See the module.
pub(super) unsafe fn neighbor_all_to_all_varcount(
    handle: &Handle,
    name: &'static str,
    neighbors: &Neighbors,
    from: &Blocks,
    into: &Blocks,
) -> Running {
    let call = Call::NeighborAlltoall {
        sources: &neighbors.sources,
        destinations: &neighbors.destinations,
        input: from.blocks(),
        output: into.blocks(),
    };
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, Ok(call), &buffers(&from.place, &into.place), None) }.into_place(&into.place)
}

/// # Safety
/// See the module.
pub(super) unsafe fn neighbor_all_gather_varcount(
    handle: &Handle,
    name: &'static str,
    neighbors: &Neighbors,
    from: &Place,
    into: &Blocks,
) -> Running {
    let call = Call::NeighborAllgather {
        sources: &neighbors.sources,
        destinations: &neighbors.destinations,
        input: from.count as usize,
        output: into.blocks(),
    };
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, Ok(call), &buffers(from, &into.place), None) }.into_place(&into.place)
}

/// # Safety
/// See the module.
pub(super) unsafe fn neighbor_all_to_all_parts(
    handle: &Handle,
    name: &'static str,
    neighbors: &Neighbors,
    from: &Places,
    into: &Places,
) -> Running {
    let call = Call::NeighborAlltoall {
        sources: &neighbors.sources,
        destinations: &neighbors.destinations,
        input: from.blocks(),
        output: into.blocks(),
    };
    // SAFETY: the caller's contract.
    unsafe { begin(handle, name, Ok(call), &parts(from, into), None) }.validated_by(into.validators.iter().copied())
}
