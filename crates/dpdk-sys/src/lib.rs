//! Bindings to [DPDK](https://www.dpdk.org): what a poll-mode network backend needs, and no more.
//!
//! | part | names |
//! |---|---|
//! | environment (EAL) | `rte_eal_init`, `rte_eal_cleanup`, `rte_eal_hotplug_add`, `rte_eal_hotplug_remove`, `rte_vdev_init`, `rte_vdev_uninit` |
//! | ports | `rte_eth_dev_*`, `rte_eth_rx_queue_setup`, `rte_eth_tx_queue_setup`, link, statistics |
//! | packets | `dpdk_rx_burst`, `dpdk_tx_burst`, `dpdk_alloc`, `dpdk_free`, `DPDK_MBUF_*` |
//! | pools | `rte_pktmbuf_pool_create`, `rte_pktmbuf_pool_create_extbuf`, `rte_mempool_avail_count`, `rte_mempool_free` |
//! | memory of one's own | `rte_extmem_register`, `rte_extmem_unregister` |
//!
//! Names that begin with `rte_` are DPDK's own and [documented there](https://doc.dpdk.org/api-22.11/); names that begin
//! with `dpdk_` are this crate's: DPDK's inline functions and macros as functions, described in `shim.h`. A call through
//! the shim costs about 2 ns, once per burst. `DPDK_MBUF_*` say where an `rte_mbuf`, whose layout differs between
//! releases, has what is read of each packet, according to the headers that the shim is compiled with.
//!
//! # Features
//!
//! - none: an empty library. It builds where there is no DPDK.
//! - `bindings`: needs DPDK 22.11 or newer with headers and `libdpdk.pc`, a C compiler and libclang (Debian: `apt-get
//!   install dpdk-dev pkg-config gcc clang`), and links the shared libraries. EAL finds the drivers in its plugin
//!   folder by itself.
//! - `static`: puts DPDK into the program, with the virtual devices `net_memif`, `net_af_packet`, `net_ring` and
//!   `net_null`. A program with drivers of real cards links them by itself.
//!
//! # Safety
//!
//! Everything is as C has it: pointers must be valid, a queue is used by one thread at a time, a packet buffer is freed
//! once. Two things that are easily overlooked: `rte_eal_init` works once per process, and two threads (or processes
//! that share a pool) with the same lcore id corrupt the pool's cache; threads that EAL does not know have none, which
//! is right and a little slower.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "bindings")]
#[expect(
    missing_docs,
    non_camel_case_types,
    unsafe_code,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    reason = "generated from C headers"
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

#[cfg(feature = "bindings")]
pub use bindings::*;
