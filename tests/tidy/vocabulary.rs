//! Words that the project has replaced: they do not come back in comments, documents and messages.

use std::fs;

use super::{assert_none, source::code_of, source::root, texts};

/// (a word in lower case, the word to write instead)
const REPLACED: [(&str, &str); 12] = [
    ("octet", "byte"),
    ("octets", "bytes"),
    ("can not", "cannot"),
    ("dialogue", "exchange"),
    ("delegated", "proxy"),
    ("lone datagram", "single datagram"),
    ("lone packet", "single packet"),
    ("processor time", "CPU time"),
    ("to who", "to a peer (process, rank, …) that"),
    ("from who", "from a peer (process, rank, …) that"),
    ("of who", "of a peer (process, rank, …) that"),
    ("by who", "by a peer (process, rank, …) that"),
];

/// The history keeps the words of its time; this file has them all.
const EXCUSED: [&str; 2] = ["CHANGELOG.md", "tests/tidy/vocabulary.rs"];

#[test]
fn replaced_words_do_not_come_back() {
    let mut complaints = Vec::new();
    for path in texts().iter().filter(|path| !EXCUSED.contains(&path.as_str())) {
        let text = fs::read_to_string(root().join(path)).unwrap();
        let prose = match path.rsplit('.').next() {
            Some("md") => text,
            Some("rs") => prose_of(&text),
            _ => continue,
        };
        // An RFC is quoted in its own words.
        for (number, line) in (1..).zip(prose.lines()).filter(|(_, line)| !line.contains("RFC")) {
            for (word, instead) in REPLACED.iter().filter(|(word, _)| says(line, word)) {
                complaints.push(format!("{path}:{number}: \"{word}\": write \"{instead}\""));
            }
        }
    }
    assert_none(&complaints);
}

/// Comments and strings; lines stay where they are.
fn prose_of(text: &str) -> String {
    let code = code_of(text);
    let bytes = text.bytes().zip(code.bytes());
    let prose = bytes.map(|(byte, code)| if code.is_ascii_whitespace() { byte } else { b' ' });
    String::from_utf8(prose.collect()).expect("whole characters are blanked out")
}

/// Whether `word` stands in the line by itself: not in another word, a name, a path, or quotes of its own.
fn says(line: &str, word: &str) -> bool {
    let line = line.to_lowercase();
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let within = |c: char| c.is_alphanumeric() || "_\"`-".contains(c);
        !before.ends_with(|c| within(c) || ".:/".contains(c))
            && !after.starts_with(|c| within(c) || "(/".contains(c))
            && !after.starts_with("::")
    })
}

#[test]
fn words_stand_by_themselves() {
    assert!(says("It Can not.", "can not") && says("octets (of a header)", "octets"));
    for line in [
        "ip.octets()",
        "\"octets\"",
        "`octet`",
        "cpu-octet",
        "delegated::swarm",
        "octets",
    ] {
        assert!(!says(line, "octet") && !says(line, "delegated"), "{line}");
    }
    assert_eq!(prose_of("let octet = 1; // an octet"), "               // an octet");
}
