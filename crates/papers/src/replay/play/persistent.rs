#![expect(
    unsafe_code,
    reason = "the engine takes pointers; all are to memory that is kept until its operation has ended"
)]
//! Persistent requests: planned once and started again and again.

use hikyaku::mpi::engine::PROC_NULL;

use super::player::{Bytes, Persistent, Planned, Player, memory};
use crate::replay::program::{Partitioned, Ready};

impl Player<'_> {
    pub(super) fn plan(&mut self, number: u64, operation: Persistent, memory: [Bytes; 2]) {
        let planned = Planned {
            operation,
            memory,
            started: 0,
        };
        self.planned.insert(number, planned);
    }

    fn planned(&mut self, number: u64) -> Result<&mut Planned, String> {
        let planned = self.planned.get_mut(&number);
        planned.ok_or_else(|| format!("nothing is planned under number {number}"))
    }

    pub(super) fn start(&mut self, number: u64, request: u64) -> Result<(), String> {
        let planned = self.planned(number)?;
        planned.started = request;
        let begun = match &planned.operation {
            Persistent::Collective(collective) => collective.start(),
            Persistent::Send(send) => send.start(),
            Persistent::Receive(receive) => receive.start(),
        };
        self.begun(begun, [Bytes::new(), Bytes::new()], Some(request))
    }

    /// Gives it up; its memory is kept as long as it runs.
    pub(super) fn free(&mut self, number: u64) {
        if let Some(Planned { memory, started, .. }) = self.planned.remove(&number)
            && started > 0
            && let Some((_, kept)) = self.running.get_mut(&started)
        {
            *kept = memory;
        }
    }

    pub(super) fn partitioned(&mut self, context: u32, side: &Partitioned, number: u64) -> Result<(), String> {
        let comm = self.communicator(context)?;
        let (peer, tag, cut) = (side.peer, side.tag, (side.partitions, side.bytes));
        let all = side.bytes * u64::from(side.partitions);
        let mut data = memory(if peer == PROC_NULL { 0 } else { all })?;
        let base = data.as_mut_ptr().cast();
        let operation = if side.sends {
            // SAFETY: the memory is kept until it is given up and has ended, and no other code uses it.
            let send = unsafe { comm.psend_init(base, cut, &self.byte, peer, tag) };
            send.map(Persistent::Send)
        } else {
            // SAFETY: as above.
            let receive = unsafe { comm.precv_init(base, cut, &self.byte, peer, tag) };
            receive.map(Persistent::Receive)
        };
        let operation = operation.map_err(|error| error.to_string())?;
        self.plan(number, operation, [data, Bytes::new()]);
        Ok(())
    }

    pub(super) fn ready(&mut self, number: u64, partitions: &Ready) -> Result<(), String> {
        let Persistent::Send(send) = &self.planned(number)?.operation else {
            return Err(format!("number {number} sends no partitions"));
        };
        let done = match partitions {
            Ready::Range(range) if range.len() == 1 => send.ready(range.start),
            Ready::Range(range) => send.ready_range(range.clone()),
            Ready::List(list) => send.ready_list(list),
        };
        done.map_err(|error| error.to_string())
    }

    pub(super) fn arrived(&mut self, number: u64, partition: u32) -> Result<(), String> {
        let Persistent::Receive(receive) = &self.planned(number)?.operation else {
            return Err(format!("number {number} receives no partitions"));
        };
        match receive.wait_for(partition) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!(
                "partition {partition} of number {number} does not arrive: nothing was started"
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}
