//! Settings of the backend, from values and from the environment, and the names of devices.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use super::error::DpdkError;
use crate::environment::Environment;

/// The address of process 0 of a job.
pub(super) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
/// MTU of Ethernet.
const ETHERNET_MTU: u16 = 1500;
/// Bytes before each frame in virtio's queues.
const VIRTIO_HEADER: u16 = 12;
/// Largest MTU, and that of devices that are memory: fewer packets mean less work (measured over memif).
const MOST_MTU: u16 = 16_000;
/// The default number of packets that wait in a queue …
const QUEUE: u16 = 1024;
/// … and the default where the link is memory. The queue's memory is used over and over, and a small queue stays in a
/// cache (measured over memif).
const MEMORY_QUEUE: u16 = 256;
/// Bytes of the largest frame that fits af_packet's default ring.
const AF_PACKET_SMALL: u16 = 1900;

/// The source of DPDK's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Memory {
    /// [`InMemory`](Self::InMemory) if [`memory_mb`](DpdkOptions::memory_mb) of hugepages are free, else
    /// [`NoHuge`](Self::NoHuge). Processes take hugepages at once, one after the other, so that none counts on pages
    /// that another one takes. (A process that takes hugepages in other ways can still come in between: then DPDK does
    /// not start.)
    #[default]
    Auto,
    /// Hugepages without files (`--in-memory`): no files are left behind, and no mount is needed.
    InMemory,
    /// Hugepages in files of a mounted hugetlbfs, as processes that share a port need.
    Hugepages,
    /// Ordinary pages (`--no-huge`): needs neither root nor reserved pages. Not for real cards.
    NoHuge,
}

const MEMORIES: [(&str, Memory); 4] = [
    ("auto", Memory::Auto),
    ("in-memory", Memory::InMemory),
    ("hugepages", Memory::Hugepages),
    ("no-huge", Memory::NoHuge),
];

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = MEMORIES.iter().find(|(_, memory)| memory == self);
        f.write_str(found.map_or("unknown", |(name, _)| name))
    }
}

/// UDP checksums of datagrams that are sent. A checksum that arrives is always checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Checksum {
    /// Checksums unless the device is memory, where no bit flips. The port computes them if it can.
    #[default]
    Auto,
    /// Always checksums. The port computes them if it can.
    On,
    /// No checksums: the field is zero, which IPv4 allows. IPv6 does not, so its datagrams have checksums all the same.
    Off,
}

/// Settings of a [`DpdkBackend`](super::DpdkBackend).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DpdkOptions {
    /// The device whose port carries the datagrams.
    pub device: Device,
    /// The port's address if none is given when it is opened. Default 198.18.0.1, of a network that is reserved for
    /// measurements between devices (RFC 2544).
    pub address: IpAddr,
    /// The source of memory. The first port of a process starts DPDK, so only its setting counts.
    pub memory: Memory,
    /// Memory of all ports of the process, MiB. 64 to 65,536, default 256. Without hugepages it is a limit, and pages
    /// are taken when used; with [`Memory::Auto`] this many MiB must be free, and are taken at the start.
    pub memory_mb: u32,
    /// Bytes of an IP packet, 576 to 16,000; the other end of the link must accept as many. `None`: 16,000 where the
    /// link is memory (memif, vhost, virtio-user, ring), else 1500.
    pub mtu: Option<u16>,
    /// Packets that wait in each queue of the port, 64 to 16,384; the device takes the nearest number that it supports.
    /// `None`: 256 where the link is memory, else 1024.
    pub descriptors: Option<u16>,
    /// Eager queues of the port in each direction, 1 to 64. Each backend of a [`DpdkPort`](super::DpdkPort) takes some
    /// of them; a backend that has the port for itself takes all. Default 1.
    pub queues: u16,
    /// Further queues in each direction, 0 to 64, each for one backend alone
    /// ([`DpdkPort::bind_own`](super::DpdkPort::bind_own)). Default 0.
    pub own_queues: u16,
    /// UDP checksums.
    pub checksum: Checksum,
    /// Look for cards (else `--no-pci`). Off by default, because the kernel loses a card that DPDK takes.
    pub pci: bool,
    /// Further arguments of EAL, passed on unchanged.
    pub eal: Vec<String>,
    /// How long opening waits for the other end of a link that needs it to start (a memif server). Default 10 s.
    pub link_timeout: Duration,
}

