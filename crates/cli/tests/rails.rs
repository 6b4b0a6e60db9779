//! `hikyaku bench rails` in namespaces, where this process may make some.

use std::process::Command;

/// One rail and two: all ways carry messages by them.
#[test]
fn all_ways_carry_messages() {
    let arguments = "bench rails --rails 1,2 --rates 500 --size 256K --time 100 --rounds 1 --format json";
    let output = Command::new(env!("CARGO_BIN_EXE_hikyaku"))
        .args(arguments.split(' '))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) && error.contains("bench rails needs") {
        eprintln!("skipped: {error}");
        return;
    }
    assert!(output.status.success(), "{error}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let rate = row["mb_per_s"].as_f64().unwrap();
        // No more than the rails carry: 62.5 MB/s each. (A debug build may give less, but not nothing.)
        let most = row["rails"].as_f64().unwrap() * 62.5 * 1.05;
        assert!(rate > 1.0 && rate < most, "{row}");
    }
}
