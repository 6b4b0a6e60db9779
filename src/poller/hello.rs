//! The first messages between a process and a poller. The poller's answer hands over memory and eventfds.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::layout::LAYOUT;
#[cfg(feature = "dpdk")]
use crate::backends::dpdk::Guest;
use crate::shm::handshake::{self, MOST_DESCRIPTORS, Message, Version};

/// The number of descriptors in a welcome: packets, memory, the process's eventfd, the poller's eventfd.
pub(crate) const DESCRIPTORS: usize = MOST_DESCRIPTORS;

/// The request of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The UDP port that the process wants; 0: any.
    pub(crate) port: u16,
    /// It wants the port's queue for large messages.
    pub(crate) queue: bool,
    pub(crate) version: Version,
}

impl Hello {
    pub(crate) fn new(port: u16, queue: bool) -> Self {
        Self {
            port,
            queue,
            version: Version::ours(LAYOUT),
        }
    }

    pub(crate) fn bytes(&self) -> Message {
        let mut bytes = handshake::message();
        self.version.put(&mut bytes);
        bytes[12..14].copy_from_slice(&self.port.to_le_bytes());
        bytes[14] = self.queue.into();
        bytes
    }

    /// `None`: the message is not from hikyaku.
    pub(crate) fn read(bytes: &Message) -> Option<Self> {
        Some(Self {
            version: Version::read(bytes)?,
            port: u16::from_le_bytes([bytes[12], bytes[13]]),
            queue: bytes[14] != 0,
        })
    }

    /// The other side has the same release and the same memory layout as we have.
    pub(crate) fn fits(&self) -> bool {
        self.version == Version::ours(LAYOUT)
    }
}

/// A queue of the poller's port, for a process that shares DPDK's memory with the poller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    /// The poller.
    pub(crate) process: u32,
    pub(crate) queue: u16,
    pub(crate) mtu: u16,
    pub(crate) descriptors: u16,
    /// The port's name.
    pub(crate) device: String,
}

#[cfg(feature = "dpdk")]
impl From<Guest> for Queue {
    fn from(guest: Guest) -> Self {
        let Guest {
            process,
            queue,
            mtu,
            descriptors,
            device,
        } = guest;
        Self {
            process,
            queue,
            mtu,
            descriptors,
            device,
        }
    }
}

#[cfg(feature = "dpdk")]
impl From<&Queue> for Guest {
    fn from(queue: &Queue) -> Self {
        Self {
            process: queue.process,
            queue: queue.queue,
            mtu: queue.mtu,
            descriptors: queue.descriptors,
            device: queue.device.clone(),
        }
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
        /// The queue that the process has wanted.
        queue: Option<Queue>,
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
                queue,
            } => {
                bytes[8] = 1;
                if let Some(queue) = queue {
                    bytes[40] = 1;
                    bytes[41..45].copy_from_slice(&queue.process.to_le_bytes());
                    bytes[45..47].copy_from_slice(&queue.queue.to_le_bytes());
                    bytes[47..49].copy_from_slice(&queue.mtu.to_le_bytes());
                    bytes[49..51].copy_from_slice(&queue.descriptors.to_le_bytes());
                    handshake::put_text(&mut bytes, 51, &queue.device);
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
                    queue: (bytes[40] != 0).then(|| Queue {
                        process: number(41, 4) as u32,
                        queue: number(45, 2) as u16,
                        mtu: number(47, 2) as u16,
                        descriptors: number(49, 2) as u16,
                        device: handshake::text(bytes, 51),
                    }),
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
        let hello = Hello::new(4711, true);
        assert!(hello.fits());
        assert_eq!(Hello::read(&hello.bytes()), Some(hello));
        assert_eq!(Hello::read(&[0; handshake::LEN]), None);
        for addr in ["10.0.0.7:4000", "[fd77::1]:1"] {
            let welcome = Answer::Welcome {
                addr: addr.parse().unwrap(),
                max_datagram: 8_972,
                packets: 1 << 33,
                queue: Some(Queue {
                    process: 70_000,
                    queue: 3,
                    mtu: 16_000,
                    descriptors: 256,
                    device: "net_memif0".to_owned(),
                }),
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
