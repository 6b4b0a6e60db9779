//! Messages there and back between two ranks: what `tune` measures.

use crate::{
    options::Turns,
    ranks::{
        work::{Task, Work},
        world::Series,
    },
};

/// Bytes that a round moves each way, if the number of ping-pongs is not given.
const ROUND: usize = 2 << 20;

/// Ping-pongs of `size` bytes that are sent at once up to `eager_limit` bytes, and copied by the kernel beyond
/// `cma_limit`.
pub(super) fn work(turns: &Turns, size: usize, eager_limit: Option<u32>, cma_limit: Option<u32>) -> Work {
    let count = turns
        .iterations
        .map_or_else(|| (ROUND / size).clamp(5, 200), |count| count as usize);
    Work {
        task: Task::PingPong,
        size,
        window: 1,
        whole: false,
        warmup: (count / 10).max(2),
        count,
        algorithm: None,
        eager_limit,
        cma_limit,
    }
}

/// One-way time, µs.
pub(super) fn one_way(series: &Series) -> Option<f64> {
    series.micros(|round| round.p50 / 2.0)
}
