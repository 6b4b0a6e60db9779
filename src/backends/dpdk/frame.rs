//! Frames as octets: Ethernet, IPv4 and UDP from a template per neighbour, and the way back. No device, no `unsafe`.
//!
//! ```text
//!  0            6            12    14                                34                42
//!  ├ destination ┼ source MAC ┼ 0800┼ IPv4, 20 octets, no options     ┼ UDP, 8 octets  ┼ payload
//! ```
//!
//! Lengths, identification, port and checksums differ between datagrams and are patched. The IPv4 checksum is summed up
//! in advance but for those.

use std::net::{Ipv4Addr, SocketAddrV4};

use etherparse::{ArpHardwareId, ArpOperation, ArpPacket, EtherType, Ethernet2Header, PacketBuilder};

/// An Ethernet address.
pub(super) type Mac = [u8; 6];

/// Octets of an Ethernet header.
pub(super) const ETHERNET: usize = 14;
/// Octets of an IPv4 header without options.
pub(super) const IPV4: usize = 20;
/// Octets of an UDP header.
const UDP: usize = 8;
/// Octets before the payload.
pub(super) const HEADERS: usize = ETHERNET + IPV4 + UDP;
/// Octets of IP and UDP headers: what an MTU holds besides payload.
pub(super) const OVERHEAD: usize = IPV4 + UDP;
/// Octets of a frame that asks or answers by ARP.
pub(super) const ARP_FRAME: usize = ETHERNET + 28;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_VLAN: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const PROTOCOL_UDP: u8 = 17;
const TTL: u8 = 64;
const BROADCAST: Mac = [0xff; 6];

/// Who sends and receives here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) mac: Mac,
    pub(super) addr: SocketAddrV4,
}

/// What UDP checksums are for a datagram that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UdpChecksum {
    /// Zero: "not computed" (RFC 768). For links that are memory.
    Absent,
    /// Computed here.
    Software,
    /// The port computes it; the field holds the sum over the pseudo header.
    Port,
}

/// The headers of datagrams to one host.
#[derive(Clone, Debug)]
pub(super) struct Template {
    octets: [u8; HEADERS],
    /// Sum over the IPv4 header without total length, identification and checksum.
    ip_sum: u64,
    /// Sum over the pseudo header without the length.
    pseudo_sum: u64,
}

impl Template {
    /// From `host` to the host at `ip`.
    pub(super) fn new(host: &Host, mac: Mac, ip: Ipv4Addr) -> Self {
        let builder = PacketBuilder::ethernet2(host.mac, mac)
            .ipv4(host.addr.ip().octets(), ip.octets(), TTL)
            .udp(host.addr.port(), 0);
        let mut frame = Vec::with_capacity(HEADERS);
        builder
            .write(&mut frame, &[])
            .expect("writing an empty datagram to memory");
        let mut octets: [u8; HEADERS] = frame[..].try_into().expect("headers without options have this size");
        octets[ETHERNET + 2..ETHERNET + 6].fill(0);
        octets[ETHERNET + 10..ETHERNET + 12].fill(0);
        // Never in fragments: the protocol finds the path's MTU.
        octets[ETHERNET + 6..ETHERNET + 8].copy_from_slice(&[0x40, 0]);
        octets[HEADERS - UDP + 4..].fill(0);
        let ip_header = &octets[ETHERNET..ETHERNET + IPV4];
        Self {
            ip_sum: sum(ip_header),
            pseudo_sum: sum(&ip_header[12..20]) + sum(&[0, PROTOCOL_UDP]),
            octets,
        }
    }

