//! Programs in C and Python over the C libraries and over other MPIs: the same source for all, `xtask/peers/within_host.c`
//! and `xtask/peers/objects.py`.
//!
//! The program is compiled by each library's own compiler. That of MPICH's ABI is one program, which runs over MPICH and
//! over our `libmpi.so.12`. Python's is mpi4py as PyPI has it, which opens the library that it is told.

use std::{fs, time::Instant};

use super::{
    peers::{Case, LIMIT_S, Peer, Times, hikyaku, lines, run, said, target},
    report::Section,
    within_host::{self, figures},
};
use crate::{
    shell::{self, Cmd},
    suites::place::Place,
};

/// A table: what can be measured within two minutes.
pub(super) struct Part {
    name: &'static str,
    pub(super) cases: &'static [Case],
    pub(super) section: Section,
}

const PARTS: [Part; 6] = [
    Part {
        name: "pair",
        cases: &PAIRS,
        section: Section::libraries("bench-mpi --libraries pair"),
    },
    Part {
        name: "types",
        cases: &[STRIDED],
        section: Section::libraries("bench-mpi --libraries types"),
    },
    Part {
        name: "collectives",
        cases: COLLECTIVES.1,
        section: Section::libraries("bench-mpi --libraries collectives"),
    },
    Part {
        name: "network",
        cases: &NETWORK,
        section: Section::libraries("bench-mpi --libraries network"),
    },
    Part {
        name: "python",
        cases: &PYTHON,
        section: Section::libraries("bench-mpi --libraries python"),
    },
    Part {
        name: "life",
        cases: &LIFE,
        section: Section::libraries("bench-mpi --libraries life"),
    },
];

/// The part of that name.
pub(super) fn part(name: &str) -> Option<&'static Part> {
    PARTS.iter().find(|part| part.name == name)
}

const LATENCY: Case = Case {
    operation: "latency",
    ranks: 2,
    iterations: 0,
    sizes: &[8, 64, 1 << 10, 2 << 10, 8 << 10, 64 << 10, 1 << 20, 4 << 20],
    turns: 10,
    peers: &[
        Peer::Abi,
        Peer::MpichAbi,
        Peer::Hikyaku,
        Peer::Vader,
        Peer::VaderCma,
        Peer::Mpich,
    ],
    measure: through_memory,
    is_through_memory: true,
};

const PAIRS: [Case; 3] = {
    let [latency, bandwidth, ..] = within_host::cases(&LATENCY, &[]);
    [latency, bandwidth, LOCK]
};

const LOCK: Case = Case {
    operation: "lock + unlock",
    sizes: &[0],
    peers: &[Peer::Abi, Peer::MpichAbi, Peer::Vader, Peer::Mpich],
    ..LATENCY
};

/// Elements with gaps, at both ends.
const STRIDED: Case = Case {
    operation: "latency, strided",
    sizes: &[64, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20],
    peers: &[Peer::Abi, Peer::MpichAbi, Peer::Vader, Peer::VaderCma, Peer::Mpich],
    ..LATENCY
};

/// Without the loop in Rust. MPICH spins: with more ranks than cores, an operation takes a slice of the scheduler.
const COLLECTIVES: (&[Case], &[Case]) = {
    const FIRST: Case = Case {
        peers: &[Peer::Abi, Peer::MpichAbi, Peer::Vader, Peer::VaderCma, Peer::Mpich],
        ..LATENCY
    };
    const ALL: [Case; 14] = within_host::cases(&FIRST, &[Peer::Abi, Peer::MpichAbi, Peer::Vader, Peer::VaderCma]);
    ALL.split_at(2)
};

const OVER_NETWORK: Case = Case {
    peers: &[Peer::Abi, Peer::MpichAbi, Peer::BareUdp, Peer::OpenMpi, Peer::Mpich],
    measure: over_network,
    is_through_memory: false,
    ..LATENCY
};

