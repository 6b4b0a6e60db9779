//! `cargo xtask mpi4py`: mpi4py's own tests over our libraries, and over MPICH's wheel as the control.
//!
//! Everything comes from PyPI and stays in `target/suites/mpi4py`: the wheel of mpi4py (for MPICH's ABI), the same
//! version built for the standard ABI against the control's header, and its source, which has the tests.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::shell::{self, Cmd};

const VERSION: &str = "4.1.2";
const MPICH: &str = "mpich==5.0.2";
const RANKS: [u32; 5] = [1, 2, 3, 5, 8];
/// What one run may take; with 8 ranks on 2 cores it takes minutes.
const LIMIT_S: u32 = 1200;
/// Processes are started and joined in these modules, which is not there yet.
const WITHOUT: [&str; 4] = ["-e", "spawn", "-e", "dynproc"];
/// These need files, and do not ask first whether there are any.
const WITHOUT_FILES: [&str; 6] = [
    "-x",
    "TestErrhandlerFile",
    "-x",
    "testSafeFreeCreated",
    "-x",
    "testRegister",
];
/// Modules that ask whether there are files, and take an error for an answer only if it says that the function is
/// missing from the library.
const ASK_FOR_FILES: [&str; 3] = ["test_file.py", "test_io.py", "test_subclass.py"];

/// Programs of our own, for two ranks: what mpi4py's tests do not ask.
const PROGRAMS: [&str; 4] = ["callbacks", "partitions", "checks", "fork"];

/// A library under test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Library {
    /// `libmpi.so.12`, under the wheel of mpi4py.
    Mpich,
    /// `libmpi_abi.so.1`, under mpi4py built for it.
    Abi,
    /// MPICH's.
    Control,
}

impl Library {
    const ALL: [Self; 3] = [Self::Mpich, Self::Abi, Self::Control];

    const fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::Abi => "abi",
            Self::Control => "control",
        }
    }
}

/// What the tests of one run came to, on the rank that was worst.
#[derive(Default)]
struct Count {
    run: u32,
    failed: u32,
    skipped: u32,
    /// Why tests were skipped, over all ranks.
    reasons: BTreeMap<String, u32>,
}

impl Count {
    fn of(output: &str) -> Self {
        let mut count = Self::default();
        let number = |line: &str, key: &str| -> u32 {
            let rest = line.split_once(key).map_or("", |(_, rest)| rest);
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().unwrap_or(0)
        };
        for line in output.lines() {
            if let Some(rest) = line.strip_prefix("Ran ") {
                count.run = count.run.max(number(rest, ""));
            } else if line.starts_with("OK") || line.starts_with("FAILED") {
                count.skipped = count.skipped.max(number(line, "skipped="));
                let failed = number(line, "failures=") + number(line, "errors=");
                count.failed = count.failed.max(failed.max(u32::from(line.starts_with("FAILED"))));
            } else if let Some((_, reason)) = line.split_once("... skipped ") {
                *count.reasons.entry(reason.trim_matches('\'').to_owned()).or_default() += 1;
            }
        }
        count
    }
}

/// Where all of it lies.
struct Place(PathBuf);

impl Place {
    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// An environment of Python with these packages, made by `pip` with these variables.
    fn environment(&self, name: &str, packages: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
        let done = self.0.join(name).join("done");
        if done.exists() {
            return Ok(());
        }
        let folder = self.path(name);
        Cmd::parse("python3 -m venv --clear")
            .args([&folder])
            .limit_s(LIMIT_S)
            .run()?;
        let pip = Cmd::new(&format!("{folder}/bin/pip")).args(["install", "--quiet", "--disable-pip-version-check"]);
        let pip = pip.args(packages).limit_s(LIMIT_S);
        variables
            .iter()
            .fold(pip, |pip, (name, value)| pip.env(name, value))
            .run()?;
        fs::write(&done, "").map_err(|error| format!("{}: {error}", done.display()))
    }

