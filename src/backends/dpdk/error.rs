//! Errors of opening a port.

use std::{error::Error, fmt, io, net::SocketAddr};

/// Why a [`DpdkBackend`](super::DpdkBackend) could not be opened, and what to do about it.
#[non_exhaustive]
pub enum DpdkError {
    /// An environment variable, or a part of a device's name, has no valid value.
    Setting {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
        /// The values that are allowed.
        expected: &'static str,
    },
    /// The devices do not join the processes of the job.
    Job {
        /// The setting.
        device: String,
        /// Number of processes in the job.
        processes: u32,
        /// The problem.
        why: &'static str,
    },
    /// The backend needs an address of its own.
    Address {
        /// The address that was asked for.
        addr: SocketAddr,
    },
    /// Another backend of the port already has the address.
    AddressTaken {
        /// The address.
        addr: SocketAddr,
    },
    /// The device supports fewer queues than were asked for.
    Queues {
        /// Its name.
        device: String,
        /// Queues that were asked for, in each direction.
        wanted: u16,
        /// The most queues that the device supports.
        most: u16,
    },
    /// Too few queues of the port are free: other backends have the rest.
    NoQueue {
        /// The port's device.
        device: String,
        /// Queues that were asked for.
        wanted: u16,
        /// Queues of this kind that are free.
        left: u16,
    },
    /// EAL, the layer below all of DPDK, did not start.
    Start {
        /// Its arguments.
        arguments: Vec<String>,
        /// The reason.
        source: io::Error,
    },
    /// EAL already runs in this process with other arguments; it starts once per process.
    Started {
        /// The arguments that it runs with.
        running: Vec<String>,
        /// The arguments that were asked for.
        wanted: Vec<String>,
    },
    /// The device could not be made, or no device has this name.
    Device {
        /// Its name with its arguments.
        device: String,
        /// The reason.
        source: io::Error,
    },
    /// There is no memory for packet buffers.
    Pool {
        /// Bytes that the buffers take.
        bytes: usize,
        /// The reason.
        source: io::Error,
    },
    /// The port of the device did not carry out a command.
    Port {
        /// The device's name.
        device: String,
        /// The command.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// DPDK's own thread did not close a device in time; no device can be opened or closed in this process any more.
    Stuck {
        /// The device's name.
        device: String,
    },
}

impl DpdkError {
    /// The other end of the link is there, and does not let this one in.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Port { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused)
    }
}

impl fmt::Display for DpdkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { name, value, expected } => write!(f, "{name}: {value:?} should be {expected}"),
            Self::Job { device, processes, why } => write!(
                f,
                "{device} cannot join the {processes} processes of this job: {why}. Two processes take \
                 memif:socket=PATH; any number takes a device for each on one network, in the order of ranks: \
                 af_packet:iface=A+af_packet:iface=B+…, or one that all hosts call the same (port:0000:03:00.0)"
            ),
            Self::Address { addr } => write!(
                f,
                "{addr} cannot be the address of a DPDK port: it needs an address of its own, which no interface of \
                 the kernel has, and which is no wildcard, no group, and not link-local"
            ),
            Self::AddressTaken { addr } => write!(f, "another backend of this port has the address {addr}"),
            Self::Queues { device, wanted, most } => write!(
                f,
                "the device {device} can have {most} queues in each direction, and not {wanted} (HIKYAKU_DPDK_QUEUES)"
            ),
            Self::NoQueue { device, wanted, left } => write!(
                f,
                "the port {device} has {left} free queues, and not {wanted}: more are made at the start \
                 (HIKYAKU_DPDK_QUEUES)"
            ),
            Self::Start { arguments, source } => write!(
                f,
                "DPDK's environment does not start: {source} (arguments: {}). Without hugepages it takes \
                 HIKYAKU_DPDK_MEMORY=no-huge; hugepages are reserved by `echo 512 > /proc/sys/vm/nr_hugepages`; DPDK \
                 says more with HIKYAKU_DPDK_EAL=--log-level=debug",
                arguments.join(" ")
            ),
            Self::Started { running, wanted } => write!(
                f,
                "DPDK's environment starts once per process, and runs with other settings: {} instead of {}",
                running.join(" "),
                wanted.join(" ")
            ),
            Self::Device { device, source } => write!(
                f,
                "the device {device} cannot be opened: {source}. {}",
                hint(device, source)
            ),
            Self::Pool { bytes, source } => write!(
                f,
                "no memory for packet buffers ({} MB): {source}. HIKYAKU_DPDK_MEMORY_MB gives DPDK more without \
                 hugepages; with them, reserve more of them",
                bytes / 1_000_000
            ),
            Self::Port { device, doing, source } => {
                write!(f, "the port {device}: {doing}: {source}. {}", hint(device, source))
            }
            Self::Stuck { device } => write!(
                f,
                "the port {device} could not be closed within 10 s, because DPDK's own thread is busy, or gone (as in the \
                 child of a fork): no device can be opened in this process any more"
            ),
        }
    }
}

/// The most frequent reason.
fn hint(device: &str, source: &io::Error) -> &'static str {
    let denied = source.kind() == io::ErrorKind::PermissionDenied;
    if device.contains("zero-copy=yes") {
        "A memif client that does not copy needs a server at its socket, and hugepages (HIKYAKU_DPDK_MEMORY=in-memory)"
    } else if device.contains("memif") {
        "A memif client needs a server at its socket, with the same id, and with as many queues or more; the server needs a \
         folder in which it may make the socket"
    } else if device.contains("af_packet") || device.contains("af_xdp") {
        "It needs root (or CAP_NET_RAW, CAP_NET_ADMIN and, for af_xdp, CAP_BPF), and an interface of that name that is up"
    } else if device.contains("net_tap") {
        "It needs root (or CAP_NET_ADMIN) and /dev/net/tun"
    } else if device.contains("vhost") || device.contains("virtio") {
        "virtio-user needs a vhost device at its socket; vhost needs a folder in which it may make the socket"
    } else if denied {
        "It needs root"
    } else {
        "`hikyaku doctor` lists the drivers of this machine"
    }
}

crate::debug_as_display!(DpdkError);

impl Error for DpdkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Start { source, .. }
            | Self::Device { source, .. }
            | Self::Pool { source, .. }
            | Self::Port { source, .. } => Some(source),
            Self::Setting { .. }
            | Self::Job { .. }
            | Self::Address { .. }
            | Self::AddressTaken { .. }
            | Self::Queues { .. }
            | Self::NoQueue { .. }
            | Self::Started { .. }
            | Self::Stuck { .. } => None,
        }
    }
}

impl From<DpdkError> for io::Error {
    fn from(error: DpdkError) -> Self {
        let kind = match &error {
            DpdkError::Setting { .. }
            | DpdkError::Job { .. }
            | DpdkError::Address { .. }
            | DpdkError::Queues { .. } => io::ErrorKind::InvalidInput,
            DpdkError::AddressTaken { .. } => io::ErrorKind::AddrInUse,
            DpdkError::Stuck { .. } => io::ErrorKind::TimedOut,
            _ => error
                .source()
                .and_then(|source| source.downcast_ref::<Self>())
                .map_or(io::ErrorKind::Other, Self::kind),
        };
        Self::new(kind, error)
    }
}
