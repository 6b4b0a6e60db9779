//! Frames as bytes: Ethernet, IP and UDP headers from a template per neighbour, and the parser for received frames.
//! This module uses no device and no `unsafe`.
//!
//! ```text
//!  0            6            12    14                                34 (IPv6: 54)    42 (62)
//!  ├ destination ┼ source MAC ┼ type┼ IPv4, 20 bytes, no options      ┼ UDP, 8 bytes   ┼ payload
//!                             │ 0800│ IPv6, 40 bytes (type 86dd)      │
//! ```
//!
//! Lengths, identification, ports and checksums differ between datagrams and are patched. The sum of the IPv4 header
//! without these fields is computed in advance. `discovery.rs` has ARP and neighbour discovery.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use etherparse::PacketBuilder;

use super::{
    discovery::{self, Notice},
    ethernet::{
        BROADCAST, ETHERNET, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, GROUP_IPV6, Host, IPV4,
        IPV6, MOST_HEADERS, Mac, NEXT_FRAGMENT, NEXT_ICMPV6, PROTOCOL_UDP, TTL, UDP, Useless, complement, fold, sum,
    },
};

/// How the UDP checksum of a sent datagram is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UdpChecksum {
    /// Zero: "not computed" (RFC 768). For links that are memory. IPv6 does not allow it (RFC 8200).
    Absent,
    /// This module computes it.
    Software,
    /// The port computes it; the field holds the sum over the pseudo header.
    Port,
}

/// The headers of datagrams over IPv4.
pub(super) type UsualHead = [u8; Usual::HEADERS];

/// The headers of datagrams to one host.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: [u8; MOST_HEADERS],
    /// Bytes of the headers.
    len: usize,
    /// The folded sum over the IPv4 header without total length, identification and checksum.
    ip_sum: u16,
    /// The sum over the pseudo header without the length.
    pseudo_sum: u64,
}

impl Template {
    /// Makes the headers of datagrams from `host` to the host at `ip`. Both are of the same version of IP.
    pub(super) fn new(host: &Host, mac: Mac, ip: IpAddr) -> Self {
        let builder = PacketBuilder::ethernet2(host.mac, mac);
        let builder = match (host.addr.ip(), ip) {
            (IpAddr::V4(from), IpAddr::V4(to)) => builder.ipv4(from.octets(), to.octets(), TTL),
            (from, to) => builder.ipv6(v6(from).octets(), v6(to).octets(), TTL),
        };
        let mut frame = Vec::with_capacity(MOST_HEADERS);
        builder
            .udp(host.addr.port(), 0)
            .write(&mut frame, &[])
            .expect("writing an empty datagram to memory");
        let len = frame.len();
        let mut bytes = [0; MOST_HEADERS];
        bytes[..len].copy_from_slice(&frame);
        bytes[len - UDP + 4..].fill(0);
        let is_ipv4 = len == ETHERNET + IPV4 + UDP;
        if is_ipv4 {
            bytes[ETHERNET + 2..ETHERNET + 6].fill(0);
            bytes[ETHERNET + 10..ETHERNET + 12].fill(0);
            // "Don't fragment": the protocol finds the path MTU.
            bytes[ETHERNET + 6..ETHERNET + 8].copy_from_slice(&[0x40, 0]);
        }
        let header = &bytes[ETHERNET..len - UDP];
        let addresses = if is_ipv4 { &header[12..20] } else { &header[8..40] };
        Self {
            ip_sum: fold(sum(header)),
            pseudo_sum: sum(addresses) + sum(&[0, PROTOCOL_UDP]),
            bytes,
            len,
        }
    }

    /// Bytes of the headers.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes the headers of a datagram with `payload` bytes of payload over IPv4, without a UDP checksum. The result
    /// is that of [`headers`](Self::headers) and [`Headers::write`], for one datagram. The template must be for IPv4.
    #[inline(always)]
    pub(super) fn write_usual(&self, head: &mut UsualHead, payload: u16, ports: [u16; 2], identification: u16) {
        debug_assert!(self.len == head.len());
        let udp_len = payload + UDP as u16;
        let ip_len = (udp_len + IPV4 as u16).to_be();
        let ([a, b], [c, d], [e, f]) = (ports[0].to_be_bytes(), ports[1].to_be_bytes(), udp_len.to_be_bytes());
        let udp = [a, b, c, d, e, f, 0, 0];
        self.write_ipv4(head, ip_len, end_around(self.ip_sum, ip_len), udp, identification);
    }

