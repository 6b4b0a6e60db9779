//! Settings of a poller.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use crate::backends::dpdk::DpdkOptions;

/// Settings of a [`Poller`](super::Poller).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PollerOptions {
    /// The port.
    pub dpdk: DpdkOptions,
    /// Its address, which no interface of the kernel has.
    pub address: IpAddr,
    /// Path of the socket to which processes connect.
    pub socket: PathBuf,
    /// Buffers for received packets: 512 to 1,048,576, and four times the descriptors of all queues at least. Default
    /// 8,192.
    pub buffers: u32,
    /// How long to poll while nothing happens, before sleeping for moments. `None`: for ever. Default 1 ms.
    pub spin: Option<Duration>,
    /// The number of processes that have queues of the port for their large messages at the same time, 0 to 15. Both ends
    /// of a memif have the same number. It needs a memif with copies, or a ring, and DPDK's memory in hugepages of a mounted
    /// hugetlbfs. `None`: if the port and the memory allow it, 2 on a memif, and 3 on a ring.
    pub bulk_queues: Option<u16>,
    /// Most peers of one process: 1 to 1,048,575, default 65,536.
    pub most_peers: u32,
}

impl PollerOptions {
    /// The defaults.
    #[must_use]
    pub fn new(dpdk: DpdkOptions, address: IpAddr, socket: PathBuf) -> Self {
        Self {
            dpdk,
            address,
            socket,
            buffers: 8_192,
            spin: Some(Duration::from_millis(1)),
            bulk_queues: None,
            most_peers: 1 << 16,
        }
    }
}
