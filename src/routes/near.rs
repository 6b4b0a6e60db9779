//! Which peers are reached through memory, for the packet layer, and its rings of short messages.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{attached::Attached, pair::Short, watched::Watched};
use crate::{
    reliability::{CrossMemory, Gate},
    ring::{Consumer, Meet, Producer, Side},
};

#[derive(Debug, Default)]
struct Table {
    gates: HashMap<SocketAddr, Gate>,
    /// Until a session begins: the rings of the memory in common with a process, and whether this process has made it.
    rings: HashMap<SocketAddr, (Short, bool)>,
    /// What copies between the memory of the same processes and that of this one.
    attached: HashMap<SocketAddr, Attached>,
}

/// All clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Near {
    table: Arc<Mutex<Table>>,
    watched: Watched,
}

impl Near {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the program watches the descriptor.
    pub(super) fn watched(&self) -> &Watched {
        &self.watched
    }

    /// Adds a process. Gives the gate that packets to it have to pass.
    pub(super) fn add(&self, address: SocketAddr) -> Gate {
        let gate = Gate::default();
        self.table().gates.insert(address, gate.clone());
        gate
    }

    /// Keeps the rings of a memory in common with a process until a session begins, in place of those of an older one. If
    /// both have made a memory at the same moment, both take the rings of the one that the side with the `higher` name has
    /// made.
    pub(super) fn add_rings(&self, at: SocketAddr, short: Short, is_own: bool, is_higher: bool) {
        let mut table = self.table();
        let is_other = |(_, was_own): &(Short, bool)| *was_own != is_own;
        if is_own == is_higher || !table.rings.get(&at).is_some_and(is_other) {
            table.rings.insert(at, (short, is_own));
        }
    }

    /// The process at this address has ended.
    pub(super) fn forget(&self, address: SocketAddr) {
        let mut table = self.table();
        table.gates.remove(&address);
        table.rings.remove(&address);
        table.attached.remove(&address);
    }

    /// What copies straight between the memory of a process, whose rings have been given, and that of this one.
    pub(super) fn cross(&self, at: SocketAddr) -> Option<Box<dyn CrossMemory>> {
        let attached = self.table().attached.remove(&at)?;
        Some(Box::new(attached))
    }

    pub(super) fn gate(&self, address: SocketAddr) -> Option<Gate> {
        self.table().gates.get(&address).cloned()
    }
}

impl Meet for Near {
    fn meet(&mut self, at: SocketAddr, own: Side, other: Side) -> Option<(Producer, Consumer)> {
        let mut table = self.table();
        let (short, _) = table.rings.remove(&at)?;
        short.claim.take(own, other);
        table.attached.insert(at, short.attached);
        Some(short.rings)
    }

    fn is_watched(&self) -> bool {
        self.watched.is_so()
    }
}
