//! What messages go over.

use super::pollers::Pollers;
use crate::shell::{Cmd, built};

/// A run that takes longer has met a fault.
const LIMIT_S: u32 = 60;
const TCP: &str = "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo";

/// Over what messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The processes poll a device of their own.
    Dpdk,
    /// Pollers do, for all messages.
    Poller,
    /// The pollers for small messages; for large ones the processes, a device of their own.
    Combined,
    /// The same, by queues of the pollers' port.
    CombinedPort,
    /// The same, by the kernel's sockets.
    CombinedUdp,
    /// The kernel's sockets.
    Udp,
    /// The same, by ranks that sleep while they wait, as those behind pollers do that share CPUs with them.
    UdpAsleep,
    /// Open MPI with its tcp btl.
    OpenMpi,
}

/// A program of ours, and the same of Open MPI.
#[derive(Clone, Debug)]
pub(super) struct Job<'a> {
    pub ranks: u32,
    pub device: &'a str,
    /// Name of the example, and its arguments.
    pub ours: Vec<String>,
    /// Name of the compiled program, and its arguments.
    pub theirs: Vec<String>,
}

impl Way {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Dpdk => "hikyaku/dpdk",
            Self::Poller => "hikyaku/poller",
            Self::Combined => "hikyaku/poller+dpdk",
            Self::CombinedPort => "hikyaku/poller+port",
            Self::CombinedUdp => "hikyaku/poller+udp",
            Self::Udp => "hikyaku/udp",
            Self::UdpAsleep => "hikyaku/udp, asleep",
            Self::OpenMpi => "openmpi/tcp",
        }
    }

    /// Runs the job once; gives what it prints.
    pub(super) fn run(self, job: &Job<'_>) -> Result<String, String> {
        let np = job.ranks.to_string();
        let crowded = job.ranks as usize > std::thread::available_parallelism().map_or(1, usize::from);
        let mut ours = job.ours.clone();
        ours[0] = built(&format!("release/examples/{}", ours[0]));
        let run = Cmd::new(&built("release/hikyaku"))
            .env("HIKYAKU_ROUTES", "network")
            .args(["run", "-n", &np]);
        // With more ranks than CPUs, `hikyaku run` knows how ranks wait.
        let spins = |run: Cmd| if crowded { run } else { run.env("HIKYAKU_WAIT", "spin") };
        let mut pollers = None;
        if matches!(
            self,
            Self::Poller | Self::Combined | Self::CombinedPort | Self::CombinedUdp
        ) {
            pollers = Some(Pollers::start(job.ranks, self == Self::CombinedPort)?);
        }
        let behind = |run: Cmd| match &pollers {
            Some(pollers) => pollers.ranks(run, &ours),
            None => run,
        };
        let command = match self {
            Self::Dpdk => spins(run)
                .args(["--backend", "dpdk", "--device", job.device])
                .args(&ours),
            Self::Udp => spins(run).args(&ours),
            Self::UdpAsleep => run.env("HIKYAKU_WAIT", "block").args(&ours),
            Self::Poller => behind(run.env("HIKYAKU_POLLER_BULK", "off")),
            Self::CombinedPort => behind(run.env("HIKYAKU_POLLER_BULK", "port")),
            Self::Combined => behind(run.env("HIKYAKU_POLLER_BULK", "dpdk").args(["--device", job.device])),
            Self::CombinedUdp => behind(run.env("HIKYAKU_POLLER_BULK", "udp")),
            Self::OpenMpi => Cmd::new("mpirun.openmpi")
                .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
                .args(["-n", &np, "--bind-to", if crowded { "none" } else { "core" }])
                .args(["--host", &format!("localhost:{np}")])
                .args(["--mca", "mpi_yield_when_idle", if crowded { "1" } else { "0" }])
                .args(TCP.split(' '))
                .args([built(&job.theirs[0])])
                .args(&job.theirs[1..]),
        };
        let command = command.limit_s(LIMIT_S);
        let output = command.output().map_err(|error| format!("{command}: {error}"))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            return Err(format!("{command}: {}: {last}", output.status));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
