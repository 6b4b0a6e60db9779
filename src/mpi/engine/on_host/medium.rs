//! What a board is made of, and its sizes. (`tests/loom` has others, to try all orders in which ranks may see what others
//! write.)

pub(super) use core::sync::atomic::{Ordering, fence};

pub(super) use crate::{mpi::engine::window::memory::Mapped, span::Span};

/// Lines of a rank. A broadcast's root is as many steps ahead of the others at most.
pub(super) const LINES: u64 = 16;
/// Slots of a rank.
pub(super) const SLOTS: u64 = 4;
/// Most bytes of a step.
pub(super) const SLOT: usize = 64 << 10;
/// Slots begin at a multiple of this.
pub(super) const PAGE: usize = 4 << 10;
