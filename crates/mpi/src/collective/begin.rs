#![expect(unsafe_code, reason = "hands places to the engine")]
//! Collectives on places: [`Ready`] makes the call of any of them as its description says, and begins it.

use hikyaku::mpi::{
    collectives::{self, Call, Collective, NOBODY, ROOT, Role},
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

/// A collective with its arguments, each of which is given by a method of its own: first the root or the neighbours,
/// then the buffers.
pub(super) struct Ready<'a> {
    handle: &'a Handle,
    name: &'static str,
    call: Call<'a>,
    /// The first argument that is wrong.
    refused: Option<Error>,
    neighbours: Option<&'a Neighbors>,
    from: Option<&'a Place>,
    into: Option<&'a Place>,
    counts: Option<&'a [usize]>,
    buffers: Buffers<'a>,
    validators: &'a [Validator],
    operation: Option<&'a Erased>,
}

impl<'a> Ready<'a> {
    /// `name` is one of the functions of `collective`.
    pub(super) fn of(handle: &'a Handle, name: &'static str, collective: Collective) -> Self {
        Self {
            handle,
            name,
            call: Call::of(collective),
            refused: None,
            neighbours: None,
            from: None,
            into: None,
            counts: None,
            buffers: Buffers {
                input: Region::None,
                output: Region::None,
            },
            validators: &[],
            operation: None,
        }
    }

    /// With this root: a rank, or [`ROOT`] or [`NOBODY`] if it is in this group of two.
    pub(super) fn rooted(mut self, root: usize) -> Self {
        self.call = self.call.with_root(root);
        self
    }

    pub(super) fn among(mut self, neighbours: &'a Neighbors) -> Self {
        self.neighbours = Some(neighbours);
        self.call = self
            .call
            .with_neighbours(&neighbours.sources, &neighbours.destinations)
            .with_crossed(neighbours.crossed);
        self
    }

    /// With a buffer to send.
    pub(super) fn from(mut self, side: &'a impl Side) -> Self {
        self.buffers.input = side.region();
        self.from = side.place();
        let role = self.call.collective().input();
        let sizes = self.sizes(role, side, self.neighbours.map(|all| all.destinations.len()));
        self.change(sizes, |call, sizes| match role {
            // The buffer to receive into is as large; ranks that have none give only this one.
            Role::Vector | Role::Packed => call.with_count(sizes),
            // The sizes are those of the blocks, which are received.
            Role::Divided => call,
            _ => call.with_input(sizes),
        })
    }

    /// With a buffer to receive into.
    pub(super) fn into(mut self, side: &'a impl Side) -> Self {
        self.buffers.output = side.region();
        self.validators = side.validators();
        self.into = side.place();
        let role = self.call.collective().output();
        let sizes = self.sizes(role, side, self.neighbours.map(|all| all.sources.len()));
        self.change(sizes, |call, sizes| match role {
            Role::Vector | Role::Packed | Role::Divided => call.with_count(sizes),
            _ => call.with_output(sizes),
        })
    }

    /// With a vector in parts of these [`lengths`].
    pub(super) fn divided(mut self, counts: &'a Result<Vec<usize>, Error>) -> Self {
        self.counts = counts.as_deref().ok();
        let sizes = counts.as_deref().map_err(|error| *error);
        self.change(sizes, |call, counts| {
            call.with_count(collectives::Blocks::Uneven {
                counts,
                displacements: &[],
            })
        })
    }

    pub(super) fn by(mut self, operation: &'a Erased) -> Self {
        self.operation = Some(operation);
        self.call = self.call.with_commutative(operation.operation.is_commutative());
        self
    }

    /// Changes the call by an argument, if that is right.
    fn change<T>(mut self, argument: Result<T, Error>, change: impl FnOnce(Call<'a>, T) -> Call<'a>) -> Self {
        match argument {
            Ok(argument) => self.call = change(self.call, argument),
            Err(error) => self.refused = self.refused.or(Some(error)),
        }
        self
    }

    /// The sizes of a buffer; `neighbours` is the number of its blocks if these are for neighbours.
    fn sizes(
        &self,
        role: Role,
        side: &'a impl Side,
        neighbours: Option<usize>,
    ) -> Result<collectives::Blocks<'a>, Error> {
        let comm = &self.handle.comm;
        let single = side.place().map_or(0, |place| match role {
            Role::Packed => place.bytes(),
            _ => place.count,
        });
        match (role, neighbours) {
            (Role::Blocks, Some(neighbours)) => side.blocks(self.name, neighbours.max(1)),
            (Role::Blocks, None) => {
                // Blocks belong to ranks of the other group, if there are two.
                let size = comm.remote_size().unwrap_or_else(|| comm.size());
                side.blocks(self.name, size as usize)
            }
            _ => Ok((single as usize).into()),
        }
    }

