//! The network interfaces of this host, and which of them are no way out of it.

use std::{
    fmt, fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use nix::{
    ifaddrs::getifaddrs,
    net::if_::InterfaceFlags,
    sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage},
};

use super::driver::Drivers;

/// Levels of devices below an interface: a bridge over a bond of VLANs has three.
const MOST_LEVELS: usize = 8;

/// Why an interface is not used unless it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It leads to this host only.
    Loopback,
    /// A bridge between containers or virtual machines of this host: no device of the machine is in it.
    VirtualBridge,
    /// The bridge that it belongs to counts.
    InBridge,
    /// The bond that it belongs to counts.
    InBond,
    /// What goes through it leaves by another interface.
    Tunnel,
    /// A device of Open vSwitch: by which interface packets leave, if by any, only the switch knows.
    VirtualSwitch,
    /// Nothing is behind it: what it is sent is dropped, or comes back to this host.
    Nowhere,
    /// No cable is plugged in, or the other end is down.
    NoCarrier,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::VirtualBridge => "a bridge without a device of this machine",
            Self::InBridge => "a port of a bridge",
            Self::InBond => "a member of a bond",
            Self::Tunnel => "a tunnel",
            Self::VirtualSwitch => "a device of Open vSwitch",
            Self::Nowhere => "nothing is behind it",
            Self::NoCarrier => "no carrier",
        })
    }
}

/// One address of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, for instance `eth0`, or the label of its address, `eth0:1`.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// Bits of the address that are the network.
    pub prefix: u8,
    /// The devices that carry it, if it is a VLAN, a bridge, a bond, or a label: `eth0` for `eth0.5` and `eth0:1`.
    pub carriers: Vec<String>,
    /// Why it is not used unless it is named.
    pub unfit: Option<Unfit>,
}

impl Interface {
    /// Returns whether `address` is in the interface's network.
    #[must_use]
    pub fn shares_network(&self, address: IpAddr) -> bool {
        in_network(address, self.address, self.prefix.into())
    }

    /// Its address means nothing without the link.
    pub(super) fn is_link_local(&self) -> bool {
        match self.address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }
    }

    /// The names of the interface and of all devices that carry it.
    pub(super) fn devices(&self) -> impl Iterator<Item = &str> {
        [&self.name].into_iter().chain(&self.carriers).map(String::as_str)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.address)
    }
}

/// The addresses of this host's interfaces that are up. Link-local IPv6 addresses are left out: they mean nothing
/// without the link.
#[must_use]
pub fn interfaces() -> Vec<Interface> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    let up = all.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP));
    let drivers = Drivers::new();
    up.filter_map(|interface| {
        let address = ip_of(&interface.address?).filter(|address| !is_link_local(address))?;
        let mask = interface.netmask.as_ref().and_then(|mask| mask_of(mask, address));
        let (device, label) = device_of(&interface.interface_name);
        let folder = Path::new("/sys/class/net").join(device);
        Some(Interface {
            address,
            prefix: mask.unwrap_or_else(|| bits(address).1 as u8),
            unfit: unfit(interface.flags, &folder, || drivers.of(device)),
            carriers: label
                .map(|_| device.to_owned())
                .into_iter()
                .chain(carriers(&folder))
                .collect(),
            name: interface.interface_name,
        })
    })
    .collect()
}

/// The device, and the rest of a label (`eth0:1` is another address of `eth0`).
fn device_of(name: &str) -> (&str, Option<&str>) {
    name.split_once(':')
        .map_or((name, None), |(device, label)| (device, Some(label)))
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| Some(IpAddr::V6(address.as_sockaddr_in6()?.ip())))
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// The bits of a mask that are set.
fn mask_of(mask: &SockaddrStorage, of: IpAddr) -> Option<u8> {
    // A mask of no bits has no family on some kernels.
    if mask.family() == Some(AddressFamily::Unspec) {
        return Some(0);
    }
    let bits = match ip_of(mask)? {
        IpAddr::V4(v4) if of.is_ipv4() => v4.to_bits().count_ones(),
        IpAddr::V6(v6) if of.is_ipv6() => v6.to_bits().count_ones(),
        _ => return None,
    };
    u8::try_from(bits).ok()
}

/// Why the interface with this folder in `/sys/class/net` is no way out of this host. `driver`: the name of its driver.
fn unfit(flags: InterfaceFlags, folder: &Path, driver: impl FnOnce() -> Option<String>) -> Option<Unfit> {
    let has = |name: &str| folder.join(name).exists();
    let is = |flag| flags.contains(flag);
    if is(InterfaceFlags::IFF_LOOPBACK) {
        Some(Unfit::Loopback)
    } else if has("bridge") && !below(folder).iter().any(|device| has_hardware(device)) {
        Some(Unfit::VirtualBridge)
    } else if has("brport") {
        Some(Unfit::InBridge)
    } else if has("bonding_slave") {
        Some(Unfit::InBond)
    } else if is(InterfaceFlags::IFF_POINTOPOINT) {
        Some(Unfit::Tunnel)
    } else if !is(InterfaceFlags::IFF_RUNNING) {
        Some(Unfit::NoCarrier)
    } else {
        match driver().as_deref() {
            Some("openvswitch") => Some(Unfit::VirtualSwitch),
            Some("dummy" | "ifb") => Some(Unfit::Nowhere),
            _ => None,
        }
    }
}

