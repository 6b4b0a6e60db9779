//! Programs that would not be sound do not compile: `compile_fail/*.rs`.
//!
//! The first lines of each name its errors, `//~ E0597 letter`: a code, if there is one, and a part of what is said. Each
//! must be among what the compiler says, and nothing else. All other text of the compiler changes with its releases, so it is
//! not kept here: trybuild writes it into the target's folder.
#![expect(unsafe_code, reason = "trybuild is told by a variable to write, not to compare")]

use std::{env, ffi::OsStr, fs, path::Path};

const MARK: &str = "//~ ";

/// An error that a case names.
struct Expected<'a> {
    code: Option<&'a str>,
    text: &'a str,
}

impl<'a> Expected<'a> {
    fn new(line: &'a str) -> Self {
        match line.split_once(' ') {
            Some((code, text)) if code.starts_with("E0") => Self { code: Some(code), text },
            _ => Self { code: None, text: line },
        }
    }

    fn is(&self, said: &str) -> bool {
        self.code.is_none_or(|code| said.starts_with(&format!("error[{code}]"))) && said.contains(self.text)
    }
}

/// Checks that `said` has the errors that `case` names, each at least once, and no others.
fn check(case: &str, said: &str) -> Result<(), String> {
    let marked = case.lines().filter_map(|line| line.strip_prefix(MARK));
    let expected: Vec<Expected<'_>> = marked.map(Expected::new).collect();
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error")).collect();
    if expected.is_empty() {
        return Err(format!("it names no error; there are {errors:?}"));
    }
    for one in &expected {
        if !errors.iter().any(|said| one.is(said)) {
            return Err(format!(
                "no error {} {:?}, but {errors:?}",
                one.code.unwrap_or(""),
                one.text
            ));
        }
    }
    match errors.iter().find(|said| !expected.iter().any(|one| one.is(said))) {
        Some(other) => Err(format!("it does not name {other:?}")),
        None => Ok(()),
    }
}

#[test]
fn what_would_not_be_sound_does_not_compile() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail");
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_fail");
    let _ = fs::remove_dir_all(&copies);
    fs::create_dir_all(&copies).unwrap();
    let mut cases = Vec::new();
    for entry in fs::read_dir(&kept).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() == Some(OsStr::new("rs")) {
            let copy = copies.join(path.file_name().unwrap());
            fs::copy(&path, &copy).unwrap();
            cases.push(copy);
        }
    }
    assert!(cases.len() > 20, "{kept:?}: {}", cases.len());
    // SAFETY: it is the only test here, and nothing of C asks for variables meanwhile.
    unsafe { env::set_var("TRYBUILD", "overwrite") };
    let tests = trybuild::TestCases::new();
    tests.compile_fail(copies.join("*.rs"));
    // Fails if one of them compiles.
    drop(tests);
    let wrong = cases.iter().filter_map(|case| {
        let said = fs::read_to_string(case.with_extension("stderr")).unwrap_or_default();
        let checked = check(&fs::read_to_string(case).unwrap(), &said);
        checked.err().map(|why| format!("{}: {why}\n{said}", case.display()))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
