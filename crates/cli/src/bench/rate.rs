//! `bench rate`: bursts of small messages.

use super::{
    settings::{Job, Operation},
    setup::{check, kinds},
    streaming::Streaming,
};
use crate::{args::Common, failure::Failure};

/// Messages in a burst.
const BURST: usize = 1000;

/// Measures and prints.
pub(crate) fn run(common: &Common) -> Result<(), Failure> {
    check(common, Some(2))?;
    let streaming = Streaming {
        benchmark: "rate",
        title: "hikyaku message rate, one direction: bursts of 1000 messages, a small reply each",
        sizes: &[64],
        job,
        messages: true,
    };
    streaming.run(common, &kinds(common, true))
}

fn job(common: &Common, size: usize) -> Job {
    let count = common.iterations.map_or(20, |count| count as usize);
    Job {
        operation: Operation::Stream,
        size,
        warmup: (count / 10).max(1),
        count,
        window: BURST,
        spokes: 1,
    }
}
