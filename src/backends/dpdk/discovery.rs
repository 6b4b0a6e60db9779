//! Requests for neighbours' Ethernet addresses and the answers to them, as bytes: ARP (RFC 826) and neighbour discovery
//! (RFC 4861).
//!
//! Of neighbour discovery, this is what hosts on one link need: solicitations and advertisements. There are no routers
//! here. Addresses are configured, not generated, so there is no duplicate address detection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ethernet::{
    BROADCAST, ETHERNET, ETHERTYPE_ARP, ETHERTYPE_IPV6, GROUP_IPV6, Host, IPV6, Mac, NEXT_ICMPV6, Useless, complement,
    sum,
};

/// Bytes of an ARP packet.
const ARP: usize = 28;
/// The fixed fields of ARP: hardware Ethernet, protocol IPv4, and the sizes of their addresses.
const IPV4_OVER_ETHERNET: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: [u8; 2] = [0, 1];
const ARP_REPLY: [u8; 2] = [0, 2];

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Bytes of a solicitation or an advertisement before the options.
const DISCOVERY: usize = 24;
/// Bytes of the option that holds an Ethernet address.
const OPTION: usize = 8;
const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;
const FLAG_SOLICITED: u8 = 0x40;
const FLAG_OVERRIDE: u8 = 0x20;
/// The hop limit of a packet that has passed no router (RFC 4861, 3.1).
const HOP_LIMIT: u8 = 255;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A request for a neighbour's address, or an announcement of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// The sender asks for the address of `target`.
    pub(super) is_request: bool,
    /// The sender's IP address. Unspecified: the sender is a host that has no address yet.
    pub(super) sender: IpAddr,
    /// The sender's Ethernet address, if the notice contains it.
    pub(super) sender_mac: Option<Mac>,
    pub(super) target: IpAddr,
}

pub(super) fn parse_arp(packet: &[u8]) -> Result<Notice, Useless> {
    if packet.len() < ARP || packet[..6] != IPV4_OVER_ETHERNET {
        return Err(Useless::Malformed);
    }
    let is_request = match [packet[6], packet[7]] {
        ARP_REQUEST => true,
        ARP_REPLY => false,
        _ => return Err(Useless::Malformed),
    };
    let ip = |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]).into();
    let mac: Mac = packet[8..14].try_into().expect("six bytes");
    Ok(Notice {
        is_request,
        sender: ip(14),
        sender_mac: unicast(mac),
        target: ip(24),
    })
}

/// Refuses group addresses, which belong to no single host.
fn unicast(mac: Mac) -> Option<Mac> {
    (mac[0] & 1 == 0).then_some(mac)
}

/// Performs the checks of RFC 4861, 7.1. `header`: 40 bytes of IPv6.
pub(super) fn parse_icmpv6(header: &[u8], body: &[u8]) -> Result<Notice, Useless> {
    let ip = |bytes: &[u8]| Ipv6Addr::from(<[u8; 16]>::try_from(bytes).expect("16 bytes"));
    let (source, destination) = (ip(&header[8..24]), ip(&header[24..40]));
    if body.len() < 4 {
        return Err(Useless::Malformed);
    }
    if icmpv6_checksum(source, destination, body) != [0, 0] {
        return Err(Useless::BadChecksum);
    }
    let is_request = match body[0] {
        SOLICITATION => true,
        ADVERTISEMENT => false,
        _ => return Err(Useless::OtherProtocol),
    };
    if header[7] != HOP_LIMIT || body[1] != 0 || body.len() < DISCOVERY {
        return Err(Useless::Malformed);
    }
    let target = ip(&body[8..24]);
    let wanted = if is_request { OPTION_SOURCE } else { OPTION_TARGET };
    let mac = option(&body[DISCOVERY..], wanted)?;
    // A group address cannot be a source (RFC 4291, 2.7).
    let is_wrong = target.is_multicast()
        || source.is_multicast()
        || (!is_request && destination.is_multicast() && body[4] & FLAG_SOLICITED != 0)
        || (is_request && source.is_unspecified() && (mac.is_some() || destination != solicited_node(target)));
    if is_wrong {
        return Err(Useless::Malformed);
    }
    let (sender, target) = if is_request {
        (source, target)
    } else {
        (target, destination)
    };
    Ok(Notice {
        is_request,
        sender: sender.into(),
        sender_mac: mac.and_then(unicast),
        target: target.into(),
    })
}

