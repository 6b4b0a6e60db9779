//! Rows that are printed as they come, and kept whatever happens.

use crate::{
    failure::Failure,
    machine::busy::Contention,
    report::{
        Document, Figure, Format, Output, Progress, Row, Table,
        output::{plot, write},
    },
};

/// Results that are still growing.
pub(crate) struct Running<'a> {
    output: &'a Output,
    /// How far it is.
    pub progress: Progress,
    table: Table,
    document: Document,
}

impl<'a> Running<'a> {
    /// Prints what stands over the rows. `steps`: of [`Progress`].
    pub(crate) fn new(output: &'a Output, steps: usize, mut table: Table, document: Document) -> Result<Self, Failure> {
        let head = table.begin();
        if output.format == Format::Text {
            write(&head)?;
        }
        Ok(Self {
            output,
            progress: Progress::new(output.progress, steps),
            table,
            document,
        })
    }

    /// Adds a row of the table, and what says the same in JSON.
    pub(crate) fn add(&mut self, cells: Vec<String>, rows: impl IntoIterator<Item = Row>) -> Result<(), Failure> {
        self.document.rows.extend(rows);
        let line = self.table.grow(cells);
        match self.output.format {
            Format::Text => self.progress.aside(|| write(&line)),
            Format::Json => Ok(()),
        }
    }

    /// Ends the table; rows that follow are another one's.
    pub(crate) fn go_on(&mut self, mut table: Table) -> Result<(), Failure> {
        let head = table.begin();
        self.table = table;
        match self.output.format {
            Format::Text => self.progress.aside(|| write(&format!("\n{head}"))),
            Format::Json => Ok(()),
        }
    }

    /// Adds another table, after all rows of the first.
    pub(crate) fn append(&mut self, table: &Table, rows: impl IntoIterator<Item = Row>) -> Result<(), Failure> {
        self.document.rows.extend(rows);
        match self.output.format {
            Format::Text => self.progress.aside(|| write(&format!("\n{}", table.render()))),
            Format::Json => Ok(()),
        }
    }

    /// Prints the rest. `outcome`: whether all was measured. The rows that there are come out in any case, then the
    /// failure.
    pub(crate) fn finish(
        self,
        outcome: Result<(), Failure>,
        contention: Contention,
        figure: Option<&Figure>,
    ) -> Result<(), Failure> {
        let Self {
            output,
            progress,
            mut document,
            ..
        } = self;
        drop(progress);
        let mut notes = Vec::new();
        document.machine_busy = contention.busy();
        if let Some(part) = document.machine_busy {
            notes.push(format!(
                "machine busy: an end waited for a CPU for {:.0} % of the time, which all figures show",
                part * 100.0
            ));
        }
        if let Err(failure) = &outcome {
            document.failure = Some(failure.to_string());
            if !document.rows.is_empty() {
                notes.push("ended early: the last row may have fewer rounds than the others".to_owned());
            }
        }
        match output.format {
            Format::Text => {
                let lines: String = notes.iter().map(|note| format!("# {note}\n")).collect();
                write(&lines)?;
            }
            Format::Json => {
                for note in &notes {
                    eprintln!("hikyaku bench: {note}");
                }
                if outcome.is_ok() || !document.rows.is_empty() {
                    let text = serde_json::to_string(&document).map_err(|error| Failure::run(error.to_string()))?;
                    write(&(text + "\n"))?;
                }
            }
        }
        match outcome {
            Ok(()) => plot(output, figure),
            Err(failure) => {
                // Of nothing there is no figure; the failure says more.
                let _ = plot(output, figure);
                Err(failure)
            }
        }
    }
}
