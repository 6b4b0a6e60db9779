//! Copies from the memory of one process straight to that of another.

use alloc::boxed::Box;
use core::{fmt, net::SocketAddr};

/// Copies between the memory of this process and that of a peer, as an operating system does it for processes that may
/// (cross-memory attach).
///
/// Addresses are those of the process that the bytes belong to. A peer that tells wrong ones harms itself alone.
pub trait CrossMemory: fmt::Debug + Send {
    /// Returns whether the peer's memory can be read and written. The first time, it is tried.
    fn is_open(&self) -> bool;

    /// Copies the peer's bytes from `address` on, which came with a `permission`. `false`: not all of them, or the
    /// permission does not hold any more, and they may be others. No permission is needed for bytes that the peer keeps
    /// until it is told that they have been read.
    fn read(&mut self, permission: Option<u32>, address: u64, into: &mut [u8]) -> bool;

    /// The permission to read or write memory of this process that a peer gets with an address. It holds until the next
    /// [`withdraw`](Self::withdraw).
    fn permission(&mut self) -> u32;

    /// Copies `bytes` into the peer's memory at `address`, which came with a `permission`. `false`: not all of them, or
    /// the permission does not hold any more.
    fn write(&mut self, permission: u32, address: u64, bytes: &[u8]) -> bool;

    /// Ends all permissions that the peer has. When this returns, it does not write any more, and takes nothing for read
    /// that it reads from here on.
    fn withdraw(&mut self);
}

/// Gives what copies between the memory of the process at this address and that of this one.
pub(super) type Crosses = Box<dyn Fn(SocketAddr) -> Option<Box<dyn CrossMemory>> + Send>;
