//! Everything that `cargo test` leaves out: because it is long, or because it needs root or a tool.

use crate::{
    attack, callgrind, check, fuzz, packages,
    shell::{self, Cmd},
    soak,
    steps::Steps,
    suites, toolchains,
};

/// A test binary whose `#[ignore]`d tests run here.
struct Ignored {
    /// `tests/<file>.rs` or `tests/<file>/main.rs`
    file: &'static str,
    needs_root: bool,
    tools: &'static [&'static str],
    /// They make network interfaces, or measure: one after the other.
    alone: bool,
    limit_s: u32,
}

/// Seeds of each simulated scenario: two minutes in all on a slow machine.
const SIM_RUNS: &str = "15";
/// The same for seeds that follow from the commit.
const COMMIT_RUNS: &str = "5";

const IGNORED: [Ignored; 3] = [
    Ignored {
        file: "netns",
        needs_root: true,
        tools: &["ip", "nft"],
        alone: true,
        limit_s: 420,
    },
    Ignored {
        file: "mpi",
        needs_root: false,
        tools: &[],
        alone: true,
        limit_s: 600,
    },
    // 256 ranks of one host.
    Ignored {
        file: "routes",
        needs_root: false,
        tools: &[],
        alone: true,
        limit_s: 300,
    },
];

/// `long`: with what takes long on a slow machine, too.
pub(crate) fn run(steps: &mut Steps, long: bool) -> Result<(), String> {
    check::run(steps)?;
    packages::document(steps)?;
    toolchains::msrv(steps)?;
    toolchains::miri(steps)?;
    toolchains::loom(steps)?;
    simulate(steps)?;
    for tests in ["--test tokio --test events --test serde", "--doc asynchronous"] {
        let command = Cmd::parse("cargo test -p hikyaku --features tokio,events,serde")
            .args(UNOPTIMISED.split(' '))
            .args(tests.split(' '));
        steps.run(&format!("further features: {tests}"), &command.limit_s(300))?;
    }
    for tests in &IGNORED {
        ignored(steps, tests)?;
    }
    match attack::obstacle() {
        None => steps.call("attacks, short form", attack::short)?,
        Some(why) => steps.skip("attacks, short form", &why),
    }
    launchers(steps)?;
    suites::short(steps)?;
    dpdk(steps, None)?;
    fuzz::run(steps, &[])?;
    if long {
        callgrind::run(steps, false)?;
    }
    Ok(())
}

/// The tests with seeds, with more of them than `cargo test` has: the same ones each time, and those of the commit.
fn simulate(steps: &mut Steps) -> Result<(), String> {
    for test in ["simulation", "dst"] {
        let command = tests_of(test).env("HIKYAKU_SIM_RUNS", SIM_RUNS).limit_s(600);
        steps.run(&format!("{test}, {SIM_RUNS} seeds"), &command)?;
        let Some(seed) = soak::commit_seed() else {
            steps.skip(&format!("{test}, the commit's seeds"), "no commit here");
            continue;
        };
        let command = tests_of(test)
            .env("HIKYAKU_SIM_FROM", &seed.to_string())
            .env("HIKYAKU_SIM_RUNS", COMMIT_RUNS)
            .limit_s(600);
        steps.run(&format!("{test}, seeds of the commit"), &command)?;
    }
    Ok(())
}

/// The model checker with larger bounds.
pub(crate) fn model(steps: &mut Steps) -> Result<(), String> {
    let command =
        Cmd::parse("cargo test --release -p hikyaku --lib reliability::endpoint::model_tests -- --ignored --nocapture");
    steps.run("model checker", &command.limit_s(3_600))
}

pub(crate) fn netns(steps: &mut Steps) -> Result<(), String> {
    IGNORED
        .iter()
        .filter(|tests| tests.file == "netns")
        .try_for_each(|tests| ignored(steps, tests))
}

/// Where a step takes its time to build and not to run: optimised, the library takes four times as long.
const UNOPTIMISED: &str = "--config profile.dev.package.hikyaku.opt-level=0";

/// What the tests over DPDK build: the same packages and features in each step, so that each is built once.
const WITH_DPDK: &str = "-p hikyaku -p hikyaku-mpi -p hikyaku-bench -p hikyaku-cli --features \
                         hikyaku/dpdk,hikyaku-mpi/dpdk,hikyaku-bench/dpdk,hikyaku-cli/dpdk";

