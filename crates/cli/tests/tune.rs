//! `hikyaku tune` where the kernel does not copy from one process to another, as in many containers.
#![cfg(all(target_os = "linux", feature = "shm"))]
#![expect(unsafe_code, reason = "a filter of system calls is set between fork and exec")]

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use nix::libc;

/// Forbids `process_vm_readv` to the calling thread, and to all that it starts.
fn forbid_copies() -> io::Result<()> {
    let statement = |code: u32, value: u32, otherwise: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: otherwise,
        k: value,
    };
    let mut filter = [
        // The number of the system call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            libc::SYS_process_vm_readv as u32,
            1,
        ),
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
    // SAFETY: `prctl` takes numbers, and `seccomp` copies the program, which lives until it has returned.
    let is_set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) == 0
    };
    if is_set {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[test]
fn copies_that_the_kernel_refuses_are_off() {
    let arguments = "tune --sizes 8,8K --iterations 2 --rounds 1 --wait adaptive";
    let mut command = Command::new(env!("CARGO_BIN_EXE_hikyaku"));
    command.args(arguments.split(' ')).stdin(Stdio::null());
    // SAFETY: the function makes system calls and uses its own stack, which a process may do between fork and exec.
    unsafe { command.pre_exec(forbid_copies) };
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.contains("\n# messages that the kernel copies within a host: none, it refuses here");
    let found = text.contains("\nexport HIKYAKU_CMA_LIMIT=off\n");
    assert!(said && found, "{text}{}", String::from_utf8_lossy(&output.stderr));
}
