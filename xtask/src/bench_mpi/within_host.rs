//! MPIs between processes of one host: `hikyaku bench … --backend shm`, and `xtask/peers/within_host.c` with the others.

use super::peers::{Case, LIMIT_S, Peer, Times, hikyaku, lines, run, said, target};
use crate::shell::{self, Cmd};

const PEERS: &[Peer] = &[Peer::Hikyaku, Peer::Vader, Peer::VaderCma, Peer::Mpich];
/// MPICH spins: with more ranks than cores, an operation takes a slice of the scheduler.
const YIELDING: &[Peer] = &[Peer::Hikyaku, Peer::Vader, Peer::VaderCma];
/// The wheel of MPICH that is measured, with its compiler and its launcher.
const WHEEL: &str = "mpich==5.0.2";
/// The program of all others.
pub(super) const SOURCE: &str = "xtask/peers/within_host.c";

const PAIR: Case = Case {
    operation: "latency",
    ranks: 2,
    iterations: 0,
    sizes: &[8, 64, 1 << 10, 2 << 10, 8 << 10, 64 << 10, 1 << 20, 4 << 20],
    turns: 10,
    peers: PEERS,
    measure,
    is_through_memory: true,
};

const SIZES: &[u32] = &[8, 1 << 10, 64 << 10];

/// Cases like `pair`, the first of them: then a stream, then collectives, with the peers of `yielding` where there are more
/// ranks than cores.
pub(super) const fn cases(pair: &Case, yielding: &'static [Peer]) -> [Case; 14] {
    const OTHERS: [(&str, u32, &[u32]); 13] = [
        // Of 8 bytes, the rate of messages is what is shown.
        ("bandwidth", 2, &[8, 1 << 10, 64 << 10, 1 << 20, 4 << 20]),
        ("barrier", 2, &[0]),
        ("allreduce", 2, SIZES),
        ("bcast", 2, SIZES),
        ("alltoall", 2, SIZES),
        ("barrier", 4, &[0]),
        ("allreduce", 4, SIZES),
        ("bcast", 4, SIZES),
        ("alltoall", 4, SIZES),
        ("barrier", 8, &[0]),
        ("allreduce", 8, SIZES),
        ("bcast", 8, SIZES),
        ("alltoall", 8, SIZES),
    ];
    let mut cases = [*pair; 14];
    let mut at = 0;
    while at < OTHERS.len() {
        let case = &mut cases[at + 1];
        (case.operation, case.ranks, case.sizes) = OTHERS[at];
        if case.ranks > 2 {
            case.peers = yielding;
            // (What they wait for is each other's turns, not cache lines.)
            case.is_through_memory = false;
        }
        at += 1;
    }
    cases
}

pub(super) const CASES: [Case; 14] = cases(&PAIR, YIELDING);

/// Builds all of them; returns those that there are. Only our own must.
pub(super) fn build() -> Result<Vec<Peer>, String> {
    run(&Cmd::parse("cargo build --quiet --release -p hikyaku-cli"))?;
    Ok([Peer::Hikyaku].into_iter().chain(others()).collect())
}

/// Builds the program of others.
pub(super) fn others() -> Vec<Peer> {
    let mut peers = Vec::new();
    match compile("mpicc.openmpi", "within-host-openmpi") {
        Ok(()) => peers.extend([Peer::Vader, Peer::VaderCma]),
        Err(why) => eprintln!("without Open MPI: {why}"),
    }
    match mpich() {
        Ok(()) => peers.push(Peer::Mpich),
        Err(why) => eprintln!("without MPICH: {why}"),
    }
    peers
}

fn compile(compiler: &str, program: &str) -> Result<(), String> {
    if let Some(why) = shell::missing(&[compiler]) {
        return Err(why);
    }
    run(&Cmd::new(compiler).args(["-O2", "-o", &target(program), SOURCE]))
}

