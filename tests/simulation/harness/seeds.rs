//! Runs scenarios over seeds and says how to repeat the one that failed.

use std::{cell::RefCell, path::PathBuf};

thread_local! {
    static NOTES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static CURRENT: RefCell<(String, u64)> = const { RefCell::new((String::new(), 0)) };
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
            "replay, with every packet and what happened in a directory:\n  \
             HIKYAKU_SEED={} HIKYAKU_SIM_DIR=target/replay cargo test -p hikyaku --features sim --test {} {} -- --nocapture",
            self.seed,
            env!("CARGO_CRATE_NAME"),
            self.name,
        );
    }
}

/// Where the run with this seed is to be written down, if it is: `<directory>/<scenario>-<seed>`.
pub(crate) fn directory() -> Option<PathBuf> {
    let base = std::env::var_os("HIKYAKU_SIM_DIR").filter(|path| !path.is_empty())?;
    let (name, seed) = CURRENT.with_borrow(|(name, seed)| (name.replace("::", "-"), *seed));
    // Tests run in their package's directory, which is the repository's.
    let path = PathBuf::from(base).join(format!("{name}-{seed}"));
    match std::fs::create_dir_all(&path) {
        Ok(()) => Some(path),
        Err(error) => panic!("HIKYAKU_SIM_DIR: {}: {error}", path.display()),
    }
}

/// Runs `body` with the seeds 1 to `runs`, or to `HIKYAKU_SIM_RUNS` if that is more; with as many from `HIKYAKU_SIM_FROM`
/// on; or only with `HIKYAKU_SEED`.
///
/// `name` is the test's path, as `cargo test` wants it.
pub(crate) fn scenario(name: &str, runs: u64, body: impl Fn(u64)) {
    let one = |seed| {
        NOTES.with_borrow_mut(Vec::clear);
        CURRENT.set((name.to_owned(), seed));
        let _replay = Replay { name, seed };
        body(seed);
    };
    if let Some(seed) = from_environment("HIKYAKU_SEED") {
        return one(seed);
    }
    let wanted = from_environment("HIKYAKU_SIM_RUNS");
    match from_environment("HIKYAKU_SIM_FROM") {
        // Few are as many as wanted here: who goes through seeds wants other ones each time.
        Some(from) => (0..wanted.unwrap_or(runs)).for_each(|seed| one(from.wrapping_add(seed))),
        None => (1..=wanted.map_or(runs, |wanted| wanted.max(runs))).for_each(one),
    }
}
