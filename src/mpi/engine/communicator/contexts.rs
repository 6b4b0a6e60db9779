#![expect(unsafe_code, reason = "keeps the memory of a collective that has begun")]
//! New communicators of the same processes or some of them (MPI 7.4), and their contexts.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use super::Communicator;
use crate::bootstrap::MAX_PROCESSES;
use crate::mpi::{
    Rank,
    engine::{Entry, class::Class, request::Request, uninterrupted::uninterrupted},
    error::{Detail, Error, ErrorClass},
    group::Group,
    operation::Predefined,
};

/// Width of a context.
const CONTEXT_BITS: u32 = 29;
/// The first context of processes that were spawned.
const SPAWNED: i64 = 1 << (CONTEXT_BITS - 1);
/// The context of messages about ports: the last one, which no communicator has.
pub(in crate::mpi::engine) const PORTS: u32 = (1 << CONTEXT_BITS) - 1;

/// New communicators.
impl Communicator {
    /// A context that no other communicator of its ranks has; rank 0 allocates it.
    pub(in crate::mpi::engine) fn new_context(&self, name: &'static str) -> Result<u32, Error> {
        let mut context = [0_i64];
        if self.rank() == 0 {
            context = [self.own_context()];
        }
        self.agree(name, &mut context, Predefined::Sum)?;
        self.context_of(name, context[0])
    }

    /// A context that no process has allocated, or −1 if this process has none left.
    pub(in crate::mpi::engine) fn own_context(&self) -> i64 {
        let engine = &self.0.engine;
        let number = i64::from(engine.contexts.fetch_add(1, Ordering::Relaxed));
        let process = i64::from(engine.process);
        let (place, end) = match engine.first {
            // 0 is the world, 1 a process alone; of the others each process of the first world has every `size`-th.
            0 => (number * i64::from(engine.size) + process + 2, SPAWNED),
            // Worlds that were spawned know nothing of each other.
            _ => (SPAWNED + number * i64::from(MAX_PROCESSES) + process, PORTS.into()),
        };
        if place < end { place } else { -1 }
    }

    /// Checks the result of [`own_context`](Self::own_context), of this process or another.
    pub(in crate::mpi::engine) fn context_of(&self, name: &'static str, number: i64) -> Result<u32, Error> {
        u32::try_from(number).map_err(|_| {
            let detail = Detail::Text("a process has made too many communicators");
            self.locate(Error::new(ErrorClass::Other, name).with_detail(detail))
        })
    }

    /// The same processes in a new context (`MPI_Comm_dup`). Collective.
    ///
    /// # Errors
    /// A process is lost, or the communicator is revoked.
    pub fn duplicate(&self) -> Result<Self, Error> {
        self.duplicate_for("MPI_Comm_dup")
    }

    /// As [`duplicate`](Self::duplicate), in the name of another MPI function.
    ///
    /// # Errors
    /// As [`duplicate`](Self::duplicate).
    pub fn duplicate_for(&self, call: &'static str) -> Result<Self, Error> {
        self.enter(|| Entry::named(call)).make(self.duplicate_quietly(call))
    }

    pub(in crate::mpi::engine) fn duplicate_quietly(&self, call: &'static str) -> Result<Self, Error> {
        let context = match self.both(call)? {
            Some(both) => both.new_context(call)?,
            None => self.new_context(call)?,
        };
        self.in_context(call, context)
    }

    /// The same processes in this context.
    fn in_context(&self, call: &'static str, context: u32) -> Result<Self, Error> {
        let (group, remote) = (self.0.group.clone(), self.0.remote.clone());
        let same = Self::with(&self.0.engine, context, group, remote, (Class::Collective, 0));
        same.ok_or_else(|| self.broken(call))
    }

