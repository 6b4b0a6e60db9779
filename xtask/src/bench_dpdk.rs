//! Programs that compute as well as communicate, over DPDK, over the kernel's UDP, and in C over Open MPI's TCP: the
//! comparison that the DPDK paper, section 7, leaves open (`docs/papers.md`).
//!
//! The examples `sor`, `halo` and `ft` of `crates/mpi` and `xtask/peers/programs.c` do the same and come to the same result.
//! All are started in turns, with two ranks that spin on a core of their own; a row is the median of the turns, a ratio the
//! median of the turns' ratios.

use std::fmt::Write as _;

use crate::shell::{self, Cmd};

/// A run that takes longer has met a fault.
const LIMIT_S: u32 = 60;
const TURNS: usize = 11;
const TCP: &str = "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo";
const USAGE: &str = "bench-dpdk [--format text|json|markdown] [--turns N] [--device DEVICE] (default: memif)";

/// A case: arguments of the program in Rust and of that in C, the time that is measured, and the text before it in the
/// output.
struct Program {
    name: &'static str,
    ours: &'static [&'static str],
    theirs: &'static [&'static str],
    what: &'static str,
    before: &'static str,
}

const PROGRAMS: [Program; 4] = [
    Program {
        name: "sor",
        ours: &["64", "1000"],
        theirs: &["64", "1000"],
        what: "64 x 64 points, 270 iterations",
        before: "as in one process; ",
    },
    Program {
        name: "sor",
        ours: &["512", "200"],
        theirs: &["512", "200"],
        what: "512 x 512 points, 200 iterations",
        before: "as in one process; ",
    },
    Program {
        name: "halo",
        ours: &["64", "20"],
        theirs: &["64", "20"],
        what: "64 x 64 x 64 sites, one exchange",
        before: "in and out takes ",
    },
    Program {
        name: "ft",
        ours: &["S"],
        theirs: &["64"],
        what: "NPB's class S: 64 x 64 x 64, 6 iterations",
        before: "as published; ",
    },
];

/// Over what messages go; ours first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Dpdk,
    Udp,
    OpenMpi,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Dpdk => "hikyaku/dpdk",
            Self::Udp => "hikyaku/udp",
            Self::OpenMpi => "openmpi/tcp",
        }
    }

    fn command(self, program: &Program, device: &str) -> Cmd {
        let example = target(&format!("release/examples/{}", program.name));
        let ours = || {
            Cmd::new(&target("release/hikyaku"))
                .env("HIKYAKU_WAIT", "spin")
                .env("HIKYAKU_ROUTES", "network")
                .args(["run", "-n", "2"])
        };
        match self {
            Self::Dpdk => ours()
                .args(["--backend", "dpdk", "--device", device, &example])
                .args(program.ours),
            Self::Udp => ours().args([&example]).args(program.ours),
            Self::OpenMpi => Cmd::new("mpirun.openmpi")
                .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
                .args(["-n", "2", "--bind-to", "core", "--host", "localhost:2"])
                .args(TCP.split(' '))
                .args([&target("programs-openmpi"), program.name])
                .args(program.theirs),
        }
        .limit_s(LIMIT_S)
    }

    /// Microseconds.
    fn measure(self, program: &Program, device: &str) -> Result<f64, String> {
        let command = self.command(program, device);
        let output = command.output().map_err(|error| format!("{command}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let micros = if self == Self::OpenMpi {
            said.split_whitespace().nth(1).and_then(|micros| micros.parse().ok())
        } else {
            time_after(&said, program.before)
        };
        micros.filter(|_| output.status.success()).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            format!("{command}: {}: {last}", output.status)
        })
    }
}

/// Microseconds out of `… BEFORE 12.5 ms …`.
fn time_after(said: &str, before: &str) -> Option<f64> {
    let mut words = said.split_once(before)?.1.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let unit = words.next()?.trim_end_matches(',');
    match unit {
        "us" => Some(number),
        "ms" => Some(number * 1e3),
        _ => None,
    }
}

fn target(file: &str) -> String {
    shell::target_dir().join(file).display().to_string()
}

/// Times of each way in each turn.
struct Row {
    program: &'static Program,
    times: Vec<(Way, Vec<f64>)>,
}

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (mut format, mut turns, mut device) = ("text", TURNS, "memif");
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(USAGE)?;
        match word {
            "--format" if ["text", "json", "markdown"].contains(&value) => format = value,
            "--turns" => turns = value.parse().ok().filter(|turns| *turns > 0).ok_or(USAGE)?,
            "--device" => device = value,
            _ => return Err(USAGE.to_owned()),
        }
    }
    let ways = build()?;
    let rows = PROGRAMS
        .iter()
        .map(|program| compare(program, &ways, turns, device))
        .collect::<Result<Vec<_>, _>>()?;
    print!(
        "{}",
        match format {
            "json" => json(&rows, turns),
            "markdown" => markdown(&rows),
            _ => text(&rows, turns),
        }
    );
    Ok(())
}

