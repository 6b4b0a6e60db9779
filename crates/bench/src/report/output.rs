//! Hands results out: table or JSON on standard output, figure into a file.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use clap::{
    Args, ValueEnum,
    builder::{PathBufValueParser, TypedValueParser},
};
use serde::Serialize;

use crate::{
    failure::{Failure, While},
    report::{Figure, Table, plot::file},
};

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table.
    #[default]
    Text,
    /// One JSON object on standard output, nothing else.
    Json,
}

/// Options about what comes out.
#[derive(Clone, Debug, Args)]
pub struct Output {
    /// How results are printed
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub format: Format,
    /// Draw the figure into this file
    #[arg(long, value_name = "FILE.svg", value_parser = PathBufValueParser::new().try_map(file))]
    pub plot: Option<PathBuf>,
    /// Say how far it is even if standard error is not a terminal
    #[arg(long)]
    pub progress: bool,
}

/// Prints the one form that was asked for, and draws.
pub fn emit(
    output: &Output,
    document: &impl Serialize,
    tables: &[Table],
    figure: Option<&Figure>,
) -> Result<(), Failure> {
    let text = tables.iter().map(Table::render).collect::<Vec<_>>().join("\n");
    publish(output, document, text, figure)
}

/// The same for any text.
pub fn publish(
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
    write(&text)?;
    plot(output, figure)
}

/// Writes to standard output.
///
/// # Errors
/// That cannot be written to. That nobody reads it is no error.
pub fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.or_fail("standard output"),
    }
}

impl Output {
    /// A benchmark without a figure refuses to draw one, before it measures anything.
    ///
    /// # Errors
    /// A figure is asked for.
    pub fn refuse_plot(&self) -> Result<(), Failure> {
        match self.plot {
            Some(_) => Err(Failure::usage("--plot: this benchmark has no figure")),
            None => Ok(()),
        }
    }
}

/// Draws, if that was asked for.
pub(super) fn plot(output: &Output, figure: Option<&Figure>) -> Result<(), Failure> {
    match (&output.plot, figure) {
        (Some(file), Some(figure)) => figure.draw(file),
        (None, Some(_)) => Ok(()),
        (_, None) => output.refuse_plot(),
    }
}