/// The folders of all devices below that one; a folder that cannot be read has none.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut level = vec![folder.to_owned()];
    for _ in 0..MOST_LEVELS {
        let entries = level
            .iter()
            .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        let lower = entries.filter_map(|entry| {
            let name = entry.file_name();
            let name = name.to_str()?.strip_prefix("lower_")?;
            Some(folder.with_file_name(name))
        });
        level = lower.filter(|folder| !all.contains(folder)).collect();
        all.extend(level.iter().cloned());
    }
    all
}

fn has_hardware(folder: &Path) -> bool {
    folder.join("device").exists()
}

fn carriers(folder: &Path) -> Vec<String> {
    let names = below(folder).into_iter();
    names
        .filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
        .collect()
}

/// The address as a number, and how many bits it has.
pub(super) fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

/// Returns whether the first `length` bits of both are the same.
pub(super) fn in_network(address: IpAddr, network: IpAddr, length: u32) -> bool {
    let ((address, width), (network, other)) = (bits(address), bits(network));
    // A shift by the full width is undefined.
    width == other && (address ^ network).checked_shr(width - length).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder like `/sys/class/net`, with these files in it.
    fn net(files: &[&str]) -> tempdir::Folder {
        let folder = tempdir::Folder::new();
        for file in files {
            let path = folder.0.join(file);
            fs::create_dir_all(path).unwrap();
        }
        folder
    }

    mod tempdir {
        use std::{fs, path::PathBuf, process};

        pub(super) struct Folder(pub(super) PathBuf);

        impl Folder {
            pub(super) fn new() -> Self {
                use std::sync::atomic::{AtomicU32, Ordering};
                static NEXT: AtomicU32 = AtomicU32::new(0);
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let name = format!("hikyaku-interfaces-{}-{number}", process::id());
                let folder = std::env::temp_dir().join(name);
                fs::create_dir_all(&folder).unwrap();
                Self(folder)
            }
        }

        impl Drop for Folder {
            fn drop(&mut self) {
                let _ = fs::remove_dir_all(&self.0);
            }
        }
    }

    #[test]
    fn bridges_bonds_and_tunnels_are_known_by_what_they_are() {
        let net = net(&[
            "eth0/device",
            "eth1/device",
            "eth2/device",
            "eth2/brport",
            "eth3/bonding_slave",
            "docker0/bridge",
            "docker0/lower_veth7",
            "veth7/brport",
            "br0/bridge",
            "br0/lower_eth2",
            "bond0/lower_eth3",
            "eth0.5/lower_eth0",
            "tun0",
        ]);
        let flags = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        let driver = |name: &str| match name {
            "ovs-br" => "openvswitch",
            "dummy0" => "dummy",
            "ifb0" => "ifb",
            _ => "veth",
        };
        let of = |name: &str, flags| unfit(flags, &net.0.join(name), || Some(driver(name).to_owned()));
        assert_eq!(of("eth0", flags), None);
        assert_eq!(of("eth2", flags), Some(Unfit::InBridge));
        assert_eq!(of("eth3", flags), Some(Unfit::InBond));
        assert_eq!(of("docker0", flags), Some(Unfit::VirtualBridge));
        assert_eq!(of("br0", flags), None);
        assert_eq!(of("bond0", flags), None);
        assert_eq!(of("tun0", flags | InterfaceFlags::IFF_POINTOPOINT), Some(Unfit::Tunnel));
        assert_eq!(of("ovs-br", flags), Some(Unfit::VirtualSwitch));
        assert_eq!(of("dummy0", flags), Some(Unfit::Nowhere));
        assert_eq!(of("ifb0", flags), Some(Unfit::Nowhere));
        assert_eq!(unfit(flags, &net.0.join("eth0"), || None), None);
        assert_eq!(of("eth1", InterfaceFlags::IFF_UP), Some(Unfit::NoCarrier));
        assert_eq!(of("lo", flags | InterfaceFlags::IFF_LOOPBACK), Some(Unfit::Loopback));
        assert_eq!(carriers(&net.0.join("eth0.5")), ["eth0"]);
        assert_eq!(carriers(&net.0.join("br0")), ["eth2"]);
        assert!(carriers(&net.0.join("eth0")).is_empty());
    }

    #[test]
    fn devices_in_a_circle_end() {
        let net = net(&["a/lower_b", "b/lower_a"]);
        assert_eq!(carriers(&net.0.join("a")), ["b", "a"]);
    }

    #[test]
    fn this_host_has_a_loopback_with_a_network() {
        let all = interfaces();
        let loopback = all.iter().find(|interface| interface.address.is_loopback()).unwrap();
        assert_eq!(loopback.unfit, Some(Unfit::Loopback));
        assert!(loopback.prefix == 8 || loopback.address.is_ipv6());
    }
}
