//! The store of a job, through which its processes find each other.

use std::net::IpAddr;

use super::{JobKey, error::BootstrapError, news::News};

/// Longest key, in characters.
pub const MAX_KEY: usize = 32;
/// Longest value, in bytes: PMI's 1,024 characters hold their hexadecimal form.
pub const MAX_VALUE: usize = 511;

/// Most processes of a job that spawns some: number of the last one, plus 1.
pub const MAX_PROCESSES: u32 = 1 << 12;

/// The store that all processes of a job share, as a launcher offers it.
pub(super) trait Exchange: Send {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError>;
    fn fence(&mut self) -> Result<(), BootstrapError>;
    fn get(&mut self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, BootstrapError>;
    /// The values that each of `size` ranks has put under `key`.
    fn get_all(&mut self, size: u32, key: &str) -> Result<Vec<Option<Vec<u8>>>, BootstrapError> {
        (0..size).map(|rank| self.get(rank, key)).collect()
    }
    fn finalize(&mut self) -> Result<(), BootstrapError>;
    /// How processes are spawned, if the launcher can.
    fn spawner(&mut self) -> Option<&mut dyn Spawner> {
        None
    }
    /// How this world was spawned, if the launcher does not say it by variables.
    fn origin(&self) -> Option<Origin> {
        None
    }
    /// Where names are published, if the launcher has such a place.
    fn names(&mut self) -> Option<&mut dyn Names> {
        None
    }
    /// Where failed ranks are reported, if the job goes on without them.
    fn news(&self) -> Option<&News> {
        None
    }
    /// Tells the launcher to end the job.
    fn abort(&mut self, code: u8, message: &str);
}

/// Programs to start in the middle of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments; not empty.
    pub command: Vec<String>,
    /// Number of processes, at least 1.
    pub processes: u32,
}

/// A launcher by which all processes of a job find texts by names.
pub(super) trait Names {
    fn publish(&mut self, name: &str, text: &str) -> Result<(), BootstrapError>;
    fn look_up(&mut self, name: &str) -> Result<String, BootstrapError>;
    fn unpublish(&mut self, name: &str) -> Result<(), BootstrapError>;
}

/// What a world knows of itself that spawns another.
pub(super) struct Home {
    /// Where the new processes reach this one.
    pub(super) address: IpAddr,
    pub(super) job_key: JobKey,
    pub(super) on_one_host: bool,
}

/// How a world was spawned.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// The number of its first process in the job.
    pub(super) first: u32,
    /// What it is told by those that have spawned it.
    pub(super) by: String,
    /// Those are reached by loopback.
    pub(super) on_one_host: bool,
}

/// A launcher that starts more processes, as a world of which nobody knows anything but a word.
pub(super) trait Starter: Exchange {
    /// Starts `programs`; each process is told `contact`.
    fn start(&mut self, programs: &[Program], contact: &str) -> Result<(), BootstrapError>;
}

/// A launcher that can start more processes in the middle of a job.
pub(super) trait Spawner {
    /// Starts `programs` as a world of its own, and gives the number of its first process in the job when they have met
    /// in a fence. They are told `by`, a word.
    fn spawn(&mut self, programs: &[Program], by: &str, home: &Home) -> Result<u32, BootstrapError>;
    /// The value that a process of any world has put.
    fn get_of(&mut self, process: u32, key: &str) -> Result<Vec<u8>, BootstrapError>;
}
