//! `bench cache-line`: how far two cores are from each other.

use crate::{
    failure::Failure,
    machine::cache_line::{self, Cores},
    report::{Document, Group, Output, Row, Table, emit, number},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Nanoseconds that a cache line takes one way between the first two cores that this process may use, and what that says of \
them: threads of one core (sibling), near, or far. On a virtual machine it changes from time to time.";

/// Measures and prints.
pub(crate) fn run(output: &Output) -> Result<(), Failure> {
    let Some(nanos) = cache_line::probe() else {
        return Err(Failure::run(
            "a cache line goes between two cores, and threads must be pinned to them",
        ));
    };
    let cores = Cores::of(nanos, nanos).name();
    let mut document = Document::new("cache-line", None);
    document.rows.push(Row {
        transport: "cache-line".to_owned(),
        cores: Some(cores),
        cache_line_ns: Some(nanos),
        ..Row::default()
    });
    let comment = "a cache line between two cores, one way, ns".to_owned();
    let mut table = Table::new(vec![comment], vec![Group::new("", &["cores", "cache line"])]);
    table.row(vec![cores.to_owned(), number(Some(nanos))]);
    emit(output, &document, &[table], None)
}
