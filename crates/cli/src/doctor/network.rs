//! Socket buffers and interfaces.

use hikyaku::{
    environment::Environment,
    internals::bootstrap::address::{self, AddressError, Choice, Interface, MAX_ADDRESSES, Unfit, Why, WhyNot, Wish},
};
use nix::ifaddrs::getifaddrs;

use super::{
    finding::{Finding, State},
    look::{ask, names, read},
};

const AREA: &str = "network";
/// The socket buffer that the UDP backend requests, bytes.
const BUFFER: u64 = 4 << 20;

pub(super) fn findings() -> Vec<Finding> {
    let mut rows = vec![buffer("rmem_max"), buffer("wmem_max")];
    let interfaces = names("/sys/class/net");
    rows.extend(
        interfaces
            .iter()
            .filter(|name| *name != "bonding_masters")
            .map(|name| interface(name)),
    );
    let interfaces = address::interfaces();
    let environment = Environment::of_process();
    let wish = Wish {
        interface: environment.get("HIKYAKU_IFACE"),
        ..Wish::default()
    };
    rows.extend(rails(address::choose(&wish, &interfaces, address::default_route), read));
    rows.extend(shared_networks(&interfaces, read));
    rows
}

/// The addresses that a rank of a job on several hosts has here, and the interfaces that it does not use.
fn rails(choice: Result<Choice, AddressError>, setting: impl Fn(String) -> String) -> Vec<Finding> {
    const NAME: &str = "addresses, several hosts";
    let choice = match choice {
        Ok(choice) => choice,
        Err(error) => {
            let wrong = Finding::new(AREA, NAME, State::Could, error.to_string());
            return vec![
                wrong.advise("ranks on several hosts need one: set HIKYAKU_IFACE, or an address of an interface"),
            ];
        }
    };
    let chosen = choice.chosen.iter();
    let all = chosen.map(|chosen| format!("{} {}: {}", chosen.interface, chosen.address, chosen.why));
    let mut rows = vec![Finding::new(AREA, NAME, State::Ok, all.collect::<Vec<_>>().join("; "))];
    // A host may have dozens of bridges.
    let mut reasons: Vec<(&WhyNot, Vec<&str>)> = Vec::new();
    let loopback = WhyNot::Unfit(Unfit::Loopback);
    for (name, why) in choice.left_out.iter().filter(|(_, why)| *why != loopback) {
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    rows.extend(reasons.into_iter().map(|(why, names)| {
        let row = Finding::new(
            AREA,
            "not for several hosts",
            State::None,
            format!("{}: {why}", names.join(", ")),
        );
        row.advise(match why {
            WhyNot::Unfit(_) | WhyNot::Shared(_) => {
                "HIKYAKU_IFACE takes them all the same, if it names all interfaces to use".to_owned()
            }
            WhyNot::SameAddress(_) => "give each interface an address of its own".to_owned(),
            WhyNot::NamedAgain(_) => "name it once in HIKYAKU_IFACE".to_owned(),
            WhyNot::TooMany => format!("name those to use in HIKYAKU_IFACE, {MAX_ADDRESSES} at most"),
        })
    }));
    // Those of the routes are behind the first.
    let rails = { choice.chosen.iter().skip(1) }.filter(|chosen| chosen.why != Why::OtherFamily);
    for further in rails.filter(|chosen| chosen.address.is_ipv4()) {
        let name = &further.interface;
        if value("rp_filter", name, &setting) == 1 {
            let row = Finding::new(AREA, format!("rail by {name}"), State::None, "only to its own network");
            rows.push(row.advise(format!(
                "if it is to reach other networks, too, it must take packets whose way back leads elsewhere: sysctl -w \
                 net.ipv4.conf.{name}.rp_filter=2"
            )));
        }
    }
    rows
}

/// The kernel takes the larger of an interface's setting and that of all.
fn value(name: &str, of: &str, setting: impl Fn(String) -> String) -> u32 {
    let one = |whose: &str| {
        let text = setting(format!("/proc/sys/net/ipv4/conf/{whose}/{name}"));
        text.parse().unwrap_or(0)
    };
    one("all").max(one(of))
}

/// Both are on one device, so that at most one of them is a rail. (A label, `eth0:1`, has no settings of its own.)
fn is_one_device(one: &Interface, other: &Interface) -> bool {
    let is_of_one = |device: &String| *device == one.name || one.carriers.contains(device);
    is_of_one(&other.name) || other.carriers.iter().any(is_of_one)
}

/// Interfaces with addresses in one network: each should answer for its own address only, and take what comes back by
/// another one. `setting` reads a file below `/proc/sys`.
fn shared_networks(interfaces: &[Interface], setting: impl Fn(String) -> String) -> Vec<Finding> {
    let is_candidate = |interface: &&Interface| interface.unfit.is_none() && interface.address.is_ipv4();
    let all: Vec<&Interface> = interfaces.iter().filter(is_candidate).collect();
    let mut rows = Vec::new();
    for (number, interface) in all.iter().enumerate() {
        let before = &all[..number];
        let Some(other) = before
            .iter()
            .find(|other| !is_one_device(other, interface) && other.shares_network(interface.address))
        else {
            continue;
        };
        let pair = [&*other.name, &*interface.name];
        let mut commands = Vec::new();
        for name in pair {
            if value("arp_ignore", name, &setting) == 0 {
                commands.push(format!("net.ipv4.conf.{name}.arp_ignore=1"));
            }
            if value("arp_announce", name, &setting) < 2 {
                commands.push(format!("net.ipv4.conf.{name}.arp_announce=2"));
            }
            if value("rp_filter", name, &setting) == 1 {
                commands.push(format!("net.ipv4.conf.{name}.rp_filter=2"));
            }
        }
        let state = if commands.is_empty() { State::Ok } else { State::Could };
        let of = format!("{} and {} are in one network", other, interface);
        rows.push(Finding::new(AREA, pair.join(" + "), state, of).advise(format!(
            "as rails of their own, each must answer for its own address (ARP), and take answers that the routes expect \
             at the other: sysctl -w {}",
            commands.join(" ")
        )));
    }
    rows
}

/// The most that a socket without privileges gets.
fn buffer(name: &str) -> Finding {
    let path = format!("/proc/sys/net/core/{name}");
    let bytes = read(path).parse().unwrap_or(0);
    limit(name, bytes)
}

fn limit(name: &str, bytes: u64) -> Finding {
    let state = if bytes >= BUFFER { State::Ok } else { State::Could };
    Finding::new(AREA, format!("net.core.{name}"), state, format!("{} KiB", bytes >> 10)).advise(format!(
        "bursts overflow small socket buffers (root gets larger ones anyway): sysctl -w net.core.{name}={BUFFER}"
    ))
}

fn interface(name: &str) -> Finding {
    let of = |file: &str| read(format!("/sys/class/net/{name}/{file}"));
    let is_loopback = of("type") == "772";
    let up = of("operstate") == "up" || is_loopback;
    let mtu = of("mtu");
    let addresses = getifaddrs().into_iter().flatten().filter_map(|entry| {
        let address = entry.address.filter(|_| entry.interface_name == name)?;
        let v4 = address.as_sockaddr_in().map(|v4| v4.ip().to_string());
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().to_string()))
    });
    let mut parts = vec![if up { "up" } else { "down" }.to_owned(), format!("MTU {mtu}")];
    let speed = of("speed");
    if speed.parse::<i64>().is_ok_and(|mbit| mbit > 0) {
        parts.push(format!("{speed} Mbit/s"));
    }
    let driver = std::fs::read_link(format!("/sys/class/net/{name}/device/driver")).ok();
    parts.extend(driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())));
    let offloads = ask("ethtool", &["-k", name]).map(|text| offloads(&text));
    let missing = offloads
        .as_ref()
        .map(|found| found.missing.join(", "))
        .unwrap_or_default();
    match &offloads {
        Some(found) => parts.push(found.text.clone()),
        None => parts.push("offloads unknown (ethtool not installed)".to_owned()),
    }
    parts.extend(addresses);
    let value = parts.join(", ");
    if !up {
        return Finding::new(AREA, name, State::None, value).advise(format!("ip link set {name} up"));
    }
    if !missing.is_empty() {
        return Finding::new(AREA, name, State::Could, value).advise(format!(
            "bulk is several times faster with {missing}: ethtool -K {name} gso on gro on"
        ));
    }
    if mtu.parse::<u32>().is_ok_and(|mtu| mtu < 9000) && speed.parse::<i64>().is_ok_and(|mbit| mbit >= 10_000) {
        return Finding::new(AREA, name, State::Could, value).advise(format!(
            "if all of the network carries jumbo frames: ip link set {name} mtu 9000"
        ));
    }
    Finding::new(AREA, name, State::Ok, value)
}

