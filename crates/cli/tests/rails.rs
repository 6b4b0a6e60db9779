//! `hikyaku bench rails` in namespaces, where this process may make some.

use std::process::Command;

use serde_json::Value;

/// The rows that it prints; `None`, with the reason said: no namespaces can be made here.
fn rows(arguments: &str) -> Option<Vec<Value>> {
    let output = Command::new(env!("CARGO_BIN_EXE_hikyaku"))
        .args(arguments.split(' '))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) && error.contains("bench rails needs") {
        eprintln!("skipped: {error}");
        return None;
    }
    assert!(output.status.success(), "{error}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["rows"].as_array().cloned()
}

/// One rail and two: all ways carry messages by them.
#[test]
fn all_ways_carry_messages() {
    let arguments = "bench rails --rails 1,2 --rates 500 --size 256K --time 100 --rounds 1 --format json";
    let Some(rows) = rows(arguments) else { return };
    assert_eq!(rows.len(), 6);
    for row in rows {
        let rate = row["mb_per_s"].as_f64().unwrap();
        // No more than the rails carry: 62.5 MB/s each. (A debug build may give less, but not nothing.)
        let most = row["rails"].as_f64().unwrap() * 62.5 * 1.05;
        assert!(rate > 1.0 && rate < most, "{row}");
    }
}

/// One message at a time, with a slow rail beside a quick one.
#[test]
fn messages_go_to_and_fro() {
    let arguments = "bench rails --latency --rails 2 --rates 1000,1 --time 100 --rounds 1 --format json";
    let Some(rows) = rows(arguments) else { return };
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert!(row["pattern"] == "latency" && row["size"] == 8, "{row}");
        assert!(row["avg_us"].as_f64().unwrap() > 1.0, "{row}");
    }
}

/// Eight nodes: ranks that copy what they send and receive, and ranks with buffer arrays.
#[test]
fn eight_nodes_swap_messages_with_and_without_copies() {
    let arguments = "bench rails --grid 3 --rails 3 --rates 40 --size 64K --time 200 --rounds 1 \
                     --level mpi,arrays --format json";
    let Some(rows) = rows(arguments) else { return };
    assert_eq!(rows.len(), 3);
    for row in rows {
        let rate = row["mb_per_s"].as_f64().unwrap();
        // In and out by three rails of 5 MB/s each; in so short a time, what was under way before is much.
        assert!(rate > 1.0 && rate < 30.0 * 2.0, "{row}");
    }
}

/// A command of the papers that needs more rights than this process has is no failure.
#[test]
fn a_part_of_the_papers_that_needs_root_is_skipped() {
    let all = rows("papers --format json").unwrap();
    let needs_root = |row: &&Value| {
        row["command"]
            .as_str()
            .is_some_and(|command| command.contains("bench rails"))
    };
    let part = all
        .iter()
        .find(needs_root)
        .and_then(|row| row["part"].as_str())
        .unwrap();
    let without_rights = [
        "--bounding-set",
        "-all",
        "--inh-caps",
        "-all",
        env!("CARGO_BIN_EXE_hikyaku"),
    ];
    let asked = ["papers", part, "--run", "--format", "json"];
    let output = Command::new("setpriv").args(without_rights).args(asked).output();
    let Ok(output) = output else {
        eprintln!("skipped: no setpriv here");
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("setpriv") {
        eprintln!("skipped: {error}");
        return;
    }
    assert!(output.status.success(), "{error}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let because = document["rows"][0]["run"]["skipped"]["because"].as_str();
    assert!(
        because.is_some_and(|because| because.contains("bench rails needs ")),
        "{document}"
    );
}
