//! The functions that the tables in `src/calls` name.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A function of a table.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// Its name without `MPI_`.
    pub(crate) name: String,
    /// Counts are `MPI_Count`, and the name ends in `_c`.
    pub(crate) wide: bool,
    /// Name and type of each argument, as the table has them.
    pub(crate) arguments: Vec<(String, String)>,
    /// The type of the result, if it is no error code.
    pub(crate) result: Option<String>,
}

/// All tables.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) functions: Vec<Function>,
    /// Functions whose table does not have arguments as C has them: name, and whether there is one whose name ends in
    /// `_c`. They are not there yet, or tools'.
    pub(crate) named: Vec<(String, bool)>,
}

/// The files of a folder and of those within.
fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    let mut files: Vec<PathBuf> = paths.flat_map(below).collect();
    files.sort();
    files
}

/// Reads the tables of all files in a folder.
pub(crate) fn read(folder: &Path) -> Tables {
    let mut tables = Tables::default();
    for file in files(folder) {
        let text = fs::read_to_string(&file).unwrap();
        let words = words(&text);
        for start in 0..words.len() {
            let [macro_name, bang, brace, ..] = &words[start..] else {
                break;
            };
            if [macro_name.as_str(), bang, brace] == ["function", "!", "("] {
                Rows(&words[start + 3..]).function(&mut tables.functions);
            }
            if bang == "!" && brace == "{" {
                let mut rows = Rows(&words[start + 3..]);
                match macro_name.as_str() {
                    "functions" => rows.functions(&mut tables.functions),
                    "collectives" => rows.collectives(&mut tables.functions),
                    "values" => rows.values(&mut tables.functions),
                    "missing" => rows.missing(&mut tables.named),
                    "tool_functions" => rows.tools(&mut tables.named),
                    _ => {}
                }
            }
        }
    }
    tables
}

/// The words of Rust's text: names, numbers, strings with their quotation marks, and signs. Comments are left out.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            if rest.starts_with("//") {
                break;
            }
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let len = if first == '"' {
                rest[1..].find('"').map_or(rest.len(), |end| end + 2)
            } else if is_part(first) {
                rest.find(|c| !is_part(c)).unwrap_or(rest.len())
            } else if rest.starts_with("=>") || rest.starts_with("->") {
                2
            } else {
                first.len_utf8()
            };
            words.push(rest[..len].to_owned());
            rest = rest[len..].trim_start();
        }
    }
    words
}

/// The rows of a table, of which the first words are left.
struct Rows<'a>(&'a [String]);

impl Rows<'_> {
    fn next(&mut self) -> &str {
        let (word, rest) = self.0.split_first().expect("a table ends with a brace");
        self.0 = rest;
        word
    }

    fn next_if(&mut self, wanted: &str) -> bool {
        let is_it = self.0.first().is_some_and(|word| word == wanted);
        if is_it {
            self.next();
        }
        is_it
    }

    /// A string, without its quotation marks.
    fn string(&mut self) -> Option<String> {
        let word = self.0.first()?.strip_prefix('"')?.strip_suffix('"')?.to_owned();
        self.next();
        Some(word)
    }

    /// Jumps over the `$abi;` with which a table begins, to its first name.
    fn begin(&mut self) {
        while !self.next_if(";") {
            self.next();
        }
    }

    fn has_wide(&mut self) -> bool {
        let has_wide = self.next_if("+");
        if has_wide {
            self.next();
        }
        has_wide
    }

    /// Arguments in their parentheses.
    fn arguments(&mut self) -> Vec<(String, String)> {
        let mut arguments = Vec::new();
        assert_eq!(self.next(), "(");
        while !self.next_if(")") {
            let name = self.next().to_owned();
            assert_eq!(self.next(), ":", "after {name}");
            let (mut kind, mut depth) = (String::new(), 0);
            loop {
                match self.0[0].as_str() {
                    "," | ")" if depth == 0 => break,
                    "<" | "[" => depth += 1,
                    ">" | "]" => depth -= 1,
                    _ => {}
                }
                let word = self.next();
                kind += word;
                if ["const", "mut"].contains(&word) {
                    kind += " ";
                }
            }
            self.next_if(",");
            arguments.push((name, kind));
        }
        arguments
    }

    /// The body's name, then the arguments and the end of the row.
    fn body(&mut self) -> Vec<(String, String)> {
        while self.0[0] != "(" {
            self.next();
        }
        let arguments = self.arguments();
        assert_eq!(self.next(), ";");
        arguments
    }

    /// A function outside of tables: `$abi, width, ["name"], body, (arguments), …`.
    fn function(&mut self, into: &mut Vec<Function>) {
        while !self.0[0].starts_with('"') {
            match self.next() {
                // The macros themselves call each other so.
                "(" | ")" => return,
                _ => {}
            }
        }
        let name = self.string().expect("it is one");
        while self.0[0] != "(" {
            self.next();
        }
        let arguments = self.arguments();
        into.push(Function {
            wide: name.ends_with("_c"),
            name,
            arguments,
            result: None,
        });
    }

    fn functions(&mut self, into: &mut Vec<Function>) {
        self.begin();
        while let Some(name) = self.string() {
            let has_wide = self.has_wide();
            let arguments = self.body();
            push(into, &name, has_wide, arguments);
        }
    }

    fn collectives(&mut self, into: &mut Vec<Function>) {
        self.begin();
        while let Some(name) = self.string() {
            let immediate = self.string().expect("two names");
            let has_wide = self.has_wide();
            let arguments = self.body();
            let argument = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
            let request = argument("request", "InOut<RequestObject>");
            let mut begun = arguments.clone();
            begun.push(request.clone());
            let mut planned = arguments.clone();
            planned.extend([argument("info", "Info"), request]);
            push(into, &name, has_wide, arguments);
            push(into, &format!("I{immediate}"), has_wide, begun);
            push(into, &format!("{name}_init"), has_wide, planned);
        }
    }

    fn values(&mut self, into: &mut Vec<Function>) {
        self.begin();
        while let Some(name) = self.string() {
            let arguments = self.arguments();
            assert_eq!(self.next(), "->");
            let mut result = String::new();
            while self.0[0] != "=>" {
                result += self.next();
            }
            while !self.next_if(";") {
                self.next();
            }
            into.push(Function {
                name,
                wide: false,
                arguments,
                result: Some(result),
            });
        }
    }

    fn tools(&mut self, into: &mut Vec<(String, bool)>) {
        self.begin();
        while let Some(name) = self.string() {
            self.body();
            into.push((name, false));
        }
    }

    fn missing(&mut self, into: &mut Vec<(String, bool)>) {
        self.begin();
        while let Some(name) = self.string() {
            let has_wide = self.has_wide();
            into.push((name, has_wide));
        }
    }
}

fn push(into: &mut Vec<Function>, name: &str, has_wide: bool, arguments: Vec<(String, String)>) {
    let function = |name: String, wide| Function {
        name,
        wide,
        arguments: arguments.clone(),
        result: None,
    };
    into.push(function(name.to_owned(), name.ends_with("_c")));
    if has_wide {
        into.push(function(format!("{name}_c"), true));
    }
}