/// The parts of `cargo xtask dpdk`, each with the names of its steps and their commands, in which `WITH` stands for
/// [`WITH_DPDK`]: a part needs no other one. A test that needs root says so and passes.
const DPDK: [(&str, &[(&str, &str)]); 4] = [
    (
        "bindings",
        &[
            (
                "clippy",
                "cargo clippy -p hikyaku-dpdk-sys --features hikyaku-dpdk-sys/bindings WITH --all-targets -- -D warnings",
            ),
            ("bindings", "cargo test -p hikyaku-dpdk-sys --features bindings"),
            ("bindings, static", "cargo test -p hikyaku-dpdk-sys --features static"),
        ],
    ),
    (
        "devices",
        &[
            (
                "unit tests",
                "cargo test WITH --lib -- backends::dpdk poller --test-threads=1",
            ),
            PROGRAMS,
            (
                "between processes",
                "cargo test WITH --test dpdk -- --test-threads=1 --show-output",
            ),
        ],
    ),
    (
        "ranks",
        &[
            PROGRAMS,
            ("ranks and pollers", "cargo test WITH --test poller -- --test-threads=1"),
        ],
    ),
    (
        "benchmarks",
        &[("benchmarks", "cargo test WITH --test bench without_the_kernel")],
    ),
];

/// The command line and MPI's programs, which tests start.
const PROGRAMS: (&str, &str) = ("programs", "cargo build WITH --bins --examples");

/// Whether `cargo xtask dpdk` has a part of this name.
pub(crate) fn is_part_of_dpdk(name: &str) -> bool {
    DPDK.iter().any(|(part, _)| *part == name)
}

/// Everything that needs DPDK, or the part of this name.
pub(crate) fn dpdk(steps: &mut Steps, part: Option<&str>) -> Result<(), String> {
    let there = Cmd::parse("pkg-config --atleast-version=22.11 libdpdk")
        .stdout()
        .is_some();
    let obstacle = (!there).then(|| "no DPDK 22.11 with headers here (cargo xtask setup)".to_owned());
    let wanted = |name: &str| part.is_none_or(|part| part == name);
    let chosen = DPDK.iter().filter(|(name, _)| wanted(name));
    for (name, command) in chosen.flat_map(|(_, commands)| *commands) {
        let with = format!("{UNOPTIMISED} {WITH_DPDK}");
        let command = Cmd::parse(&command.replace("WITH", &with)).limit_s(600);
        steps.run_unless(obstacle.clone(), &format!("dpdk: {name}"), &command)?;
    }
    Ok(())
}

/// (launcher, tools, only as root): tests in `crates/cli/tests/launchers`.
const LAUNCHERS: [(&str, &[&str], bool); 5] = [
    ("mpich", &["mpiexec.hydra"], false),
    ("open_mpi", &["mpirun.openmpi"], false),
    ("slurm", &["srun", "slurmctld", "slurmd", "munged"], true),
    ("pods", &["unshare"], true),
    ("torchrun", &["unshare"], true),
];

/// Processes under the launchers of others, and what of our own takes long.
pub(crate) fn launchers(steps: &mut Steps) -> Result<(), String> {
    // What the launchers start, of the workspace: as in `tests_of`.
    let programs = Cmd::parse("cargo build --workspace --lib --bins --examples").limit_s(600);
    steps.run("launchers: programs", &programs)?;
    for (name, tools, needs_root) in LAUNCHERS {
        let obstacle = if needs_root && !shell::is_root() {
            Some("needs root".to_owned())
        } else {
            shell::missing(tools)
        };
        let test = format!("launchers::{name}");
        let command = tests_of("run").args(["--", "--ignored", "--exact", &test]).limit_s(300);
        steps.run_unless(obstacle, &format!("launchers: {name}"), &command)?;
    }
    // Ranks that die or compute for as long as the usual limits allow.
    let command = tests_of("life").args(["--", "--ignored"]).limit_s(300);
    steps.run("launchers: lost ranks", &command)
}

/// The tests of a file, whichever package has it: of the whole workspace cargo chooses the same features as for
/// `cargo test --workspace`, which has built them.
fn tests_of(file: &str) -> Cmd {
    Cmd::parse("cargo test --workspace --test").args([file])
}

fn ignored(steps: &mut Steps, tests: &Ignored) -> Result<(), String> {
    let file = tests.file;
    let obstacle = if tests.needs_root && !shell::is_root() {
        Some("needs root".to_owned())
    } else {
        shell::missing(tests.tools)
    };
    let mut command = tests_of(file).args(["--", "--ignored"]).limit_s(tests.limit_s);
    if tests.alone {
        command = command.args(["--test-threads=1"]);
    }
    steps.run_unless(obstacle, &format!("{file} (ignored tests)"), &command)
}
