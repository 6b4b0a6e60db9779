//! Programs in C and C++ over the shared library that cargo has built for a test: jobs of one process, or of more.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{self, Command, Output, Stdio},
};

/// The sources.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/programs")
}

/// Compiles a program, and runs it with these variables, by the launcher if `ranks` are given: it ends well. `library` is
/// its file, `name` that by which the loader knows it, `flags` are for the compiler.
pub(crate) fn run(
    program: &str,
    (library, name): (&str, &str),
    flags: &[&str],
    ranks: Option<&str>,
    variables: &[(&str, &str)],
) {
    if let Some(output) = output(&[program], (library, name), flags, ranks, variables) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {}: {said}", output.status);
    }
}

/// The same for a program with arguments, which may end in any way. `None`: there is no compiler here.
pub(crate) fn output(
    words: &[&str],
    (library, name): (&str, &str),
    flags: &[&str],
    ranks: Option<&str>,
    variables: &[(&str, &str)],
) -> Option<Output> {
    let (program, arguments) = words.split_first().expect("a program");
    let is_there = |source: &&(PathBuf, &str)| source.0.exists();
    let both = [("c", "cc"), ("cpp", "c++")].map(|(end, by)| (sources().join(format!("{program}.{end}")), by));
    let (source, compiler) = both.iter().find(is_there).expect("the program");
    if Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        println!("skipped: no {compiler} here");
        return None;
    }
    let library = env::current_exe().expect("the test's own path").with_file_name(library);
    let folder = env::temp_dir().join(format!("hikyaku-{}-{name}-{}", words.join("-"), process::id()));
    fs::create_dir_all(&folder).unwrap();
    let linked = folder.join(name);
    symlink(&library, &linked).unwrap();
    let executable = folder.join(program);
    let mut compiler = Command::new(compiler);
    compiler.args(["-Wall", "-Wextra", "-Werror", "-O1"]).args(flags);
    compiler.arg("-I").arg(sources().join("../../include"));
    compiler.arg(source).arg(&linked);
    compiler
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .arg("-o")
        .arg(&executable);
    assert!(compiler.status().unwrap().success(), "{compiler:?}");
    let mut command = Command::new("timeout");
    command.arg("60").envs(variables.iter().copied());
    if let Some(ranks) = ranks {
        let own = env::current_exe().expect("the test's own path");
        let launcher = own.parent().and_then(Path::parent).unwrap().join("hikyaku");
        assert!(
            launcher.exists(),
            "{} is not built: cargo build -p hikyaku-cli",
            launcher.display()
        );
        command.arg(launcher).args(["run", "-n", ranks]);
    }
    command.arg(&executable).args(arguments);
    let output = command.output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    Some(output)
}
