//! `hikyaku bench rails` in namespaces, where this process may make some.

use std::process::Command;

use serde_json::Value;

/// What it prints; `None`, with the reason said: no namespaces can be made here.
fn document(arguments: &str) -> Option<Value> {
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
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The rows of that.
fn rows(arguments: &str) -> Option<Vec<Value>> {
    document(arguments)?["rows"].as_array().cloned()
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

/// Eight nodes: ranks that copy what they send and receive, and ranks with buffer arrays. Beside it is what the paper has.
#[test]
fn eight_nodes_swap_messages_with_and_without_copies() {
    let arguments = "bench rails --grid 3 --rails 3 --rates 40 --size 64K --time 200 --rounds 1 \
                     --level mpi,arrays --format json";
    let Some(document) = document(arguments) else { return };
    let paper = document["paper"].as_array().unwrap();
    let figures: Vec<_> = paper.iter().map(|row| (&row["level"], &row["mb_per_s"])).collect();
    assert!(
        figures[0] == (&"pm".into(), &1403.0.into()) && figures[1] == (&"mpi".into(), &630.0.into()),
        "{figures:?}"
    );
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let rate = row["mb_per_s"].as_f64().unwrap();
        // In and out by three rails of 5 MB/s each; in so short a time, what was under way before is much.
        assert!(rate > 1.0 && rate < 30.0 * 2.0, "{row}");
    }
}

/// A grid of 4 x 2 nodes, each with three neighbours by two rails.
#[test]
fn nodes_of_a_flat_grid_swap_messages() {
    let arguments = "bench rails --grid 2 --rails 1,2 --rates 40 --size 64K --time 200 --rounds 1 \
                     --level transport --format json";
    let Some(document) = document(arguments) else { return };
    // It has figures for three dimensions only.
    assert_eq!(document.get("paper"), None);
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert!(row["pattern"] == "2-D" && row["np"] == 8, "{row}");
        let rate = row["mb_per_s"].as_f64().unwrap();
        let rails = row["rails"].as_f64().unwrap();
        assert!(rate > 1.0 && rate < rails * 10.0 * 2.0, "{row}");
    }
}

/// Runs of a cut, of which one must be as quick as is promised: where other programs take the processors for a while, a run
/// shows how long that lasted.
const RUNS: usize = 4;
/// Seconds, at most, until the others carry what they can, and until all do after the return.
const OTHERS: f64 = 0.5;
const ALL: f64 = 2.0;

/// Cuts one of two rails twice in one stream; `arguments` say which, and `left` how much of the rate is left.
fn is_cut_and_comes_back(cut: &str, arguments: &str, left: std::ops::Range<f64>) {
    let arguments =
        format!("bench rails --cut {cut} --cuts 2 --size 256K --rounds 1 --level transport --format json {arguments}");
    let mut seen = Vec::new();
    for _ in 0..RUNS {
        let Some(rows) = rows(&arguments) else { return };
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert!(row["pattern"] == cut && row["cuts"] == 2 && row["rails"] == 2, "{row}");
        let before = row["mb_per_s"].as_f64().unwrap();
        assert!(before > 1.0 && before < 10.5, "{row}");
        // A time that is missing is longer than it was looked at: 2.5 and 3.5 s.
        let within = |name: &str, most: f64| row[name].as_f64().is_some_and(|time| time <= most);
        let during = row["ratio"]["during"].as_f64().unwrap();
        if left.contains(&during) && within("others_s", OTHERS) && within("all_s", ALL) {
            return;
        }
        seen.push(row.clone());
    }
    panic!("no run has {left:?} of the rate during the cut, and at most {OTHERS} and {ALL} s: {seen:?}");
}

/// Without a word to either end. All is carried by the other rail, and then by both.
#[test]
fn a_rail_is_cut_and_comes_back() {
    is_cut_and_comes_back("both", "--rates 40", 0.4..0.6);
}

/// As an interface that is down: the first and quicker one of two, so that the rate says which one is cut.
#[test]
fn the_first_rail_is_cut_and_comes_back() {
    is_cut_and_comes_back("link", "--rates 40,20 --cut-rail 0", 0.25..0.45);
}

/// The figure has a line for each way, a point on it for each number of rails, and the numbers themselves.
#[test]
fn the_figure_has_all_ways_and_rails() {
    let file = std::env::temp_dir().join(format!("hikyaku-rails-{}.svg", std::process::id()));
    let arguments = format!(
        "bench rails --rails 1,2 --rates 100 --size 64K --time 50 --rounds 1 --format json --plot {}",
        file.display()
    );
    let Some(rows) = rows(&arguments) else { return };
    let svg = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(rows.len(), 6);
    assert!(svg.starts_with("<svg"), "{svg}");
    for text in ["Several Ethernets as one", "rails", "MB/s", "udp", "transport", "mpi"] {
        assert!(svg.lines().any(|line| line == text), "{text}: {svg}");
    }
    // Line by line, and on each from left to right.
    let points: Vec<[u32; 2]> = svg
        .lines()
        .filter_map(|line| line.strip_prefix("<circle cx=\""))
        .map(|rest| {
            let mut words = rest.split('"');
            [words.next(), words.nth(1)].map(|word| word.unwrap().parse().unwrap())
        })
        .collect();
    assert_eq!(points.len(), rows.len(), "{svg}");
    let across: Vec<u32> = points.iter().map(|point| point[0]).collect();
    assert!(across[0] < across[1] && across[..2].repeat(3) == across, "{across:?}");
    // The rows go by rails first. A higher rate is higher up, where the numbers are smaller.
    let rates = [0, 3, 1, 4, 2, 5].map(|row: usize| rows[row]["mb_per_s"].as_f64().unwrap());
    let mut heights: Vec<(f64, u32)> = rates.into_iter().zip(points.iter().map(|point| point[1])).collect();
    heights.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert!(heights.is_sorted_by(|one, other| one.1 >= other.1), "{heights:?}");
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
