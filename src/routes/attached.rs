#![expect(unsafe_code, reason = "the system copies between the memory of two processes")]
//! Copies between the memories of two processes of this host, which the system makes (`process_vm_readv`,
//! `process_vm_writev`): each byte is copied once, and both processes can copy at once.
//!
//! In the memory that the two have in common, each side has three lines:
//!
//! ```text
//! 0     the address of a number in this process's own memory, and the number: the other side reads it there to see
//!       whether it can, and that the process is the one that it takes it for
//! 64    the permission that the other side needs: a number that is changed where permissions are withdrawn
//! 128   1: this side is writing
//! ```
//!
//! A side that writes says so first, and looks at the permission afterwards; one that withdraws permissions changes that
//! first, and waits afterwards until the other side does not write. A side that has read looks at the permission
//! afterwards.
//!
//! A process that is stopped stops between two calls of the system, so it does not write meanwhile. Only one that is
//! stopped between its look at the permission and its call, for so long that it is given up, writes when it goes on.

use std::{
    cell::Cell,
    fs, io, process,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
            fence,
        },
    },
    thread,
};

use crate::{events::event, progress::random, reliability::CrossMemory, shm::Segment};

/// Bytes of a side.
pub(super) const LEN: usize = 192;
const NUMBER: usize = 8;
const PERMISSION: usize = 64;
const WRITING: usize = 128;

/// Looks at a side that writes, before others get the processor: about as many as a write takes. After so many more, it is
/// looked whether its process runs.
const LOOKS: u32 = 10_000;
/// The most looks: a second at least, in which each write ends. A process that writes for ever is a broken one.
const PATIENCE: u32 = 5_000_000;

/// What the other side can read here.
static OWN: OnceLock<u64> = OnceLock::new();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has not been tried yet.
    Unknown,
    Open,
    Closed,
}

/// The memory of a process of this host. See the module's documentation.
#[derive(Debug)]
pub(super) struct Attached {
    memory: Arc<Segment>,
    /// Where the lines of the two sides lie.
    own: usize,
    other: usize,
    process: libc::pid_t,
    state: Cell<State>,
    /// The other side has had a permission since the last withdrawal.
    is_exposed: bool,
    /// This process. (A child that it forks does not have the memory.)
    of: u32,
}

impl Attached {
    /// The memory of the process with this number. 0: it has none in this namespace.
    pub(super) fn new(memory: Arc<Segment>, (own, other): (usize, usize), process: u32) -> Self {
        let number = OWN.get_or_init(|| random() | 1);
        memory.atomic(own).store(std::ptr::from_ref(number) as u64, Relaxed);
        // (Those that a process before this one gave at its address do not hold.)
        memory.atomic(own + PERMISSION).store(random(), Relaxed);
        memory.atomic(own + NUMBER).store(*number, Release);
        Self {
            memory,
            own,
            other,
            process: process as libc::pid_t,
            state: Cell::new(if process == 0 { State::Closed } else { State::Unknown }),
            is_exposed: false,
            of: process::id(),
        }
    }

    fn of_other(&self, at: usize) -> &AtomicU64 {
        self.memory.atomic(self.other + at)
    }

    /// Looks whether the process can be read, and is the right one.
    #[cold]
    fn try_out(&self) {
        let number = self.of_other(NUMBER).load(Acquire);
        if number == 0 {
            // It has not taken the memory yet.
            return;
        }
        let (mut found, address) = ([0; 8], self.of_other(0).load(Relaxed));
        let read = copy(Direction::Read, self.process, address, &raw mut found[0], 8);
        self.state.set(match read {
            Ok(()) if found == number.to_ne_bytes() => State::Open,
            _ => State::Closed,
        });
        event!(DEBUG, process = self.process, state = ?self.state.get(), "copies by the system");
    }

    /// Returns whether a permission of the other side holds.
    fn holds(&self, permission: u32) -> bool {
        self.of_other(PERMISSION).load(Relaxed) as u32 == permission
    }

    fn note(&self, copied: io::Result<()>) -> bool {
        if let Err(error) = copied {
            event!(DEBUG, process = self.process, %error, "the system does not copy");
            drop(error);
            self.state.set(State::Closed);
            return false;
        }
        true
    }

