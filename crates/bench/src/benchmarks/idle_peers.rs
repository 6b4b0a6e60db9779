//! `bench peers`: heap that a peer needs while nothing is in flight.

use clap::Args;

use crate::{
    benchmarks::endpoints::endpoint_with_peers,
    failure::Failure,
    harness::setup::check,
    machine::allocation::heap_of,
    options::Common,
    report::{Document, Group, Row, Table, emit, number},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Memory that a peer needs while nothing is in flight, as heap counted by the allocator.";

/// Options of `bench peers`.
#[derive(Debug, Args)]
pub(crate) struct PeersArgs {
    /// Peers on one endpoint
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    pub peers: u32,
    /// The rest.
    #[command(flatten)]
    pub common: Common,
}

/// Measures and prints.
pub(crate) fn run(options: &PeersArgs) -> Result<(), Failure> {
    let common = &options.common;
    check(common, None)?;
    let (none, base) = heap_of(|| endpoint_with_peers(0));
    drop(none?);
    let (all, heap) = heap_of(|| endpoint_with_peers(options.peers));
    drop(all?);
    let per_peer = (heap - base) as f64 / f64::from(options.peers);
    let row = Row {
        transport: "hikyaku/core".into(),
        peers: Some(options.peers as usize),
        bytes_per_peer: Some(per_peer),
        ..Row::default()
    };
    let comments = vec!["hikyaku peers: heap per idle peer of one endpoint, counted by the allocator".to_owned()];
    let mut table = Table::new(comments, vec![Group::new("", &["peers", "bytes/peer", "endpoint"])]);
    table.row(vec![
        options.peers.to_string(),
        number(Some(per_peer)),
        base.to_string(),
    ]);
    let mut document = Document::new("peers", None);
    document.rows.push(row);
    emit(&common.output, &document, &[table], None)
}
