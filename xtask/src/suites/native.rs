//! Suites in C.

use std::fs;

use super::place::{Library, Place, Verified, ranks, text};
use crate::shell;

/// What building a suite, or all runs of a larger one, may take.
const LIMIT_S: u32 = 900;

/// The line of a text that contains `what`.
pub(super) fn line<'a>(text: &'a str, what: &str) -> Result<&'a str, String> {
    let found = text.lines().find(|line| line.contains(what));
    found
        .map(str::trim)
        .ok_or_else(|| format!("nothing says {what:?} in:\n{text}"))
}

fn path(path: &std::path::Path) -> String {
    path.display().to_string()
}

/// Our own program, which every suite of tools compiles.
fn source(name: &str) -> String {
    path(&shell::root().join("xtask/suites").join(name))
}

/// Compiles our own program in `work` as `language`; gives how it is called there.
fn compile(place: &Place, library: &Library, work: &std::path::Path, language: &str) -> Verified {
    let compiler = library.program(if language == "c" { "mpicc" } else { "mpicxx" });
    let source = source("program.c");
    let flags = ["-Wall", "-Werror", "-O2", "-x", language, &source, "-o", language];
    text(&place.within(work, &compiler, &flags))?;
    Ok(format!("./{language}"))
}

pub(super) fn program(place: &Place, library: &Library) -> Verified {
    let work = place.work("program", library)?;
    let mut said = Vec::new();
    for language in ["c", "c++"] {
        let program = compile(place, library, &work, language)?;
        let output = ranks(place, library, &work, 4, &[&program])?;
        said.push(format!("{language}: {}", line(&output, "ranks, sum")?));
    }
    Ok(said.join("; "))
}

pub(super) fn spawn(place: &Place, library: &Library) -> Verified {
    let work = place.work("spawn", library)?;
    let program = compile(place, library, &work, "c")?;
    let output = ranks(place, library, &work, 4, &[&program, "spawn"])?;
    Ok(line(&output, "spawned 3")?.to_owned())
}

pub(super) fn fetch_cmake(place: &Place) -> Result<(), String> {
    place.tool("cmake").map(|_| ())
}

pub(super) fn fetch_meson(place: &Place) -> Result<(), String> {
    place.tool("meson").and_then(|_| place.tool("ninja")).map(|_| ())
}

/// The path on which the library's compilers come first, and then the tools.
fn search_path(place: &Place, library: &Library) -> Result<String, String> {
    let tool = place.tool("ninja")?;
    let tools = tool.rsplit_once('/').map_or("", |(folder, _)| folder);
    let rest = std::env::var("PATH").unwrap_or_default();
    Ok(format!("{}:{tools}:{rest}", path(&library.bin)))
}

pub(super) fn cmake(place: &Place, library: &Library) -> Verified {
    let work = place.work("cmake", library)?;
    for name in ["CMakeLists.txt", "program.c"] {
        fs::copy(source(name), work.join(name)).map_err(|error| error.to_string())?;
    }
    let search = search_path(place, library)?;
    let cmake = |args: &[&str]| text(&place.within(&work, &place.tool("cmake")?, args).env("PATH", &search));
    let version = cmake(&["-S", ".", "-B", "build"])?;
    let version = line(&version, "Found MPI:")?.to_owned();
    cmake(&["--build", "build"])?;
    let output = ranks(place, library, &work, 2, &["build/program"])?;
    Ok(format!(
        "{}; {}",
        version.trim_start_matches("-- "),
        line(&output, "ranks, sum")?
    ))
}

pub(super) fn meson(place: &Place, library: &Library) -> Verified {
    let work = place.work("meson", library)?;
    for name in ["meson.build", "program.c"] {
        fs::copy(source(name), work.join(name)).map_err(|error| error.to_string())?;
    }
    let search = search_path(place, library)?;
    let meson = |args: &[&str]| text(&place.within(&work, &place.tool("meson")?, args).env("PATH", &search));
    let found = meson(&["setup", "build"])?;
    line(&found, "Run-time dependency MPI found: YES")?;
    meson(&["compile", "-C", "build"])?;
    let output = ranks(place, library, &work, 2, &["build/program"])?;
    Ok(line(&output, "ranks, sum")?.to_owned())
}

pub(super) fn fetch_netpipe(place: &Place) -> Result<(), String> {
    place.debian("netpipe", "NetPIPE-3.7.2")
}

pub(super) fn netpipe(place: &Place, library: &Library) -> Verified {
    let work = place.copy("NetPIPE-3.7.2", library)?;
    let compiler = format!("MPICC={}", library.program("mpicc"));
    text(&place.within(&work, "make", &["mpi", &compiler]))?;
    // One line a size, of which each is sent a few times: the program would rather measure for half a second.
    let output = ranks(
        place,
        library,
        &work,
        2,
        &["./NPmpi", "-i", "-n", "50", "-u", "50000", "-o", "out"],
    )?;
    let passed = output.matches("Integrity check passed").count();
    if output.contains("ailed") || passed < 20 {
        return Err(format!("{passed} sizes passed:\n{output}"));
    }
    Ok(format!("{passed} sizes have arrived unharmed"))
}

