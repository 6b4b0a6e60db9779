#![expect(unsafe_code, reason = "hands places to the engine")]
//! Collectives on places: each function makes the call of one, which [`Ready::begin`] begins.

use hikyaku::mpi::{
    collectives::{self, Call, Counts, NOBODY, ROOT},
    engine::{Buffers, Region},
    error::{Detail, Error, ErrorClass},
};

use super::operation::Erased;
use crate::{
    Count,
    datatype::{Blocks, Place, Places, Validator},
    request::Running,
    topology::Handle,
};

/// A collective with all its arguments.
pub(super) struct Ready<'a> {
    handle: &'a Handle,
    name: &'static str,
    call: Result<Call<'a>, Error>,
    buffers: Buffers<'a>,
    validators: &'a [Validator],
    operation: Option<&'a Erased>,
}

impl<'a> Ready<'a> {
    fn new(handle: &'a Handle, name: &'static str, call: Result<Call<'a>, Error>) -> Self {
        Self {
            handle,
            name,
            call,
            buffers: Buffers {
                input: Region::None,
                output: Region::None,
            },
            validators: &[],
            operation: None,
        }
    }

    fn from(mut self, side: &'a impl Side) -> Self {
        self.buffers.input = side.region();
        self
    }

    fn into(mut self, side: &'a impl Side) -> Self {
        self.buffers.output = side.region();
        self.validators = side.validators();
        self
    }

    fn by(self, operation: &'a Erased) -> Self {
        Self {
            operation: Some(operation),
            ..self
        }
    }

    /// Begins it. If its name ends in `_init` it is only planned, to be started later.
    ///
    /// # Safety
    /// Until the operation has ended, places to send from are borrowed, places to receive into are borrowed mutably,
    /// and everything that the operation refers to lives.
    pub(super) unsafe fn begin(self) -> Running {
        let (comm, name, buffers) = (&self.handle.comm, self.name, &self.buffers);
        let operation = self.operation.map(|erased| &erased.operation);
        let mut running = if name.ends_with("_init") {
            // SAFETY: the caller's contract.
            let plan = |call| unsafe { comm.collective_init(name, &call, buffers, operation, None) };
            Running::planned(self.call.and_then(plan))
        } else {
            // SAFETY: the caller's contract.
            let begin = |call| unsafe { comm.collective(name, &call, buffers, operation, None) };
            Running::new(self.call.and_then(begin))
        };
        if !self.validators.is_empty() {
            running = running.validated_by(self.validators.iter().copied());
        }
        if let Some(erased) = self.operation {
            running = running.with_operation(erased.panicked.clone());
        }
        running
    }
}

/// What a collective sends from or receives into.
pub(super) trait Side {
    fn region(&self) -> Region<'_>;

    /// As `number` blocks.
    fn blocks(&self, call: &'static str, number: usize) -> Result<collectives::Blocks<'_>, Error>;

    /// The checks to make after receiving.
    fn validators(&self) -> &[Validator];
}

impl Side for Place {
    fn region(&self) -> Region<'_> {
        self.region()
    }

    fn blocks(&self, call: &'static str, number: usize) -> Result<collectives::Blocks<'_>, Error> {
        let count = self.share(call, number)?;
        Ok(collectives::Blocks::Even { count })
    }

    fn validators(&self) -> &[Validator] {
        self.validator.as_slice()
    }
}

impl Side for Blocks {
    fn region(&self) -> Region<'_> {
        self.place.region()
    }

    fn blocks(&self, _: &'static str, _: usize) -> Result<collectives::Blocks<'_>, Error> {
        Ok(self.blocks())
    }

    fn validators(&self) -> &[Validator] {
        self.place.validators()
    }
}

impl Side for Places {
    fn region(&self) -> Region<'_> {
        self.region()
    }

    fn blocks(&self, _: &'static str, _: usize) -> Result<collectives::Blocks<'_>, Error> {
        Ok(self.blocks())
    }

    fn validators(&self) -> &[Validator] {
        &self.validators
    }
}

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
    fn are_here(&self) -> bool {
        !matches!(self, Self::Elsewhere { .. })
    }
}