    /// Writes the headers before the payload, which is in `frame[HEADERS..]` already. `identification` tells packets of
    /// one source apart for those who reassemble, which nobody does here.
    ///
    /// # Panics
    /// If `frame` is shorter than its headers, or longer than an IPv4 packet can be.
    #[inline]
    pub(super) fn write(&self, frame: &mut [u8], port: u16, identification: u16, checksum: UdpChecksum) {
        let ip_len = u16::try_from(frame.len() - ETHERNET).expect("a packet has less than 64 KiB");
        let udp_len = (ip_len - IPV4 as u16).to_be_bytes();
        let ip_len = ip_len.to_be_bytes();
        let identification = identification.to_be_bytes();
        frame[..HEADERS].copy_from_slice(&self.octets);
        let (headers, payload) = frame.split_at_mut(HEADERS);
        headers[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&ip_len);
        headers[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&identification);
        let ip_sum = self.ip_sum + word(ip_len) + word(identification);
        headers[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&complement(ip_sum));
        let udp = &mut headers[ETHERNET + IPV4..];
        udp[2..4].copy_from_slice(&port.to_be_bytes());
        udp[4..6].copy_from_slice(&udp_len);
        match checksum {
            UdpChecksum::Absent => {}
            UdpChecksum::Port => {
                let pseudo = complement(self.pseudo_sum + word(udp_len));
                udp[6..8].copy_from_slice(&[!pseudo[0], !pseudo[1]]);
            }
            UdpChecksum::Software => {
                let total = self.pseudo_sum + word(udp_len) + sum(&udp[..6]) + sum(payload);
                udp[6..8].copy_from_slice(&never_zero(complement(total)));
            }
        }
    }
}

/// A sum that comes to zero is sent as its other form, because zero means "not computed" (RFC 768).
fn never_zero(checksum: [u8; 2]) -> [u8; 2] {
    if checksum == [0, 0] { [0xff, 0xff] } else { checksum }
}

fn word(octets: [u8; 2]) -> u64 {
    u64::from(u16::from_ne_bytes(octets))
}

/// The sum of 16-bit words (RFC 1071) in this machine's byte order, not folded. Of less than 2^32 octets.
#[inline]
fn sum(octets: &[u8]) -> u64 {
    let mut chunks = octets.chunks_exact(4);
    let mut total: u64 = chunks
        .by_ref()
        .map(|chunk| u64::from(u32::from_ne_bytes(chunk.try_into().expect("four octets"))))
        .sum();
    let mut last = [0; 4];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_ne_bytes(last));
    total
}

/// Folds a sum to 16 bits and takes the complement: the octets of a checksum field.
#[inline]
fn complement(total: u64) -> [u8; 2] {
    let mut total = (total & 0xffff_ffff) + (total >> 32);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    (!(total as u16)).to_ne_bytes()
}

/// Why a frame is of no use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Useless {
    /// Lengths that do not fit each other, or a version that is not 4.
    Malformed,
    /// A VLAN tag that nobody took off.
    Vlan,
    /// Neither IPv4 with UDP nor ARP.
    OtherProtocol,
    /// For another host, or another port of this one.
    NotOurs,
    /// A part of an IPv4 packet.
    Fragment,
    /// Of the IPv4 header or of UDP.
    BadChecksum,
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A datagram for us.
    Datagram {
        source: SocketAddrV4,
        /// Where in the frame the payload is.
        start: usize,
        end: usize,
    },
    /// Somebody asks for an address, or tells one.
    Arp(Arp),
}

/// An ARP packet for IPv4 over Ethernet (RFC 826).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arp {
    pub(super) is_request: bool,
    pub(super) sender_mac: Mac,
    pub(super) sender: Ipv4Addr,
    pub(super) target: Ipv4Addr,
}

/// Reads a frame. `udp_checked`: the port has found the UDP checksum right.
#[inline]
pub(super) fn parse(frame: &[u8], host: &Host, udp_checked: bool) -> Result<Frame, Useless> {
    let Some((ethernet, packet)) = frame.split_at_checked(ETHERNET) else {
        return Err(Useless::Malformed);
    };
    let destination = &ethernet[..6];
    if destination != host.mac && destination != BROADCAST {
        return Err(Useless::NotOurs);
    }
    let kind = [ethernet[12], ethernet[13]];
    if kind == ETHERTYPE_IPV4 {
        return parse_ipv4(packet, host, udp_checked);
    }
    if kind == ETHERTYPE_ARP {
        return parse_arp(packet).map(Frame::Arp);
    }
    if ETHERTYPE_VLAN.contains(&kind) {
        return Err(Useless::Vlan);
    }
    Err(Useless::OtherProtocol)
}

