//! Which addresses and ports of this host a process uses.
//!
//! One setting decides: [`HIKYAKU_IFACE`](super::environment::names::IFACE), a list whose items are the name of an
//! interface, an address of this host, or a network in CIDR notation that contains one of its addresses. The first is
//! the one at which peers find the process, the others are further rails. Without it: loopback if all ranks are on this
//! host, else the address by which the launcher knows this host, else the source address of the default route; and
//! further rails on all interfaces that are [fit](super::interfaces::Unfit) for it. If all of these addresses are IPv4, or
//! all IPv6, the first interface that has one of the other family contributes it, too, for peers that have no other.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use super::{
    environment::names,
    interfaces::{Interface, Unfit, bits, in_network},
};

/// No address of this host could be chosen.
#[derive(Clone, PartialEq, Eq)]
pub struct AddressError {
    /// The item of the setting that fits nothing.
    wanted: Option<String>,
    reason: &'static str,
    interfaces: Vec<Interface>,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.wanted {
            Some(wanted) => write!(f, "{}={wanted}: {}", names::IFACE, self.reason)?,
            None => f.write_str(self.reason)?,
        }
        f.write_str("; this host has")?;
        let mut between = " ";
        for interface in &self.interfaces {
            write!(f, "{between}{interface}")?;
            between = ", ";
        }
        if self.interfaces.is_empty() {
            f.write_str(" no interface that is up")?;
        }
        Ok(())
    }
}

crate::debug_as_display!(AddressError);

impl std::error::Error for AddressError {}

/// Most addresses of a process: a value of a launcher's store holds no more of IPv6.
pub const MAX_ADDRESSES: usize = 6;

/// The inputs of the choice.
#[derive(Clone, Debug, Default)]
pub struct Wish<'a> {
    /// The setting: names, networks or addresses, separated by commas.
    pub interface: Option<&'a str>,
    /// Whether all ranks are on this host.
    pub all_local: bool,
    /// The address by which the launcher knows this host.
    pub known_as: Option<IpAddr>,
}

/// Why an address was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// An item of the setting means it.
    Named(String),
    /// All ranks are on this host.
    AllLocal,
    /// The launcher knows this host by it.
    KnownAs,
    /// The default route begins there.
    Route,
    /// It is the first that leads out of this host.
    First,
    /// Its interface is up, and carried by no device that an interface before it uses.
    Further,
    /// All others are IPv4 and it is IPv6, or the reverse: only for processes that have no address of the others' family.
    OtherFamily,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Named(item) => return write!(f, "{}={item}", names::IFACE),
            Self::AllLocal => "all ranks are on this host",
            Self::KnownAs => "the launcher knows this host by it",
            Self::Route => "the default route begins there",
            Self::First => "the first way out of this host",
            Self::Further => "another way out of this host",
            Self::OtherFamily => "for hosts without addresses of the family of the others",
        })
    }
}

/// Why an interface is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// It is no way out of this host.
    Unfit(Unfit),
    /// An interface that is used has this device, too.
    Shared(String),
    /// An interface that is used has this address, too.
    SameAddress(IpAddr),
    /// This item of the setting means an interface that an item before it means.
    NamedAgain(String),
    /// There are [`MAX_ADDRESSES`] already.
    TooMany,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(unfit) => unfit.fmt(f),
            Self::Shared(device) => write!(f, "another one uses the device {device}"),
            Self::SameAddress(address) => write!(f, "another one has the address {address}"),
            Self::NamedAgain(item) => write!(f, "{item} names it again: it counts once"),
            Self::TooMany => write!(f, "a process has at most {MAX_ADDRESSES} addresses"),
        }
    }
}

/// An address that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The address.
    pub address: IpAddr,
    /// The name of its interface; empty if none has it (127.0.0.2, for instance).
    pub interface: String,
    /// Bits of the address that are the network.
    pub prefix: u8,
    /// The reason.
    pub why: Why,
}

