//! `cargo xtask mpi4py`: mpi4py's own tests over our libraries, and over MPICH's wheel as the control.
//!
//! Everything comes from PyPI and stays in `target/suites`: the wheel of mpi4py (for MPICH's ABI), the same version
//! built for the standard ABI against the control's header, and its source, which has the tests.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::place::{self, Place};
use crate::shell::{self, Cmd};

const VERSION: &str = "4.1.2";
const RANKS: [u32; 5] = [1, 2, 3, 5, 8];
/// What one run may take; with 8 ranks on 2 cores it takes minutes.
const LIMIT_S: u32 = 1200;
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

/// (why tests are skipped, in the words of mpi4py's tests; the function that explains it while it is missing)
const FOR_MISSING: [(&str, &str); 3] = [
    ("File", "MPI_File_open"),
    ("mpi-file", "MPI_File_open"),
    ("mpi-io", "MPI_File_open"),
];
/// Further reasons for which tests may be skipped: the library has no part in them.
const FOR_OTHERS: [&str; 8] = [
    // Packages that the environment does not have.
    "cffi",
    "cupy",
    "dill",
    "numba",
    "yaml",
    // A function that is none of the standard's.
    "mpi-comm_revoke",
    // `MPI_COMM_SELF` is too small for the test, or the job too large.
    "comm.size==1",
    "mpi-world-size>1",
];
/// The same for jobs that are too small for a test; the number of ranks that it needs follows.
const TOO_FEW_RANKS: &str = "mpi-world-size<";

/// Whether tests of a job of so many ranks may be skipped for this reason. `missing` is the list of missing functions.
fn is_explained(reason: &str, ranks: u32, missing: &str) -> bool {
    if let Some(least) = reason.strip_prefix(TOO_FEW_RANKS) {
        return least.parse().is_ok_and(|least| ranks < least);
    }
    let function = FOR_MISSING.iter().find(|(known, _)| *known == reason);
    function.is_some_and(|(_, function)| missing.contains(&format!("`{function}`"))) || FOR_OTHERS.contains(&reason)
}

/// The list of missing functions.
fn missing_functions() -> Result<String, String> {
    let page = shell::root().join("docs/capi.md");
    let text = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let list = text.split_once("\n## Functions that are missing\n");
    list.map(|(_, list)| list.to_owned())
        .ok_or_else(|| format!("{} has no list of missing functions", page.display()))
}

/// Programs of our own, for two ranks: what mpi4py's tests do not ask.
const PROGRAMS: [&str; 4] = ["callbacks", "partitions", "checks", "fork"];

/// A library under test, with the mpi4py over it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `libmpi.so.12`, under the wheel of mpi4py.
    Mpich,
    /// `libmpi_abi.so.1`, under mpi4py built for it.
    Abi,
    /// MPICH's.
    Control,
}

impl Kind {
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

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// The libraries, and all that comes from PyPI.
struct Bench {
    place: Place,
    /// Where the tests lie, and what they print.
    folder: PathBuf,
}

impl Bench {
    fn new(profile: &str) -> Result<Self, String> {
        let place = Place::new(profile)?;
        let folder = place.folder("mpi4py")?;
        Ok(Self { place, folder })
    }

    /// The environment of Python that has the mpi4py for a library.
    fn environment(&self, kind: Kind) -> Result<PathBuf, String> {
        let mpi4py = format!("mpi4py=={VERSION}");
        match kind {
            Kind::Mpich | Kind::Control => self.place.environment("mpi4py-wheel", &[&mpi4py, "numpy"], &[]),
            Kind::Abi => {
                let compiler = self.place.control()?.program("mpicc_abi");
                let variables = [("MPI4PY_BUILD_MPIABI", "1"), ("MPICC", compiler.as_str())];
                let packages = ["--no-binary", "mpi4py", &mpi4py, "numpy"];
                self.place.environment("mpi4py-abi", &packages, &variables)
            }
        }
    }

