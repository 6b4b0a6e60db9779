//! Jobs of MPI ranks, and what they measure in turns.

mod pages;
pub(crate) mod rank;
pub(crate) mod work;
pub(crate) mod world;
