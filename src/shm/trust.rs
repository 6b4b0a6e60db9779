#![expect(
    unsafe_code,
    reason = "the kernel is asked who it is: rustix has no place for a process of another namespace, 0"
)]
//! Checks which process is at the other end of a Unix socket: only processes of the same user and of root may be.
//!
//! Both sides trust the contents of the shared memory further than they trust packets. So neither side accepts a
//! process of another user: any user could have been the first to make a socket of that name.

use std::{
    io,
    os::{fd::AsRawFd, unix::net::UnixStream},
};

use rustix::process::geteuid;

/// The number of the user root.
const ROOT: u32 = 0;

/// The process at the other end of a socket, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: u32,
    /// 0: the process is in another PID namespace.
    pub(crate) process: u32,
}

/// The process at the other end belongs neither to our user nor to root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Untrusted {
    pub(crate) user: u32,
    pub(crate) own: u32,
}

impl Credentials {
    /// The credentials that the kernel recorded when the connection was made (of a listener: when it began to listen).
    pub(crate) fn of(socket: &UnixStream) -> io::Result<Self> {
        let mut credentials = libc::ucred {
            pid: 0,
            uid: u32::MAX,
            gid: u32::MAX,
        };
        let mut len = size_of_val(&credentials) as libc::socklen_t;
        // SAFETY: the call writes at most `len` bytes to `credentials`, for which any bytes are valid, and their number
        // to `len`.
        let failed = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut credentials).cast(),
                &raw mut len,
            )
        };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        if len as usize != size_of_val(&credentials) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self {
            user: credentials.uid,
            process: credentials.pid as u32,
        })
    }

    /// Fails if the process belongs neither to our user nor to root.
    pub(crate) fn check(self) -> Result<Self, Untrusted> {
        self.check_for(geteuid().as_raw())
    }

    fn check_for(self, own: u32) -> Result<Self, Untrusted> {
        let user = self.user;
        if user == own || user == ROOT {
            Ok(self)
        } else {
            Err(Untrusted { user, own })
        }
    }
}

/// Runs `act` as the user [`NOBODY`], in a thread of its own. `None`: this process is not root, so it cannot.
#[cfg(test)]
pub(crate) fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    if geteuid().as_raw() != ROOT {
        return None;
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the system call takes three numbers. The C library's function would change all threads; the
            // kernel's system call changes only the thread that calls it, and this thread ends with `act`.
            let failed = unsafe { libc::syscall(libc::SYS_setresuid, -1, NOBODY, -1) };
            assert_eq!(failed, 0, "{}", io::Error::last_os_error());
            act()
        });
        Some(thread.join().unwrap())
    })
}

/// Runs `act` in a thread of its own, which may make no memory that others can map: `memfd_create` is forbidden.
#[cfg(all(test, feature = "shm"))]
pub(crate) fn without_shared_memory<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    without_call(libc::SYS_memfd_create, act)
}

/// Runs `act` in a thread of its own, to which this system call is forbidden.
#[cfg(all(test, feature = "shm"))]
pub(crate) fn without_call<T: Send>(call: libc::c_long, act: impl FnOnce() -> T + Send) -> T {
    let statement = |code: u32, value: u32, no: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: no,
        k: value,
    };
    let mut filter = [
        // The number of the system call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 1),
        statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            0,
        ),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    let address = &raw const program as usize;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            // SAFETY: `prctl` takes numbers; `seccomp` copies the program, which lives until the thread has ended. Both
            // change this thread only, and it ends with `act`.
            let failed = unsafe {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                    || libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, address) != 0
            };
            assert!(!failed, "{}", io::Error::last_os_error());
            act()
        });
        thread.join().unwrap()
    })
}

/// The number of the user `nobody`, who has no rights.
#[cfg(test)]
pub(crate) const NOBODY: u32 = 65_534;

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn only_ones_own_and_roots_are_trusted() {
        let of = |user| Credentials { user, process: 1 };
        for (user, own) in [(1000, 1000), (ROOT, 1000), (ROOT, ROOT)] {
            assert_eq!(of(user).check_for(own), Ok(of(user)));
        }
        for (user, own) in [(1001, 1000), (1000, ROOT), (65_534, ROOT)] {
            assert_eq!(of(user).check_for(own), Err(Untrusted { user, own }));
        }
    }

    #[test]
    fn the_kernel_says_who_it_is() {
        let (here, _there) = UnixStream::pair().unwrap();
        let peer = Credentials::of(&here).unwrap();
        assert_eq!(peer.process, process::id());
        assert_eq!(peer.check(), Ok(peer));
    }
}
