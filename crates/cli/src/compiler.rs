//! `hikyaku cc` and `hikyaku cxx`: the machine's compilers, with what a program over the C library needs.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use clap::{Args, ValueHint};
use hikyaku_bench::failure::{Failure, While};

use crate::run::quoted;

pub(crate) const EXAMPLES_OF_C: &str = "\
Examples:
  hikyaku cc -O2 prog.c -o prog                  the same as mpicc
  hikyaku cc -c part.c                           without linking
  hikyaku cc -show                               print the whole command
  hikyaku cc --showme:compile                    print a part of it: flags to compile with
  hikyaku cc -cc=clang prog.c -o prog            by another compiler; so does MPI_CC=clang

The command is that of `cc`, or of the compiler that -cc=NAME or else the variable MPI_CC names, with the header's folder \
before the arguments and the library after them. A program has the library's path in it, so that it finds it when it runs. \
Header and library are those that `cargo xtask install` has put beside this command.

-show and -showme print the whole command instead, -compile-info and -link-info that of one step, and -showme:WHAT a part: \
compile, link, incdirs, libdirs, libs, command or version. The same with two dashes. \
All other arguments are the compiler's, --version among them.";

pub(crate) const EXAMPLES_OF_CXX: &str = "\
Examples:
  hikyaku cxx -O2 prog.cpp -o prog               the same as mpicxx, and as mpic++
  hikyaku cxx -show                              print the whole command
  hikyaku cxx -cxx=clang++ prog.cpp -o prog      by another compiler; so does MPI_CXX=clang++

The compiler is `c++`, or what -cxx=NAME or else the variable MPI_CXX names. All else is as in `hikyaku cc`.";

/// Options.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompilerArgs {
    /// What the compiler is to do, in its own words
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT",
        value_hint = ValueHint::FilePath
    )]
    arguments: Vec<OsString>,
}

/// The library that programs are linked with.
const LIBRARY: &str = "mpi_abi";
/// With these, a compiler does not link.
const ONLY_COMPILED: [&str; 6] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"];

/// What a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cxx,
}

impl Language {
    const fn command(self) -> &'static str {
        match self {
            Self::C => "cc",
            Self::Cxx => "cxx",
        }
    }

    /// The variable that names its compiler.
    const fn variable(self) -> &'static str {
        match self {
            Self::C => "MPI_CC",
            Self::Cxx => "MPI_CXX",
        }
    }

    /// The compiler, with options if it has some.
    fn compiler(self) -> String {
        let of_machine = match self {
            Self::C => "cc",
            Self::Cxx => "c++",
        };
        env::var(self.variable()).unwrap_or_else(|_| of_machine.to_owned())
    }
}

/// The outcome of the arguments.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// A command, to be run.
    Run(Vec<OsString>),
    /// An answer to a build tool.
    Print(String),
}

/// Becomes the compiler, or prints its command.
pub(crate) fn run(language: Language, args: &CompilerArgs) -> Result<(), Failure> {
    match outcome(language, &prefix()?, language.compiler(), &args.arguments)? {
        Outcome::Print(answer) => println!("{answer}"),
        Outcome::Run(words) => {
            let (program, arguments) = words.split_first().expect("a compiler");
            let error = Command::new(program).args(arguments).exec();
            let (program, variable) = (program.display(), language.variable());
            return Err(Failure::run(format!(
                "{program}: {error}; {variable} can name another compiler"
            )));
        }
    }
    Ok(())
}

/// The folder under which this command, header and libraries are installed.
fn prefix() -> Result<PathBuf, Failure> {
    let own = env::current_exe().or_fail("the place of this command")?;
    let prefix = own.parent().and_then(Path::parent).unwrap_or_else(|| Path::new("/"));
    let header = prefix.join("include/mpi.h");
    if !header.is_file() {
        return Err(Failure::usage(format!(
            "there is no {}; `cargo xtask install --prefix DIR` puts a command, its header and its libraries in place",
            header.display()
        )));
    }
    Ok(prefix.to_owned())
}

