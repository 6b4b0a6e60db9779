//! The first messages between a process and a poller. The poller's answer hands over memory and eventfds.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::layout::LAYOUT;
use crate::shm::handshake::{self, MOST_DESCRIPTORS, Message, Version};

/// The number of descriptors in a welcome: packets, memory, the process's eventfd, the poller's eventfd.
pub(crate) const DESCRIPTORS: usize = MOST_DESCRIPTORS;

/// Whether a process wants queues of the poller's port for its large messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    No,
    /// It does without if it cannot have them.
    IfFree,
    /// It does not run without.
    Must,
}

const WISHES: [Wish; 3] = [Wish::No, Wish::IfFree, Wish::Must];
/// Places of texts: the version of DPDK in a request, and the queues in an answer.
const DPDK: usize = 64;
const QUEUES: usize = 41;

/// The request of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The UDP port that the process wants; 0: any.
    pub(crate) port: u16,
    pub(crate) wish: Wish,
    /// The version of DPDK that the process has; empty: none.
    pub(crate) dpdk: String,
    pub(crate) version: Version,
}

impl Hello {
    pub(crate) fn new(port: u16, wish: Wish, dpdk: String) -> Self {
        Self {
            port,
            wish,
            dpdk,
            version: Version::ours(LAYOUT),
        }
    }

    pub(crate) fn bytes(&self) -> Message {
        let mut bytes = handshake::message();
        self.version.put(&mut bytes);
        bytes[12..14].copy_from_slice(&self.port.to_le_bytes());
        bytes[14] = WISHES.iter().position(|wish| *wish == self.wish).unwrap_or_default() as u8;
        handshake::put_text(&mut bytes, DPDK, &self.dpdk);
        bytes
    }

    /// `None`: the message is not from hikyaku.
    pub(crate) fn read(bytes: &Message) -> Option<Self> {
        Some(Self {
            version: Version::read(bytes)?,
            port: u16::from_le_bytes([bytes[12], bytes[13]]),
            wish: *WISHES.get(usize::from(bytes[14]))?,
            dpdk: handshake::text(bytes, DPDK),
        })
    }

    /// The other side has the same release and the same memory layout as we have.
    pub(crate) fn fits(&self) -> bool {
        self.version == Version::ours(LAYOUT)
    }
}

/// The answer to a process's wish for queues of the poller's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Queues {
    /// It has no such wish.
    Unasked,
    /// Its place, as DPDK's backend writes it.
    Given(Vec<u8>),
    /// The reason why it has none.
    Denied(String),
}

/// The answer of a poller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Welcome {
        addr: SocketAddr,
        max_datagram: u32,
        /// Bytes of the memory for packets.
        packets: u64,
        queues: Queues,
    },
    Refused(String),
}

impl Answer {
    pub(crate) fn bytes(&self) -> Message {
        let mut bytes = handshake::message();
        match self {
            Self::Welcome {
                addr,
                max_datagram,
                packets,
                queues,
            } => {
                bytes[8] = 1;
                match queues {
                    Queues::Unasked => {}
                    Queues::Given(place) => {
                        let len = place.len().min(bytes.len() - QUEUES - 1);
                        (bytes[40], bytes[QUEUES]) = (1, len as u8);
                        bytes[QUEUES + 1..][..len].copy_from_slice(&place[..len]);
                    }
                    Queues::Denied(why) => {
                        bytes[40] = 2;
                        handshake::put_text(&mut bytes, QUEUES, why);
                    }
                }
                let (v6, ip) = match addr.ip() {
                    IpAddr::V4(ip) => (0, ip.to_ipv6_mapped()),
                    IpAddr::V6(ip) => (1, ip),
                };
                bytes[9] = v6;
                bytes[10..12].copy_from_slice(&addr.port().to_le_bytes());
                bytes[12..16].copy_from_slice(&max_datagram.to_le_bytes());
                bytes[16..24].copy_from_slice(&packets.to_le_bytes());
                bytes[24..40].copy_from_slice(&ip.octets());
            }
            Self::Refused(why) => {
                bytes[8] = 2;
                handshake::put_text(&mut bytes, 16, why);
            }
        }
        bytes
    }

    pub(crate) fn read(bytes: &Message) -> Option<Self> {
        if !handshake::is_ours(bytes) {
            return None;
        }
        let number = |at: usize, len: usize| bytes[at..at + len].iter().rev().fold(0, |n, o| n << 8 | u64::from(*o));
        match bytes[8] {
            1 => {
                let mut ip = [0; 16];
                ip.copy_from_slice(&bytes[24..40]);
                let ip = Ipv6Addr::from(ip);
                let mapped = ip.to_ipv4_mapped().filter(|_| bytes[9] == 0);
                Some(Self::Welcome {
                    addr: SocketAddr::new(mapped.map_or(IpAddr::V6(ip), IpAddr::V4), number(10, 2) as u16),
                    max_datagram: number(12, 4) as u32,
                    packets: number(16, 8),
                    queues: match bytes[40] {
                        0 => Queues::Unasked,
                        1 => Queues::Given(bytes.get(QUEUES + 1..)?.get(..usize::from(bytes[QUEUES]))?.to_vec()),
                        2 => Queues::Denied(handshake::text(bytes, QUEUES)),
                        _ => return None,
                    },
                })
            }
            2 => Some(Self::Refused(handshake::text(bytes, 16))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_messages_come_through() {
        let hello = Hello::new(4711, Wish::IfFree, "DPDK 22.11.11".to_owned());
        assert!(hello.fits());
        assert_eq!(Hello::read(&hello.bytes()), Some(hello));
        assert_eq!(Hello::read(&[0; handshake::LEN]), None);
        for (addr, queues) in [
            ("10.0.0.7:4000", Queues::Given(vec![7; 200])),
            ("10.0.0.7:4000", Queues::Denied("all taken".to_owned())),
            ("[fd77::1]:1", Queues::Unasked),
        ] {
            let welcome = Answer::Welcome {
                addr: addr.parse().unwrap(),
                max_datagram: 8_972,
                packets: 1 << 33,
                queues,
            };
            assert_eq!(Answer::read(&welcome.bytes()), Some(welcome));
        }
        let long = "é".repeat(300);
        let Some(Answer::Refused(why)) = Answer::read(&Answer::Refused(long).bytes()) else {
            panic!("no refusal");
        };
        assert!(why.len() > 200 && why.chars().all(|c| c == 'é'));
    }
}
