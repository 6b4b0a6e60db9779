//! Collectives of ranks that share a host, by memory that all of them have mapped instead of by messages.
//!
//! A communicator gets its memory when it has called a few collectives, if all of its ranks are on one host and reach each
//! other through memory. From then on its blocking collectives go by it, but for those of neighbours, and others of which
//! `suits` says no. All ranks come to the same, because it depends on nothing but what they
//! must agree on anyway.
//!
//! Where some ranks share a host and others do not, collectives go within hosts so, and between them by messages.
//!
//! | file | holds |
//! |---|---|
//! | `board.rs`, `medium.rs` | the memory, and which rank may write where |
//! | `steps.rs` | a rank's part in a collective: posting, waiting, failing |
//! | `asked.rs` | what the program has called |
//! | `arguments.rs` | which collectives go so, and their buffers |
//! | `short.rs` | those of few bytes, the quick way |
//! | `calls.rs`, `exchange.rs`, `reductions.rs`, `shares.rs` | the collectives |
//! | `crossed.rs` | bytes that the system copies from process to process |
//! | `hosts.rs`, `levels.rs` | which ranks share a host; collectives of several hosts |
//! | `gathers.rs` | those of several hosts that move blocks |
//! | `divided.rs` | those of several hosts of which each rank gets a result of its own |
//! | `state.rs` | what a communicator knows of its memory |
//! | `run.rs` | when the memory is made, and how |

mod arguments;
mod asked;
mod board;
mod calls;
mod crossed;
mod divided;
mod exchange;
mod gathers;
mod hosts;
mod levels;
mod medium;
mod reductions;
mod run;
mod shares;
mod short;
mod state;
mod steps;

pub(super) use self::{asked::Asked, state::OnHost};
