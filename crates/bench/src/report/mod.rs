//! The output: tables for people, JSON for programs, figures, and the progress of a measurement.

mod json;
mod output;
mod plot;
mod progress;
mod running;
pub mod size;
mod stats;
mod table;

pub(crate) use self::{
    json::{Document, Row, digits},
    running::Running,
    stats::{percentile, ratio},
};
pub use self::{
    output::{Format, Output, emit, publish, write},
    plot::{Figure, Line},
    progress::Progress,
    stats::median,
    table::{Group, Table, number},
};
