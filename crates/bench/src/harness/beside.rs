//! Processes that compute beside a measurement: a process that shares a CPU with them has to be scheduled to go on.

use crate::{
    failure::Failure,
    harness::{
        control::{Answer, Command},
        session::{Ends, Worker, confused, start_local},
    },
};

/// Such a process.
pub(crate) struct Beside {
    worker: Worker,
    /// Its nice value.
    pub nice: i32,
}

impl Beside {
    /// Starts one, on this CPU, with a nice value that is so much higher than this process's own. It rests.
    pub(crate) fn start(cpu: Option<usize>, by: i32) -> Result<Self, Failure> {
        let mut worker = start_local(1, &Ends::Processes)?.remove(0);
        if cpu.is_some() {
            worker.ask(&Command::Pin { cpu })?;
            worker.answer()?;
        }
        worker.ask(&Command::Nice { by })?;
        let Answer::Nice { nice } = worker.answer()? else {
            return Err(confused());
        };
        Ok(Self { worker, nice })
    }

    /// Does something while it computes.
    pub(crate) fn during<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Failure> {
        self.worker.ask(&Command::Compute)?;
        self.worker.answer()?;
        let result = work();
        self.worker.ask(&Command::Rest)?;
        self.worker.answer()?;
        Ok(result)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Else it would be waited for, and then killed.
        let _ = self.worker.ask(&Command::Bye);
    }
}
