//! `hikyaku bench meshes` in namespaces, where this process may make some.
#![cfg(feature = "sim")]

use std::process::Command;

/// Three processes, each way once: relays pass messages on, and all programs end.
#[test]
fn programs_run_over_all_meshes() {
    let output = Command::new(env!("CARGO_BIN_EXE_hikyaku"))
        .args([
            "bench",
            "meshes",
            "--processors",
            "3",
            "--rate",
            "1000",
            "--rounds",
            "1",
            "--format",
            "json",
        ])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) && error.contains("bench meshes needs") {
        eprintln!("skipped: {error}");
        return;
    }
    assert!(output.status.success(), "{error}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    assert!(
        rows.iter().all(|row| row["wall_ms"].as_f64().unwrap() > 0.0),
        "{rows:?}"
    );
}
