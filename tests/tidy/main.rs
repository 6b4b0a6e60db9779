//! The rules of the code base that no compiler checks: which way dependencies point, what the protocol may not touch,
//! how long a file gets, and what is not left behind.
//!
//! A rule that is in the way is changed here, in the same commit as `ARCHITECTURE.md`.

mod arrows;
mod circles;
mod source;
mod vocabulary;

use std::{collections::BTreeSet, fs, process::Command};

use source::{climbs_out, code_of, crate_paths, root, rust_files, squeezed, without_tests, words};

/// A room (a folder or a file directly under `src`) and those that it may name by `crate::`. Itself is understood.
///
/// The rooms: those that both the core and others use come first, then the layers, lowest first.
const ROOMS: &[(&str, &[&str])] = &[
    ("time", &[]),
    ("prng", &[]),
    ("siphash", &[]),
    ("prefetch", &["id"]),
    ("helper", &[]),
    ("events", &[]),
    ("table", &[]),
    ("id", &[]),
    ("span", &[]),
    ("copies", &[]),
    // Memory that two sides share; below the layers that pass messages through it.
    ("ring", &["copies", "prng"]),
    // Read once, and handed on to the parts: it knows the names of their variables, and nothing of them.
    ("environment", &[]),
    // Between threads, so below all that has some.
    ("sync", &[]),
    // Memory of two processes; what they say through it is not its business.
    ("shm", &["copies", "span", "sync"]),
    ("wire", &[]),
    ("error", &["time", "wire", "id"]),
    ("config", &["time", "siphash", "wire", "error"]),
    ("stats", &["time", "wire", "error", "table"]),
    // A generator with a given seed is arithmetic; what is banned is asking the machine for randomness.
    (
        "reliability",
        &[
            "wire", "time", "prng", "prefetch", "siphash", "id", "span", "ring", "config", "error", "events", "stats",
        ],
    ),
    (
        "messaging",
        &[
            "reliability",
            "wire",
            "time",
            "id",
            "span",
            "prng",
            "prefetch",
            "config",
            "error",
            "stats",
            "table",
        ],
    ),
    (
        "backends",
        &[
            "environment",
            "time",
            "prng",
            "id",
            "shm",
            "span",
            "sync",
            "table",
            "events",
        ],
    ),
    // Re-exports; no room uses it.
    ("internals", &["prefetch", "bootstrap", "prng"]),
    // Who is where; what they say to each other then is not its business.
    ("bootstrap", &["environment", "helper", "events"]),
    (
        "progress",
        &[
            "messaging",
            "reliability",
            "wire",
            "backends",
            "time",
            "id",
            "prng",
            "config",
            "error",
            "stats",
        ],
    ),
    // A process that runs the protocol for others, and their way to it.
    (
        "poller",
        &[
            "environment",
            "events",
            "progress",
            "reliability",
            "wire",
            "backends",
            "shm",
            "time",
            "id",
            "span",
            "config",
            "error",
            "stats",
            "table",
        ],
    ),
    // Memory beside the network, between processes of one host.
    (
        "routes",
        &[
            "backends",
            "config",
            "events",
            "progress",
            "reliability",
            "ring",
            "shm",
            "time",
        ],
    ),
    (
        "transport",
        &[
            "environment",
            "events",
            "helper",
            "progress",
            "poller",
            "routes",
            "messaging",
            "reliability",
            "wire",
            "backends",
            "time",
            "id",
            "prng",
            "config",
            "error",
            "stats",
            "sync",
        ],
    ),
    (
        "mpi",
        &[
            "ring",
            "bootstrap",
            "environment",
            "events",
            "helper",
            "routes",
            "shm",
            "transport",
            "progress",
            "messaging",
            "reliability",
            "backends",
            "time",
            "config",
            "error",
            "span",
            "stats",
            "sync",
            "table",
        ],
    ),
    // Drives protocol and backends in virtual time; nothing depends on it.
    (
        "sim",
        &[
            "mpi",
            "progress",
            "messaging",
            "reliability",
            "wire",
            "backends",
            "time",
            "id",
            "prng",
            "prefetch",
            "config",
            "error",
            "stats",
            "table",
        ],
    ),
];

/// Protocol code: `core` and `alloc` only. (That it builds without `std` is proved elsewhere; this says it sooner, and
/// also of what is behind `cfg(feature = "std")`.)
const SANS_IO: [&str; 4] = ["wire", "reliability", "messaging", "poller/protocol"];

/// Bytes from the network are parsed without `unsafe`, so no argument is needed why it is sound.
const SAFE: [&str; 1] = ["wire"];

const MAX_LINES: usize = 900;

/// Files that may be longer than [`MAX_LINES`] until they are split.
const LONG_FILES: &[&str] = &[];

