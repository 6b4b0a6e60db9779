//! `cargo xtask install`: the command, the libraries and what belongs to them, under one folder.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

#[path = "../../crates/cli/src/names.rs"]
mod names;

use names::NAMES;

use crate::shell::{self, Cmd};

const USAGE: &str = "usage: cargo xtask install --prefix DIR";

/// (what cargo makes, its name for the loader)
const LIBRARIES: [(&str, &str); 2] = [("libmpi_abi.so", "libmpi_abi.so.1"), ("libmpich.so", "libmpi.so.12")];
/// (folder under the prefix, file in `crates/capi`)
const FILES: [(&str, &str); 2] = [("include", "include/mpi.h"), ("lib/pkgconfig", "mpi.pc")];
/// (shell, the file that it reads)
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/hikyaku"),
    ("zsh", "share/zsh/site-functions/_hikyaku"),
    ("fish", "share/fish/vendor_completions.d/hikyaku.fish"),
];

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let prefix = match args {
        [flag, prefix] if flag == "--prefix" => prefix,
        _ => return Err(USAGE.to_owned()),
    };
    let prefix = std::path::absolute(prefix).map_err(|error| format!("{prefix}: {error}"))?;
    install(&prefix, "release")?;
    println!("installed in {}", prefix.display());
    Ok(())
}

/// Builds everything with this profile, and puts it under `prefix`, which is absolute.
pub(crate) fn install(prefix: &Path, profile: &str) -> Result<(), String> {
    Cmd::parse("cargo build -p hikyaku-cli -p hikyaku-capi-abi -p hikyaku-capi-mpich --profile")
        .args([profile])
        .run()?;
    let built = shell::target_dir().join(if profile == "dev" { "debug" } else { profile });
    let failed = |error: io::Error| format!("{}: {error}", prefix.display());
    fill(prefix, &built).map_err(failed)?;
    let command = prefix.join("bin/hikyaku").display().to_string();
    Cmd::new(&command)
        .args(["man", &prefix.join("share/man/man1").display().to_string()])
        .run()?;
    for (name, stands_for) in NAMES {
        let page = format!(".so man1/hikyaku-{stands_for}.1\n");
        put(&prefix.join(format!("share/man/man1/{name}.1")), page.as_bytes(), 0o644).map_err(failed)?;
    }
    for (name, file) in COMPLETIONS {
        let text = Cmd::new(&command).args(["completions", name]).stdout();
        let text = text.ok_or_else(|| format!("{command} completions {name} fails"))?;
        put(&prefix.join(file), text.as_bytes(), 0o644).map_err(failed)?;
    }
    Ok(())
}

fn fill(prefix: &Path, built: &Path) -> io::Result<()> {
    put(&prefix.join("bin/hikyaku"), &fs::read(built.join("hikyaku"))?, 0o755)?;
    for (file, name) in LIBRARIES {
        put(&prefix.join("lib").join(name), &fs::read(built.join(file))?, 0o644)?;
    }
    for (folder, file) in FILES {
        let from = shell::root().join("crates/capi").join(file);
        let text = fs::read_to_string(&from)?
            .replace("@PREFIX@", &prefix.display().to_string())
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        let to: PathBuf = prefix.join(folder).join(from.file_name().expect("a file"));
        put(&to, text.as_bytes(), 0o644)?;
    }
    for (name, _) in NAMES {
        link(&prefix.join("bin").join(name), "hikyaku")?;
    }
    // By this name, compilers look for it.
    link(&prefix.join("lib/libmpi_abi.so"), "libmpi_abi.so.1")
}

/// Makes a link to a file beside it.
fn link(path: &Path, to: &str) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path)?;
    }
    symlink(to, path)
}

/// Writes a file beside its place and moves it there, so that programs that use the old one keep it.
fn put(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    fs::create_dir_all(path.parent().expect("a path below the prefix"))?;
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    fs::write(&new, bytes)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(mode))?;
    fs::rename(&new, path)
}