/// The addresses of a process, and the interfaces that it does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The first is the one at which peers find the process.
    pub chosen: Vec<Chosen>,
    /// The name of each interface that is not used, and why.
    pub left_out: Vec<(String, WhyNot)>,
}

impl Choice {
    /// Adds an address and the interface that has it, unless one of them is there already.
    fn add(&mut self, (address, interface): (IpAddr, Option<&Interface>), why: Why) {
        let name = interface.map_or("", |interface| &*interface.name);
        let is_same = |chosen: &&Chosen| chosen.address == address || !name.is_empty() && chosen.interface == name;
        if let Some(known) = self.chosen.iter().find(is_same) {
            let again = match why {
                Why::Named(item) if known.interface == name => WhyNot::NamedAgain(item),
                _ => WhyNot::SameAddress(address),
            };
            return self.left_out.push((name.to_owned(), again));
        }
        if self.chosen.len() == MAX_ADDRESSES {
            return self.left_out.push((name.to_owned(), WhyNot::TooMany));
        }
        self.chosen.push(Chosen {
            address,
            interface: name.to_owned(),
            prefix: interface.map_or_else(|| bits(address).1 as u8, |interface| interface.prefix),
            why,
        });
    }

    /// Adds all interfaces that are fit for it.
    fn add_all(&mut self, interfaces: &[Interface]) {
        let mut sorted: Vec<&Interface> = interfaces.iter().collect();
        // Of the addresses of an interface, IPv4 first; interfaces stay in the system's order.
        sorted.sort_by_key(|interface| {
            let place = interfaces.iter().position(|other| other.name == interface.name);
            (place, interface.address.is_ipv6())
        });
        sorted.dedup_by_key(|interface| &interface.name);
        let is_chosen = |choice: &Self, name: &str| choice.chosen.iter().any(|chosen| chosen.interface == name);
        let first = sorted.iter().filter(|interface| is_chosen(self, &interface.name));
        let mut used: Vec<&str> = first.flat_map(|interface| interface.devices()).collect();
        for interface in sorted {
            let shared = interface.devices().find(|device| used.contains(device));
            if is_chosen(self, &interface.name) {
            } else if let Some(unfit) = interface.unfit {
                self.left_out.push((interface.name.clone(), WhyNot::Unfit(unfit)));
            } else if let Some(device) = shared {
                let why = WhyNot::Shared(device.to_owned());
                self.left_out.push((interface.name.clone(), why));
            } else {
                used.extend(interface.devices());
                self.add((interface.address, Some(interface)), Why::Further);
            }
        }
    }

    /// If all addresses are of one family, adds one of the other family, of the first interface that has one.
    fn add_other_family(&mut self, interfaces: &[Interface]) {
        let Some(is_ipv4) = self.chosen.first().map(|chosen| chosen.address.is_ipv4()) else {
            return;
        };
        if self.chosen.len() == MAX_ADDRESSES || self.chosen.iter().any(|other| other.address.is_ipv4() != is_ipv4) {
            return;
        }
        let of_other_family = |chosen: &Chosen| {
            let has = |interface: &&Interface| {
                interface.name == chosen.interface
                    && interface.address.is_ipv4() != is_ipv4
                    && !interface.is_link_local()
            };
            interfaces.iter().find(has)
        };
        self.chosen
            .extend(self.chosen.iter().find_map(of_other_family).map(|interface| Chosen {
                address: interface.address,
                interface: interface.name.clone(),
                prefix: interface.prefix,
                why: Why::OtherFamily,
            }));
    }
}

