//! Packages as a registry would have them: they build from each other, without this repository, and docs.rs can
//! document them.

use std::{fs, path::PathBuf};

use crate::{
    shell::{self, Cmd},
    steps::Steps,
};

/// The packages to publish; `tests/tidy` says what belongs in each.
const PACKAGES: [&str; 10] = [
    "hikyaku",
    "hikyaku-bench",
    "hikyaku-capi",
    "hikyaku-capi-abi",
    "hikyaku-capi-mpich",
    "hikyaku-cli",
    "hikyaku-dpdk-sys",
    "hikyaku-mpi",
    "hikyaku-mpi-derive",
    "hikyaku-papers",
];
/// All have the version of the workspace, as this crate has.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Libraries with all that docs.rs documents.
const DOCUMENTED: &str = "-p hikyaku -p hikyaku-mpi -p hikyaku-mpi-derive -p hikyaku-dpdk-sys -p hikyaku-bench \
                          -p hikyaku-papers --all-features";

/// Runs the chore `packages`.
pub(crate) fn run(steps: &mut Steps) -> Result<(), String> {
    build(steps)?;
    document(steps)
}

/// Packs, and checks what was packed.
pub(crate) fn build(steps: &mut Steps) -> Result<(), String> {
    let pack = "cargo package --workspace --exclude xtask --no-verify --offline --allow-dirty --quiet";
    steps.run("packages", &Cmd::parse(pack))?;
    steps.call("packages, unpacked", || {
        unpack().map_err(|error| error.to_string())?;
        // `cargo package` would build each for itself, in six times the time; what it finds that a check does not is
        // what linkers say. With the feature that would need DPDK.
        in_unpacked("cargo check")
            .args(["--workspace", "--features", "hikyaku/dpdk", "--target-dir"])
            .args([shell::target_dir().to_string_lossy()])
            .run()
    })
}

/// Documents what [`build`] has unpacked, as docs.rs does.
pub(crate) fn document(steps: &mut Steps) -> Result<(), String> {
    let target = shell::target_dir().join("docs.rs");
    let doc = in_unpacked("cargo +nightly doc --no-deps --lib")
        .args(DOCUMENTED.split(' '))
        .args(["--target-dir", &target.to_string_lossy()])
        .env("RUSTDOCFLAGS", "--cfg docsrs -Dwarnings");
    let obstacle = (!shell::has_nightly()).then(|| "no nightly toolchain (cargo xtask setup)".to_owned());
    steps.run_unless(obstacle, "packages, as docs.rs documents them", &doc)
}

/// `command` on the unpacked packages, where there is no DPDK.
fn in_unpacked(command: &str) -> Cmd {
    let manifest = unpacked().join("Cargo.toml");
    Cmd::parse(command)
        .args(["--quiet", "--manifest-path", &manifest.to_string_lossy()])
        .env("DOCS_RS", "1")
        .env("PKG_CONFIG_LIBDIR", "/nonexistent")
}

fn unpacked() -> PathBuf {
    shell::target_dir().join("package").join("unpacked")
}

/// A workspace of the packages alone, in which they find each other, with the versions and the profile of this one, so
/// that what they depend on has been built already.
fn unpack() -> std::io::Result<()> {
    let folder = unpacked();
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let mut manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[profile.dev]\nopt-level = 1\n\n\
                        [patch.crates-io]\n"
        .to_owned();
    for package in PACKAGES {
        let name = format!("{package}-{VERSION}");
        let archive = folder.with_file_name(format!("{name}.crate"));
        // With the time of now: what cargo has packed is all of one day, and would look as if it had been built before.
        let tar =
            Cmd::parse("tar -x -z -m -f").args([archive.to_string_lossy(), "-C".into(), folder.to_string_lossy()]);
        if !tar.output()?.status.success() {
            return Err(std::io::Error::other(format!("fails: {tar}")));
        }
        manifest += &format!("{package} = {{ path = \"{name}\" }}\n");
    }
    fs::copy(shell::root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    fs::write(folder.join("Cargo.toml"), manifest)
}
