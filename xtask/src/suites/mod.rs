//! `cargo xtask mpi-suites`: programs that nobody here wrote, over our libraries and over MPICH's.
//!
//! Sources come from package registries when a suite runs, and stay in `target/suites`. Each suite is built and run
//! twice in the same way: with what `cargo xtask install` puts in place, and with the control, MPICH's wheel.

pub(crate) mod mpi4py;
mod native;
pub(crate) mod place;
mod python;
mod rust;
mod science;

use place::{Library, Place, Verified};

use crate::steps::Steps;

/// A program, or a few that belong together.
struct Suite {
    name: &'static str,
    what: &'static str,
    /// It takes seconds: CI runs it.
    is_short: bool,
    /// Gets the sources, once for both libraries. An error is why the suite cannot run here.
    fetch: fn(&Place) -> Result<(), String>,
    /// Builds and runs it over a library.
    run: fn(&Place, &Library) -> Verified,
}

const SUITES: [Suite; 13] = [
    Suite {
        name: "program",
        what: "a ring, a sum and a put, in C and as C++, 4 ranks",
        is_short: true,
        fetch: |_| Ok(()),
        run: native::program,
    },
    Suite {
        name: "spawn",
        what: "two processes more in the middle of a job, in C, 4 ranks",
        is_short: true,
        fetch: |_| Ok(()),
        run: native::spawn,
    },
    Suite {
        name: "cmake",
        what: "CMake's FindMPI finds the library",
        is_short: true,
        fetch: native::fetch_cmake,
        run: native::cmake,
    },
    Suite {
        name: "meson",
        what: "meson's dependency('mpi') finds the library",
        is_short: true,
        fetch: native::fetch_meson,
        run: native::meson,
    },
    Suite {
        name: "netpipe",
        what: "NetPIPE 3.7.2: integrity of messages up to 48 KB",
        is_short: true,
        fetch: native::fetch_netpipe,
        run: native::netpipe,
    },
    Suite {
        name: "hpcc",
        what: "HPC Challenge 1.5.0, 4 ranks: HPL, PTRANS, RandomAccess, FFT",
        is_short: false,
        fetch: native::fetch_hpcc,
        run: native::hpcc,
    },
    Suite {
        name: "fftw",
        what: "FFTW 3.3.10: its own tests of transforms over MPI, 1 to 4 ranks",
        is_short: false,
        fetch: native::fetch_fftw,
        run: native::fftw,
    },
    Suite {
        name: "examl",
        what: "ExaML 3.0.22: the likelihood of a tree of 49 species, 2 ranks",
        is_short: true,
        fetch: science::fetch_examl,
        run: science::examl,
    },
    Suite {
        name: "mrbayes",
        what: "MrBayes 3.2.7a: two runs of two chains, 4 ranks",
        is_short: false,
        fetch: science::fetch_mrbayes,
        run: science::mrbayes,
    },
    Suite {
        name: "hypre",
        what: "hypre 2.26.0: four solvers on a grid, 4 ranks",
        is_short: false,
        fetch: science::fetch_hypre,
        run: science::hypre,
    },
    Suite {
        name: "rsmpi",
        what: "rsmpi 0.8.2 (the crate mpi): its examples, 2 to 4 ranks, and its tests",
        is_short: false,
        fetch: rust::fetch,
        run: rust::rsmpi,
    },
    Suite {
        name: "futures",
        what: "mpi4py 4.1.2 (wheel): a pool of mpi4py.futures, 3 ranks",
        is_short: false,
        fetch: python::fetch,
        run: python::futures,
    },
    Suite {
        name: "dask",
        what: "dask-mpi (wheel): scheduler, client and worker, 3 ranks",
        is_short: false,
        fetch: python::fetch,
        run: python::dask,
    },
];

struct Row {
    suite: &'static Suite,
    ours: Verified,
    control: Verified,
}

impl Row {
    fn is_good(&self) -> bool {
        match (&self.ours, &self.control) {
            (Ok(ours), Ok(control)) => ours == control,
            (ours, _) => ours.is_ok(),
        }
    }
}

/// The suites of these names, or all; with `--dev` first, over our libraries as tests build them.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (profile, names) = match args {
        [flag, names @ ..] if flag == "--dev" => ("dev", names),
        names => ("release", names),
    };
    let unknown = |name: &&String| !SUITES.iter().any(|suite| suite.name == **name);
    if let Some(name) = names.iter().find(unknown) {
        let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        return Err(format!("no suite {name}; there are {}", known.join(", ")));
    }
    let place = Place::new(profile)?;
    let ours = place.ours();
    let control = place.control()?;
    let mut rows = Vec::new();
    for suite in &SUITES {
        if !names.is_empty() && !names.iter().any(|name| name == suite.name) {
            continue;
        }
        println!("\n== {}: {}", suite.name, suite.what);
        if let Err(why) = (suite.fetch)(&place) {
            println!("skipped: {why}");
            continue;
        }
        let verified = |library: &Library| {
            println!("-- {}", library.name);
            let verified = (suite.run)(&place, library);
            match &verified {
                Ok(what) => println!("{what}"),
                Err(why) => println!("FAILED: {why}"),
            }
            verified
        };
        rows.push(Row {
            suite,
            ours: verified(&ours),
            control: verified(&control),
        });
    }
    print(&rows);
    let failed: Vec<&str> = rows
        .iter()
        .filter(|row| !row.is_good())
        .map(|row| row.suite.name)
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "these failed, or came to something else: {}",
        failed.join(", ")
    ))
}

/// The short ones, over our libraries as tests build them.
pub(crate) fn short(steps: &mut Steps) -> Result<(), String> {
    let place = Place::new("dev")?;
    let ours = place.ours();
    for suite in SUITES.iter().filter(|suite| suite.is_short) {
        let step = format!("C library: {}", suite.name);
        match (suite.fetch)(&place) {
            Err(why) => steps.skip(&step, &why),
            Ok(()) => steps.call(&step, || (suite.run)(&place, &ours).map(|what| println!("{what}")))?,
        }
    }
    Ok(())
}

fn print(rows: &[Row]) {
    println!();
    for row in rows {
        let text = |verified: &Verified| match verified {
            Ok(what) => what.clone(),
            Err(why) => format!("FAILED: {}", why.lines().next().unwrap_or_default()),
        };
        let (ours, control) = (text(&row.ours), text(&row.control));
        println!("{:8}  {}", row.suite.name, row.suite.what);
        if ours == control {
            println!("          both:    {ours}");
        } else {
            println!("          hikyaku: {ours}\n          control: {control}");
        }
    }
}
