//! What can be done with every communicator.

use std::process;

use hikyaku::mpi::{
    datatype::Datatype as RawDatatype,
    error::{Detail, Error, ErrorClass},
    group::Comparison,
};

use super::{
    AnyProcess, AsHandle, CartesianCommunicator, Color, DistributedGraphCommunicator, GraphCommunicator, Group, Key,
    Process, Rank, SimpleCommunicator, UserGroup,
};
use crate::{
    Count, Tag,
    attribute::CommAttribute,
    datatype::{Buffer, BufferMut, Datatype, Place},
    environment,
    topology::InterCommunicator,
};

/// What stands for a communicator: a communicator, or a process of one.
pub trait AsCommunicator {
    /// Its type.
    type Out: Communicator;

    /// The communicator.
    fn as_communicator(&self) -> &Self::Out;
}

/// Processes that talk in a context of their own.
pub trait Communicator: AsHandle {
    /// Processes that can be talked to: of the other group, if there are two.
    fn target_size(&self) -> Rank {
        self.as_handle().comm.remote_size().unwrap_or_else(|| self.size())
    }

    /// Number of processes (`MPI_Comm_size`).
    fn size(&self) -> Rank {
        self.as_handle().comm.size()
    }

    /// The number of this process (`MPI_Comm_rank`).
    fn rank(&self) -> Rank {
        self.as_handle().comm.rank()
    }

