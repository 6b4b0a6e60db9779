#![expect(unsafe_code, reason = "messages are given by pointer")]
//! Communicators of some of another one's processes, and between two groups (MPI 7.4 to 7.6).

use alloc::{sync::Arc, vec, vec::Vec};

use super::{Engine, Entry, MatchedMessage, Mode, Status, class::Class, communicator::Communicator, uninterrupted};
use crate::bootstrap::MAX_PROCESSES;
use crate::mpi::{
    Rank,
    datatype::{Datatype, Kind},
    error::{Detail, Error, ErrorClass},
    group::Group,
    operation::Predefined,
};

const TOO_MANY: &str = "the leader of the other group says more than there are processes";

impl Communicator {
    pub(super) fn check_members(&self, call: &'static str, group: &Group) -> Result<(), Error> {
        if group.processes().all(|process| self.group().rank_of(process).is_some()) {
            return Ok(());
        }
        let detail = Detail::Text("the group has processes that the communicator has not");
        Err(self.locate(Error::new(ErrorClass::Group, call).with_detail(detail)))
    }

    /// A communicator of a group of its processes (`MPI_Comm_create_group`). Collective over that group only; a process
    /// that is no member gets `None` at once. `tag` tells it from others that threads of the same processes create at
    /// the same time.
    ///
    /// # Errors
    /// A process is lost; the communicator is revoked; the group has processes that the communicator has not; the tag
    /// is negative.
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Option<Self>, Error> {
        const CALL: &str = "MPI_Comm_create_group";
        let span = self.enter(|| Entry::among(CALL, self.targets(), group).with_tag(tag));
        span.may_make(self.create_group_for(CALL, group, tag))
    }

    fn create_group_for(&self, call: &'static str, group: &Group, tag: i32) -> Result<Option<Self>, Error> {
        self.check_members(call, group)?;
        let tag = u32::try_from(tag).map_err(|_| self.wrong_tag(call, tag))?;
        // A communicator of the group in the old context: the number of its one collective is used by no other one.
        let among = Self::with(self.engine(), self.context(), group.clone(), None, (Class::Part, tag));
        let Some(among) = among else { return Ok(None) };
        let context = among.new_context(call)?;
        Ok(Self::new(self.engine(), context, group.clone()))
    }

    /// A communicator of a group of the job's processes, without another one as its parent
    /// (`MPI_Comm_create_from_group`). Collective over that group; a process that is no member gets `None` at once.
    /// `tag` tells it from others of the same processes that are created at the same time.
    ///
    /// # Errors
    /// A process is lost; the group has processes that the job has not.
    pub fn of_group(engine: &Arc<Engine>, group: &Group, tag: &str) -> Result<Option<Self>, Error> {
        const CALL: &str = "MPI_Comm_create_from_group";
        let world = Self::world(engine);
        let span = world.enter(|| Entry::among(CALL, world.targets(), group));
        span.may_make(world.create_from(CALL, group, tag))
    }

    fn create_from(&self, call: &'static str, group: &Group, tag: &str) -> Result<Option<Self>, Error> {
        self.check(call)?;
        self.check_members(call, group)?;
        // Numbers of `create_group` are tags, which are not negative.
        let number = tag.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let class = (Class::Part, number | 1 << 31);
        let among = Self::with(self.engine(), self.context(), group.clone(), None, class);
        let Some(among) = among else { return Ok(None) };
        let context = among.new_context(call)?;
        Ok(Self::new(self.engine(), context, group.clone()))
    }

    /// A communicator between two groups of the job's processes, without another one as its parent
    /// (`MPI_Intercomm_create_from_groups`). Collective over both. The leaders are ranks in their groups; `tag` is as in
    /// [`of_group`](Self::of_group).
    ///
    /// # Errors
    /// As [`of_group`](Self::of_group) and [`create_intercommunicator`](Self::create_intercommunicator); this process is
    /// not in the group `local`.
    pub fn of_groups(
        engine: &Arc<Engine>,
        (local, local_leader): (&Group, Rank),
        (remote, remote_leader): (&Group, Rank),
        tag: &str,
    ) -> Result<Self, Error> {
        const CALL: &str = "MPI_Intercomm_create_from_groups";
        let world = Self::world(engine);
        let span = world.enter(|| Entry::among(CALL, world.targets(), local));
        span.make(world.create_between(CALL, (local, local_leader), (remote, remote_leader), tag))
    }

