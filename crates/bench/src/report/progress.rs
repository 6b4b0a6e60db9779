//! How far a command is, on standard error.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Seldom enough that drawing costs no round of a benchmark anything.
const BAR: &str = "{percent:>3} %  [{bar:24}]  {elapsed}  {wide_msg}";

/// Says on standard error how far it is: a bar on a terminal, elsewhere lines, if they are asked for.
#[derive(Debug)]
pub struct Progress {
    shown: Shown,
    done: usize,
    total: usize,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    /// The percentage of the last line.
    Lines(Option<usize>),
    Nothing,
}

impl Progress {
    /// `asked`: also when standard error is not a terminal.
    pub fn new(asked: bool, total: usize) -> Self {
        let total = total.max(1);
        // No thread of its own draws it, so nothing but the steps themselves takes time from what is measured.
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
        let shown = if !bar.is_hidden() {
            bar.set_style(ProgressStyle::with_template(BAR).expect("a constant"));
            Shown::Bar(bar)
        } else if asked {
            Shown::Lines(None)
        } else {
            Shown::Nothing
        };
        Self { shown, done: 0, total }
    }

    /// Prints something else, which the bar must not be in the way of.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(print),
            Shown::Lines(_) | Shown::Nothing => print(),
        }
    }

    /// One more step is begun.
    pub fn step(&mut self, name: &str, size: usize) {
        self.done += 1;
        let done = self.done.min(self.total);
        let size = || crate::report::size::text(size);
        match &mut self.shown {
            Shown::Bar(bar) => {
                bar.set_message(format!("{name}, {}", size()));
                bar.set_position(done as u64);
            }
            Shown::Lines(last) => {
                let percent = 100 * done / self.total;
                // A hundred lines at most, however many steps there are.
                if last.replace(percent) != Some(percent) {
                    let _ = writeln!(io::stderr(), "{percent:3} %  {name}, {}", size());
                }
            }
            Shown::Nothing => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
