//! The helper thread of a process: other processes get their answers while the program computes or sleeps.
//!
//! While the program makes progress by itself, the thread only checks now and then that it still does: waking the
//! thread for each datagram would cost the program more than it gains. When no thread has made progress between two
//! checks, the helper listens to the network until it finds that the program makes progress again. The system's
//! scheduler is asked to let it run at once when it is woken, since it never runs long.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, Weak},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::event::{EventfdFlags, eventfd};

use super::{Inner, Native, UNPASSED, call::Call};
use crate::{
    helper::{allow_late_timers, ask_for_short_slice, spawn},
    progress::{Acks, WaitPolicy},
    sync::Guard,
};

/// The first check after the program has made progress comes this soon, the next ones at growing intervals.
const SOON: Duration = Duration::from_micros(250);
/// While the program computes, the protocol's timers may be late by one tick of the kernel (250 Hz).
const LATE: Duration = Duration::from_millis(4);
/// The kernel's default timer slack.
const PUNCTUAL: Duration = Duration::from_micros(50);

/// A helper thread; it ends when this is dropped.
pub(crate) struct Helper {
    call: Arc<Call>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.call.set(|wanted| wanted.end = true);
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // The thread does not panic, and if it did there would be nothing to do about it here.
            let _ = thread.join();
        }
    }
}

/// The state of the network as the thread last saw it.
struct Watch {
    /// Passes made so far, its own included.
    passes: u64,
    /// Whether it listens to the network; otherwise it only checks.
    listens: bool,
    /// How long to sleep next.
    sleep: Duration,
    longest: Duration,
}

impl Watch {
    /// The program makes progress: sleeps longer, without listening.
    fn stay_away(&mut self) {
        let sleep = if self.listens { SOON } else { 2 * self.sleep.max(SOON) };
        self.sleep = sleep.min(self.longest);
        self.listens = false;
    }
}

fn help(fabric: &Weak<Native>, call: &Call, readable: &[OwnedFd], longest: Duration) {
    ask_for_short_slice();
    allow_late_timers(LATE);
    let mut watch = Watch {
        passes: 0,
        listens: false,
        sleep: SOON.min(longest),
        longest,
    };
    loop {
        call.sleep(if watch.listens { readable } else { &[] }, watch.sleep);
        let wanted = call.take();
        if wanted.end {
            return;
        }
        let Some(fabric) = fabric.upgrade() else { return };
        let alive = if wanted.task {
            allow_late_timers(PUNCTUAL);
            let alive = fabric.serve(call);
            allow_late_timers(LATE);
            alive
        } else {
            fabric.relieve(&mut watch)
        };
        if !alive {
            return;
        }
    }
}

