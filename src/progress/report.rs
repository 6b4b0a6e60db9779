//! Where the counters of a driver are written when it ends.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use crate::time::Instant;

/// Where to write, and what is known from the beginning.
#[derive(Debug)]
pub(crate) struct Report {
    /// `None`: standard error.
    file: Option<File>,
    pub(super) processor: u32,
    /// By the clock of the driver.
    pub(super) begun: Instant,
}

impl Report {
    /// Opens the file, to append to it; `-` is standard error.
    pub(crate) fn open(path: &Path, processor: u32) -> io::Result<Self> {
        let file = match path.to_str() {
            Some("-") => None,
            _ => Some(OpenOptions::new().create(true).append(true).open(path)?),
        };
        Ok(Self {
            file,
            processor,
            begun: Instant::ZERO,
        })
    }

    /// Writes a line in one call, so that lines of several processes do not mix.
    pub(super) fn write(&mut self, line: &str) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => io::stderr().write_all(line.as_bytes()),
        }
    }
}