/// Where else there is Rust that the rules about leftovers hold for.
const SOURCES: [&str; 7] = [
    "src",
    "tests",
    "benches",
    "examples",
    "crates",
    "xtask/src",
    "fuzz/fuzz_targets",
];

/// Macros, and what they call, are named from the crate's root, whatever room they are in.
const MACROS: [&str; 3] = ["forward_backend", "debug_as_display", "describe_error"];

/// Macros that stand for code that is not there yet, or that talk to the developer. (Split, so as not to find itself.)
const BANNED_MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
const BANNED_WORDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

#[test]
fn dependencies_point_down() {
    let mut complaints = Vec::new();
    for file in rust_files("src").iter().filter(|file| !file.is_test()) {
        let Some(room) = &file.room else { continue };
        let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| name == room) else {
            complaints.push(format!(
                "{}: room '{room}' is new: say in ROOMS what it may depend on",
                file.path
            ));
            continue;
        };
        let code = without_tests(&code_of(&file.text));
        for target in crate_paths(&code) {
            if MACROS.contains(&target.as_str()) {
                continue;
            }
            if ROOMS.iter().all(|(name, _)| *name != target) {
                complaints.push(format!(
                    "{}: crate::{target} is no room; name the module it is in",
                    file.path
                ));
            } else if target != *room && !allowed.contains(&target.as_str()) {
                complaints.push(format!("{}: an arrow points up: {room} → {target}", file.path));
            }
        }
        if climbs_out(&code, file.depth) {
            complaints.push(format!("{}: `super::` leaves the room; write `crate::`", file.path));
        }
    }
    assert_none(&complaints);
}

#[test]
fn protocol_code_needs_no_std() {
    let mut complaints = Vec::new();
    for file in rust_files("src").iter().filter(|file| !file.is_test()) {
        if SANS_IO
            .iter()
            .any(|folder| file.path.starts_with(&format!("src/{folder}/")))
        {
            for (number, line) in without_tests(&code_of(&file.text)).lines().enumerate() {
                if words(line).any(|word| word == "std") {
                    complaints.push(format!("{}:{}: std in protocol code", file.path, number + 1));
                }
            }
        }
    }
    assert_none(&complaints);
}

/// Where code depends on the simulator being built, apart from its own room: its declaration, and what only it asks of an
/// engine.
const SIMULATED: [&str; 2] = ["src/lib.rs", "src/mpi/engine/mod.rs"];

#[test]
fn few_places_know_of_the_simulator() {
    let mut complaints = Vec::new();
    for file in rust_files("src") {
        let asks = squeezed(&file.text).contains("feature=\"sim\"");
        if asks && file.room.as_deref() != Some("sim") && !SIMULATED.contains(&file.path.as_str()) {
            complaints.push(format!(
                "{}: cfg(feature = \"sim\"): put it into src/sim, src/mpi/engine/simulated.rs, or behind prefetch::Locate",
                file.path
            ));
        }
    }
    assert_none(&complaints);
}

#[test]
fn unsafe_code_has_its_door() {
    let mut complaints = Vec::new();
    for file in rust_files("src") {
        if !words(&code_of(&file.text)).any(|word| word == "unsafe") {
            continue;
        }
        if file.room.as_deref().is_some_and(|room| SAFE.contains(&room)) {
            complaints.push(format!("{}: no unsafe code in this room", file.path));
        } else if !squeezed(&file.text).contains("#![expect(unsafe_code,reason=") {
            complaints.push(format!(
                "{}: unsafe code without #![expect(unsafe_code, reason = \"…\")] on top",
                file.path
            ));
        }
    }
    assert_none(&complaints);
}

/// `fn main() -> Result<_, Box<dyn Error>>` prints `Debug`: of errors it is for people, in each crate that has an API.
#[test]
fn errors_are_shown_as_they_are_said() {
    let mut complaints = Vec::new();
    for file in ["src", "crates/mpi/src"].iter().flat_map(|folder| rust_files(folder)) {
        if file.is_test() {
            continue;
        }
        let code = without_tests(&code_of(&file.text));
        for error in code.lines().filter_map(error_type) {
            let shown = [format!("debug_as_display!({error});"), format!("Debug for {error} {{")];
            if !shown.iter().any(|form| code.contains(form)) {
                complaints.push(format!(
                    "{}: {error} derives Debug: use crate::debug_as_display! (or print Display)",
                    file.path
                ));
            }
        }
    }
    assert_none(&complaints);
}

/// The type, if the line begins the implementation of `Error` for one.
fn error_type(line: &str) -> Option<&str> {
    let (path, error) = line.strip_prefix("impl ")?.split_once(" for ")?;
    let is_error = ["Error", "std::error::Error", "core::error::Error", "error::Error"].contains(&path);
    is_error.then(|| error.trim_end_matches(['{', '}', ' ']))
}

