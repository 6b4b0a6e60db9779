//! Data about a process that its launcher provides.

use super::{
    JobKey, Launcher,
    error::{BootstrapError, Cause},
};

/// Numbers of a process, as far as the launcher provides them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Number on this host, and number of processes on it.
    pub(super) local: Option<(u32, u32)>,
    pub(super) app: u32,
    pub(super) job_key: Option<JobKey>,
}

impl Identity {
    pub(super) fn new(launcher: Launcher, rank: u32, size: u32) -> Result<Self, BootstrapError> {
        if rank >= size {
            let cause = Cause::Refused(format!("rank {rank} of {size}"));
            return Err(BootstrapError::new(launcher, "joining the job", cause));
        }
        Ok(Self {
            rank,
            size,
            local: None,
            app: 0,
            job_key: None,
        })
    }
}