/// What HPC Challenge needs besides MPI.
const BLIS: [&str; 3] = ["libblis-serial-dev", "libblis4-serial", "libblis-dev"];

pub(super) fn fetch_hpcc(place: &Place) -> Result<(), String> {
    place.packages(&BLIS)?;
    place.debian("hpcc", "hpcc-1.5.0")
}

pub(super) fn hpcc(place: &Place, library: &Library) -> Verified {
    let work = place.copy("hpcc-1.5.0", library)?;
    let blis = place
        .packages(&BLIS)?
        .join("usr/lib/x86_64-linux-gnu/blis-serial/libblis.a");
    let compiler = library.program("mpicc");
    let settings = format!(
        "SHELL=/bin/sh\nCD=cd\nCP=cp\nLN_S=ln -sf\nMKDIR=mkdir -p\nRM=/bin/rm -f\nTOUCH=touch\nARCH=suite\n\
         TOPdir=../../..\nINCdir=$(TOPdir)/include\nBINdir=$(TOPdir)/bin/$(ARCH)\nLIBdir=$(TOPdir)/lib/$(ARCH)\n\
         HPLlib=$(LIBdir)/libhpl.a\nLAlib={} -lpthread\n\
         HPL_DEFS=-DAdd_ -DF77_INTEGER=int -DStringSunStyle -I$(INCdir) -I$(INCdir)/$(ARCH)\n\
         HPL_LIBS=$(HPLlib) $(LAlib) -lm\nCC={compiler}\nCCNOOPT=$(HPL_DEFS) -w\nCCFLAGS=$(HPL_DEFS) -O2 -w\n\
         LINKER={compiler}\nLINKFLAGS=$(CCFLAGS)\nARCHIVER=ar\nARFLAGS=r\nRANLIB=echo\n",
        path(&blis)
    );
    let write = |name: &str, text: &str| fs::write(work.join(name), text).map_err(|error| format!("{name}: {error}"));
    write("hpl/Make.suite", &settings)?;
    text(&place.within(&work, "make", &["arch=suite"]).limit_s(LIMIT_S))?;
    let input = fs::read_to_string(work.join("_hpccinf.txt")).map_err(|error| error.to_string())?;
    let mut lines: Vec<&str> = input.lines().collect();
    // The sizes of problems; the grid is 2 × 2 as it is.
    lines[5] = "1000 Ns";
    write("hpccinf.txt", &(lines.join("\n") + "\n"))?;
    ranks(place, library, &work, 4, &["./hpcc"])?;
    let output = fs::read_to_string(work.join("hpccoutf.txt")).map_err(|error| error.to_string())?;
    let mut verified = Vec::new();
    for test in ["tests completed and passed", "tests completed and failed"] {
        let lines = output.lines().filter(|line| line.contains(test));
        let counts = lines.map(|line| line.split_whitespace().next().unwrap_or_default());
        verified.push(format!("{} {test}", counts.collect::<Vec<_>>().join("+")));
    }
    for value in ["Success=", "MPIRandomAccess_ErrorsFraction=", "PTRANS_residual="] {
        verified.push(line(&output, value)?.to_owned());
    }
    if line(&output, "Success=")? != "Success=1" {
        return Err(verified.join(", "));
    }
    Ok(verified.join(", "))
}

pub(super) fn fetch_fftw(place: &Place) -> Result<(), String> {
    place.debian("fftw3", "fftw-3.3.10")
}

pub(super) fn fftw(place: &Place, library: &Library) -> Verified {
    let work = place.copy("fftw-3.3.10", library)?;
    let run = |program: &str, args: &[&str]| text(&place.within(&work, program, args).limit_s(LIMIT_S));
    let compiler = format!("MPICC={}", library.program("mpicc"));
    let options = [
        "--enable-mpi",
        "--disable-fortran",
        "--disable-doc",
        "CFLAGS=-O1",
        &compiler,
    ];
    run("./configure", &options)?;
    run("make", &["-j2"])?;
    let launcher = format!("MPIRUN={}", library.program("mpiexec"));
    let output = run("make", &["-C", "mpi", "check", &launcher])?;
    let passed = output
        .lines()
        .filter(|line| line.contains("MPI FFTW transforms passed"));
    let passed: Vec<&str> = passed.map(|line| line.trim()).collect();
    if passed.len() != 4 {
        return Err(output);
    }
    Ok(passed.join(", "))
}
