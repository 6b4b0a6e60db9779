//! Programs that cargo has built beside the tests. `cargo test --workspace` builds all that is needed before it runs any.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Where cargo has put a program; `how` builds it.
fn built(name: &str, how: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join(name);
    let release = if cfg!(debug_assertions) { "" } else { " --release" };
    assert!(
        program.exists(),
        "{} is not built: cargo build{release} {how}",
        program.display()
    );
    program
}

pub(crate) fn launcher() -> PathBuf {
    built("hikyaku", "-p hikyaku-cli")
}

pub(crate) fn example(name: &str) -> PathBuf {
    let program = built(&format!("examples/{name}"), "-p hikyaku-mpi --examples");
    // `cargo test --test examples` builds no examples: an old one proves nothing.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{name}.rs"));
    let [made, written] = [&program, &source].map(|file| fs::metadata(file).unwrap().modified().unwrap());
    assert!(
        written <= made,
        "{name} is older than its source: cargo build -p hikyaku-mpi --examples"
    );
    program
}
