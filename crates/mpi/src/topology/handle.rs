//! The handle that all communicators of this crate contain.

use std::sync::{Arc, Mutex, MutexGuard};

use hikyaku::mpi::engine::{self, AttachedBuffer};

use crate::{attribute::Attributes, lock::lock};

/// State that the communicators of a process share.
#[derive(Debug, Default)]
pub(crate) struct Local {
    pub(crate) attached: Mutex<AttachedBuffer>,
}

/// A communicator, with its MPI attributes. Clones are the same communicator.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) comm: engine::Communicator,
    pub(crate) local: Arc<Local>,
    extras: Arc<Extras>,
}

#[derive(Debug, Default)]
struct Extras {
    name: Mutex<String>,
    attributes: Attributes,
}

impl Handle {
    pub(crate) fn new(comm: engine::Communicator, local: &Arc<Local>, name: &str) -> Self {
        Self {
            comm,
            local: Arc::clone(local),
            extras: Arc::new(Extras {
                name: Mutex::new(name.to_owned()),
                attributes: Attributes::default(),
            }),
        }
    }

    /// Another communicator of this process, without attributes.
    pub(crate) fn sibling(&self, comm: engine::Communicator) -> Self {
        Self::new(comm, &self.local, "")
    }

    pub(crate) fn name(&self) -> MutexGuard<'_, String> {
        lock(&self.extras.name)
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        &self.extras.attributes
    }
}

/// A type that has a handle.
pub trait AsHandle {
    /// The handle.
    fn as_handle(&self) -> &Handle;
}
