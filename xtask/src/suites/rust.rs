//! rsmpi: the crate `mpi` as crates.io has it, over bindings that it makes of the library's `mpi.h`.

use std::{fs, path::Path};

use super::place::{Library, Place, Verified, ranks, text};
use crate::shell::{self, Cmd};

const CRATE: &str = "mpi-0.8.2";
/// What it needs beyond the crate itself is fetched when it is built.
const LIMIT_S: u32 = 900;
/// Numbers of ranks for its examples.
const RANKS: [u32; 3] = [2, 3, 4];

pub(super) fn fetch(place: &Place) -> Result<(), String> {
    if shell::which("clang").is_none() {
        return Err("no clang here, by which bindgen reads the header".to_owned());
    }
    let (name, version) = CRATE.rsplit_once('-').expect("a name and a version");
    place.crate_source(name, version)
}

/// `cargo` for the crate over a library.
fn cargo(place: &Place, library: &Library, folder: &Path, args: &[&str]) -> Cmd {
    place
        .within(folder, "cargo", args)
        .args(["--features", "derive,complex"])
        .env("MPICC", &library.program("mpicc"))
        .env("CARGO_TARGET_DIR", &folder.join("target").display().to_string())
        // Its build script tells cargo of the library, but not the loader.
        .env("RUSTFLAGS", &format!("-C link-arg=-Wl,-rpath,{}", library.folder()))
        .limit_s(LIMIT_S)
}

pub(super) fn rsmpi(place: &Place, library: &Library) -> Verified {
    // The crate as it is, in a workspace of its own.
    let work = place.work("rsmpi", library)?;
    place.copy_to(CRATE, &work.join(CRATE))?;
    let write = |name: &str, text: &str| fs::write(work.join(name), text).map_err(|error| format!("{name}: {error}"));
    write(
        "Cargo.toml",
        &format!("[workspace]\nresolver = \"2\"\nmembers = [\"{CRATE}\"]\n"),
    )?;
    fs::copy(work.join(CRATE).join("Cargo.lock"), work.join("Cargo.lock")).map_err(|error| error.to_string())?;
    text(&cargo(place, library, &work, &["build", "--quiet", "--examples"]))?;
    let mut names: Vec<String> = fs::read_dir(work.join(CRATE).join("examples"))
        .map_err(|error| error.to_string())?
        .filter_map(|file| Some(file.ok()?.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    let mut failed = Vec::new();
    for name in &names {
        for number in RANKS {
            let program = format!("target/debug/examples/{name}");
            if let Err(why) = ranks(place, library, &work, number, &[&program]) {
                println!("{why}");
                failed.push(format!("{name} of {number}"));
            }
        }
    }
    let tests = text(&cargo(place, library, &work, &["test", "--lib", "--tests"]))?;
    let passed = tests.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let passed: u32 = passed
        .filter_map(|line| line.split(' ').next()?.parse::<u32>().ok())
        .sum();
    if !failed.is_empty() {
        return Err(format!("examples: {}", failed.join(", ")));
    }
    Ok(format!("{} examples by 2, 3 and 4 ranks, {passed} tests", names.len()))
}
