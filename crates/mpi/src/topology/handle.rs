//! The handle that all communicators of this crate contain.

use std::sync::{Arc, Mutex};

use hikyaku::mpi::engine::{self, AttachedBuffer};

use crate::attribute::Attributes;

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
    attributes: Arc<Attributes>,
}

impl Handle {
    pub(crate) fn new(comm: engine::Communicator, local: &Arc<Local>) -> Self {
        Self {
            comm,
            local: Arc::clone(local),
            attributes: Arc::default(),
        }
    }

    /// Another communicator of this process, without attributes.
    pub(crate) fn sibling(&self, comm: engine::Communicator) -> Self {
        Self::new(comm, &self.local)
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}

/// A type that has a handle.
pub trait AsHandle {
    /// The handle.
    fn as_handle(&self) -> &Handle;
}