const NETWORK: [Case; 2] = [
    OVER_NETWORK,
    Case {
        peers: &[Peer::Abi, Peer::MpichAbi, Peer::OpenMpi, Peer::Mpich],
        operation: "bandwidth",
        sizes: &[8, 1 << 10, 64 << 10, 1 << 20, 4 << 20],
        ..OVER_NETWORK
    },
];

const OBJECTS: Case = Case {
    operation: "send, object",
    sizes: &[8, 64, 1 << 10],
    peers: &[Peer::MpichAbi, Peer::Vader, Peer::Mpich],
    measure: python,
    is_through_memory: false,
    ..LATENCY
};

const PYTHON: [Case; 2] = [
    OBJECTS,
    Case {
        operation: "allreduce, array",
        ranks: 4,
        sizes: &[8, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 4 << 20],
        ..OBJECTS
    },
];

const START: Case = Case {
    operation: "init + finalize",
    ranks: 1,
    sizes: &[0],
    peers: &[Peer::Abi, Peer::MpichAbi, Peer::Vader, Peer::Mpich],
    measure: start,
    is_through_memory: false,
    ..LATENCY
};

const LIFE: [Case; 3] = [
    START,
    Case {
        operation: "start + end",
        ranks: 32,
        peers: &[Peer::MpichAbi, Peer::Vader, Peer::Mpich],
        measure: pythons,
        ..START
    },
    Case {
        operation: "stripped size",
        turns: 1,
        peers: &[Peer::Abi, Peer::MpichAbi],
        measure: stripped,
        ..START
    },
];

/// What `cargo xtask install` puts in place.
fn installed(file: &str) -> String {
    target("suites/installed-release/") + file
}

/// Python's environment with mpi4py, in which a program is started.
const PYTHON_ENVIRONMENT: &str = "mpi4py-wheel";
/// Debian's Open MPI.
const OPEN_MPI: &str = "/usr/lib/x86_64-linux-gnu/libmpi.so.40";

/// Builds all of them; returns those that there are. Only our own must.
pub(super) fn build() -> Result<Vec<Peer>, String> {
    let place = Place::new("release")?;
    run(&Cmd::new(&installed("bin/mpicc")).args(["-O2", "-o", &target("within-host-abi"), within_host::SOURCE]))?;
    let others = within_host::others();
    let mut peers = vec![Peer::Abi];
    if others.contains(&Peer::Mpich) {
        peers.push(Peer::MpichAbi);
    } else {
        eprintln!("without libmpi.so.12: MPICH compiles the program for it");
    }
    peers.extend([Peer::Hikyaku, Peer::BareUdp]);
    if others.contains(&Peer::Vader) {
        peers.push(Peer::OpenMpi);
    }
    peers.extend(others);
    place.environment(PYTHON_ENVIRONMENT, &["mpi4py==4.1.2", "numpy"], &[])?;
    Ok(peers)
}

/// `mpiexec` of a peer, with so many ranks.
fn launcher(peer: Peer, ranks: u32) -> Cmd {
    let ranks = ranks.to_string();
    match peer {
        Peer::Mpich if ranks == "2" => within_host::hydra(&ranks).args(["-bind-to", "core"]),
        Peer::Mpich => within_host::hydra(&ranks),
        Peer::OpenMpi | Peer::Vader | Peer::VaderCma => within_host::open_mpi(&ranks),
        _ => Cmd::new(&installed("bin/mpiexec"))
            .args(["-n", &ranks])
            .env("LD_LIBRARY_PATH", &installed("lib")),
    }
}

/// The program in C that a peer's compiler has made.
fn program(peer: Peer) -> String {
    target(match peer {
        Peer::Abi => "within-host-abi",
        Peer::MpichAbi | Peer::Mpich => "within-host-mpich",
        _ => "within-host-openmpi",
    })
}

fn sizes(case: &Case) -> Vec<String> {
    case.sizes.iter().map(u32::to_string).collect()
}

