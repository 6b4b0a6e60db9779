//! Process sets: groups of processes by name, for sessions (MPI 11.3).

use super::Engine;
use crate::mpi::group::Group;

/// Sessions. One of MPI's is, for an engine, nothing but these groups, of which
/// [`of_group`](super::Communicator::of_group) makes communicators (`MPI_Comm_create_from_group`).
impl Engine {
    /// The process sets of every process (`MPI_Session_get_nth_pset`): all processes of the job, and the process alone.
    pub const PROCESS_SETS: [&'static str; 2] = ["mpi://WORLD", "mpi://SELF"];

    /// The processes of a set (`MPI_Group_from_session_pset`).
    #[must_use]
    pub fn process_set(&self, name: &str) -> Option<Group> {
        let number = Self::PROCESS_SETS.iter().position(|known| *known == name)?;
        match number {
            0 => Some(self.world()),
            _ => Group::of_processes(&[self.process]).ok(),
        }
    }
}