#[inline]
fn parse_ipv4(packet: &[u8], host: &Host, udp_checked: bool) -> Result<Frame, Useless> {
    if packet.len() < IPV4 || packet[0] >> 4 != 4 {
        return Err(Useless::Malformed);
    }
    let header_len = usize::from(packet[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    // What is beyond the total length is padding: Ethernet has no frames below 60 octets.
    if header_len < IPV4 || total_len < header_len || packet.len() < total_len {
        return Err(Useless::Malformed);
    }
    let (header, body) = packet[..total_len].split_at(header_len);
    if complement(sum(header)) != [0, 0] {
        return Err(Useless::BadChecksum);
    }
    if header[16..20] != host.addr.ip().octets() {
        return Err(Useless::NotOurs);
    }
    if header[9] != PROTOCOL_UDP {
        return Err(Useless::OtherProtocol);
    }
    // "More fragments", or an offset.
    if header[6] & 0x3f != 0 || header[7] != 0 {
        return Err(Useless::Fragment);
    }
    if body.len() < UDP {
        return Err(Useless::Malformed);
    }
    let udp_len = usize::from(u16::from_be_bytes([body[4], body[5]]));
    if udp_len < UDP || udp_len > body.len() {
        return Err(Useless::Malformed);
    }
    if [body[2], body[3]] != host.addr.port().to_be_bytes() {
        return Err(Useless::NotOurs);
    }
    if !udp_checked && [body[6], body[7]] != [0, 0] {
        let pseudo = sum(&header[12..20]) + sum(&[0, PROTOCOL_UDP]) + sum(&body[4..6]);
        if complement(pseudo + sum(&body[..udp_len])) != [0, 0] {
            return Err(Useless::BadChecksum);
        }
    }
    let ip = Ipv4Addr::new(header[12], header[13], header[14], header[15]);
    let start = ETHERNET + header_len + UDP;
    Ok(Frame::Datagram {
        source: SocketAddrV4::new(ip, u16::from_be_bytes([body[0], body[1]])),
        start,
        end: start + udp_len - UDP,
    })
}

fn parse_arp(packet: &[u8]) -> Result<Arp, Useless> {
    // Hardware Ethernet, protocol IPv4, and the sizes of their addresses.
    const IPV4_OVER_ETHERNET: [u8; 6] = [0, 1, 8, 0, 6, 4];
    if packet.len() < ARP_FRAME - ETHERNET || packet[..6] != IPV4_OVER_ETHERNET {
        return Err(Useless::Malformed);
    }
    let is_request = match [packet[6], packet[7]] {
        [0, 1] => true,
        [0, 2] => false,
        _ => return Err(Useless::Malformed),
    };
    let ip = |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
    Ok(Arp {
        is_request,
        sender_mac: packet[8..14].try_into().expect("six octets"),
        sender: ip(14),
        target: ip(24),
    })
}

/// Asks everybody who has `target`; with the own address as `target`, announces it (RFC 5227).
pub(super) fn arp_request(host: &Host, target: Ipv4Addr) -> [u8; ARP_FRAME] {
    arp(host, ArpOperation::REQUEST, BROADCAST, [0; 6], target)
}

/// Tells who has asked that `host` is here.
pub(super) fn arp_reply(host: &Host, to: Mac, target: Ipv4Addr) -> [u8; ARP_FRAME] {
    arp(host, ArpOperation::REPLY, to, to, target)
}

fn arp(host: &Host, operation: ArpOperation, to: Mac, target_mac: Mac, target: Ipv4Addr) -> [u8; ARP_FRAME] {
    let ethernet = Ethernet2Header {
        source: host.mac,
        destination: to,
        ether_type: EtherType::ARP,
    };
    let packet = ArpPacket::new(
        ArpHardwareId::ETHERNET,
        EtherType::IPV4,
        operation,
        &host.mac,
        &host.addr.ip().octets(),
        &target_mac,
        &target.octets(),
    )
    .expect("addresses have the lengths of their kinds");
    let mut frame = [0; ARP_FRAME];
    frame[..ETHERNET].copy_from_slice(&ethernet.to_bytes());
    frame[ETHERNET..].copy_from_slice(&packet.to_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    use super::*;

    const MINE: Host = Host {
        mac: [2, 0, 0, 0, 0, 1],
        addr: SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 4000),
    };
    const OTHER: Host = Host {
        mac: [2, 0, 0, 0, 0, 2],
        addr: SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 2), 5000),
    };

    fn frame(payload: &[u8], checksum: UdpChecksum) -> Vec<u8> {
        let mut frame = vec![0xa5; HEADERS];
        frame.extend_from_slice(payload);
        let template = Template::new(&OTHER, MINE.mac, *MINE.addr.ip());
        template.write(&mut frame, MINE.addr.port(), 77, checksum);
        frame
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_by_others_and_by_us(
            payload in proptest::collection::vec(any::<u8>(), 0..2000),
            computed in any::<bool>(),
        ) {
            let checksum = if computed { UdpChecksum::Software } else { UdpChecksum::Absent };
            let frame = frame(&payload, checksum);
            let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
            let Some(NetSlice::Ipv4(ip)) = &sliced.net else { panic!("no IPv4: {sliced:?}") };
            let header = ip.header().to_header();
            prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
            prop_assert!(header.dont_fragment);
            prop_assert_eq!(header.identification, 77);
            let Some(TransportSlice::Udp(udp)) = &sliced.transport else { panic!("no UDP: {sliced:?}") };
            let expected = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
            prop_assert_eq!(udp.checksum(), if computed { expected } else { 0 });
            prop_assert_eq!(udp.payload(), &payload[..]);
            let read = parse(&frame, &MINE, false).unwrap();
            prop_assert_eq!(read, Frame::Datagram { source: OTHER.addr, start: HEADERS, end: frame.len() });
        }

        #[test]
        fn any_octets_are_a_frame_or_useless(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&octets, &MINE, false);
        }

        #[test]
        fn a_changed_octet_of_a_datagram_is_noticed(
            payload in proptest::collection::vec(any::<u8>(), 1..300),
            at in any::<prop::sample::Index>(),
            change in 1_u8..,
        ) {
            let mut frame = frame(&payload, UdpChecksum::Software);
            // Not the Ethernet header, which the frame check sequence covers, and which says what the rest is.
            let at = ETHERNET + at.index(frame.len() - ETHERNET);
            // A checksum field of zero would say that there is none.
            prop_assume!(at != HEADERS - 1 && at != HEADERS - 2);
            frame[at] ^= change;
            let read = parse(&frame, &MINE, false);
            prop_assert!(read.is_err(), "{:?}", read);
        }

        #[test]
        fn truncation_and_padding(payload in proptest::collection::vec(any::<u8>(), 0..100), cut in 0..142_usize) {
            let mut frame = frame(&payload, UdpChecksum::Software);
            let whole = parse(&frame, &MINE, false);
            let shorter = frame.len().saturating_sub(cut + 1);
            prop_assert!(parse(&frame[..shorter], &MINE, false).is_err());
            frame.resize(frame.len() + cut, 0);
            prop_assert_eq!(parse(&frame, &MINE, false), whole);
        }
    }

    #[test]
    fn frames_that_are_not_for_us_or_not_understood() {
        let useless = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = frame(b"payload", UdpChecksum::Absent);
            change(&mut frame);
            // The header's checksum is right again, so that it is not what is noticed.
            frame[ETHERNET + 10..ETHERNET + 12].fill(0);
            let fresh = complement(sum(&frame[ETHERNET..ETHERNET + IPV4]));
            frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&fresh);
            parse(&frame, &MINE, false).unwrap_err()
        };
        assert_eq!(useless(&|frame| frame[5] = 9), Useless::NotOurs);
        assert_eq!(useless(&|frame| frame[ETHERNET + 19] = 9), Useless::NotOurs);
        assert_eq!(useless(&|frame| frame[HEADERS - 5] = 9), Useless::NotOurs);
        assert_eq!(useless(&|frame| frame[12] = 0x86), Useless::OtherProtocol);
        assert_eq!(useless(&|frame| frame[ETHERNET + 9] = 1), Useless::OtherProtocol);
        assert_eq!(
            useless(&|frame| frame[12..14].copy_from_slice(&[0x81, 0])),
            Useless::Vlan
        );
        assert_eq!(useless(&|frame| frame[ETHERNET + 6] = 0x20), Useless::Fragment);
        assert_eq!(useless(&|frame| frame[ETHERNET + 7] = 1), Useless::Fragment);
        assert_eq!(useless(&|frame| frame[ETHERNET] = 0x44), Useless::Malformed);
        assert_eq!(useless(&|frame| frame[ETHERNET] = 0x65), Useless::Malformed);
        assert_eq!(useless(&|frame| frame[HEADERS - 4] = 1), Useless::Malformed);
        assert_eq!(useless(&|frame| frame[HEADERS - 3] = 7), Useless::Malformed);
    }

    #[test]
    fn a_checksum_that_the_port_has_checked_is_not_checked_again() {
        let mut frame = frame(b"payload", UdpChecksum::Software);
        frame[HEADERS] ^= 1;
        assert_eq!(parse(&frame, &MINE, false), Err(Useless::BadChecksum));
        assert!(parse(&frame, &MINE, true).is_ok());
    }

    #[test]
    fn a_port_is_given_the_sum_over_the_pseudo_header() {
        let frame = frame(b"ab", UdpChecksum::Port);
        let mut pseudo = frame[ETHERNET + 12..ETHERNET + 20].to_vec();
        pseudo.extend([0, PROTOCOL_UDP, 0, 10]);
        let sum = pseudo
            .chunks(2)
            .map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])))
            .sum::<u32>();
        let folded = ((sum & 0xffff) + (sum >> 16)) as u16;
        assert_eq!(frame[HEADERS - 2..HEADERS], folded.to_be_bytes());
    }

    #[test]
    fn arp_both_ways() {
        let asked = arp_request(&MINE, *OTHER.addr.ip());
        let Ok(Frame::Arp(arp)) = parse(&asked, &OTHER, false) else {
            panic!("it is a broadcast")
        };
        assert!(arp.is_request);
        assert_eq!(
            (arp.sender, arp.sender_mac, arp.target),
            (*MINE.addr.ip(), MINE.mac, *OTHER.addr.ip())
        );
        let answer = arp_reply(&OTHER, arp.sender_mac, arp.sender);
        let Ok(Frame::Arp(arp)) = parse(&answer, &MINE, false) else {
            panic!("it is for the one who has asked")
        };
        assert!(!arp.is_request);
        assert_eq!((arp.sender, arp.sender_mac), (*OTHER.addr.ip(), OTHER.mac));
        let mut wrong = asked;
        wrong[ETHERNET + 5] = 16;
        assert_eq!(parse(&wrong, &OTHER, false), Err(Useless::Malformed));
        wrong = asked;
        wrong[ETHERNET + 7] = 3;
        assert_eq!(parse(&wrong, &OTHER, false), Err(Useless::Malformed));
        assert_eq!(parse(&asked[..30], &OTHER, false), Err(Useless::Malformed));
    }
}
