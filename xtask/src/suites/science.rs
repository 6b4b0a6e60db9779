//! Suites of programs that compute: solvers, and searches for trees of descent. What they come to is compared.

use std::{fs, path::Path};

use super::{
    native::line,
    place::{Library, Place, Verified, ranks, text},
};

/// What building a suite may take.
const LIMIT_S: u32 = 900;

fn build(place: &Place, folder: &Path, program: &str, args: &[&str]) -> Result<(), String> {
    text(&place.within(folder, program, args).limit_s(LIMIT_S)).map(drop)
}

pub(super) fn fetch_examl(place: &Place) -> Result<(), String> {
    place.debian("examl", "ExaML-3.0.22")
}

/// The likelihood of a tree of 49 species.
pub(super) fn examl(place: &Place, library: &Library) -> Verified {
    let work = place.copy("ExaML-3.0.22", library)?;
    let compiler = format!("CC={}", library.program("mpicc"));
    build(place, &work.join("parser"), "make", &["-f", "Makefile.SSE3.gcc"])?;
    let arguments = ["-j2", "-f", "Makefile.SSE3.gcc", "examl", &compiler];
    build(place, &work.join("examl"), "make", &arguments)?;
    let data = work.join("testData");
    let parse = ["-s", "49", "-q", "49.model", "-m", "DNA", "-n", "49"];
    build(place, &data, "../parser/parse-examl", &parse)?;
    let program = "../examl/examl -t 49.tree -m GAMMA -s 49.binary -n suite -f e";
    let output = ranks(place, library, &data, 2, &program.split(' ').collect::<Vec<_>>())?;
    Ok(line(&output, "Likelihood tree 0")?.to_owned())
}

pub(super) fn fetch_mrbayes(place: &Place) -> Result<(), String> {
    place.debian("mrbayes", "MrBayes-3.2.7a")
}

/// Two runs of two chains each, which exchange their states: what both have come to.
pub(super) fn mrbayes(place: &Place, library: &Library) -> Verified {
    let work = place.copy("MrBayes-3.2.7a", library)?;
    let compiler = format!("MPICC={}", library.program("mpicc"));
    let options = [
        "--with-mpi",
        "--without-beagle",
        "--without-readline",
        "CFLAGS=-O1",
        &compiler,
    ];
    build(place, &work, "./configure", &options)?;
    build(place, &work, "make", &["-j2"])?;
    let job = "set autoclose=yes nowarn=yes seed=7 swapseed=11;\nexecute examples/primates.nex;\n\
               lset nst=6 rates=gamma;\nmcmc ngen=3000 nruns=2 nchains=2 samplefreq=100 printfreq=1000 \
               diagnfreq=1000 file=suite;\nquit;\n";
    fs::write(work.join("job.nex"), job).map_err(|error| error.to_string())?;
    ranks(place, library, &work, 4, &["src/mb", "job.nex"])?;
    let mut verified = Vec::new();
    for run in ["run1", "run2"] {
        let name = format!("suite.{run}.p");
        let samples = fs::read_to_string(work.join(&name)).map_err(|error| format!("{name}: {error}"))?;
        let last = samples.lines().last().unwrap_or_default();
        let values: Vec<&str> = last.split('\t').take(2).collect();
        verified.push(format!("{run}: likelihood after {}", values.join(" steps ")));
    }
    Ok(verified.join(", "))
}

pub(super) fn fetch_hypre(place: &Place) -> Result<(), String> {
    place.debian("hypre", "hypre-2.26.0")
}

/// Equations on a grid, by several solvers: their iterations, and what remains.
pub(super) fn hypre(place: &Place, library: &Library) -> Verified {
    let work = place.copy("hypre-2.26.0", library)?.join("src");
    let compilers =
        [("CC", "mpicc"), ("CXX", "mpicxx")].map(|(name, wrapper)| format!("{name}={}", library.program(wrapper)));
    let options = ["--disable-fortran", "CFLAGS=-O1", "CXXFLAGS=-O1"];
    let options: Vec<&str> = options
        .into_iter()
        .chain(compilers.iter().map(String::as_str))
        .collect();
    build(place, &work, "./configure", &options)?;
    build(place, &work, "make", &["-j2"])?;
    build(place, &work.join("test"), "make", &["-j2", "ij", "struct"])?;
    let mut verified = Vec::new();
    for (name, program) in [
        ("multigrid", "test/ij -n 24 24 24 -P 2 2 1 -solver 0"),
        ("PCG", "test/ij -n 24 24 24 -P 2 2 1 -solver 1"),
        ("GMRES", "test/ij -n 24 24 24 -P 2 2 1 -solver 3"),
        ("semicoarsening", "test/struct -n 16 16 16 -P 2 1 2 -solver 10"),
    ] {
        let output = ranks(place, library, &work, 4, &program.split(' ').collect::<Vec<_>>())?;
        let iterations = line(&output, "terations = ")?;
        let rest = line(&output, "Residual Norm = ")?;
        let value = |line: &str| line.rsplit(' ').next().unwrap_or_default().to_owned();
        let rest: f64 = value(rest).parse().map_err(|_| rest.to_owned())?;
        verified.push(format!("{name}: {} iterations, {rest:.2e}", value(iterations)));
    }
    Ok(verified.join("; "))
}
