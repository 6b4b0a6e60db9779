//! The parts of `bench dse`, and the work of each.

use clap::{Args, ValueEnum};

use super::priority::Level;
use crate::{
    options::Common,
    transports::{
        settings::{Job, Operation, Wait},
        sizes::LARGEST,
    },
};

/// Options of `bench dse`.
#[derive(Debug, Args)]
pub(crate) struct DseArgs {
    /// Only these parts [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    pub only: Vec<Part>,
    /// Seed of the sizes of `mix`
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// The rest.
    #[command(flatten)]
    pub common: Common,
}

impl DseArgs {
    /// Whether a part is asked for.
    pub(super) fn has(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Messages of one size, for each of several (--sizes).
    Sizes,
    /// Messages of mixed sizes.
    Mix,
    /// One receiver with several senders.
    HotSpot,
    /// A receiver that shares its CPU with a process that computes.
    Priority,
    /// Sockets of 60 processors.
    Sockets,
}

/// What is done with messages.
const OPERATIONS: [Operation; 2] = [Operation::Stream, Operation::PingPong];
/// Messages of an experiment.
const MESSAGES: usize = 10_000;
/// Sizes of the paper's messages (its table 1): most have at most 128 bytes.
const SIZES: [usize; 5] = [16, 32, 128, 1024, 4096];
/// Senders of a hot spot: 2, 4 and 8 processors, as many as the paper had.
const HOT: [usize; 3] = [1, 3, 7];
/// One in so many messages of a burst is a ping-pong beside a process that computes: each may have to wait for a turn of
/// that.
const BESIDE: usize = 10;

/// The work of a part.
pub(super) struct Plan {
    /// Which part; `sizes` stands for `mix`, too.
    pub part: Part,
    /// What is measured.
    pub jobs: Vec<Job>,
    /// Processes that send.
    pub spokes: usize,
    /// Messages of a burst: of all senders together; in `sizes` and `mix`, of each.
    pub messages: usize,
    /// How the ends wait.
    pub wait: Option<Wait>,
}

impl Plan {
    /// Of all parts that are asked for, but the sockets; in this order, since the last one lowers the priority of this
    /// process for good.
    pub(super) fn all(options: &DseArgs) -> Vec<Self> {
        let mut plans = Vec::new();
        if options.has(Part::Sizes) || options.has(Part::Mix) {
            plans.push(Self::exchange(options));
        }
        // Another host has one sender.
        if options.has(Part::HotSpot) && options.common.connect.is_none() {
            plans.push(Self::hot_spot(options));
        }
        if options.has(Part::Priority) {
            plans.push(Self::priority(options));
        }
        plans
    }

    /// Single sizes and the mix.
    fn exchange(options: &DseArgs) -> Self {
        let common = &options.common;
        let sizes = match &common.sizes[..] {
            _ if !options.has(Part::Sizes) => &[],
            [] => &SIZES[..],
            sizes => sizes,
        };
        let mix = options.has(Part::Mix).then_some(options.seed);
        let messages = common.iterations.map_or(MESSAGES, |count| count as usize);
        let most = if common.connect.is_some() { 1 } else { 2 };
        let mut jobs = Vec::new();
        for operation in OPERATIONS {
            for spokes in 1..=most {
                jobs.extend(sizes.iter().map(|&size| job(operation, size, messages, spokes)));
                jobs.extend(mix.map(|seed| mixed(operation, seed, messages, spokes)));
            }
        }
        Self {
            part: Part::Sizes,
            jobs,
            spokes: most,
            messages,
            wait: common.wait,
        }
    }

    /// The same number of messages to one receiver from one sender, and from several.
    fn hot_spot(options: &DseArgs) -> Self {
        let messages = options.common.iterations.map_or(MESSAGES, |count| count as usize);
        let of = |operation| HOT.map(|spokes| mixed(operation, options.seed, (messages / spokes).max(1), spokes));
        Self {
            part: Part::HotSpot,
            jobs: OPERATIONS.into_iter().flat_map(of).collect(),
            spokes: HOT.into_iter().fold(1, usize::max),
            messages,
            wait: options.common.wait,
        }
    }

    /// A receiver that shares its CPU.
    fn priority(options: &DseArgs) -> Self {
        let messages = options.common.iterations.map_or(MESSAGES, |count| count as usize);
        let job = |operation, messages| mixed(operation, options.seed, messages, 1);
        Self {
            part: Part::Priority,
            jobs: vec![
                job(Operation::Stream, messages),
                job(Operation::PingPong, messages.div_ceil(BESIDE)),
            ],
            spokes: 1,
            messages,
            // As the paper's: a process that waits gives its CPU away.
            wait: options.common.wait.or(Some(Wait::Block)),
        }
    }

    /// How often the jobs are done, in all rounds.
    pub(super) const fn levels(&self) -> usize {
        match self.part {
            Part::Priority => Level::COUNT,
            _ => 1,
        }
    }
}

/// The same, of messages of mixed sizes.
const fn mixed(operation: Operation, seed: u64, messages: usize, spokes: usize) -> Job {
    Job {
        mix: Some(seed),
        ..job(operation, LARGEST, messages, spokes)
    }
}

/// One burst of all messages, or as many ping-pongs.
const fn job(operation: Operation, size: usize, messages: usize, spokes: usize) -> Job {
    match operation {
        Operation::Stream => Job {
            operation,
            size,
            mix: None,
            warmup: 0,
            count: 1,
            window: messages,
            spokes,
            whole: false,
        },
        Operation::PingPong => Job {
            operation,
            size,
            mix: None,
            warmup: 0,
            count: messages,
            window: 1,
            spokes,
            whole: false,
        },
    }
}