    /// Begins [`duplicate`](Self::duplicate) (`MPI_Comm_idup`). Collective.
    ///
    /// # Errors
    /// As [`duplicate`](Self::duplicate).
    pub fn begin_duplicate(&self) -> Result<Duplicating, Error> {
        const CALL: &str = "MPI_Comm_idup";
        let both = self.both(CALL)?;
        let among = both.as_ref().unwrap_or(self);
        let mut context = Vec::from([0]);
        if among.rank() == 0 {
            context = Vec::from([among.own_context()]);
        }
        // SAFETY: the memory is on the heap, and kept until the request has ended, even by `drop`.
        let request = unsafe { among.begin_agree(CALL, &mut context, Predefined::Sum) }?;
        Ok(Duplicating {
            original: self.clone(),
            request: Some(request),
            context,
        })
    }

    /// Creates a communicator for the ranks that give the same `color`, ordered by `key` and then by rank
    /// (`MPI_Comm_split`). A rank that gives no color gets `None`. Collective.
    ///
    /// # Errors
    /// A process is lost; the communicator is revoked; the color is negative.
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Self>, Error> {
        self.split_for("MPI_Comm_split", color, key)
    }

    /// As [`split`](Self::split), in the name of another MPI function.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    pub fn split_for(&self, call: &'static str, color: Option<i32>, key: i32) -> Result<Option<Self>, Error> {
        self.enter(|| Entry::named(call))
            .may_make(self.split_quietly(call, color, key))
    }

    fn split_quietly(&self, call: &'static str, color: Option<i32>, key: i32) -> Result<Option<Self>, Error> {
        if let Some(both) = self.both(call)? {
            return self.split_both(call, &both, color, key);
        }
        // All ranks take part in what follows, even if the color of one is wrong.
        let wrong = color.is_some_and(|color| color < 0);
        let own = [color.map_or(-1, i64::from), key.into()];
        let all = self.share(call, &own)?;
        let context = self.new_context(call)?;
        let Some(color) = color else { return Ok(None) };
        if wrong {
            return Err(self.wrong_color(call, color));
        }
        let mut members: Vec<(i64, Rank)> = (0..self.size())
            .zip(all.chunks_exact(2))
            .filter(|(_, own)| own[0] == i64::from(color))
            .map(|(rank, own)| (own[1], rank))
            .collect();
        members.sort_unstable();
        let ranks: Vec<Rank> = members.into_iter().map(|(_, rank)| rank).collect();
        let group = self.0.group.incl(&ranks);
        let group = group.map_err(|error| self.locate(Error::group(call, error)))?;
        Ok(Self::new(&self.0.engine, context, group))
    }

    /// The same between two groups: of the processes with one color, those of each group stay together. A color that
    /// only one group has gives none.
    fn split_both(&self, call: &'static str, both: &Self, color: Option<i32>, key: i32) -> Result<Option<Self>, Error> {
        let own = [color.map_or(-1, i64::from), key.into()];
        let all = both.share(call, &own)?;
        let context = both.new_context(call)?;
        let Some(color) = color else { return Ok(None) };
        if color < 0 {
            return Err(self.wrong_color(call, color));
        }
        let chosen = |group: &Group| {
            let mut members: Vec<(i64, u32)> = both
                .group()
                .processes()
                .zip(all.chunks_exact(2))
                .filter(|(process, own)| own[0] == i64::from(color) && group.rank_of(*process).is_some())
                .map(|(process, own)| (own[1], process))
                .collect();
            members.sort_by_key(|(key, process)| (*key, group.rank_of(*process)));
            let processes: Vec<u32> = members.into_iter().map(|(_, process)| process).collect();
            Group::of_processes(&processes).map_err(|error| self.locate(Error::group(call, error)))
        };
        let (local, remote) = (chosen(self.group())?, chosen(self.targets())?);
        if remote.size() == 0 {
            return Ok(None);
        }
        let engine = &self.0.engine;
        Ok(Self::with(engine, context, local, Some(remote), (Class::Collective, 0)))
    }

    fn wrong_color(&self, call: &'static str, color: i32) -> Error {
        let detail = Detail::Value {
            argument: "color",
            value: color.into(),
            min: 0,
            max: i32::MAX.into(),
        };
        self.locate(Error::new(ErrorClass::Arg, call).with_detail(detail))
    }

    /// A communicator of a group of its processes (`MPI_Comm_create`). Collective over all of them, with the same
    /// group; a process outside of the group gets `None`. Between two groups each side gives a group of its own
    /// processes, and there is none if one of these is empty.
    ///
    /// # Errors
    /// A process is lost; the communicator is revoked; the group has processes that the communicator has not.
    pub fn create(&self, group: &Group) -> Result<Option<Self>, Error> {
        const CALL: &str = "MPI_Comm_create";
        let span = self.enter(|| Entry::among(CALL, self.targets(), group));
        span.may_make(self.create_quietly(CALL, group))
    }

    fn create_quietly(&self, call: &'static str, group: &Group) -> Result<Option<Self>, Error> {
        if let Some(both) = self.both(call)? {
            return self.create_both(call, &both, group);
        }
        let context = self.new_context(call)?;
        self.check_members(call, group)?;
        Ok(Self::new(&self.0.engine, context, group.clone()))
    }

    /// The same between two groups: the processes of one side give the same group.
    fn create_both(&self, call: &'static str, both: &Self, group: &Group) -> Result<Option<Self>, Error> {
        let place = |group: &Group| group.rank_of(self.0.engine.process).map_or(-1, i64::from);
        let all = both.share(call, &[place(group)])?;
        let context = both.new_context(call)?;
        self.check_members(call, group)?;
        let members = both.group().processes().zip(all);
        let mut theirs: Vec<(i64, u32)> = members
            .filter(|(process, place)| *place >= 0 && self.targets().rank_of(*process).is_some())
            .map(|(process, place)| (place, process))
            .collect();
        theirs.sort_unstable();
        let theirs: Vec<u32> = theirs.into_iter().map(|(_, process)| process).collect();
        if theirs.is_empty() {
            return Ok(None);
        }
        let remote = Group::of_processes(&theirs).map_err(|error| self.locate(Error::group(call, error)))?;
        let engine = &self.0.engine;
        Ok(Self::with(
            engine,
            context,
            group.clone(),
            Some(remote),
            (Class::Collective, 0),
        ))
    }
}

