#![expect(unsafe_code, reason = "implements the trait of handles")]
//! Operations of all communicators.

use hikyaku::mpi::{
    engine,
    error::{Detail, Error, ErrorClass},
    group::Comparison,
};

use super::{
    AnyProcess, AsHandle, CartesianCommunicator, Color, DistributedGraphCommunicator, GraphCommunicator, Group, Handle,
    InterCommunicator, Key, Process, Rank, SimpleCommunicator, UserGroup,
};
use crate::{
    Count, Tag,
    attribute::CommAttribute,
    collective::share_names,
    datatype::{Buffer, BufferMut, Datatype, Place},
    environment,
    point_to_point::Array,
    raw::AsRaw,
};

/// A communicator, or a process of one.
pub trait AsCommunicator {
    /// The type of the communicator.
    type Out: Communicator;

    /// The communicator.
    fn as_communicator(&self) -> &Self::Out;
}

/// A set of processes that communicate in a context of their own.
pub trait Communicator: AsHandle {
    /// Number of processes to communicate with: of the other group, if there are two.
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

    /// A process of the communicator.
    ///
    /// # Panics
    /// If there is no such rank.
    fn process_at_rank(&self, r: Rank) -> Process<'_> {
        let size = self.target_size();
        assert!((0..size).contains(&r), "there is no rank {r} among {size}");
        Process::new(self.as_handle(), r)
    }

    /// A [buffer array](crate::point_to_point::array) of `len` bytes.
    ///
    /// # Panics
    /// There is not enough memory.
    fn buffer_array(&self, len: usize) -> Array {
        self.as_handle().comm.array(len)
    }

    /// Any process: to receive from the first one that sends.
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

    /// The communicator between this world and the processes that have [spawned](crate::traits::Root::spawn) it
    /// (`MPI_Comm_get_parent`); `None`: the launcher has started it, or it has been left
    /// ([`Universe::disconnect_parent`](crate::environment::Universe::disconnect_parent)).
    fn parent(&self) -> Option<InterCommunicator> {
        environment::parent().map(InterCommunicator::new)
    }

    /// Creates a communicator of the same processes in a new context (`MPI_Comm_dup`). Collective.
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

    /// Creates a communicator for each color, of the processes that pass it, in the order of ranks (`MPI_Comm_split`);
    /// none for processes that pass [`Color::undefined`]. Collective.
    ///
    /// # Errors
    /// A process is lost.
    fn split_by_color(&self, color: Color) -> Result<Option<SimpleCommunicator>, Error> {
        self.split_by_color_with_key(color, Key::default())
    }

    /// Like [`split_by_color`](Self::split_by_color), in the order of keys.
    ///
    /// # Errors
    /// A process is lost.
    fn split_by_color_with_key(&self, color: Color, key: Key) -> Result<Option<SimpleCommunicator>, Error> {
        let handle = self.as_handle();
        let part = handle.comm.split(color.0, key)?;
        Ok(part.map(|part| SimpleCommunicator::new(handle.sibling(part))))
    }

    /// Creates a communicator for each host, of the processes that run on it (`MPI_Comm_split_type` with
    /// `MPI_COMM_TYPE_SHARED`). Collective. The processes of each can have memory in common
    /// ([`SharedWindow`](crate::window::SharedWindow)): those in different containers, or of different users, are apart.
    /// Processes that can have none, such as simulated ones, are together if the names of their hosts are the same.
    ///
    /// # Errors
    /// A process is lost.
    fn split_shared(&self, key: Key) -> Result<SimpleCommunicator, Error> {
        const CALL: &str = "MPI_Comm_split_type";
        let handle = self.as_handle();
        let name = match handle.comm.engine().memory_domain() {
            Some(domain) => format!("memory {domain}"),
            None => format!("host {}", environment::host_name()),
        };
        let part = handle.comm.make_as_one(CALL, || {
            let hosts = share_names(handle, CALL, &name)?;
            let color = hosts.iter().position(|host| *host == name).unwrap_or(0);
            handle.comm.split_for(CALL, Some(color as i32), key)
        })?;
        let part = part.ok_or_else(|| Error::new(ErrorClass::Intern, CALL))?;
        Ok(SimpleCommunicator::new(handle.sibling(part)))
    }

    /// Creates a communicator of the members of a group (`MPI_Comm_create`). Collective over all processes of this
    /// communicator.
    ///
    /// # Errors
    /// A process is lost, or the group has processes that this communicator does not have.
    fn split_by_subgroup_collective(&self, group: &dyn Group) -> Result<Option<SimpleCommunicator>, Error> {
        let handle = self.as_handle();
        let part = handle.comm.create(&group.as_raw())?;
        Ok(part.map(|part| SimpleCommunicator::new(handle.sibling(part))))
    }

    /// The same, collective only over the members of the group (`MPI_Comm_create_group`).
    ///
    /// # Errors
    /// A process is lost, or the group has processes that this communicator does not have.
    fn split_by_subgroup(&self, group: &dyn Group) -> Result<Option<SimpleCommunicator>, Error> {
        self.split_by_subgroup_with_tag(group, Tag::default())
    }

    /// The same, with a tag that distinguishes it from others that several threads begin at the same time.
    ///
    /// # Errors
    /// A process is lost, the group has processes that this communicator does not have, or the tag is negative.
    fn split_by_subgroup_with_tag(&self, group: &dyn Group, tag: Tag) -> Result<Option<SimpleCommunicator>, Error> {
        let handle = self.as_handle();
        let part = handle.comm.create_group(&group.as_raw(), tag)?;
        Ok(part.map(|part| SimpleCommunicator::new(handle.sibling(part))))
    }

    /// The group of the communicator's processes (`MPI_Comm_group`).
    fn group(&self) -> UserGroup {
        let comm = &self.as_handle().comm;
        UserGroup::new(comm.group().clone(), comm.engine().process())
    }

    /// Ends the whole job (`MPI_Abort`): the launcher, if there is one, ends the other processes. The exit code is
    /// `errorcode`, or 1 if that is not from 1 to 255.
    fn abort(&self, errorcode: i32) -> ! {
        environment::abort(errorcode)
    }

    /// Returns whether the communicator has two groups.
    fn test_inter(&self) -> bool {
        self.as_handle().comm.is_inter()
    }

    /// Sets a name, for people to read (`MPI_Comm_set_name`).
    fn set_name(&self, name: &str) {
        self.as_handle().comm.set_name(name);
    }

    /// The name of the communicator.
    fn get_name(&self) -> String {
        self.as_handle().comm.name()
    }

    /// Creates a grid of `dims` processes, each dimension of which may be a ring (`MPI_Cart_create`). Processes that it
    /// does not need get none. Ranks are not reordered. Collective.
    ///
    /// # Errors
    /// A process is lost, the grid needs more processes than there are, or its arguments are not valid.
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
    /// The grid needs more processes than there are, or its arguments are not valid.
    fn cartesian_map(&self, dims: &[Count], periods: &[bool]) -> Result<Option<Rank>, Error> {
        let grid = CartesianCommunicator::grid("MPI_Cart_map", self.size(), dims, periods)?;
        Ok(Some(self.rank()).filter(|rank| *rank < grid.size()))
    }

    /// Number of bytes that this many elements need when packed (`MPI_Pack_size`).
    fn pack_size<Dt: Datatype>(&self, incount: Count, datatype: &Dt) -> Count
    where
        Self: Sized,
    {
        incount.saturating_mul(datatype.as_raw().size() as Count)
    }

    /// Packs the data of a buffer, without gaps (`MPI_Pack`).
    fn pack<Buf: Buffer + ?Sized>(&self, inbuf: &Buf) -> Vec<u8>
    where
        Self: Sized,
    {
        Place::of(inbuf).pack()
    }

    /// Packs into `outbuf` from `position` on. Returns the position behind the data.
    ///
    /// # Errors
    /// There is not enough room.
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

    /// Unpacks data from `position` on into a buffer (`MPI_Unpack`). Returns the position behind the data.
    ///
    /// Unlike in rsmpi this is safe: the result is always a value of the buffer's type.
    ///
    /// # Errors
    /// There are not enough bytes.
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
        let len = place.bytes() as usize;
        let start = usize::try_from(position).unwrap_or(usize::MAX);
        let bytes = inbuf.get(start..).and_then(|rest| rest.get(..len));
        let Some(bytes) = bytes else {
            let detail = Detail::Text("there are not as many packed bytes");
            return Err(Error::new(ErrorClass::Truncate, "MPI_Unpack").with_detail(detail));
        };
        place.unpack(bytes);
        Ok(position + len as Count)
    }

    /// Ends all pending operations on this communicator, at this process, with [`ErrorClass::Revoked`]; no operation
    /// can begin on it any more. Not in rsmpi.
    fn revoke(&self) {
        self.as_handle().comm.revoke();
    }

    /// Creates a communicator with the processes of another one on the other side (`MPI_Intercomm_create`). Collective
    /// over both. The leaders communicate on `bridge`, which only they need. Not in rsmpi.
    ///
    /// # Errors
    /// A process is lost, there is no such rank, or the groups have a process in common.
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

    /// Creates a graph in which each process passes its own neighbours (`MPI_Dist_graph_create_adjacent`). Collective.
    /// Not in rsmpi.
    ///
    /// # Errors
    /// A process is lost, or there is no such rank.
    fn create_adjacent_graph_communicator(
        &self,
        sources: &[Rank],
        destinations: &[Rank],
    ) -> Result<DistributedGraphCommunicator, Error> {
        DistributedGraphCommunicator::create(self.as_handle(), sources, destinations)
    }

    /// Creates a graph that every process passes as a whole (`MPI_Graph_create`): `index[i]` is the number of
    /// neighbours of ranks 0 to i, `edges` are the neighbours. Processes outside of the graph get none. Collective. Not
    /// in rsmpi.
    ///
    /// # Errors
    /// A process is lost, or the graph is not valid.
    fn create_graph_communicator(&self, index: &[Rank], edges: &[Rank]) -> Result<Option<GraphCommunicator>, Error> {
        GraphCommunicator::create(self.as_handle(), index, edges)
    }
}

