//! Messages between two processes.
//!
//! ```
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let (next, last) = ((world.rank() + 1) % world.size(), world.size() - 1);
//! world.process_at_rank(next).send_with_tag(&[1, 2, 3], 7)?;
//! let (message, status) = world.any_process().receive_vec_with_tag::<i32>(7)?;
//! assert_eq!((message, status.tag()), (vec![1, 2, 3], 7));
//! # let _ = last;
//! # Ok::<_, mpi::Error>(())
//! ```
//!
//! Large messages that must not be copied are [buffer arrays](mod@array); rsmpi has none.
//!
//! Messages can be [`partitioned`], for threads that produce parts of them. A *persistent* request ([`persistent`]) is
//! set up once and started again and again; rsmpi has none.

pub mod array;
mod destination;
mod future;
mod message;
pub mod partitioned;
pub mod persistent;
mod send_receive;
mod source;
mod status;
mod transfer;

pub use self::{
    array::{Array, ArrivingArray, SendingArray},
    destination::Destination,
    future::ReceiveFuture,
    message::{MatchedMessage, MatchedReceiveVec, Message},
    send_receive::{
        send_receive, send_receive_into, send_receive_into_with_tags, send_receive_replace_into,
        send_receive_replace_into_with_tags, send_receive_with_tags,
    },
    source::Source,
    status::Status,
};

/// All traits.
pub mod traits {
    pub use super::{Destination, MatchedReceiveVec, Source};
}
