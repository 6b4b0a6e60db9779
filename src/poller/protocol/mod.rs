//! An endpoint in another process. The process that has the messages and the process that has the network exchange
//! *records*.
//!
//! A node-wide poller (the DPDK paper, section 4.1; `docs/papers.md`) runs the protocol for several processes: it
//! acknowledges, sends again and keeps sessions alive while they compute. Between it and each of them is a link that
//! loses nothing and keeps the order. A [`ProxyEndpoint`] stands where an [`Endpoint`](crate::reliability::Endpoint) would (a [`PacketLayer`](crate::reliability::PacketLayer)
//! is either of them) and turns commands into records; a [`ProxyServer`] has the endpoint, executes the commands, and reports
//! events. Packets are handed over as they arrived, behind a short header, so they can be lent; matching and order stay
//! with the process that has the messages.
//!
//! Both are sans-IO, like the rest: a `ProxyEndpoint` is driven like an endpoint, where a "datagram" is one record.
//!
//! A [`DualPath`] has both: messages go through the host, and placements go from process to process on an endpoint of its
//! own. That is how the DPDK paper combines its two polling modes: eager messages to the poller, rendezvous to the
//! process itself.
//!
//! # Trust
//!
//! The owner of the host checks all that a process tells it: [`ProxyServer::handle_command`] gives an error for what a correct
//! process cannot say, and nothing of it touches others. What a process may have queued there is bounded by its own
//! settings, which its host enforces.
//!
//! # Two sides, one order
//!
//! - Commands name peers by the process's numbers, reports by the host's; a report tells each new one's address.
//! - A command for a session that has ended is dropped: the report of that end is on its way, and says that something is
//!   lost if the host had not seen all that was sent.
//! - Both sides number the rails of a peer by the same rule, in the order in which they are added; their state is told when
//!   it changes, and before a session begins or ends.
//! - A host takes copies until half of [`Config::send_queue_bytes`](crate::Config::send_queue_bytes) is used; then it is
//!   asked, and answers when there is room.

mod dual;
mod proxy;
mod record;
mod server;
#[cfg(test)]
mod tests;

pub use self::{
    dual::{DualPath, Straight},
    proxy::ProxyEndpoint,
    record::{DELIVERY, LINK, REPORT},
    server::{Broken, ProxyServer},
};
