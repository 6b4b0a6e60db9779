//! `bench figure11`: figure 11 of the DPDK paper (`docs/papers.md`), and TCP without MPI.

use crate::{
    benchmarks::latency::{self, Form},
    failure::Failure,
    harness::{
        rounds::{Entry, Series, headings},
        setup::{Setup, check},
    },
    options::Common,
    report::{Group, Table, number, size},
    transports::{
        openmpi::Program,
        settings::{Job, Kind, Way},
    },
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench figure11 --backend dpdk --device memif --plot figure11.svg
  hikyaku bench figure11 --backend dpdk --device af_packet      veth pairs (root); or af_xdp
  hikyaku bench figure11 --backend dpdk --device af_packet --mtu 9000
  hikyaku bench figure11                                          without DPDK

One-way time of MPI's messages between two processes, as in figure 11 of the DPDK paper (Shimada and Hayasaka, 2017; \
docs/papers.md): all sizes eagerly (ours: up to 1 MB), all sizes by rendezvous, over DPDK, the kernel's UDP, and the kernel's TCP. \
MPI over TCP is Open MPI with its tcp btl (needs mpicc.openmpi and mpirun.openmpi; else it is left out), whose ranks always spin. \
`tcp` is TCP without MPI.

With af_packet or af_xdp and no interface, this run makes two network namespaces, with a veth pair for the kernel's sockets and \
one for each curve over DPDK, all with the same MTU (1500 unless --mtu is given), and takes them away.

Columns: median over rounds of each round's median, µs. ratio: time over DPDK / time of Open MPI over TCP, each way to \
the same way, median of the rounds' ratios.";

const WAYS: [Way; 2] = [Way::Rendezvous, Way::Eager];
const SIZES: [usize; 23] = {
    let (mut sizes, mut power) = ([1; 23], 0);
    while power < 23 {
        sizes[power] = 1 << power;
        power += 1;
    }
    sizes
};

/// MPI's messages eagerly and by rendezvous, each at all sizes: over the kernel's UDP, over DPDK if that is the backend, and
/// Open MPI's over TCP; and kernel TCP.
pub(crate) fn run(common: &Common) -> Result<(), Failure> {
    check(common, Some(2))?;
    let mut kinds = Vec::new();
    for backend in ["udp", &common.backend] {
        for way in WAYS {
            let kind = Kind::Mpi {
                backend: backend.to_owned(),
                way: Some(way),
            };
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    // Longer than the session, whose ranks it has.
    let program = match &common.connect {
        None => Program::compile()?,
        Some(_) => None,
    };
    match &program {
        Some(program) => kinds.extend(WAYS.map(|way| Kind::OpenMpi {
            way,
            directory: program.directory(),
        })),
        None if common.connect.is_some() => eprintln!("hikyaku bench: without Open MPI, which is for one host here"),
        None => eprintln!("hikyaku bench: without MPI over TCP: Open MPI and its headers are not here"),
    }
    kinds.push(Kind::Tcp);
    let form = Form {
        benchmark: "figure11",
        title: "One-way latency of MPI's messages: eager and rendezvous, each at all sizes",
        sizes: &SIZES,
        table,
        cells,
        has_numbers: true,
    };
    latency::measure(common, &kinds, &form)
}

/// What is over DPDK, and the same way of Open MPI.
fn pairs(entries: &[Entry]) -> Vec<(String, String)> {
    let pair = |way: &Way| {
        let of = |start: &str| {
            let end = format!("/{}/mpi", way.name());
            let mut found = entries.iter().filter(|entry| entry.name.ends_with(&end));
            found
                .rfind(|entry| entry.name.starts_with(start))
                .map(|entry| entry.name.clone())
        };
        Some((of("hikyaku/")?, of("openmpi/")?))
    };
    WAYS.iter().filter_map(pair).collect()
}

fn table(setup: &Setup) -> Table {
    let mut comments = vec!["hikyaku figure11, one way (half a round trip), µs".to_owned()];
    comments.extend(setup.environment.lines());
    comments.push(format!(
        "{} rounds in which the transports take turns; median; ratio: hikyaku's time / Open MPI's in the same way, median of \
         the rounds' ratios",
        setup.rounds
    ));
    let mut groups = headings(setup.entries.iter(), &["Size"], &["p50"], None);
    if !pairs(&setup.entries).is_empty() {
        groups.push(Group::new("ratio", &WAYS.map(Way::name)));
    }
    Table::new(comments, groups)
}

fn cells(entries: &[Entry], job: &Job, all: &[Series]) -> Vec<String> {
    let find = |name: &str| all.iter().find(|series| series.name == name);
    let mut cells = vec![size::text(job.size)];
    cells.extend(
        entries
            .iter()
            .map(|entry| number(find(&entry.name).and_then(|series| latency::one_way(series).0))),
    );
    for (ours, theirs) in pairs(entries) {
        let ratio = find(&ours).zip(find(&theirs));
        cells.push(number(
            ratio.and_then(|(ours, theirs)| ours.ratio(theirs, |round| round.time)),
        ));
    }
    cells
}
