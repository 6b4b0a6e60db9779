//! The parts of all frames: addresses, header lengths and types of Ethernet and IP, and the Internet checksum.

use std::net::SocketAddr;

/// An Ethernet address.
pub(super) type Mac = [u8; 6];

/// Bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;
/// Bytes of an IPv4 header without options.
pub(super) const IPV4: usize = 20;
/// Bytes of an IPv6 header without extensions.
pub(super) const IPV6: usize = 40;
/// Bytes of a UDP header.
pub(super) const UDP: usize = 8;
/// The most bytes before a payload.
pub(super) const MOST_HEADERS: usize = ETHERNET + IPV6 + UDP;

pub(super) const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
pub(super) const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
pub(super) const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
pub(super) const ETHERTYPE_VLAN: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
pub(super) const PROTOCOL_UDP: u8 = 17;
pub(super) const NEXT_FRAGMENT: u8 = 44;
pub(super) const NEXT_ICMPV6: u8 = 58;
pub(super) const TTL: u8 = 64;
pub(super) const BROADCAST: Mac = [0xff; 6];
/// The first bytes of the Ethernet address of an IPv6 group (RFC 2464).
pub(super) const GROUP_IPV6: [u8; 2] = [0x33, 0x33];

/// The addresses of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) mac: Mac,
    pub(super) addr: SocketAddr,
}

impl Host {
    /// Bytes of the headers before the payload of this host's datagrams.
    pub(super) fn headers(&self) -> usize {
        ETHERNET + self.overhead()
    }

    /// Bytes of the IP and UDP headers, which count towards the MTU beside the payload.
    pub(super) fn overhead(&self) -> usize {
        self.ip_header() + UDP
    }

    /// Bytes of the IP header.
    pub(super) fn ip_header(&self) -> usize {
        if self.addr.is_ipv4() { IPV4 } else { IPV6 }
    }
}

/// The sum of 16-bit words (RFC 1071) in this machine's byte order, not folded. `bytes` must be shorter than 2^32
/// bytes.
#[inline]
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(4);
    let mut total: u64 = chunks
        .by_ref()
        .map(|chunk| u64::from(u32::from_ne_bytes(chunk.try_into().expect("four bytes"))))
        .sum();
    let mut last = [0; 4];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_ne_bytes(last));
    total
}

/// Folds a sum to 16 bits.
#[inline]
pub(super) fn fold(total: u64) -> u16 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    // Three times, because adding a carry can cause another carry.
    let once = |total: u64| (total & 0xffff) + (total >> 16);
    once(once(once(total))) as u16
}

/// The bytes of the checksum field for a sum.
#[inline]
pub(super) fn complement(total: u64) -> [u8; 2] {
    (!fold(total)).to_ne_bytes()
}

/// Why a received frame cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Useless {
    /// The lengths contradict each other, or the IP version is not the one of the frame's type.
    Malformed,
    /// The frame has a VLAN tag that the port has not removed.
    Vlan,
    /// The frame is neither UDP over IP, nor ARP or neighbour discovery.
    OtherProtocol,
    /// The frame is for another host, or for another port of this host.
    NotOurs,
    /// The frame holds a fragment of an IP packet.
    Fragment,
    /// The checksum of the IPv4 header, of UDP or of ICMPv6 is wrong.
    BadChecksum,
}