impl DpdkOptions {
    /// The defaults, with this device.
    #[must_use]
    pub fn new(device: Device) -> Self {
        Self {
            device,
            address: ADDRESS,
            memory: Memory::default(),
            memory_mb: 256,
            mtu: None,
            descriptors: None,
            queues: 1,
            own_queues: 0,
            checksum: Checksum::default(),
            pci: false,
            eal: Vec::new(),
            link_timeout: Duration::from_secs(10),
        }
    }

    /// The defaults, changed by the variables of the part `Dpdk` in
    /// [`VARIABLES`](crate::environment::VARIABLES). A `device` that is not `None` replaces
    /// `HIKYAKU_DPDK_DEVICE`.
    ///
    /// # Errors
    /// [`DpdkError::Setting`]: a variable has no valid value, or no device is named.
    pub fn from_environment(environment: &Environment, device: Option<&str>) -> Result<Self, DpdkError> {
        Self::from_variables(device, |name| environment.text(name).map(Cow::into_owned))
    }

    pub(super) fn from_variables(
        device: Option<&str>,
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, DpdkError> {
        let device = device.map(str::to_owned).or_else(|| get("HIKYAKU_DPDK_DEVICE"));
        let device = device.unwrap_or_default();
        if Device::each(&device).len() > 1 {
            return Err(DpdkError::Setting {
                name: "DPDK device".to_owned(),
                value: device,
                expected: "one device",
            });
        }
        let mut options = Self::new(Device::parse(&device)?);
        let setting = |name: &str, expected, apply: &mut dyn FnMut(&str) -> Option<()>| {
            let Some(value) = get(name) else { return Ok(()) };
            apply(value.trim()).ok_or_else(|| DpdkError::Setting {
                name: name.to_owned(),
                value: value.clone(),
                expected,
            })
        };
        setting(
            "HIKYAKU_DPDK_MEMORY",
            "auto, in-memory, hugepages or no-huge",
            &mut |value| {
                options.memory = MEMORIES.iter().find(|(name, _)| *name == value)?.1;
                Some(())
            },
        )?;
        setting(
            "HIKYAKU_DPDK_ADDRESS",
            "IP addresses, separated by commas",
            &mut |value| {
                options.address = *addresses(value)?.first()?;
                Some(())
            },
        )?;
        setting("HIKYAKU_DPDK_MEMORY_MB", "a number from 64 to 65536", &mut |value| {
            options.memory_mb = value.parse().ok().filter(|mb| (64..=65_536).contains(mb))?;
            Some(())
        })?;
        setting("HIKYAKU_DPDK_MTU", "a number from 576 to 16000", &mut |value| {
            options.mtu = Some(value.parse().ok().filter(|mtu| (576..=MOST_MTU).contains(mtu))?);
            Some(())
        })?;
        setting("HIKYAKU_DPDK_DESCRIPTORS", "a number from 64 to 16384", &mut |value| {
            options.descriptors = Some(value.parse().ok().filter(|count| (64..=16_384).contains(count))?);
            Some(())
        })?;
        setting(
            "HIKYAKU_DPDK_QUEUES",
            "a number from 1 to 64, or two, as 4+2",
            &mut |value| {
                let (eager, own) = value.split_once('+').unwrap_or((value, "0"));
                options.queues = eager.parse().ok().filter(|count| (1..=64).contains(count))?;
                options.own_queues = own.parse().ok().filter(|count| (0..=64).contains(count))?;
                Some(())
            },
        )?;
        setting("HIKYAKU_DPDK_CHECKSUM", "auto, on or off", &mut |value| {
            options.checksum = match value {
                "auto" => Checksum::Auto,
                "on" => Checksum::On,
                "off" => Checksum::Off,
                _ => return None,
            };
            Some(())
        })?;
        setting("HIKYAKU_DPDK_PCI", "on or off", &mut |value| {
            options.pci = match value {
                "on" => true,
                "off" => false,
                _ => return None,
            };
            Some(())
        })?;
        setting("HIKYAKU_DPDK_EAL", "arguments separated by spaces", &mut |value| {
            options.eal = value.split_whitespace().map(str::to_owned).collect();
            Some(())
        })?;
        Ok(options)
    }

    /// Bytes of an IP packet that the port will take: [`mtu`](Self::mtu), or the default of the device.
    #[must_use]
    pub fn packet_size(&self) -> u16 {
        let usual = if self.device.is_memory() {
            MOST_MTU
        } else {
            ETHERNET_MTU
        };
        self.mtu.unwrap_or(usual).clamp(576, MOST_MTU)
    }

    /// Packets that each queue of the port is to hold: [`descriptors`](Self::descriptors), or the default of the
    /// device.
    #[must_use]
    pub fn queue_size(&self) -> u16 {
        let usual = if self.device.is_memory() { MEMORY_QUEUE } else { QUEUE };
        self.descriptors.unwrap_or(usual)
    }
}

/// Reads a list with an address for each port.
pub(super) fn addresses(list: &str) -> Option<Vec<IpAddr>> {
    list.split(',').map(|address| address.trim().parse().ok()).collect()
}

/// Kinds of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memif,
    AfPacket,
    AfXdp,
    Vhost,
    VirtioUser,
    Ring,
    /// Another driver, by its DPDK name.
    Other,
    /// A device that this process does not create: a card, or a device of EAL's arguments.
    Port,
}

