//! Which peers are reached through memory, for the packet layer, and its rings of short messages.

use std::{
    collections::{BTreeMap, HashSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::ring::{Consumer, Meet, Producer, Side};

/// The session for which there are rings: those of the memory are used once.
const SESSION: u32 = 1;

#[derive(Debug, Default)]
struct Table {
    addresses: HashSet<SocketAddr>,
    /// By the number of the process.
    rings: BTreeMap<u32, (Producer, Consumer)>,
}

/// All clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Near(Arc<Mutex<Table>>);

impl Near {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, address: SocketAddr, process: u32, rings: (Producer, Consumer)) {
        let mut table = self.table();
        table.addresses.insert(address);
        table.rings.insert(process, rings);
    }

    pub(super) fn contains(&self, address: SocketAddr) -> bool {
        self.table().addresses.contains(&address)
    }
}

impl Meet for Near {
    fn meet(&mut self, own: Side, other: Side) -> Option<(Producer, Consumer)> {
        if own.session != SESSION || other.session != SESSION {
            return None;
        }
        self.table().rings.remove(&other.processor)
    }
}
