//! The control connections of this process's memifs, as the kernel lists them: what DPDK keeps to itself.

use std::{collections::BTreeSet, fs};

/// Connections by the numbers that the kernel gives them, of which it never gives one twice at a time.
#[derive(Debug)]
pub(super) struct Connections(BTreeSet<String>);

impl Connections {
    /// Those that are open in this process. `None`: the kernel does not say.
    pub(super) fn open() -> Option<Self> {
        let sockets = fs::read_to_string("/proc/thread-self/net/unix").ok()?;
        let numbers: BTreeSet<_> = in_packets(&sockets).collect();
        let files = fs::read_dir("/proc/self/fd").ok()?;
        let own = files.filter_map(|file| {
            let file = fs::read_link(file.ok()?.path()).ok()?;
            let number = file.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            numbers.contains(number).then(|| number.to_owned())
        });
        Some(Self(own.collect()))
    }

    /// Those of them that are not among `others`.
    pub(super) fn without(&self, others: &Self) -> Self {
        Self(&self.0 - &others.0)
    }

    /// Some of them are still open, or the kernel does not say.
    pub(super) fn are_there(&self) -> bool {
        Self::open().is_none_or(|open| !open.0.is_disjoint(&self.0))
    }
}

/// Numbers of the local sockets that carry packets, as memif's do and hardly any others, out of the kernel's list of all.
fn in_packets(sockets: &str) -> impl Iterator<Item = &str> {
    // Num RefCount Protocol Flags Type St Inode Path
    sockets.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(4);
        let (kind, number) = (words.next()?, words.nth(1)?);
        (kind == "0005").then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_in_packets_are_found() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 17017 /run/stream\n\
            0000000000000000: 00000002 00000000 00010000 0005 01 17018 /run/packets\n\
            0000000000000000: 00000003 00000000 00000000 0005 03 170\n\
            broken\n";
        assert_eq!(in_packets(list).collect::<Vec<_>>(), ["17018", "170"]);
    }
}