    /// The tests, out of the source.
    fn tests(&self) -> Result<(), String> {
        let source = format!("mpi4py-{VERSION}");
        let tests = self.folder.join(&source).join("test");
        if tests.exists() {
            return Ok(());
        }
        let (pip, folder) = (self.environment(Kind::Mpich)?.join("bin/pip"), path(&self.folder));
        Cmd::new(&path(&pip))
            .args([
                "download",
                "--quiet",
                "--no-deps",
                "--no-binary",
                "mpi4py",
                "-d",
                &folder,
            ])
            .args([format!("mpi4py=={VERSION}")])
            .limit_s(LIMIT_S)
            .run()?;
        let archive = self.folder.join(format!("{source}.tar.gz"));
        Cmd::parse("tar xf").args([&path(&archive), "-C", &folder]).run()?;
        for name in ASK_FOR_FILES {
            let path = tests.join(name);
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let answer = "\nexcept (NotImplementedError, MPI.Exception):\n";
            let text = text.replace("\nexcept NotImplementedError:\n", answer);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Python in so many ranks over a library.
    fn python(&self, kind: Kind, ranks: u32) -> Result<Cmd, String> {
        let library: place::Library = match kind {
            Kind::Mpich | Kind::Abi => self.place.ours(),
            Kind::Control => self.place.control()?,
        };
        let opened = match kind {
            Kind::Mpich | Kind::Control => &library.mpich_abi,
            Kind::Abi => &library.abi,
        };
        let python = path(&self.environment(kind)?.join("bin/python"));
        Ok(Cmd::new(&library.program("mpiexec"))
            .args(["-n", &ranks.to_string(), &python, "-X", "faulthandler"])
            .env("OMP_NUM_THREADS", "1")
            .env("OPENBLAS_NUM_THREADS", "1")
            .env("MPI4PY_LIBMPI", &path(opened))
            // The build for the standard's ABI is linked against the control.
            .env("LD_LIBRARY_PATH", &path(opened.parent().expect("a file in a folder")))
            .limit_s(LIMIT_S))
    }

    /// Runs the programs of our own, checked and traced.
    fn programs(&self, kind: Kind) -> Result<(), String> {
        let traces = self.folder.join("traces");
        for name in PROGRAMS {
            let _ = fs::remove_dir_all(&traces);
            let program = format!("xtask/mpi4py/{name}.py");
            let command = self.python(kind, 2)?.args([&program]).env("HIKYAKU_CHECK", "on");
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

    fn run(&self, kind: Kind, ranks: u32) -> Result<Count, String> {
        let main = path(&self.folder.join(format!("mpi4py-{VERSION}/test/main.py")));
        let tests = self.python(kind, ranks)?.args([&main, "--no-builddir", "-v"]);
        let tests = match kind {
            // Processes that the wheel of MPICH spawns do not always reach those that have spawned them.
            Kind::Control => tests
                .args(["-e", "spawn", "-e", "dynproc"])
                .env("MPI4PY_TEST_SPAWN", "0"),
            _ => tests.args(WITHOUT_FILES),
        };
        println!("$ {tests}");
        let output = tests.output().map_err(|error| format!("{error}: {tests}"))?;
        let [out, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        let text = format!("{out}{error}");
        let log = path(&self.folder.join(format!("{}-{ranks}.log", kind.name())));
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

/// `args`: `--dev`, `--ranks N,N`, and the names of libraries (all).
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (mut profile, mut ranks, mut kinds) = ("release", RANKS.to_vec(), Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--dev" {
            profile = "dev";
        } else if arg == "--ranks" {
            let list = args.next().ok_or("--ranks needs numbers")?.split(',');
            let numbers: Result<_, _> = list.map(str::parse).collect();
            ranks = numbers.map_err(|_| "--ranks needs numbers".to_owned())?;
        } else {
            let found = Kind::ALL.into_iter().find(|kind| kind.name() == arg);
            kinds.push(found.ok_or_else(|| format!("no library {arg}; there are mpich, abi and control"))?);
        }
    }
    if kinds.is_empty() {
        kinds = Kind::ALL.to_vec();
    }
    let missing = missing_functions()?;
    let bench = Bench::new(profile)?;
    bench.tests()?;
    let mut table = vec![
        "| library | ranks | run | failed | skipped |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    let mut failed = Vec::new();
    for &kind in &kinds {
        if kind != Kind::Control {
            bench.programs(kind)?;
        }
        for &ranks in &ranks {
            let count = bench.run(kind, ranks)?;
            let Count {
                run,
                failed: wrong,
                skipped,
                reasons,
            } = &count;
            table.push(format!("| {} | {ranks} | {run} | {wrong} | {skipped} |", kind.name()));
            println!("{}", table[table.len() - 1]);
            for (reason, times) in reasons {
                println!("    skipped by all ranks together: {times} × {reason}");
            }
            let of = format!("{} with {ranks} ranks", kind.name());
            if kind != Kind::Control && (*wrong > 0 || *run == 0) {
                failed.push(of.clone());
            }
            let unexplained = reasons.keys().filter(|reason| !is_explained(reason, ranks, &missing));
            let unexplained: Vec<&str> = unexplained.map(String::as_str).collect();
            if kind != Kind::Control && !unexplained.is_empty() {
                failed.push(format!(
                    "{of} skips tests for reasons that nothing explains: {}",
                    unexplained.join(", ")
                ));
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

    #[test]
    fn tests_are_skipped_for_known_reasons_only() {
        let missing = missing_functions().unwrap();
        let of_two = Count::of(
            "testA (x.Y.testA) ... skipped 'mpi-file'\ntestB (x.Y.testB) ... skipped 'mpi-win'\n\
             testC (x.Y.testC) ... skipped 'mpi-world-size<3'\ntestD (x.Y.testD) ... skipped 'mpi-world-size<2'\n",
        );
        let reasons = of_two.reasons.keys().map(String::as_str);
        let unexplained: Vec<&str> = reasons.filter(|reason| !is_explained(reason, 2, &missing)).collect();
        assert_eq!(unexplained, ["mpi-win", "mpi-world-size<2"]);
        // When there are files, nothing explains that their tests are skipped.
        assert!(!is_explained("mpi-file", 2, "`MPI_Register_datarep`"));
    }
}