#[test]
fn files_are_short() {
    let mut complaints = Vec::new();
    for file in rust_files("src") {
        let lines = file.text.lines().count();
        let excused = LONG_FILES.contains(&file.path.as_str());
        if lines > MAX_LINES && !excused {
            complaints.push(format!("{}: {lines} lines, more than {MAX_LINES}", file.path));
        } else if lines <= MAX_LINES && excused {
            complaints.push(format!("{}: short enough again, take it off LONG_FILES", file.path));
        }
    }
    assert_none(&complaints);
}

#[test]
fn nothing_is_left_behind() {
    let mut complaints = Vec::new();
    for file in SOURCES.iter().flat_map(|folder| rust_files(folder)) {
        for (number, (line, code)) in file.text.lines().zip(code_of(&file.text).lines()).enumerate() {
            let at = format!("{}:{}", file.path, number + 1);
            for name in BANNED_MACROS.iter().filter(|name| calls_macro(code, name)) {
                complaints.push(format!("{at}: {name}!"));
            }
            for word in words(line).filter(|word| BANNED_WORDS.contains(word)) {
                complaints.push(format!("{at}: {word}: do it, or open an issue"));
            }
        }
    }
    assert_none(&complaints);
}

/// Papers are cited by the short names of `docs/papers.md` and their own sections. Numbers of a list that is not in
/// this repository (the letter S, a paper, a point, a part) tell readers nothing; the table of parts in that page, and the
/// command that prints it, have them.
#[test]
fn papers_are_cited_by_name() {
    const TABLE: [&str; 2] = ["docs/papers.md", "crates/cli/src/papers/"];
    let mut complaints = Vec::new();
    for path in texts() {
        if TABLE.iter().any(|table| path.starts_with(table)) {
            continue;
        }
        let text = fs::read_to_string(root().join(&path)).unwrap();
        for (number, _) in (1..).zip(text.lines()).filter(|(_, line)| names_a_part(line)) {
            complaints.push(format!("{path}:{number}: cite docs/papers.md"));
        }
    }
    assert_none(&complaints);
}

/// The letter S, a number from 1 to 4, a point and a digit stand in it, not within a word.
fn names_a_part(line: &str) -> bool {
    line.match_indices('S').any(|(at, _)| {
        let within = line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let mut after = line[at + 1..].chars();
        let paper = after.next().is_some_and(|c| ('1'..='4').contains(&c));
        !within && paper && after.next() == Some('.') && after.next().is_some_and(|c| c.is_ascii_digit())
    })
}

/// (folder, what else than every package is in the package): only what builds, with its programs to try.
const PACKAGES: [(&str, &[&str]); 10] = [
    (".", &["src/", "examples/", "CHANGELOG.md"]),
    ("crates/bench", &["src/", "build.rs"]),
    ("crates/capi", &["src/", "include/"]),
    ("crates/capi/abi", &["src/", "build.rs"]),
    ("crates/capi/mpich", &["src/", "build.rs"]),
    ("crates/cli", &["src/"]),
    (
        "crates/dpdk-sys",
        &["src/", "build.rs", "bindings/", "shim.c", "shim.h"],
    ),
    ("crates/mpi", &["src/", "examples/"]),
    ("crates/mpi-derive", &["src/"]),
    ("crates/papers", &["src/"]),
];
/// The files of every package: ours, then those that cargo adds.
const IN_EACH: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];
const ADDED: [&str; 4] = [".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml", "Cargo.toml.orig"];
/// Fields by which a package is found and judged.
const FIELDS: [&str; 5] = ["description", "keywords", "categories", "readme", "include"];

#[test]
fn packages_hold_what_builds() {
    let mut complaints = Vec::new();
    for (folder, own) in PACKAGES {
        let manifest = root().join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        for field in FIELDS {
            if !text.lines().any(|line| line.starts_with(&format!("{field} = "))) {
                complaints.push(format!("{folder}/Cargo.toml: no {field}"));
            }
        }
        let list = Command::new(env!("CARGO"))
            .args(["package", "--list", "--offline", "--allow-dirty", "--manifest-path"])
            .arg(&manifest)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&list.stderr);
        assert!(list.status.success(), "{folder}: {stderr}");
        let stdout = String::from_utf8_lossy(&list.stdout);
        let files: BTreeSet<&str> = stdout.lines().collect();
        for name in IN_EACH.iter().filter(|name| !files.contains(**name)) {
            complaints.push(format!("{folder}: no {name} in the package"));
        }
        let belongs = |file: &str| {
            own.iter()
                .any(|part| file == *part || part.ends_with('/') && file.starts_with(part))
        };
        for file in &files {
            if !belongs(file) && !IN_EACH.contains(file) && !ADDED.contains(file) {
                complaints.push(format!("{folder}: {file} is in the package: it builds without"));
            }
        }
    }
    assert_none(&complaints);
}

