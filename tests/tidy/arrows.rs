//! Which file of a crate takes which name from which other file: its arrows.
//!
//! A file takes what it names, by `use` or by a path. A name leads to the file that defines it, through all files that
//! hand it on (`pub use`), so those are not in the way; and to hand on a name without using it is no arrow, so a folder's
//! `mod.rs` that is only its face takes nothing. `mod child;` is no arrow either: it says where a file is.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{block_end, code_of, rust_files, without_tests, words};

/// A module by the names on the way to it from the root of its crate.
type Module = Vec<String>;

/// File → file → the names that the first takes from the second.
pub(crate) type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// How many files may hand on a name before its way counts as lost. (There are globs that hand on each other.)
const STEPS: usize = 16;

/// `use path as name`, or `use path::*`: then the name is `*`.
struct Import {
    module: Module,
    path: Vec<String>,
    name: String,
    handed_on: bool,
}

struct Source {
    path: String,
    module: Module,
    /// Without comments, strings, tests and imports.
    code: String,
    /// The names that it defines, methods and parts of implementations included.
    defined: BTreeSet<String>,
    imports: Vec<Import>,
    /// Modules written within it.
    inline: Vec<(std::ops::Range<usize>, Module)>,
}

/// The item that a path leads to.
#[derive(Clone, PartialEq)]
enum Found {
    Item(usize),
    Module(Module),
}

struct Crate {
    sources: Vec<Source>,
    modules: BTreeMap<Module, usize>,
}

/// The arrows between the files of the crate whose root is in `folder`, tests left out.
pub(crate) fn of_crate(folder: &str) -> Arrows {
    let files = rust_files(folder).into_iter().filter(|file| !file.is_test());
    of_sources(files.map(|file| {
        let module = module_of(&file.path[folder.len() + 1..]);
        Source::new(file.path, module, &file.text)
    }))
}

fn of_sources(sources: impl Iterator<Item = Source>) -> Arrows {
    let sources: Vec<Source> = sources.collect();
    let mut modules = BTreeMap::new();
    for (index, source) in sources.iter().enumerate() {
        modules.insert(source.module.clone(), index);
        modules.extend(source.inline.iter().map(|(_, module)| (module.clone(), index)));
    }
    let all = Crate { sources, modules };
    (0..all.sources.len())
        .map(|from| (all.sources[from].path.clone(), all.arrows_from(from)))
        .collect()
}

/// The module in the file `path` (relative to the root's folder).
fn module_of(path: &str) -> Module {
    let names = path.trim_end_matches(".rs").split('/').map(str::to_owned);
    let mut module: Module = names.collect();
    if module
        .last()
        .is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str()))
    {
        module.pop();
    }
    module
}

impl Source {
    fn new(path: String, module: Module, text: &str) -> Self {
        let mut code = without_tests(&code_of(text));
        let inline = inline_modules(&code, &module);
        let scope = |at: usize| scope_of(&inline, &module, at);
        let mut imports = Vec::new();
        for (start, end) in use_statements(&code) {
            let handed_on = statement_before(&code, start).contains("pub");
            let tree = code[start + "use".len()..end - 1]
                .split_whitespace()
                .collect::<Vec<_>>();
            let mut leaves = Vec::new();
            flatten(&tree.join(" "), &[], &mut leaves);
            imports.extend(leaves.into_iter().map(|(path, name)| Import {
                module: scope(start),
                path,
                name,
                handed_on,
            }));
            blank(&mut code, start, end);
        }
        for (at, after) in word_places(&code.clone(), "mod") {
            let end = at + "mod".len() + after.find(['{', ';']).unwrap_or(0);
            blank(&mut code, at, end);
        }
        for (at, _) in code.clone().match_indices("pub(") {
            let end = code[at..].find(')').map_or(code.len(), |end| at + end + 1);
            blank(&mut code, at, end);
        }
        let defined = definitions(&code);
        Self {
            path,
            module,
            code,
            defined,
            imports,
            inline,
        }
    }
}

impl Crate {
    fn arrows_from(&self, from: usize) -> BTreeMap<String, BTreeSet<String>> {
        let source = &self.sources[from];
        let used: BTreeSet<&str> = words(&source.code).collect();
        let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut draw = |found: Option<Found>, name: &str| {
            if let Some(Found::Item(to)) = found
                && to != from
            {
                let names = arrows.entry(self.sources[to].path.clone()).or_default();
                names.insert(name.to_owned());
            }
        };
        for import in &source.imports {
            if import.name != "*" {
                let last = import.path.last().map_or("", String::as_str);
                if !import.handed_on || used.contains(import.name.as_str()) {
                    draw(self.find(&import.module, &import.path, STEPS), last);
                }
            } else if !import.handed_on
                && let Some(Found::Module(module)) = self.find(&import.module, &import.path, STEPS)
            {
                for name in self.names_in(&module).filter(|name| used.contains(name)) {
                    draw(self.find(&module, &[name.to_owned()], STEPS), name);
                }
            }
        }
        for (at, path) in paths(&source.code) {
            let scope = scope_of(&source.inline, &source.module, at);
            let last = path.last().map_or("", String::as_str);
            draw(self.find(&scope, &path, STEPS), last);
        }
        arrows
    }

