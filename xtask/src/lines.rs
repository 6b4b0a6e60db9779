//! How many lines of code each room has: lines that hold something else than comments, documentation and tests.
//!
//! A room is a folder of `src/` or of a crate's `src/`, or a file that stands there by itself. Attributes count as code.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use crate::shell;

/// Folders whose subfolders and files are rooms.
const HOUSES: [&str; 10] = [
    "src",
    "crates/mpi/src",
    "crates/capi/src",
    "crates/cli/src",
    "crates/bench/src",
    "crates/papers/src",
    "crates/mpi-derive/src",
    "crates/dpdk-sys/src",
    "xtask/src",
    "examples",
];

/// Prints lines of code per room, and their sums.
pub(crate) fn run() -> Result<(), String> {
    let mut all = 0;
    for house in HOUSES {
        let rooms = count(&shell::root().join(house)).map_err(|error| format!("reading {house}: {error}"))?;
        let sum: usize = rooms.values().sum();
        all += sum;
        println!("{sum:>7}  {house}");
        for (room, lines) in &rooms {
            println!("{lines:>7}    {room}");
        }
    }
    println!("{all:>7}  lines of code without tests and comments");
    Ok(())
}

/// Lines of code in the rooms of a house.
fn count(house: &Path) -> io::Result<BTreeMap<String, usize>> {
    let mut files = Vec::new();
    list(house, &mut files)?;
    let mut rooms = BTreeMap::new();
    for file in files {
        let inside = file.strip_prefix(house).unwrap_or(&file);
        let mut parts = inside.components().map(|part| part.as_os_str().to_string_lossy());
        let first = parts.next().unwrap_or_default();
        // The file beside a folder of the same name is the folder's.
        let room = first.strip_suffix(".rs").unwrap_or(&first);
        *rooms.entry(room.to_owned()).or_default() += code(&fs::read_to_string(&file)?);
    }
    Ok(rooms)
}

/// Files of code in a folder, without those of tests.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_link = entry.file_type()?.is_symlink();
        if is_link || name == "tests" || name.ends_with("tests.rs") {
            continue;
        }
        if path.is_dir() {
            list(&path, files)?;
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Lines of code in a text.
fn code(text: &str) -> usize {
    let bare = without_comments(text);
    let mut lines = bare.lines();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let line = line.trim();
        if is_for_tests(line) {
            skip_item(&mut lines);
        } else if !line.is_empty() {
            count += 1;
        }
    }
    count
}

/// The attribute of an item that only tests have.
fn is_for_tests(line: &str) -> bool {
    line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test,")
}

/// Goes to the end of the item that begins with the next line: its last brace, or a semicolon before the first.
fn skip_item<'a>(lines: &mut impl Iterator<Item = &'a str>) {
    let mut depth = 0_usize;
    for line in lines {
        for letter in line.chars() {
            match letter {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && letter == '}' {
                        return;
                    }
                }
                ';' if depth == 0 => return,
                _ => {}
            }
        }
    }
}

/// The text without comments, and with strings and characters emptied, so that braces and slashes in them mean nothing. Lines
/// stay where they are.
fn without_comments(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let (taken, kept) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), "")
        } else if rest.starts_with("/*") {
            (block_comment(rest), "")
        } else if let Some(len) = raw_string(rest) {
            (len, "\"\"")
        } else if letter == '"' {
            (string(rest), "\"\"")
        } else if let Some(len) = character(rest) {
            (len, "' '")
        } else {
            bare.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        };
        bare.push_str(kept);
        // A string over many lines is as many lines of code.
        let breaks = rest[..taken].matches('\n').count();
        bare.push_str(&if kept.is_empty() { "\n" } else { "\n." }.repeat(breaks));
        rest = &rest[taken..];
    }
    bare
}

/// Length of the comment that the text begins with; comments may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let here = &text.as_bytes()[at..];
        let step = if here.starts_with(b"/*") {
            depth += 1;
            2
        } else if here.starts_with(b"*/") {
            depth -= 1;
            2
        } else {
            1
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of the raw string that the text begins with.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let marks = hashes.len() - hashes.trim_start_matches('#').len();
    let body = hashes[marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + length)
}

/// Length of the string that the text begins with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of the character that the text begins with; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let len = match body.strip_prefix('\\') {
        // `\''` and the like; then up to the next quote.
        Some(escaped) => 2 + escaped.char_indices().skip(1).find(|(_, letter)| *letter == '\'')?.0,
        None => 1 + body.chars().next()?.len_utf8(),
    };
    text[len..].starts_with('\'').then_some(len + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_tests_and_blank_lines_are_no_code() {
        let text = "//! about\n\nuse a; // why\n/* one\ntwo /* three */\n*/\nfn f() {\n    g('{', \"// {\");\n}\n\n\
                    #[cfg(test)]\nmod tests {\n    fn t() {}\n}\n#[cfg(test)]\nmod more;\nstruct S;\n";
        assert_eq!(code(text), 5);
    }

    #[test]
    fn strings_lifetimes_and_escapes_are_told_apart() {
        assert_eq!(without_comments("r#\"a\" // b\"# // c"), "\"\" ");
        assert_eq!(
            without_comments("f::<'a>('\\'', '/', b'\\x2f') // c"),
            "f::<'a>(' ', ' ', b' ') "
        );
        assert_eq!(without_comments("\"a\\\"//\nb\" // c"), "\"\"\n. ");
    }
}