    /// The call, if its arguments are right.
    fn checked(&self) -> Result<&Call<'a>, Error> {
        if let Some(root) = self.call.root() {
            self.check_root(root)?;
        }
        if let Some(error) = self.refused {
            return Err(error);
        }
        if self.call.collective().reduces() {
            self.check_vectors()?;
        }
        Ok(&self.call)
    }

    /// Checks that the root calls the root's method, and the others call theirs: the root's has the buffer of blocks or
    /// of the result.
    fn check_root(&self, root: usize) -> Result<(), Error> {
        let comm = &self.handle.comm;
        let is_for_root = match (self.call.collective().input(), self.call.collective().output()) {
            // There is one method for all.
            (Role::Packed, _) => return Ok(()),
            (Role::Blocks, _) => !matches!(self.buffers.input, Region::None),
            _ => !matches!(self.buffers.output, Region::None),
        };
        // A rank of another group is another process.
        let is_root = comm.rank() as usize == root && !comm.is_inter();
        if root == ROOT || root == NOBODY || is_root == is_for_root {
            return Ok(());
        }
        let text = if is_for_root {
            "only the root may call this; the others call it without `_root`"
        } else {
            "the root must call this with `_root`"
        };
        Err(Error::new(ErrorClass::Root, self.name)
            .with_detail(Detail::Text(text))
            .with_peer(root as i32))
    }

    /// Checks that both places of a reduction have elements of one datatype, and as many as they should.
    fn check_vectors(&self) -> Result<(), Error> {
        let (Some(from), Some(into)) = (self.from, self.into) else {
            return Ok(());
        };
        if !from.datatype.is_same(&into.datatype) {
            let detail = Detail::Text("both buffers of a reduction have elements of the same datatype");
            return Err(Error::new(ErrorClass::Type, self.name).with_detail(detail));
        }
        let comm = &self.handle.comm;
        let sum = |counts: &[usize]| {
            counts
                .iter()
                .try_fold(0_u64, |sum, &count| sum.checked_add(count as u64))
        };
        let (sent, received) = match (self.call.collective().input(), self.counts) {
            (_, Some(counts)) => (sum(counts), counts[comm.rank() as usize] as u64),
            // Blocks are of the own group, also if there are two.
            (Role::Divided, None) => (into.count.checked_mul(comm.size() as u64), into.count),
            _ => (Some(into.count), into.count),
        };
        exactly(self.name, "elements to send", from.count, sent)?;
        exactly(self.name, "elements to receive", into.count, Some(received))
    }

    /// Begins it. If its name ends in `_init` it is only planned, to be started later.
    ///
    /// # Safety
    /// Until the operation has ended, places to send from are borrowed, places to receive into are borrowed mutably,
    /// and everything that the operation refers to lives.
    pub(super) unsafe fn begin(self) -> Running {
        let (call, comm, name, buffers) = (self.checked(), &self.handle.comm, self.name, &self.buffers);
        let operation = self.operation.map(|erased| &erased.operation);
        let mut running = if name.ends_with("_init") {
            // SAFETY: the caller's contract.
            let plan = |call| unsafe { comm.collective_init(name, call, buffers, operation, None) };
            Running::planned(call.and_then(plan))
        } else {
            // SAFETY: the caller's contract.
            let begin = |call| unsafe { comm.collective(name, call, buffers, operation, None) };
            Running::new(call.and_then(begin))
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

/// A buffer that a collective sends from or receives into.
pub(super) trait Side {
    fn region(&self) -> Region<'_>;

    /// As `number` blocks.
    fn blocks(&self, call: &'static str, number: usize) -> Result<collectives::Blocks<'_>, Error>;

    /// The only block, if there is one.
    fn place(&self) -> Option<&Place> {
        None
    }

    /// The checks to make after receiving.
    fn validators(&self) -> &[Validator];
}

impl Side for Place {
    fn region(&self) -> Region<'_> {
        self.region()
    }

    fn blocks(&self, call: &'static str, number: usize) -> Result<collectives::Blocks<'_>, Error> {
        let count = self.share(call, number)?;
        Ok(count.into())
    }

    fn place(&self) -> Option<&Place> {
        Some(self)
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

/// Neighbours, to receive from and to send to.
#[derive(Clone, Debug)]
pub struct Neighbors {
    pub(super) sources: Vec<Option<usize>>,
    pub(super) destinations: Vec<Option<usize>>,
    /// They are those of a grid: a message upwards arrives from below.
    pub(super) crossed: bool,
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

/// Lengths of the ranks' parts of a vector: as many as there are ranks, and none is negative.
pub(super) fn lengths(handle: &Handle, name: &'static str, counts: &[Count]) -> Result<Vec<usize>, Error> {
    exactly(name, "counts", counts.len() as u64, Some(handle.comm.size() as u64))?;
    let unsigned = |&count: &Count| {
        let detail = Detail::Value {
            argument: "count",
            value: count,
            min: 0,
            max: i64::MAX,
        };
        usize::try_from(count).map_err(|_| Error::new(ErrorClass::Count, name).with_detail(detail))
    };
    counts.iter().map(unsigned).collect()
}