    /// The tests, out of the source.
    fn tests(&self) -> Result<(), String> {
        let source = format!("mpi4py-{VERSION}");
        let tests = self.0.join(&source).join("test");
        if tests.exists() {
            return Ok(());
        }
        let pip =
            Cmd::new(&self.path("wheel/bin/pip")).args(["download", "--quiet", "--no-deps", "--no-binary", "mpi4py"]);
        pip.args(["-d", &self.path(""), &format!("mpi4py=={VERSION}")])
            .limit_s(LIMIT_S)
            .run()?;
        let archive = self.path(&format!("{source}.tar.gz"));
        Cmd::parse("tar xf").args([&archive, "-C", &self.path("")]).run()?;
        for name in ASK_FOR_FILES {
            let path = tests.join(name);
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let answer = "\nexcept (NotImplementedError, MPI.Exception):\n";
            let text = text.replace("\nexcept NotImplementedError:\n", answer);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Our libraries and launcher, under the names by which programs find them.
    fn build(&self) -> Result<(), String> {
        Cmd::parse("cargo build --release -p hikyaku-capi-abi -p hikyaku-capi-mpich -p hikyaku-cli").run()?;
        let lib = self.0.join("lib");
        fs::create_dir_all(&lib).map_err(|error| format!("{}: {error}", lib.display()))?;
        let built = shell::target_dir().join("release");
        for (from, to) in [("libmpi_abi.so", "libmpi_abi.so.1"), ("libmpich.so", "libmpi.so.12")] {
            let copied = fs::copy(built.join(from), lib.join(to));
            copied.map_err(|error| format!("{from}: {error}"))?;
        }
        Ok(())
    }

    /// Python in so many ranks over a library.
    fn python(&self, library: Library, ranks: u32) -> Cmd {
        let hikyaku = shell::target_dir().join("release/hikyaku").display().to_string();
        let (launcher, python, name) = match library {
            Library::Mpich => (Cmd::new(&hikyaku).args(["run"]), "wheel", "libmpi.so.12"),
            Library::Abi => (Cmd::new(&hikyaku).args(["run"]), "abi", "libmpi_abi.so.1"),
            Library::Control => (Cmd::new(&self.path("control/bin/mpiexec")), "control", ""),
        };
        let python = self.path(&format!("{python}/bin/python"));
        let command = launcher
            .args(["-n", &ranks.to_string(), &python, "-X", "faulthandler"])
            .env("OMP_NUM_THREADS", "1")
            .env("OPENBLAS_NUM_THREADS", "1")
            .limit_s(LIMIT_S);
        if library == Library::Control {
            return command;
        }
        let lib = self.path("lib");
        let name = format!("{lib}/{name}");
        command.env("LD_LIBRARY_PATH", &lib).env("MPI4PY_LIBMPI", &name)
    }

    /// Runs the programs of our own, checked and traced.
    fn programs(&self, library: Library) -> Result<(), String> {
        let traces = self.0.join("traces");
        for name in PROGRAMS {
            let _ = fs::remove_dir_all(&traces);
            let program = format!("xtask/mpi4py/{name}.py");
            let command = self.python(library, 2).args([&program]).env("HIKYAKU_CHECK", "on");
            command.env("HIKYAKU_TRACE", &traces.display().to_string()).run()?;
            for rank in 0..2 {
                let trace = traces.join(format!("rank-{rank}.jsonl"));
                let text = fs::read_to_string(&trace).map_err(|error| format!("{}: {error}", trace.display()))?;
                if !text.contains("MPI_Finalize") {
                    return Err(format!("{}: no call of MPI_Finalize", trace.display()));
                }
            }
        }
        Ok(())
    }

    fn run(&self, library: Library, ranks: u32) -> Result<Count, String> {
        let main = self.path(&format!("mpi4py-{VERSION}/test/main.py"));
        let tests = self.python(library, ranks).args([&main, "--no-builddir", "-v"]);
        let mut tests = tests.args(WITHOUT).env("MPI4PY_TEST_SPAWN", "0");
        if library != Library::Control {
            tests = tests.args(WITHOUT_FILES);
        }
        println!("$ {tests}");
        let output = tests.output().map_err(|error| format!("{error}: {tests}"))?;
        let [out, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        let text = format!("{out}{error}");
        let log = self.path(&format!("{}-{ranks}.log", library.name()));
        fs::write(&log, text.as_bytes()).map_err(|error| format!("{log}: {error}"))?;
        let mut count = Count::of(&text);
        if !output.status.success() {
            count.failed = count.failed.max(1);
        }
        if count.failed > 0 || count.run == 0 {
            println!("{}: see {log}", output.status);
        }
        Ok(count)
    }
}

/// `args`: `--ranks N,N`, and the names of libraries (all).
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (mut ranks, mut libraries) = (RANKS.to_vec(), Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--ranks" {
            let list = args.next().ok_or("--ranks needs numbers")?.split(',');
            let numbers: Result<_, _> = list.map(str::parse).collect();
            ranks = numbers.map_err(|_| "--ranks needs numbers".to_owned())?;
        } else {
            let found = Library::ALL.into_iter().find(|library| library.name() == arg);
            libraries.push(found.ok_or_else(|| format!("no library {arg}; there are mpich, abi and control"))?);
        }
    }
    if libraries.is_empty() {
        libraries = Library::ALL.to_vec();
    }
    let place = Place(shell::target_dir().join("suites/mpi4py"));
    fs::create_dir_all(&place.0).map_err(|error| format!("{}: {error}", place.0.display()))?;
    let mpi4py = format!("mpi4py=={VERSION}");
    place.environment("wheel", &[&mpi4py, "numpy"], &[])?;
    place.environment("control", &[MPICH, &mpi4py, "numpy"], &[])?;
    if libraries.contains(&Library::Abi) {
        let compiler = place.path("control/bin/mpicc_abi");
        let variables = [("MPI4PY_BUILD_MPIABI", "1"), ("MPICC", compiler.as_str())];
        place.environment("abi", &["--no-binary", "mpi4py", &mpi4py, "numpy"], &variables)?;
    }
    place.tests()?;
    if libraries.iter().any(|library| *library != Library::Control) {
        place.build()?;
    }
    let mut table = vec![
        "| library | ranks | run | failed | skipped |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    let mut failed = Vec::new();
    for &library in &libraries {
        if library != Library::Control {
            place.programs(library)?;
        }
        for &ranks in &ranks {
            let count = place.run(library, ranks)?;
            let Count {
                run,
                failed: wrong,
                skipped,
                reasons,
            } = &count;
            table.push(format!(
                "| {} | {ranks} | {run} | {wrong} | {skipped} |",
                library.name()
            ));
            println!("{}", table[table.len() - 1]);
            for (reason, times) in reasons {
                println!("    skipped by all ranks together: {times} × {reason}");
            }
            if library != Library::Control && (*wrong > 0 || *run == 0) {
                failed.push(format!("{} with {ranks} ranks", library.name()));
            }
        }
    }
    println!("\n{}", table.join("\n"));
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_their_tests_are_counted() {
        let count = Count::of(
            "testA (x.Y.testA) ... ok\ntestB (x.Y.testB) ... skipped 'mpi-file'\nRan 12 tests in 0.1s\n\
             OK (skipped=1)\nRan 12 tests in 0.2s\nFAILED (failures=2, errors=1, skipped=1)\n",
        );
        assert_eq!((count.run, count.failed, count.skipped), (12, 3, 1));
        assert_eq!(count.reasons["mpi-file"], 1);
    }
}