    fn names_in(&self, module: &Module) -> impl Iterator<Item = &str> {
        let source = &self.sources[self.modules[module]];
        let imports = source.imports.iter().filter(|import| import.module == *module);
        source
            .defined
            .iter()
            .chain(imports.map(|import| &import.name))
            .map(String::as_str)
    }

    /// Where `path` leads, as seen from `module`; nowhere in this crate: none.
    fn find(&self, module: &Module, path: &[String], steps: usize) -> Option<Found> {
        let steps = steps.checked_sub(1)?;
        let mut at = module.clone();
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => {
                    at.pop()?;
                }
                name => {
                    let mut child = at.clone();
                    child.push(name.to_owned());
                    let is_last = index + 1 == path.len();
                    let is_module = self.modules.contains_key(&child);
                    let imported = self.import(&at, name).filter(|_| is_last || !is_module);
                    // `use self::child;` leads to itself.
                    let imported = imported.filter(|import| !(is_module && import.path.len() == 1));
                    if let Some(import) = imported {
                        let rest = import.path.iter().chain(&path[index + 1..]);
                        return self.find(&import.module, &rest.cloned().collect::<Vec<_>>(), steps);
                    }
                    if is_module {
                        at = child;
                        continue;
                    }
                    let here = *self.modules.get(&at)?;
                    if self.sources[here].defined.contains(name) {
                        return Some(Found::Item(here));
                    }
                    let through_globs = self.globs(&at).find_map(|glob| {
                        let rest = glob.path.iter().chain(&path[index..]);
                        self.find(&glob.module, &rest.cloned().collect::<Vec<_>>(), steps)
                    });
                    // A first name that is known nowhere is another crate's.
                    let unknown = (index > 0).then_some(Found::Item(here));
                    return through_globs.or(unknown);
                }
            }
        }
        Some(Found::Module(at))
    }

    fn imports(&self, module: &Module) -> impl Iterator<Item = &Import> {
        let source = self.modules.get(module).map(|index| &self.sources[*index]);
        let imports = source.map_or(&[][..], |source| &source.imports);
        imports.iter().filter(|import| import.module == *module)
    }

    fn import(&self, module: &Module, name: &str) -> Option<&Import> {
        self.imports(module).find(|import| import.name == name)
    }

    fn globs(&self, module: &Module) -> impl Iterator<Item = &Import> {
        self.imports(module).filter(|import| import.name == "*")
    }
}

fn blank(code: &mut String, from: usize, to: usize) {
    let blanked: String = code[from..to]
        .bytes()
        .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
        .collect();
    code.replace_range(from..to, &blanked);
}

/// The places and the modules of `mod name { … }` in the file of `module`.
fn inline_modules(code: &str, module: &Module) -> Vec<(std::ops::Range<usize>, Module)> {
    let mut found: Vec<(std::ops::Range<usize>, Module)> = Vec::new();
    for (at, _) in word_places(code, "mod") {
        let Some(open) = code[at..].find(['{', ';']).map(|open| at + open) else {
            continue;
        };
        if code.as_bytes()[open] == b'{' {
            let mut path = scope_of(&found, module, at);
            path.push(code[at + "mod".len()..open].trim().to_owned());
            found.push((open..block_end(code, open), path));
        }
    }
    found
}

/// The innermost module around a place.
fn scope_of(inline: &[(std::ops::Range<usize>, Module)], module: &Module, at: usize) -> Module {
    let around = inline.iter().rfind(|(range, _)| range.contains(&at));
    around.map_or(module, |(_, module)| module).clone()
}

/// Where `word` stands alone, and what follows it.
fn word_places<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let within = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).filter_map(move |(at, _)| {
        let after = &code[at + word.len()..];
        let alone = !code[..at].ends_with(within) && !after.starts_with(within);
        alone.then_some((at, after))
    })
}

/// From `use` to behind the `;`. (`use<'a>` in a type is none.)
fn use_statements(code: &str) -> Vec<(usize, usize)> {
    word_places(code, "use")
        .filter(|(_, after)| !after.trim_start().starts_with('<'))
        .filter_map(|(at, after)| Some((at, at + "use".len() + after.find(';')? + 1)))
        .collect()
}

/// The text between the end of the previous statement and `at`.
fn statement_before(code: &str, at: usize) -> &str {
    let start = code[..at].rfind([';', '{', '}', ']']).map_or(0, |end| end + 1);
    &code[start..at]
}

