//! Communicators (MPI 7.4 to 7.6).

use hikyaku::mpi::{engine, error::ErrorClass, group::Comparison as Compared};

use super::{Done, give, groups, point_to_point::scope};
use crate::{
    abi::{Comparison, Sort, SplitType},
    border::{Call, Constant, Failure, Flag, InOut, Int, Out, OutConstant, Rank, Tag, Text, UNDEFINED},
    objects::{Comm, Communicator, Errhandler, Handler, Held, Info, Place, Ranks, RequestObject, Topology, Work, lock},
    process::host_color,
};

#[doc(hidden)]
#[macro_export]
macro_rules! communicators {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Comm_size" => communicators::comm_size(comm: Comm, size: Out<i32>);
                "Comm_rank" => communicators::comm_rank(comm: Comm, rank: Out<i32>);
                "Comm_remote_size" => communicators::comm_remote_size(comm: Comm, size: Out<i32>);
                "Comm_test_inter" => communicators::comm_test_inter(comm: Comm, flag: Out<i32>);
                "Comm_compare" => communicators::comm_compare(
                    comm1: Comm, comm2: Comm, result: OutConstant<Comparison>);
                "Comm_group" => communicators::comm_group(comm: Comm, group: InOut<Group>);
                "Comm_remote_group" => communicators::comm_remote_group(comm: Comm, group: InOut<Group>);
                "Comm_dup" => communicators::comm_dup(comm: Comm, newcomm: InOut<Communicator>);
                "Comm_dup_with_info" => communicators::comm_dup_with_info(
                    comm: Comm, info: Info, newcomm: InOut<Communicator>);
                "Comm_idup" => communicators::comm_idup(
                    comm: Comm, newcomm: InOut<Communicator>, request: InOut<RequestObject>);
                "Comm_idup_with_info" => communicators::comm_idup_with_info(
                    comm: Comm, info: Info, newcomm: InOut<Communicator>, request: InOut<RequestObject>);
                "Comm_create" => communicators::comm_create(comm: Comm, group: Ranks, newcomm: InOut<Communicator>);
                "Comm_create_group" => communicators::comm_create_group(
                    comm: Comm, group: Ranks, tag: Tag, newcomm: InOut<Communicator>);
                "Comm_create_from_group" => communicators::comm_create_from_group(
                    group: Ranks, stringtag: Text, info: Info, errhandler: Errhandler, newcomm: InOut<Communicator>);
                "Comm_split" => communicators::comm_split(
                    comm: Comm, color: Int, key: Int, newcomm: InOut<Communicator>);
                "Comm_split_type" => communicators::comm_split_type(
                    comm: Comm, split_type: Constant<SplitType>, key: Int, info: Info, newcomm: InOut<Communicator>);
                "Comm_free" => communicators::comm_free(comm: InOut<Communicator>);
                "Comm_disconnect" => communicators::comm_disconnect(comm: InOut<Communicator>);
                "Intercomm_create" => communicators::intercomm_create(
                    local_comm: Comm, local_leader: Rank, peer_comm: Comm, remote_leader: Rank, tag: Tag,
                    newintercomm: InOut<Communicator>);
                "Intercomm_create_from_groups" => communicators::intercomm_create_from_groups(
                    local_group: Ranks, local_leader: Rank, remote_group: Ranks, remote_leader: Rank,
                    stringtag: Text, info: Info, errhandler: Errhandler, newintercomm: InOut<Communicator>);
                "Intercomm_merge" => communicators::intercomm_merge(
                    intercomm: Comm, high: Flag, newintracomm: InOut<Communicator>);
            }
        };
    };
}

pub fn comm_size(_call: Call, comm: Comm, size: Out<i32>) -> Done {
    size.set(comm.get()?.comm.size());
    Ok(())
}

pub fn comm_rank(_call: Call, comm: Comm, rank: Out<i32>) -> Done {
    rank.set(comm.get()?.comm.rank());
    Ok(())
}

fn one_group() -> Failure {
    Failure::text(ErrorClass::Comm, "the communicator has one group")
}

pub fn comm_remote_size(_call: Call, comm: Comm, size: Out<i32>) -> Done {
    size.set(comm.get()?.comm.remote_size().ok_or_else(one_group)?);
    Ok(())
}

pub fn comm_test_inter(_call: Call, comm: Comm, flag: Out<i32>) -> Done {
    flag.set_flag(comm.get()?.comm.is_inter());
    Ok(())
}

