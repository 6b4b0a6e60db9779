//! The header `include/mpi.h`: it is written out of the tables from which the library is, compiles as C and C++, and has
//! the constants that the library has.

mod constants;
mod tables;
mod types;

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Set, the test writes the header.
const BLESS: &str = "BLESS";
/// What the tables do not have: types, and constants that the library does not need or has elsewhere.
const HEAD: &str = include_str!("head.h");
/// The arguments of functions whose table does not have them as C has them: those that are not there yet, and tools'.
const ARGUMENTS: &str = include_str!("arguments.txt");
/// What the library exports.
const EXPORTED: &str = include_str!("../../abi/tests/symbols.txt");

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header() -> PathBuf {
    package().join("include/mpi.h")
}

#[test]
fn the_header_is_what_the_tables_say() {
    let text = write();
    if env::var_os(BLESS).is_some() {
        fs::create_dir_all(package().join("include")).unwrap();
        fs::write(header(), text).unwrap();
        return;
    }
    let kept = fs::read_to_string(header()).unwrap_or_default();
    let different = kept.lines().zip(text.lines()).find(|(kept, new)| kept != new);
    assert!(
        kept == text,
        "include/mpi.h is not what the tables say: {different:?}; write it anew:\n    \
         {BLESS}=1 cargo test -p hikyaku-capi --test header"
    );
}

#[test]
fn all_functions_are_declared() {
    let declared = prototypes();
    let undeclared: Vec<&str> = EXPORTED.lines().filter(|name| !declared.contains_key(*name)).collect();
    assert_eq!(undeclared, Vec::<&str>::new());
    assert_eq!(declared.len(), EXPORTED.lines().count());
}

#[test]
fn it_compiles_with_the_constants_of_the_library() {
    let program = program();
    for (compiler, language) in [("cc", "c"), ("c++", "c++")] {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("skipped: no {compiler} here");
            continue;
        }
        let folder = env::temp_dir().join(format!("hikyaku-header-{}-{language}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (source, executable) = (folder.join("constants.c"), folder.join("constants"));
        fs::write(&source, &program).unwrap();
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-x", language, "-I"]);
        command
            .arg(package().join("include"))
            .arg(&source)
            .arg("-o")
            .arg(&executable);
        assert!(command.status().unwrap().success(), "{command:?}");
        let output = Command::new(&executable).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("32 8 8 8 8"), "sizes of types");
        for (name, value) in constants::all() {
            assert_eq!(lines.next(), Some(format!("{name} {value}").as_str()));
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}

/// A program that prints the sizes of types, and the constants. It does not call the library.
fn program() -> String {
    let mut text = "#include <mpi.h>\n#include <stdio.h>\nint main(void) {\n".to_owned();
    text += "printf(\"%d %d %d %d %d\\n\", (int)sizeof(MPI_Status), (int)sizeof(MPI_Comm), (int)sizeof(MPI_Aint),\n";
    text += "    (int)sizeof(MPI_Count), (int)sizeof(MPI_Offset));\n";
    for (name, _) in constants::all() {
        writeln!(text, "printf(\"{name} %ld\\n\", (long){name});").unwrap();
    }
    text + "return 0;\n}\n"
}

/// The header's text.
fn write() -> String {
    let mut text = HEAD.to_owned();
    for (title, constants) in constants::read() {
        writeln!(text, "\n/* {title} */").unwrap();
        for constant in constants {
            writeln!(text, "#define {} {}", constant.name, constant.text).unwrap();
        }
    }
    text += "\n/* Functions. */\n";
    let prototypes = prototypes();
    for declaration in prototypes.values() {
        writeln!(text, "{declaration};").unwrap();
    }
    text += "\n/* The same for tools, which may have functions of the names above. */\n";
    for (name, declaration) in &prototypes {
        writeln!(text, "{};", declaration.replacen(name, &format!("P{name}"), 1)).unwrap();
    }
    text + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
}

/// Declarations of functions, by name.
fn prototypes() -> BTreeMap<String, String> {
    let tables = tables::read(&package().join("src/calls"));
    let mut all = BTreeMap::new();
    for function in &tables.functions {
        let name = format!("MPI_{}", function.name);
        // Those of Fortran are only in MPICH's library.
        if !EXPORTED.lines().any(|exported| exported == name) {
            continue;
        }
        let declare = |(name, kind): &(String, String)| types::argument(function, name, kind);
        let mut arguments: Vec<String> = function.arguments.iter().map(declare).collect();
        if function.name == "Pcontrol" {
            arguments = vec!["const int level".to_owned(), "...".to_owned()];
        }
        let declaration = declaration(&types::result(function), &function.name, &arguments);
        all.insert(name, declaration);
    }
    for (name, has_wide) in &tables.named {
        for wide in [false, true].into_iter().take(1 + usize::from(*has_wide)) {
            if let Some(arguments) = types::listed(ARGUMENTS, name, wide) {
                let name = if wide { format!("{name}_c") } else { name.clone() };
                all.insert(format!("MPI_{name}"), declaration("int", &name, &arguments));
            }
        }
    }
    all
}

/// A declaration, over as many lines as it takes.
fn declaration(result: &str, name: &str, arguments: &[String]) -> String {
    let arguments = if arguments.is_empty() {
        &["void".to_owned()]
    } else {
        arguments
    };
    let mut lines = vec![format!("{result} MPI_{name}(")];
    for (index, argument) in arguments.iter().enumerate() {
        let end = if index + 1 < arguments.len() { "," } else { ")" };
        let last = lines.last_mut().expect("one at least");
        let gap = if last.ends_with('(') { "" } else { " " };
        if last.len() + gap.len() + argument.len() + end.len() < 118 {
            *last += &format!("{gap}{argument}{end}");
        } else {
            lines.push(format!("    {argument}{end}"));
        }
    }
    lines.join("\n")
}