/// The output of `ethtool -k`.
struct Offloads {
    text: String,
    missing: Vec<&'static str>,
}

fn offloads(text: &str) -> Offloads {
    let is_on = |name: &str| {
        text.lines()
            .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'))
            .is_some_and(|state| state.trim().starts_with("on"))
    };
    let features = [
        ("GSO", "generic-segmentation-offload", true),
        ("GRO", "generic-receive-offload", true),
        ("UDP segmentation", "tx-udp-segmentation", false),
    ];
    let word = |on| if on { "on" } else { "off" };
    Offloads {
        text: features
            .iter()
            .map(|(short, name, _)| format!("{short} {}", word(is_on(name))))
            .collect::<Vec<_>>()
            .join(", "),
        missing: features
            .iter()
            .filter(|(_, name, wanted)| *wanted && !is_on(name))
            .map(|(short, ..)| *short)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn what_ethtool_says() {
        let text = "Features for veth0:\nrx-checksumming: on\ngeneric-segmentation-offload: on\n\
            generic-receive-offload: off [requested on]\ntx-udp-segmentation: on [fixed]\n";
        let found = offloads(text);
        assert_eq!(found.text, "GSO on, GRO off, UDP segmentation on");
        assert_eq!(found.missing, ["GRO"]);
    }

    #[test]
    fn addresses_and_what_is_left_out() {
        let of = |name: &str, address: &str, unfit| Interface {
            name: name.to_owned(),
            address: address.parse().unwrap(),
            prefix: 24,
            carriers: Vec::new(),
            unfit,
        };
        let bridge = Some(Unfit::VirtualBridge);
        let all = [
            of("lo", "127.0.0.1", Some(Unfit::Loopback)),
            of("docker0", "172.17.0.1", bridge),
            of("eth0", "10.0.0.1", None),
            of("eth1", "10.0.1.1", None),
            of("eth1", "fd01::1", None),
            of("docker1", "172.18.0.1", bridge),
        ];
        let choice = |interface| {
            let wish = Wish {
                interface,
                ..Wish::default()
            };
            address::choose(&wish, &all, || None)
        };
        let strict = |path: String| if path.ends_with("eth1/rp_filter") { "1" } else { "0" }.to_owned();
        let found = rails(choice(None), strict);
        let said: Vec<_> = found.iter().map(|row| (row.state, &*row.name, &*row.value)).collect();
        let chosen = "eth0 10.0.0.1: the first way out of this host; eth1 10.0.1.1: another way out of this host; \
                      eth1 fd01::1: for hosts without addresses of the family of the others";
        assert_eq!(
            said,
            [
                (State::Ok, "addresses, several hosts", chosen),
                (
                    State::None,
                    "not for several hosts",
                    "docker0, docker1: a bridge without a device of this machine"
                ),
                (State::None, "rail by eth1", "only to its own network"),
            ]
        );
        assert!(found[2].advice.as_ref().unwrap().contains("eth1.rp_filter=2"));
        let found = rails(choice(Some("eth7")), strict);
        assert_eq!((found.len(), found[0].state), (1, State::Could));
        assert!(
            found[0].value.starts_with("HIKYAKU_IFACE=eth7: no interface fits"),
            "{}",
            found[0].value
        );
    }

    #[test]
    fn advice_fits_the_reason() {
        let of = |number: u8| Interface {
            name: format!("eth{number}"),
            address: Ipv4Addr::new(10, 0, number, 1).into(),
            prefix: 24,
            carriers: vec!["eth0".to_owned(); usize::from(number == 1)],
            unfit: None,
        };
        let all: Vec<Interface> = (0..8).map(of).collect();
        let twice = (
            "eth0: eth0 names it again: it counts once",
            "name it once in HIKYAKU_IFACE",
        );
        let many = "a process has at most 6 addresses";
        let few = "name those to use in HIKYAKU_IFACE, 6 at most";
        let (seven, eight) = (format!("eth6: {many}"), format!("eth7: {many}"));
        let carried = (
            "eth1: another one uses the device eth0",
            "HIKYAKU_IFACE takes them all the same, if it names all interfaces to use",
        );
        for (interface, wanted) in [
            (Some("eth0,eth0"), vec![twice]),
            (Some("eth0,eth1,eth2,eth3,eth4,eth5,eth6"), vec![(&*seven, few)]),
            (None, vec![carried, (&*eight, few)]),
        ] {
            let wish = Wish {
                interface,
                ..Wish::default()
            };
            let found = rails(address::choose(&wish, &all, || None), |_| "0".to_owned());
            let said: Vec<_> = { found[1..].iter() }
                .map(|row| (&*row.value, row.advice.as_deref().unwrap()))
                .collect();
            assert_eq!(said, wanted);
        }
    }

    #[test]
    fn two_interfaces_of_one_network() {
        let of = |name: &str, address: &str| Interface {
            name: name.to_owned(),
            address: address.parse().unwrap(),
            prefix: 24,
            carriers: Vec::new(),
            unfit: None,
        };
        let apart = [of("eth0", "10.0.0.1"), of("eth1", "10.0.1.1")];
        assert_eq!(shared_networks(&apart, |_| "0".to_owned()), []);
        let together = [of("eth0", "10.0.0.1"), of("eth1", "10.0.0.2")];
        let defaults = |path: String| if path.ends_with("rp_filter") { "1" } else { "0" }.to_owned();
        let found = &shared_networks(&together, defaults)[0];
        assert_eq!((found.state, &*found.name), (State::Could, "eth0 + eth1"));
        let advice = found.advice.as_ref().unwrap();
        for wanted in ["eth1.arp_ignore=1", "eth0.arp_announce=2", "eth1.rp_filter=2"] {
            assert!(advice.contains(wanted), "{advice}");
        }
        let label = Interface {
            carriers: vec!["eth0".to_owned()],
            ..of("eth0:1", "10.0.0.2")
        };
        assert_eq!(
            shared_networks(&[of("eth0", "10.0.0.1"), label], |_| "0".to_owned()),
            []
        );
        let good = |path: String| {
            if path.ends_with("arp_announce") || path.ends_with("rp_filter") {
                "2"
            } else {
                "1"
            }
            .to_owned()
        };
        let found = &shared_networks(&together, good)[0];
        assert_eq!((found.state, &found.advice), (State::Ok, &None));
    }

    #[test]
    fn small_buffers() {
        let small = limit("rmem_max", 212_992);
        assert_eq!((small.state, small.value.as_str()), (State::Could, "208 KiB"));
        assert!(small.advice.unwrap().contains("net.core.rmem_max=4194304"));
        assert_eq!(limit("rmem_max", BUFFER).advice, None);
    }
}
