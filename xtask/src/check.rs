//! What must hold for every commit and needs no tests: format, lints, docs, packages, `no_std`, licences.

use crate::{
    no_std, packages,
    shell::{self, Cmd},
    steps::Steps,
};

/// Feature sets of the library that must be free of warnings by themselves; the default is linted with everything
/// else. With two backends this is every set that differs; `poller`, `shm` and `mpi` stand
/// beside them.
const FEATURES: [&str; 15] = [
    "",
    "std",
    "loopback",
    "udp",
    "loopback,udp",
    "poller",
    "shm",
    "mpi",
    "sim",
    "tokio",
    "tracing",
    "log",
    "events",
    "serde",
    "events,serde,mpi",
];

pub(crate) fn run(steps: &mut Steps) -> Result<(), String> {
    steps.run("format", &Cmd::parse("cargo fmt --all --check"))?;
    steps.run(
        "clippy",
        &Cmd::parse("cargo clippy --workspace --all-targets -- -D warnings"),
    )?;
    steps.run(
        "clippy, command line without simulations",
        &Cmd::parse("cargo clippy -p hikyaku-cli --no-default-features -- -D warnings"),
    )?;
    steps.run(
        "clippy, programs without simulations",
        &Cmd::parse("cargo clippy -p hikyaku-papers --no-default-features -- -D warnings"),
    )?;
    steps.run(
        "clippy, benchmarks with other transports",
        &Cmd::parse("cargo clippy -p hikyaku-bench --features peers --all-targets -- -D warnings"),
    )?;
    steps.run(
        "clippy, transports on tokio",
        &Cmd::parse("cargo clippy -p hikyaku --features tokio --all-targets -- -D warnings"),
    )?;
    steps.run(
        "clippy, events and statistics as text",
        &Cmd::parse("cargo clippy -p hikyaku --features events,serde --all-targets -- -D warnings"),
    )?;
    for features in FEATURES {
        let name = format!("clippy [{features}]");
        let lint = "cargo clippy -p hikyaku --lib --no-default-features --features";
        steps.run(&name, &Cmd::parse(lint).args([features]).args(["--", "-D", "warnings"]))?;
    }
    steps.run(
        "doc",
        &Cmd::parse("cargo doc --workspace --no-deps").env("RUSTDOCFLAGS", "-Dwarnings"),
    )?;
    packages::build(steps)?;
    no_std::run(steps)?;
    semver(steps)?;
    steps.run_unless(
        shell::missing(&["cargo-deny"]),
        "licences",
        &Cmd::parse("cargo deny --log-level error check licenses bans sources"),
    )
}

/// Whether the version says what has changed since the last published one. (`tests/public_items.rs` shows what has.)
fn semver(steps: &mut Steps) -> Result<(), String> {
    let name = "semantic versions";
    let mut obstacle = shell::which("cargo-semver-checks")
        .is_none()
        .then(|| "not installed (cargo install --locked cargo-semver-checks)".to_owned());
    if obstacle.is_none() {
        let published = Cmd::parse("cargo info hikyaku --registry crates-io --quiet").limit_s(60);
        let is_published = published.output().is_ok_and(|output| output.status.success());
        obstacle = (!is_published).then(|| "no published version to compare with".to_owned());
    }
    let check = Cmd::parse("cargo semver-checks --package hikyaku --package hikyaku-mpi");
    steps.run_unless(obstacle, name, &check)
}
