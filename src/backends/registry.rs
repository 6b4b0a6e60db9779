//! Backends by name.

use std::{error::Error, fmt, io, net::SocketAddr};

use super::Backend;
use crate::environment::Environment;

/// The position of this process in its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of this process, from 0.
    pub process: u32,
    /// Number of processes in the job.
    pub processes: u32,
}

impl Default for Place {
    /// A job of one process.
    fn default() -> Self {
        Self {
            process: 0,
            processes: 1,
        }
    }
}

/// Settings that several backends have; a backend ignores those that it does not know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BindOptions {
    /// Largest datagram, bytes, at least 1; never more than the backend can send. `None`: as large as the backend can
    /// send.
    pub max_datagram: Option<usize>,
    /// Bytes of the system's receive buffer to ask for. `None`: the backend's default.
    pub receive_buffer: Option<usize>,
    /// Bytes of the system's send buffer to ask for. `None`: the backend's default.
    pub send_buffer: Option<usize>,
    /// Use one port to send and another to receive.
    pub separate_send_socket: bool,
    /// The addresses of further ports, one for each further network interface. The backend `udp` opens a socket at each:
    /// see `UdpBackend::bind_ports`. The backend `dpdk` has a port for each of its devices, and an address of its own
    /// settings for those that have none here.
    pub ports: Vec<SocketAddr>,
    /// The device behind the backend `dpdk`: `memif:socket=/tmp/s,role=server`, `af_packet:iface=eth1`, … or several,
    /// separated by commas, each of which is a port. `None`: those that the environment names.
    pub device: Option<String>,
    /// The position of this process in its job. All processes of a job have the same settings, and each takes its part
    /// of them.
    pub place: Place,
    /// The variables from which the backends `dpdk` and `poller` take their settings. Default:
    /// [`Environment::of_process`].
    pub environment: Environment,
}

impl Default for BindOptions {
    fn default() -> Self {
        Self {
            max_datagram: None,
            receive_buffer: None,
            send_buffer: None,
            separate_send_socket: false,
            ports: Vec::new(),
            device: None,
            place: Place::default(),
            environment: Environment::of_process(),
        }
    }
}

/// Why a backend could not be opened.
#[non_exhaustive]
pub enum BindError {
    /// No backend has this name.
    Unknown {
        /// The name.
        name: String,
    },
    /// This build does not have the backend.
    Disabled {
        /// Its name.
        name: &'static str,
        /// The feature of this crate that provides it.
        feature: &'static str,
    },
    /// Not a backend alone: it has a packet layer of its own, and only a transport opens it
    /// ([`Builder::bind`](crate::transport::Builder::bind)).
    Layered {
        /// Its name.
        name: &'static str,
    },
    /// The backend could not be opened.
    Io {
        /// Its name.
        name: &'static str,
        /// The address at which it was to be opened.
        addr: SocketAddr,
        /// The reason.
        source: io::Error,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => {
                let available: Vec<&str> = available().collect();
                write!(
                    f,
                    "there is no backend {name:?}; this build has: {}",
                    available.join(", ")
                )
            }
            Self::Disabled { name, feature } => {
                write!(
                    f,
                    "the backend {name} is not in this build; it takes the feature {feature:?}"
                )
            }
            Self::Layered { name } => write!(
                f,
                "{name} is not a backend alone, but has a packet layer of its own: only a transport opens it"
            ),
            Self::Io { name, addr, source } => write!(f, "the backend {name} cannot be opened at {addr}: {source}"),
        }
    }
}

crate::debug_as_display!(BindError);

impl Error for BindError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Unknown { .. } | Self::Disabled { .. } | Self::Layered { .. } => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Open {
    /// Not in this build.
    #[cfg_attr(
        all(
            feature = "dpdk",
            feature = "loopback",
            feature = "shm",
            feature = "udp",
            target_os = "linux"
        ),
        expect(dead_code, reason = "this build has all")
    )]
    Absent,
    #[cfg_attr(
        not(any(
            feature = "loopback",
            all(any(feature = "dpdk", feature = "udp"), target_os = "linux")
        )),
        expect(dead_code, reason = "this build has none")
    )]
    Backend(fn(SocketAddr, &BindOptions) -> io::Result<Box<dyn Backend>>),
    /// More than a backend: it has a packet layer of its own, so only a transport opens it.
    #[cfg_attr(
        not(all(any(feature = "poller", feature = "shm"), target_os = "linux")),
        expect(dead_code, reason = "that of the poller, and of memory")
    )]
    Layered,
}

/// A row of the table.
struct Known {
    name: &'static str,
    feature: &'static str,
    open: Open,
}