    fn create_between(
        &self,
        call: &'static str,
        (local, local_leader): (&Group, Rank),
        (remote, remote_leader): (&Group, Rank),
        tag: &str,
    ) -> Result<Self, Error> {
        let leader = |group: &Group, rank| {
            let process = group.process(rank);
            process.ok_or_else(|| self.locate(Error::rank(call, rank, group.size())))
        };
        let mut leaders = [leader(local, local_leader)?, leader(remote, remote_leader)?];
        leaders.sort_unstable();
        let leaders = Group::of_processes(&leaders).map_err(|error| self.locate(Error::group(call, error)))?;
        let side = self.create_from(call, local, tag)?.ok_or_else(|| {
            let detail = Detail::Text("this process is not in the local group");
            self.locate(Error::new(ErrorClass::Group, call).with_detail(detail))
        })?;
        let bridge = self.create_from(call, &leaders, tag)?;
        let there = leader(remote, remote_leader)?;
        let bridge = bridge.as_ref().unwrap_or(&side);
        let there = bridge.group().rank_of(there).unwrap_or(0);
        side.create_intercommunicator_for(call, local_leader, bridge, (there, 0))
    }

    /// Whether a context and a group can consist of so many numbers.
    fn may_be_told(&self, numbers: usize) -> bool {
        numbers <= 1 + MAX_PROCESSES as usize
    }

    /// A communicator between this one's processes and those of another one (`MPI_Intercomm_create`). Collective over
    /// both. The leaders exchange two messages with `tag` on `bridge`, where `remote_leader` is the rank of the other
    /// leader; the other processes do not use `bridge`.
    ///
    /// # Errors
    /// A process is lost; the communicator is revoked; a rank or tag is wrong; the groups have a process in common.
    pub fn create_intercommunicator(
        &self,
        local_leader: Rank,
        bridge: &Self,
        remote_leader: Rank,
        tag: i32,
    ) -> Result<Self, Error> {
        const CALL: &str = "MPI_Intercomm_create";
        let span = self.enter(|| Entry::named(CALL).with_peer(remote_leader).with_tag(tag));
        span.make(self.create_intercommunicator_for(CALL, local_leader, bridge, (remote_leader, tag)))
    }

    fn create_intercommunicator_for(
        &self,
        call: &'static str,
        local_leader: Rank,
        bridge: &Self,
        (remote_leader, tag): (Rank, i32),
    ) -> Result<Self, Error> {
        self.meet_others(call, local_leader, || {
            uninterrupted(|| self.introduce(call, bridge, remote_leader, tag))
        })
    }

    /// A communicator between this one's processes and another group, of which the leader of this one gets to know by
    /// `introduce`: the context to use, and the processes. Collective.
    pub(super) fn meet_others(
        &self,
        call: &'static str,
        local_leader: Rank,
        introduce: impl FnOnce() -> Result<Vec<i64>, Error>,
    ) -> Result<Self, Error> {
        if self.group().process(local_leader).is_none() {
            return Err(self.locate(Error::rank(call, local_leader, self.size())));
        }
        let mut told = Ok(Vec::new());
        if self.rank() == local_leader {
            told = introduce();
        }
        // All ranks take part, even if the leader has failed. They agree on the context first, then on the processes.
        let known = told.as_ref().map_or(&[][..], |all| all);
        let failed = |text| self.locate(Error::new(ErrorClass::Group, call).with_detail(Detail::Text(text)));
        let mut number = [known.len() as i64];
        self.agree(call, &mut number, Predefined::Sum)?;
        let number = usize::try_from(number[0])
            .ok()
            .filter(|number| self.may_be_told(*number));
        let Some(number) = number.filter(|number| *number >= known.len()) else {
            return Err(failed(TOO_MANY));
        };
        let mut all = vec![0_i64; number];
        all[..known.len()].copy_from_slice(known);
        self.agree(call, &mut all, Predefined::Sum)?;
        told?;
        let [context, processes @ ..] = &all[..] else {
            return Err(failed("the leader could not reach the other one"));
        };
        let processes: Vec<u32> = processes.iter().map(|process| *process as u32).collect();
        let mut strange = [i64::from(!self.engine().knows(&processes))];
        self.agree(call, &mut strange, Predefined::Sum)?;
        if strange[0] > 0 {
            return Err(failed(
                "some of the other group belong to a world that some of this group have not spawned, nor were spawned by",
            ));
        }
        let remote = Group::of_processes(&processes).map_err(|error| self.locate(Error::group(call, error)))?;
        if remote.intersection(self.group()).size() > 0 {
            return Err(failed("the groups have a process in common"));
        }
        let context = self.context_of(call, *context)?;
        let inter = Self::with(
            self.engine(),
            context,
            self.group().clone(),
            Some(remote),
            (Class::Collective, 0),
        );
        inter.ok_or_else(|| self.broken(call))
    }

    /// Exchanges groups with the other leader. Gives the context to use and the processes of the other group. Must not
    /// be left by a panic.
    pub(super) fn introduce(
        &self,
        call: &'static str,
        bridge: &Self,
        remote_leader: Rank,
        tag: i32,
    ) -> Result<Vec<i64>, Error> {
        self.exchange(call, bridge, (remote_leader, tag), || {
            let message = bridge.mprobe_quietly(call, remote_leader, tag)?;
            self.hear(call, message)
        })
    }

