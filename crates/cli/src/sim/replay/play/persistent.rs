//! What is planned once and started again and again.

use hikyaku::mpi::engine::PersistentCollective;

use super::{Octets, Player};

/// What can be started.
pub(super) enum Persistent {
    Collective(PersistentCollective),
}

pub(super) struct Planned {
    operation: Persistent,
    memory: [Octets; 2],
    /// The number of the last start; 0: none.
    started: u64,
}

impl Player<'_> {
    pub(super) fn plan(&mut self, number: u64, operation: Persistent, memory: [Octets; 2]) {
        let planned = Planned {
            operation,
            memory,
            started: 0,
        };
        self.planned.insert(number, planned);
    }

    pub(super) fn start(&mut self, number: u64, request: u64) -> Result<(), String> {
        let planned = self.planned.get_mut(&number);
        let planned = planned.ok_or_else(|| format!("nothing is planned under number {number}"))?;
        planned.started = request;
        let begun = match &planned.operation {
            Persistent::Collective(collective) => collective.start(),
        };
        self.begun(begun, [Octets::new(), Octets::new()], Some(request))
    }

    /// Gives it up; its memory is kept as long as it runs.
    pub(super) fn free(&mut self, number: u64) {
        if let Some(Planned { memory, started, .. }) = self.planned.remove(&number)
            && let Some((_, kept)) = self.running.get_mut(&started)
        {
            *kept = memory;
        }
    }
}
