//! Cases that the examples do not show: errors, panics, and requests that are never waited for. Ranks are threads.

mod collectives;
mod errors;
mod partitioned;
mod scopes;
mod support;
mod windows;
