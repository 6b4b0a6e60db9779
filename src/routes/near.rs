//! Which peers are reached through memory, for the packet layer, and its rings of short messages.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    reliability::Gate,
    ring::{Consumer, Meet, Producer, Side},
};

/// The session for which there are rings: those of the memory are used once.
const SESSION: u32 = 1;

#[derive(Debug, Default)]
struct Table {
    gates: HashMap<SocketAddr, Gate>,
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

    /// Adds a process, and returns what its packets have to pass.
    pub(super) fn add(&self, address: SocketAddr, process: u32, rings: (Producer, Consumer)) -> Gate {
        let (mut table, gate) = (self.table(), Gate::default());
        table.gates.insert(address, gate.clone());
        table.rings.insert(process, rings);
        gate
    }

    pub(super) fn gate(&self, address: SocketAddr) -> Option<Gate> {
        self.table().gates.get(&address).cloned()
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
