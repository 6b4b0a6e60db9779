//! Groups (MPI 7.3).

use std::{collections::BTreeMap, sync::Mutex};

use hikyaku::mpi::{
    engine::PROC_NULL,
    error::ErrorClass,
    group::{Comparison as Compared, Group, RankRange},
};

use super::Done;
use crate::{
    abi::{Comparison, Handle},
    border::{Call, Failure, InOut, Int, Ints, Out, OutConstant, OutInts, Rank, UNDEFINED},
    objects::{Object, Ranks, Session, lock},
};

#[doc(hidden)]
#[macro_export]
macro_rules! groups {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Group_size" => groups::group_size(group: Ranks, size: Out<i32>);
                "Group_rank" => groups::group_rank(group: Ranks, rank: Out<i32>);
                "Group_compare" => groups::group_compare(
                    group1: Ranks, group2: Ranks, result: OutConstant<Comparison>);
                "Group_translate_ranks" => groups::group_translate_ranks(
                    group1: Ranks, n: Int, ranks1: Ints, group2: Ranks, ranks2: OutInts);
                "Group_incl" => groups::group_incl(group: Ranks, n: Int, ranks: Ints, newgroup: InOut<Group>);
                "Group_excl" => groups::group_excl(group: Ranks, n: Int, ranks: Ints, newgroup: InOut<Group>);
                "Group_range_incl" => groups::group_range_incl(
                    group: Ranks, n: Int, ranges: Ints, newgroup: InOut<Group>);
                "Group_range_excl" => groups::group_range_excl(
                    group: Ranks, n: Int, ranges: Ints, newgroup: InOut<Group>);
                "Group_union" => groups::group_union(group1: Ranks, group2: Ranks, newgroup: InOut<Group>);
                "Group_intersection" => groups::group_intersection(
                    group1: Ranks, group2: Ranks, newgroup: InOut<Group>);
                "Group_difference" => groups::group_difference(group1: Ranks, group2: Ranks, newgroup: InOut<Group>);
                "Group_free" => groups::group_free(group: InOut<Group>);
            }
        };
    };
}

/// The number of this process; that of the only one before it has joined a job.
fn own_process() -> u32 {
    crate::process::joined().map_or(0, |joined| joined.engine.process())
}

fn length(n: Int) -> Result<usize, Failure> {
    usize::try_from(n.0).map_err(|_| Failure::value(ErrorClass::Arg, "n", n.0.into(), 0, i32::MAX.into()))
}

/// Groups that come from sessions.
static SESSIONS: Mutex<BTreeMap<Handle, Session>> = Mutex::new(BTreeMap::new());

/// Notes that a group comes from this session.
pub(crate) fn note_session(group: Ranks, session: Session) {
    lock(&SESSIONS).insert(group.handle(), session);
}

/// The session that a group comes from.
pub(crate) fn session_of(group: Ranks) -> Option<Session> {
    lock(&SESSIONS).get(&group.handle()).copied()
}

/// A group, made of another, as the program gets it: the empty one is predefined.
fn named(of: Ranks, group: Group) -> Ranks {
    if group.size() == 0 {
        return Ranks::number(0x109);
    }
    let made = Ranks::insert(group);
    if let Some(session) = session_of(of) {
        note_session(made, session);
    }
    made
}

pub fn group_size(_call: Call, group: Ranks, size: Out<i32>) -> Done {
    size.set(group.get()?.size());
    Ok(())
}

pub fn group_rank(_call: Call, group: Ranks, rank: Out<i32>) -> Done {
    rank.set(group.get()?.rank_of(own_process()).unwrap_or(UNDEFINED));
    Ok(())
}

pub fn group_compare(_call: Call, group1: Ranks, group2: Ranks, result: OutConstant<Comparison>) -> Done {
    let (one, other) = (group1.get()?, group2.get()?);
    result.set(match one.compare(&other) {
        Compared::Identical => Comparison::IDENT,
        Compared::Similar => Comparison::SIMILAR,
        Compared::Unequal => Comparison::UNEQUAL,
    });
    Ok(())
}

pub fn group_translate_ranks(call: Call, group1: Ranks, n: Int, ranks1: Ints, group2: Ranks, ranks2: OutInts) -> Done {
    let (one, other) = (group1.get()?, group2.get()?);
    let translate = |rank: i32| match Rank::decode(call.encoding, rank) {
        PROC_NULL => Ok(call.encoding.proc_null),
        rank => Ok(one.translate_rank(rank, &other)?.unwrap_or(UNDEFINED)),
    };
    let ranks = ranks1.list(length(n)?)?;
    let translated: Result<Vec<i32>, Failure> = ranks.into_iter().map(translate).collect();
    ranks2.fill(translated?)
}

pub fn group_incl(_call: Call, group: Ranks, n: Int, ranks: Ints, newgroup: InOut<Group>) -> Done {
    newgroup.set(named(group, group.get()?.incl(&ranks.list(length(n)?)?)?));
    Ok(())
}

pub fn group_excl(_call: Call, group: Ranks, n: Int, ranks: Ints, newgroup: InOut<Group>) -> Done {
    newgroup.set(named(group, group.get()?.excl(&ranks.list(length(n)?)?)?));
    Ok(())
}

fn triples(n: Int, ranges: Ints) -> Result<Vec<RankRange>, Failure> {
    let numbers = ranges.list(length(n)? * 3)?;
    let range = |triple: &[i32]| RankRange {
        first: triple[0],
        last: triple[1],
        stride: triple[2],
    };
    Ok(numbers.chunks_exact(3).map(range).collect())
}

pub fn group_range_incl(_call: Call, group: Ranks, n: Int, ranges: Ints, newgroup: InOut<Group>) -> Done {
    newgroup.set(named(group, group.get()?.range_incl(&triples(n, ranges)?)?));
    Ok(())
}

pub fn group_range_excl(_call: Call, group: Ranks, n: Int, ranges: Ints, newgroup: InOut<Group>) -> Done {
    newgroup.set(named(group, group.get()?.range_excl(&triples(n, ranges)?)?));
    Ok(())
}

pub fn group_union(_call: Call, group1: Ranks, group2: Ranks, newgroup: InOut<Group>) -> Done {
    newgroup.set(named(group1, group1.get()?.union(&*group2.get()?)));
    Ok(())
}

pub fn group_intersection(_call: Call, group1: Ranks, group2: Ranks, newgroup: InOut<Group>) -> Done {
    newgroup.set(named(group1, group1.get()?.intersection(&*group2.get()?)));
    Ok(())
}

pub fn group_difference(_call: Call, group1: Ranks, group2: Ranks, newgroup: InOut<Group>) -> Done {
    newgroup.set(named(group1, group1.get()?.difference(&*group2.get()?)));
    Ok(())
}

pub fn group_free(_call: Call, group: InOut<Group>) -> Done {
    let named = group.get();
    // The empty group may be the result of a function, so a program may free it.
    if !(named.is_predefined() && Group::predefined(named.handle().0).is_some()) {
        named.remove()?;
        lock(&SESSIONS).remove(&named.handle());
    }
    group.set(Ranks::NULL);
    Ok(())
}
