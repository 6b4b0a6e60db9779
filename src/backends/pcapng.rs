//! Writes pcapng files that Wireshark reads: UDP datagrams, with made-up IP headers.
//!
//! The format: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>. One section, interfaces of
//! raw IP packets, one for each port of a backend, nanosecond timestamps; all in little-endian order.

use std::{
    io::{self, Write},
    net::{IpAddr, SocketAddr},
};

use crate::time::Instant;

/// Raw IP packets: the first nibble tells the version.
const LINKTYPE_RAW: u16 = 101;
const UDP: u8 = 17;
/// Largest UDP payload: what IPv4's 16-bit length leaves.
const LARGEST: usize = 65_507;

/// Writes a capture, packet by packet, with no memory beyond one packet's.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    /// The packet under construction, kept for its memory.
    block: Vec<u8>,
    /// Nanoseconds from 1970 to the origin of the instants.
    epoch: u64,
    /// Number of interfaces.
    interfaces: u32,
}

impl<W: Write> Writer<W> {
    /// Starts a capture: writes the headers. Buffer `to` if it is a file.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn new(to: W) -> io::Result<Self> {
        let mut this = Self {
            to,
            block: Vec::new(),
            epoch: 0,
            interfaces: 0,
        };
        this.start_block(0x0a0d_0d0a);
        this.block.extend(0x1a2b_3c4d_u32.to_le_bytes());
        this.block.extend(1_u16.to_le_bytes());
        this.block.extend(0_u16.to_le_bytes());
        this.block.extend((-1_i64).to_le_bytes()); // length of the section: not known
        this.option(4, concat!("hikyaku ", env!("CARGO_PKG_VERSION")).as_bytes()); // shb_userappl
        this.end_options();
        this.finish_block()?;

        this.add_interface("hikyaku")?;
        Ok(this)
    }

    /// Adds an interface, under the next number; the one that exists from the start has number 0.
    ///
    /// # Errors
    /// Those of the writer below.
    ///
    /// # Panics
    /// If `name` has more than 65,535 bytes.
    pub fn add_interface(&mut self, name: &str) -> io::Result<()> {
        assert!(name.len() <= usize::from(u16::MAX), "an option has 16 bits of length");
        self.start_block(1);
        self.block.extend(LINKTYPE_RAW.to_le_bytes());
        self.block.extend(0_u16.to_le_bytes());
        self.block.extend(0_u32.to_le_bytes()); // no limit of the captured length
        self.option(2, name.as_bytes()); // if_name
        self.option(9, &[9]); // if_tsresol: 10^-9 s
        self.end_options();
        self.finish_block()?;
        self.interfaces += 1;
        Ok(())
    }

    /// From now on, instants count from `nanos` ns after 1970 instead of from 1970 itself.
    pub fn set_epoch(&mut self, nanos: u64) {
        self.epoch = nanos;
    }

    /// Writes one datagram of interface 0: see [`datagram_on`](Self::datagram_on).
    ///
    /// # Errors
    /// See there.
    pub fn datagram(
        &mut self,
        now: Instant,
        source: SocketAddr,
        destination: SocketAddr,
        data: &[u8],
        comment: Option<&str>,
    ) -> io::Result<()> {
        self.datagram_on(0, now, source, destination, data, comment)
    }

    /// Writes one datagram that was seen on the interface of this number, with `comment` shown beside it. Uses IPv4 if
    /// both addresses are IPv4, else IPv6 (with IPv4 addresses mapped).
    ///
    /// # Errors
    /// Those of the writer below; [`io::ErrorKind::InvalidInput`] for more than 65,507 bytes, for a comment of more
    /// than 65,535, or if there is no such interface.
    pub fn datagram_on(
        &mut self,
        interface: u32,
        now: Instant,
        source: SocketAddr,
        destination: SocketAddr,
        data: &[u8],
        comment: Option<&str>,
    ) -> io::Result<()> {
        if interface >= self.interfaces {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if data.len() > LARGEST || comment.is_some_and(|comment| comment.len() > usize::from(u16::MAX)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let time = self.epoch.saturating_add(now.as_nanos());
        self.start_block(6);
        self.block.extend(interface.to_le_bytes());
        self.block.extend(((time >> 32) as u32).to_le_bytes());
        self.block.extend((time as u32).to_le_bytes());
        let lengths_at = self.block.len();
        self.block.extend([0; 8]);
        let packet_at = self.block.len();
        packet(&mut self.block, source, destination, data);
        let len = (self.block.len() - packet_at) as u32;
        self.block[lengths_at..lengths_at + 4].copy_from_slice(&len.to_le_bytes());
        self.block[lengths_at + 4..packet_at].copy_from_slice(&len.to_le_bytes());
        self.pad();
        if let Some(comment) = comment {
            self.option(1, comment.as_bytes()); // opt_comment
            self.end_options();
        }
        self.finish_block()
    }

    /// Flushes the writer below.
    ///
    /// # Errors
    /// Those of the writer below.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// The writer below.
    #[must_use]
    pub fn into_inner(self) -> W {
        self.to
    }

    fn start_block(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend(kind.to_le_bytes());
        self.block.extend([0; 4]); // the length, when it is known
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.block.extend(code.to_le_bytes());
        self.block.extend((value.len() as u16).to_le_bytes());
        self.block.extend(value);
        self.pad();
    }

    fn end_options(&mut self) {
        self.block.extend([0; 4]);
    }

    /// Everything starts at a multiple of four bytes.
    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn finish_block(&mut self) -> io::Result<()> {
        let len = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&len);
        self.block.extend(len);
        self.to.write_all(&self.block)
    }
}

