//! The one place of the command line that reads clocks.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};

/// Wall time in nanoseconds since the first call in this process; never goes backwards.
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Lets this thread sleep: used only where a person waits, never while something is measured.
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// CPU time (user and system) in nanoseconds that this process has used, or only this thread of it.
pub fn cpu_time(thread_only: bool) -> u64 {
    let who = if thread_only {
        UsageWho::RUSAGE_THREAD
    } else {
        UsageWho::RUSAGE_SELF
    };
    getrusage(who).map_or(0, |usage| {
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        u64::try_from(micros).unwrap_or(0) * 1000
    })
}
