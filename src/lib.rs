//! *Hikyaku* (飛脚): the courier-runners of old Japan, who carried letters over unreliable roads and got them there.
//!
//! This crate moves **messages** between the processes of a cluster that has nothing better than Ethernet: reliably, in
//! user space, over plain datagrams.
//!
//! - Messages keep their boundaries, arrive exactly once, and in order between any two processors.
//! - One socket serves any number of peers; there are no connections to open by hand, and idle peers cost little.
//! - Nothing blocks unless asked to, memory is bounded by [`Config`], and a dead peer is an event, not a hang.
//!
//! # Sending and receiving
//!
//! [`transport::Transport`] is the whole stack:
//!
//! ```
//! # #[cfg(feature = "udp")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::{thread, time::Duration};
//! use hikyaku::transport::Transport;
//!
//! let mut alice = Transport::builder().processor(1).bind_udp("127.0.0.1:0")?;
//! let mut bob = Transport::builder().processor(2).bind_udp("127.0.0.1:0")?;
//! let to_bob = alice.add_peer(bob.local_addr(), 2)?;
//! let to_alice = bob.add_peer(alice.local_addr(), 1)?;
//!
//! let bob = thread::spawn(move || {
//!     let question = bob.receive(None).unwrap().into_vec();
//!     bob.send(to_alice, &[&question[..], b" you too"].concat()).unwrap();
//!     bob.close(Duration::from_secs(5)).unwrap();
//! });
//! alice.send(to_bob, b"good morning")?;
//! let answer = alice.receive(Duration::from_secs(5))?;
//! assert_eq!(&answer[..], b"good morning you too");
//! # alice.close(Duration::from_secs(5))?;
//! # bob.join().unwrap();
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "udp"))]
//! # fn main() {}
//! ```
//!
//! # The core without IO
//!
//! Everything up to [`messaging::Messenger`] is *sans-IO*: no sockets, no clock, no threads, no randomness, and no
//! `std`. It can be driven by hand, which is what [`progress::Driver`] does, and any simulation. Methods are of four
//! kinds: getters; *commands* (`send`, `add_peer`, `close`, …); `handle_*`, when something came in; `poll_*`, to get
//! out what follows. The loop:
//!
//! 1. After any commands, or `handle_*`: call `poll_transmit` until it gives `false`, and transmit each burst (`gather`
//!    gives its bytes) before anything else is called.
//! 2. Call `poll_event` until it gives `None`.
//! 3. Call `receive` until it gives `None`; each message is lent until the next call. Replying now lets the reply carry
//!    the acknowledgement.
//! 4. Wait until a datagram arrives or the time of `poll_timeout` has come, whichever is first.
//! 5. Hand in the datagrams that have arrived: `handle_datagrams`.
//! 6. Then, if the time has come: `handle_timeout`. After the datagrams, so that what lay in the socket while this side
//!    did not run does not look lost.
//! 7. Go on with 1.
//!
//! `now` is an argument, never decreases, and may begin anywhere. Nothing that comes from the network makes a method
//! fail or panic. The same seed and the same calls give the same bytes.
//!
//! ```
//! use hikyaku::{
//!     Config,
//!     messaging::{Messenger, SendOptions},
//!     reliability::{Burst, Endpoint, Limits, Payload},
//!     time::Instant,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limits = Limits {
//!     max_datagram: 1_472,
//!     max_segments: 1,
//!     max_batch: 1_472,
//!     receive_buffer: 1 << 20,
//!     holds_references: false,
//!     ack_bytes: usize::MAX,
//!     receive_port: 0,
//! };
//! let (here, there) = ("192.0.2.1:1000".parse()?, "192.0.2.2:1000".parse()?);
//! let mut alice = Messenger::new(Endpoint::new(Config::default(), limits, 1, 17)?, &[1]);
//! let mut bob = Messenger::new(Endpoint::new(Config::default(), limits, 2, 42)?, &[2]);
//! let to_bob = alice.add_peer(there, 2)?;
//! bob.add_peer(here, 1)?;
//!
//! let now = Instant::ZERO;
//! alice.send(now, to_bob, &SendOptions::default(), Payload::Copy(b"hello"))?;
//! let mut burst = Burst::default();
//! while alice.poll_transmit(now, &mut burst) {
//!     let mut datagram = Vec::new();
//!     alice.gather(&burst, |bytes| datagram.extend_from_slice(bytes));
//!     let stride = burst.segment_size();
//!     bob.handle_datagrams(now, here, &mut datagram, stride);
//! }
//! assert_eq!(bob.receive().unwrap().data(), b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! The programs in `examples/` do more: both sides of this with losses and virtual time (`sans_io`), two threads
//! (`loopback_threads`), two processes (`udp_pair`), requests and answers with a server that restarts
//! (`request_reply`), and another event loop (`tokio`).
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | (none) | | the protocol core: [`wire`], [`reliability`], [`messaging`]; `core` and `alloc` only |
//! | `std` | yes | clocks, threads, [`progress`], [`transport`] |
//! | `loopback` | yes | the in-process backend |
//! | `udp` | yes | the UDP socket backend (Linux) |
//! | `shm` | no | memory between the processes of one host: the backend `shm`, and [`transport::Routes`] (Linux) |
//! | `poller` | no | the way to a node-wide poller process (Linux) |
//! | `dpdk` | no | the DPDK backend, and that process: `poller` (Linux) |
//! | `mpi` | yes | jobs of many processes: [`bootstrap`], [`mpi`] |
//! | `sim` | no | thousands of such processes in one thread and virtual time: `sim` |
//! | `tracing` | no | events for subscribers of the crate `tracing`; `core` and `alloc` only |
//! | `log` | no | `tracing`, and the same for loggers of the crate `log` |
//! | `events` | no | `tracing`, and `HIKYAKU_LOG=debug` prints the events |
//! | `serde` | no | [`Config`] and all statistics can be serialized; `core` and `alloc` only |
//!
//! # Trust
//!
//! Nothing is encrypted or authenticated yet: run it on a network that you trust. Whatever arrives, the result is a
//! message or a counted drop ([`DropReason`]), never a panic, a hang or unbounded memory. A session opens without a round
//! trip: as long as there is none with a peer, messages from its address are delivered although that address may be
//! forged; a live session is not touched by that.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
extern crate alloc;

