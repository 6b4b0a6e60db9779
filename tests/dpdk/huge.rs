//! Devices that need hugepages, reserved for as long as a test runs.

use std::fs;

use super::{Socket, pair};

/// 2 MB each, for both processes.
const PAGES: u64 = 200;
const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
/// Hugepages without files.
const IN_MEMORY: (&str, &str) = ("HIKYAKU_DPDK_MEMORY", "in-memory");

/// Hugepages that were reserved here, and are given back.
struct Huge(u64);

impl Huge {
    /// `None`: not root, or not so much memory in one piece; a line says so.
    fn reserve() -> Option<Self> {
        let free = meminfo("HugePages_Free:");
        if free >= PAGES && meminfo("Hugepagesize:") >= 2048 {
            return Some(Self(0));
        }
        let before = reserved();
        let missing = PAGES - free.min(PAGES);
        let written = fs::write(RESERVED, (before + missing).to_string());
        let this = Self(reserved().saturating_sub(before));
        if written.is_err() || meminfo("HugePages_Free:") < PAGES {
            println!(
                "skipped: no {PAGES} free hugepages, and not root or no memory to reserve them (cargo xtask setup)"
            );
            return None;
        }
        Some(this)
    }
}

impl Drop for Huge {
    fn drop(&mut self) {
        let _ = fs::write(RESERVED, reserved().saturating_sub(self.0).to_string());
    }
}

fn reserved() -> u64 {
    let text = fs::read_to_string(RESERVED).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn meminfo(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

#[test]
fn memif_in_hugepages() {
    let Some(_huge) = Huge::reserve() else { return };
    let socket = Socket::new("huge");
    pair([&socket.memif("client"), &socket.memif("server")], &[IN_MEMORY]);
}

#[test]
fn memif_without_copies() {
    let Some(_huge) = Huge::reserve() else { return };
    for mtu in ["1500", "9000"] {
        let socket = Socket::new("zero-copy");
        let client = format!("{},zero-copy=yes", socket.memif("client"));
        // The driver forgets what it has put into its ring to be written to, and one that it was sending.
        let kept = ("NETNS_KEPT", "1024");
        let more = [IN_MEMORY, ("HIKYAKU_DPDK_MTU", mtu), kept];
        pair([&client, &socket.memif("server")], &more);
    }
}

#[test]
fn virtio_between_processes() {
    let Some(_huge) = Huge::reserve() else { return };
    let socket = Socket::new("virtio");
    let path = socket.0.display();
    let (vhost, virtio) = (format!("vhost:iface={path}"), format!("virtio-user:path={path}"));
    pair([&virtio, &vhost], &[IN_MEMORY]);
}