    /// `ip_len` and `ip_sum` (which covers that length, but neither identification nor checksum) are in network byte
    /// order.
    #[inline(always)]
    fn write_ipv4(&self, head: &mut UsualHead, ip_len: u16, ip_sum: u16, udp: [u8; UDP], identification: u16) {
        let identification = identification.to_be();
        let checksum = !end_around(ip_sum, identification);
        head[..ETHERNET + IPV4].copy_from_slice(&self.bytes[..ETHERNET + IPV4]);
        head[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&ip_len.to_ne_bytes());
        head[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&identification.to_ne_bytes());
        head[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&checksum.to_ne_bytes());
        head[ETHERNET + IPV4..].copy_from_slice(&udp);
    }

    /// The headers of datagrams in frames of `frame` bytes. `ports`: source and destination.
    ///
    /// # Panics
    /// If `frame` is shorter than the headers, or longer than an IP packet can be.
    #[inline]
    pub(super) fn headers(&self, frame: usize, ports: [u16; 2], checksum: UdpChecksum) -> Headers<'_> {
        let is_ipv4 = self.len == Usual::HEADERS;
        assert!(frame >= self.len, "a frame without room for its headers");
        let packet = u16::try_from(frame - ETHERNET).expect("a packet has less than 64 KiB");
        let udp_len = packet - (self.len - ETHERNET - UDP) as u16;
        // The length field of IPv6 does not count the IPv6 header.
        let ip_len = if is_ipv4 { packet } else { udp_len }.to_be();
        let ([a, b], [c, d], [e, f]) = (ports[0].to_be_bytes(), ports[1].to_be_bytes(), udp_len.to_be_bytes());
        let mut udp = [a, b, c, d, e, f, 0, 0];
        let mut over_payload = None;
        let pseudo_sum = self.pseudo_sum + u64::from(udp_len.to_be());
        match checksum {
            UdpChecksum::Absent if is_ipv4 => {}
            UdpChecksum::Port => udp[6..].copy_from_slice(&fold(pseudo_sum).to_ne_bytes()),
            UdpChecksum::Absent | UdpChecksum::Software => over_payload = Some(pseudo_sum + sum(&udp[..6])),
        }
        Headers {
            template: self,
            ip_len,
            ip_sum: end_around(self.ip_sum, ip_len),
            udp,
            over_payload,
        }
    }
}

/// The headers of datagrams of one length from one port to another. Only the identification is missing, and the UDP
/// checksum if this module computes it.
pub(super) struct Headers<'a> {
    template: &'a Template,
    /// In network byte order.
    ip_len: u16,
    /// The folded sum over the IPv4 header without identification and checksum.
    ip_sum: u16,
    udp: [u8; UDP],
    /// The part of the UDP checksum's sum that does not cover the payload; the sum over the payload is added to it.
    /// `None`: `udp` already holds the checksum field.
    over_payload: Option<u64>,
}

impl Headers<'_> {
    /// Bytes of the IP header.
    pub(super) fn ip(&self) -> usize {
        self.template.len - ETHERNET - UDP
    }

    /// Writes the headers at the beginning of `frame`. If the UDP checksum is computed here, the payload must be in
    /// `frame` already, behind the headers. `identification` tells the packets of one source apart for hosts that
    /// reassemble fragments, which does not happen here.
    ///
    /// # Panics
    /// If `frame` is shorter than its headers.
    #[inline(always)]
    pub(super) fn write(&self, frame: &mut [u8], identification: u16) {
        let Template { bytes, len, .. } = self.template;
        match frame.first_chunk_mut() {
            // The length is a constant here, so the copy needs no function call.
            Some(head) if *len == Usual::HEADERS => {
                self.template
                    .write_ipv4(head, self.ip_len, self.ip_sum, self.udp, identification);
            }
            _ => {
                let head = &mut frame[..*len];
                head.copy_from_slice(&bytes[..*len]);
                head[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&self.ip_len.to_ne_bytes());
                head[*len - UDP..].copy_from_slice(&self.udp);
            }
        }
        if let Some(before) = self.over_payload {
            let (head, payload) = frame.split_at_mut(*len);
            head[*len - 2..].copy_from_slice(&never_zero(complement(before + sum(payload))));
        }
    }
}