    /// A process to talk to.
    ///
    /// # Panics
    /// There is no such rank.
    fn process_at_rank(&self, r: Rank) -> Process<'_> {
        let size = self.target_size();
        assert!((0..size).contains(&r), "there is no rank {r} among {size}");
        Process::new(self.as_handle(), r)
    }

    /// Any process: to receive from whoever sends first.
    fn any_process(&self) -> AnyProcess<'_> {
        AnyProcess::new(self.as_handle())
    }

    /// This process.
    fn this_process(&self) -> Process<'_> {
        Process::new(self.as_handle(), self.rank())
    }

    /// How this communicator relates to another one (`MPI_Comm_compare`).
    ///
    /// ```
    /// use mpi::{topology::CommunicatorRelation, traits::*};
    ///
    /// let universe = mpi::initialize().unwrap();
    /// let world = universe.world();
    /// assert_eq!(world.compare(&universe.world()), CommunicatorRelation::Identical);
    /// assert_eq!(world.compare(&world.duplicate().unwrap()), CommunicatorRelation::Congruent);
    /// ```
    fn compare(&self, other: &dyn Communicator) -> CommunicatorRelation {
        let (a, b) = (&self.as_handle().comm, &other.as_handle().comm);
        if a.is_same(b) {
            return CommunicatorRelation::Identical;
        }
        match a.group().compare(b.group()) {
            Comparison::Identical => CommunicatorRelation::Congruent,
            Comparison::Similar => CommunicatorRelation::Similar,
            Comparison::Unequal => CommunicatorRelation::Unequal,
        }
    }

    /// The same processes in a new context (`MPI_Comm_dup`). Collective.
    ///
    /// # Errors
    /// A process is lost.
    fn duplicate(&self) -> Result<SimpleCommunicator, Error> {
        let handle = self.as_handle();
        if handle.comm.is_inter() {
            // Its type would not say so any more.
            return Err(Error::new(ErrorClass::Comm, "MPI_Comm_dup"));
        }
        let duplicate = handle.sibling(handle.comm.duplicate()?);
        handle.attributes().clone_to(duplicate.attributes());
        Ok(SimpleCommunicator::new(duplicate))
    }

    /// Communicators of those that say the same color, in the order of ranks (`MPI_Comm_split`); none for those that say
    /// [`Color::undefined`]. Collective.
    ///
    /// # Errors
    /// A process is lost.
    fn split_by_color(&self, color: Color) -> Result<Option<SimpleCommunicator>, Error> {
        self.split_by_color_with_key(color, Key::default())
    }

    /// The same, in the order of keys.
    ///
    /// # Errors
    /// A process is lost.
    fn split_by_color_with_key(&self, color: Color, key: Key) -> Result<Option<SimpleCommunicator>, Error> {
        let handle = self.as_handle();
        let part = handle.comm.split(color.0, key)?;
        Ok(part.map(|part| SimpleCommunicator::new(handle.sibling(part))))
    }

    /// Communicators of those that run on the same host (`MPI_Comm_split_type`). Collective.
    ///
    /// # Errors
    /// A process is lost.
    fn split_shared(&self, key: Key) -> Result<SimpleCommunicator, Error> {
        const CALL: &str = "MPI_Comm_split_type";
        let handle = self.as_handle();
        let name = environment::host_name();
        let part = handle.comm.make_as_one(CALL, || {
            let hosts = environment::share_names(handle, CALL, &name)?;
            let color = hosts.iter().position(|host| *host == name).unwrap_or(0);
            handle.comm.split_for(CALL, Some(color as i32), key)
        })?;
        let part = part.ok_or_else(|| Error::new(ErrorClass::Intern, CALL))?;
        Ok(SimpleCommunicator::new(handle.sibling(part)))
    }

    /// A communicator of the members of a group (`MPI_Comm_create`). Collective over all processes of this one.
    ///
    /// # Errors
    /// A process is lost; the group has others.
    fn split_by_subgroup_collective(&self, group: &dyn Group) -> Result<Option<SimpleCommunicator>, Error> {
        let handle = self.as_handle();
        let part = handle.comm.create(&group.as_raw())?;
        Ok(part.map(|part| SimpleCommunicator::new(handle.sibling(part))))
    }

    /// The same, collective only over the members of the group (`MPI_Comm_create_group`).
    ///
    /// # Errors
    /// A process is lost; the group has others.
    fn split_by_subgroup(&self, group: &dyn Group) -> Result<Option<SimpleCommunicator>, Error> {
        self.split_by_subgroup_with_tag(group, Tag::default())
    }

    /// The same, with a tag that tells it from others that several threads begin at once.
    ///
    /// # Errors
    /// A process is lost; the group has others; a negative tag.
    fn split_by_subgroup_with_tag(&self, group: &dyn Group, tag: Tag) -> Result<Option<SimpleCommunicator>, Error> {
        let handle = self.as_handle();
        let part = handle.comm.create_group(&group.as_raw(), tag)?;
        Ok(part.map(|part| SimpleCommunicator::new(handle.sibling(part))))
    }

    /// The group of its processes (`MPI_Comm_group`).
    fn group(&self) -> UserGroup {
        let comm = &self.as_handle().comm;
        UserGroup::new(comm.group().clone(), comm.engine().process())
    }

    /// Ends the whole job (`MPI_Abort`): the launcher, if there is one, ends the others. The exit code is `errorcode`, or 1
    /// if that is not in 1 to 255.
    fn abort(&self, errorcode: i32) -> ! {
        environment::abort(errorcode)
    }

    /// It has two groups.
    fn test_inter(&self) -> bool {
        self.as_handle().comm.is_inter()
    }

    /// Gives it a name, for people (`MPI_Comm_set_name`).
    fn set_name(&self, name: &str) {
        name.clone_into(&mut self.as_handle().name());
    }

    /// Its name.
    fn get_name(&self) -> String {
        self.as_handle().name().clone()
    }

    /// A grid of `dims` processes, of which each dimension may be a ring (`MPI_Cart_create`). Processes that it does not
    /// need get none. Ranks are not reordered. Collective.
    ///
    /// # Errors
    /// A process is lost; the grid needs more processes than there are, or makes no sense.
    ///
    /// ```
    /// use mpi::traits::*;
    ///
    /// let universe = mpi::initialize().unwrap();
    /// let ring = universe.world().create_cartesian_communicator(&[1], &[true], false)?.unwrap();
    /// assert_eq!(ring.shift(0, -1), (Some(0), Some(0)));
    /// # Ok::<_, mpi::Error>(())
    /// ```
    fn create_cartesian_communicator(
        &self,
        dims: &[Count],
        periods: &[bool],
        reorder: bool,
    ) -> Result<Option<CartesianCommunicator>, Error> {
        // There is nothing known that another order would be good for.
        let _ = reorder;
        CartesianCommunicator::create(self.as_handle(), dims, periods)
    }

    /// The rank that this process would have in such a grid (`MPI_Cart_map`).
    ///
    /// # Errors
    /// The grid needs more processes than there are, or makes no sense.
    fn cartesian_map(&self, dims: &[Count], periods: &[bool]) -> Result<Option<Rank>, Error> {
        let grid = CartesianCommunicator::grid("MPI_Cart_map", self.size(), dims, periods)?;
        Ok(Some(self.rank()).filter(|rank| *rank < grid.size()))
    }

    /// Octets that so many elements need when they are packed (`MPI_Pack_size`).
    fn pack_size<Dt: Datatype>(&self, incount: Count, datatype: &Dt) -> Count
    where
        Self: Sized,
    {
        incount.saturating_mul(datatype.as_raw().size() as Count)
    }

    /// The data of a buffer, without gaps (`MPI_Pack`).
    fn pack<Buf: Buffer + ?Sized>(&self, inbuf: &Buf) -> Vec<u8>
    where
        Self: Sized,
    {
        Place::of(inbuf).pack()
    }

    /// The same into `outbuf` from `position` on. Gives the position after it.
    ///
    /// # Errors
    /// There is no room.
    fn pack_into<Buf: Buffer + ?Sized>(&self, inbuf: &Buf, outbuf: &mut [u8], position: Count) -> Result<Count, Error>
    where
        Self: Sized,
    {
        let packed = self.pack(inbuf);
        let start = usize::try_from(position).unwrap_or(usize::MAX);
        let room = outbuf.get_mut(start..).and_then(|rest| rest.get_mut(..packed.len()));
        let Some(room) = room else {
            let error = Error::truncated(
                "MPI_Pack",
                packed.len() as u64,
                outbuf.len().saturating_sub(start) as u64,
            );
            return Err(error);
        };
        room.copy_from_slice(&packed);
        Ok(position + packed.len() as Count)
    }

    /// Puts packed data from `position` on into a buffer (`MPI_Unpack`). Gives the position after it.
    ///
    /// Unlike rsmpi's this is safe: what comes out is always a value of the buffer's type.
    ///
    /// # Errors
    /// There are not as many octets.
    fn unpack_into<Buf: BufferMut + ?Sized>(
        &self,
        inbuf: &[u8],
        outbuf: &mut Buf,
        position: Count,
    ) -> Result<Count, Error>
    where
        Self: Sized,
    {
        let place = Place::of_mut(outbuf);
        let len = place.octets() as usize;
        let start = usize::try_from(position).unwrap_or(usize::MAX);
        let octets = inbuf.get(start..).and_then(|rest| rest.get(..len));
        let Some(octets) = octets else {
            let detail = Detail::Text("there are not as many packed octets");
            return Err(Error::new(ErrorClass::Truncate, "MPI_Unpack").with_detail(detail));
        };
        place.unpack(octets);
        Ok(position + len as Count)
    }

    /// Ends everything that is pending on this communicator, here, with [`ErrorClass::Revoked`]; nothing can begin on it
    /// any more. Not in rsmpi.
    fn revoke(&self) {
        self.as_handle().comm.revoke();
    }

    /// A communicator with the processes of another one on the other side (`MPI_Intercomm_create`). Collective over both;
    /// the leaders talk on `bridge`, which only they need. Not in rsmpi.
    ///
    /// # Errors
    /// A process is lost; there is no such rank; the groups have a process in common.
    fn create_intercommunicator(
        &self,
        local_leader: Rank,
        bridge: &dyn Communicator,
        remote_leader: Rank,
        tag: Tag,
    ) -> Result<InterCommunicator, Error> {
        let handle = self.as_handle();
        let bridge = &bridge.as_handle().comm;
        let inter = handle
            .comm
            .create_intercommunicator(local_leader, bridge, remote_leader, tag)?;
        Ok(InterCommunicator::new(handle.sibling(inter)))
    }

    /// A graph, of which each process gives its own neighbours (`MPI_Dist_graph_create_adjacent`). Collective. Not in
    /// rsmpi.
    ///
    /// # Errors
    /// A process is lost; there is no such rank.
    fn create_adjacent_graph_communicator(
        &self,
        sources: &[Rank],
        destinations: &[Rank],
    ) -> Result<DistributedGraphCommunicator, Error> {
        DistributedGraphCommunicator::create(self.as_handle(), sources, destinations)
    }

    /// A graph that every process knows as a whole (`MPI_Graph_create`): `index[i]` is the number of neighbours of ranks 0
    /// to i, `edges` are the neighbours. Processes that it does not have get none. Collective. Not in rsmpi.
    ///
    /// # Errors
    /// A process is lost; the graph makes no sense.
    fn create_graph_communicator(&self, index: &[Rank], edges: &[Rank]) -> Result<Option<GraphCommunicator>, Error> {
        GraphCommunicator::create(self.as_handle(), index, edges)
    }
}

/// Attributes of communicators.
pub trait AnyCommunicator: Communicator {
    /// The attribute of this type, if it was set.
    fn get_attr<A: CommAttribute>(&self) -> Option<&A>;

    /// Sets the attribute of this type. What it replaces is dropped with the communicator.
    fn set_attr<A: CommAttribute>(&mut self, val: A);
}

impl<C: Communicator + ?Sized> AnyCommunicator for C {
    fn get_attr<A: CommAttribute>(&self) -> Option<&A> {
        self.as_handle().attributes().get()
    }

    fn set_attr<A: CommAttribute>(&mut self, val: A) {
        self.as_handle().attributes().set(val);
    }
}

/// How two communicators relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommunicatorRelation {
    /// The same.
    Identical,
    /// The same processes in the same order, in different contexts.
    Congruent,
    /// The same processes in another order.
    Similar,
    /// Different processes.
    Unequal,
}

/// Ends this process with an exit code that is an error.
pub(crate) fn exit(code: i32) -> ! {
    process::exit(i32::from(u8::try_from(code).unwrap_or(1).max(1)))
}

/// The datatype of octets.
pub(crate) fn octets() -> RawDatatype {
    RawDatatype::predefined(hikyaku::mpi::datatype::Kind::Byte)
}