pub fn comm_compare(_call: Call, comm1: Comm, comm2: Comm, result: OutConstant<Comparison>) -> Done {
    let (one, other) = (comm1.get()?, comm2.get()?);
    let (one, other) = (&one.comm, &other.comm);
    let local = one.group().compare(other.group());
    let all = match (one.remote_group(), other.remote_group()) {
        (None, None) => Some(local),
        (Some(mine), Some(theirs)) => {
            let remote = mine.compare(theirs);
            let least = if remote == Compared::Identical { local } else { remote };
            Some(if local == Compared::Unequal { local } else { least })
        }
        _ => None,
    };
    result.set(match all {
        Some(Compared::Identical) if one.is_same(other) => Comparison::IDENT,
        Some(Compared::Identical) => Comparison::CONGRUENT,
        Some(Compared::Similar) => Comparison::SIMILAR,
        Some(Compared::Unequal) | None => Comparison::UNEQUAL,
    });
    Ok(())
}

pub fn comm_group(_call: Call, comm: Comm, group: InOut<hikyaku::mpi::group::Group>) -> Done {
    group.set(Ranks::insert(comm.get()?.comm.group().clone()));
    Ok(())
}

pub fn comm_remote_group(_call: Call, comm: Comm, group: InOut<hikyaku::mpi::group::Group>) -> Done {
    let comm = comm.get()?;
    group.set(Ranks::insert(comm.comm.remote_group().ok_or_else(one_group)?.clone()));
    Ok(())
}

/// Hands out a new communicator, or none.
pub(crate) fn hand_out(
    to: InOut<Communicator>,
    made: Option<engine::Communicator>,
    topology: Topology,
    parent: Option<&Communicator>,
) {
    to.set(made.map_or(Comm::NULL, |made| {
        Comm::insert(Communicator::new(made, topology, parent))
    }));
}

/// Hands out a duplicate, with copies of the attributes.
fn hand_out_duplicate(to: InOut<Communicator>, named: Comm, made: engine::Communicator) -> Done {
    let comm = named.get()?;
    let mut duplicate = Communicator::new(made, comm.topology.clone(), Some(&comm));
    duplicate.attributes = comm.attributes.copy(&named.handle()).map_err(Failure::Code)?;
    to.set(Comm::insert(duplicate));
    Ok(())
}

pub fn comm_dup(_call: Call, comm: Comm, newcomm: InOut<Communicator>) -> Done {
    hand_out_duplicate(newcomm, comm, comm.get()?.comm.duplicate()?)
}

pub fn comm_dup_with_info(_call: Call, comm: Comm, _info: Info, newcomm: InOut<Communicator>) -> Done {
    let made = comm.get()?.comm.duplicate_for("MPI_Comm_dup_with_info")?;
    hand_out_duplicate(newcomm, comm, made)
}

pub fn comm_idup(_call: Call, comm: Comm, newcomm: InOut<Communicator>, request: InOut<RequestObject>) -> Done {
    let object = comm.get()?;
    let attributes = object.attributes.copy(&comm.handle()).map_err(Failure::Code)?;
    let duplicating = object.comm.begin_duplicate()?;
    let place = Place {
        to: newcomm,
        parent: comm,
        attributes,
    };
    give(request, Work::Duplicating(Box::new((duplicating, place))), scope(comm));
    Ok(())
}

pub fn comm_idup_with_info(
    call: Call,
    comm: Comm,
    _info: Info,
    newcomm: InOut<Communicator>,
    request: InOut<RequestObject>,
) -> Done {
    comm_idup(call, comm, newcomm, request)
}

pub fn comm_create(_call: Call, comm: Comm, group: Ranks, newcomm: InOut<Communicator>) -> Done {
    let (comm, group) = (comm.get()?, group.get()?);
    hand_out(newcomm, comm.comm.create(&group)?, Topology::None, Some(&comm));
    Ok(())
}

pub fn comm_create_group(_call: Call, comm: Comm, group: Ranks, tag: Tag, newcomm: InOut<Communicator>) -> Done {
    let (comm, group) = (comm.get()?, group.get()?);
    hand_out(
        newcomm,
        comm.comm.create_group(&group, tag.0)?,
        Topology::None,
        Some(&comm),
    );
    Ok(())
}

/// The engine of this process, for functions without a communicator.
pub(crate) fn engine() -> Result<std::sync::Arc<engine::Engine>, Failure> {
    let joined = crate::process::joined();
    let joined = joined.ok_or_else(|| Failure::text(ErrorClass::Other, "neither MPI nor a session has begun"))?;
    Ok(joined.engine.clone())
}

pub fn comm_create_from_group(
    _call: Call,
    group: Ranks,
    stringtag: Text,
    _info: Info,
    errhandler: Errhandler,
    newcomm: InOut<Communicator>,
) -> Done {
    let handler = Handler::for_sort(Sort::Comm, errhandler)?;
    let made = engine::Communicator::of_group(&engine()?, &*group.get()?, &stringtag.text())?;
    newcomm.set(made.map_or(Comm::NULL, |made| of_group(made, handler, group)));
    Ok(())
}