/// Where the project lives is said by `repository` in `Cargo.toml`. What must spell it out says the same.
#[test]
fn the_project_has_one_address() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let home = manifest
        .lines()
        .find_map(|line| line.strip_prefix("repository = \"")?.strip_suffix('"'))
        .expect("[workspace.package] has it");
    let mut complaints = Vec::new();
    for path in texts() {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            for address in addresses(line).filter(|address| is_of_the_project(address, home)) {
                let rest = address.strip_prefix(home);
                if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '#'])) {
                    complaints.push(format!("{path}:{number}: {address}: the project lives at {home}"));
                }
            }
        }
    }
    assert_none(&complaints);
}

/// Addresses in a line of text or code, without what ends them there.
fn addresses(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("https://").map(|(at, _)| {
        let address = &line[at..];
        let end = address.find(|c: char| c.is_whitespace() || "\"'`<>()[]{}\\".contains(c));
        address[..end.unwrap_or(address.len())].trim_end_matches(['.', ',', ';', ':'])
    })
}

/// It names the project, but for registries, which know packages by their names.
fn is_of_the_project(address: &str, home: &str) -> bool {
    let name = home.rsplit('/').next().unwrap_or_default();
    let registries = ["https://crates.io/", "https://docs.rs/"];
    address.contains(name) && !registries.iter().any(|registry| address.starts_with(registry))
}

/// Files of this repository that people write, relative to the root. (Inputs and results of tests are not.)
fn texts() -> Vec<String> {
    let kinds = ["md", "rs", "toml", "yml", "lua", "sh", "c", "h"];
    let mut folders = vec![root().to_owned()];
    let mut paths = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let left_out = ["target", ".git", "corpus", "artifacts"]
                .iter()
                .any(|name| path.ends_with(name));
            if kind.is_dir() && !left_out {
                folders.push(path);
            } else if kind.is_file()
                && path
                    .extension()
                    .is_some_and(|end| kinds.iter().any(|kind| end == *kind))
            {
                paths.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    paths.sort();
    paths
}

/// The last commit before subjects had a limit.
const SUBJECTS_SINCE: &str = "10113b9";
const MAX_SUBJECT: usize = 72;

/// (Where there is no history, nothing is read.)
#[test]
fn subjects_of_commits_are_short() {
    let log = Command::new("git")
        .args([
            "log",
            "--no-merges",
            "--format=%h %s",
            &format!("{SUBJECTS_SINCE}..HEAD"),
        ])
        .current_dir(root())
        .output();
    let Ok(log) = log else { return };
    let complaints: Vec<String> = String::from_utf8_lossy(&log.stdout)
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, subject)| subject.chars().count() > MAX_SUBJECT)
        .map(|(commit, subject)| format!("{commit}: more than {MAX_SUBJECT} characters: {subject}"))
        .collect();
    assert_none(&complaints);
}

#[test]
fn every_room_is_on_the_map() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let files = rust_files("src");
    let in_folders = files.iter().filter(|file| file.path.matches('/').count() > 1);
    let rooms: BTreeSet<&String> = in_folders.filter_map(|file| file.room.as_ref()).collect();
    let missing = rooms.iter().filter(|room| !map.contains(&format!("`{room}`")));
    assert_none(
        &missing
            .map(|room| format!("src/{room} is not in ARCHITECTURE.md"))
            .collect::<Vec<_>>(),
    );
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn calls_macro(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        code[at + name.len()..].starts_with('!') && !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// The rules above are worth what their reading of Rust is worth.
mod reading {
    use super::*;

    #[test]
    fn addresses_end_where_the_text_goes_on() {
        let found = |line| addresses(line).collect::<Vec<_>>();
        assert_eq!(
            found("[a](https://a.example/b), \"https://c.example\". <https://d.example/e/>: x"),
            ["https://a.example/b", "https://c.example", "https://d.example/e/"]
        );
        let home = "https://a.example/b/name";
        assert!(is_of_the_project("https://other.example/name/issues", home));
        assert!(!is_of_the_project("https://crates.io/crates/name", home));
        assert!(!is_of_the_project("https://other.example/else", home));
    }

    #[test]
    fn numbers_of_parts_are_found() {
        for line in [concat!("(S1", ".2, S1", ".5)"), concat!("table in S4", ".10")] {
            assert!(names_a_part(line), "{line}");
        }
        for line in ["AWS1.2", "S5.1", "S1.x", "S2: Scope", "S1 and S3."] {
            assert!(!names_a_part(line), "{line}");
        }
    }

    #[test]
    fn leftovers_are_found() {
        assert!(calls_macro("    todo!()", "todo"));
        assert!(!calls_macro("    not_todo!()", "todo"));
        assert_eq!(words("// FIX it, a_b").collect::<Vec<_>>(), ["FIX", "it", "a_b"]);
    }
}