/// Converts to an IPv6 address (IPv4 to its mapped form, which is never sent).
fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// A checksum of zero is sent as 0xffff, because zero means "not computed" (RFC 768).
fn never_zero(checksum: [u8; 2]) -> [u8; 2] {
    if checksum == [0, 0] { [0xff, 0xff] } else { checksum }
}

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A datagram for an IP address at this Ethernet address.
    Datagram(Datagram),
    /// A request for a neighbour's address, or an announcement of one.
    Notice(Notice),
}

/// A datagram in a frame. Its UDP checksum has not been checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    /// The offset of the payload in the frame.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Datagram {
    /// Returns whether the UDP checksum is right, or, with IPv4, absent. `frame` must be the frame from which this was
    /// read.
    #[inline]
    pub(super) fn is_intact(&self, frame: &[u8]) -> bool {
        let udp = &frame[self.start - UDP..self.end];
        let addresses = if self.source.is_ipv4() {
            ETHERNET + 12..ETHERNET + 20
        } else {
            ETHERNET + 8..ETHERNET + 40
        };
        if udp[6..8] == [0, 0] {
            return self.source.is_ipv4();
        }
        let pseudo = sum(&frame[addresses]) + sum(&[0, PROTOCOL_UDP]) + sum(&udp[4..6]);
        complement(pseudo + sum(udp)) == [0, 0]
    }
}

/// Mask over address and port. The two bytes between them do not count.
const TO_BITS: u64 = u64::from_le_bytes([0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff]);

/// The beginning of nearly all frames for a host, which a few comparisons recognise. [`parse`] returns the same for
/// these frames, and also classifies all others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    /// The first eight bytes of a frame; the last two of them do not count.
    mac: u64,
    /// The destination's address, two bytes that are zero here, and the destination's port.
    to: u64,
}

/// The destination UDP port of `headers`, which end with the UDP header.
pub(super) fn destination_port(headers: &[u8]) -> u16 {
    let udp = &headers[headers.len() - UDP..];
    u16::from_be_bytes([udp[2], udp[3]])
}

impl Usual {
    /// Matches no frame.
    pub(super) const NONE: Self = Self { mac: 0, to: !TO_BITS };

    /// The beginning of frames for `host`; [`NONE`](Self::NONE) if its address is not of IPv4.
    pub(super) fn new(host: &Host) -> Self {
        let IpAddr::V4(ip) = host.addr.ip() else {
            return Self::NONE;
        };
        let [a, b, c, d, e, f] = host.mac;
        let [g, h, i, j] = ip.octets();
        let [k, l] = host.addr.port().to_be_bytes();
        Self {
            mac: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]),
            to: u64::from_le_bytes([g, h, i, j, 0, 0, k, l]),
        }
    }

    /// Reads a datagram for this host over IPv4 without options. Returns its source, and the offset of the end of its
    /// payload, which begins after [`HEADERS`](Self::HEADERS) bytes. `checked`: the port has checked the UDP checksum,
    /// and it is right, if there is one. `None`: the frame is something else, or the datagram is empty, or its UDP
    /// checksum must be checked.
    #[inline(always)]
    pub(super) fn read(&self, frame: &[u8], checked: impl FnOnce() -> bool) -> Option<(SocketAddr, usize)> {
        /// IPv4, and a header of five 32-bit words.
        const KIND: u32 = u32::from_le_bytes([0x08, 0x00, 0x45, 0]);
        const KIND_BITS: u32 = u32::from_le_bytes([0xff, 0xff, 0xff, 0]);
        /// Neither "more fragments" nor an offset, and UDP inside.
        const INSIDE: u32 = u32::from_le_bytes([0, 0, 0, PROTOCOL_UDP]);
        const INSIDE_BITS: u32 = u32::from_le_bytes([0x3f, 0xff, 0, 0xff]);
        let head: &UsualHead = frame.first_chunk()?;
        let eight = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let quad = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let pair = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
        // All comparisons in one, because nearly always nothing differs. (The shift removes the last two bytes of the
        // first eight.)
        let differs = (eight(0) ^ self.mac) << 16
            | (eight(30) & TO_BITS) ^ self.to
            | u64::from((quad(12) ^ KIND) & KIND_BITS | (quad(20) ^ INSIDE) & INSIDE_BITS);
        // The bytes may be added in any byte order, and several words at once (RFC 1071).
        let sum = end_around_wide(end_around_wide(eight(14), eight(22)), quad(30).into());
        if differs != 0 || !folds_to_ones(sum) || (pair(40) != 0 && !checked()) {
            return None;
        }
        let end = ETHERNET + usize::from(u16::from_be(pair(16)));
        let udp_end = ETHERNET + IPV4 + usize::from(u16::from_be(pair(38)));
        let fits = Self::HEADERS < end && end == udp_end && end <= frame.len();
        fits.then(|| {
            let ip = Ipv4Addr::new(head[26], head[27], head[28], head[29]);
            (SocketAddr::new(ip.into(), u16::from_be(pair(34))), end)
        })
    }

    /// Bytes before the payload.
    pub(super) const HEADERS: usize = ETHERNET + IPV4 + UDP;
}