/// Appends an IP packet that carries a UDP datagram.
fn packet(to: &mut Vec<u8>, source: SocketAddr, destination: SocketAddr, data: &[u8]) {
    let udp_len = (8 + data.len()) as u16;
    let mut sum = Sum::default();
    let ip_at = to.len();
    if let (IpAddr::V4(from), IpAddr::V4(dest)) = (source.ip(), destination.ip()) {
        to.extend([0x45, 0]);
        to.extend((20 + udp_len).to_be_bytes());
        to.extend([0, 0, 0x40, 0, 64, UDP, 0, 0]); // do not fragment, 64 hops, checksum below
        to.extend(from.octets());
        to.extend(dest.octets());
        let mut header = Sum::default();
        header.add(&to[ip_at..]);
        let header = header.finish().to_be_bytes();
        to[ip_at + 10..ip_at + 12].copy_from_slice(&header);
        sum.add(&to[ip_at + 12..]);
    } else {
        let v6 = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        to.extend([0x60, 0, 0, 0]);
        to.extend(udp_len.to_be_bytes());
        to.extend([UDP, 64]);
        to.extend(v6(source.ip()).octets());
        to.extend(v6(destination.ip()).octets());
        sum.add(&to[ip_at + 8..]);
    }
    sum.add(&[0, UDP]);
    sum.add(&udp_len.to_be_bytes());
    let udp_at = to.len();
    to.extend(source.port().to_be_bytes());
    to.extend(destination.port().to_be_bytes());
    to.extend(udp_len.to_be_bytes());
    to.extend([0, 0]);
    to.extend(data);
    sum.add(&to[udp_at..]);
    // Zero would mean "no checksum".
    let sum = match sum.finish() {
        0 => 0xffff,
        sum => sum,
    };
    to[udp_at + 6..udp_at + 8].copy_from_slice(&sum.to_be_bytes());
}

/// The Internet checksum (RFC 1071).
#[derive(Default)]
struct Sum(u64);

impl Sum {
    /// Adds bytes; an odd number of them only at the end.
    fn add(&mut self, data: &[u8]) {
        let (pairs, rest) = data.as_chunks::<2>();
        self.0 += pairs
            .iter()
            .map(|&pair| u64::from(u16::from_be_bytes(pair)))
            .sum::<u64>();
        self.0 += rest.first().map_or(0, |&last| u64::from(last) << 8);
    }

