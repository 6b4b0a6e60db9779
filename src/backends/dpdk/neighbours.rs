//! Who has which Ethernet address, as far as it is known: what ARP does, without a device.

use std::{collections::BTreeMap, net::Ipv4Addr};

use super::frame::{Arp, Host, Mac, Template};
use crate::time::Instant;

/// An answer is believed for so long without another look, ns.
const FRESH: u64 = 10_000_000_000;
/// An answer is believed for so long although nobody answers any more, ns.
const STALE: u64 = 20_000_000_000;
/// Between two questions about the same address, ns.
const AGAIN: u64 = 50_000_000;
/// Between two questions about an address that has been answered before, ns.
const REFRESH: u64 = 1_000_000_000;
/// Most addresses that are remembered.
const MOST: usize = 65_536;

/// A neighbour.
#[derive(Debug)]
struct Neighbour {
    /// Headers to it, once it has answered, and when it last has.
    known: Option<(Template, Mac, Instant)>,
    asked: Option<Instant>,
}

/// The way to a neighbour.
pub(super) struct Route<'a> {
    /// Headers of datagrams to it; `None` as long as it has not answered.
    pub(super) template: Option<&'a Template>,
    /// It should be asked now.
    pub(super) ask: bool,
}

/// What an ARP packet asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// The sender wants to know our address.
    pub(super) answer: bool,
    /// The sender's address is known from now on, and was not before.
    pub(super) resolved: Option<Ipv4Addr>,
}

/// All neighbours. Only those that somebody here sends to are remembered, so that strangers fill nothing.
#[derive(Debug)]
pub(super) struct Neighbours {
    host: Host,
    all: BTreeMap<Ipv4Addr, Neighbour>,
}

impl Neighbours {
    pub(super) fn new(host: Host) -> Self {
        Self {
            host,
            all: BTreeMap::new(),
        }
    }

    /// The way to `ip`, which is noted down if it is new.
    #[inline]
    pub(super) fn route(&mut self, now: Instant, ip: Ipv4Addr) -> Route<'_> {
        if self.all.len() >= MOST && !self.all.contains_key(&ip) {
            self.all.retain(|_, neighbour| neighbour.known.is_some());
            if self.all.len() >= MOST {
                self.all.clear();
            }
        }
        let neighbour = self.all.entry(ip).or_insert(Neighbour {
            known: None,
            asked: None,
        });
        let since = |at: Instant| now.saturating_since(at).as_nanos() as u64;
        let age = neighbour.known.as_ref().map(|(.., heard)| since(*heard));
        if age.is_some_and(|age| age >= STALE) {
            neighbour.known = None;
        }
        let interval = match age {
            Some(age) if age < FRESH => u64::MAX,
            Some(age) if age < STALE => REFRESH,
            _ => AGAIN,
        };
        let ask = interval != u64::MAX && neighbour.asked.is_none_or(|at| since(at) >= interval);
        if ask {
            neighbour.asked = Some(now);
        }
        Route {
            template: neighbour.known.as_ref().map(|(template, ..)| template),
            ask,
        }
    }

    /// Takes what an ARP packet says.
    pub(super) fn hear(&mut self, now: Instant, arp: &Arp) -> Heard {
        let ours = *self.host.addr.ip();
        let mut heard = Heard {
            answer: arp.is_request && arp.target == ours && arp.sender != ours,
            resolved: None,
        };
        // A group is nobody's address, and nobody else has ours.
        let is_unicast = arp.sender_mac[0] & 1 == 0;
        if let Some(neighbour) = self.all.get_mut(&arp.sender)
            && is_unicast
            && arp.sender != ours
        {
            heard.resolved = neighbour.known.is_none().then_some(arp.sender);
            match &mut neighbour.known {
                Some((_, mac, at)) if *mac == arp.sender_mac => *at = now,
                known => {
                    let template = Template::new(&self.host, arp.sender_mac, arp.sender);
                    *known = Some((template, arp.sender_mac, now));
                }
            }
        }
        heard
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const US: Host = Host {
        mac: [2, 0, 0, 0, 0, 1],
        addr: std::net::SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 9),
    };
    const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn told(mac: Mac) -> Arp {
        Arp {
            is_request: false,
            sender_mac: mac,
            sender: IP,
            target: *US.addr.ip(),
        }
    }

    fn known(neighbours: &mut Neighbours, ms: u64) -> (bool, bool) {
        let route = neighbours.route(at(ms), IP);
        (route.template.is_some(), route.ask)
    }

    #[test]
    fn asked_at_a_measured_pace_and_forgotten_when_nobody_answers() {
        let mut neighbours = Neighbours::new(US);
        assert_eq!(known(&mut neighbours, 0), (false, true));
        assert_eq!(known(&mut neighbours, 1), (false, false));
        assert_eq!(known(&mut neighbours, 50), (false, true));
        let heard = neighbours.hear(at(60), &told([2; 6]));
        assert_eq!((heard.answer, heard.resolved), (false, Some(IP)));
        assert_eq!(known(&mut neighbours, 61), (true, false));
        assert_eq!(known(&mut neighbours, 10_060), (true, true));
        assert_eq!(known(&mut neighbours, 10_061), (true, false));
        assert_eq!(neighbours.hear(at(10_070), &told([2; 6])).resolved, None);
        assert_eq!(known(&mut neighbours, 12_000), (true, false));
        assert_eq!(known(&mut neighbours, 30_069), (true, true));
        assert_eq!(known(&mut neighbours, 30_070), (false, false));
        let later = at(30_070).saturating_since(Instant::ZERO) + Duration::from_millis(50);
        assert_eq!(known(&mut neighbours, later.as_millis() as u64), (false, true));
    }

    #[test]
    fn a_neighbour_that_comes_back_with_another_card() {
        let mut neighbours = Neighbours::new(US);
        let _ = neighbours.route(at(0), IP);
        neighbours.hear(at(1), &told([2; 6]));
        // It announces itself.
        let announcement = Arp {
            is_request: true,
            target: IP,
            ..told([4; 6])
        };
        assert!(!neighbours.hear(at(2), &announcement).answer);
        let mut frame = [0; 60];
        let template = neighbours.route(at(3), IP).template.unwrap();
        template.write(&mut frame, 1, 1, super::super::frame::UdpChecksum::Absent);
        assert_eq!(frame[..6], [4; 6]);
    }

    #[test]
    fn strangers_and_impostors_are_not_remembered() {
        let mut neighbours = Neighbours::new(US);
        let request = Arp {
            is_request: true,
            ..told([2; 6])
        };
        assert!(neighbours.hear(at(0), &request).answer);
        assert!(neighbours.all.is_empty());
        let impostor = Arp {
            sender: *US.addr.ip(),
            ..request
        };
        assert!(!neighbours.hear(at(0), &impostor).answer);
        let _ = neighbours.route(at(0), IP);
        assert_eq!(neighbours.hear(at(0), &told([0xff; 6])).resolved, None);
        assert_eq!(known(&mut neighbours, 1), (false, false));
    }
}
