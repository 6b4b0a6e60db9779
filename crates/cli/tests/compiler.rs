//! `hikyaku cc` and the names of other programs, as `cargo xtask install` puts them in place.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hikyaku");

/// A folder with the command under this name, and with a header unless it is `bare`.
fn installed(folder: &str, name: &str, bare: bool) -> (PathBuf, PathBuf) {
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let _ = fs::remove_dir_all(&prefix);
    for part in ["bin", "include"] {
        fs::create_dir_all(prefix.join(part)).unwrap();
    }
    fs::hard_link(PROGRAM, prefix.join("bin/hikyaku")).unwrap();
    if !bare {
        fs::write(prefix.join("include/mpi.h"), "").unwrap();
    }
    let link = prefix.join("bin").join(name);
    if name != "hikyaku" {
        symlink("hikyaku", &link).unwrap();
    }
    (prefix, link)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

#[test]
fn wrappers_become_the_compiler() {
    for (name, variable) in [("mpicc", "MPI_CC"), ("mpicxx", "MPI_CXX"), ("mpic++", "MPI_CXX")] {
        let (prefix, wrapper) = installed(&format!("wrapper-{name}"), name, false);
        // A compiler that prints its arguments.
        let run = |arguments: &[&str]| {
            let mut command = Command::new(&wrapper);
            command.args(arguments).env(variable, "echo compiles").output().unwrap()
        };
        let prefix = prefix.display();
        let compiled = run(&["-c", "a b"]);
        assert_eq!(said(&compiled), format!("compiles -I{prefix}/include -c a b\n"));
        let linked = run(&["a.o"]);
        let link = format!("-L{prefix}/lib -Wl,-rpath,{prefix}/lib -lmpi_abi");
        assert_eq!(said(&linked), format!("compiles -I{prefix}/include a.o {link}\n"));
        let shown = run(&["-show", "-c", "a b"]);
        assert_eq!(said(&shown), format!("echo compiles -I{prefix}/include -c 'a b'\n"));
        let help = said(&run(&["-help"]));
        let command = if name == "mpicc" { "cc" } else { "cxx" };
        assert!(help.contains(&format!("Usage: hikyaku {command} ")), "{help}");
        assert_eq!(help, said(&run(&["--help"])));
    }
}

/// A build tool that asks pkg-config gets the options that the wrappers add.
#[test]
fn pkg_config_knows_the_wrappers_options() {
    let (prefix, wrapper) = installed("wrapper-pkg-config", "mpicc", false);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/mpi.pc");
    let file = fs::read_to_string(file).unwrap();
    for (field, question) in [("Cflags: ", "compile"), ("Libs: ", "link")] {
        let options = file.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        let options = options
            .replace("${includedir}", &format!("{}/include", prefix.display()))
            .replace("${libdir}", &format!("{}/lib", prefix.display()));
        let shown = Command::new(&wrapper)
            .arg(format!("-showme:{question}"))
            .output()
            .unwrap();
        assert_eq!(said(&shown), format!("{options}\n"));
    }
}

/// From elsewhere, by a link to the link.
#[test]
fn a_wrapper_finds_its_folder_from_elsewhere() {
    let (prefix, wrapper) = installed("wrapper-elsewhere", "mpicc", false);
    let elsewhere = prefix.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(wrapper, elsewhere.join("mpicc")).unwrap();
    let output = Command::new("mpicc")
        .arg("--showme:incdirs")
        .env("PATH", &elsewhere)
        .output()
        .unwrap();
    assert_eq!(said(&output), format!("{}/include\n", prefix.display()));
}

#[test]
fn what_cannot_be_compiled_is_an_error() {
    let (_, command) = installed("wrapper-bare", "hikyaku", true);
    let of = |command: &Path, arguments: &[&str]| {
        let output = Command::new(command)
            .args(arguments)
            .env("MPI_CC", "/nowhere/cc")
            .output()
            .unwrap();
        (output.status.code(), said(&output))
    };
    let (code, why) = of(&command, &["cc", "a.c"]);
    assert!(
        code == Some(2) && why.contains("include/mpi.h") && why.contains("cargo xtask install"),
        "{why}"
    );
    let (_, command) = installed("wrapper-mistakes", "hikyaku", false);
    let (code, why) = of(&command, &["cc"]);
    assert!(code == Some(2) && why.contains("hikyaku cc --help"), "{why}");
    let (code, why) = of(&command, &["cc", "a.c"]);
    assert!(
        code == Some(1) && why.contains("/nowhere/cc") && why.contains("MPI_CC"),
        "{why}"
    );
}

#[test]
fn mpiexec_is_run() {
    let (_, mpiexec) = installed("wrapper-mpiexec", "mpiexec", true);
    let output = Command::new(mpiexec)
        .args(["-np", "2", "echo", "-np"])
        .output()
        .unwrap();
    assert_eq!(
        (output.status.success(), said(&output)),
        (true, "-np\n-np\n".to_owned())
    );
}