/// The Ethernet address in the option of kind `wanted`.
fn option(mut options: &[u8], wanted: u8) -> Result<Option<Mac>, Useless> {
    let mut found = None;
    while let [kind, eighths, ..] = *options {
        let len = usize::from(eighths) * 8;
        if len == 0 || len > options.len() {
            return Err(Useless::Malformed);
        }
        if kind == wanted && len == OPTION {
            found = options[2..8].try_into().ok();
        }
        options = &options[len..];
    }
    if options.is_empty() {
        Ok(found)
    } else {
        Err(Useless::Malformed)
    }
}

/// The solicited-node group of `ip` (RFC 4291, 2.7.1).
fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = ip.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]))
}

/// The Ethernet address of a group.
fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    [GROUP_IPV6[0], GROUP_IPV6[1], a, b, c, d]
}

fn icmpv6_checksum(source: Ipv6Addr, destination: Ipv6Addr, body: &[u8]) -> [u8; 2] {
    let len = (body.len() as u32).to_be_bytes();
    let pseudo = sum(&source.octets()) + sum(&destination.octets()) + sum(&len) + sum(&[0, NEXT_ICMPV6]);
    complement(pseudo + sum(body))
}

/// A frame that requests the address of `target` from all hosts that may have it.
pub(super) fn ask(host: &Host, target: IpAddr) -> Vec<u8> {
    match (host.addr.ip(), target) {
        (IpAddr::V4(ip), IpAddr::V4(target)) => arp(host.mac, ip, ARP_REQUEST, BROADCAST, [0; 6], target),
        (ip, target) => {
            let target = v6(target);
            let group = solicited_node(target);
            discovery(host.mac, v6(ip), (group_mac(group), group), SOLICITATION, 0, target)
        }
    }
}

/// A frame that tells the sender of the request `asked` that `ip` is at `mac`. `None`: no host should receive an
/// answer.
pub(super) fn answer(mac: Mac, ip: IpAddr, asked: &Notice, from: Mac) -> Option<Vec<u8>> {
    let to = asked.sender_mac.or_else(|| unicast(from));
    match (ip, asked.sender) {
        (IpAddr::V4(ip), IpAddr::V4(sender)) => to.map(|to| arp(mac, ip, ARP_REPLY, to, to, sender)),
        (IpAddr::V6(ip), IpAddr::V6(sender)) if sender.is_unspecified() => Some(announcement(mac, ip)),
        (IpAddr::V6(ip), IpAddr::V6(sender)) => {
            let flags = FLAG_SOLICITED | FLAG_OVERRIDE;
            to.map(|to| discovery(mac, ip, (to, sender), ADVERTISEMENT, flags, ip))
        }
        _ => None,
    }
}

/// A frame that announces `host` to all hosts (RFC 5227; RFC 4861, 7.2.6).
pub(super) fn announce(host: &Host) -> Vec<u8> {
    match host.addr.ip() {
        IpAddr::V4(ip) => arp(host.mac, ip, ARP_REQUEST, BROADCAST, [0; 6], ip),
        IpAddr::V6(ip) => announcement(host.mac, ip),
    }
}

