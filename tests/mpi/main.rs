//! MPI's engine: several processes as threads of this one, over the loopback backend and over UDP.
#![cfg(all(feature = "mpi", feature = "loopback"))]
#![expect(unsafe_code, reason = "the engine takes pointers")]

mod arrays;
mod checks;
mod claims;
mod collectives;
mod datatypes;
mod failures;
mod groups;
mod huge;
mod impaired;
mod inter;
mod leaving;
mod messages;
mod mistakes;
mod partitioned;
mod persistent;
mod ports;
mod profile;
mod progress;
mod requests;
mod support;
mod windows;
