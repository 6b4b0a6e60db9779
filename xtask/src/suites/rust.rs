//! rsmpi: the crate `mpi` as crates.io has it, which takes constants and functions from the header that `mpicc` shows.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::{
    Verified,
    place::{Library, Place, text},
};
use crate::shell::Cmd;

const CRATE: &str = "mpi-0.8.2";
/// Examples that start processes, which our library cannot yet.
const NOT_YET: [&str; 2] = ["spawn", "spawn_multiple"];

/// Lets cargo get the crate as a dependency of an empty one, and copies what it has unpacked.
pub(super) fn fetch(place: &Place) -> Result<(), String> {
    let sources = place.sources();
    if sources.join(CRATE).exists() {
        return Ok(());
    }
    let empty = sources.join("rsmpi");
    let failed = |error: std::io::Error| format!("{}: {error}", empty.display());
    fs::create_dir_all(&empty).map_err(failed)?;
    fs::write(empty.join("lib.rs"), "").map_err(failed)?;
    let manifest =
        "[package]\nname = \"empty\"\n[lib]\npath = \"lib.rs\"\n[workspace]\n[dependencies]\nmpi = \"=0.8.2\"\n";
    fs::write(empty.join("Cargo.toml"), manifest).map_err(failed)?;
    place.within(&empty, "cargo", &["fetch"]).limit_s(300).run()?;
    let unpacked = unpacked().ok_or_else(|| format!("cargo has no {CRATE}"))?;
    let from = unpacked.join(".").display().to_string();
    let to = sources.join(CRATE);
    fs::create_dir_all(&to).map_err(failed)?;
    Cmd::parse("cp -r").args([&from, &to.display().to_string()]).run()?;
    // It lies within our workspace, and is none of it.
    let manifest = fs::read_to_string(to.join("Cargo.toml")).map_err(failed)?;
    fs::write(to.join("Cargo.toml"), manifest + "\n[workspace]\n").map_err(failed)
}

/// Where cargo has unpacked it.
fn unpacked() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/src")).ok()?;
    let mut folders = registries
        .filter_map(Result::ok)
        .map(|registry| registry.path().join(CRATE));
    folders.find(|folder| folder.exists())
}

pub(super) fn rsmpi(place: &Place, library: &Library) -> Verified {
    let work = place.copy(CRATE, library)?;
    let mpicc = library.program("mpicc");
    let cargo = |args: &[&str]| {
        let command = place.within(&work, "cargo", args).env("MPICC", &mpicc).limit_s(900);
        text(&command.env("CARGO_TARGET_DIR", &work.join("target").display().to_string()))
    };
    let tests = cargo(&["test", "--all-features"])?;
    let passed = tests.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let passed = passed.filter_map(|line| line.split_whitespace().next()?.parse::<u32>().ok());
    let passed: u32 = passed.sum();
    cargo(&["build", "--all-features", "--examples"])?;
    let (mut succeed, mut fail) = (0, Vec::new());
    for example in examples(&work)? {
        let program = work.join("target/debug/examples").join(&example).display().to_string();
        let command = Cmd::new(&library.program("mpiexec"))
            .args(["-n", "4", &program])
            .limit_s(60);
        match text(&command) {
            Ok(_) => succeed += 1,
            Err(_) => fail.push(example),
        }
    }
    Ok(format!(
        "{passed} tests pass; {succeed} examples succeed, and these fail: {}",
        fail.join(" ")
    ))
}

fn examples(work: &Path) -> Result<Vec<String>, String> {
    let files = fs::read_dir(work.join("examples")).map_err(|error| error.to_string())?;
    let names = files.filter_map(Result::ok).filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        name.strip_suffix(".rs").map(str::to_owned)
    });
    let mut names: Vec<String> = names.filter(|name| !NOT_YET.contains(&name.as_str())).collect();
    names.sort();
    Ok(names)
}