/// Builds everything; gives what there is to compare.
fn build() -> Result<Vec<Way>, String> {
    let run = |command: &Cmd| {
        eprintln!("{command}");
        command.run()
    };
    run(&Cmd::parse("cargo build --quiet --release -p hikyaku-cli").limit_s(900))?;
    let examples =
        "cargo build --quiet --release -p hikyaku-mpi --features dpdk --example sor --example halo --example ft";
    run(&Cmd::parse(examples).limit_s(900))?;
    let mut ways = vec![Way::Dpdk, Way::Udp];
    let compile = "mpicc.openmpi -O3 -fcx-limited-range xtask/peers/programs.c -lm -o";
    match shell::missing(&["mpicc.openmpi", "mpirun.openmpi"]) {
        None => {
            run(&Cmd::parse(compile).args([target("programs-openmpi")]))?;
            ways.push(Way::OpenMpi);
        }
        Some(why) => eprintln!("without Open MPI: {why}"),
    }
    Ok(ways)
}

fn compare(program: &'static Program, ways: &[Way], turns: usize, device: &str) -> Result<Row, String> {
    let mut times: Vec<(Way, Vec<f64>)> = ways.iter().map(|way| (*way, Vec::new())).collect();
    for turn in 0..turns {
        for step in 0..ways.len() {
            let (way, series) = &mut times[(step + turn) % ways.len()];
            series.push(way.measure(program, device)?);
        }
    }
    Ok(Row { program, times })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Row {
    /// (way, median in microseconds, median of the ratios of DPDK's time to it)
    fn summary(&self) -> Vec<(Way, f64, f64)> {
        let ours = &self.times[0].1;
        let of = |(way, series): &(Way, Vec<f64>)| {
            let ratios = ours.iter().zip(series).map(|(ours, other)| ours / other);
            (*way, median(series.iter().copied()), median(ratios))
        };
        self.times.iter().map(of).collect()
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.program.name.to_owned(), self.program.what.to_owned()];
        for (way, micros, ratio) in self.summary() {
            cells.push(format!("{micros:.1}"));
            if way != Way::Dpdk {
                cells.push(format!("{ratio:.2}"));
            }
        }
        cells
    }
}

fn heading(rows: &[Row]) -> Vec<&'static str> {
    let mut heading = vec!["program", "what"];
    for (way, _) in rows.first().map_or(&[][..], |row| &row.times) {
        heading.push(way.name());
        if *way != Way::Dpdk {
            heading.push("ratio");
        }
    }
    heading
}

fn text(rows: &[Row], turns: usize) -> String {
    let mut text = format!(
        "# two ranks, microseconds; medians of {turns} turns; ratio: DPDK's time / the other's, median of the turns' ratios\n"
    );
    let _ = writeln!(text, "# {}", heading(rows).join(" | "));
    for row in rows {
        let _ = writeln!(text, "  {}", row.cells().join(" | "));
    }
    text
}

fn markdown(rows: &[Row]) -> String {
    let heading = heading(rows);
    let mut text = format!(
        "| {} |\n|---|---|{}\n",
        heading.join(" | "),
        "---:|".repeat(heading.len() - 2)
    );
    for row in rows {
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    text
}

fn json(rows: &[Row], turns: usize) -> String {
    let row = |row: &Row| {
        let fields = row.summary().into_iter().map(|(way, micros, ratio)| {
            let name = way.name();
            format!("{{\"transport\":\"{name}\",\"p50_us\":{micros:.1},\"ratio_of_dpdk\":{ratio:.3}}}")
        });
        let fields: Vec<String> = fields.collect();
        format!(
            "{{\"program\":\"{}\",\"what\":\"{}\",\"transports\":[{}]}}",
            row.program.name,
            row.program.what,
            fields.join(",")
        )
    };
    let rows: Vec<String> = rows.iter().map(row).collect();
    format!(
        "{{\"benchmark\":\"programs\",\"turns\":{turns},\"rows\":[{}]}}\n",
        rows.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found() {
        let said = "sor: 64 x 64 points: as in one process; 13.9 ms (one process: 2.5 ms)";
        assert_eq!(time_after(said, "as in one process; "), Some(13_900.0));
        let said = "an exchange of 16384 bytes in and out takes 77.1 us, 213 MB/s";
        assert_eq!(time_after(said, "in and out takes "), Some(77.1));
        assert_eq!(time_after(said, "as published; "), None);
    }
}
