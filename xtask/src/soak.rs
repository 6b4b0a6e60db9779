//! The simulation tests with one fresh seed after the other.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::shell::Cmd;

const MINUTES: u64 = 10;

/// `args`: for how many minutes.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let minutes = match args.first() {
        None => MINUTES,
        Some(arg) => arg.parse().map_err(|_| format!("'{arg}' is no number of minutes"))?,
    };
    let mut seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let start = Instant::now();
    let mut rounds = 0_u64;
    while start.elapsed() < Duration::from_secs(60 * minutes) {
        // The command that is printed for a failure has the seed in it.
        Cmd::parse("cargo test --quiet --release -p hikyaku --test simulation")
            .env("HIKYAKU_SEED", &seed.to_string())
            .limit_s(1800)
            .run()?;
        seed += 1;
        rounds += 1;
    }
    println!("{rounds} seeds, none failed");
    Ok(())
}
