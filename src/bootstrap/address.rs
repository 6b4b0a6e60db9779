//! Which address and port of this host a process uses.
//!
//! One setting decides: [`HIKYAKU_IFACE`](super::environment::names::IFACE), the name of an interface, an address of
//! this host, or a network in CIDR notation that contains one of its addresses. Without it: loopback if all ranks are
//! on this host, else the address by which the launcher knows this host, else the source address of the default route.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use nix::{ifaddrs::getifaddrs, net::if_::InterfaceFlags};

use super::environment::names;

/// One address of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, for instance `eth0`.
    pub name: String,
    /// The address.
    pub address: IpAddr,
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.address)
    }
}

/// No address of this host could be chosen.
#[derive(Clone, PartialEq, Eq)]
pub struct AddressError {
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

/// The addresses of this host's interfaces that are up. Link-local IPv6 addresses are left out: they mean nothing
/// without the link.
#[must_use]
pub fn interfaces() -> Vec<Interface> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    let up = all.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP));
    up.filter_map(|interface| {
        let storage = interface.address?;
        let address = match (storage.as_sockaddr_in(), storage.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::V4(v4.ip()),
            (_, Some(v6)) if !v6.ip().is_unicast_link_local() => IpAddr::V6(v6.ip()),
            _ => return None,
        };
        Some(Interface {
            name: interface.interface_name,
            address,
        })
    })
    .collect()
}

/// The inputs of the choice.
#[derive(Clone, Debug, Default)]
pub struct Wish<'a> {
    /// The setting: name, CIDR or address.
    pub interface: Option<&'a str>,
    /// Whether all ranks are on this host.
    pub all_local: bool,
    /// The address by which the launcher knows this host.
    pub known_as: Option<IpAddr>,
}

/// Chooses among `interfaces`; `route` gives the source address of the default route.
///
/// # Errors
/// The setting fits no interface, or there is none to choose from. The error lists the interfaces.
pub fn choose(
    wish: &Wish<'_>,
    interfaces: &[Interface],
    route: impl FnOnce() -> Option<IpAddr>,
) -> Result<IpAddr, AddressError> {
    let fail = |reason| AddressError {
        wanted: wish.interface.map(str::to_owned),
        reason,
        interfaces: interfaces.to_vec(),
    };
    if let Some(wanted) = wish.interface {
        return named(wanted.trim(), interfaces).map_err(fail);
    }
    if wish.all_local {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let has = |address: &IpAddr| interfaces.iter().any(|interface| interface.address == *address);
    wish.known_as
        .filter(has)
        .or_else(route)
        .or_else(|| {
            let others = interfaces.iter().map(|interface| interface.address);
            others.into_iter().find(|address| !address.is_loopback())
        })
        .ok_or_else(|| fail("ranks are on several hosts, and no interface leads to them"))
}

/// The name of the interface that has this address; empty if none has (127.0.0.2, for instance).
#[cfg(feature = "tracing")]
pub(super) fn name_of(address: IpAddr, interfaces: &[Interface]) -> &str {
    let found = interfaces.iter().find(|interface| interface.address == address);
    found.map_or("", |interface| &interface.name)
}

/// The address that the setting means; IPv4 first, if an interface has both.
fn named(wanted: &str, interfaces: &[Interface]) -> Result<IpAddr, &'static str> {
    let mut candidates: Vec<IpAddr>;
    let addresses = || interfaces.iter().map(|interface| interface.address);
    if let Ok(address) = wanted.parse::<IpAddr>() {
        candidates = addresses().filter(|candidate| *candidate == address).collect();
        // All of 127.0.0.0/8 is this host.
        if address.is_loopback() {
            candidates.push(address);
        }
    } else if let Some((network, length)) = wanted.split_once('/') {
        let network = network.parse().map_err(|_| "that is no network")?;
        let length = length.parse().map_err(|_| "that is no length of a prefix")?;
        if length > bits(network).1 {
            return Err("the prefix is longer than an address");
        }
        candidates = addresses()
            .filter(|candidate| in_network(*candidate, network, length))
            .collect();
    } else {
        let of_that_name = interfaces.iter().filter(|interface| interface.name == wanted);
        candidates = of_that_name.map(|interface| interface.address).collect();
    }
    candidates.sort_by_key(IpAddr::is_ipv6);
    candidates.first().copied().ok_or("no interface fits")
}

/// The address as a number, and how many bits it has.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

fn in_network(address: IpAddr, network: IpAddr, length: u32) -> bool {
    let ((address, width), (network, other)) = (bits(address), bits(network));
    // A shift by the full width is undefined.
    width == other && (address ^ network).checked_shr(width - length).unwrap_or(0) == 0
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
    use super::*;

    fn host() -> Vec<Interface> {
        let of = |(name, address): (&str, &str)| Interface {
            name: name.into(),
            address: address.parse().unwrap(),
        };
        [
            ("lo", "127.0.0.1"),
            ("lo", "::1"),
            ("docker0", "172.17.0.1"),
            ("eth0", "fd00::2"),
            ("eth0", "10.1.2.3"),
        ]
        .map(of)
        .to_vec()
    }

    fn wanted(interface: &str) -> Result<IpAddr, AddressError> {
        let wish = Wish {
            interface: Some(interface),
            ..Wish::default()
        };
        choose(&wish, &host(), || None)
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
        for setting in ["eth7", "10.2.0.0/16", "10.1.2.4", "10.1.0.0/33", "a/b", "10.0.0.0/"] {
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
            choose(&wish, &host(), || route?.parse().ok()).unwrap().to_string()
        };
        assert_eq!(choice(true, "10.1.2.3", Some("10.1.2.3")), "127.0.0.1");
        assert_eq!(choice(false, "172.17.0.1", Some("10.1.2.3")), "172.17.0.1");
        assert_eq!(choice(false, "8.8.8.8", Some("10.1.2.3")), "10.1.2.3");
        assert_eq!(choice(false, "", None), "172.17.0.1");
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