impl Native {
    /// Has a helper thread make progress when no other thread does; it checks at least every `longest`.
    pub(crate) fn assist(self: &Arc<Self>, longest: Duration) -> io::Result<Helper> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let readable = Arc::clone(&self.readable);
        let call = Arc::new(Call {
            wanted: Mutex::default(),
            bell,
        });
        let thread = spawn("hikyaku-mpi", {
            let (fabric, call) = (Arc::downgrade(self), Arc::clone(&call));
            move || help(&fabric, &call, &readable, longest)
        })?;
        let _ = self.helper.set(Arc::clone(&call));
        Ok(Helper {
            call,
            thread: Some(thread),
        })
    }

    /// Makes a pass if no other thread makes progress. False: the network has failed.
    fn relieve(&self, watch: &mut Watch) -> bool {
        // A thread that holds the lock is in a call, and makes progress there.
        let Some(mut inner) = self.inner.try_lock() else {
            watch.stay_away();
            return true;
        };
        inner.enter();
        if inner.failure.is_some() {
            return false;
        }
        // A thread that sleeps in a call is woken by the network itself.
        if inner.sleepers.any() {
            watch.stay_away();
            return true;
        }
        let passes = inner.driver.passes();
        if passes != watch.passes {
            watch.passes = passes;
            watch.stay_away();
            return true;
        }
        self.pass_for(inner, watch)
    }

    /// Makes a pass, and listens from then on. False: the network has failed.
    fn pass_for(&self, mut inner: Guard<'_, Inner>, watch: &mut Watch) -> bool {
        let before = inner.core.ended;
        let alive = inner.pass(Acks::Now).is_ok();
        watch.passes = inner.driver.passes();
        watch.listens = true;
        inner.helper_listens = true;
        // (The next call that receives makes a pass, and takes over.)
        inner.unpassed = UNPASSED;
        let left = inner.driver.time_left().unwrap_or(watch.longest);
        // Without a descriptor to wait for, the thread must look often.
        let most = if self.readable.is_empty() { SOON } else { watch.longest };
        watch.sleep = left.min(most);
        self.unlock(inner, before);
        alive
    }

    /// Makes progress as long as tasks wait. False: the network has failed.
    fn serve(&self, call: &Call) -> bool {
        loop {
            let (mut tasks, mut end) = (false, false);
            let waited = self.wait_by(WaitPolicy::Block, &mut |core, _, _| {
                let woken = core.find_woken();
                tasks = core.has_sleepers();
                end = call.lock().end;
                woken || end || !tasks
            });
            if waited.is_err() {
                return false;
            }
            if end || !tasks {
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::{Errno, read};

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::helper::slice_of_thread;
    use crate::{
        backends::{BindOptions, bind},
        config::Config,
        messaging::Messenger,
        mpi::engine::{fabric::Fabric, peers::Peers, process::Process},
        progress::Driver,
        reliability::{Endpoint, Limits},
    };

    /// A process without others.
    fn fabric(policy: WaitPolicy) -> Native {
        let backend = bind("loopback", "127.0.0.1:0".parse().unwrap(), &BindOptions::default()).unwrap();
        let limits = Limits::from(&backend.capabilities());
        let endpoint = Endpoint::new(Config::default(), limits, 1, 1).unwrap();
        let driver = Driver::new(Messenger::new(endpoint, &[0]), backend, WaitPolicy::Block);
        let core = Process::new(driver.messenger(), Peers::all(vec![None]), 1 << 10);
        Native::new(driver, core, policy)
    }

    /// A call that finds what it waits for after so many looks.
    fn wait(fabric: &Native, looks: u32) {
        let mut looked = 0;
        let waited = fabric.wait(&mut |_, _, _| {
            looked += 1;
            looked > looks
        });
        waited.unwrap();
    }

    /// Other programs on its core would run for a usual slice each time that it yields.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_that_yields_has_a_short_slice() {
        let own = thread::spawn(|| {
            ask_for_short_slice();
            slice_of_thread()
        });
        let short = own.join().unwrap();
        let waiting = |policy| {
            let waited = thread::spawn(move || {
                wait(&fabric(policy), 10);
                slice_of_thread()
            });
            waited.join().unwrap()
        };
        let (spin, turns) = (WaitPolicy::TURNS, Duration::ZERO);
        assert_eq!(waiting(WaitPolicy::Yield { spin }), short);
        let after = WaitPolicy::Adaptive {
            spin: turns,
            turns: spin,
        };
        assert_eq!(waiting(after), short);
        // (Systems without such slices have 0 everywhere.)
        assert!(short == 0 || waiting(WaitPolicy::Adaptive { spin, turns }) != short);
    }

    /// The system would wake a thread that listens for each datagram.
    #[test]
    fn a_program_that_waits_sends_a_listening_helper_away_once() {
        let fabric = fabric(WaitPolicy::Block);
        let call = Arc::new(Call {
            wanted: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap(),
        });
        assert!(fabric.helper.set(Arc::clone(&call)).is_ok());
        let rings = || read(&call.bell, &mut [0_u8; 8]);
        let longest = Duration::from_secs(1);
        let mut watch = Watch {
            passes: fabric.lock().driver.passes(),
            listens: false,
            sleep: SOON,
            longest,
        };

        wait(&fabric, 1);
        assert_eq!(rings(), Err(Errno::AGAIN), "the helper does not listen yet");
        watch.passes = fabric.lock().driver.passes();
        assert!(fabric.relieve(&mut watch));
        assert!(watch.listens, "the program has made no progress since");

        wait(&fabric, 1);
        assert_eq!(rings(), Ok(8));
        assert!(fabric.relieve(&mut watch));
        assert!(!watch.listens, "the program makes progress");
        wait(&fabric, 1);
        assert_eq!(rings(), Err(Errno::AGAIN), "the helper has been told");

        // The same for a program that only tests.
        assert!(fabric.relieve(&mut watch));
        assert!(fabric.relieve(&mut watch));
        assert!(watch.listens);
        fabric.progress().unwrap();
        assert_eq!(rings(), Ok(8));
    }
}
