//! Messages of two processes that are about to share memory, over a Unix socket. They carry descriptors.
//!
//! ```text
//! 0 magic(8)   8 layout(4)   12 of the user(4)   16 length of the release(1), release      the first message
//! 0 magic(8)   8 of the user                                                              all others
//! ```

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

const MAGIC: [u8; 8] = *b"hikyaku\0";
/// Bytes of a message.
pub(crate) const LEN: usize = 256;
/// The place of the layout and of the release in a first message.
const LAYOUT: usize = 8;
const RELEASE: usize = 16;
/// Most descriptors that a message carries.
pub(crate) const MOST_DESCRIPTORS: usize = 4;

/// A message.
pub(crate) type Message = [u8; LEN];

/// An empty message.
pub(crate) fn message() -> Message {
    let mut bytes = [0; LEN];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes
}

/// Returns whether the message is from hikyaku.
pub(crate) fn is_ours(bytes: &Message) -> bool {
    bytes[..MAGIC.len()] == MAGIC
}

/// A message that says why there is no memory in common, by a number that is not zero.
#[cfg(feature = "shm")]
pub(crate) fn refuse(why: u8) -> Message {
    let mut bytes = message();
    bytes[MAGIC.len()] = why;
    bytes
}

/// Reads such a message from its first bytes. `None`: it is something else.
#[cfg(feature = "shm")]
pub(crate) fn refusal(bytes: &[u8]) -> Option<u8> {
    let (magic, rest) = bytes.split_first_chunk()?;
    (*magic == MAGIC).then(|| rest.first().copied().unwrap_or_default())
}

/// The parameters on which both processes must agree before they share memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// The layout of the memory.
    pub(crate) layout: u32,
    /// The release of this crate.
    pub(crate) release: String,
}

impl Version {
    /// This release, with a layout.
    pub(crate) fn ours(layout: u32) -> Self {
        Self {
            layout,
            release: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Writes it into a first message.
    pub(crate) fn put(&self, bytes: &mut Message) {
        bytes[LAYOUT..LAYOUT + 4].copy_from_slice(&self.layout.to_le_bytes());
        put_text(bytes, RELEASE, &self.release);
    }

    /// Reads it from a first message. `None`: the message is not from hikyaku.
    pub(crate) fn read(bytes: &Message) -> Option<Self> {
        is_ours(bytes).then(|| Self {
            layout: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            release: text(bytes, RELEASE),
        })
    }
}

/// Writes a text, shortened to what fits, after its length in bytes.
pub(crate) fn put_text(bytes: &mut Message, at: usize, text: &str) {
    let mut len = text.len().min(LEN - at - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    bytes[at] = len as u8;
    bytes[at + 1..at + 1 + len].copy_from_slice(&text.as_bytes()[..len]);
}

/// Reads a text.
pub(crate) fn text(bytes: &Message, at: usize) -> String {
    let end = (at + 1 + usize::from(bytes[at])).min(LEN);
    String::from_utf8_lossy(&bytes[at + 1..end]).into_owned()
}

/// Sends a message with descriptors. The message always fits into the socket's buffer.
pub(crate) fn send(socket: &UnixStream, bytes: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = sendmsg(
        socket.as_fd(),
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    if sent == LEN {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Receives one message and the descriptors that come with it, if any.
pub(crate) fn receive(socket: &UnixStream) -> io::Result<(Message, Vec<OwnedFd>)> {
    let mut bytes = [0; LEN];
    let mut descriptors = Vec::new();
    let mut done = 0;
    while done < LEN {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let slice = &mut [IoSliceMut::new(&mut bytes[done..])];
        let got = recvmsg(socket.as_fd(), slice, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                descriptors.extend(more);
            }
        }
        if got.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        done += got.bytes;
    }
    Ok((bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_comes_through() {
        let mut bytes = message();
        Version::ours(7).put(&mut bytes);
        assert_eq!(Version::read(&bytes), Some(Version::ours(7)));
        assert_eq!(Version::read(&[0; LEN]), None);
    }

    #[test]
    fn descriptors_come_with_a_message() {
        let (here, there) = UnixStream::pair().unwrap();
        let bytes = message();
        send(&here, &bytes, &[here.as_fd(), there.as_fd()]).unwrap();
        let (read, descriptors) = receive(&there).unwrap();
        assert_eq!((read, descriptors.len()), (bytes, 2));
        drop(here);
        drop(descriptors);
        assert_eq!(receive(&there).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
