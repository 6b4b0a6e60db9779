//! Hugepages, reserved for as long as a test runs.

use std::{
    fs,
    io::{self, Write},
    sync::{Mutex, MutexGuard, Once, PoisonError},
};

/// 2 MB each, for both processes.
const PAGES: u64 = 200;
const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
/// Hugepages without files.
pub(crate) const IN_MEMORY: (&str, &str) = ("HIKYAKU_DPDK_MEMORY", "in-memory");

/// Hugepages that were reserved here, and are given back.
#[derive(Debug)]
pub(crate) struct Huge {
    reserved: u64,
    _one_at_a_time: MutexGuard<'static, ()>,
}

impl Huge {
    /// `None`: not root, or not so much memory in one piece; a line says so, once.
    pub(crate) fn reserve() -> Option<Self> {
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut this = Self {
            reserved: 0,
            _one_at_a_time: one,
        };
        let free = meminfo("HugePages_Free:");
        if free >= PAGES && meminfo("Hugepagesize:") >= 2048 {
            return Some(this);
        }
        let before = reserved();
        let missing = PAGES - free.min(PAGES);
        let written = fs::write(RESERVED, (before + missing).to_string());
        this.reserved = reserved().saturating_sub(before);
        if written.is_err() || meminfo("HugePages_Free:") < PAGES {
            static SAID: Once = Once::new();
            // Past the harness, which does not show what tests print that pass.
            SAID.call_once(|| {
                let line = "skipped: tests with hugepages need root, and memory for them in one piece";
                let _ = writeln!(io::stderr(), "{line}: there are no {PAGES} free (cargo xtask setup)");
            });
            return None;
        }
        Some(this)
    }
}

impl Drop for Huge {
    fn drop(&mut self) {
        let _ = fs::write(RESERVED, reserved().saturating_sub(self.reserved).to_string());
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
