//! Which peers are reached through memory, for the packet layer, and its rings of short messages.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::attached::Attached;
use crate::{
    reliability::{CrossMemory, Gate},
    ring::{Consumer, Meet, Producer, Side},
};

/// The session for which there are rings: those of the memory are used once.
const SESSION: u32 = 1;

#[derive(Debug, Default)]
struct Table {
    gates: HashMap<SocketAddr, Gate>,
    /// By the number of the process, until a session begins.
    rings: BTreeMap<u32, (Producer, Consumer)>,
    /// What copies between the memory of the same processes and that of this one.
    attached: BTreeMap<u32, Attached>,
}

/// All clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Near(Arc<Mutex<Table>>);

impl Near {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process. Gives the gate that packets to it have to pass.
    pub(super) fn add(&self, address: SocketAddr) -> Gate {
        let gate = Gate::default();
        self.table().gates.insert(address, gate.clone());
        gate
    }

    /// Keeps the rings of a memory in common with a process until a session begins. If there are those of another memory,
    /// the rings that are `preferred` stay: both processes must take the same.
    pub(super) fn add_rings(&self, process: u32, rings: (Producer, Consumer), attached: Attached, preferred: bool) {
        let mut table = self.table();
        if preferred || !table.rings.contains_key(&process) {
            table.rings.insert(process, rings);
            table.attached.insert(process, attached);
        }
    }

    /// The process at this address has ended.
    pub(super) fn forget(&self, address: SocketAddr, process: u32) {
        let mut table = self.table();
        table.gates.remove(&address);
        table.rings.remove(&process);
        table.attached.remove(&process);
    }

    /// What copies straight between the memory of a process, whose rings have been given, and that of this one.
    pub(super) fn cross(&self, process: u32) -> Option<Box<dyn CrossMemory>> {
        let attached = self.table().attached.remove(&process)?;
        Some(Box::new(attached))
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