    /// The same with the leader whose `message` has come. Must not be left by a panic.
    pub(super) fn answer(
        &self,
        call: &'static str,
        bridge: &Self,
        message: MatchedMessage,
        tag: i32,
    ) -> Result<Vec<i64>, Error> {
        let remote_leader = message.status().source;
        let theirs = self.hear(call, message)?;
        self.exchange(call, bridge, (remote_leader, tag), || Ok(theirs))
    }

    /// Receives what the other leader says of its group.
    fn hear(&self, call: &'static str, message: MatchedMessage) -> Result<Vec<i64>, Error> {
        let Status { source, len, .. } = message.status();
        let number = usize::try_from(len / 8).ok();
        let Some(number) = number.filter(|number| self.may_be_told(*number)) else {
            let error = Error::new(ErrorClass::Group, call).with_detail(Detail::Text(TOO_MANY));
            return Err(self.locate(error).with_peer(source));
        };
        let mut theirs = vec![0_i64; number];
        let (base, len) = (theirs.as_mut_ptr().cast::<u8>(), theirs.len() as u64);
        let datatype = Datatype::predefined(Kind::I64);
        // SAFETY: `theirs` is not used before the request has ended, which is waited for at once; if the network fails,
        // all requests end.
        unsafe { Self::imreceive_quietly(call, message, base, len, &datatype) }?.finish()?;
        Ok(theirs)
    }

    /// Tells the other leader of this group, hears of the other one, and gives what both go by.
    fn exchange(
        &self,
        call: &'static str,
        bridge: &Self,
        (remote_leader, tag): (Rank, i32),
        hear: impl FnOnce() -> Result<Vec<i64>, Error>,
    ) -> Result<Vec<i64>, Error> {
        let mine: Vec<i64> = core::iter::once(self.own_context())
            .chain(self.group().processes().map(i64::from))
            .collect();
        let datatype = Datatype::predefined(Kind::I64);
        let (base, len) = (mine.as_ptr().cast::<u8>(), mine.len() as u64);
        // SAFETY: `mine` is not changed, and this function is left only when the request has ended: it is waited for
        // below, and if the network fails, all requests end.
        let sent = unsafe { bridge.buffer(call, base.cast_mut(), len, &datatype) }?;
        let mut sending = bridge.isend_buffer(call, Mode::Standard, sent, remote_leader, tag)?;
        let heard = hear();
        let sent = sending.finish();
        let mut theirs = heard?;
        sent?;
        if let ([context, first, ..], [own, me, ..]) = (&mut theirs[..], &mine[..])
            && me < first
        {
            *context = *own;
        }
        Ok(theirs)
    }

    /// One communicator of both groups (`MPI_Intercomm_merge`). Collective over both; the ranks of the group that says
    /// `high` come after those of the group that does not.
    ///
    /// # Errors
    /// A process is lost; the communicator is revoked; it has only one group.
    pub fn merge(&self, high: bool) -> Result<Self, Error> {
        const CALL: &str = "MPI_Intercomm_merge";
        self.enter(|| Entry::named(CALL)).make(self.merge_for(CALL, high))
    }

    /// An intracommunicator of both groups, in the old context; `None` if there is one group. The group with the lowest
    /// process comes first.
    pub(super) fn both(&self, call: &'static str) -> Result<Option<Self>, Error> {
        let Some(remote) = self.remote_group() else {
            return Ok(None);
        };
        let (local, first) = (self.group(), |group: &Group| group.processes().min());
        let both = if first(local) < first(remote) {
            local.union(remote)
        } else {
            remote.union(local)
        };
        let both = Self::with(self.engine(), self.context(), both, None, (Class::Part, 0));
        both.map(Some).ok_or_else(|| self.broken(call))
    }

    fn merge_for(&self, call: &'static str, high: bool) -> Result<Self, Error> {
        let Some(remote) = self.remote_group() else {
            return Err(self.locate(Error::new(ErrorClass::Comm, call)));
        };
        let local = self.group();
        let Some(among) = self.both(call)? else {
            return Err(self.broken(call));
        };
        let is_first = among.group().process(0) == local.process(0);
        let all = among.share(call, &[i64::from(high)])?;
        let context = among.new_context(call)?;
        let (ours, theirs) = if is_first {
            (all[0], all[all.len() - 1])
        } else {
            (all[all.len() - 1], all[0])
        };
        let ours_first = if ours == theirs { is_first } else { ours == 0 };
        let merged = if ours_first {
            local.union(remote)
        } else {
            remote.union(local)
        };
        Self::new(self.engine(), context, merged).ok_or_else(|| self.broken(call))
    }
}
