//! The counters of a driver, written as a line when it ends.

use std::{
    fmt::{Display, Write as _},
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    process,
};

use super::Driver;
use crate::{error::DropReason, time::Instant};

/// Where to write, and what is known from the beginning.
#[derive(Debug)]
pub(crate) struct Report {
    /// `None`: standard error.
    file: Option<File>,
    processor: u32,
    /// By the clock of the driver.
    begun: Instant,
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
    fn write(&mut self, line: &str) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => io::stderr().write_all(line.as_bytes()),
        }
    }
}

impl Driver {
    /// From now on, [`write_report`](Self::write_report) has something to do.
    pub(crate) fn set_report(&mut self, mut report: Report) {
        report.begun = self.read_clock();
        self.report = Some(report);
    }

    /// Writes the counters if somebody has asked for them: once, when nothing more is sent. `more` are those of the
    /// layer above, if it has any.
    pub(crate) fn write_report(&mut self, more: Option<(&str, &[(&'static str, u64)])>) {
        let Some(mut report) = self.report.take() else { return };
        let nanos = self.read_clock().nanos_since(report.begun);
        let stats = self.messenger.layer().stats();
        let mut line = format!(
            r#"{{"processor":{},"pid":{},"backend":"{}","address":"{}","seconds":{:.6}"#,
            report.processor,
            process::id(),
            self.backend.name(),
            self.backend.local_addr(),
            nanos as f64 / 1e9,
        );
        object(&mut line, "stats", stats.fields());
        let dropped = stats.dropped.iter().map(|(reason, count)| (name_of(reason), count));
        object(&mut line, "dropped", dropped);
        object(&mut line, "backend_stats", self.backend.stats().fields());
        if let Some((name, fields)) = more {
            object(&mut line, name, fields.iter().copied());
        }
        line.push_str("}\n");
        if let Err(error) = report.write(&line) {
            // There is nobody left to return it to, and a file that silently ends short would be worse.
            eprintln!("hikyaku: HIKYAKU_STATS: {error}");
        }
    }
}

/// `WrongSession` as `wrong_session`.
fn name_of(reason: DropReason) -> String {
    let mut name = String::new();
    for letter in format!("{reason:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// Adds a member that is an object of counters. Names are words of this software: nothing is escaped.
fn object<N: Display>(line: &mut String, name: &str, fields: impl IntoIterator<Item = (N, u64)>) {
    let _ = write!(line, r#","{name}":{{"#);
    let mut between = "";
    for (name, count) in fields {
        let _ = write!(line, r#"{between}"{name}":{count}"#);
        between = ",";
    }
    line.push('}');
}
