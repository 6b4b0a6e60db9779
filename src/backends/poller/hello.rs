//! The handshake of a process and a poller, over a Unix socket. The poller's answer hands over memory and eventfds.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::ring::{self, Place};

const MAGIC: [u8; 8] = *b"hikyaku\0";
/// Bytes of each of the two messages.
pub(crate) const LEN: usize = 256;
/// The layout of the shared memory, on which both sides must agree. The number increases when the layout changes.
pub(crate) const LAYOUT: u32 = 3;

/// Bytes of the two rings and of the memory of a process, and the offsets in it.
pub(crate) const REPORTS: usize = 4 << 20;
const COMMANDS: usize = 1 << 20;
const PAGE: usize = 4_096;
/// The ring to the process.
pub(crate) const UP: Place = Place {
    control: 0,
    data: PAGE,
    size: REPORTS,
};
/// The ring to the poller.
pub(crate) const DOWN: Place = Place {
    control: ring::CONTROL,
    data: PAGE + REPORTS,
    size: COMMANDS,
};
/// Offset and length of the area for the large records of the process. It holds two messages of the greatest length. It
/// only reserves addresses: a page takes memory when it is first used.
pub(crate) const AREA: usize = PAGE + REPORTS + COMMANDS;
pub(crate) const AREA_LEN: usize = if usize::BITS > 32 { 8 << 30 } else { 512 << 20 };
/// Bytes of the whole memory of a process.
pub(crate) const MEMORY: usize = AREA + AREA_LEN;

/// The request of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The UDP port that the process wants; 0: any.
    pub(crate) port: u16,
    pub(crate) layout: u32,
    pub(crate) release: String,
}

impl Hello {
    pub(crate) fn new(port: u16) -> Self {
        Self {
            port,
            layout: LAYOUT,
            release: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    pub(crate) fn octets(&self) -> [u8; LEN] {
        let mut octets = [0; LEN];
        octets[..8].copy_from_slice(&MAGIC);
        octets[8..12].copy_from_slice(&self.layout.to_le_bytes());
        octets[12..14].copy_from_slice(&self.port.to_le_bytes());
        put_text(&mut octets, 16, &self.release);
        octets
    }

    /// `None`: the message is not from hikyaku.
    pub(crate) fn read(octets: &[u8; LEN]) -> Option<Self> {
        (octets[..8] == MAGIC).then(|| Self {
            layout: u32::from_le_bytes([octets[8], octets[9], octets[10], octets[11]]),
            port: u16::from_le_bytes([octets[12], octets[13]]),
            release: text(octets, 16),
        })
    }

    /// The other side has the same release and the same memory layout as we have.
    pub(crate) fn fits(&self) -> bool {
        self.layout == LAYOUT && self.release == env!("CARGO_PKG_VERSION")
    }
}

/// The answer of a poller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Welcome {
        addr: SocketAddr,
        max_datagram: u32,
        /// Bytes of the memory for packets.
        packets: u64,
    },
    Refused(String),
}

impl Answer {
    pub(crate) fn octets(&self) -> [u8; LEN] {
        let mut octets = [0; LEN];
        octets[..8].copy_from_slice(&MAGIC);
        match self {
            Self::Welcome {
                addr,
                max_datagram,
                packets,
            } => {
                octets[8] = 1;
                let (v6, ip) = match addr.ip() {
                    IpAddr::V4(ip) => (0, ip.to_ipv6_mapped()),
                    IpAddr::V6(ip) => (1, ip),
                };
                octets[9] = v6;
                octets[10..12].copy_from_slice(&addr.port().to_le_bytes());
                octets[12..16].copy_from_slice(&max_datagram.to_le_bytes());
                octets[16..24].copy_from_slice(&packets.to_le_bytes());
                octets[24..40].copy_from_slice(&ip.octets());
            }
            Self::Refused(why) => {
                octets[8] = 2;
                put_text(&mut octets, 16, why);
            }
        }
        octets
    }

    pub(crate) fn read(octets: &[u8; LEN]) -> Option<Self> {
        if octets[..8] != MAGIC {
            return None;
        }
        let number = |at: usize, len: usize| octets[at..at + len].iter().rev().fold(0, |n, o| n << 8 | u64::from(*o));
        match octets[8] {
            1 => {
                let mut ip = [0; 16];
                ip.copy_from_slice(&octets[24..40]);
                let ip = Ipv6Addr::from(ip);
                let mapped = ip.to_ipv4_mapped().filter(|_| octets[9] == 0);
                Some(Self::Welcome {
                    addr: SocketAddr::new(mapped.map_or(IpAddr::V6(ip), IpAddr::V4), number(10, 2) as u16),
                    max_datagram: number(12, 4) as u32,
                    packets: number(16, 8),
                })
            }
            2 => Some(Self::Refused(text(octets, 16))),
            _ => None,
        }
    }
}

fn put_text(octets: &mut [u8; LEN], at: usize, text: &str) {
    let mut len = text.len().min(LEN - at - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    octets[at] = len as u8;
    octets[at + 1..at + 1 + len].copy_from_slice(&text.as_bytes()[..len]);
}

fn text(octets: &[u8; LEN], at: usize) -> String {
    let end = (at + 1 + usize::from(octets[at])).min(LEN);
    String::from_utf8_lossy(&octets[at + 1..end]).into_owned()
}

/// The number of descriptors in a welcome: packets, memory, the process's eventfd, the poller's eventfd.
pub(crate) const DESCRIPTORS: usize = 4;

/// Sends a message with descriptors. The message always fits into the socket's buffer.
pub(crate) fn send(socket: &UnixStream, octets: &[u8; LEN], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = sendmsg(
        socket.as_fd(),
        &[IoSlice::new(octets)],
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
pub(crate) fn receive(socket: &UnixStream) -> io::Result<([u8; LEN], Vec<OwnedFd>)> {
    let mut octets = [0; LEN];
    let mut descriptors = Vec::new();
    let mut done = 0;
    while done < LEN {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let slice = &mut [IoSliceMut::new(&mut octets[done..])];
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
    Ok((octets, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_messages_come_through() {
        let hello = Hello::new(4711);
        assert!(hello.fits());
        assert_eq!(Hello::read(&hello.octets()), Some(hello));
        assert_eq!(Hello::read(&[0; LEN]), None);
        for addr in ["10.0.0.7:4000", "[fd77::1]:1"] {
            let welcome = Answer::Welcome {
                addr: addr.parse().unwrap(),
                max_datagram: 8_972,
                packets: 1 << 33,
            };
            assert_eq!(Answer::read(&welcome.octets()), Some(welcome));
        }
        let long = "é".repeat(300);
        let Some(Answer::Refused(why)) = Answer::read(&Answer::Refused(long).octets()) else {
            panic!("no refusal");
        };
        assert!(why.len() > 200 && why.chars().all(|c| c == 'é'));
    }

    #[test]
    fn descriptors_come_with_a_message() {
        let (here, there) = UnixStream::pair().unwrap();
        let octets = Hello::new(1).octets();
        send(&here, &octets, &[here.as_fd(), there.as_fd()]).unwrap();
        let (read, descriptors) = receive(&there).unwrap();
        assert_eq!((read, descriptors.len()), (octets, 2));
        drop(here);
        drop(descriptors);
        assert_eq!(receive(&there).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
