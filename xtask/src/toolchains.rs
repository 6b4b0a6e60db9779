//! Steps that need another toolchain than the usual one, or its own atomics: the oldest compiler that is promised, miri and
//! loom.

use std::fs;

use crate::{
    shell::{self, Cmd},
    steps::Steps,
};

const MIRI_INSTALL: &str = "rustup component add miri rust-src --toolchain nightly";
/// Modules with `unsafe` code or lock-free rings that miri can run: it knows no sockets.
const MIRI: [&str; 5] = [
    "transport::borrow",
    "backends::pool",
    "backends::loopback",
    "ring::",
    "messaging::arena",
];

/// A tool that `setup` installs: a name with the purpose, whether it is here, and the command that installs it.
pub(crate) fn wanted() -> Result<Vec<(String, bool, String)>, String> {
    let oldest = rust_version()?;
    Ok(vec![
        (
            "nightly toolchain (fuzzing, miri)".to_owned(),
            shell::has_toolchain("nightly"),
            "rustup toolchain install nightly --profile minimal".to_owned(),
        ),
        (
            "miri (undefined behaviour)".to_owned(),
            has_miri(),
            MIRI_INSTALL.to_owned(),
        ),
        (
            format!("Rust {oldest} (the oldest that is promised)"),
            shell::has_toolchain(&oldest),
            format!("rustup toolchain install {oldest} --profile minimal"),
        ),
    ])
}

/// Everything compiles with the `rust-version` of Cargo.toml.
pub(crate) fn msrv(steps: &mut Steps) -> Result<(), String> {
    let version = rust_version()?;
    let obstacle = (!shell::has_toolchain(&version)).then(|| format!("no Rust {version} (cargo xtask setup)"));
    let check = format!("cargo +{version} check --workspace --all-targets");
    // A folder of its own: the compilers would throw away each other's work.
    let folder = shell::target_dir().join("msrv");
    let command = Cmd::parse(&check).env("CARGO_TARGET_DIR", &folder.to_string_lossy());
    steps.run_unless(obstacle, &format!("Rust {version}"), &command)
}

/// The unit tests of [`MIRI`] without undefined behaviour.
pub(crate) fn miri(steps: &mut Steps) -> Result<(), String> {
    let obstacle = (!has_miri()).then(|| "no miri (cargo xtask setup)".to_owned());
    let command = Cmd::parse("cargo +nightly miri test -p hikyaku --lib --no-default-features --features loopback --")
        .args(MIRI)
        .limit_s(600);
    steps.run_unless(obstacle, "miri", &command)
}

/// Tries all orders of threads in code that they use without the compiler's help: `tests/loom`, a workspace of its own.
pub(crate) fn loom(steps: &mut Steps) -> Result<(), String> {
    let command = Cmd::parse("cargo test --manifest-path tests/loom/Cargo.toml --target-dir")
        .args([&*shell::target_dir().join("loom").to_string_lossy()])
        .limit_s(300);
    steps.run("loom", &command)
}

fn has_miri() -> bool {
    shell::has_toolchain("nightly")
        && Cmd::parse("rustup component list --toolchain nightly --installed")
            .stdout()
            .is_some_and(|list| list.contains("miri"))
}

fn rust_version() -> Result<String, String> {
    let manifest =
        fs::read_to_string(shell::root().join("Cargo.toml")).map_err(|error| format!("Cargo.toml: {error}"))?;
    manifest
        .lines()
        .find_map(|line| {
            line.strip_prefix("rust-version = ")?
                .trim()
                .trim_matches('"')
                .parse()
                .ok()
        })
        .ok_or_else(|| "Cargo.toml names no rust-version".to_owned())
}
