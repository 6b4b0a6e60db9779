//! The peers of the comparison: how each is built and started.

use std::{collections::BTreeMap, fs};

use crate::shell::{self, Cmd};

/// A program that takes longer has met a fault.
pub(super) const LIMIT_S: u32 = 30;
/// The tcp btl and nothing else: what a cluster without InfiniBand runs.
const TCP: &str = "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo";
/// Where the crate mpi-rs is measured.
const MPI_RS_SIZES: [u32; 2] = [8, 1 << 20];

/// Nanoseconds of each size.
pub(super) type Times = BTreeMap<u32, f64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// This project, under its own launcher.
    Hikyaku,
    /// Its library for programs of the standard's ABI.
    Abi,
    /// Its library for programs of MPICH's ABI.
    MpichAbi,
    /// Open MPI over TCP. It knows when there are more ranks than cores, and yields while it waits.
    OpenMpi,
    /// The same, told that there are enough cores: it spins.
    OpenMpiSpinning,
    /// The crate mpi-rs, over TCP.
    MpiRs,
    /// Open MPI through memory, every message copied in and out.
    Vader,
    /// The same, large messages copied once by the kernel.
    VaderCma,
    /// MPICH, through memory or over TCP.
    Mpich,
    /// Sockets without any MPI.
    BareUdp,
}

/// A measurement: an operation of a program, with this many ranks.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) operation: &'static str,
    pub(super) ranks: u32,
    pub(super) iterations: u32,
    pub(super) sizes: &'static [u32],
    pub(super) turns: usize,
    pub(super) peers: &'static [Peer],
    pub(super) measure: fn(Peer, &Self) -> Result<Times, String>,
    /// Turns count apart by how far the cores are from each other.
    pub(super) is_through_memory: bool,
}

impl Peer {
    /// For tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hikyaku => "hikyaku",
            Self::Abi => "libmpi_abi.so.1",
            Self::MpichAbi => "libmpi.so.12",
            Self::OpenMpi => "Open MPI",
            Self::OpenMpiSpinning => "Open MPI, spinning",
            Self::MpiRs => "mpi-rs",
            Self::Vader => "vader",
            Self::VaderCma => "vader, CMA",
            Self::Mpich => "MPICH",
            Self::BareUdp => "bare UDP",
        }
    }

    /// For JSON.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Hikyaku => "hikyaku",
            Self::Abi => "libmpi_abi",
            Self::MpichAbi => "libmpi",
            Self::OpenMpi => "openmpi",
            Self::OpenMpiSpinning => "openmpi-spinning",
            Self::MpiRs => "mpi-rs",
            Self::Vader => "vader",
            Self::VaderCma => "vader-cma",
            Self::Mpich => "mpich",
            Self::BareUdp => "udp",
        }
    }

    /// This project, in one form or another.
    pub(super) const fn is_ours(self) -> bool {
        matches!(self, Self::Hikyaku | Self::Abi | Self::MpichAbi)
    }

    /// Turns that it takes part in.
    pub(super) const fn turns(self) -> usize {
        match self {
            // Each takes seconds, and the factor is large.
            Self::OpenMpiSpinning => 3,
            _ => usize::MAX,
        }
    }

    /// Nanoseconds of each size.
    pub(super) fn measure(self, case: &Case) -> Result<Times, String> {
        Ok(lines(&said(&self.command(case))?))
    }

    fn command(self, case: &Case) -> Cmd {
        let ranks = case.ranks.to_string();
        let command = match self {
            // (The others talk over TCP. What memory does within a host is compared elsewhere.)
            Self::Hikyaku => Cmd::new(&hikyaku()).env("HIKYAKU_ROUTES", "network").args([
                "run",
                "-n",
                &ranks,
                &target("release/examples/osu"),
            ]),
            Self::OpenMpi | Self::OpenMpiSpinning => {
                let binding = if case.ranks > 2 { "none" } else { "core" };
                let slots = if self == Self::OpenMpi {
                    vec!["--oversubscribe".to_owned()]
                } else {
                    vec!["--host".to_owned(), format!("localhost:{ranks}")]
                };
                Cmd::new("mpirun.openmpi")
                    .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                    .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
                    .args(["-n", &ranks, "--bind-to", binding])
                    .args(slots)
                    .args(TCP.split(' '))
                    .args([target("osu-openmpi")])
            }
            // (The rest are measured elsewhere, and stand in no case of this one.)
            _ => {
                let program = target("peers/release/osu-mpi-rs");
                Cmd::new(&target("peers/release/mpiexec")).args(["-n", &ranks, &program])
            }
        };
        let iterations = match self {
            Self::OpenMpiSpinning => case.iterations / 10,
            _ => case.iterations,
        };
        let mpi_rs = |size: &&u32| self != Self::MpiRs || MPI_RS_SIZES.contains(size);
        command
            .args([case.operation, &iterations.to_string()])
            .args(case.sizes.iter().filter(mpi_rs).map(u32::to_string))
            .limit_s(LIMIT_S)
    }
}

/// The output of a program.
pub(super) fn said(command: &Cmd) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(format!("{command}: {}: {last}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lines of a size and nanoseconds.
pub(super) fn lines(text: &str) -> Times {
    let parse = |line: &str| {
        let (size, nanos) = line.split_once(' ')?;
        Some((size.parse().ok()?, nanos.parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

/// The command line.
pub(super) fn hikyaku() -> String {
    target("release/hikyaku")
}

/// Builds all of them; gives those that there are. Only our own must.
pub(super) fn build() -> Result<Vec<Peer>, String> {
    run(&Cmd::parse("cargo build --quiet --release -p hikyaku-cli"))?;
    run(&Cmd::parse(
        "cargo build --quiet --release -p hikyaku-mpi --example osu",
    ))?;
    let mut peers = vec![Peer::Hikyaku];
    match open_mpi() {
        Ok(()) => peers.extend([Peer::OpenMpi, Peer::OpenMpiSpinning]),
        Err(why) => eprintln!("without Open MPI: {why}"),
    }
    let manifest = "xtask/peers/mpi-rs/Cargo.toml";
    let mpi_rs = Cmd::parse("cargo build --quiet --release --locked --manifest-path")
        .args([manifest, "--target-dir", &target("peers")])
        .limit_s(300);
    match run(&mpi_rs) {
        Ok(()) => peers.push(Peer::MpiRs),
        Err(why) => eprintln!("without mpi-rs: {why}"),
    }
    Ok(peers)
}

fn open_mpi() -> Result<(), String> {
    if let Some(why) = shell::missing(&["mpicc.openmpi", "mpirun.openmpi"]) {
        return Err(why);
    }
    fs::create_dir_all(shell::target_dir()).map_err(|error| error.to_string())?;
    run(&Cmd::parse("mpicc.openmpi -O2 -o").args([&target("osu-openmpi"), "xtask/peers/osu.c"]))
}

/// Runs a command that prints nothing of interest.
pub(super) fn run(command: &Cmd) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Where the program of a path below cargo's target directory is.
pub(super) fn target(path: &str) -> String {
    shell::target_dir().join(path).display().to_string()
}