    fn finish(&self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A packet read back.
    #[derive(Debug, PartialEq)]
    pub(crate) struct Packet {
        pub(crate) nanos: u64,
        pub(crate) source: SocketAddr,
        pub(crate) destination: SocketAddr,
        pub(crate) data: Vec<u8>,
        pub(crate) comment: Option<String>,
        pub(crate) interface: usize,
    }

    fn u16_at(data: &[u8], at: usize) -> usize {
        u16::from_le_bytes(data[at..at + 2].try_into().unwrap()).into()
    }

    fn u32_at(data: &[u8], at: usize) -> usize {
        u32::from_le_bytes(data[at..at + 4].try_into().unwrap()) as usize
    }

    fn options(mut data: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let mut found = Vec::new();
        while !data.is_empty() {
            let (code, len) = (u16_at(data, 0), u16_at(data, 2));
            if code == 0 {
                assert_eq!((len, data.len()), (0, 4));
                break;
            }
            found.push((code, data[4..4 + len].to_vec()));
            data = &data[4 + len.next_multiple_of(4)..];
        }
        found
    }

    /// Bytes whose sum with their checksum must be all ones.
    fn checks(parts: &[&[u8]]) -> bool {
        let mut sum = Sum::default();
        parts.iter().for_each(|part| sum.add(part));
        sum.finish() == 0
    }

    fn parse_packet(ip: &[u8]) -> (SocketAddr, SocketAddr, Vec<u8>) {
        let be = |at: usize| usize::from(u16::from_be_bytes(ip[at..at + 2].try_into().unwrap()));
        let (addresses, udp) = match ip[0] {
            0x45 => {
                assert_eq!((be(2), ip[9]), (ip.len(), UDP));
                assert!(checks(&[&ip[..20]]), "IPv4 header checksum");
                (&ip[12..20], &ip[20..])
            }
            0x60 => {
                assert_eq!((be(4) + 40, ip[6]), (ip.len(), UDP));
                (&ip[8..40], &ip[40..])
            }
            other => panic!("first byte {other:#x}"),
        };
        let len = (udp.len() as u16).to_be_bytes();
        assert_eq!(udp[4..6], len);
        assert_ne!(udp[6..8], [0, 0]);
        assert!(checks(&[addresses, &[0, UDP], &len, udp]), "UDP checksum");
        let half = addresses.len() / 2;
        let address = |bytes: &[u8], port: &[u8]| {
            let ip = match bytes.len() {
                4 => IpAddr::from(<[u8; 4]>::try_from(bytes).unwrap()),
                _ => IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap()),
            };
            SocketAddr::new(ip, u16::from_be_bytes(port.try_into().unwrap()))
        };
        (
            address(&addresses[..half], &udp[..2]),
            address(&addresses[half..], &udp[2..4]),
            udp[8..].to_vec(),
        )
    }

    /// Reads a whole file back, checking everything on the way.
    pub(crate) fn parse(mut file: &[u8]) -> Vec<Packet> {
        let mut packets = Vec::new();
        let mut kinds = Vec::new();
        while !file.is_empty() {
            let (kind, len) = (u32_at(file, 0), u32_at(file, 4));
            assert_eq!((len % 4, u32_at(file, len - 4)), (0, len));
            let body = &file[8..len - 4];
            match kind {
                0x0a0d_0d0a => {
                    assert_eq!((u32_at(body, 0), u16_at(body, 4), u16_at(body, 6)), (0x1a2b_3c4d, 1, 0));
                    assert_eq!(options(&body[16..])[0].0, 4);
                }
                1 => {
                    assert_eq!(u16_at(body, 0), usize::from(LINKTYPE_RAW));
                    assert!(options(&body[8..]).contains(&(9, vec![9])));
                }
                6 => {
                    let captured = u32_at(body, 12);
                    let interface = u32_at(body, 0);
                    assert!(interface < kinds.iter().filter(|&&kind| kind == 1).count());
                    assert_eq!(u32_at(body, 16), captured);
                    let (source, destination, data) = parse_packet(&body[20..20 + captured]);
                    let comment = options(&body[20 + captured.next_multiple_of(4)..])
                        .into_iter()
                        .find_map(|(code, text)| (code == 1).then(|| String::from_utf8(text).unwrap()));
                    let nanos = (u32_at(body, 4) as u64) << 32 | u32_at(body, 8) as u64;
                    packets.push(Packet {
                        nanos,
                        source,
                        destination,
                        data,
                        comment,
                        interface,
                    });
                }
                other => panic!("block type {other:#x}"),
            }
            kinds.push(kind);
            file = &file[len..];
        }
        assert_eq!(kinds[..2], [0x0a0d_0d0a, 1]);
        packets
    }

