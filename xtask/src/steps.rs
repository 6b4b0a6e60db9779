//! Steps with a name, a time and an outcome, and the table of them.

use std::time::{Duration, Instant};

use crate::shell::Cmd;

enum Outcome {
    Passed,
    Failed,
    Skipped(String),
}

/// The steps that have run so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(String, Duration, Outcome)>,
}

impl Steps {
    /// Runs `command` as the step `name`.
    pub(crate) fn run(&mut self, name: &str, command: &Cmd) -> Result<(), String> {
        self.call(name, || command.run())
    }

    /// Runs `step` as the step `name`.
    pub(crate) fn call(&mut self, name: &str, step: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        println!("\n== {name}");
        let start = Instant::now();
        let result = step();
        println!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
        let outcome = if result.is_ok() {
            Outcome::Passed
        } else {
            Outcome::Failed
        };
        self.done.push((name.to_owned(), start.elapsed(), outcome));
        result.map_err(|error| format!("{name}: {error}"))
    }

    /// Runs `command`, unless `obstacle` says why not.
    pub(crate) fn run_unless(&mut self, obstacle: Option<String>, name: &str, command: &Cmd) -> Result<(), String> {
        match obstacle {
            None => self.run(name, command),
            Some(why) => {
                self.skip(name, &why);
                Ok(())
            }
        }
    }

    /// Records that `name` did not run, and why.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        println!("\n== {name}\nskipped: {why}");
        self.done
            .push((name.to_owned(), Duration::ZERO, Outcome::Skipped(why.to_owned())));
    }

    /// The table: each step with its time.
    pub(crate) fn print_summary(&self) {
        if self.done.is_empty() {
            return;
        }
        let width = self
            .done
            .iter()
            .map(|(name, ..)| name.chars().count())
            .max()
            .unwrap_or_default();
        println!();
        for (name, time, outcome) in &self.done {
            let seconds = time.as_secs_f64();
            match outcome {
                Outcome::Passed => println!("{name:width$}  {seconds:7.1} s  ok"),
                Outcome::Failed => println!("{name:width$}  {seconds:7.1} s  FAILED"),
                Outcome::Skipped(why) => println!("{name:width$}  {:>7}    skipped: {why}", "-"),
            }
        }
        let total: Duration = self.done.iter().map(|(_, time, _)| *time).sum();
        println!("{:width$}  {:7.1} s", "total", total.as_secs_f64());
    }
}
