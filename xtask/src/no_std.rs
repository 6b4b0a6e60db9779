//! Proves that the core builds without `std`: `tests/no_std` brings its own panic handler, so that `std` anywhere
//! below it is a second definition of one language item and does not compile.

use crate::{
    shell::{self, Cmd},
    steps::Steps,
};

/// A microcontroller: 32-bit pointers and atomics, no operating system.
const BARE_TARGET: &str = "thumbv7em-none-eabihf";

const BUILD: &str = "cargo build --manifest-path tests/no_std/Cargo.toml";

pub(crate) fn run(steps: &mut Steps) -> Result<(), String> {
    steps.run("no_std", &build())?;
    steps.run("no_std, with events and serde", &build().args(["--features", "more"]))?;
    steps.call("no_std canary", canary)?;
    steps.run_unless(
        (!has_target()).then(|| format!("target {BARE_TARGET} not installed (rustup target add {BARE_TARGET})")),
        "no_std bare metal",
        &build().args(["--features", "more", "--target", BARE_TARGET]),
    )
}

/// Its own folder below the target folder: its profile differs, so sharing would build everything twice over.
fn build() -> Cmd {
    Cmd::parse(BUILD).args(["--target-dir", &shell::target_dir().join("no_std").to_string_lossy()])
}

/// With `std` switched on the same build must fail: else the proof proves nothing.
fn canary() -> Result<(), String> {
    let build = build().args(["--features", "canary"]);
    println!("$ {build}  # has to fail");
    let output = build.output().map_err(|error| error.to_string())?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Err(format!("std is linked and nothing fails\n  repeat it: {build}"))
    } else if messages.contains("duplicate lang item") || messages.contains("E0152") {
        Ok(())
    } else {
        Err(format!(
            "fails for another reason than std:\n{messages}\n  repeat it: {build}"
        ))
    }
}

fn has_target() -> bool {
    let sysroot = Cmd::parse("rustc --print sysroot").stdout().unwrap_or_default();
    std::path::Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(BARE_TARGET)
        .is_dir()
}
