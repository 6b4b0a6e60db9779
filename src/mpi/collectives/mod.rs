//! Collectives as schedules: the sends, receives, copies and reductions of each rank, as data.
//!
//! An algorithm is a function from a [`Call`] (the arguments of a collective at one rank) to the [`Schedule`] of that
//! rank. Nothing is sent here: the engine runs schedules, blocking or not, once or repeatedly. A rank makes only its
//! own schedule, in a time that grows with the number of its steps (and of counts, where MPI gives one per rank).
//!
//! A schedule knows all its [peers](Schedule::peers) and when they are needed before it starts, and all schedules of a
//! collective together can be [simulated](simulate) in a [`Model`] of latency and bandwidth. For the choice at run time
//! there are closed forms ([`cost`]), of which [`Policy::choose`] takes the cheapest, unless one is forced. Where several
//! ranks share a host, `way` says whether a collective goes within hosts and between them, or in one level.
//!
//! ```
//! use hikyaku::mpi::collectives::{Algorithm, Call, Collective};
//!
//! let call = Call::of(Collective::Bcast).with_count(1_000);
//! let schedule = call.schedule(1, 4, Algorithm::Chain { segments: 2 })?;
//! assert_eq!(
//!     schedule.to_string(),
//!     "3 rounds, 0 elements of scratch memory
//! round 0
//!     receive from 0: output[0..500]
//! round 1
//!     receive from 0: output[500..1000]
//!     send to 2: output[0..500]
//! round 2
//!     send to 2: output[500..1000]
//! "
//! );
//! # Ok::<_, hikyaku::mpi::collectives::ScheduleError>(())
//! ```
//!
//! # Patterns
//!
//! Most algorithms are one of a few patterns over different spans; a message is a list of spans, so blocks need not lie
//! one after the other, and nothing is packed or rotated.
//!
//! | file | pattern | collectives |
//! |---|---|---|
//! | `tree` | trees: stars, k-nomial trees, chains | barrier, bcast, gather, scatter, reduce |
//! | `fold` | partners at twice or half the distance, any number of ranks folded to a power of two | barrier, allgather, reduce, allreduce, reduce_scatter |
//! | `bruck` | digit by digit on a ring | barrier, allgather, alltoall |
//! | `ring` | from neighbour to neighbour | allgather, reduce_scatter |
//! | `exchange` | straight | allgather, alltoall, neighbourhoods |
//! | `scan` | prefixes | scan, exscan |
//!
//! The others are put together from these (`build`): a large bcast is a scatter and an allgather, a large allreduce a
//! reduce_scatter and an allgather.
//!
//! Collectives between two groups (inter-communicators) have one algorithm each, in `inter`
//! ([`Call::schedule_between`]).
//!
//! A [`Plan`] says which peers of a schedule are connected when, where that takes time and there cannot be many.

mod accumulator;
mod algorithm;
mod blocks;
mod bruck;
mod build;
mod call;
mod collective;
mod cost;
mod exchange;
mod fold;
mod inter;
mod levels;
mod member;
mod model;
mod plan;
mod ring;
mod scan;
mod schedule;
mod terms;
mod tree;
mod way;
mod work;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use blocks::{Blocks, displacements};
pub use call::{Call, NOBODY, ROOT, ScheduleError};
pub use collective::{Collective, Function, Lengths, Partners, Role};
pub use cost::{Policy, cost};
pub use levels::{Levels, Within};
pub(in crate::mpi) use levels::{Shape, Way};
pub use model::{Model, Stuck, simulate};
pub use plan::{Phase, Plan, Planning};
pub use schedule::{Peer, Region, Schedule, Span, Step};
pub use work::Work;
