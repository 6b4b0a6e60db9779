//! The constants that the library's tables have.

use std::{collections::BTreeMap, fs, path::Path};

use hikyaku::mpi::error::ErrorClass;

use crate::tables::words;

/// A constant.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) name: String,
    pub(crate) value: i64,
    /// How the header has it.
    pub(crate) text: String,
}

/// Name and value of every constant, in the header's order.
pub(crate) fn all() -> impl Iterator<Item = (String, i64)> {
    let groups = read().into_iter();
    groups.flat_map(|(_, group)| group.into_iter().map(|constant| (constant.name, constant.value)))
}

/// All groups of constants, with their titles.
pub(crate) fn read() -> Vec<(String, Vec<Constant>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/abi");
    let handles = fs::read_to_string(folder.join("handles.rs")).unwrap();
    let numbers = fs::read_to_string(folder.join("numbers.rs")).unwrap();
    let mut all = of_handles(&handles);
    all.extend(of_numbers(&numbers));
    all.push(("Error classes.".to_owned(), of_classes(&numbers)));
    all
}

fn number(word: &str) -> i64 {
    let digits = word.replace('_', "");
    match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).unwrap(),
        None => digits.parse().unwrap(),
    }
}

/// Predefined handles: each row of the two tables ends with the constant's name as a comment.
fn of_handles(text: &str) -> Vec<(String, Vec<Constant>)> {
    let mut groups: BTreeMap<String, Vec<Constant>> = BTreeMap::new();
    for line in text.lines() {
        let Some((row, name)) = line.split_once("// MPI_") else {
            continue;
        };
        let Some(row) = row.trim().strip_prefix('(') else {
            continue;
        };
        let mut parts = row.split(", ");
        let mut first = parts.next().unwrap();
        let mut sort = "Datatype";
        if let Some(other) = first.strip_prefix("Sort::") {
            (sort, first) = (other, parts.next().unwrap());
        }
        let value = number(first);
        groups
            .entry(format!("Handles: MPI_{sort}."))
            .or_default()
            .push(Constant {
                name: format!("MPI_{name}"),
                value,
                text: format!("((MPI_{sort}){value:#x})"),
            });
    }
    for group in groups.values_mut() {
        group.sort_by_key(|constant| constant.value);
    }
    groups.into_iter().collect()
}

/// What the names of a set's constants begin with.
const PREFIXES: [(&str, &str); 16] = [
    ("ThreadLevel", "THREAD_"),
    ("Order", "ORDER_"),
    ("Distribution", "DISTRIBUTE_"),
    ("Combiner", "COMBINER_"),
    ("TypeClass", "TYPECLASS_"),
    ("Comparison", ""),
    ("Topology", ""),
    ("SplitType", "COMM_TYPE_"),
    ("Lock", "LOCK_"),
    ("Flavor", "WIN_FLAVOR_"),
    ("Model", "WIN_"),
    ("Verbosity", "T_VERBOSITY_"),
    ("Bind", "T_BIND_"),
    ("SettingScope", "T_SCOPE_"),
    ("PvarClass", "T_PVAR_CLASS_"),
    ("Keyval", ""),
];

/// Sets of numbers: `Name: CONSTANT standard mpich, …;`.
fn of_numbers(text: &str) -> Vec<(String, Vec<Constant>)> {
    let (_, table) = text.split_once("\nnumbers! {").unwrap();
    let (table, _) = table.split_once("\n}").unwrap();
    let mut groups = Vec::new();
    for set in words(table).join(" ").split(" ;").filter(|set| !set.trim().is_empty()) {
        let (name, constants) = set.split_once(" : ").unwrap();
        let name = name.trim();
        let prefix = PREFIXES.iter().find(|row| row.0 == name);
        let prefix = prefix
            .unwrap_or_else(|| panic!("{name}: no beginning of its names in PREFIXES"))
            .1;
        let constant = |row: &str| {
            let mut row = row.split_whitespace();
            let name = match row.next().unwrap() {
                "DEFAULT_ARGUMENT" => "DFLT_DARG",
                "INVALID" => "KEYVAL_INVALID",
                name => name,
            };
            let value = number(row.next().unwrap());
            Constant {
                name: format!("MPI_{prefix}{name}"),
                value,
                text: value.to_string(),
            }
        };
        groups.push((
            format!("{}.", plural(name)),
            constants.split(" , ").map(constant).collect(),
        ));
    }
    groups
}

fn plural(name: &str) -> String {
    match name.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if name.ends_with("ss") => format!("{name}es"),
        None => format!("{name}s"),
    }
}

/// Error classes: `(ErrorClass::Name, [standard, mpich]),`. Those that the standard does not have are MPIX.
fn of_classes(text: &str) -> Vec<Constant> {
    let mut constants = Vec::new();
    for line in text.lines() {
        let Some(row) = line.trim().strip_prefix("(ErrorClass::") else {
            continue;
        };
        let (variant, row) = row.split_once(", [").unwrap();
        let value = number(row.split_once(',').unwrap().0);
        let class = ErrorClass::ALL
            .iter()
            .find(|class| format!("{class:?}") == variant)
            .unwrap();
        let mut name = class.name().to_owned();
        if value > 62 {
            name = name.replacen("MPI_", "MPIX_", 1);
        }
        constants.push(Constant {
            name,
            value,
            text: value.to_string(),
        });
    }
    constants
}
