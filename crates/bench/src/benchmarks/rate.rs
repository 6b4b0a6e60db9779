//! `bench rate`: bursts of small messages.

use crate::{
    benchmarks::streaming::Streaming,
    failure::Failure,
    harness::setup::{check, kinds},
    options::Common,
    transports::settings::{Job, Operation},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench rate                                    bursts of 64 B messages
  hikyaku bench rate --sizes 8,64,256

`tcp` makes one write a message, `tcp/batched` collects 64 KB first; bare UDP sends one datagram a message in batches \
(segmentation offload). A ratio above 1 says that hikyaku is faster.";

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
        mix: None,
        warmup: (count / 10).max(1),
        count,
        window: BURST,
        spokes: 1,
        whole: false,
    }
}
