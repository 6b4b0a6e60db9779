//! Arguments of EAL, from the settings and the machine's resources.

use std::{fs, time::Duration};

use rustix::fs::{FlockOperation, flock};

use super::{
    error::DpdkError,
    options::{DpdkOptions, Memory},
    sleep::pause,
    sys,
};

/// A process locks this file while it looks for free hugepages and takes them. Every process can lock it.
const TURN: &str = "/proc/sys/vm/nr_hugepages";
/// The longest wait for the lock. Another process takes its hugepages in a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(5);
const SLEEP: Duration = Duration::from_millis(5);

/// Starts EAL, unless it already runs with the same settings.
pub(super) fn start(options: &DpdkOptions) -> Result<(), DpdkError> {
    sys::start(settings(options), || {
        let (memory, turn) = match options.memory {
            Memory::Auto => choose(options),
            other => (other, None),
        };
        let mut arguments = arguments(options, memory);
        if turn.is_some() && !given(options, &["-m", "--socket-mem"]) && !options.device.shows_memory() {
            // EAL takes all pages at once, for all ports. Otherwise another process would still find them free.
            arguments.push(format!("-m{}", options.memory_mb));
        }
        (arguments, turn)
    })
}

/// Starts EAL with the memory of another process, which has started it by [`start`]. `place`: of this process among all
/// that share the memory: two with the same one would corrupt the pools.
/// `card`: the name of the port, if it is one that EAL finds itself.
pub(super) fn join(process: u32, place: u16, card: Option<&str>) -> Result<(), DpdkError> {
    // That of the other process is 0.
    let number = place + 1;
    sys::start(vec![format!("memory of process {process}, place {place}")], || {
        let arguments = [
            "--proc-type=secondary".to_owned(),
            "--iova-mode=va".to_owned(),
            "--no-telemetry".to_owned(),
            card.map_or_else(|| "--no-pci".to_owned(), |card| format!("--allow={card}")),
            "--log-level=*:critical".to_owned(),
            format!("--file-prefix={}", prefix(process)),
            format!("--lcores={number}@({})", cpus()),
        ];
        (arguments.to_vec(), ())
    })
}

/// The beginning of the names of a process's files.
pub(super) fn prefix(process: u32) -> String {
    format!("hikyaku-{process}")
}

/// The folder in which processes find those whose memory they share. DPDK makes it.
pub(super) fn runtime_folder() -> String {
    let base = if rustix::process::getuid().is_root() {
        Some("/var/run".to_owned())
    } else {
        std::env::var("XDG_RUNTIME_DIR").ok()
    };
    format!("{}/dpdk", base.unwrap_or_else(|| "/tmp".to_owned()))
}

/// The settings that must be the same for all ports of a process.
fn settings(options: &DpdkOptions) -> Vec<String> {
    let mut settings = vec![format!("HIKYAKU_DPDK_MEMORY={}", options.memory)];
    if matches!(options.memory, Memory::Auto | Memory::NoHuge) {
        settings.push(format!("HIKYAKU_DPDK_MEMORY_MB={}", options.memory_mb));
    }
    settings.push(format!("HIKYAKU_DPDK_PCI={}", if options.pci { "on" } else { "off" }));
    settings.push(format!("HIKYAKU_DPDK_EAL={}", options.eal.join(" ")));
    if options.device.shows_memory() {
        settings.push("zero-copy=yes".to_owned());
    }
    settings
}

/// Chooses hugepages if enough are free, and then also takes the lock that lets this process take them: the ranks of a
/// job look for hugepages at the same time. If another process holds the lock for too long, it may have taken the
/// pages, and the choice is ordinary pages.
fn choose(options: &DpdkOptions) -> (Memory, Option<fs::File>) {
    let enough = || free_hugepages() >= u64::from(options.memory_mb) << 20;
    let turn = if enough() { take_turn() } else { None };
    match turn {
        Some(turn) if enough() => (Memory::InMemory, Some(turn)),
        _ => (Memory::NoHuge, None),
    }
}

fn take_turn() -> Option<fs::File> {
    let file = fs::File::open(TURN).ok()?;
    let mut left = PATIENCE;
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        left = left.checked_sub(SLEEP)?;
        pause(SLEEP);
    }
    Some(file)
}

/// The settings contain one of these arguments of EAL.
fn given(options: &DpdkOptions, names: &[&str]) -> bool {
    options
        .eal
        .iter()
        .any(|argument| names.iter().any(|name| argument.starts_with(name)))
}

fn arguments(options: &DpdkOptions, memory: Memory) -> Vec<String> {
    let mut arguments = vec![
        "--iova-mode=va".to_owned(),
        "--no-telemetry".to_owned(),
        // Processes share nothing by default.
        format!("--file-prefix={}", prefix(std::process::id())),
    ];
    if !options.pci {
        arguments.push("--no-pci".to_owned());
    }
    if !given(options, &["--log-level"]) {
        arguments.push("--log-level=*:critical".to_owned());
    }
    // EAL gets one thread, the calling one, which stays on the CPUs on which it may run now.
    if !given(options, &["-l", "-c", "--lcores"]) {
        arguments.push(format!("--lcores=0@({})", cpus()));
    }
    match memory {
        // The memory lies in few files, which virtio-user and memif without copies pass to the other end.
        Memory::InMemory => {
            arguments.extend(["--in-memory", "--single-file-segments"].map(str::to_owned));
            if options.device.shows_memory() && !given(options, &["-m", "--socket-mem"]) {
                // All memory is taken at once, in one piece, and EAL may not take more.
                arguments.push(format!("-m{}", options.memory_mb));
                arguments.push(format!("--socket-limit={}", limits(options.memory_mb)));
            }
        }
        Memory::Hugepages => {}
        Memory::NoHuge | Memory::Auto => arguments.extend([
            "--no-huge".to_owned(),
            "--no-shconf".to_owned(),
            format!("-m{}", options.memory_mb),
        ]),
    }
    arguments.extend(options.eal.iter().cloned());
    arguments
}

/// The limit of memory for each NUMA node: `mb` for the node of this thread's first processor, and 1 MB for the others
/// (0 would mean no limit).
fn limits(mb: u32) -> String {
    let allowed = cpus();
    let first = allowed.split(['-', ',']).next().unwrap_or("0");
    let nodes = (0..).take_while(|node| fs::exists(format!("/sys/devices/system/node/node{node}")).unwrap_or(false));
    let is_near = |node: &u32| fs::exists(format!("/sys/devices/system/node/node{node}/cpu{first}")).unwrap_or(false);
    let limits: Vec<_> = nodes
        .map(|node| if is_near(&node) { mb } else { 1 }.to_string())
        .collect();
    if limits.is_empty() {
        mb.to_string()
    } else {
        limits.join(",")
    }
}

/// The CPUs on which this thread may run, in the kernel's notation, for instance `0-3,8`.
fn cpus() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.map_or("0", str::trim).to_owned()
}

/// Bytes of free hugepages of the default size that are not reserved for a process.
pub(super) fn free_hugepages() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let promised = number("HugePages_Rsvd:").unwrap_or(0);
    let pages = number("HugePages_Free:").unwrap_or(0).saturating_sub(promised);
    pages * number("Hugepagesize:").unwrap_or(0) * 1024
}