/// (short name, name of DPDK's driver)
const KINDS: [(&str, &str, Kind); 7] = [
    ("memif", "net_memif", Kind::Memif),
    ("af_packet", "net_af_packet", Kind::AfPacket),
    ("af_xdp", "net_af_xdp", Kind::AfXdp),
    ("vhost", "eth_vhost", Kind::Vhost),
    ("virtio-user", "virtio_user", Kind::VirtioUser),
    ("virtio_user", "virtio_user", Kind::VirtioUser),
    ("ring", "net_ring", Kind::Ring),
];

/// The beginnings of DPDK's names of drivers.
const DRIVERS: [&str; 3] = ["net_", "eth_", "virtio_user"];

const EXPECTED: &str = "a device: memif:socket=PATH,role=server (or client), af_packet:iface=NAME, af_xdp:iface=NAME, \
     vhost:iface=PATH, virtio-user:path=PATH, ring, a device in EAL's words (net_null0,size=64), or port:NAME for one that \
     EAL finds itself";

/// A device by name.
///
/// | name | the link | further arguments |
/// |---|---|---|
/// | `memif:socket=/tmp/s,role=server` | memory between two processes; the other one has `role=client` | `id`, `rsize`, `zero-copy` |
/// | `af_packet:iface=eth1` | an interface of the kernel, by packet sockets (root) | `qpairs`, `qdisc_bypass` |
/// | `af_xdp:iface=eth1` | an interface of the kernel, by XDP sockets (root) | `busy_budget`, `xdp_prog` |
/// | `vhost:iface=/tmp/s`, `virtio-user:path=/tmp/s` | memory between two processes, by the rules of virtio | `queues` |
/// | `ring` | to itself | |
/// | `net_null0,size=64` | any device that DPDK knows by these words (`--vdev`) | |
/// | `port:0000:03:00.0` | a port that EAL finds itself: a card ([`DpdkOptions::pci`]) | |
///
/// The backend adds arguments that follow from the settings (buffer sizes from the MTU, ring sizes from the
/// descriptors), unless they are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    kind: Kind,
    /// DPDK's name of the driver, or of the device with its number.
    name: String,
    arguments: Vec<(String, Option<String>)>,
}

