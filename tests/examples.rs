//! The examples of shared memory and buffer arrays, run as a user would; they compare their results themselves. Those of
//! MPI programs are tests of `crates/mpi`.
#![cfg(all(feature = "mpi", feature = "udp"))]

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

/// Runs an example that `cargo test` has built, and gives what it says.
fn run(name: &str, arguments: &[&str]) -> String {
    let test = env::current_exe().unwrap();
    let program = test
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("examples")
        .join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{name}.rs"));
    let [made, written] = [&program, &source].map(|file| fs::metadata(file).and_then(|about| about.modified()));
    let is_current = made.is_ok_and(|made| written.is_ok_and(|written| written <= made));
    assert!(is_current, "{name} is not built: cargo build --examples");
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{name}: {}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

#[test]
fn dsm() {
    run("dsm", &[]);
}

/// Passing on needs no copy but the first one, and one call for the memory: of each round, 4 ranks together. In pieces of
/// the size of a packet, everything is done once for each of them.
#[test]
fn arrays() {
    let said = run("arrays", &["3"]);
    let count = |pattern: &str, way: &str| {
        let rows = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut rows = rows.filter(|row| row.len() > 5 && row[0] == pattern && row[1] == "1048576" && row[2] == way);
        let row = rows.next().unwrap_or_else(|| panic!("{pattern} {way}:\n{said}"));
        [row[4], row[5], row[6]].map(|number| number.parse::<u64>().unwrap())
    };
    assert_eq!(count("ping-pong", "passing"), [1, 1, 80]);
    assert_eq!(count("ping-pong", "per-MTU"), [4680, 4680, 9360]);
    for pattern in ["ring", "tree", "ping-pong"] {
        let [passing, copying, pieces] = ["passing", "copying", "per-MTU"].map(|way| count(pattern, way));
        assert_eq!(passing[..2], [1, 1], "{pattern}");
        assert!(copying[0] == copying[1] && copying[1] > 20, "{pattern}");
        assert_eq!(copying[2], passing[2], "{pattern}");
        assert_eq!(
            pieces,
            copying.map(|calls| calls * (1_u64 << 20).div_ceil(9000)),
            "{pattern}"
        );
    }
}
