//! Runs scenarios over seeds and says how to repeat the one that failed.

use std::cell::RefCell;

thread_local! {
    static NOTES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Remembers a drawn option, to be printed if the scenario fails.
pub(crate) fn note(text: String) {
    NOTES.with_borrow_mut(|notes| notes.push(text));
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    match text.parse() {
        Ok(value) => Some(value),
        Err(error) => panic!("{name}={text}: {error}"),
    }
}

/// Prints how to repeat a run if it panics.
struct Replay<'a> {
    name: &'a str,
    seed: u64,
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        eprintln!("\n{} failed with seed {}", self.name, self.seed);
        NOTES.with_borrow(|notes| notes.iter().for_each(|note| eprintln!("  {note}")));
        eprintln!(
            "replay: HIKYAKU_SEED={} cargo test --test simulation {} -- --nocapture",
            self.seed, self.name
        );
    }
}

/// Runs `body` with the seeds 1 to `runs`, or to `HIKYAKU_SIM_RUNS` if that is more, or only with `HIKYAKU_SEED`.
///
/// `name` is the test's path, as `cargo test` wants it.
pub(crate) fn scenario(name: &str, runs: u64, body: impl Fn(u64)) {
    let one = |seed| {
        NOTES.with_borrow_mut(Vec::clear);
        let _replay = Replay { name, seed };
        body(seed);
    };
    if let Some(seed) = from_environment("HIKYAKU_SEED") {
        return one(seed);
    }
    let runs = from_environment("HIKYAKU_SIM_RUNS").map_or(runs, |wanted| wanted.max(runs));
    (1..=runs).for_each(one);
}