    #[test]
    fn packets_round_trip() {
        let mut expected = Vec::new();
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.set_epoch(1_800_000_000_000_000_000);
        for name in ["port 1", "port 2"] {
            writer.add_interface(name).unwrap();
        }
        let pairs = [("127.0.0.1:1", "10.1.2.3:65535"), ("[::1]:4791", "[fd00::ff]:9")];
        for (source, destination) in pairs {
            for (at, len) in [0, 1, 2, 3, 4, 1471, 65_507].into_iter().enumerate() {
                let packet = Packet {
                    nanos: 1_800_000_000_000_000_000 + at as u64,
                    source: source.parse().unwrap(),
                    destination: destination.parse().unwrap(),
                    data: (0..len).map(|at: usize| (at * 7) as u8).collect(),
                    comment: (at % 2 == 1).then(|| "x".repeat(at)),
                    interface: at % 3,
                };
                let Packet {
                    source,
                    destination,
                    data,
                    comment,
                    interface,
                    ..
                } = &packet;
                let (now, interface) = (Instant::from_nanos(at as u64), *interface as u32);
                writer
                    .datagram_on(interface, now, *source, *destination, data, comment.as_deref())
                    .unwrap();
                expected.push(packet);
            }
        }
        assert!(parse(&writer.into_inner()) == expected);
    }

    #[test]
    fn mixed_families_are_mapped() {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let (v4, v6) = ("1.2.3.4:5".parse().unwrap(), "[::1]:6".parse().unwrap());
        writer.datagram(Instant::ZERO, v4, v6, b"x", None).unwrap();
        assert_eq!(
            parse(&writer.into_inner())[0].source,
            "[::ffff:1.2.3.4]:5".parse().unwrap()
        );
    }

    #[test]
    fn a_checksum_of_zero_is_written_as_ones() {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let addr = "0.0.0.0:0".parse().unwrap();
        // Choose the payload so that everything adds up to all ones.
        let rest: u16 = 0xffff - u16::from(UDP) - 2 * 10;
        writer
            .datagram(Instant::ZERO, addr, addr, &rest.to_be_bytes(), None)
            .unwrap();
        let file = writer.into_inner();
        assert_eq!(file[file.len() - 10..file.len() - 8], [0xff, 0xff]);
        assert_eq!(parse(&file).len(), 1);
    }

    #[test]
    fn the_first_packet_byte_by_byte() {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let before = writer.to.len();
        let (source, destination) = ("192.0.2.1:4791".parse().unwrap(), "192.0.2.2:4792".parse().unwrap());
        writer
            .datagram(
                Instant::from_nanos(0x1_0000_0002),
                source,
                destination,
                b"abc",
                Some("hi"),
            )
            .unwrap();
        #[rustfmt::skip]
        let expected = [
            6, 0, 0, 0, 76, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 31, 0, 0, 0, 31, 0, 0, 0,
            0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 17, 0xb6, 0xca, 192, 0, 2, 1, 192, 0, 2, 2,
            0x12, 0xb7, 0x12, 0xb8, 0, 11, 0x92, 0x02, b'a', b'b', b'c', 0,
            1, 0, 2, 0, b'h', b'i', 0, 0, 0, 0, 0, 0, 76, 0, 0, 0,
        ];
        assert_eq!(writer.to[before..], expected);
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let addr = "1.2.3.4:5".parse().unwrap();
        let error = writer
            .datagram(Instant::ZERO, addr, addr, &[0; 65_508], None)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let error = writer
            .datagram_on(1, Instant::ZERO, addr, addr, b"on no interface", None)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(parse(&writer.into_inner()).is_empty());
    }
}