/// A duplicate of a communicator that is being made, see [`Communicator::begin_duplicate`]. Dropping it waits.
#[derive(Debug)]
#[must_use = "dropping it waits, and gives the duplicate up"]
pub struct Duplicating {
    original: Communicator,
    /// `None`: it has ended.
    request: Option<Request>,
    context: Vec<i64>,
}

impl Duplicating {
    const CALL: &str = "MPI_Comm_idup";

    /// The duplicate, if all ranks have begun it (`MPI_Test`); after one pass of progress.
    ///
    /// # Errors
    /// A process is lost, or the communicator is revoked. It has been given out already.
    pub fn test(&mut self) -> Result<Option<Communicator>, Error> {
        let ended = match &mut self.request {
            Some(request) => request.test(),
            None => return Err(self.given_out()),
        };
        if matches!(ended, Ok(None)) {
            return Ok(None);
        }
        self.request = None;
        self.made(ended.map(|_| ())).map(Some)
    }

    /// Waits until all ranks have begun it (`MPI_Wait`).
    ///
    /// # Errors
    /// As [`test`](Self::test).
    pub fn wait(mut self) -> Result<Communicator, Error> {
        let Some(mut request) = self.request.take() else {
            return Err(self.given_out());
        };
        let ended = uninterrupted(|| request.wait_mut());
        self.made(ended.map(|_| ()))
    }

    fn given_out(&self) -> Error {
        let detail = Detail::Text("the duplicate has been given out already");
        let error = Error::new(ErrorClass::Request, Self::CALL).with_detail(detail);
        self.original.locate(error)
    }

    fn made(&self, ended: Result<(), Error>) -> Result<Communicator, Error> {
        let original = &self.original;
        let span = original.enter(|| Entry::named(Self::CALL));
        span.make(ended.and_then(|()| {
            let context = original.context_of(Self::CALL, self.context[0])?;
            original.in_context(Self::CALL, context)
        }))
    }
}

impl Drop for Duplicating {
    fn drop(&mut self) {
        if let Some(mut request) = self.request.take() {
            // Its memory is needed until then.
            let _ = uninterrupted(|| request.wait_mut());
        }
    }
}