impl Device {
    /// Parses the name of a device.
    ///
    /// # Errors
    /// [`DpdkError::Setting`] lists the names.
    pub fn parse(text: &str) -> Result<Self, DpdkError> {
        let wrong = || DpdkError::Setting {
            name: "DPDK device".to_owned(),
            value: text.to_owned(),
            expected: EXPECTED,
        };
        if let Some(port) = text.strip_prefix("port:").filter(|port| !port.is_empty()) {
            return Ok(Self {
                kind: Kind::Port,
                name: port.to_owned(),
                arguments: Vec::new(),
            });
        }
        if text.contains(['\0', ' ', '\n']) {
            return Err(wrong());
        }
        let (head, rest) = text.split_once([':', ',']).unwrap_or((text, ""));
        let arguments = rest
            .split(',')
            .filter(|argument| !argument.is_empty())
            .map(|argument| match argument.split_once('=') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (argument.to_owned(), None),
            })
            .collect();
        let short = KINDS.iter().find(|(name, ..)| *name == head);
        let (kind, name) = if let Some(&(_, driver, kind)) = short {
            (kind, driver.to_owned())
        } else if DRIVERS.iter().any(|prefix| head.starts_with(prefix)) {
            let known = KINDS
                .iter()
                .find(|(_, driver, _)| head.trim_end_matches(|c: char| c.is_ascii_digit()) == *driver);
            (known.map_or(Kind::Other, |&(.., kind)| kind), head.to_owned())
        } else {
            return Err(wrong());
        };
        let device = Self { kind, name, arguments };
        let needed = match kind {
            Kind::Memif => "socket",
            Kind::AfPacket | Kind::AfXdp | Kind::Vhost => "iface",
            Kind::VirtioUser => "path",
            Kind::Ring | Kind::Other | Kind::Port => return Ok(device),
        };
        match device.argument(needed) {
            Some(value) if !value.is_empty() => Ok(device),
            _ => Err(wrong()),
        }
    }

    /// The devices in a list: behind a comma there is another device, or an argument of the one before.
    pub(super) fn each(list: &str) -> Vec<&str> {
        let mut devices = Vec::new();
        let mut begin = 0;
        for (comma, _) in list.match_indices(',') {
            if Self::begins(&list[comma + 1..]) {
                devices.push(&list[begin..comma]);
                begin = comma + 1;
            }
        }
        devices.push(&list[begin..]);
        devices
    }

    /// The text begins with the name of a device.
    fn begins(text: &str) -> bool {
        let head = text.split([':', ',']).next().unwrap_or_default();
        let is_driver = || DRIVERS.iter().any(|prefix| head.starts_with(prefix)) && !head.contains('=');
        head == "port" || KINDS.iter().any(|(name, ..)| *name == head) || is_driver()
    }

    /// The same device with one more argument, unless it has that argument already.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        if self.kind != Kind::Port && self.arguments.iter().all(|(known, _)| known != key) {
            self.arguments.push((key.to_owned(), Some(value.to_owned())));
        }
        self
    }

    /// The value of the argument `key`.
    fn argument(&self, key: &str) -> Option<&str> {
        self.arguments
            .iter()
            .find(|(known, _)| known == key)
            .and_then(|(_, value)| value.as_deref())
    }

    /// Both mean the same device, whatever else they say about it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let keys: &[&str] = match self.kind {
            Kind::Memif => &["socket", "id", "role"],
            Kind::AfPacket | Kind::AfXdp | Kind::Vhost => &["iface"],
            Kind::VirtioUser => &["path"],
            Kind::Ring | Kind::Other | Kind::Port => &[],
        };
        self.kind == other.kind
            && (!keys.is_empty() || self.name == other.name)
            && keys.iter().all(|key| self.argument(key) == other.argument(key))
    }

    /// The link is memory only.
    pub(super) fn is_memory(&self) -> bool {
        matches!(self.kind, Kind::Memif | Kind::Ring | Kind::Vhost | Kind::VirtioUser)
    }

    /// When the sending call returns, the device has copied the packets and does not refer to them any more; and a
    /// packet may have several segments.
    pub(super) fn copies_when_sent(&self) -> bool {
        self.kind == Kind::Memif && !self.shows_memory()
    }

    /// The other end sees all of this process's packet buffers. Once the two ends are connected, DPDK's driver closes
    /// EAL's file of that memory. From then on EAL must neither extend nor shrink the memory, and cannot show it to
    /// another end.
    pub(super) fn shows_memory(&self) -> bool {
        let without_copies = self.argument("zero-copy").is_some_and(|zero_copy| zero_copy != "no");
        // (The driver always copies at the server's end, whatever its arguments say.)
        self.kind == Kind::Memif && without_copies && self.argument("role") == Some("client")
    }

    /// The device starts only when the other end is there.
    pub(super) fn needs_other_end(&self) -> bool {
        self.kind == Kind::Memif && self.argument("role") == Some("client")
    }

    /// The link joins exactly two processes.
    pub(super) fn is_pair(&self) -> bool {
        matches!(self.kind, Kind::Memif | Kind::Vhost | Kind::VirtioUser)
    }

    /// The device is a memif without a `role`.
    pub(super) fn lacks_role(&self) -> bool {
        self.kind == Kind::Memif && self.argument("role").is_none()
    }

    /// The link leads to no other process.
    pub(super) fn is_ring(&self) -> bool {
        self.kind == Kind::Ring
    }

    /// This process creates the device, and removes it again.
    pub(super) fn is_virtual(&self) -> bool {
        self.kind != Kind::Port
    }

    /// Name and arguments in DPDK's notation. `number` makes the name unique in the process.
    pub(super) fn words(&self, number: u32, mtu: u16, descriptors: u16, queues: u16) -> (String, String) {
        let mut device = self.clone();
        if KINDS.iter().any(|(_, driver, _)| *driver == device.name) {
            device.name += &number.to_string();
        }
        match self.kind {
            Kind::Memif => {
                let abstract_socket = if self.argument("socket").is_some_and(|path| path.starts_with('/')) {
                    "no"
                } else {
                    "yes"
                };
                // Room for the headers and a VLAN tag.
                let buffer = (mtu + 18).next_multiple_of(64).max(2048);
                device = device
                    .with("role", "server")
                    .with("id", "0")
                    .with("socket-abstract", abstract_socket)
                    .with("bsize", &buffer.to_string())
                    .with("rsize", &descriptors.max(2).ilog2().min(14).to_string());
            }
            Kind::AfPacket => {
                if mtu + 18 > AF_PACKET_SMALL {
                    device = device
                        .with("framesz", "16384")
                        .with("blocksz", "16384")
                        .with("framecnt", &descriptors.to_string());
                }
                if queues > 1 {
                    device = device.with("qpairs", &queues.to_string());
                }
            }
            // The driver's default is preferred busy polling, which not every kernel and card supports.
            Kind::AfXdp => {
                device = device.with("busy_budget", "0").with("queue_count", &queues.to_string());
            }
            Kind::Vhost | Kind::VirtioUser => device = device.with("queues", &queues.to_string()),
            Kind::Ring | Kind::Other | Kind::Port => {}
        }
        let arguments: Vec<String> = device
            .arguments
            .iter()
            .map(|(key, value)| match value {
                Some(value) => format!("{key}={value}"),
                None => key.clone(),
            })
            .collect();
        (device.name, arguments.join(","))
    }

    /// The least bytes that a packet buffer must hold for this device, without the room before the packet.
    pub(super) fn buffer(&self, mtu: u16) -> u16 {
        let needed = mtu + 18;
        match self.kind {
            Kind::AfPacket if needed > AF_PACKET_SMALL => 16_384,
            Kind::AfXdp => needed.max(2944),
            // The driver counts virtio's header as part of a received packet.
            Kind::VirtioUser => (needed + VIRTIO_HEADER).max(2048),
            _ => needed.max(2048),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (key, value) in &self.arguments {
            write!(f, ",{key}")?;
            if let Some(value) = value {
                write!(f, "={value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{Part, VARIABLES};

    #[test]
    fn devices_by_name() {
        let words = |text: &str, mtu| Device::parse(text).unwrap().words(3, mtu, 1024, 1);
        let (name, arguments) = words("memif:socket=/tmp/s,role=client", 9000);
        assert_eq!(name, "net_memif3");
        assert_eq!(
            arguments,
            "socket=/tmp/s,role=client,id=0,socket-abstract=no,bsize=9024,rsize=10"
        );
        assert!(
            Device::parse("memif:socket=/tmp/s,role=client")
                .unwrap()
                .needs_other_end()
        );
        assert!(!Device::parse("memif:socket=/tmp/s").unwrap().needs_other_end());
        let (_, arguments) = words("memif:socket=name,bsize=4096", 1500);
        assert!(
            arguments.contains("bsize=4096") && arguments.contains("socket-abstract=yes"),
            "{arguments}"
        );
        assert_eq!(
            words("af_packet:iface=eth1", 1500),
            ("net_af_packet3".into(), "iface=eth1".into())
        );
        assert!(words("af_packet:iface=eth1", 9000).1.contains("framesz=16384"));
        assert_eq!(
            words("net_null7,size=64,copy", 1500),
            ("net_null7".into(), "size=64,copy".into())
        );
        assert_eq!(words("net_memif0,socket=/s", 1500).0, "net_memif0");
        assert_eq!(words("port:0000:03:00.0", 1500).0, "0000:03:00.0");
        for wrong in [
            "",
            "memif",
            "memif:socket=",
            "eth0",
            "af_packet",
            "port:",
            "net_null0, size=1",
        ] {
            let error = Device::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("memif:socket=PATH"), "{wrong}: {error}");
        }
    }

    #[test]
    fn settings_of_the_environment() {
        let read = |variables: &'static [(&str, &str)]| {
            DpdkOptions::from_variables(None, |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let options = read(&[
            ("HIKYAKU_DPDK_DEVICE", "ring"),
            ("HIKYAKU_DPDK_ADDRESS", "10.1.2.3"),
            ("HIKYAKU_DPDK_MEMORY", "no-huge"),
            ("HIKYAKU_DPDK_MEMORY_MB", "512"),
            ("HIKYAKU_DPDK_MTU", "4000"),
            ("HIKYAKU_DPDK_DESCRIPTORS", "256"),
            ("HIKYAKU_DPDK_CHECKSUM", "on"),
            ("HIKYAKU_DPDK_PCI", "on"),
            ("HIKYAKU_DPDK_EAL", "--log-level=debug  --huge-unlink"),
        ])
        .unwrap();
        let expected = DpdkOptions {
            address: Ipv4Addr::new(10, 1, 2, 3).into(),
            memory: Memory::NoHuge,
            memory_mb: 512,
            mtu: Some(4000),
            descriptors: Some(256),
            checksum: Checksum::On,
            pci: true,
            eal: vec!["--log-level=debug".into(), "--huge-unlink".into()],
            ..DpdkOptions::new(Device::parse("ring").unwrap())
        };
        assert_eq!(options, expected);
        let ours = VARIABLES.iter().filter(|variable| variable.part == Part::Dpdk);
        // Everything is an argument of DPDK.
        for name in ours
            .map(|variable| variable.name)
            .filter(|name| !name.ends_with("_EAL"))
        {
            let error = DpdkOptions::from_variables(None, |known| {
                let value = if known == name { Some("7 of 9") } else { None };
                value
                    .or_else(|| (known == "HIKYAKU_DPDK_DEVICE").then_some("ring"))
                    .map(str::to_owned)
            });
            let error = error.unwrap_err().to_string();
            assert!(error.contains("7 of 9"), "{name}: {error}");
        }
        assert!(read(&[]).unwrap_err().to_string().contains("memif"));
    }
}