/// `prefix`: where the header and the libraries are; `compiler`: the compiler, if no argument names another one.
fn outcome(language: Language, prefix: &Path, compiler: String, given: &[OsString]) -> Result<Outcome, Failure> {
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    let compile = [flag("-I", &include)];
    let link = [flag("-L", &lib), flag("-Wl,-rpath,", &lib), flag("-l", LIBRARY)];
    let own_option = format!("-{}=", language.command());
    let (mut compiler, mut asked, mut is_linked) = (compiler, None, true);
    let mut arguments = Vec::new();
    for argument in given {
        let text = argument.to_str().unwrap_or_default();
        if let Some(name) = text.strip_prefix(&own_option) {
            name.clone_into(&mut compiler);
            continue;
        }
        match text.strip_prefix("--").or_else(|| text.strip_prefix('-')) {
            Some("show" | "showme") => asked = Some("all"),
            Some("compile-info" | "compile_info") => asked = Some("compile-info"),
            Some("link-info" | "link_info") => asked = Some("link-info"),
            Some(option) if option.starts_with("showme:") => asked = option.strip_prefix("showme:"),
            _ => {
                is_linked &= !ONLY_COMPILED.contains(&text);
                arguments.push(argument.clone());
            }
        }
    }
    if let [question] = &arguments[..] {
        is_linked &= !is_question(&question.to_string_lossy());
    }
    let compiler: Vec<OsString> = compiler.split_whitespace().map(OsString::from).collect();
    let link_if_linked = if is_linked { &link[..] } else { &[] };
    let whole = [&compiler, &compile[..], &arguments, link_if_linked].concat();
    let answer = match asked {
        None if arguments.is_empty() || compiler.is_empty() => {
            let name = language.command();
            return Err(Failure::usage(format!(
                "there is nothing to compile, or no compiler; see `hikyaku {name} --help`"
            )));
        }
        None => return Ok(Outcome::Run(whole)),
        Some("all") => whole,
        Some("command") => compiler,
        Some("compile") => compile.to_vec(),
        Some("link") => link.to_vec(),
        Some("compile-info") => [&compiler, &compile[..]].concat(),
        Some("link-info") => [&compiler, &link[..]].concat(),
        Some("incdirs") => vec![include.into()],
        Some("libdirs") => vec![lib.into()],
        Some("libs") => vec![LIBRARY.into()],
        Some("version") => ["hikyaku", concat!(env!("CARGO_PKG_VERSION"), ","), "MPI", "5.0"]
            .map(OsString::from)
            .to_vec(),
        Some(what) => {
            let name = language.command();
            return Err(Failure::usage(format!(
                "there is no -showme:{what}; see `hikyaku {name} --help`"
            )));
        }
    };
    let words: Vec<String> = answer.iter().map(|word| shown(&word.to_string_lossy())).collect();
    Ok(Outcome::Print(words.join(" ")))
}

/// An option with a value.
fn flag(option: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut flag = OsString::from(option);
    flag.push(value);
    flag
}

/// A question to the compiler about itself, for which nothing is linked.
fn is_question(argument: &str) -> bool {
    ["-v", "-V", "--version", "--help"].contains(&argument)
        || argument.starts_with("-dump")
        || argument.starts_with("-print")
}

/// A word as it can be given to a shell.
fn shown(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+,./:@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        quoted(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome of `line` under `/opt/mpi`, as one line; what is run has `$ ` before it.
    fn of(language: Language, line: &str) -> String {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let words = |words: Vec<OsString>| words.join(OsStr::new(" ")).to_string_lossy().into_owned();
        match outcome(language, Path::new("/opt/mpi"), "ccache gcc".to_owned(), &arguments) {
            Ok(Outcome::Run(command)) => format!("$ {}", words(command)),
            Ok(Outcome::Print(answer)) => answer,
            Err(failure) => format!("error: {failure}"),
        }
    }

    const COMPILE: &str = "-I/opt/mpi/include";
    const LINK: &str = "-L/opt/mpi/lib -Wl,-rpath,/opt/mpi/lib -lmpi_abi";

    #[test]
    fn the_library_is_linked_where_something_is_linked() {
        let of_c = |line: &str| of(Language::C, line);
        assert_eq!(
            of_c("-O2 a.c -o a"),
            format!("$ ccache gcc {COMPILE} -O2 a.c -o a {LINK}")
        );
        for only_compiled in [
            "-c a.c",
            "-E a.c",
            "-MM a.c",
            "--version",
            "-dumpversion",
            "-print-search-dirs",
        ] {
            assert_eq!(of_c(only_compiled), format!("$ ccache gcc {COMPILE} {only_compiled}"));
        }
        // The compiler says how it links this.
        assert!(of_c("-v a.c").ends_with(LINK));
    }

    #[test]
    fn arguments_name_another_compiler() {
        assert_eq!(of(Language::C, "-cc=clang -c a.c"), format!("$ clang {COMPILE} -c a.c"));
        assert_eq!(
            of(Language::Cxx, "-cxx=clang++ -c a.cc"),
            format!("$ clang++ {COMPILE} -c a.cc")
        );
        // It is no option of the other language.
        assert_eq!(
            of(Language::C, "-cxx=x -c a.c"),
            format!("$ ccache gcc {COMPILE} -cxx=x -c a.c")
        );
    }

    #[test]
    fn build_tools_get_answers() {
        for (question, answer) in [
            ("-show", format!("ccache gcc {COMPILE} {LINK}")),
            ("--showme -c a.c", format!("ccache gcc {COMPILE} -c a.c")),
            (
                "-show -DX=\"y\" a.c",
                format!("ccache gcc {COMPILE} '-DX=\"y\"' a.c {LINK}"),
            ),
            ("-showme:command", "ccache gcc".to_owned()),
            ("-showme:compile", COMPILE.to_owned()),
            ("--showme:link", LINK.to_owned()),
            ("--showme:incdirs", "/opt/mpi/include".to_owned()),
            ("--showme:libdirs", "/opt/mpi/lib".to_owned()),
            ("--showme:libs", "mpi_abi".to_owned()),
            ("-compile-info", format!("ccache gcc {COMPILE}")),
            ("-link_info -cc=clang", format!("clang {LINK}")),
        ] {
            assert_eq!(of(Language::C, question), answer, "{question}");
        }
        assert!(of(Language::C, "-showme:version").ends_with(", MPI 5.0"));
        assert!(of(Language::C, "-showme:weather").contains("no -showme:weather"));
    }

    #[test]
    fn without_something_to_compile_it_is_an_error() {
        assert!(of(Language::C, "").contains("hikyaku cc --help"));
        assert!(of(Language::Cxx, "-cxx= a.cc").contains("hikyaku cxx --help"));
    }
}
