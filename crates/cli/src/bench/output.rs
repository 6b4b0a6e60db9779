//! Hands results out: table or JSON on standard output, figure into a file.

use std::io::{self, Write};

use serde::Serialize;

use super::{plot::Figure, table::Table};
use crate::{
    args::{Format, Output},
    failure::{Failure, While},
};

/// Prints the one form that was asked for, and draws.
pub(crate) fn emit(
    output: &Output,
    document: &impl Serialize,
    tables: &[Table],
    figure: Option<&Figure>,
) -> Result<(), Failure> {
    let text = tables.iter().map(Table::render).collect::<Vec<_>>().join("\n");
    publish(output, document, text, figure)
}

/// The same for any text.
pub(crate) fn publish(
    output: &Output,
    document: &impl Serialize,
    text: String,
    figure: Option<&Figure>,
) -> Result<(), Failure> {
    let mut text = match output.format {
        Format::Json => serde_json::to_string(document).map_err(|error| Failure::run(error.to_string()))?,
        Format::Text => text,
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other.or_fail("standard output")?,
    }
    match (&output.plot, figure) {
        (Some(file), Some(figure)) => figure.draw(file),
        (Some(_), None) => Err(Failure::usage("--plot: this benchmark has no figure")),
        (None, _) => Ok(()),
    }
}