impl Side for Shares<'_> {
    fn region(&self) -> Region<'_> {
        match self {
            Self::Even(place) => place.region(),
            Self::Uneven(blocks) => blocks.region(),
            Self::Elsewhere { .. } => Region::None,
        }
    }

    fn blocks(&self, call: &'static str, number: usize) -> Result<collectives::Blocks<'_>, Error> {
        match self {
            Self::Even(place) => place.blocks(call, number),
            Self::Uneven(blocks) => Ok(blocks.blocks()),
            Self::Elsewhere { even: true } => Ok(collectives::Blocks::Even { count: 0 }),
            Self::Elsewhere { even: false } => Ok(collectives::Blocks::Uneven {
                counts: &[],
                displacements: &[],
            }),
        }
    }

    fn validators(&self) -> &[Validator] {
        match self {
            Self::Even(place) => place.validators(),
            Self::Uneven(blocks) => blocks.validators(),
            Self::Elsewhere { .. } => &[],
        }
    }
}

/// Neighbours, to receive from and to send to.
#[derive(Clone, Debug)]
pub struct Neighbors {
    pub(super) sources: Vec<Option<usize>>,
    pub(super) destinations: Vec<Option<usize>>,
}

/// The number of ranks to send to and receive from: of the other group, if there are two.
fn size(handle: &Handle) -> usize {
    handle.comm.remote_size().unwrap_or_else(|| handle.comm.size()) as usize
}

pub(super) fn barrier(handle: &Handle, name: &'static str) -> Running {
    // SAFETY: a barrier has no buffers.
    unsafe { Ready::new(handle, name, Ok(Call::Barrier)).begin() }
}

pub(super) fn all_gather<'a>(
    handle: &'a Handle,
    name: &'static str,
    from: &'a Place,
    into: &'a impl Side,
) -> Ready<'a> {
    let call = into.blocks(name, size(handle)).map(|output| Call::Allgather {
        input: from.count as usize,
        output,
        in_place: false,
    });
    Ready::new(handle, name, call).from(from).into(into)
}

pub(super) fn all_to_all<'a, S: Side>(handle: &'a Handle, name: &'static str, from: &'a S, into: &'a S) -> Ready<'a> {
    let call = from.blocks(name, size(handle)).and_then(|input| {
        Ok(Call::Alltoall {
            input,
            output: into.blocks(name, size(handle))?,
            in_place: false,
        })
    });
    Ready::new(handle, name, call).from(from).into(into)
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
pub(super) fn parts_of(
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

pub(super) fn all_reduce<'a>(
    handle: &'a Handle,
    name: &'static str,
    from: &'a Place,
    into: &'a Place,
    op: &'a Erased,
) -> Ready<'a> {
    let call = as_many(name, from, into, 1).map(|count| Call::Allreduce {
        count,
        commutative: op.operation.is_commutative(),
        in_place: false,
    });
    Ready::new(handle, name, call).from(from).into(into).by(op)
}

pub(super) fn reduce_scatter_block<'a>(
    handle: &'a Handle,
    name: &'static str,
    from: &'a Place,
    into: &'a Place,
    op: &'a Erased,
) -> Ready<'a> {
    // Blocks are of the own group, also if there are two.
    let call = as_many(name, from, into, handle.comm.size() as usize).map(|count| Call::ReduceScatter {
        counts: Counts::Even(count),
        commutative: op.operation.is_commutative(),
        in_place: false,
    });
    Ready::new(handle, name, call).from(from).into(into).by(op)
}

/// `counts` are [`parts_of`] the vector.
pub(super) fn reduce_scatter<'a>(
    handle: &'a Handle,
    name: &'static str,
    from: &'a Place,
    into: &'a Place,
    counts: &'a Result<Vec<usize>, Error>,
    op: &'a Erased,
) -> Ready<'a> {
    let call = counts.as_ref().map_err(Clone::clone).map(|counts| Call::ReduceScatter {
        counts: Counts::Each(counts),
        commutative: op.operation.is_commutative(),
        in_place: false,
    });
    Ready::new(handle, name, call).from(from).into(into).by(op)
}

