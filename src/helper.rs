//! Threads of our own beside those of the application, which must not notice them: no signal is ever delivered on them.
#![expect(
    unsafe_code,
    reason = "masks of signals, attributes of the scheduler and slack of timers have no safe wrapper that the standard library knows"
)]

use std::{
    cell::Cell,
    io,
    thread::{self, JoinHandle},
};

thread_local! {
    /// This thread is one of ours.
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is one of ours, in which no code of the program is to run that has not asked for it.
#[cfg(feature = "mpi")]
pub(crate) fn is_own_thread() -> bool {
    OURS.get()
}

/// Starts a thread on which no signal is delivered that is sent to the process.
///
/// # Errors
/// The system has no room for one more.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A new thread has the mask of the one that starts it, from its first instruction on.
    let blocked = signals::Blocked::new();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(|| {
        OURS.set(true);
        work()
    });
    drop(blocked);
    thread
}

/// Asks the scheduler to let this thread run soon after it is woken, for the price that it does not run long then. Where
/// the system has no such thing (Linux before 6.12, others) nothing happens.
#[cfg(feature = "mpi")]
pub(crate) fn ask_for_short_slice() {
    #[cfg(target_os = "linux")]
    slice::shorten();
}

/// Yields the core. From the first time on this thread has a short slice, as by [`ask_for_short_slice`]: since Linux 6.6 a
/// thread that yields gives up its slice, so that with a usual one of some 3 ms each program that computes beside the job
/// would run for as long at each hand-over between ranks.
#[cfg(feature = "mpi")]
pub(crate) fn give_way() {
    thread_local!(static HAS_SHORT_SLICE: Cell<bool> = const { Cell::new(false) });
    if !HAS_SHORT_SLICE.replace(true) {
        ask_for_short_slice();
    }
    thread::yield_now();
}

/// The slice of this thread, ns; 0: the system does not say.
#[cfg(all(test, feature = "mpi", target_os = "linux"))]
pub(crate) fn slice_of_thread() -> u64 {
    slice::attributes().map_or(0, |attributes| attributes.runtime)
}

/// Lets the timers of this thread fire later by so much, where the system can (Linux). The thread that waits with a time
/// limit then sets no timer of the hardware as long as its CPU ticks at least as often, which in a virtual machine
/// costs some 20 us a wait.
#[cfg(feature = "mpi")]
pub(crate) fn allow_late_timers(by: std::time::Duration) {
    #[cfg(target_os = "linux")]
    // SAFETY: changes one number of this thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, by.as_nanos() as libc::c_ulong);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = by;
}

#[cfg(unix)]
mod signals {
    use std::{mem, ptr};

    /// Signals of the thread's own faults are not blocked: blocked, they would end the process without a word.
    const FAULTS: [libc::c_int; 7] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGABRT,
    ];

    /// All signals are blocked in this thread as long as this lives.
    pub(super) struct Blocked {
        before: libc::sigset_t,
    }

    impl Blocked {
        pub(super) fn new() -> Self {
            // SAFETY: a `sigset_t` is an array of integers; both live until the calls return, which fill them in.
            unsafe {
                let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
                libc::sigfillset(&raw mut all);
                for fault in FAULTS {
                    libc::sigdelset(&raw mut all, fault);
                }
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
                Self { before }
            }
        }
    }

    impl Drop for Blocked {
        fn drop(&mut self) {
            // SAFETY: the mask that was in force before.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
        }
    }
}

#[cfg(not(unix))]
mod signals {
    /// There are none.
    pub(super) struct Blocked;

    impl Blocked {
        pub(super) fn new() -> Self {
            Self
        }
    }
}

#[cfg(all(feature = "mpi", target_os = "linux"))]
mod slice {
    /// The shortest that there is, ns.
    const SHORTEST: u64 = 100_000;

    /// `struct sched_attr` of the kernel, in its first version.
    #[repr(C)]
    #[derive(Default)]
    pub(super) struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        pub(super) runtime: u64,
        deadline: u64,
        period: u64,
    }

    /// Those of this thread, if it is one of those that share the time.
    pub(super) fn attributes() -> Option<Attributes> {
        let size = size_of::<Attributes>() as u32;
        let mut attributes = Attributes::default();
        // SAFETY: the call writes no more than `size` bytes of it, and concerns this thread alone.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        (got == 0 && attributes.policy == libc::SCHED_OTHER as u32).then_some(attributes)
    }

    pub(super) fn shorten() {
        if let Some(mut attributes) = attributes() {
            attributes.size = size_of::<Attributes>() as u32;
            attributes.flags = 0;
            attributes.runtime = SHORTEST;
            // SAFETY: the call reads no more than `size` bytes of it, and concerns this thread alone.
            unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{fs, sync::mpsc};

    use super::*;

    /// Signals that a thread blocks, by its name.
    fn blocked(name: &str) -> u64 {
        let threads = fs::read_dir("/proc/self/task").unwrap();
        let said = |path: std::path::PathBuf| fs::read_to_string(path).unwrap_or_default();
        let thread = threads
            .map(|entry| entry.unwrap().path())
            .find(|path| said(path.join("comm")).trim() == name);
        let status = said(thread.unwrap().join("status"));
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        u64::from_str_radix(mask.unwrap().trim(), 16).unwrap()
    }

    #[test]
    fn no_signal_is_delivered_on_a_helper_and_its_parent_still_has_them() {
        let (end, ended) = mpsc::channel::<()>();
        let (began, begun) = mpsc::channel();
        let helper = spawn("a helper", move || {
            began.send(()).unwrap();
            let _ = ended.recv();
        });
        begun.recv().unwrap();
        let mask = blocked("a helper");
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1, libc::SIGALRM, libc::SIGCHLD] {
            assert!(
                mask >> (signal - 1) & 1 == 1,
                "signal {signal} is not blocked: {mask:x}"
            );
        }
        assert_eq!(mask >> (libc::SIGSEGV - 1) & 1, 0, "faults are not: {mask:x}");
        let own = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(own.contains("SigBlk:\t0000000000000000"), "{own}");
        drop(end);
        helper.unwrap().join().unwrap();
    }

    #[cfg(feature = "mpi")]
    #[test]
    fn a_slice_can_be_asked_for_anywhere() {
        thread::spawn(ask_for_short_slice).join().unwrap();
    }
}
