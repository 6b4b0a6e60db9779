//! Installs what `cargo xtask ci` needs.

use std::{fs, path::Path};

use crate::{
    shell::{self, Cmd},
    steps::Steps,
    toolchains,
};

/// (tool, or a file by its path; Debian package; what for)
const PACKAGES: [(&str, &str, &str); 17] = [
    ("ip", "iproute2", "tests between network namespaces"),
    ("nft", "nftables", "loss in those tests"),
    ("ethtool", "ethtool", "offloads in those tests"),
    ("tshark", "tshark", "the test of the packet dissector"),
    ("valgrind", "valgrind", "instruction counts"),
    ("mpiexec.hydra", "mpich", "tests under its launcher"),
    ("mpirun.openmpi", "openmpi-bin", "tests under its launcher"),
    ("mpicc.openmpi", "libopenmpi-dev", "bench-mpi"),
    ("srun", "slurm-client", "tests under Slurm"),
    ("slurmctld", "slurmctld", "tests under Slurm"),
    ("slurmd", "slurmd", "tests under Slurm"),
    ("munged", "munge", "tests under Slurm"),
    ("c++", "g++", "fuzzing (libFuzzer is C++)"),
    ("clang", "clang", "bindings of C libraries"),
    (
        "/usr/include/bpf/bpf_helpers.h",
        "libbpf-dev",
        "loss in tests of the dpdk backend",
    ),
    (
        "qemu-system-x86_64",
        "qemu-system-x86",
        "rules of DPDK's ports, in a virtual machine",
    ),
    // A program that comes with the headers and all drivers.
    ("dpdk-testpmd", "dpdk-dev", "the dpdk backend and its tests"),
];

const CARGO_TOOLS: [(&str, &str); 2] = [("cargo-deny", "licences of dependencies"), ("cargo-fuzz", "fuzzing")];

/// 2 MB each: what the tests of the dpdk backend take, for two processes.
const HUGEPAGES: u32 = 200;
const NR_HUGEPAGES: &str = "/proc/sys/vm/nr_hugepages";

pub(crate) fn run(steps: &mut Steps) -> Result<(), String> {
    packages(steps)?;
    hugepages(steps);
    for (tool, purpose) in CARGO_TOOLS {
        let obstacle = shell::which(tool).is_some().then(|| "already there".to_owned());
        steps.run_unless(
            obstacle,
            &format!("{tool} ({purpose})"),
            &Cmd::parse("cargo install --locked").args([tool]),
        )?;
    }
    // The further steps are the one use of these, so a network that does not let them through is no failure.
    for (name, there, install) in toolchains::wanted()? {
        if there {
            steps.skip(&name, "already there");
        } else if shell::which("rustup").is_none() {
            steps.skip(&name, "rustup not installed");
        } else if let Err(error) = Cmd::parse(&install).limit_s(600).run() {
            steps.skip(&name, error.lines().next().unwrap_or_default());
        }
    }
    Ok(())
}

/// Tests reserve them for as long as they run. Here it is only seen whether there is as much memory in one piece: they
/// are taken, and given back.
fn hugepages(steps: &mut Steps) {
    let step = "hugepages (tests of the dpdk backend)";
    if !shell::is_root() {
        steps.skip(step, &format!("needs root: echo {HUGEPAGES} > {NR_HUGEPAGES}"));
        return;
    }
    let reserved = || {
        let text = fs::read_to_string(NR_HUGEPAGES).unwrap_or_default();
        text.trim().parse::<u32>().unwrap_or(0)
    };
    let before = reserved();
    if before >= HUGEPAGES {
        steps.skip(step, "already there");
        return;
    }
    let _ = fs::write(NR_HUGEPAGES, HUGEPAGES.to_string());
    let got = reserved();
    let _ = fs::write(NR_HUGEPAGES, before.to_string());
    if got >= HUGEPAGES {
        steps.skip(step, "the tests can reserve them");
    } else {
        steps.skip(
            step,
            &format!("the memory is in too small pieces for {HUGEPAGES} of them, at most {got}"),
        );
    }
}

fn is_there(tool: &str) -> bool {
    if tool.starts_with('/') {
        Path::new(tool).exists()
    } else {
        shell::which(tool).is_some()
    }
}

fn packages(steps: &mut Steps) -> Result<(), String> {
    let wanted: Vec<_> = PACKAGES.iter().filter(|(tool, ..)| !is_there(tool)).collect();
    let names: Vec<&str> = wanted.iter().map(|(_, package, _)| *package).collect();
    for (tool, package, purpose) in &wanted {
        println!("{tool} is missing: package {package}, for {purpose}");
    }
    let step = "packages";
    if wanted.is_empty() {
        steps.skip(step, "already there");
    } else if shell::which("apt-get").is_none() {
        steps.skip(
            step,
            &format!("no apt-get here; install what belongs to: {}", names.join(" ")),
        );
    } else if !shell::is_root() {
        steps.skip(
            step,
            &format!(
                "needs root: sudo apt-get install -y --no-install-recommends {}",
                names.join(" ")
            ),
        );
    } else {
        let apt = |line: &str| Cmd::parse(line).env("DEBIAN_FRONTEND", "noninteractive");
        steps.run("package list", &apt("apt-get update -q"))?;
        steps.run(step, &apt("apt-get install -y -q --no-install-recommends").args(names))?;
    }
    Ok(())
}
