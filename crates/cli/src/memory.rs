//! Whether processes of this host can talk through memory, and whether the kernel copies between them.

use std::error::Error;

/// Tries it: something is sent from one end to another, both in this process.
///
/// # Errors
/// The reason why not.
#[cfg(feature = "shm")]
pub(crate) fn attempt() -> Result<(), Box<dyn Error>> {
    use std::time::Duration;

    use hikyaku::transport::Transport;

    let open = |processor| Transport::builder().processor(processor).bind_shm("");
    let (mut a, mut b) = (open(1)?, open(2)?);
    let to_b = a.add_peer(b.local_addr(), 2)?;
    b.add_peer(a.local_addr(), 1)?;
    a.send(to_b, b"here")?;
    a.progress()?;
    b.receive(Duration::from_secs(5))?;
    Ok(())
}

#[cfg(not(feature = "shm"))]
pub(crate) fn attempt() -> Result<(), Box<dyn Error>> {
    Err("this build has no memory between processes (feature shm)".into())
}

/// Whether the kernel copies from the memory of one process of this user straight to that of another (cross-memory attach):
/// a call that reads this process's own memory, and the setting of yama, which is about others.
///
/// # Errors
/// The reason why not.
#[cfg(all(feature = "shm", target_os = "linux"))]
pub(crate) fn copies() -> Result<(), String> {
    use std::{fs, io::IoSliceMut};

    use nix::{
        sys::uio::{RemoteIoVec, process_vm_readv},
        unistd::Pid,
    };

    let (mut into, from) = ([0], [1_u8]);
    let remote = RemoteIoVec {
        base: from.as_ptr().addr(),
        len: from.len(),
    };
    process_vm_readv(Pid::this(), &mut [IoSliceMut::new(&mut into)], &[remote])
        .map_err(|error| format!("process_vm_readv: {}", error.desc()))?;
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    permitted(
        &read("/proc/sys/kernel/yama/ptrace_scope"),
        may_trace(&read("/proc/self/status")),
    )
}

#[cfg(not(all(feature = "shm", target_os = "linux")))]
pub(crate) fn copies() -> Result<(), String> {
    Err("this build has no memory between processes (feature shm)".to_owned())
}

/// What yama says, by its setting (nothing: it is not there) and whether this process has the right to trace others.
#[cfg(all(feature = "shm", target_os = "linux"))]
fn permitted(scope: &str, may_trace: bool) -> Result<(), String> {
    match scope.trim() {
        "" | "0" => Ok(()),
        "1" | "2" if may_trace => Ok(()),
        scope => Err(format!("kernel.yama.ptrace_scope is {scope}")),
    }
}

/// By the lines of `/proc/self/status`: CAP_SYS_PTRACE.
#[cfg(all(feature = "shm", target_os = "linux"))]
fn may_trace(status: &str) -> bool {
    const SYS_PTRACE: u32 = 19;
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = rights.and_then(|rights| u64::from_str_radix(rights.trim(), 16).ok());
    rights.is_some_and(|rights| rights >> SYS_PTRACE & 1 == 1)
}

#[cfg(all(test, feature = "shm", target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn yama_forbids_what_it_forbids() {
        for (scope, without, with) in [
            ("", true, true),
            ("0\n", true, true),
            ("1\n", false, true),
            ("2\n", false, true),
        ] {
            assert_eq!(permitted(scope, false).is_ok(), without, "{scope}");
            assert_eq!(permitted(scope, true).is_ok(), with, "{scope}");
        }
        let never = permitted("3\n", true);
        assert_eq!(never, Err("kernel.yama.ptrace_scope is 3".to_owned()));
    }

    #[test]
    fn the_right_to_trace_is_a_bit() {
        assert!(may_trace("Name:\thikyaku\nCapEff:\t000001ffffffffff\n"));
        assert!(!may_trace("CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n"));
        assert!(!may_trace(""));
    }
}
