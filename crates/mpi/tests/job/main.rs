//! What examples do not show: errors, panics, and requests that nobody waits for. Ranks are threads of this process.

mod collectives;
mod errors;
mod partitioned;
mod scopes;
mod support;
mod windows;
