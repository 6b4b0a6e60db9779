//! Settings of a poller.

use std::{iter, net::IpAddr, path::PathBuf, time::Duration};

use crate::backends::dpdk::DpdkOptions;

/// Settings of a [`Poller`](super::Poller).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PollerOptions {
    /// The port, or the first of several.
    pub dpdk: DpdkOptions,
    /// Its address, which no interface of the kernel has.
    pub address: IpAddr,
    /// Further ports, each with the address of its own settings: then a peer can be reached by several rails. A poller has
    /// six ports at most. Of settings for the whole process, those of the first port count.
    pub further: Vec<DpdkOptions>,
    /// Path of the socket to which processes connect.
    pub socket: PathBuf,
    /// Buffers for received packets of all ports: 512 to 1,048,576, and four times the descriptors of all queues at least.
    /// Default 8,192.
    pub buffers: u32,
    /// How long to poll while nothing happens, before sleeping for moments. `None`: for ever. Default 1 ms.
    pub spin: Option<Duration>,
    /// The number of processes that have queues of the first port for their large messages at the same time, 0 to 15. Both ends
    /// of a memif have the same number. It needs a memif with copies, or a ring, and DPDK's memory in hugepages of a mounted
    /// hugetlbfs. `None`: if the port and the memory allow it, 2 on a memif, and 3 on a ring; none if there
    /// are several ports, which share large messages that go through the poller.
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
            further: Vec::new(),
            socket,
            buffers: 8_192,
            spin: Some(Duration::from_millis(1)),
            bulk_queues: None,
            most_peers: 1 << 16,
        }
    }

    /// The settings and the address of each port.
    pub(super) fn ports(&self) -> impl Iterator<Item = (&DpdkOptions, IpAddr)> {
        let further = self.further.iter().map(|port| (port, port.address));
        iter::once((&self.dpdk, self.address)).chain(further)
    }
}
