//! A queue of a port for another process, which shares DPDK's memory with the one that has opened the port (DPDK's
//! primary and secondary processes).
//!
//! The queue has pools of its own in both directions, which no other process uses: packets that a killed process has held
//! are lost to this queue alone.

use std::{fs, io, net::SocketAddr, path::Path, sync::Arc};

use super::{
    DpdkBackend, DpdkError, DpdkOptions, DpdkPort, Pools, eal,
    options::{Device, Memory},
    port::burst_of,
    sys::{BURST, Pool, Port},
};

/// Names of the two pools.
const POOLS: [&str; 2] = ["hikyaku-guest-in", "hikyaku-guest-out"];
/// The number of the other process among those that share the memory; there is no third one.
const NUMBER: u32 = 1;

/// What another process must know to use the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    /// The process that has opened the port.
    pub(crate) process: u32,
    pub(crate) queue: u16,
    pub(crate) mtu: u16,
    pub(crate) descriptors: u16,
    /// The port's name.
    pub(crate) device: String,
}

/// The queue, at the process that has opened the port.
pub(super) struct GuestQueue {
    pub(super) pools: Pools,
    device: String,
    queue: u16,
}

/// The device, or its memory, must allow it.
pub(super) fn check(options: &DpdkOptions) -> Result<(), DpdkError> {
    let why = if !options.device.copies_when_sent() {
        "of this driver, another process cannot poll a queue (only of memif, with copies): give each process a device"
    } else if options.memory != Memory::Hugepages {
        "a queue for another process needs HIKYAKU_DPDK_MEMORY=hugepages, and a mounted hugetlbfs"
    } else {
        return Ok(());
    };
    Err(DpdkError::Device {
        device: options.device.to_string(),
        source: io::Error::new(io::ErrorKind::Unsupported, why),
    })
}

/// Buffers of each pool.
fn buffers(descriptors: u16) -> u32 {
    (u32::from(descriptors) * 2 + 8 * BURST as u32).next_power_of_two() - 1
}

impl GuestQueue {
    pub(super) fn new(options: &DpdkOptions, device: &str, queue: u16) -> Result<Self, DpdkError> {
        let room = options.device.buffer(options.packet_size());
        let count = buffers(options.queue_size());
        let [receive, send] = POOLS.map(|name| Pool::named(name, count, room));
        Ok(Self {
            pools: Pools {
                receive: receive?,
                send: send?,
            },
            device: device.to_owned(),
            queue,
        })
    }
}

impl DpdkPort {
    /// The queue for another process, if the port has one; `None` with `lost`, if a process that was killed has kept
    /// packets of it.
    pub(crate) fn guest(&self) -> Option<Guest> {
        let guest = self.shared.guest.as_ref()?;
        Some(Guest {
            process: std::process::id(),
            queue: guest.queue,
            mtu: self.shared.options.packet_size(),
            descriptors: self.shared.options.queue_size(),
            device: guest.device.clone(),
        })
    }

    /// Packets of that queue's pools that nobody has given back.
    pub(crate) fn guest_holds(&self) -> u32 {
        let guest = self.shared.guest.as_ref();
        guest.map_or(0, |guest| guest.pools.receive().in_use + guest.pools.send().in_use)
    }
}

impl DpdkBackend {
    /// The queue of another process's port, at an address of that port.
    pub(crate) fn of_guest(addr: SocketAddr, guest: &Guest) -> Result<Self, DpdkError> {
        eal::join(guest.process, NUMBER)?;
        let mut options = DpdkOptions::new(Device::parse("memif:socket=guest")?);
        options.mtu = Some(guest.mtu);
        options.descriptors = Some(guest.descriptors);
        let room = options.device.buffer(options.packet_size());
        let count = buffers(guest.descriptors);
        let [receive, send] = POOLS.map(|name| Pool::find(name, count, room));
        let pools = Pools {
            receive: receive?,
            send: send?,
        };
        let kept = vec![Arc::clone(&pools.receive), Arc::clone(&pools.send)];
        let opened = Port::borrow(&guest.device, guest.queue, guest.descriptors, burst_of(&options), kept)?;
        DpdkPort::of_queue(opened, pools, options).bind(addr, 1)
    }
}

/// Removes the files of this process's hugepages, which DPDK leaves behind.
pub(crate) fn remove_pages() {
    let prefix = format!("{}map_", eal::prefix(std::process::id()));
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let folders = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        words.next().filter(|_| words.next() == Some("hugetlbfs"))
    });
    for folder in folders {
        let files = fs::read_dir(Path::new(folder)).into_iter().flatten().flatten();
        for file in files.filter(|file| file.file_name().to_string_lossy().starts_with(&prefix)) {
            let _ = fs::remove_file(file.path());
        }
    }
}