/// The examples of the readme, compiled and run as tests.
#[cfg(all(doctest, feature = "udp"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "std")]
pub mod backends;
#[cfg(feature = "mpi")]
pub mod bootstrap;
mod config;
mod copies;
#[cfg(feature = "std")]
pub mod environment;
mod error;
mod events;
#[cfg(feature = "std")]
mod helper;
mod id;
#[doc(hidden)]
pub mod internals;
pub mod messaging;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod poller;
mod prefetch;
mod prng;
#[cfg(feature = "std")]
pub mod progress;
pub mod reliability;
pub mod ring;
#[cfg(all(feature = "shm", target_os = "linux"))]
mod routes;
#[cfg(all(any(feature = "poller", feature = "shm"), target_os = "linux"))]
mod shm;
#[cfg(feature = "sim")]
pub mod sim;
mod siphash;
mod span;
mod stats;
#[cfg(feature = "std")]
mod sync;
mod table;
pub mod time;
#[cfg(feature = "std")]
pub mod transport;
pub mod wire;

pub use config::{Config, ConfigError, Congestion, Contact, Recovery, WindowMode};
#[doc(hidden)]
pub use error::describe_error;
pub use error::{AddPeerError, AddRailError, DropReason, PeerError, SendError};
pub use id::{PeerId, SendToken};
pub use span::{Foreign, Keeper, Span};
pub use stats::{Dropped, PeerStats, Stats};
