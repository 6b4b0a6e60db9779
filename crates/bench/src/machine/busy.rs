//! How busy the machine is: how long threads that could run have waited for a CPU.

use std::{fs, thread};

/// From which part on figures say more about the machine than about what is measured.
const MUCH: f64 = 0.1;

/// Nanoseconds that this thread has waited for a CPU while it could run; 0 where the kernel does not count that.
pub fn waited() -> u64 {
    let counted = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = counted.split_whitespace();
    numbers.nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The load of the machine, for messages.
pub fn load() -> String {
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let last_minute = average.split_whitespace().next().unwrap_or("unknown");
    format!("load {last_minute} on {cpus} CPUs")
}

/// How long ends waited for a CPU in all that was measured so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contention {
    waited: u64,
    wall: u64,
}

impl Contention {
    /// Of nothing.
    pub const fn new() -> Self {
        Self { waited: 0, wall: 0 }
    }

    /// Adds `wall` nanoseconds, for `waited` of which the end that waited longest had no CPU.
    pub fn add(&mut self, waited: u64, wall: u64) {
        self.waited += waited.min(wall);
        self.wall += wall;
    }

    /// Adds what another one has seen.
    pub(crate) const fn join(&mut self, other: Self) {
        self.waited += other.waited;
        self.wall += other.wall;
    }

    /// The part of the time without a CPU, from 0 to 1, if it is so much that figures cannot be relied on.
    pub fn busy(&self) -> Option<f64> {
        let part = self.waited as f64 / self.wall.max(1) as f64;
        (part >= MUCH).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::Contention;

    #[test]
    fn a_little_is_not_busy() {
        let mut contention = Contention::new();
        assert_eq!(contention.busy(), None);
        contention.add(5, 100);
        assert_eq!(contention.busy(), None);
        contention.add(95, 100);
        assert_eq!(contention.busy(), Some(0.5));
    }
}
