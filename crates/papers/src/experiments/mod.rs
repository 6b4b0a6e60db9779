//! The experiments: one module for each paper, and those of our own.

pub(crate) mod dpdk_btl;
pub(crate) mod dse;
pub(crate) mod incast;
pub(crate) mod optical;
pub(crate) mod pacs_cs;
pub(crate) mod scale;
