//! The known Ethernet addresses of neighbours: the state of ARP and neighbour discovery, without a device.

use std::{collections::BTreeMap, net::IpAddr};

use super::{
    discovery::Notice,
    ethernet::{Host, Mac},
    frame::Template,
};
use crate::time::Instant;

/// For this long after an answer, the neighbour is not asked again, ns.
const FRESH: u64 = 10_000_000_000;
/// For this long after an answer, the address is used although the neighbour does not answer any more, ns.
const STALE: u64 = 20_000_000_000;
/// Time between two requests for the same address, ns.
const AGAIN: u64 = 50_000_000;
/// Time between two requests for an address that has been answered before, ns.
const REFRESH: u64 = 1_000_000_000;
/// The most neighbours that are remembered.
const MOST: usize = 65_536;

/// A neighbour.
#[derive(Debug, Default)]
struct Neighbour {
    known: Option<Known>,
    asked: Option<Instant>,
}

/// The answer of a neighbour.
#[derive(Debug)]
struct Known {
    /// Headers of datagrams to the neighbour.
    template: Template,
    mac: Mac,
    /// The time of the neighbour's last answer. `None`: the application gave the address, and the neighbour needs not
    /// answer.
    heard: Option<Instant>,
}

/// The way to a neighbour.
pub(super) struct Route<'a> {
    /// Headers of datagrams to the neighbour; `None` until it has answered.
    pub(super) template: Option<&'a Template>,
    /// A request for its address should be sent now.
    pub(super) ask: bool,
}

/// All neighbours. Only hosts to which a backend sends are remembered, so that other hosts cannot fill the table.
#[derive(Debug)]
pub(super) struct Neighbours {
    host: Host,
    all: BTreeMap<IpAddr, Neighbour>,
    /// The neighbour to which the last datagram went.
    last: Option<Last>,
}

/// A neighbour whose address is known and needs no request until some time.
#[derive(Debug)]
struct Last {
    ip: IpAddr,
    until: Instant,
    template: Template,
}

impl Neighbours {
    pub(super) fn new(host: Host) -> Self {
        Self {
            host,
            all: BTreeMap::new(),
            last: None,
        }
    }