macro_rules! communicators {
    ($($name:ty)*) => {$(
        // SAFETY: it is the same communicator every time.
        unsafe impl AsRaw for $name {
            type Raw = engine::Communicator;

            fn as_raw(&self) -> engine::Communicator {
                self.as_handle().comm.clone()
            }
        }

        impl Communicator for $name {}

        impl AsCommunicator for $name {
            type Out = Self;

            fn as_communicator(&self) -> &Self {
                self
            }
        }
    )*};
}

communicators! {
    SimpleCommunicator
    CartesianCommunicator
    GraphCommunicator
    DistributedGraphCommunicator
    AnyProcess<'_>
    InterCommunicator
}

impl Communicator for Process<'_> {}

impl<'a> AsCommunicator for Process<'a> {
    type Out = AnyProcess<'a>;

    fn as_communicator(&self) -> &AnyProcess<'a> {
        self.any()
    }
}

/// The communicator of a process.
pub(crate) fn handle<P: AsCommunicator + ?Sized>(process: &P) -> &Handle {
    process.as_communicator().as_handle()
}

/// Attributes of communicators.
pub trait AnyCommunicator: Communicator {
    /// The attribute of this type, if one was set.
    fn get_attr<A: CommAttribute>(&self) -> Option<&A>;

    /// Sets the attribute of this type. The replaced value is dropped with the communicator.
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

/// The relation of two communicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommunicatorRelation {
    /// The same communicator.
    Identical,
    /// The same processes in the same order, in different contexts.
    Congruent,
    /// The same processes in another order.
    Similar,
    /// Different processes.
    Unequal,
}
