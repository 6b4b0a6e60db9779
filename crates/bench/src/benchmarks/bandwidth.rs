//! `bench bandwidth`: streaming in one direction.

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
  hikyaku bench bandwidth --sizes 2048,64K,1M           a window of messages, then a small reply
  hikyaku bench bandwidth --mtu 1500 --vs udp           against the wall of a 1500-byte network

MB are 10^6 bytes. Bare UDP copies each message to its place, keeps 292 KB in flight and sends nothing again; a round \
in which it loses something is void. A ratio above 1 says that hikyaku is faster.";

/// Most messages of a window.
const WINDOW: usize = 64;
/// Most bytes of a window.
const WINDOW_BYTES: usize = 16 << 20;
/// Bytes that a round moves, if the number of windows is not given.
const ROUND: usize = 32 << 20;

/// Measures and prints.
pub(crate) fn run(common: &Common) -> Result<(), Failure> {
    check(common, Some(2))?;
    let streaming = Streaming {
        benchmark: "bandwidth",
        title: "hikyaku bandwidth, one direction: windows of messages, a small reply each",
        sizes: &[64, 512, 2048, 8192, 65_536, 1 << 20, 4 << 20],
        job,
        messages: false,
    };
    streaming.run(common, &kinds(common, false))
}

fn job(common: &Common, size: usize) -> Job {
    let window = (WINDOW_BYTES / size).clamp(2, WINDOW);
    let count = common
        .iterations
        .map_or_else(|| (ROUND / (size * window)).clamp(2, 50), |count| count as usize);
    Job {
        operation: Operation::Stream,
        size,
        mix: None,
        warmup: (count / 10).max(1),
        count,
        window,
        spokes: 1,
        whole: false,
    }
}