fn through_memory(peer: Peer, case: &Case) -> Result<Times, String> {
    match peer {
        Peer::Abi | Peer::MpichAbi => {
            let command = launcher(peer, case.ranks).args([&program(peer), case.operation]);
            Ok(lines(&said(&command.args(sizes(case)).limit_s(LIMIT_S))?))
        }
        _ => within_host::measure(peer, case),
    }
}

fn over_network(peer: Peer, case: &Case) -> Result<Times, String> {
    let command = launcher(peer, case.ranks);
    let command = match peer {
        Peer::BareUdp => {
            let command = Cmd::new(&hikyaku())
                .args(["bench", case.operation, "--vs", "udp", "--rounds", "1"])
                .args(["--format", "json", "--sizes", &sizes(case).join(",")]);
            let json = said(&command.limit_s(LIMIT_S))?;
            return Ok(figures(&json, r#":"udp","#));
        }
        Peer::Mpich => command
            .env("MPIR_CVAR_NOLOCAL", "1")
            .env("MPIR_CVAR_CH4_NETMOD", "ofi")
            .env("FI_PROVIDER", "tcp"),
        Peer::OpenMpi => command.args("--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo".split(' ')),
        _ => command.env("HIKYAKU_ROUTES", "network"),
    };
    let command = command.args([&program(peer), case.operation]).args(sizes(case));
    Ok(lines(&said(&command.limit_s(LIMIT_S))?))
}

/// Python in so many ranks over a peer's library.
fn interpreter(peer: Peer, ranks: u32) -> Cmd {
    let library = match peer {
        Peer::MpichAbi => installed("lib/libmpi.so.12"),
        Peer::Mpich => within_host::wheel("lib/libmpi.so.12"),
        _ => OPEN_MPI.to_owned(),
    };
    let launcher = launcher(peer, ranks)
        .env("MPI4PY_LIBMPI", &library)
        // NumPy's own threads have no part in this.
        .env("OPENBLAS_NUM_THREADS", "1");
    let python = format!("suites/{PYTHON_ENVIRONMENT}/bin/python");
    let launcher = match peer {
        Peer::Vader => launcher.args("--mca pml ob1 --mca btl self,vader".split(' ')),
        _ => launcher,
    };
    launcher.args([target(&python)])
}

fn python(peer: Peer, case: &Case) -> Result<Times, String> {
    let script = shell::root().join("xtask/peers/objects.py").display().to_string();
    let command = interpreter(peer, case.ranks)
        .args([&script, case.operation])
        .args(sizes(case));
    Ok(lines(&said(&command.limit_s(LIMIT_S))?))
}

/// Nanoseconds of a command, from its start to its end.
fn timed(command: &Cmd) -> Result<Times, String> {
    let begun = Instant::now();
    said(command)?;
    Ok(Times::from([(0, begun.elapsed().as_nanos() as f64)]))
}

/// A process without a launcher: `MPI_Init` and `MPI_Finalize`.
fn start(peer: Peer, case: &Case) -> Result<Times, String> {
    let command = Cmd::new(&program(peer)).args([case.operation, "0"]);
    let command = match peer {
        Peer::MpichAbi => command.env("LD_LIBRARY_PATH", &installed("lib")),
        _ => command,
    };
    Ok(lines(&said(&command.limit_s(LIMIT_S))?))
}

/// From the command to its end.
fn pythons(peer: Peer, case: &Case) -> Result<Times, String> {
    timed(
        &interpreter(peer, case.ranks)
            .args(["-c", "from mpi4py import MPI"])
            .limit_s(LIMIT_S),
    )
}

/// Bytes.
fn stripped(peer: Peer, _: &Case) -> Result<Times, String> {
    let file = installed("lib/") + peer.name();
    let bytes = fs::metadata(&file).map_err(|error| format!("{file}: {error}"))?.len();
    Ok(Times::from([(0, bytes as f64)]))
}
