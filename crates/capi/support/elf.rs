//! The names that a shared library exports, read from its file (ELF, 64 bits).

use std::{collections::BTreeSet, env, fs, path::PathBuf};

/// Where cargo has put the library of the package that is tested.
fn library(name: &str) -> PathBuf {
    let test = env::current_exe().expect("the test's own path");
    test.with_file_name(name)
}

fn number(bytes: &[u8], at: usize, len: usize) -> usize {
    let bytes = bytes[at..at + len].iter().rev();
    bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// The names of defined dynamic symbols.
fn exports(file: &[u8]) -> BTreeSet<String> {
    const DYNAMIC_SYMBOLS: usize = 11;
    assert!(file.starts_with(b"\x7fELF\x02\x01"), "not ELF of 64 bits");
    let (sections, size, count) = (number(file, 40, 8), number(file, 58, 2), number(file, 60, 2));
    let section = |index: usize| {
        let at = sections + index * size;
        let field = |offset, len| number(file, at + offset, len);
        (field(4, 4), field(24, 8), field(32, 8), field(40, 4))
    };
    let (_, symbols, len, strings) = (0..count)
        .map(section)
        .find(|section| section.0 == DYNAMIC_SYMBOLS)
        .expect("a table of dynamic symbols");
    let strings = section(strings).1;
    let names = (symbols..symbols + len).step_by(24).filter_map(|at| {
        let is_defined = number(file, at + 6, 2) != 0;
        let name = &file[strings + number(file, at, 4)..];
        let end = name.iter().position(|byte| *byte == 0)?;
        let name = String::from_utf8_lossy(&name[..end]).into_owned();
        (is_defined && !name.is_empty()).then_some(name)
    });
    names.collect()
}

/// Checks that the library exports these names, with and without `P` before them unless they are `single`.
pub(crate) fn check(name: &str, list: &str, single: &[&str]) {
    let path = library(name);
    let file = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let names = list.lines();
    let expected: BTreeSet<String> = names
        .flat_map(|name| {
            let profiled = (!single.contains(&name)).then(|| format!("P{name}"));
            [Some(name.to_owned()), profiled].into_iter().flatten()
        })
        .collect();
    let found = exports(&file);
    let missing: Vec<_> = expected.difference(&found).collect();
    let extra: Vec<_> = found.difference(&expected).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing: {missing:?}\nextra: {extra:?}"
    );
}