/// The ones' complement sum.
#[inline]
fn end_around(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

/// The ones' complement sum of 64-bit words.
#[inline]
fn end_around_wide(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

/// Returns whether a sum that is not zero folds to sixteen ones, that is, whether 0xffff divides it. (The product with
/// the inverse is this small only for multiples of 0xffff. Without this, the compiler would divide, to save a branch
/// that always goes the same way.)
#[inline]
fn folds_to_ones(sum: u64) -> bool {
    const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
    const _: () = assert!(INVERSE.wrapping_mul(0xffff) == 1);
    sum.wrapping_mul(INVERSE) <= u64::MAX / 0xffff
}

/// Reads a frame that a host at `mac` has received.
#[inline]
pub(super) fn parse(frame: &[u8], mac: &Mac) -> Result<Frame, Useless> {
    let Some((ethernet, packet)) = frame.split_at_checked(ETHERNET) else {
        return Err(Useless::Malformed);
    };
    let destination = &ethernet[..6];
    let kind = [ethernet[12], ethernet[13]];
    if destination != mac && destination != BROADCAST && destination[..2] != GROUP_IPV6 {
        return Err(Useless::NotOurs);
    }
    match kind {
        ETHERTYPE_IPV4 => parse_ipv4(packet),
        ETHERTYPE_IPV6 => parse_ipv6(packet),
        ETHERTYPE_ARP => discovery::parse_arp(packet).map(Frame::Notice),
        _ if ETHERTYPE_VLAN.contains(&kind) => Err(Useless::Vlan),
        _ => Err(Useless::OtherProtocol),
    }
}

#[inline]
fn parse_ipv4(packet: &[u8]) -> Result<Frame, Useless> {
    if packet.len() < IPV4 || packet[0] >> 4 != 4 {
        return Err(Useless::Malformed);
    }
    let header_len = usize::from(packet[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    // The bytes after the total length are padding: Ethernet has no frames below 60 bytes.
    if header_len < IPV4 || total_len < header_len || packet.len() < total_len {
        return Err(Useless::Malformed);
    }
    let (header, body) = packet[..total_len].split_at(header_len);
    if complement(sum(header)) != [0, 0] {
        return Err(Useless::BadChecksum);
    }
    if header[9] != PROTOCOL_UDP {
        return Err(Useless::OtherProtocol);
    }
    // "More fragments" is set, or the offset is not zero.
    if header[6] & 0x3f != 0 || header[7] != 0 {
        return Err(Useless::Fragment);
    }
    let ip = |at: usize| {
        IpAddr::V4(Ipv4Addr::new(
            header[at],
            header[at + 1],
            header[at + 2],
            header[at + 3],
        ))
    };
    parse_udp(body, ETHERNET + header_len, ip(12), ip(16))
}

#[inline]
fn parse_ipv6(packet: &[u8]) -> Result<Frame, Useless> {
    let Some((header, body)) = packet.split_at_checked(IPV6) else {
        return Err(Useless::Malformed);
    };
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || body.len() < len {
        return Err(Useless::Malformed);
    }
    let body = &body[..len];
    match header[6] {
        PROTOCOL_UDP => {
            let ip = |at: usize| {
                let bytes: [u8; 16] = header[at..at + 16].try_into().expect("16 bytes");
                IpAddr::V6(bytes.into())
            };
            parse_udp(body, ETHERNET + IPV6, ip(8), ip(24))
        }
        NEXT_ICMPV6 => discovery::parse_icmpv6(header, body).map(Frame::Notice),
        NEXT_FRAGMENT => Err(Useless::Fragment),
        _ => Err(Useless::OtherProtocol),
    }
}

/// `at`: the offset of `body` in the frame.
#[inline]
fn parse_udp(body: &[u8], at: usize, source: IpAddr, destination: IpAddr) -> Result<Frame, Useless> {
    if body.len() < UDP {
        return Err(Useless::Malformed);
    }
    let half = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let udp_len = usize::from(half(4));
    if udp_len < UDP || udp_len > body.len() {
        return Err(Useless::Malformed);
    }
    Ok(Frame::Datagram(Datagram {
        source: SocketAddr::new(source, half(0)),
        destination: SocketAddr::new(destination, half(2)),
        start: at + UDP,
        end: at + udp_len,
    }))
}

#[cfg(test)]
mod tests {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    use super::*;

    const MINE: Host = Host {
        mac: [2, 0, 0, 0, 0, 1],
        addr: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)), 4000),
    };
    const OTHER: Host = Host {
        mac: [2, 0, 0, 0, 0, 2],
        addr: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)), 5000),
    };

    const HEADERS: usize = ETHERNET + IPV4 + UDP;

    fn frame_between(from: &Host, to: &Host, payload: &[u8], checksum: UdpChecksum) -> Vec<u8> {
        let mut frame = vec![0xa5; from.headers()];
        frame.extend_from_slice(payload);
        let template = Template::new(from, to.mac, to.addr.ip());
        let ports = [from.addr.port(), to.addr.port()];
        template.headers(frame.len(), ports, checksum).write(&mut frame, 77);
        frame
    }

    fn frame(payload: &[u8], checksum: UdpChecksum) -> Vec<u8> {
        frame_between(&OTHER, &MINE, payload, checksum)
    }

    /// The same host with an IPv6 address.
    fn six(host: &Host) -> Host {
        let ip: Ipv6Addr = format!("fd77::{}", host.mac[5]).parse().unwrap();
        Host {
            mac: host.mac,
            addr: SocketAddr::new(ip.into(), host.addr.port()),
        }
    }

    /// Reads a frame and checks the UDP checksum, as the backend does.
    fn read(frame: &[u8]) -> Result<Datagram, Useless> {
        match parse(frame, &MINE.mac)? {
            Frame::Datagram(datagram) if datagram.is_intact(frame) => Ok(datagram),
            Frame::Datagram(_) => Err(Useless::BadChecksum),
            Frame::Notice(notice) => panic!("{notice:?}"),
        }
    }

    /// The results of both ways of reading a frame for `MINE`. `checked`: the port has checked the UDP checksum.
    fn both(frame: &[u8], checked: bool) -> [Option<(SocketAddr, usize, usize)>; 2] {
        let usual = Usual::new(&MINE).read(frame, || checked);
        let all = match parse(frame, &MINE.mac) {
            Ok(Frame::Datagram(datagram)) => {
                let is_intact = checked || datagram.is_intact(frame);
                Some(datagram).filter(|datagram| is_intact && datagram.destination == MINE.addr)
            }
            _ => None,
        };
        [
            usual.map(|(source, end)| (source, Usual::HEADERS, end)),
            all.map(|datagram| (datagram.source, datagram.start, datagram.end)),
        ]
    }

    proptest! {
        #[test]
        fn the_short_way_says_the_same(
            payload in proptest::collection::vec(any::<u8>(), 1..200),
            changes in proptest::collection::vec((0..60_usize, any::<u8>()), 0..3),
            cut in 0..20_usize,
        ) {
            let whole = frame(&payload, UdpChecksum::Absent);
            let [usual, all] = both(&whole, false);
            prop_assert!(usual.is_some() && usual == all);
            let mut frame = whole;
            for (at, value) in changes {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            frame.truncate(frame.len().saturating_sub(cut));
            // The short way may leave more frames to the other way, but must not return another result.
            let [usual, all] = both(&frame, false);
            prop_assert!(usual.is_none() || usual == all, "{usual:?} {all:?}");
        }

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
            let expected = Datagram {
                source: OTHER.addr,
                destination: MINE.addr,
                start: HEADERS,
                end: frame.len(),
            };
            prop_assert_eq!(read(&frame), Ok(expected));
        }

        #[test]
        fn the_same_over_ipv6(payload in proptest::collection::vec(any::<u8>(), 0..2000), absent in any::<bool>()) {
            let checksum = if absent { UdpChecksum::Absent } else { UdpChecksum::Software };
            let (from, to) = (six(&OTHER), six(&MINE));
            let frame = frame_between(&from, &to, &payload, checksum);
            let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
            let Some(NetSlice::Ipv6(ip)) = &sliced.net else { panic!("no IPv6: {sliced:?}") };
            let header = ip.header().to_header();
            let Some(TransportSlice::Udp(udp)) = &sliced.transport else { panic!("no UDP: {sliced:?}") };
            // IPv6 datagrams have a checksum in either case.
            prop_assert_eq!(udp.checksum(), udp.to_header().calc_checksum_ipv6(&header, udp.payload()).unwrap());
            prop_assert_eq!(udp.payload(), &payload[..]);
            let expected = Datagram {
                source: from.addr,
                destination: to.addr,
                start: from.headers(),
                end: frame.len(),
            };
            prop_assert_eq!(read(&frame), Ok(expected));
            let mut frame = frame.clone();
            frame[expected.start - 2..expected.start].fill(0);
            prop_assert_eq!(read(&frame), Err(Useless::BadChecksum));
        }

        #[test]
        fn a_changed_byte_over_ipv6_is_noticed(
            payload in proptest::collection::vec(any::<u8>(), 1..300),
            at in any::<prop::sample::Index>(),
            change in 1_u8..,
        ) {
            let (from, to) = (six(&OTHER), six(&MINE));
            let mut frame = frame_between(&from, &to, &payload, UdpChecksum::Software);
            let at = ETHERNET + at.index(frame.len() - ETHERNET);
            // Only the frame check sequence covers traffic class, flow label and hop limit.
            prop_assume!(!(ETHERNET..ETHERNET + 4).contains(&at) && at != ETHERNET + 7);
            frame[at] ^= change;
            // A longer length field could still fit a padded frame; this frame has no padding.
            prop_assert!(read(&frame).is_err());
        }

        #[test]
        fn any_bytes_are_a_frame_or_useless(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, &MINE.mac);
            let mut ours = MINE.mac.to_vec();
            ours.extend(bytes);
            if let Ok(Frame::Datagram(datagram)) = parse(&ours, &MINE.mac) {
                let _ = datagram.is_intact(&ours);
            }
        }

        #[test]
        fn a_changed_byte_of_a_datagram_is_noticed(
            payload in proptest::collection::vec(any::<u8>(), 1..300),
            at in any::<prop::sample::Index>(),
            change in 1_u8..,
        ) {
            let mut frame = frame(&payload, UdpChecksum::Software);
            // The Ethernet header is left out: the frame check sequence covers it, and it says what the rest of the
            // frame is.
            let at = ETHERNET + at.index(frame.len() - ETHERNET);
            // A checksum field of zero would mean that there is no checksum.
            prop_assume!(at != HEADERS - 1 && at != HEADERS - 2);
            frame[at] ^= change;
            // A change of the destination makes a checksum wrong, too.
            let read = read(&frame);
            prop_assert!(read.is_err(), "{:?}", read);
        }

        #[test]
        fn truncation_and_padding(payload in proptest::collection::vec(any::<u8>(), 0..100), cut in 0..142_usize) {
            let mut frame = frame(&payload, UdpChecksum::Software);
            let whole = read(&frame);
            let shorter = frame.len().saturating_sub(cut + 1);
            prop_assert!(read(&frame[..shorter]).is_err());
            frame.resize(frame.len() + cut, 0);
            prop_assert_eq!(read(&frame), whole);
        }
    }

    #[test]
    fn no_changed_byte_is_read_otherwise_on_the_short_way() {
        for (checksum, checked) in [
            (UdpChecksum::Absent, false),
            (UdpChecksum::Software, true),
            (UdpChecksum::Software, false),
        ] {
            let whole = frame(b"payload", checksum);
            for (at, change) in (0..whole.len()).flat_map(|at| (0..=u8::MAX).map(move |change| (at, change))) {
                let mut frame = whole.clone();
                frame[at] ^= change;
                let [usual, all] = both(&frame, checked);
                assert!(usual.is_none() || usual == all, "{at} {change}: {usual:?} {all:?}");
                // The bytes of a payload never keep a datagram off the short way.
                let is_usual = (change == 0 || at >= HEADERS) && (checked || checksum == UdpChecksum::Absent);
                assert!(usual.is_some() || !is_usual, "{at} {change}");
            }
        }
    }

    #[test]
    fn the_short_way_writes_the_same() {
        for value in 0..=u16::MAX {
            let (payload, ports) = (value % 2_048, [value.rotate_left(5), !value]);
            let template = Template::new(
                &OTHER,
                MINE.mac,
                Ipv4Addr::from_bits(0x0a4d_0000 | u32::from(value)).into(),
            );
            for identification in [value, value.wrapping_mul(40_503), 0, u16::MAX] {
                let mut all = vec![0xa5; HEADERS + usize::from(payload)];
                template
                    .headers(all.len(), ports, UdpChecksum::Absent)
                    .write(&mut all, identification);
                let mut head = [0x5a; HEADERS];
                template.write_usual(&mut head, payload, ports, identification);
                assert_eq!(head, all[..HEADERS], "{payload} {ports:?} {identification}");
            }
        }
    }

    #[test]
    fn checksums_of_ipv4_are_right_for_all_lengths_and_identifications() {
        let template = Template::new(&OTHER, MINE.mac, MINE.addr.ip());
        let mut head = [0; HEADERS];
        for value in 0..=u16::MAX {
            for (payload, identification) in [(7, value), (value.min(65_507), !value), (value.min(65_507), 0)] {
                template.write_usual(&mut head, payload, [1, 2], identification);
                assert_eq!(complement(sum(&head[ETHERNET..ETHERNET + IPV4])), [0, 0]);
                let lengths = [ETHERNET + 2, ETHERNET + IPV4 + 4].map(|at| [head[at], head[at + 1]]);
                assert_eq!(lengths, [payload + 28, payload + 8].map(u16::to_be_bytes));
            }
        }
    }

    #[test]
    fn frames_that_are_not_for_us_or_not_understood() {
        let useless = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = frame(b"payload", UdpChecksum::Absent);
            change(&mut frame);
            // The header's checksum is corrected, so that the test does not find a wrong checksum instead.
            frame[ETHERNET + 10..ETHERNET + 12].fill(0);
            let fresh = complement(sum(&frame[ETHERNET..ETHERNET + IPV4]));
            frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&fresh);
            read(&frame).unwrap_err()
        };
        assert_eq!(useless(&|frame| frame[5] = 9), Useless::NotOurs);
        assert_eq!(useless(&|frame| frame[12] = 0x88), Useless::OtherProtocol);
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
    fn frames_of_ipv6_that_are_not_understood() {
        let useless = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = frame_between(&six(&OTHER), &six(&MINE), b"payload", UdpChecksum::Software);
            change(&mut frame);
            read(&frame).unwrap_err()
        };
        assert_eq!(useless(&|frame| frame[ETHERNET] = 0x45), Useless::Malformed);
        assert_eq!(useless(&|frame| frame[ETHERNET + 4] = 1), Useless::Malformed);
        assert_eq!(useless(&|frame| frame.truncate(ETHERNET + 39)), Useless::Malformed);
        assert_eq!(useless(&|frame| frame[ETHERNET + 5] = 7), Useless::Malformed);
        assert_eq!(useless(&|frame| frame[ETHERNET + IPV6 + 5] = 99), Useless::Malformed);
        assert_eq!(useless(&|frame| frame[ETHERNET + 6] = 44), Useless::Fragment);
        // Hop-by-hop options.
        assert_eq!(useless(&|frame| frame[ETHERNET + 6] = 0), Useless::OtherProtocol);
        assert_eq!(useless(&|frame| frame[ETHERNET + 6] = 58), Useless::BadChecksum);
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
}
