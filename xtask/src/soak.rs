//! Tests that draw everything from seeds, with fresh seeds until the time is over or one fails.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::shell::Cmd;

const MINUTES: u64 = 10;
/// Seeds of each scenario in one process: programs that crash there keep their memory, and time is looked at between
/// two processes.
const BATCH: u64 = 25;

const TEST: &str = "cargo test --quiet --release -p hikyaku --features sim";
/// The test binaries: whole jobs, and the protocol alone.
const TESTS: [&str; 2] = ["dst", "simulation"];

struct Options {
    minutes: u64,
    seed: u64,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut options = Self {
            minutes: MINUTES,
            seed: now.map_or(0, |since| since.as_secs()),
        };
        let number = |text: &str, what: &str| text.parse().map_err(|_| format!("'{text}' is no {what}"));
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--minutes" => options.minutes = number(value()?, "number of minutes")?,
                "--seed" => options.seed = number(value()?, "seed")?,
                minutes => options.minutes = number(minutes, "number of minutes")?,
            }
        }
        if options.minutes == 0 {
            return Err("in 0 minutes nothing is tried".into());
        }
        Ok(options)
    }
}

/// `args`: for how many minutes, and from which seed on.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let Options { minutes, seed } = Options::parse(args)?;
    // Building takes minutes of its own.
    let build = TESTS
        .iter()
        .fold(Cmd::parse(TEST), |build, test| build.args(["--test", test]));
    build.args(["--no-run"]).limit_s(1800).run()?;
    let (start, time) = (Instant::now(), Duration::from_secs(minutes.saturating_mul(60)));
    let mut seeds = 0;
    while start.elapsed() < time {
        for test in TESTS {
            batch(test, seed.wrapping_add(seeds), BATCH)?;
        }
        seeds += BATCH;
        println!(
            "{seeds} seeds of each scenario, none failed, after {} s",
            start.elapsed().as_secs()
        );
    }
    Ok(())
}

/// So many seeds of each scenario. The command of the one that fails is printed.
fn batch(test: &str, from: u64, seeds: u64) -> Result<(), String> {
    Cmd::parse(TEST)
        .args(["--test", test])
        .env("HIKYAKU_SIM_FROM", &from.to_string())
        .env("HIKYAKU_SIM_RUNS", &seeds.to_string())
        .limit_s(1800)
        .run()
}

/// A seed that is new with each commit, and the same wherever it is tested: its first 60 bits.
pub(crate) fn commit_seed() -> Option<u64> {
    let commit = Cmd::parse("git rev-parse HEAD").stdout()?;
    u64::from_str_radix(commit.trim().get(..15)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parse = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            Options::parse(&args).map(|options| (options.minutes, options.seed))
        };
        assert_eq!(parse(&["--minutes", "3", "--seed", "7"]), Ok((3, 7)));
        assert_eq!(parse(&["5", "--seed", "8"]), Ok((5, 8)));
        assert!(parse(&["--seed"]).is_err() && parse(&["--minutes", "x"]).is_err());
        assert!(parse(&["--minutes", "0"]).is_err());
    }
}