fn of_group(made: engine::Communicator, handler: Held<Handler>, group: Ranks) -> Comm {
    let mut made = Communicator::new(made, Topology::None, None);
    made.session = groups::session_of(group);
    *lock(&made.handler) = handler;
    Comm::insert(made)
}

pub fn comm_split(_call: Call, comm: Comm, color: Int, key: Int, newcomm: InOut<Communicator>) -> Done {
    let comm = comm.get()?;
    let color = (color.0 != UNDEFINED).then_some(color.0);
    hand_out(newcomm, comm.comm.split(color, key.0)?, Topology::None, Some(&comm));
    Ok(())
}

pub fn comm_split_type(
    call: Call,
    comm: Comm,
    split_type: Constant<SplitType>,
    key: Int,
    info: Info,
    newcomm: InOut<Communicator>,
) -> Done {
    let comm = comm.get()?;
    // The one resource that guides name here; there is none smaller than a host.
    let is_host = |hints: &hikyaku::mpi::info::Info| hints.get("mpi_hw_resource_type") == Some("mpi_shared_memory");
    let color = || host_color(comm.comm.engine());
    let color = match split_type.0 {
        SplitType::SHARED => Some(color()),
        SplitType::HW_GUIDED | SplitType::RESOURCE_GUIDED => match info.is_null() {
            true => None,
            false => is_host(&lock(&info.get()?.0)).then(color),
        },
        SplitType::HW_UNGUIDED | UNDEFINED => None,
        _ => return Err(Failure::text(ErrorClass::Arg, "there is no such kind of split")),
    };
    let made = comm.comm.split_for(call.name, color, key.0)?;
    hand_out(newcomm, made, Topology::None, Some(&comm));
    Ok(())
}

/// Deletes the attributes of a communicator that is freed.
fn clear(named: Comm) -> Done {
    let object = named.get()?;
    if named.is_predefined() {
        return Ok(());
    }
    object.attributes.clear(&named.handle()).map_err(Failure::Code)
}

pub fn comm_free(_call: Call, comm: InOut<Communicator>) -> Done {
    clear(comm.get())?;
    comm.get().remove()?;
    comm.set(Comm::NULL);
    Ok(())
}

pub fn comm_disconnect(_call: Call, comm: InOut<Communicator>) -> Done {
    // There is nothing to cut; its pending messages end first.
    let named = comm.get();
    let object = named.get()?;
    object.comm.barrier()?;
    clear(named)?;
    named.remove()?;
    comm.set(Comm::NULL);
    Ok(())
}

pub fn intercomm_create(
    _call: Call,
    local_comm: Comm,
    local_leader: Rank,
    peer_comm: Comm,
    remote_leader: Rank,
    tag: Tag,
    newintercomm: InOut<Communicator>,
) -> Done {
    let local = local_comm.get()?;
    // Only the leader's peer communicator counts; that of others may be null.
    let made = match peer_comm.find() {
        Some(peer) => local
            .comm
            .create_intercommunicator(local_leader.0, &peer.comm, remote_leader.0, tag.0),
        None if local.comm.rank() == local_leader.0 => return Err(ErrorClass::Comm.into()),
        None => local
            .comm
            .create_intercommunicator(local_leader.0, &local.comm, 0, tag.0),
    };
    hand_out(newintercomm, Some(made?), Topology::None, Some(&local));
    Ok(())
}

pub fn intercomm_create_from_groups(
    _call: Call,
    local_group: Ranks,
    local_leader: Rank,
    remote_group: Ranks,
    remote_leader: Rank,
    stringtag: Text,
    _info: Info,
    errhandler: Errhandler,
    newintercomm: InOut<Communicator>,
) -> Done {
    let handler = Handler::for_sort(Sort::Comm, errhandler)?;
    let (local, remote) = (local_group.get()?, remote_group.get()?);
    let (local, remote) = ((&**local, local_leader.0), (&**remote, remote_leader.0));
    let made = engine::Communicator::of_groups(&engine()?, local, remote, &stringtag.text())?;
    newintercomm.set(of_group(made, handler, local_group));
    Ok(())
}

pub fn intercomm_merge(_call: Call, intercomm: Comm, high: Flag, newintracomm: InOut<Communicator>) -> Done {
    let comm = intercomm.get()?;
    hand_out(
        newintracomm,
        Some(comm.comm.merge(high.0)?),
        Topology::None,
        Some(&comm),
    );
    Ok(())
}
