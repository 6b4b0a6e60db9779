//! The commands of the project's pages: fenced blocks of shell commands, and commands within text.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A fenced block.
pub(crate) struct Fence {
    /// `README.md:93`
    pub(crate) place: String,
    pub(crate) language: String,
    pub(crate) lines: Vec<String>,
}

/// The pages whose commands are looked at, with their text. Empty in a package, which has no pages but its own.
pub(crate) fn pages() -> Vec<(String, String)> {
    let root = root();
    let mut paths: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
        .map(|page| root.join(page))
        .into();
    for folder in [root.join("docs"), root.join("docs/design"), root.join("docs/measured")] {
        paths.extend(entries(&folder));
    }
    let crates = entries(&root.join("crates"));
    paths.extend(crates.into_iter().map(|folder| folder.join("README.md")));
    paths.retain(|path| path.extension().is_some_and(|end| end == "md"));
    let named = |path: &PathBuf| {
        let text = fs::read_to_string(path).ok()?;
        let name = path.strip_prefix(&root).ok()?.to_str()?;
        Some((name.to_owned(), text))
    };
    let pages: Vec<_> = paths.iter().filter_map(named).collect();
    let has_all = pages.iter().any(|(name, _)| name == "docs/benchmarks.md");
    if has_all { pages } else { Vec::new() }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The fenced blocks of a page.
pub(crate) fn fences(page: &str, text: &str) -> Vec<Fence> {
    let mut fences: Vec<Fence> = Vec::new();
    let mut inside = false;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            if !inside {
                fences.push(Fence {
                    place: format!("{page}:{number}"),
                    language: language.to_owned(),
                    lines: Vec::new(),
                });
            }
            inside = !inside;
        } else if let Some(fence) = fences.last_mut().filter(|_| inside) {
            fence.lines.push(line.to_owned());
        }
    }
    fences
}

/// The commands of a block, without comments.
pub(crate) fn commands(fence: &Fence) -> impl Iterator<Item = &str> {
    let lines = fence.lines.iter().map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("$ ").unwrap_or(line);
        line.split_once("  #").map_or(line, |(command, _)| command.trim_end())
    });
    lines.filter(|line| !line.is_empty() && !line.starts_with("# "))
}

/// The arguments of each `hikyaku` in a command, also of one that another program starts.
pub(crate) fn ours(command: &str) -> Vec<Vec<String>> {
    let own = "cargo run --release -p hikyaku-cli";
    let command = match command.split_once(" -- ") {
        Some((cargo, arguments)) if cargo.starts_with(own) => format!("hikyaku {arguments}"),
        _ => command.to_owned(),
    };
    let words: Vec<&str> = command.split_whitespace().collect();
    let is_ours = |word: &str| {
        let word = word.trim_start_matches("\"$(");
        word == "hikyaku" || word.ends_with("/hikyaku")
    };
    let after = |start: usize| start.checked_sub(1).map_or("", |before| words[before]);
    // (`-p hikyaku` is a package, and `> …/hikyaku` a file.)
    let starts = words.iter().enumerate();
    let starts = starts.filter(|&(start, word)| is_ours(word) && !["-p", ">"].contains(&after(start)));
    starts
        .map(|(start, _)| {
            let rest = words[start + 1..].iter();
            let own = rest.take_while(|word| !["|", ">", "2>", "&", "&&"].contains(word));
            own.map(|word| word.replace(['\'', '"'], "")).collect()
        })
        .collect()
}
