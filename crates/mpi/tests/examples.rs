//! Every example as several ranks: started by hand, so that they meet without a launcher, and by `hikyaku run`.

#[path = "support/built.rs"]
mod built;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU16, Ordering},
};

use built::{example, launcher};

fn said(name: &str, output: &Output) -> String {
    format!(
        "{name}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// An address that no other process takes: this process's number is in it.
fn meeting_point() -> String {
    static PORT: AtomicU16 = AtomicU16::new(20_000);
    let [_, a, b, c] = std::process::id().to_be_bytes();
    format!("127.{a}.{b}.{c}:{}", PORT.fetch_add(1, Ordering::Relaxed))
}

/// Starts `size` processes that meet at an address of rank 0.
fn by_hand(name: &str, arguments: &[&str], size: u32) {
    let address = meeting_point();
    let start = |rank: u32| -> Child {
        Command::new(example(name))
            .args(arguments)
            .env("HIKYAKU_RENDEZVOUS", &address)
            .env("HIKYAKU_RANK", rank.to_string())
            .env("HIKYAKU_SIZE", size.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let ranks: Vec<Child> = (0..size).map(start).collect();
    for (rank, child) in ranks.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "rank {rank} of {}", said(name, &output));
        assert!(output.stderr.is_empty(), "rank {rank} of {}", said(name, &output));
    }
}

fn by_launcher(name: &str, arguments: &[&str], size: u32) {
    let output = Command::new(launcher())
        .args(["run", "-n", &size.to_string()])
        .arg(example(name))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(name, &output));
}

macro_rules! examples {
    ($($name:ident $([$($argument:literal),*])?)*) => {
        $(
            #[test]
            fn $name() {
                let name = stringify!($name);
                let arguments: &[&str] = &[$($($argument),*)?];
                for size in [1, 2, 3, 5] {
                    by_hand(name, arguments, size);
                }
                by_launcher(name, arguments, 4);
            }
        )*

        const EXAMPLES: &[&str] = &[$(stringify!($name)),*];
    };
}

examples! {
    all_gather
    all_to_all
    broadcast
    buffered
    cartesian
    complex_datatype
    dse ["2", "16"]
    duplicate
    ft ["16"]
    futures
    gather
    halo ["9", "3"]
    immediate
    immediate_multiple_requests
    intercommunicator
    matched_probe
    othello ["4", "4"]
    ping_pong
    progress ["20"]
    reduce
    scaling ["64", "3"]
    scan
    scatter
    send_receive
    shared
    simple
    sizes ["3000", "30"]
    sor ["20"]
    spawn
    structs
    structured
    wait_guard
    window
}

/// Strips, and interim results: the same points.
#[test]
fn sor_in_strips() {
    by_launcher("sor", &["20", "200", "strips", "report=20"], 3);
}

/// A benchmark: it only must run.
#[test]
fn osu() {
    for operation in ["latency", "bandwidth", "barrier", "allreduce", "bcast", "alltoall"] {
        by_launcher("osu", &[operation, "10", "8", "20000"], 2);
    }
}

/// A wrong call gives a line that says how to call it, and a failure.
#[test]
fn osu_says_how_it_is_called() {
    let output = Command::new(example("osu")).output().unwrap();
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("usage: osu OPERATION"),
        "{}",
        said("osu", &output)
    );
}

/// A benchmark whose results are published.
#[test]
fn ft_class_s() {
    by_launcher("ft", &["S"], 3);
}

#[test]
fn all_examples_are_tested() {
    let directory = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap();
    let there: BTreeSet<String> = directory
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let tested = EXAMPLES
        .iter()
        .chain(&["lost", "memory", "osu"])
        .map(|name| (*name).to_owned());
    assert_eq!(there, tested.collect());
}
