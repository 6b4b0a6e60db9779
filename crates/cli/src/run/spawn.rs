//! Starts a rank so that it cannot outlive its agent.
#![expect(unsafe_code, reason = "what a process does between fork and exec")]

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command},
};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    sys::{
        prctl::set_pdeathsig,
        signal::{SigSet, SigmaskHow, Signal, sigprocmask},
    },
    unistd::{Pid, getpid, getppid},
};

use super::limits::Files;

/// Starts `command` in a process group of its own, on `cpu`, with this limit of open files; the kernel kills it when this
/// process ends.
pub(super) fn spawn(mut command: Command, cpu: Option<usize>, files: Files) -> io::Result<Child> {
    let parent = getpid();
    let set = cpu.map(cpu_set).transpose()?;
    command.process_group(0);
    let prepare = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have ended before that call.
        if getppid() != parent {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // A mask outlives exec, and the agent's blocks what it reads from a descriptor.
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
        files.restore()?;
        if let Some(set) = &set {
            sched_setaffinity(Pid::from_raw(0), set)?;
        }
        Ok(())
    };
    // SAFETY: only system calls on memory that exists: nothing is allocated and no lock is taken, and the process
    // that forks has one thread.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

fn cpu_set(cpu: usize) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(set)
}