    /// The way to `ip`, which is added to the table if it is new.
    #[inline]
    pub(super) fn route(&mut self, now: Instant, ip: IpAddr) -> Route<'_> {
        if self.last(now, ip).is_none() {
            return self.find(now, ip);
        }
        Route {
            template: self.last.as_ref().map(|last| &last.template),
            ask: false,
        }
    }

    /// Headers of datagrams to `ip`, if the last datagram also went there.
    #[inline]
    pub(super) fn last(&self, now: Instant, ip: IpAddr) -> Option<&Template> {
        self.last
            .as_ref()
            .filter(|last| last.ip == ip && now < last.until)
            .map(|last| &last.template)
    }

    #[inline(never)]
    fn find(&mut self, now: Instant, ip: IpAddr) -> Route<'_> {
        if self.all.len() >= MOST && !self.all.contains_key(&ip) {
            self.all.retain(|_, neighbour| neighbour.known.is_some());
            if self.all.len() >= MOST {
                self.all.clear();
            }
        }
        let neighbour = self.all.entry(ip).or_default();
        let since = |at: Instant| now.saturating_since(at).as_nanos() as u64;
        let age = neighbour.known.as_ref().map(|known| known.heard.map_or(0, since));
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
        self.last = neighbour.known.as_ref().map(|known| Last {
            ip,
            until: known.heard.map_or(Instant::FAR_FUTURE, |at| at.plus_nanos(FRESH)),
            template: known.template.clone(),
        });
        Route {
            template: neighbour.known.as_ref().map(|known| &known.template),
            ask,
        }
    }

    /// Handles a notice. Returns the sender if this notice makes its address known.
    pub(super) fn hear(&mut self, now: Instant, notice: &Notice) -> Option<IpAddr> {
        self.last = None;
        // No other host has our address.
        let is_impostor = notice.sender == self.host.addr.ip();
        let neighbour = self.all.get_mut(&notice.sender).filter(|_| !is_impostor)?;
        let known = match (&mut neighbour.known, notice.sender_mac) {
            (Some(known), mac) if mac.is_none_or(|mac| mac == known.mac) => {
                known.heard = known.heard.map(|_| now);
                return None;
            }
            (known, Some(mac)) => known.replace(Known {
                template: Template::new(&self.host, mac, notice.sender),
                mac,
                heard: Some(now),
            }),
            (_, None) => return None,
        };
        known.is_none().then_some(notice.sender)
    }

    /// Sets the address of `ip` to `mac`, until the neighbour itself announces another one. Does nothing if `ip` is of
    /// the other version of IP, to which nothing is sent.
    pub(super) fn learn(&mut self, ip: IpAddr, mac: Mac) {
        if ip.is_ipv4() != self.host.addr.is_ipv4() {
            return;
        }
        self.last = None;
        self.all.entry(ip).or_default().known = Some(Known {
            template: Template::new(&self.host, mac, ip),
            mac,
            heard: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use super::*;

    const US: Host = Host {
        mac: [2, 0, 0, 0, 0, 1],
        addr: std::net::SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 9),
    };
    const IP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn told(mac: Mac) -> Notice {
        Notice {
            is_request: false,
            sender_mac: Some(mac),
            sender: IP,
            target: US.addr.ip(),
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
        assert_eq!(neighbours.hear(at(60), &told([2; 6])), Some(IP));
        assert_eq!(known(&mut neighbours, 61), (true, false));
        assert_eq!(known(&mut neighbours, 10_060), (true, true));
        assert_eq!(known(&mut neighbours, 10_061), (true, false));
        assert_eq!(neighbours.hear(at(10_070), &told([2; 6])), None);
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
        // The neighbour announces itself.
        let announcement = Notice {
            is_request: true,
            target: IP,
            ..told([4; 6])
        };
        assert_eq!(neighbours.hear(at(2), &announcement), None);
        let mut frame = [0; 60];
        let template = neighbours.route(at(3), IP).template.unwrap();
        let headers = template.headers(frame.len(), [1, 1], super::super::frame::UdpChecksum::Absent);
        headers.write(&mut frame, 1);
        assert_eq!(frame[..6], [4; 6]);
    }

    #[test]
    fn strangers_and_impostors_are_not_remembered() {
        let mut neighbours = Neighbours::new(US);
        assert_eq!(neighbours.hear(at(0), &told([2; 6])), None);
        assert!(neighbours.all.is_empty());
        let impostor = Notice {
            sender: US.addr.ip(),
            ..told([2; 6])
        };
        let _ = neighbours.route(at(0), IP);
        let _ = neighbours.route(at(0), US.addr.ip());
        assert_eq!(neighbours.hear(at(0), &impostor), None);
        let nameless = Notice {
            sender_mac: None,
            ..told([2; 6])
        };
        assert_eq!(neighbours.hear(at(0), &nameless), None);
        assert_eq!(known(&mut neighbours, 1), (false, false));
    }

    #[test]
    fn what_the_application_has_told_needs_no_answer() {
        let mut neighbours = Neighbours::new(US);
        neighbours.learn(IP, [2; 6]);
        assert_eq!(known(&mut neighbours, 100_000), (true, false));
        assert_eq!(neighbours.hear(at(100_000), &told([2; 6])), None);
        assert_eq!(known(&mut neighbours, 200_000), (true, false));
        // The neighbour has another address now.
        assert_eq!(neighbours.hear(at(200_000), &told([4; 6])), None);
        assert_eq!(known(&mut neighbours, 200_001), (true, false));
        assert_eq!(known(&mut neighbours, 215_000), (true, true));
    }
}
