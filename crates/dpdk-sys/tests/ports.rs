//! The bindings at work: a ring device, which gives back what it is given. Needs no privileges.
#![cfg(feature = "bindings")]
#![expect(unsafe_code, reason = "this is what the bindings are")]

use std::{
    collections::BTreeSet,
    ffi::{CStr, CString},
    fs, ptr,
};

use dpdk_sys::{
    DPDK_MBUF_BUFFER, DPDK_MBUF_DATA_LEN, DPDK_MBUF_PACKET_LEN, DPDK_MBUF_START, dpdk_alloc, dpdk_alloc_one, dpdk_cut,
    dpdk_free, dpdk_lcore_id, dpdk_rx_burst, dpdk_tx_burst, rte_eal_init, rte_eth_conf, rte_eth_dev_close,
    rte_eth_dev_configure, rte_eth_dev_get_port_by_name, rte_eth_dev_start, rte_eth_dev_stop, rte_eth_rx_queue_setup,
    rte_eth_tx_queue_setup, rte_mbuf, rte_mempool_free, rte_mempool_in_use_count, rte_pktmbuf_pool_create, rte_version,
};

const BURST: usize = 32;

/// The bytes of an mbuf's only segment.
///
/// # Safety
/// The mbuf is the caller's for as long as they are used.
unsafe fn bytes<'a>(mbuf: *mut rte_mbuf) -> &'a mut [u8] {
    // SAFETY: the fields are where the headers say.
    unsafe {
        let buffer = mbuf.byte_add(DPDK_MBUF_BUFFER as usize).cast::<*mut u8>().read();
        let start = mbuf.byte_add(DPDK_MBUF_START as usize).cast::<u16>().read();
        let len = mbuf.byte_add(DPDK_MBUF_DATA_LEN as usize).cast::<u16>().read();
        std::slice::from_raw_parts_mut(buffer.add(start.into()), len.into())
    }
}

/// The bindings for docs.rs agree with the installed DPDK, except for the names of types that only DPDK itself uses.
#[test]
fn documented_bindings_are_those_that_are_made() {
    let (made, documented) = (concat!(env!("OUT_DIR"), "/bindings.rs"), "bindings/22.11-x86_64.rs");
    // SAFETY: a function without arguments, whose result is a C string that is never freed.
    let version = unsafe { CStr::from_ptr(rte_version()) };
    if !version.to_str().unwrap().starts_with("DPDK 22.11") || !cfg!(target_arch = "x86_64") {
        return;
    }
    let items = |path: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(path).unwrap();
        let kinds = ["fn", "const", "static", "struct", "union", "type"];
        text.lines()
            .filter_map(|line| line.trim_start().strip_prefix("pub ")?.split_once(' '))
            .filter(|(kind, _)| kinds.contains(kind))
            .filter_map(|(_, rest)| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
            .map(str::to_owned)
            .collect()
    };
    let differ: Vec<_> = items(made).symmetric_difference(&items(documented)).cloned().collect();
    assert!(
        differ.is_empty(),
        "{differ:?}\n  renew them: cp {made} crates/dpdk-sys/{documented}"
    );
}

#[test]
fn packets_go_through_a_port_and_their_buffers_come_back() {
    let words = "test --no-pci --iova-mode=va --no-huge -m 64 --no-shconf --no-telemetry --log-level=error \
                 --lcores=0 --vdev=net_ring0";
    let arguments: Vec<CString> = words
        .split_whitespace()
        .map(|word| CString::new(word).unwrap())
        .collect();
    let mut pointers: Vec<_> = arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
    // SAFETY: as many pointers to C strings as are said, which outlive the test.
    let taken = unsafe { rte_eal_init(pointers.len() as i32, pointers.as_mut_ptr()) };
    assert_eq!(taken, pointers.len() as i32 - 1, "EAL does not start");
    // SAFETY: a C string that is never freed; and a function without arguments.
    let (version, lcore) = unsafe { (CStr::from_ptr(rte_version()), dpdk_lcore_id()) };
    assert!(version.to_str().unwrap().starts_with("DPDK "), "{version:?}");
    assert_eq!(lcore, 0);

    let mut port = u16::MAX;
    // SAFETY: C strings, and pointers to what outlives the calls; the port exists from the first call on, and its
    // queues are set up before it starts.
    let pool = unsafe {
        assert_eq!(rte_eth_dev_get_port_by_name(c"net_ring0".as_ptr(), &mut port), 0);
        let pool = rte_pktmbuf_pool_create(c"test".as_ptr(), 1023, 32, 0, 2176, 0);
        assert!(!pool.is_null());
        let conf = rte_eth_conf::default();
        assert_eq!(rte_eth_dev_configure(port, 1, 1, &conf), 0);
        assert_eq!(rte_eth_rx_queue_setup(port, 0, 64, 0, ptr::null(), pool), 0);
        assert_eq!(rte_eth_tx_queue_setup(port, 0, 64, 0, ptr::null()), 0);
        assert_eq!(rte_eth_dev_start(port), 0);
        pool
    };

    let mut mbufs = [ptr::null_mut(); BURST];
    // SAFETY: the array has as many places as are said; the port has been started; each packet is written within
    // its room, and freed once: by the port, or here.
    unsafe {
        assert_eq!(dpdk_alloc(pool, 100, mbufs.as_mut_ptr(), BURST as u32), 0);
        for (number, &mbuf) in mbufs.iter().enumerate() {
            assert_eq!(bytes(mbuf).len(), 100);
            assert_eq!(mbuf.byte_add(DPDK_MBUF_PACKET_LEN as usize).cast::<u32>().read(), 100);
            bytes(mbuf).fill(number as u8);
            dpdk_cut(mbuf, 60 + number as u16);
        }
        assert_eq!(rte_mempool_in_use_count(pool), BURST as u32);
        assert_eq!(dpdk_tx_burst(port, 0, mbufs.as_mut_ptr(), BURST as u16), BURST as u16);
        let got = dpdk_rx_burst(port, 0, mbufs.as_mut_ptr(), BURST as u16);
        assert_eq!(got, BURST as u16);
        for (number, &mbuf) in mbufs.iter().enumerate() {
            assert_eq!(bytes(mbuf), vec![number as u8; 60 + number]);
            dpdk_free(mbuf);
        }
        assert_eq!(dpdk_rx_burst(port, 0, mbufs.as_mut_ptr(), BURST as u16), 0);
        let one = dpdk_alloc_one(pool, 70);
        assert_eq!(bytes(one).len(), 70);
        dpdk_free(one);
        // More than there are: none is taken.
        assert_ne!(dpdk_alloc(pool, 100_000, mbufs.as_mut_ptr(), 1), 0);
        assert_eq!(rte_mempool_in_use_count(pool), 0);
        assert_eq!(rte_eth_dev_stop(port), 0);
        assert_eq!(rte_eth_dev_close(port), 0);
        rte_mempool_free(pool);
    }
}