    /// Waits until the other side does not write.
    fn wait(&self) {
        for look in 0..LOOKS + PATIENCE {
            if self.of_other(WRITING).load(Acquire) == 0 {
                return;
            }
            if look < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            if look.is_multiple_of(LOOKS) && !runs(self.process) {
                break;
            }
            thread::yield_now();
        }
        event!(
            WARN,
            process = self.process,
            "a process has stopped or ended where it wrote to this one"
        );
    }
}

impl CrossMemory for Attached {
    #[inline]
    fn is_open(&self) -> bool {
        if self.state.get() == State::Unknown {
            self.try_out();
        }
        self.state.get() == State::Open
    }

    fn read(&mut self, permission: Option<u32>, address: u64, into: &mut [u8]) -> bool {
        let copied = copy(Direction::Read, self.process, address, into.as_mut_ptr(), into.len());
        fence(SeqCst);
        // (If it does not hold, or need not, the failure of a copy says nothing of the next one.)
        match permission {
            Some(permission) => self.holds(permission) && self.note(copied),
            None => copied.is_ok(),
        }
    }

    fn permission(&mut self) -> u32 {
        self.is_exposed = true;
        self.memory.atomic(self.own + PERMISSION).load(Relaxed) as u32
    }

    fn write(&mut self, permission: u32, address: u64, bytes: &[u8]) -> bool {
        let writing = self.memory.atomic(self.own + WRITING);
        writing.store(1, Relaxed);
        fence(SeqCst);
        let here = bytes.as_ptr().cast_mut();
        let copied = self
            .holds(permission)
            .then(|| copy(Direction::Write, self.process, address, here, bytes.len()));
        writing.store(0, Release);
        copied.is_some_and(|copied| self.note(copied))
    }

    fn withdraw(&mut self) {
        if std::mem::take(&mut self.is_exposed) {
            self.memory.atomic(self.own + PERMISSION).fetch_add(1, Relaxed);
            fence(SeqCst);
            self.wait();
        }
    }
}

