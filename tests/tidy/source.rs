//! The files of this repository as the rules read them: code without comments, strings and tests, and the paths in it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) struct File {
    /// Relative to the root.
    pub path: String,
    pub text: String,
    /// Of the files of `src`, except `lib.rs`, which joins all rooms.
    pub room: Option<String>,
    /// How often `super::` may be written in it before the room is left, in a file of `src`.
    pub depth: usize,
}

impl File {
    /// Code only for tests, in a file of its own.
    pub(crate) fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.trim_end_matches(".rs").split('/').collect();
        parts.iter().any(|part| *part == "tests" || part.ends_with("_tests"))
    }
}

/// All Rust files below `folder`, sorted; none if there is no such folder.
pub(crate) fn rust_files(folder: &str) -> Vec<File> {
    let mut folders = vec![root().join(folder)];
    let mut paths = Vec::<PathBuf>::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.iter().map(|path| file(path)).collect()
}

fn file(path: &Path) -> File {
    let text = fs::read_to_string(path).unwrap();
    let relative = path.strip_prefix(root()).unwrap();
    let path = relative.to_str().unwrap().to_owned();
    let mut modules: Vec<String> = path
        .trim_start_matches("src/")
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    modules.retain(|module| module != "mod" && module != "lib");
    File {
        room: modules.first().cloned(),
        depth: modules.len().saturating_sub(1),
        path,
        text,
    }
}

/// `text` with comments, strings and characters blanked out; lines stay where they are.
pub(crate) fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut blank = |from: usize, to: usize| {
        for byte in &mut code[from..to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    let find = |from: usize, end: &str| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let after_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
        let end = if rest.starts_with(b"//") {
            find(at, "\n")
        } else if rest.starts_with(b"/*") {
            find(at + 2, "*/")
        } else if !after_word && (rest.starts_with(b"r\"") || rest.starts_with(b"r#")) {
            let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
            // `r#name` is no string.
            if rest.get(1 + hashes) == Some(&b'"') {
                find(at + 2 + hashes, &format!("\"{}", "#".repeat(hashes)))
            } else {
                at
            }
        } else if rest[0] == b'"' {
            quoted_end(bytes, at, b'"')
        } else if rest[0] == b'\'' && (rest.get(1) == Some(&b'\\') || closes_soon(&text[at + 1..])) {
            quoted_end(bytes, at, b'\'')
        } else {
            at
        };
        if end > at {
            blank(at, end);
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8(code).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Whether a `'` is followed by one character and a `'`: then it is no lifetime.
fn closes_soon(after: &str) -> bool {
    let mut characters = after.chars();
    characters.next().is_some() && characters.next() == Some('\'')
}

/// The place after the quote that ends what begins at `from`.
fn quoted_end(bytes: &[u8], from: usize, quote: u8) -> usize {
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// `code` without the items under `#[cfg(test)]`, as far as they have a body; lines stay where they are.
pub(crate) fn without_tests(code: &str) -> String {
    let mut kept = code.to_owned();
    let mut from = 0;
    while let Some(start) = kept[from..].find("#[cfg(test)]").map(|at| from + at) {
        let Some(open) = kept[start..].find(['{', ';']).map(|at| start + at) else {
            break;
        };
        let end = if kept.as_bytes()[open] == b'{' {
            block_end(&kept, open)
        } else {
            open + 1
        };
        let blanked: String = kept[start..end]
            .chars()
            .map(|c| if c == '\n' { c } else { ' ' })
            .collect();
        from = start + blanked.len();
        kept.replace_range(start..end, &blanked);
    }
    kept
}

/// The place after the brace that closes the one at `open`.
pub(crate) fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, character) in code[open..].char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 1 => return open + at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The first names of all paths that begin with `crate::`.
pub(crate) fn crate_paths(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, root) in code.match_indices("crate::") {
        let rest = code[at + root.len()..].trim_start();
        if rest.starts_with('{') {
            let group = &rest[1..block_end(rest, 0).saturating_sub(1)];
            let mut depth = 0_usize;
            let mut starts = true;
            for (at, character) in group.char_indices() {
                match character {
                    '{' => depth += 1,
                    '}' => depth = depth.saturating_sub(1),
                    ',' if depth == 0 => starts = true,
                    _ if starts && depth == 0 && !character.is_whitespace() => {
                        names.extend(words(&group[at..]).next().map(str::to_owned));
                        starts = false;
                    }
                    _ => {}
                }
            }
        } else {
            names.extend(words(rest).next().map(str::to_owned));
        }
    }
    names
}

/// More `super::` in a row than `depth`. Each module written inside the file (`mod x { … }`) allows one more.
pub(crate) fn climbs_out(code: &str, depth: usize) -> bool {
    let inline = |at: usize| {
        let mut inside = 0;
        for (start, _) in code[..at].match_indices("mod ") {
            let Some(open) = code[start..].find(['{', ';']).map(|open| start + open) else {
                continue;
            };
            inside += usize::from(code.as_bytes()[open] == b'{' && open < at && at < block_end(code, open));
        }
        inside
    };
    let mut at = 0;
    while let Some(start) = code[at..].find("super::").map(|found| at + found) {
        let mut climbs = 0;
        at = start;
        while code[at..].starts_with("super::") {
            climbs += 1;
            at += "super::".len();
        }
        if climbs > depth + inline(start) {
            return true;
        }
    }
    false
}

/// Names and keywords.
pub(crate) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

pub(crate) fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The rules are worth what their reading of Rust is worth.
mod reading {
    use super::*;

    fn paths(code: &str) -> Vec<String> {
        crate_paths(&without_tests(&code_of(code))).into_iter().collect()
    }

    #[test]
    fn paths_are_found_in_all_forms() {
        assert_eq!(
            paths("use crate::wire;\nfn f() -> crate::time::Instant {}"),
            ["time", "wire"]
        );
        assert_eq!(
            paths("use crate::{\n    a::{self, b},\n    c,\n    d::E,\n};"),
            ["a", "c", "d"]
        );
        assert_eq!(paths("pub(crate) struct S; pub(in crate::x) fn f() {}"), ["x"]);
    }

    #[test]
    fn comments_strings_and_tests_do_not_count() {
        assert!(paths("// crate::a\n/// [`crate::a`]\n/* crate::a */").is_empty());
        assert!(paths(r##"let s = "crate::a \" crate::b"; let r = r#"crate::c"#;"##).is_empty());
        assert_eq!(
            paths("let q = '\"'; use crate::a; let life: &'static str = \"x\";"),
            ["a"]
        );
        assert_eq!(
            paths("#[cfg(test)]\nmod tests { use crate::a; fn f() { {} } }\nuse crate::b;"),
            ["b"]
        );
        assert_eq!(paths("#[cfg(test)]\nmod tests;\nuse crate::b;"), ["b"]);
    }

    #[test]
    fn super_may_climb_to_the_room() {
        let depth = |path: &str| file(&root().join(path)).depth;
        assert_eq!((depth("src/time.rs"), depth("src/backends/mod.rs")), (0, 0));
        assert!(climbs_out("use super::super::x;", 1));
        assert!(!climbs_out("use super::x;", 1));
        assert!(!climbs_out("mod inner { use super::super::x; }", 1));
        assert!(climbs_out("mod inner { use super::super::x; }", 0));
    }
}
