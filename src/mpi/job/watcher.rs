//! The launcher's reports of failed processes.

use std::{io, sync::Arc, thread::JoinHandle};

use crate::{
    bootstrap::{Failures, FailuresEnd},
    helper,
    mpi::engine::Engine,
};

/// A thread that tells the engine which processes have failed, according to the launcher.
#[derive(Debug)]
pub(super) struct Watcher {
    end: FailuresEnd,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(super) fn start(failures: Failures, engine: &Arc<Engine>) -> io::Result<Self> {
        let (end, engine) = (failures.ender()?, Arc::downgrade(engine));
        let thread = helper::spawn("hikyaku-losses", move || {
            for process in failures {
                let Some(engine) = engine.upgrade() else { return };
                engine.peer_lost(process);
            }
        });
        Ok(Self {
            end,
            thread: Some(thread?),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end.end();
        if let Some(thread) = self.thread.take() {
            // It does not panic, and if it did there would be nothing to do about it here.
            let _ = thread.join();
        }
    }
}
