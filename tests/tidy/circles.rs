//! No circles between files: what two files need of each other belongs in one of them, or in a third below both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{
    arrows::{self, Arrows},
    assert_none,
};

/// Folders of the crates that this holds for.
const CRATES: [&str; 6] = [
    "src",
    "crates/bench/src",
    "crates/cli/src",
    "crates/mpi/src",
    "crates/papers/src",
    "xtask/src",
];

/// Files and folders (these end with `/`) between which there may still be circles. This list is to become empty.
const STILL: &[&str] = &[];

const ADVICE: &str = "\
Each file of a circle can only be understood, tested and moved together with all others. Look at the names above: move \
what one file takes from another that stands above it (a constant, a type, a function) down to where it belongs, or to \
a file of its own that both may use; or hand it over as an argument. A folder's mod.rs that only hands names on \
(`pub use`) is in no circle; one that also defines what its children use and uses what they define is.";

#[test]
fn files_stand_in_no_circles() {
    let mut complaints = Vec::new();
    let mut excused: BTreeSet<&&str> = BTreeSet::new();
    for folder in CRATES {
        let arrows = arrows::of_crate(folder);
        for circle in circles(&arrows) {
            let excuse = |file: &&String| STILL.iter().find(|still| file.starts_with(**still));
            if circle.iter().all(|file| excuse(&file).is_some()) {
                excused.extend(circle.iter().filter_map(|file| excuse(&file)));
            } else {
                complaints.push(said(&circle, &arrows));
            }
        }
    }
    if !complaints.is_empty() {
        complaints.push(ADVICE.to_owned());
    }
    let healed = STILL.iter().filter(|still| !excused.contains(*still));
    complaints.extend(healed.map(|still| format!("{still}: no circle any more, take it off STILL")));
    assert_none(&complaints);
}

/// The largest sets of files in which each reaches each other.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        arrows.keys().map(|file| (file, reached_from(file, arrows))).collect();
    let mut found = BTreeSet::new();
    for (file, others) in &reached {
        let circle = others.iter().filter(|other| reached[**other].contains(*file));
        let circle: BTreeSet<String> = circle.map(|other| (*other).clone()).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

fn reached_from<'a>(file: &'a str, arrows: &'a Arrows) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next = VecDeque::from([file]);
    while let Some(file) = next.pop_front() {
        let targets = arrows[file].keys();
        next.extend(targets.filter(|to| reached.insert(*to)).map(String::as_str));
    }
    reached
}

/// The circle in words: its files, and all that ties them.
fn said(circle: &BTreeSet<String>, arrows: &Arrows) -> String {
    let mut text = format!("a circle of {} files:\n", circle.len());
    for from in circle {
        for (to, names) in arrows[from].iter().filter(|(to, _)| circle.contains(*to)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            text += &format!("  {from} takes from {to}: {}\n", names.join(", "));
        }
    }
    text
}

#[test]
fn circles_are_found() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let to = |files: &[&str]| files.iter().map(|file| ((*file).to_owned(), names(&["X"]))).collect();
    let arrows: Arrows = [
        ("a", to(&["b"])),
        ("b", to(&["c", "d"])),
        ("c", to(&["a"])),
        ("d", to(&[])),
    ]
    .into_iter()
    .map(|(file, targets)| (file.to_owned(), targets))
    .collect();
    let found = circles(&arrows);
    assert_eq!(found, [names(&["a", "b", "c"])]);
    assert!(said(&found[0], &arrows).contains("b takes from c: X"));
}
