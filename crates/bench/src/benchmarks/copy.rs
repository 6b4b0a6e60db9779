//! `bench copy`: what the processor's copies cost that buffer arrays save (the PACS-CS paper, section 4.2;
//! `docs/papers.md`), on this machine and, by clock and memory, on the paper's.

use std::{fs, hint::black_box};

use crate::{
    failure::Failure,
    machine::{clock, environment::cpu_model},
    report::{Document, Group, Output, Row, Table, emit, median, number, size},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Nanoseconds to pack a byte: pieces of 192 bytes (a spinor of lattice QCD) at every second place go to one buffer, within \
the caches and beyond them. The row of PACS-CS is no measurement: cycles within the caches at its 2.8 GHz, and three bytes \
of traffic for each byte at the 6.4 GB/s of its memory (two channels of DDR2-400). `hikyaku sim pacs-cs --copy` takes it.";

/// Bytes of a piece.
const PIECE: usize = 192;
/// Bytes that fit into the second cache with their copy, and bytes that fit into none.
const SIZES: [(&str, usize); 2] = [("cached", 64 << 10), ("memory", 256 << 20)];
/// Bytes that a round copies.
const ROUND: usize = 256 << 20;
const ROUNDS: usize = 5;
/// The clock of PACS-CS, Hz, and its memory, bytes per second.
const CLOCK: f64 = 2.8e9;
const MEMORY: f64 = 6.4e9;
/// Bytes that a copied byte moves beyond the caches: read, read before it is written, written back.
const TRAFFIC: f64 = 3.0;

/// Nanoseconds a byte.
fn packing(bytes: usize) -> f64 {
    let pieces = bytes / PIECE;
    let from: Vec<u8> = (0..2 * pieces * PIECE).map(|at| at as u8).collect();
    let mut to = vec![0_u8; pieces * PIECE];
    let mut times = Vec::new();
    for round in 0..=ROUNDS {
        let begun = clock::now();
        for _ in 0..(ROUND / bytes).max(1) {
            let places = black_box(&from).chunks_exact(2 * PIECE);
            for (piece, place) in to.chunks_exact_mut(PIECE).zip(places) {
                piece.copy_from_slice(&place[..PIECE]);
            }
            black_box(&mut to);
        }
        let copied = (ROUND / bytes).max(1) * pieces * PIECE;
        if round > 0 {
            times.push((clock::now() - begun) as f64 / copied as f64);
        }
    }
    median(&times).unwrap_or(f64::NAN)
}

/// This machine's clock, Hz, as the kernel gives it.
fn frequency() -> Option<f64> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("cpu MHz"))?;
    Some(line.split_once(": ")?.1.trim().parse::<f64>().ok()? * 1e6)
}

/// Measures and prints.
pub(crate) fn run(output: &Output) -> Result<(), Failure> {
    let own = frequency().ok_or_else(|| Failure::run("/proc/cpuinfo gives no clock, by which times are scaled"))?;
    let mut rows: Vec<(&'static str, usize, f64)> = Vec::new();
    for (what, bytes) in SIZES {
        rows.push((what, bytes, packing(bytes)));
    }
    let scaled = rows[0].2 * own / CLOCK + TRAFFIC * 1e9 / MEMORY;
    rows.push(("PACS-CS, scaled", 0, scaled));
    let comments = vec![
        "hikyaku copy: packing pieces of 192 bytes, ns a byte".to_owned(),
        format!("CPU {}, {:.2} GHz", cpu_model(), own / 1e9),
    ];
    let mut table = Table::new(comments, vec![Group::new("", &["where", "Size", "ns/B"])]);
    let mut document = Document::new("copy", None);
    for (what, bytes, nanos) in rows {
        let shown = if bytes == 0 { "-".to_owned() } else { size::text(bytes) };
        table.row(vec![what.to_owned(), shown, number(Some(nanos))]);
        document.rows.push(Row {
            transport: "copy".into(),
            pattern: Some(what),
            size: (bytes > 0).then_some(bytes),
            ns_per_byte: Some(nanos),
            ..Row::default()
        });
    }
    emit(output, &document, &[table], None)
}
