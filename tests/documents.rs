//! Checks of the documents: pages are wrapped, links lead somewhere, and the page that follows a message through
//! the code names functions that exist.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Text is wrapped, and headings stand free. (Tables and code are as wide as they are; `docs/measured/benchmarks.md` is
/// written by a tool in part.)
#[test]
fn documents_are_wrapped() {
    let mut complaints = Vec::new();
    for path in documents().iter().filter(|path| *path != "docs/measured/benchmarks.md") {
        let text = fs::read_to_string(root().join(path)).unwrap();
        let (mut code, mut before) = (false, "");
        for (number, line) in (1..).zip(text.lines()) {
            code ^= line.starts_with("```");
            let place = format!("{path}:{number}");
            if !code && !line.starts_with('|') && line.chars().count() > 120 {
                complaints.push(format!("{place}: more than 120 characters"));
            }
            if !code && line.starts_with('#') && !before.is_empty() {
                complaints.push(format!("{place}: no empty line before the heading"));
            }
            before = line;
        }
    }
    assert_none(&complaints);
}

/// A fence names its language, and nothing after that: text there is not shown, and not run by
/// `crates/cli/tests/documents.rs`.
#[test]
fn fences_name_a_language() {
    const LANGUAGES: [&str; 10] = [
        "c",
        "console",
        "json",
        "rust",
        "rust,ignore",
        "rust,no_run",
        "sh",
        "text",
        "toml",
        "yaml",
    ];
    let mut complaints = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        let mut inside = false;
        for (number, line) in (1..).zip(text.lines()) {
            let Some(language) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            if !inside && !LANGUAGES.contains(&language) {
                complaints.push(format!(
                    "{path}:{number}: a fence of {language:?}, not of one of {LANGUAGES:?}"
                ));
            }
            if inside && !language.is_empty() {
                complaints.push(format!("{path}:{number}: a fence ends with text"));
            }
            inside = !inside;
        }
        if inside {
            complaints.push(format!("{path}: a fence does not end"));
        }
    }
    assert_none(&complaints);
}

/// Rust that a page shows and that is no test of the documentation is compiled elsewhere, line for line.
#[test]
fn rust_of_the_pages_is_compiled() {
    const COMPILED: [&str; 2] = ["crates/mpi/tests/pages.rs", "tests/dpdk/pages.rs"];
    let code = COMPILED.map(|path| fs::read_to_string(root().join(path)).unwrap());
    let code: Vec<Vec<&str>> = code.iter().map(|text| text.lines().map(str::trim).collect()).collect();
    let mut complaints = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        for shown in text.split("\n```rust,ignore\n").skip(1) {
            let shown = shown.split("\n```").next().unwrap_or_default();
            let lines = shown
                .lines()
                .map(|line| line.split(" // ").next().unwrap_or_default().trim());
            let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
            // In this order; other lines may stand between.
            let holds = |code: &Vec<&str>| {
                let mut left = code.iter();
                lines.iter().all(|line| left.any(|other| other == line))
            };
            if !code.iter().any(holds) {
                complaints.push(format!("{path}: none of {COMPILED:?} has all of\n{shown}\n"));
            }
        }
    }
    assert_none(&complaints);
}

/// Links between pages lead to pages and headings that exist.
#[test]
fn links_lead_somewhere() {
    let mut complaints = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        for (start, _) in text.match_indices("](") {
            let link = text[start + 2..].split(')').next().unwrap_or_default();
            if link.contains("://") {
                continue;
            }
            let (target, heading) = link.split_once('#').unwrap_or((link, ""));
            let page = match target {
                "" => root().join(&path),
                target => root().join(&path).with_file_name("").join(target),
            };
            let found = match fs::read_to_string(&page) {
                Ok(page) => heading.is_empty() || page.lines().any(|line| anchor(line).as_deref() == Some(heading)),
                Err(_) => page.is_dir(),
            };
            if !found {
                complaints.push(format!("{path}: {link}"));
            }
        }
    }
    assert_none(&complaints);
}

/// By what a link names a heading: `## A head, and more` by `a-head-and-more`.
fn anchor(line: &str) -> Option<String> {
    let text = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

/// `docs/design/a-message.md` follows a message through functions: each row of its tables names a function and the file
/// that has it.
#[test]
fn the_way_of_a_message_exists() {
    let page = "docs/design/a-message.md";
    let text = fs::read_to_string(root().join(page)).unwrap();
    let mut steps = 0;
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, file, functions, ..] = cells[..] else { continue };
        let Some(file) = file.strip_prefix('`').and_then(|file| file.strip_suffix(".rs`")) else {
            continue;
        };
        let code = fs::read_to_string(root().join(format!("{file}.rs"))).unwrap_or_default();
        for function in functions.split('`').skip(1).step_by(2) {
            steps += 1;
            let name = function.rsplit("::").next().unwrap_or_default();
            let has = [
                format!("fn {name}("),
                format!("fn {name}<"),
                format!("        {name}, "),
            ];
            if !has.iter().any(|has| code.contains(has)) {
                complaints.push(format!("{page}:{number}: {file}.rs has no {function}"));
            }
        }
    }
    assert_none(&complaints);
    assert!(steps > 30, "{page} names {steps} functions");
}

/// The pages of the root and of `docs`, relative to the root.
fn documents() -> Vec<String> {
    let mut folders = vec![root().join("docs")];
    let mut pages: Vec<PathBuf> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                pages.push(path);
            }
        }
    }
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    pages.sort();
    pages
        .iter()
        .map(|path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned())
        .collect()
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