/// All leaves of a tree of imports: their paths and what they are called here.
fn flatten(tree: &str, prefix: &[String], leaves: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let prefix: Vec<String> = prefix.iter().cloned().chain(segments(&tree[..open])).collect();
        let group = &tree[open + 1..block_end(tree, open) - 1];
        let mut depth = 0_usize;
        let parts = group.split(|c| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            c == ',' && depth == 0
        });
        for part in parts.filter(|part| !part.trim().is_empty()) {
            flatten(part, &prefix, leaves);
        }
        return;
    }
    let (path, alias) = tree
        .split_once(" as ")
        .map_or((tree, None), |(path, alias)| (path, Some(alias)));
    let mut path: Vec<String> = prefix.iter().cloned().chain(segments(path)).collect();
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let last = path.last().cloned().unwrap_or_default();
    if last == "*" {
        path.pop();
    }
    leaves.push((path, alias.map_or(last, |alias| alias.trim().to_owned())));
}

fn segments(path: &str) -> impl Iterator<Item = String> {
    path.split("::")
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
}

const DEFINING: [&str; 9] = [
    "fn",
    "struct",
    "enum",
    "union",
    "trait",
    "type",
    "const",
    "static",
    "macro_rules",
];

fn definitions(code: &str) -> BTreeSet<String> {
    let mut defined = BTreeSet::new();
    let mut before = "";
    for word in words(code) {
        if DEFINING.contains(&before) {
            defined.insert(word.to_owned());
        }
        before = word;
    }
    defined
}

/// Paths in code that a module may begin: `crate::…`, `super::…`, `self::…`, and those whose first name is in lower case.
/// (The first name of others is imported.)
fn paths(code: &str) -> Vec<(usize, Vec<String>)> {
    let within = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(colons) = code[from..].find("::").map(|at| from + at) {
        let start = code[..colons].rfind(|c| !within(c)).map_or(0, |at| at + 1);
        let first = &code[start..colons];
        from = colons;
        let mut path = vec![first.to_owned()];
        while code[from..].starts_with("::") {
            from += "::".len();
            let rest = &code[from..];
            let end = rest.find(|c| !within(c)).unwrap_or(rest.len());
            if end == 0 {
                break;
            }
            path.push(rest[..end].to_owned());
            from += end;
        }
        if first.starts_with(|c: char| c.is_lowercase()) && path.len() > 1 {
            found.push((start, path));
        }
    }
    found
}

/// The rules are worth what their reading of Rust is worth.
mod reading {
    use super::*;

    /// The names that files take from each other, in a crate of these files.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let sources = files
            .iter()
            .map(|(path, text)| Source::new((*path).to_owned(), module_of(path), text));
        let mut found = Vec::new();
        for (from, targets) in of_sources(sources) {
            for (to, names) in targets {
                let names: Vec<String> = names.into_iter().collect();
                found.push(format!("{from} {to} {}", names.join(" ")));
            }
        }
        found
    }

    #[test]
    fn a_name_leads_to_its_definition() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use b::S;"),
            ("a.rs", "use crate::{S, b::{self, T as U}}; fn f(x: U) { b::g(); }"),
            (
                "b/mod.rs",
                "mod c; pub(crate) use self::c::*; pub struct S; pub struct T; mod c;",
            ),
            ("b/c.rs", "pub fn g() {}"),
        ];
        assert_eq!(arrows(&files), ["a.rs b/c.rs g", "a.rs b/mod.rs S T"]);
    }

    #[test]
    fn handing_on_is_no_arrow_and_using_is() {
        let face = ("a/mod.rs", "pub mod b; pub use self::b::{b, S};");
        let child = ("a/b.rs", "use super::T; pub struct S(T); pub fn b() {}");
        assert_eq!(arrows(&[face, child]), ["a/b.rs a/mod.rs T"]);
        let user = ("a/mod.rs", "mod b; pub use self::b::S; struct T { s: S }");
        assert_eq!(arrows(&[user, child]), ["a/b.rs a/mod.rs T", "a/mod.rs a/b.rs S"]);
    }

    #[test]
    fn modules_within_files_are_of_the_file() {
        let files = [
            (
                "a.rs",
                "mod inner { use super::X; pub fn f() { super::super::b::g(); } } struct X;",
            ),
            ("b.rs", "pub fn g() { crate::a::inner::f(); std::mem::drop(1); }"),
        ];
        assert_eq!(arrows(&files), ["a.rs b.rs g", "b.rs a.rs f"]);
    }

    #[test]
    fn tests_comments_and_other_crates_take_nothing() {
        let files = [
            (
                "a.rs",
                "// crate::b::X\n#[cfg(test)]\nmod tests { use crate::b::X; }\npub(in crate::b) fn f() {}",
            ),
            (
                "b.rs",
                "pub struct X; fn f<'a>(x: &'a u8) -> impl Sized + use<'a> { x }",
            ),
        ];
        assert!(arrows(&files).is_empty());
    }
}