pub(super) fn scan<'a>(
    handle: &'a Handle,
    name: &'static str,
    from: &'a Place,
    into: &'a Place,
    op: &'a Erased,
    exclusive: bool,
) -> Ready<'a> {
    let call = as_many(name, from, into, 1).map(|count| Call::Scan {
        count,
        exclusive,
        in_place: false,
    });
    Ready::new(handle, name, call).from(from).into(into).by(op)
}

pub(super) fn broadcast<'a>(handle: &'a Handle, rooted: Rooted, place: &'a Place) -> Ready<'a> {
    let call = Call::Bcast {
        root: rooted.root(),
        count: place.bytes() as usize,
    };
    let ready = Ready::new(handle, rooted.call, Ok(call));
    match rooted.root {
        FACING => ready.from(place),
        _ => ready.into(place),
    }
}

pub(super) fn gather<'a>(
    handle: &'a Handle,
    rooted: Rooted,
    from: Option<&'a Place>,
    into: &'a Shares<'a>,
) -> Ready<'a> {
    let call = rooted.check(handle, into.are_here()).and_then(|root| {
        Ok(Call::Gather {
            root,
            input: from.map_or(0, |from| from.count as usize),
            output: into.blocks(rooted.call, size(handle))?,
            in_place: false,
        })
    });
    let ready = Ready::new(handle, rooted.call, call).into(into);
    match from {
        Some(from) => ready.from(from),
        None => ready,
    }
}

pub(super) fn scatter<'a>(
    handle: &'a Handle,
    rooted: Rooted,
    from: &'a Shares<'a>,
    into: Option<&'a Place>,
) -> Ready<'a> {
    let call = rooted.check(handle, from.are_here()).and_then(|root| {
        Ok(Call::Scatter {
            root,
            input: from.blocks(rooted.call, size(handle))?,
            output: into.map_or(0, |into| into.count as usize),
            in_place: false,
        })
    });
    let ready = Ready::new(handle, rooted.call, call).from(from);
    match into {
        Some(into) => ready.into(into),
        None => ready,
    }
}

/// For the root between two groups: what is reduced is on the other side.
pub(super) fn reduce_facing<'a>(handle: &'a Handle, rooted: Rooted, into: &'a Place) -> Ready<'a> {
    let call = Call::Reduce {
        root: rooted.root(),
        count: into.count as usize,
        commutative: true,
        in_place: false,
    };
    Ready::new(handle, rooted.call, Ok(call)).into(into)
}

/// The root is another rank of this group, where there are two groups.
pub(super) fn stand_aside(handle: &Handle, name: &'static str) -> Running {
    let call = Call::Bcast { root: NOBODY, count: 0 };
    // SAFETY: there are no buffers.
    unsafe { Ready::new(handle, name, Ok(call)).begin() }
}

pub(super) fn reduce<'a>(
    handle: &'a Handle,
    rooted: Rooted,
    from: &'a Place,
    into: Option<&'a Place>,
    op: &'a Erased,
) -> Ready<'a> {
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
    let ready = Ready::new(handle, rooted.call, call).from(from).by(op);
    match into {
        Some(into) => ready.into(into),
        None => ready,
    }
}

pub(super) fn neighbor_all_gather<'a>(
    handle: &'a Handle,
    name: &'static str,
    neighbors: &'a Neighbors,
    from: &'a Place,
    into: &'a impl Side,
) -> Ready<'a> {
    let Neighbors { sources, destinations } = neighbors;
    let call = into
        .blocks(name, sources.len().max(1))
        .map(|output| Call::NeighborAllgather {
            sources,
            destinations,
            input: from.count as usize,
            output,
        });
    Ready::new(handle, name, call).from(from).into(into)
}

pub(super) fn neighbor_all_to_all<'a, S: Side>(
    handle: &'a Handle,
    name: &'static str,
    neighbors: &'a Neighbors,
    from: &'a S,
    into: &'a S,
) -> Ready<'a> {
    let Neighbors { sources, destinations } = neighbors;
    let call = from.blocks(name, destinations.len().max(1)).and_then(|input| {
        Ok(Call::NeighborAlltoall {
            sources,
            destinations,
            input,
            output: into.blocks(name, sources.len().max(1))?,
        })
    });
    Ready::new(handle, name, call).from(from).into(into)
}
