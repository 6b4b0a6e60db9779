//! How blocks go: one to many, many to one, or as many each way.

use hikyaku::mpi::{collectives::Blocks, engine::Region};

use super::{buffers::Side, prepared::Prepared};
use crate::{
    border::{Count, Failure},
    calls::{Done, Then},
};

/// A block from each, and blocks of all for those that have `into`. Without `from` the own block is in its place.
pub(super) fn one_to_blocks<'a>(
    prepared: Prepared<'a>,
    (from, sendcount): (&'a Option<Side>, Count),
    (into, blocks): (&'a Option<Side>, impl FnOnce(&'a Side) -> Result<Blocks<'a>, Failure>),
    then: Then,
) -> Done {
    let mut prepared = prepared;
    let is_one_group = !prepared.object.comm.is_inter();
    if let Some(into) = into {
        let blocks = blocks(into)?;
        prepared = prepared.output(into.region()).with(|what| what.with_output(blocks));
        if from.is_none() && is_one_group {
            prepared = prepared.with(|what| what.with_in_place(true));
            if let Blocks::Even { count } = blocks {
                prepared = prepared.with(|what| what.with_input(count));
            }
        }
    }
    if let Some(from) = from {
        let count = from.count(sendcount.0)?;
        prepared = prepared.input(from.region()).with(|what| what.with_input(count));
    }
    prepared.run(then)
}

/// Blocks for all from those that have `from`, and a block for each. Without `into` the own block stays in its place.
pub(super) fn blocks_to_one<'a>(
    prepared: Prepared<'a>,
    (from, blocks): (&'a Option<Side>, Blocks<'a>),
    (into, recvcount): (&'a Option<Side>, Count),
    then: Then,
) -> Done {
    let mut prepared = prepared;
    let is_one_group = !prepared.object.comm.is_inter();
    if let Some(from) = from {
        prepared = prepared.input(from.region()).with(|what| what.with_input(blocks));
        if into.is_none() && is_one_group {
            prepared = prepared.with(|what| what.with_in_place(true));
            if let Blocks::Even { count } = blocks {
                prepared = prepared.with(|what| what.with_output(count));
            }
        }
    }
    if let Some(into) = into {
        let count = into.count(recvcount.0)?;
        prepared = prepared.output(into.region()).with(|what| what.with_output(count));
    }
    prepared.run(then)
}

/// Blocks for all, and blocks from all.
pub(super) fn exchange<'a>(
    prepared: Prepared<'a>,
    from: Option<(Region<'a>, Blocks<'a>)>,
    into: (Region<'a>, Blocks<'a>),
    then: Then,
) -> Done {
    let prepared = prepared.output(into.0).with(|what| what.with_output(into.1));
    match from {
        Some((region, blocks)) => prepared.input(region).with(|what| what.with_input(blocks)),
        None => prepared.with(|what| what.with_in_place(true)),
    }
    .run(then)
}
