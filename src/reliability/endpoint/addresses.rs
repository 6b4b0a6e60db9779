//! Which peer lives at an address. Asked only when a session opens or a peer moves, never per packet.

use crate::reliability::peer::Peer;
use core::net::{IpAddr, SocketAddr};

use hashbrown::HashTable;

/// Maps addresses to indices of the peer table, which holds the addresses themselves: 5 bytes per entry.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Addresses {
    table: HashTable<u32>,
    key: u64,
}

#[cfg(test)]
impl PartialEq for Addresses {
    fn eq(&self, other: &Self) -> bool {
        let peers = |addresses: &Self| {
            addresses
                .table
                .iter()
                .copied()
                .collect::<std::collections::BTreeSet<_>>()
        };
        self.key == other.key && peers(self) == peers(other)
    }
}

impl Addresses {
    pub(crate) fn new(key: u64) -> Self {
        Self {
            table: HashTable::new(),
            key: key | 1,
        }
    }

    pub(crate) fn get(&self, peers: &[Peer], address: SocketAddr) -> Option<u32> {
        self.table
            .find(self.hash(address), |&index| peers[index as usize].address == address)
            .copied()
    }

    /// Enters peer `index`, whose address no other peer has.
    pub(crate) fn insert(&mut self, peers: &[Peer], index: u32) {
        let key = self.key;
        let hash = |&index: &u32| mix(key, peers[index as usize].address);
        self.table.insert_unique(hash(&index), index, hash);
    }

    /// Takes peer `index` out; its address must still be the one it was entered with.
    pub(crate) fn remove(&mut self, peers: &[Peer], index: u32) {
        let hash = self.hash(peers[index as usize].address);
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == index) {
            entry.remove();
        }
    }

    fn hash(&self, address: SocketAddr) -> u64 {
        mix(self.key, address)
    }
}

/// A keyed hash: strangers do not know the key, so they cannot choose addresses that collide.
fn mix(key: u64, address: SocketAddr) -> u64 {
    let (high, low) = match address.ip() {
        IpAddr::V4(ip) => (0, u64::from(ip.to_bits())),
        IpAddr::V6(ip) => ((ip.to_bits() >> 64) as u64, ip.to_bits() as u64),
    };
    let round = |state: u64, word: u64| {
        let wide = u128::from(state ^ word) * u128::from(key | 1 << 63);
        (wide >> 64) as u64 ^ wide as u64
    };
    round(round(round(key.rotate_left(32), high), low), u64::from(address.port()))
}
