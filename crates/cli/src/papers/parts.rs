//! The table. `docs/papers.md` has the same rows, and says more; a test compares.

use serde::Serialize;

/// A part of a paper.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Part {
    /// Its label.
    pub part: &'static str,
    /// What it is.
    pub name: &'static str,
    /// `works` or `needs the hardware`.
    pub state: &'static str,
    /// What shows it.
    pub command: &'static str,
    /// What that gives, where there is a figure.
    pub figure: &'static str,
    /// The paper's figure.
    pub paper: &'static str,
}

const fn part(
    part: &'static str,
    name: &'static str,
    state: &'static str,
    command: &'static str,
    (figure, paper): (&'static str, &'static str),
) -> Part {
    Part {
        part,
        name,
        state,
        command,
        figure,
        paper,
    }
}

const NONE: (&str, &str) = ("", "");
const WORKS: &str = "works";
const HARDWARE: &str = "needs the hardware";

const POLLER: &str = "cargo xtask dpdk ranks";
const FIGURE_11: &str = "hikyaku bench figure11 --backend dpdk --device memif";
const DPDK_BTL: &str = "hikyaku sim dpdk-btl";
const ARRAYS: &str = "cargo test -p hikyaku --test mpi arrays";
const ARRAYS_COST: &str =
    "hikyaku bench rails --grid 3 --rails 6 --rates 40 --size 512K --time 6000 --level mpi,arrays";
const PACS_CS: &str = "hikyaku sim pacs-cs --bytes 1M --grids 3x3x3,8x8x8";
const OPTICAL: &str = "hikyaku sim optical";
const DSE: &str = "hikyaku sim dse";
const DSE_TESTS: &str = "cargo test -p hikyaku --test simulation dse";
const MEMORY: &str = "cargo test -p hikyaku-mpi -p hikyaku-cli -- shared_memory";
const WEAK: &str = "hikyaku bench dse --only hot-spot,priority --rounds 3";

/// Every part, in order.
#[rustfmt::skip]
pub(super) const PARTS: [Part; 34] = [
    part("S1.1", "polling", WORKS, "cargo xtask dpdk devices", NONE),
    part("S1.2", "two polling modes", WORKS, DPDK_BTL,
        ("54 against 1121 µs of a round beyond computing for 1 ms", "argued, not measured")),
    part("S1.3", "eager messages", WORKS, POLLER, NONE),
    part("S1.4", "several queues", WORKS, "hikyaku bench overflow --queues 1,8", NONE),
    part("S1.5", "rendezvous", WORKS, POLLER, NONE),
    part("S1.6", "loss", WORKS, "cargo test -p hikyaku --test simulation", NONE),
    part("S1.7", "wire-up", WORKS, "cargo test -p hikyaku-cli --test run", NONE),
    part("S1.8", "eager limit", WORKS, DPDK_BTL, ("16 to 20 KiB, fitted", "13 to 26 KB")),
    part("S1.9", "latency", HARDWARE, FIGURE_11, ("87 % below TCP at 2 KB", "77 % below TCP at 2 KB")),
    part("S1.10", "programs", WORKS, "cargo xtask bench-dpdk --turns 3", NONE),

    part("S2.1", "messages of PMv2", WORKS, "cargo run --release --example arrays",
        ("4,680 buffers, as many copies, and 9,360 calls", "a call for each MTU")),
    part("S2.2", "remote memory of PMv2", WORKS, "cargo test -p hikyaku --test mpi windows", NONE),
    part("S2.3", "buffer arrays", WORKS, ARRAYS, NONE),
    part("S2.4", "reuse", WORKS, ARRAYS, NONE),
    part("S2.5", "selective receive", WORKS, ARRAYS, NONE),
    part("S2.6", "many rails", WORKS, PACS_CS, NONE),
    part("S2.7", "workloads", WORKS, PACS_CS, NONE),
    part("S2.8", "bandwidth", WORKS, PACS_CS,
        ("1162 MB/s with arrays, 731 with copies", "1403 MB/s below MPI, about 630 through MPI")),
    part("S2.9", "measurement of buffer arrays", WORKS, ARRAYS_COST,
        ("56.91 and 56.79 MB/s with arrays, 56.54 and 56.98 with copies", "not measured")),

    part("S3.1", "model", WORKS, OPTICAL, NONE),
    part("S3.2", "planned collectives", WORKS, "cargo test -p hikyaku --features sim --test sim optics", NONE),
    part("S3.3", "costs", WORKS, OPTICAL, ("within 2.5 % of the formulas", "formulas 1 to 8")),
    part("S3.4", "figures 6 to 9", WORKS, OPTICAL,
        ("1.36 to 1.92 times", "about 2 times at the least")),
    part("S3.5", "a traced program", WORKS, OPTICAL,
        ("0.850, 0.510, 0.510, 0.340 s above ideal", "0.85, 0.51, 0.51, 0.34 s")),
    part("S3.6", "left open", WORKS, "hikyaku bench connect-ahead", NONE),

    part("S4.1", "header", WORKS, DSE_TESTS, NONE),
    part("S4.2", "fragments", WORKS, DSE_TESTS, NONE),
    part("S4.3", "loss", WORKS, DSE_TESTS, NONE),
    part("S4.4", "flow control", WORKS, DSE_TESTS, NONE),
    part("S4.5", "ports", WORKS, "hikyaku bench dse --only sockets", ("120 and 3,540", "120 and 3,540")),
    part("S4.6", "message sizes", WORKS, "hikyaku bench dse --only mix --rounds 3",
        ("60.15, 20.15, 17.79, 0.22 and 1.69 %", "60, 20, 18, 0.3 and 1.7 %")),
    part("S4.7", "distributed shared memory", WORKS, MEMORY, NONE),
    part("S4.8", "experiments", WORKS, DSE,
        ("full, protocol, ring, torus, tree, chain", "full, protocol, ring, torus, tree, chain")),
    part("S4.9", "weak points", WORKS, WEAK, NONE),
];
