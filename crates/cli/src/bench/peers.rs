//! `bench peers`: heap that a peer needs while nothing is in flight.

use super::{
    engine::endpoint_with_peers,
    json::{Document, Row, digits},
    output::emit,
    setup::check,
    table::{Group, Table, number},
};
use crate::{allocation::heap_of, args, failure::Failure};

/// Measures and prints.
pub(crate) fn run(options: &args::Peers) -> Result<(), Failure> {
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
        bytes_per_peer: Some(digits(per_peer)),
        ..Row::default()
    };
    let comments = vec!["hikyaku peers: heap per idle peer of one endpoint, counted by the allocator".to_owned()];
    let mut table = Table::new(comments, vec![Group::new("", &["peers", "bytes/peer", "endpoint"])]);
    table.row(vec![
        options.peers.to_string(),
        number(Some(per_peer)),
        base.to_string(),
    ]);
    emit(
        &common.output,
        &Document {
            benchmark: "peers",
            rows: vec![row],
            environment: None,
        },
        &[table],
        None,
    )
}