/// All backends. Those of the features `dpdk`, `poller`, `shm` and `udp` exist on Linux only.
const KNOWN: [Known; 5] = [
    Known {
        name: "dpdk",
        feature: "dpdk",
        #[cfg(all(feature = "dpdk", target_os = "linux"))]
        open: Open::Backend(|addr, options| {
            use super::{
                dpdk::{DpdkBackend, DpdkOptions},
                ports::Ports,
            };
            let settings = DpdkOptions::of_process(&options.environment, options.device.as_deref(), options.place)?;
            let any = |port: &DpdkOptions| SocketAddr::new(port.address, addr.port());
            let further = settings.iter().map(any).skip(1);
            let addresses = std::iter::once(addr).chain(options.ports.iter().copied());
            let addresses = addresses.chain(further.skip(options.ports.len()));
            let mut ports = Vec::with_capacity(settings.len());
            for (settings, address) in settings.iter().zip(addresses) {
                let backend = DpdkBackend::bind(address, settings)?;
                ports.push(Box::new(match options.max_datagram {
                    Some(bytes) => backend.max_datagram(bytes),
                    None => backend,
                }) as Box<dyn Backend>);
            }
            match ports.len() {
                1 => Ok(ports.remove(0)),
                _ => Ok(Box::new(Ports::new(ports)?)),
            }
        }),
        #[cfg(not(all(feature = "dpdk", target_os = "linux")))]
        open: Open::Absent,
    },
    Known {
        name: "loopback",
        feature: "loopback",
        #[cfg(feature = "loopback")]
        open: Open::Backend(|addr, options| {
            use super::loopback::{LoopbackBackend, LoopbackOptions};
            let defaults = LoopbackOptions::default();
            let max_datagram = options.max_datagram.unwrap_or(defaults.max_datagram);
            Ok(Box::new(LoopbackBackend::bind_with(
                addr,
                LoopbackOptions {
                    max_datagram,
                    ..defaults
                },
            )?))
        }),
        #[cfg(not(feature = "loopback"))]
        open: Open::Absent,
    },
    Known {
        name: "poller",
        feature: "poller",
        #[cfg(all(feature = "poller", target_os = "linux"))]
        open: Open::Layered,
        #[cfg(not(all(feature = "poller", target_os = "linux")))]
        open: Open::Absent,
    },
    Known {
        name: "shm",
        feature: "shm",
        #[cfg(all(feature = "shm", target_os = "linux"))]
        open: Open::Layered,
        #[cfg(not(all(feature = "shm", target_os = "linux")))]
        open: Open::Absent,
    },
    Known {
        name: "udp",
        feature: "udp",
        #[cfg(all(feature = "udp", target_os = "linux"))]
        open: Open::Backend(|addr, options| {
            use super::udp::{UdpBackend, UdpOptions};
            let defaults = UdpOptions::default();
            let settings = UdpOptions {
                max_datagram: options.max_datagram,
                receive_buffer: options.receive_buffer.unwrap_or(defaults.receive_buffer),
                send_buffer: options.send_buffer.unwrap_or(defaults.send_buffer),
                separate_send_socket: options.separate_send_socket,
                ..defaults
            };
            if options.ports.is_empty() {
                return Ok(Box::new(UdpBackend::bind_with(addr, &settings)?));
            }
            let addresses = [&[addr][..], &options.ports].concat();
            Ok(Box::new(UdpBackend::bind_ports(&addresses, &settings)?))
        }),
        #[cfg(not(all(feature = "udp", target_os = "linux")))]
        open: Open::Absent,
    },
];

/// The names of the backends in this build.
pub fn available() -> impl Iterator<Item = &'static str> {
    KNOWN
        .iter()
        .filter(|known| !matches!(known.open, Open::Absent))
        .map(|known| known.name)
}

/// Returns whether this backend has addresses of its own, none of which is one of the kernel's. Bound to the wildcard,
/// such a backend takes the address of its settings.
#[must_use]
pub fn has_own_addresses(name: &str) -> bool {
    name == "dpdk"
}

/// Returns whether this backend opens a port at each of several addresses of the kernel ([`BindOptions::ports`]).
#[must_use]
pub fn has_ports(name: &str) -> bool {
    name == "udp"
}

/// Opens the backend called `name` at `addr`; port 0 picks a free one.
///
/// # Errors
/// See [`BindError`].
pub fn bind(name: &str, addr: SocketAddr, options: &BindOptions) -> Result<Box<dyn Backend>, BindError> {
    let Some(known) = KNOWN.iter().find(|known| known.name == name) else {
        return Err(BindError::Unknown { name: name.to_owned() });
    };
    let Known { name, feature, open } = *known;
    match open {
        Open::Absent => Err(BindError::Disabled { name, feature }),
        Open::Layered => Err(BindError::Layered { name }),
        Open::Backend(open) => open(addr, options).map_err(|source| BindError::Io { name, addr, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_opens_or_says_what_it_takes() {
        for known in KNOWN {
            let options = BindOptions {
                max_datagram: Some(1000),
                ..BindOptions::default()
            };
            match bind(known.name, "127.0.0.1:0".parse().unwrap(), &options) {
                Ok(backend) => {
                    assert_eq!(
                        (backend.name(), backend.capabilities().max_datagram),
                        (known.name, 1000)
                    );
                    assert!(available().any(|name| name == known.name));
                    let error = bind(known.name, backend.local_addr(), &options).err().unwrap();
                    assert!(matches!(error, BindError::Io { .. }), "{error}");
                }
                Err(error @ BindError::Disabled { .. }) => {
                    assert!(error.to_string().contains(known.feature), "{error}");
                    assert!(available().all(|name| name != known.name));
                }
                Err(BindError::Layered { name }) => assert!(["poller", "shm"].contains(&name)),
                // Here, `dpdk` has no device of its own.
                Err(error) => assert!(
                    known.name == "dpdk" && error.to_string().contains("DPDK device"),
                    "{error}"
                ),
            }
        }
    }

    #[test]
    fn an_unknown_name_lists_those_there_are() {
        let error = bind("pigeon", "127.0.0.1:0".parse().unwrap(), &BindOptions::default())
            .err()
            .unwrap();
        assert!(error.to_string().contains("pigeon"));
        assert!(available().all(|name| error.to_string().contains(name)), "{error}");
    }
}
