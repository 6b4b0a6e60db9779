//! CPUs, limits and launchers.

use hikyaku_bench::machine::{
    environment::{cpu_model, kernel},
    pin,
};
use nix::sys::resource::{Resource, getrlimit};

use super::{
    finding::{Finding, State},
    look::{read, which},
};
use crate::memory;

const AREA: &str = "machine";

pub(super) fn findings() -> Vec<Finding> {
    let mut rows = vec![
        Finding::new(AREA, "CPU", State::Ok, cpu_model()),
        Finding::new(AREA, "kernel", State::Ok, kernel()),
        cores(pin::places().len(), &read("/sys/devices/system/cpu/online")),
    ];
    let isolated = read("/sys/devices/system/cpu/isolated");
    rows.push(if isolated.is_empty() {
        Finding::new(AREA, "isolated cores", State::None, "none")
            .advise("for the steadiest latency, keep others off the cores that poll: kernel parameter isolcpus")
    } else {
        Finding::new(AREA, "isolated cores", State::Ok, isolated)
    });
    rows.extend(governor());
    rows.push(locked());
    let tried = memory::attempt().map_err(|error| error.to_string());
    let copies = tried.is_ok().then(|| copies(memory::copies()));
    rows.push(memory(tried));
    rows.extend(copies);
    rows
}

/// Memory between processes, `tried`.
fn memory(tried: Result<(), String>) -> Finding {
    let (state, value) = match tried {
        Ok(()) => (State::Ok, "MPI ranks of this host talk through it".to_owned()),
        Err(why) => (
            State::Could,
            format!("MPI ranks of this host talk over the network: {why}"),
        ),
    };
    Finding::new(AREA, "memory of processes", state, value).advise(
        "it takes memfd_create and Unix sockets (is there a filter of system calls?) and four descriptors (ulimit -n)",
    )
}

/// Copies from process to process, as far as they are permitted.
fn copies(permitted: Result<(), String>) -> Finding {
    let (state, value) = match permitted {
        Ok(()) => (
            State::Ok,
            "large messages between ranks of this host are copied once".to_owned(),
        ),
        Err(why) => (
            State::Could,
            format!("large messages between ranks of this host are copied twice: {why}"),
        ),
    };
    Finding::new(AREA, "copies by the kernel", state, value).advise(
        "the kernel copies from rank to rank with kernel.yama.ptrace_scope=0, or for processes that have CAP_SYS_PTRACE, \
         where no filter forbids process_vm_readv and process_vm_writev",
    )
}

/// `usable`: physical cores that this process may use.
fn cores(usable: usize, online: &str) -> Finding {
    let state = if usable > 1 { State::Ok } else { State::Could };
    Finding::new(
        AREA,
        "cores",
        state,
        format!("{usable} usable by this process, CPUs {online} online"),
    )
    .advise("two processes that spin want a core each: use --wait block, or give this process more CPUs")
}

fn governor() -> Option<Finding> {
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    if governor.is_empty() {
        return None;
    }
    let state = if governor == "performance" {
        State::Ok
    } else {
        State::Could
    };
    Some(
        Finding::new(AREA, "frequency governor", state, governor)
            .advise("times vary less with: cpupower frequency-set -g performance"),
    )
}

/// The limit of locked memory, against which hugepages of other users, XDP and cards count.
fn locked() -> Finding {
    let limit = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(0, |(soft, _)| soft);
    let (state, value) = match limit {
        u64::MAX => (State::Ok, "unlimited".to_owned()),
        limit if limit >= 64 << 20 => (State::Ok, format!("{} MiB", limit >> 20)),
        limit => (State::Could, format!("{} KiB", limit >> 10)),
    };
    Finding::new(AREA, "locked memory", state, value)
        .advise("af_xdp and cards need more: ulimit -l unlimited, or a line in /etc/security/limits.conf")
}

/// (program, what it is)
const LAUNCHERS: [(&str, &str); 4] = [
    ("mpiexec.hydra", "MPICH"),
    ("mpirun.openmpi", "Open MPI"),
    ("srun", "Slurm"),
    ("ssh", "hikyaku run --host"),
];

pub(super) fn launchers() -> Vec<Finding> {
    const AREA: &str = "launchers";
    let mut rows = vec![Finding::new(AREA, "hikyaku run", State::Ok, "always there")];
    rows.extend(LAUNCHERS.map(|(program, what)| {
        match which(program) {
            Some(path) => Finding::new(AREA, program, State::Ok, format!("{} ({what})", path.display())),
            None => Finding::new(AREA, program, State::None, format!("not installed ({what})"))
                .advise("not needed: hikyaku run starts jobs too"),
        }
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_is_few() {
        assert_eq!(cores(1, "0-3").state, State::Could);
        let two = cores(2, "0-3");
        assert_eq!((two.state, two.advice), (State::Ok, None));
    }

    #[test]
    fn memory_is_tried() {
        if cfg!(feature = "shm") {
            assert_eq!(
                memory(memory::attempt().map_err(|error| error.to_string())).state,
                State::Ok
            );
        }
        assert_eq!(copies(Ok(())).advice, None);
        let twice = copies(Err("kernel.yama.ptrace_scope is 1".into()));
        assert!(twice.value.ends_with("copied twice: kernel.yama.ptrace_scope is 1"));
        assert!(twice.advice.is_some_and(|advice| advice.contains("CAP_SYS_PTRACE")));
        let missing = memory(Err("no descriptors".into()));
        assert!(missing.value.ends_with("over the network: no descriptors"));
        assert!(missing.advice.is_some_and(|advice| advice.contains("ulimit -n")));
    }
}