impl Drop for Attached {
    /// The session with the process is over.
    fn drop(&mut self) {
        if self.of == process::id() {
            self.withdraw();
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    /// From the other process.
    Read,
    /// To it.
    Write,
}

/// Has the system copy `len` bytes between `here` and an address of another process.
fn copy(direction: Direction, process: libc::pid_t, address: u64, here: *mut u8, len: usize) -> io::Result<()> {
    let mut at = 0;
    while at < len {
        let part = |base: *mut u8| libc::iovec {
            iov_base: base.wrapping_add(at).cast(),
            iov_len: len - at,
        };
        let (local, remote) = (part(here), part(address as usize as *mut u8));
        // SAFETY: the system reads or writes `len` bytes from `here` on, which the callers have as slices; they are only
        // read for a write. The other address is one of the other process, and never looked at in this one.
        let copied = unsafe {
            match direction {
                Direction::Read => libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0),
                Direction::Write => libc::process_vm_writev(process, &raw const local, 1, &raw const remote, 1, 0),
            }
        };
        match copied {
            -1 => return Err(io::Error::last_os_error()),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => at += more as usize,
        }
    }
    Ok(())
}

/// Returns whether a process has neither ended nor been stopped, as far as the system tells.
fn runs(process: libc::pid_t) -> bool {
    match fs::read_to_string(format!("/proc/{process}/stat")) {
        // The state stands behind the name, which is in brackets.
        Ok(stat) => {
            let state = stat.rsplit_once(')').map_or("", |(_, rest)| rest.trim_start());
            !state.starts_with(['T', 't', 'Z', 'X'])
        }
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::shm::{Access, without_call};

    /// Both sides of a memory, which take each other for the processes of these numbers.
    fn both(processes: [u32; 2]) -> [Attached; 2] {
        let (memory, _) = Segment::create("test", 4096, Access::Write).unwrap();
        let memory = Arc::new(memory);
        [
            Attached::new(Arc::clone(&memory), (0, LEN), processes[0]),
            Attached::new(memory, (LEN, 0), processes[1]),
        ]
    }

    fn at(bytes: &[u8]) -> u64 {
        bytes.as_ptr() as u64
    }

    #[test]
    fn bytes_are_copied_as_long_as_that_is_permitted() {
        let [mut here, mut there] = both([process::id(); 2]);
        assert!(here.is_open() && there.is_open());
        let permission = there.permission();
        let (theirs, mut into) = ([7; 10_000], [0; 10_000]);
        assert!(here.read(Some(permission), at(&theirs), &mut into));
        assert_eq!(into, theirs);
        let place = vec![0_u8; 10_000];
        assert!(here.write(permission, at(&place), &into));
        // SAFETY: the system has written there.
        assert!((0..place.len()).all(|index| unsafe { place.as_ptr().add(index).read_volatile() } == 7));
        there.withdraw();
        assert!(!here.read(Some(permission), at(&theirs), &mut into));
        assert!(!here.write(permission, at(&place), &[9; 10_000]));
        // SAFETY: as above.
        assert!((0..place.len()).all(|index| unsafe { place.as_ptr().add(index).read_volatile() } == 7));
        // That says nothing of what is permitted later.
        let permission = there.permission();
        assert!(here.is_open() && here.write(permission, at(&place), &into));
    }

    #[test]
    fn where_nothing_can_be_copied_the_way_is_closed() {
        let [mut here, mut there] = both([process::id(); 2]);
        assert!(here.is_open());
        let permission = there.permission();
        assert!(!here.read(Some(permission), 16, &mut [0; 100]));
        assert!(!here.is_open());
        // Another process has the number; one has none here; one does not know of the memory yet; one is forbidden to.
        let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let [here, _there] = both([other.id(), process::id()]);
        assert!(!here.is_open());
        other.kill().unwrap();
        other.wait().unwrap();
        let [here, _there] = both([0, process::id()]);
        assert!(!here.is_open());
        let (memory, _) = Segment::create("test", 4096, Access::Write).unwrap();
        let memory = Arc::new(memory);
        let early = Attached::new(Arc::clone(&memory), (0, LEN), process::id());
        assert!(!early.is_open());
        let _there = Attached::new(memory, (LEN, 0), process::id());
        assert!(early.is_open());
        let is_open = without_call(libc::SYS_process_vm_readv, || both([process::id(); 2])[0].is_open());
        assert!(!is_open);
        let is_written = without_call(libc::SYS_process_vm_writev, || {
            let [mut here, mut there] = both([process::id(); 2]);
            let permission = there.permission();
            assert!(here.is_open());
            here.write(permission, at(&[0; 8]), &[1; 8])
        });
        assert!(!is_written);
    }

    /// When permissions have been withdrawn, nothing is written, also by a thread that was just about to.
    #[test]
    fn a_withdrawal_waits_for_what_is_being_written() {
        let mut place = vec![0_u8; 1 << 20];
        for round in 0..50 {
            let [mut here, mut there] = both([process::id(); 2]);
            let (permission, address) = (there.permission(), at(&place));
            assert!(here.is_open());
            thread::scope(|scope| {
                let writer = scope.spawn(move || {
                    let bytes = vec![1; 1 << 20];
                    while here.write(permission, address, &bytes) {}
                    here
                });
                for _ in 0..round * 100 {
                    std::hint::spin_loop();
                }
                there.withdraw();
                place.fill(2);
                drop(writer.join().unwrap());
            });
            assert!(place.iter().all(|&byte| byte == 2));
        }
    }

    /// One that is killed, or stopped, where it writes, is not waited for.
    #[test]
    fn a_process_that_does_not_run_is_not_waited_for() {
        let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let [_here, mut there] = both([process::id(), other.id()]);
        there.of_other(WRITING).store(1, Relaxed);
        assert!(runs(other.id() as libc::pid_t));
        // SAFETY: a signal to a child.
        assert_eq!(unsafe { libc::kill(other.id() as libc::pid_t, libc::SIGSTOP) }, 0);
        while runs(other.id() as libc::pid_t) {
            thread::yield_now();
        }
        there.permission();
        there.withdraw();
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!runs(other.id() as libc::pid_t));
    }
}