/// Chooses among `interfaces`; `route` gives the source address of the default route.
///
/// # Errors
/// An item of the setting fits no interface, or there is none to choose from. The error lists the interfaces.
pub fn choose(
    wish: &Wish<'_>,
    interfaces: &[Interface],
    route: impl FnOnce() -> Option<IpAddr>,
) -> Result<Choice, AddressError> {
    let fail = |wanted: Option<&str>, reason| AddressError {
        wanted: wanted.map(str::to_owned),
        reason,
        interfaces: interfaces.to_vec(),
    };
    let mut choice = Choice {
        chosen: Vec::new(),
        left_out: Vec::new(),
    };
    if let Some(setting) = wish.interface {
        for item in setting.split(',').map(str::trim) {
            let found = named(item, interfaces).map_err(|reason| fail(Some(item), reason))?;
            choice.add(found, Why::Named(item.to_owned()));
        }
        return Ok(choice);
    }
    let with_interface = |address: IpAddr| {
        let has_it = |interface: &&Interface| interface.address == address;
        (address, interfaces.iter().find(has_it))
    };
    if wish.all_local {
        choice.add(with_interface(Ipv4Addr::LOCALHOST.into()), Why::AllLocal);
        return Ok(choice);
    }
    let has = |address: &IpAddr| interfaces.iter().any(|interface| interface.address == *address);
    let known = wish.known_as.filter(has).map(|address| (address, Why::KnownAs));
    let (address, why) = known
        .or_else(|| Some((route()?, Why::Route)))
        .or_else(|| Some((first(interfaces)?, Why::First)))
        .ok_or_else(|| fail(None, "ranks are on several hosts, and no interface leads to them"))?;
    choice.add(with_interface(address), why);
    // A process that its peers find at loopback has no peers elsewhere.
    if !address.is_loopback() {
        choice.add_all(interfaces);
        choice.add_other_family(interfaces);
    }
    Ok(choice)
}

