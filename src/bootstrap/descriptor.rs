//! The descriptor that a launcher passes to a process.
#![expect(unsafe_code, reason = "a descriptor that is known by its number only")]

use std::{
    io,
    os::{
        fd::{BorrowedFd, RawFd},
        unix::net::UnixStream,
    },
};

/// A copy of descriptor `number`, closed on exec. If it is not open, or no socket, that is an error now or at its first
/// use.
pub(super) fn adopt(number: RawFd) -> io::Result<UnixStream> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the borrow ends before this function does, and is only used for `dup`, which fails if the descriptor is
    // not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(borrowed.try_clone_to_owned()?.into())
}