fn announcement(mac: Mac, ip: Ipv6Addr) -> Vec<u8> {
    discovery(
        mac,
        ip,
        (group_mac(ALL_NODES), ALL_NODES),
        ADVERTISEMENT,
        FLAG_OVERRIDE,
        ip,
    )
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

fn arp(mac: Mac, ip: Ipv4Addr, operation: [u8; 2], to: Mac, target_mac: Mac, target: Ipv4Addr) -> Vec<u8> {
    let parts: [&[u8]; 9] = [
        &to,
        &mac,
        &ETHERTYPE_ARP,
        &IPV4_OVER_ETHERNET,
        &operation,
        &mac,
        &ip.octets(),
        &target_mac,
        &target.octets(),
    ];
    parts.concat()
}

/// A solicitation (with the sender's Ethernet address) or an advertisement (with the Ethernet address of `target`,
/// which is the sender's).
fn discovery(mac: Mac, ip: Ipv6Addr, to: (Mac, Ipv6Addr), kind: u8, flags: u8, target: Ipv6Addr) -> Vec<u8> {
    let option = if kind == SOLICITATION {
        OPTION_SOURCE
    } else {
        OPTION_TARGET
    };
    let len = (DISCOVERY + OPTION) as u16;
    let parts: [&[u8]; 12] = [
        &to.0,
        &mac,
        &ETHERTYPE_IPV6,
        &[0x60, 0, 0, 0],
        &len.to_be_bytes(),
        &[NEXT_ICMPV6, HOP_LIMIT],
        &ip.octets(),
        &to.1.octets(),
        &[kind, 0, 0, 0, flags, 0, 0, 0],
        &target.octets(),
        &[option, 1],
        &mac,
    ];
    let mut frame = parts.concat();
    let checksum = icmpv6_checksum(ip, to.1, &frame[ETHERNET + IPV6..]);
    frame[ETHERNET + IPV6 + 2..ETHERNET + IPV6 + 4].copy_from_slice(&checksum);
    frame
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use etherparse::{NetSlice, SlicedPacket, TransportSlice};

    use super::*;
    use crate::backends::dpdk::frame::{Frame, parse};

    fn host(number: u8, ip: &str) -> Host {
        Host {
            mac: [2, 0, 0, 0, 0, number],
            addr: SocketAddr::new(ip.parse().unwrap(), 4000),
        }
    }

    fn notice(frame: &[u8], at: &Host) -> Notice {
        match parse(frame, &at.mac) {
            Ok(Frame::Notice(notice)) => notice,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn asked_and_answered() {
        for ips in [["10.77.0.1", "10.77.0.2"], ["fd77::1", "fd77:1:2:3:4:5:6789:abcd"]] {
            let [a, b] = [host(1, ips[0]), host(2, ips[1])];
            let asked = ask(&a, b.addr.ip());
            let question = notice(&asked, &b);
            let expected = Notice {
                is_request: true,
                sender: a.addr.ip(),
                sender_mac: Some(a.mac),
                target: b.addr.ip(),
            };
            assert_eq!(question, expected);
            let told = answer(b.mac, b.addr.ip(), &question, a.mac).unwrap();
            assert_eq!(told[..6], a.mac);
            let told = notice(&told, &a);
            assert!(!told.is_request);
            assert_eq!((told.sender, told.sender_mac), (b.addr.ip(), Some(b.mac)));
            let announced = notice(&announce(&b), &a);
            assert_eq!((announced.sender, announced.sender_mac), (b.addr.ip(), Some(b.mac)));
        }
    }

    /// The group's address is the example of RFC 4291; RFC 2464 has the rule for its Ethernet address.
    #[test]
    fn questions_go_to_the_group_of_the_target() {
        let target: Ipv6Addr = "4037::1:800:200e:8c6c".parse().unwrap();
        assert_eq!(solicited_node(target), "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
        let asked = ask(&host(1, "fd77::1"), target.into());
        assert_eq!(asked[..6], [0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c]);
        let sliced = SlicedPacket::from_ethernet(&asked).unwrap();
        let Some(NetSlice::Ipv6(ip)) = &sliced.net else {
            panic!("{sliced:?}")
        };
        assert_eq!(ip.header().hop_limit(), 255);
        let Some(TransportSlice::Icmpv6(icmp)) = &sliced.transport else {
            panic!("{sliced:?}")
        };
        let header = ip.header();
        assert!(icmp.is_checksum_valid(header.source(), header.destination()));
    }

    #[test]
    fn who_has_no_address_yet_is_answered_by_telling_everybody() {
        let b = host(2, "fd77::2");
        let IpAddr::V6(ip) = b.addr.ip() else { panic!() };
        let group = solicited_node(ip);
        let mut probe = discovery(
            [2; 6],
            Ipv6Addr::UNSPECIFIED,
            (group_mac(group), group),
            SOLICITATION,
            0,
            ip,
        );
        // A sender without an address must not include its Ethernet address.
        assert_eq!(parse(&probe, &b.mac), Err(Useless::Malformed));
        probe.truncate(probe.len() - OPTION);
        probe[ETHERNET + 5] = DISCOVERY as u8;
        sign(&mut probe);
        let question = notice(&probe, &b);
        assert_eq!(question.sender_mac, None);
        let told = answer(b.mac, ip.into(), &question, [2; 6]).unwrap();
        assert_eq!(told[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(notice(&told, &host(3, "fd77::3")).sender, b.addr.ip());
        // An ARP request from a group's Ethernet address gets no answer.
        let asked = ask(&host(1, "10.0.0.1"), Ipv4Addr::new(10, 0, 0, 2).into());
        let mut question = notice(&asked, &b);
        question.sender_mac = None;
        assert_eq!(
            answer(b.mac, Ipv4Addr::new(10, 0, 0, 2).into(), &question, BROADCAST),
            None
        );
    }

    #[test]
    fn nobody_is_answered_who_says_that_he_is_a_group() {
        let b = host(2, "fd77::2");
        let IpAddr::V6(ip) = b.addr.ip() else { panic!() };
        let group = solicited_node(ip);
        for (source, is_wrong) in [("ff77::9", true), ("fd77::9", false)] {
            let source = source.parse().unwrap();
            let asked = discovery([2; 6], source, (group_mac(group), group), SOLICITATION, 0, ip);
            assert_eq!(parse(&asked, &b.mac) == Err(Useless::Malformed), is_wrong, "{source}");
        }
    }

    /// Corrects the checksum.
    fn sign(frame: &mut [u8]) {
        let at = ETHERNET + IPV6 + 2;
        frame[at..at + 2].fill(0);
        let ip = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&frame[at..at + 16]).unwrap());
        let (source, destination) = (ip(ETHERNET + 8), ip(ETHERNET + 24));
        let checksum = icmpv6_checksum(source, destination, &frame[ETHERNET + IPV6..]);
        frame[at..at + 2].copy_from_slice(&checksum);
    }

    #[test]
    fn discovery_that_the_rules_forbid() {
        let (a, b) = (host(1, "fd77::1"), host(2, "fd77::2"));
        let changed = |frame: &[u8], at: usize, value: u8| {
            let mut frame = frame.to_vec();
            frame[at] = value;
            let unsigned = parse(&frame, &b.mac);
            sign(&mut frame);
            (unsigned.err(), parse(&frame, &b.mac).err())
        };
        let asked = ask(&a, b.addr.ip());
        let body = ETHERNET + IPV6;
        let damaged = Some(Useless::BadChecksum);
        let malformed = Some(Useless::Malformed);
        assert_eq!(changed(&asked, ETHERNET + 7, 64), (malformed, malformed));
        assert_eq!(changed(&asked, body, 128), (damaged, Some(Useless::OtherProtocol)));
        assert_eq!(changed(&asked, body + 1, 1), (damaged, malformed));
        // The target is a group.
        assert_eq!(changed(&asked, body + 8, 0xff), (damaged, malformed));
        // Options of length zero, and options that reach beyond the end.
        assert_eq!(changed(&asked, body + DISCOVERY + 1, 0), (damaged, malformed));
        assert_eq!(changed(&asked, body + DISCOVERY + 1, 2), (damaged, malformed));
        // A solicited advertisement must not go to a group.
        assert_eq!(changed(&announce(&a), body + 4, FLAG_SOLICITED), (damaged, malformed));
        for len in 0..asked.len() {
            assert!(parse(&asked[..len], &b.mac).is_err(), "{len}");
        }
        // An option of another kind does not give the sender's address.
        let mut other = asked;
        other[body + DISCOVERY] = 200;
        sign(&mut other);
        assert_eq!(notice(&other, &b).sender_mac, None);
    }

    #[test]
    fn arp_that_is_not_understood() {
        let (a, b) = (host(1, "10.77.0.1"), host(2, "10.77.0.2"));
        let asked = ask(&a, b.addr.ip());
        for (at, value) in [(ETHERNET + 5, 16), (ETHERNET + 7, 3), (ETHERNET + 1, 2)] {
            let mut wrong = asked.clone();
            wrong[at] = value;
            assert_eq!(parse(&wrong, &b.mac), Err(Useless::Malformed));
        }
        assert_eq!(parse(&asked[..30], &b.mac), Err(Useless::Malformed));
        let mut group = asked;
        group[ETHERNET + 8] |= 1;
        assert_eq!(notice(&group, &b).sender_mac, None);
    }
}
