//! The first messages between a process and a poller. The poller's answer hands over memory and eventfds.

use std::net::{IpAddr, Ipv6Addr};

use super::layout::{LAYOUT, MOST_PORTS};
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
/// Places of texts: the version of DPDK in a request.
const DPDK: usize = 64;
/// The places of addresses in an answer, each of which begins with whether it is one of IPv6: their number comes first, and
/// the queues follow the last one.
const ADDRESSES: usize = 25;
const ADDRESS: usize = 17;

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
        /// The UDP port of the process, at the address of each of the poller's ports: one, and [`MOST_PORTS`] at most.
        udp_port: u16,
        addresses: Vec<IpAddr>,
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
                udp_port,
                addresses,
                max_datagram,
                packets,
                queues,
            } => {
                bytes[8] = 1;
                bytes[10..12].copy_from_slice(&udp_port.to_le_bytes());
                bytes[12..16].copy_from_slice(&max_datagram.to_le_bytes());
                bytes[16..24].copy_from_slice(&packets.to_le_bytes());
                let addresses = &addresses[..addresses.len().min(MOST_PORTS)];
                bytes[ADDRESSES - 1] = addresses.len() as u8;
                let (places, _) = bytes[ADDRESSES..].as_chunks_mut::<ADDRESS>();
                for (place, address) in places.iter_mut().zip(addresses) {
                    let ip = match address {
                        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                        IpAddr::V6(ip) => *ip,
                    };
                    place[0] = address.is_ipv6().into();
                    place[1..].copy_from_slice(&ip.octets());
                }
                let at = ADDRESSES + ADDRESS * addresses.len();
                match queues {
                    Queues::Unasked => {}
                    Queues::Given(place) => {
                        let len = place.len().min(bytes.len() - at - 2);
                        (bytes[at], bytes[at + 1]) = (1, len as u8);
                        bytes[at + 2..][..len].copy_from_slice(&place[..len]);
                    }
                    Queues::Denied(why) => {
                        bytes[at] = 2;
                        handshake::put_text(&mut bytes, at + 1, why);
                    }
                }
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
                let count = usize::from(bytes[ADDRESSES - 1]);
                let (places, _) = bytes[ADDRESSES..].as_chunks::<ADDRESS>();
                let places = places.get(..count).filter(|_| (1..=MOST_PORTS).contains(&count))?;
                let addresses = places.iter().map(|[is_v6, ip @ ..]| {
                    let ip = Ipv6Addr::from(*ip);
                    let mapped = ip.to_ipv4_mapped().filter(|_| *is_v6 == 0);
                    mapped.map_or(IpAddr::V6(ip), IpAddr::V4)
                });
                let at = ADDRESSES + ADDRESS * count;
                Some(Self::Welcome {
                    udp_port: number(10, 2) as u16,
                    addresses: addresses.collect(),
                    max_datagram: number(12, 4) as u32,
                    packets: number(16, 8),
                    queues: match bytes[at] {
                        0 => Queues::Unasked,
                        1 => Queues::Given(bytes.get(at + 2..)?.get(..usize::from(bytes[at + 1]))?.to_vec()),
                        2 => Queues::Denied(handshake::text(bytes, at + 1)),
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
        let most = vec!["fd77::1"; MOST_PORTS];
        for (addresses, queues) in [
            (&["10.0.0.7"][..], Queues::Given(vec![7; 200])),
            (&["10.0.0.7"], Queues::Denied("all taken".to_owned())),
            (&["fd77::1", "10.0.0.7", "::ffff:10.0.0.7"], Queues::Unasked),
            (&most, Queues::Given(vec![7; 100])),
        ] {
            let welcome = Answer::Welcome {
                udp_port: 4_000,
                addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
                max_datagram: 8_972,
                packets: 1 << 33,
                queues,
            };
            let bytes = welcome.bytes();
            assert_eq!(Answer::read(&bytes), Some(welcome));
            for wrong in [0, MOST_PORTS + 1, 255] {
                let mut bytes = bytes;
                bytes[ADDRESSES - 1] = wrong as u8;
                assert_eq!(Answer::read(&bytes), None, "{wrong} addresses");
            }
        }
        let long = "é".repeat(300);
        let Some(Answer::Refused(why)) = Answer::read(&Answer::Refused(long).bytes()) else {
            panic!("no refusal");
        };
        assert!(why.len() > 200 && why.chars().all(|c| c == 'é'));
    }
}