/// Pairs the addresses of a process, `own`, with those of a peer: those of one network, each once; those that are left over
/// there with the first one of that network again; of the others all that are of one family, first each once and in their
/// order; and last all further pairs of one network, whose cables may be crossed. Pairs both of whose addresses belong to
/// pairs before them are backups, as rails. The first ones are a pair in any case. Returns at most `most` pairs as indices
/// of `own` and `theirs`; both sides find the same ones if there are not more.
#[must_use]
pub fn pairs(own: &[Chosen], theirs: &[IpAddr], most: usize) -> Vec<(usize, usize)> {
    // Two hosts that both call themselves so do not reach each other by it.
    let is_own = |address: &IpAddr| own.iter().any(|chosen| chosen.address == *address);
    let share = |one: &Chosen, other: &IpAddr| !is_own(other) && in_network(*other, one.address, one.prefix.into());
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (port, chosen) in own.iter().enumerate() {
        let is_free = |at: &usize| pairs.iter().all(|(_, other)| other != at);
        let mut candidates = (0..theirs.len()).filter(|&at| share(chosen, &theirs[at]));
        let found = candidates.find(is_free);
        pairs.extend(found.map(|at| (port, at)));
    }
    // One side has more addresses in the network: if the one that the other shares with it dies, these are left.
    let is_left = |port: usize| pairs.iter().all(|(other, _)| *other != port);
    let is_left_there = |at: usize| pairs.iter().all(|(_, other)| *other != at);
    let mut again = Vec::new();
    for (port, chosen) in own.iter().enumerate().filter(|(port, _)| is_left(*port)) {
        let at = theirs.iter().position(|address| share(chosen, address));
        again.extend(at.map(|at| (port, at)));
    }
    for (at, address) in theirs.iter().enumerate().filter(|(at, _)| is_left_there(*at)) {
        let port = own.iter().position(|chosen| share(chosen, address));
        again.extend(port.map(|port| (port, at)));
    }
    pairs.extend(again);
    // Behind routers, only probes tell which ones reach which.
    let is_free = |port: usize| pairs.iter().all(|(other, _)| *other != port) && !theirs.contains(&own[port].address);
    let is_free_there = |at: usize| pairs.iter().all(|(_, other)| *other != at) && !is_own(&theirs[at]);
    let mut others = Vec::new();
    for is_ipv4 in [true, false] {
        let ports = (0..own.len()).filter(|&port| own[port].address.is_ipv4() == is_ipv4 && is_free(port));
        let there = (0..theirs.len()).filter(|&at| theirs[at].is_ipv4() == is_ipv4 && is_free_there(at));
        let (ports, there): (Vec<_>, Vec<_>) = (ports.collect(), there.collect());
        let turns = ports.len().max(there.len());
        for turn in 0..turns {
            let of_turn = ports.iter().enumerate().filter_map(|(place, &port)| {
                let at = there.get((place + turn) % turns)?;
                Some((turn, (port, *at)))
            });
            others.extend(of_turn);
        }
    }
    others.sort_by_key(|(turn, _)| *turn);
    pairs.extend(others.into_iter().map(|(_, pair)| pair));
    // Each port in turn, so that all have some if there are too many.
    for turn in 0..own.len().max(theirs.len()) {
        for (port, chosen) in own.iter().enumerate() {
            let pair = (port, (port + turn) % own.len().max(theirs.len()));
            let is_crossed = theirs.get(pair.1).is_some_and(|address| share(chosen, address));
            if is_crossed && !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
    }
    pairs.retain(|pair| *pair != (0, 0));
    pairs.insert(0, (0, 0));
    pairs.truncate(most);
    pairs
}

/// The first address that is not loopback; one of an interface that is no way out of this host only if there is no other.
fn first(interfaces: &[Interface]) -> Option<IpAddr> {
    let others = interfaces.iter().filter(|interface| !interface.address.is_loopback());
    let place = |name: &str| interfaces.iter().position(|other| other.name == name);
    let best = others.min_by_key(|interface| {
        let is_ipv6 = interface.address.is_ipv6();
        (interface.unfit.is_some(), place(&interface.name), is_ipv6)
    });
    best.map(|interface| interface.address)
}

/// The address that the setting means, and the interface that has it; IPv4 first, if an interface has both.
fn named<'a>(wanted: &str, interfaces: &'a [Interface]) -> Result<(IpAddr, Option<&'a Interface>), &'static str> {
    let first = |fits: &dyn Fn(&Interface) -> bool| {
        let all = interfaces.iter().filter(|interface| fits(interface));
        let best = all.min_by_key(|interface| interface.address.is_ipv6());
        best.map(|interface| (interface.address, Some(interface)))
    };
    if wanted.is_empty() {
        return Err("an item of the list is empty");
    }
    let found = if let Ok(address) = wanted.parse::<IpAddr>() {
        // All of 127.0.0.0/8 is this host.
        first(&|interface| interface.address == address).or_else(|| address.is_loopback().then_some((address, None)))
    } else if let Some((network, length)) = wanted.split_once('/') {
        let network = network.parse().map_err(|_| "that is no network")?;
        let length = length.parse().map_err(|_| "that is no length of a prefix")?;
        if length > bits(network).1 {
            return Err("the prefix is longer than an address");
        }
        first(&|interface| in_network(interface.address, network, length))
    } else {
        first(&|interface| interface.name == wanted)
    };
    found.ok_or("no interface fits")
}

/// The source address of the default route. Sends nothing.
#[must_use]
pub fn default_route() -> Option<IpAddr> {
    let elsewhere: [(IpAddr, IpAddr); 2] = [
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        (
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        ),
    ];
    elsewhere.into_iter().find_map(|(any, target)| {
        let address = source_towards(any, target)?;
        (!address.is_loopback()).then_some(address)
    })
}

/// The source address of packets to `target`. Sends nothing.
#[must_use]
pub fn towards(target: IpAddr) -> Option<IpAddr> {
    let any = match target {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    source_towards(any, target)
}

fn source_towards(any: IpAddr, target: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    // The discard port: connecting a UDP socket asks for a route and sends nothing.
    socket.connect(SocketAddr::new(target, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// The port of a process: the first of the range plus its local rank; 0 (any) without a range.
#[must_use]
pub fn port(base: u16, local_rank: u32) -> Option<u16> {
    if base == 0 {
        return Some(0);
    }
    u16::try_from(u32::from(base).checked_add(local_rank)?).ok()
}

#[cfg(test)]
mod tests {
    use super::{
        super::interfaces::{Unfit, interfaces},
        *,
    };

    fn host() -> Vec<Interface> {
        let of = |(name, address, unfit, carrier): (&str, &str, Option<Unfit>, &str)| {
            let (address, prefix) = address.split_once('/').unwrap();
            Interface {
                name: name.into(),
                address: address.parse().unwrap(),
                prefix: prefix.parse().unwrap(),
                carriers: carrier.split_whitespace().map(str::to_owned).collect(),
                unfit,
            }
        };
        [
            ("lo", "127.0.0.1/8", Some(Unfit::Loopback), ""),
            ("lo", "::1/128", Some(Unfit::Loopback), ""),
            ("docker0", "172.17.0.1/16", Some(Unfit::VirtualBridge), ""),
            ("eth0", "fd00::2/64", None, ""),
            ("eth0", "10.1.2.3/16", None, ""),
            ("eth1", "10.2.2.3/16", None, ""),
            ("eth1.7", "10.7.2.3/16", None, "eth1"),
            ("bond0", "10.3.2.3/16", None, "eth2 eth3"),
            ("eth2", "10.4.2.3/16", Some(Unfit::InBond), ""),
            ("eth4", "fd04::3/64", None, ""),
        ]
        .map(of)
        .to_vec()
    }

    fn chosen(setting: &str) -> Result<Choice, AddressError> {
        let wish = Wish {
            interface: Some(setting),
            ..Wish::default()
        };
        choose(&wish, &host(), || None)
    }

    fn wanted(setting: &str) -> Result<IpAddr, AddressError> {
        Ok(chosen(setting)?.chosen[0].address)
    }

    fn addresses(choice: &Choice) -> Vec<String> {
        choice.chosen.iter().map(|chosen| chosen.address.to_string()).collect()
    }

    #[test]
    fn a_list_is_taken_as_it_stands() {
        let choice = chosen("eth1, 10.1.0.0/16,docker0,fd04::3").unwrap();
        assert_eq!(addresses(&choice), ["10.2.2.3", "10.1.2.3", "172.17.0.1", "fd04::3"]);
        assert_eq!(choice.chosen[1].interface, "eth0");
        assert_eq!(choice.chosen[1].why.to_string(), "HIKYAKU_IFACE=10.1.0.0/16");
        assert!(choice.left_out.is_empty());
    }

    #[test]
    fn an_interface_that_is_named_twice_counts_once() {
        let choice = chosen("eth0,eth1,eth0,fd00::2").unwrap();
        assert_eq!(addresses(&choice), ["10.1.2.3", "10.2.2.3"]);
        let said: Vec<_> = choice
            .left_out
            .iter()
            .map(|(name, why)| format!("{name}: {why}"))
            .collect();
        assert_eq!(
            said,
            [
                "eth0: eth0 names it again: it counts once",
                "eth0: fd00::2 names it again: it counts once"
            ]
        );
    }

    /// The line says which one is left out, not which one is used.
    #[test]
    fn two_interfaces_with_one_address_are_told_apart() {
        let host: Vec<Interface> = ["eth0", "eth1"]
            .map(|name| Interface {
                name: name.into(),
                address: Ipv4Addr::new(10, 1, 0, 1).into(),
                prefix: 16,
                carriers: Vec::new(),
                unfit: None,
            })
            .into();
        for (interface, used, left_out) in [
            (None, "eth0", "eth1"),
            (Some("eth1,eth0"), "eth1", "eth0"),
            (Some("eth0,eth1"), "eth0", "eth1"),
        ] {
            let wish = Wish {
                interface,
                ..Wish::default()
            };
            let choice = choose(&wish, &host, || None).unwrap();
            let [chosen] = &choice.chosen[..] else {
                panic!("{choice:?}")
            };
            assert_eq!(chosen.interface, used);
            let [(name, why)] = &choice.left_out[..] else {
                panic!("{choice:?}")
            };
            assert_eq!(
                format!("{name}: {why}"),
                format!("{left_out}: another one has the address 10.1.0.1")
            );
        }
    }

    #[test]
    fn one_bad_item_is_named() {
        let said = chosen("eth0,eth9").unwrap_err().to_string();
        assert!(
            said.starts_with("HIKYAKU_IFACE=eth9: no interface fits; this host has lo"),
            "{said}"
        );
        let said = chosen("eth0,").unwrap_err().to_string();
        assert!(
            said.starts_with("HIKYAKU_IFACE=: an item of the list is empty; this host has lo"),
            "{said}"
        );
    }

    #[test]
    fn all_ways_out_of_the_host_are_rails() {
        let wish = Wish {
            known_as: Some("10.2.2.3".parse().unwrap()),
            ..Wish::default()
        };
        let choice = choose(&wish, &host(), || None).unwrap();
        assert_eq!(addresses(&choice), ["10.2.2.3", "10.1.2.3", "10.3.2.3", "fd04::3"]);
        let left_out = [
            ("lo", "loopback"),
            ("docker0", "a bridge without a device of this machine"),
            ("eth1.7", "another one uses the device eth1"),
            ("eth2", "a member of a bond"),
        ];
        let said = { choice.left_out.iter() }.map(|(name, why)| (name.as_str(), why.to_string()));
        assert_eq!(
            said.collect::<Vec<_>>(),
            left_out.map(|(name, why)| (name, why.to_owned()))
        );
    }

    /// Interfaces with an address each of these, in the order of the host.
    fn of(texts: &[(&str, &str)]) -> Vec<Interface> {
        let of = |(name, text): &(&str, &str)| {
            let (address, prefix) = text.split_once('/').unwrap();
            Interface {
                name: (*name).into(),
                address: address.parse().unwrap(),
                prefix: prefix.parse().unwrap(),
                carriers: Vec::new(),
                unfit: (*name == "lo").then_some(Unfit::Loopback),
            }
        };
        texts.iter().map(of).collect()
    }

    #[test]
    fn one_address_of_the_other_family_is_spare() {
        let dual = [
            ("lo", "127.0.0.1/8"),
            ("lo", "::1/128"),
            ("eth0", "10.1.0.1/16"),
            ("eth1", "10.2.0.1/16"),
            ("eth1", "fe80::1/64"),
            ("eth1", "fd02::1/64"),
            ("eth1", "fd03::1/64"),
            ("eth2", "10.3.0.1/16"),
            ("eth2", "fd04::1/64"),
        ];
        let choose = |host: &[(&str, &str)], known_as: &str| {
            let wish = Wish {
                known_as: known_as.parse().ok(),
                ..Wish::default()
            };
            choose(&wish, &of(host), || None).unwrap().chosen
        };
        let chosen = choose(&dual, "");
        let last = chosen.last().unwrap();
        assert_eq!((chosen.len(), &*last.interface, last.prefix), (4, "eth1", 64));
        assert_eq!(last.address, "fd02::1".parse::<IpAddr>().unwrap());
        assert_eq!(
            last.why.to_string(),
            "for hosts without addresses of the family of the others"
        );
        // The reverse, if the launcher knows the host so.
        let chosen = choose(&dual[5..7], "fd03::1");
        assert_eq!(chosen.len(), 1);
        let chosen = choose(&[dual[3], dual[5]], "fd02::1");
        let found: Vec<_> = chosen
            .iter()
            .map(|chosen| (chosen.address.is_ipv4(), chosen.why.clone()))
            .collect();
        assert_eq!(found, [(false, Why::KnownAs), (true, Why::OtherFamily)]);
        // Both families are there anyway; or there is no room; or it means nothing without the link.
        let has_spare = |host: &[(&str, &str)]| choose(host, "").iter().any(|chosen| chosen.why == Why::OtherFamily);
        assert!(has_spare(&dual));
        assert!(!has_spare(&[&dual[..], &[("eth3", "fd05::1/64")]].concat()));
        assert!(!has_spare(&dual[..5]));
        assert!(!has_spare(&[("eth0", "fd00::1/64"), ("eth0", "169.254.1.1/16")][..1]));
        let more = [
            ("eth3", "10.4.0.1/16"),
            ("eth4", "10.5.0.1/16"),
            ("eth5", "10.6.0.1/16"),
        ];
        assert!(has_spare(&[&dual[..], &more[..2]].concat()));
        assert!(!has_spare(&[&dual[..], &more].concat()));
        // The list of a user is taken as it stands.
        let named = Wish {
            interface: Some("eth1"),
            ..Wish::default()
        };
        assert_eq!(super::choose(&named, &of(&dual), || None).unwrap().chosen.len(), 1);
    }

    #[test]
    fn a_process_has_a_limited_number_of_addresses() {
        let many: Vec<Interface> = (0..20)
            .map(|number| Interface {
                name: format!("eth{number}"),
                address: Ipv4Addr::new(10, number, 0, 1).into(),
                prefix: 16,
                carriers: Vec::new(),
                unfit: None,
            })
            .collect();
        let choice = choose(&Wish::default(), &many, || None).unwrap();
        assert_eq!(
            (choice.chosen.len(), choice.left_out.len()),
            (MAX_ADDRESSES, 20 - MAX_ADDRESSES)
        );
    }

    #[test]
    fn addresses_of_one_network_are_a_pair() {
        let own = |texts: &[&str]| -> Vec<Chosen> {
            let of = |text: &&str| {
                let (address, prefix) = text.split_once('/').unwrap();
                Chosen {
                    address: address.parse().unwrap(),
                    interface: String::new(),
                    prefix: prefix.parse().unwrap(),
                    why: Why::Further,
                }
            };
            texts.iter().map(of).collect()
        };
        let pairs_of = |own_texts: &[&str], theirs: &[&str]| {
            let theirs: Vec<IpAddr> = theirs.iter().map(|text| text.parse().unwrap()).collect();
            pairs(&own(own_texts), &theirs, 16)
        };
        let own = ["10.0.0.1/24", "10.1.0.1/24", "10.2.0.1/24", "fd00::1/64"];
        assert_eq!(pairs_of(&own, &["10.0.0.2"]), [(0, 0)]);
        let theirs = ["10.0.0.2", "fd00::2", "10.2.0.2", "10.1.0.2"];
        assert_eq!(pairs_of(&own, &theirs), [(0, 0), (1, 3), (2, 2), (3, 1)]);
        // Two interfaces of each in one network.
        let own = ["10.0.0.1/24", "10.0.0.3/24"];
        assert_eq!(
            pairs_of(&own, &["10.0.0.2", "10.0.0.4"]),
            [(0, 0), (1, 1), (0, 1), (1, 0)]
        );
        // Of one, and in the reverse.
        assert_eq!(pairs_of(&own, &["10.0.0.2"]), [(0, 0), (1, 0)]);
        assert_eq!(pairs_of(&own[..1], &["10.0.0.2", "10.0.0.4"]), [(0, 0), (0, 1)]);
        // Three and two: each once, then crossed.
        let three = ["10.0.0.1/24", "10.0.0.3/24", "10.0.0.5/24"];
        let straight = [(0, 0), (1, 1), (2, 0)];
        let crossed = [(0, 1), (1, 0), (2, 1)];
        assert_eq!(
            pairs_of(&three, &["10.0.0.2", "10.0.0.4"]),
            [&straight[..], &crossed].concat()
        );
        // Other networks do not mix.
        let two = ["10.0.0.1/24", "10.1.0.1/24", "10.0.0.3/24"];
        let theirs = ["10.0.0.2", "10.1.0.2", "10.0.0.4"];
        assert_eq!(pairs_of(&two, &theirs), [(0, 0), (1, 1), (2, 2), (2, 0), (0, 2)]);
        // Through routers, all that may reach each other, first in their order; families do not mix; an address of this
        // host is none of the peer.
        let own = ["10.0.0.1/24", "10.1.0.1/24", "172.17.0.1/16", "fd00::1/64"];
        let theirs = ["192.168.0.2", "172.17.0.1", "fd09::1", "192.168.1.2"];
        assert_eq!(pairs_of(&own, &theirs), [(0, 0), (1, 3), (3, 2), (0, 3), (1, 0)]);
        // Of the first ones, each has a better one beside.
        let own = ["10.0.0.1/24", "10.1.0.1/24"];
        assert_eq!(pairs_of(&own, &["10.1.0.2", "10.0.0.2"]), [(0, 0), (0, 1), (1, 0)]);
        assert_eq!(pairs_of(&own, &["10.0.0.1", "10.1.0.1"]), [(0, 0)]);
        // There are limits.
        let own = [
            "10.0.0.1/24",
            "10.1.0.1/24",
            "10.2.0.1/24",
            "10.3.0.1/24",
            "10.4.0.1/24",
        ];
        let theirs = ["10.5.0.2", "10.6.0.2", "10.7.0.2", "10.8.0.2", "10.9.0.2"];
        let all = pairs_of(&own, &theirs);
        assert_eq!((all.len(), all[4], all[5]), (16, (4, 4), (0, 1)));
    }

    #[test]
    fn one_setting_in_three_forms() {
        let eth0 = Ok("10.1.2.3".parse().unwrap());
        for setting in ["eth0", "10.1.0.0/16", "10.1.2.3", " eth0 ", "10.1.2.3/32"] {
            assert_eq!(wanted(setting), eth0, "{setting}");
        }
        assert_eq!(wanted("fd00::/8"), Ok("fd00::2".parse().unwrap()));
        assert_eq!(wanted("127.0.0.7"), Ok("127.0.0.7".parse().unwrap()));
        assert_eq!(wanted("0.0.0.0/0"), Ok("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn an_error_lists_what_there_is() {
        for setting in ["eth7", "10.9.0.0/16", "10.1.2.4", "10.1.0.0/33", "a/b", "10.0.0.0/"] {
            let said = wanted(setting).unwrap_err().to_string();
            assert!(said.starts_with(&format!("HIKYAKU_IFACE={setting}: ")), "{said}");
            assert!(
                said.contains("docker0 172.17.0.1") && said.contains("eth0 10.1.2.3"),
                "{said}"
            );
        }
    }

    #[test]
    fn without_a_setting() {
        let choice = |all_local, known_as: &str, route: Option<&str>| {
            let wish = Wish {
                interface: None,
                all_local,
                known_as: known_as.parse().ok(),
            };
            let choice = choose(&wish, &host(), || route?.parse().ok()).unwrap();
            choice.chosen[0].address.to_string()
        };
        assert_eq!(choice(true, "10.1.2.3", Some("10.1.2.3")), "127.0.0.1");
        assert_eq!(choice(false, "172.17.0.1", Some("10.1.2.3")), "172.17.0.1");
        assert_eq!(choice(false, "8.8.8.8", Some("10.1.2.3")), "10.1.2.3");
        // Not docker0, although it comes first.
        assert_eq!(choice(false, "", None), "10.1.2.3");
        let none = choose(&Wish::default(), &[], || None).unwrap_err();
        assert!(none.to_string().ends_with("no interface that is up"));
    }

    #[test]
    fn this_host_has_a_loopback() {
        assert!(interfaces().iter().any(|interface| interface.address.is_loopback()));
        assert_eq!(towards(Ipv4Addr::LOCALHOST.into()), Some(Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn ports() {
        assert_eq!(port(0, 70_000), Some(0));
        assert_eq!(port(7000, 3), Some(7003));
        assert_eq!(port(65_535, 1), None);
    }
}