/// A file of the wheel of MPICH.
pub(super) fn wheel(file: &str) -> String {
    target("peers/mpich/") + file
}

/// Python's environment with the wheel of MPICH.
fn mpich() -> Result<(), String> {
    let venv = target("peers/mpich");
    let tool = |name: &str| wheel("bin/") + name;
    if !std::path::Path::new(&tool("mpicc")).exists() {
        run(&Cmd::parse("python3 -m venv").args([&venv]).limit_s(120))?;
        run(&Cmd::new(&tool("pip")).args(["install", "--quiet", WHEEL]).limit_s(300))?;
    }
    compile(&tool("mpicc"), "within-host-mpich")
}

/// Nanoseconds of each size.
pub(super) fn measure(peer: Peer, case: &Case) -> Result<Times, String> {
    let text = said(&command(peer, case).limit_s(LIMIT_S))?;
    Ok(match peer {
        Peer::Hikyaku => figures(&text, ""),
        _ => lines(&text),
    })
}

fn command(peer: Peer, case: &Case) -> Cmd {
    let ranks = case.ranks.to_string();
    let sizes: Vec<String> = case.sizes.iter().map(u32::to_string).collect();
    let copies = match peer {
        Peer::Hikyaku => {
            let np = if case.ranks == 2 { vec![] } else { vec!["--np", &ranks] };
            let command = Cmd::new(&hikyaku())
                .args(["bench", case.operation, "--backend", "shm", "--level", "mpi"])
                .args(["--rounds", "1", "--format", "json"])
                .args(np);
            return match case.operation {
                "barrier" => command,
                _ => command.args(["--sizes", &sizes.join(",")]),
            };
        }
        Peer::Mpich => {
            return hydra(&ranks)
                .args(["-bind-to", "core", &target("within-host-mpich"), case.operation])
                .args(sizes);
        }
        Peer::VaderCma => "cma",
        _ => "none",
    };
    open_mpi(&ranks)
        .args("--mca pml ob1 --mca btl self,vader".split(' '))
        .args(["--mca", "btl_vader_single_copy_mechanism", copies])
        .args([&target("within-host-openmpi"), case.operation])
        .args(sizes)
}

/// MPICH's launcher.
pub(super) fn hydra(ranks: &str) -> Cmd {
    Cmd::new(&wheel("bin/mpiexec")).args(["-n", ranks])
}

/// Open MPI's launcher.
pub(super) fn open_mpi(ranks: &str) -> Cmd {
    let binding = if matches!(ranks, "1" | "2") { "core" } else { "none" };
    Cmd::new("mpirun.openmpi")
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .args(["-n", ranks, "--oversubscribe", "--bind-to", binding])
}

/// Nanoseconds of each size, from the JSON of `hikyaku bench`: of rows that begin so.
pub(super) fn figures(json: &str, begin: &str) -> Times {
    let row = |text: &str| {
        // (Of the transport's level there is a median.)
        let micros = number(text, "avg_us").or_else(|| number(text, "p50_us"));
        let nanos = match (micros, number(text, "messages_per_s")) {
            (Some(micros), _) => micros * 1e3,
            (None, Some(rate)) => 1e9 / rate,
            (None, None) => return None,
        };
        Some((number(text, "size")? as u32, nanos))
    };
    let rows = json.split(r#"{"transport""#).skip(1);
    rows.filter(|text| text.starts_with(begin)).filter_map(row).collect()
}

/// How far the two cores are from each other now.
pub(super) fn cores() -> Option<String> {
    let json = Cmd::new(&hikyaku())
        .args(["bench", "cache-line", "--format", "json"])
        .stdout()?;
    Some(field(&json, "cores")?.trim_matches('"').to_owned())
}

fn number(json: &str, name: &str) -> Option<f64> {
    field(json, name)?.parse().ok()
}

/// The first value of that name.
fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = json.split_once(&format!("\"{name}\":"))?;
    rest.split([',', '}']).next()
}
