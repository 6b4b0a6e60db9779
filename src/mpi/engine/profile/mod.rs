//! MPI's profiling interface (MPI 15.2): a hook that is told of the calls of a process, instead of a second name for
//! every function.

mod profiler;
mod span;
mod state;

pub use self::profiler::{Entry, Exit, Made, Profiler};
pub(super) use self::{profiler::is_immediate, span::Span, state::Profile};
