//! Arguments of EAL, from the settings and from what the machine has.

use super::options::{DpdkOptions, Memory};

/// Arguments of EAL.
pub(super) fn arguments(options: &DpdkOptions) -> Vec<String> {
    let mut arguments = vec![
        "--iova-mode=va".to_owned(),
        "--no-telemetry".to_owned(),
        // Processes do not share anything unless they want to.
        format!("--file-prefix=hikyaku-{}", std::process::id()),
    ];
    let given = |names: &[&str]| {
        options
            .eal
            .iter()
            .any(|argument| names.iter().any(|name| argument.starts_with(name)))
    };
    if !options.pci {
        arguments.push("--no-pci".to_owned());
    }
    if !given(&["--log-level"]) {
        arguments.push("--log-level=*:critical".to_owned());
    }
    // One of EAL's threads, which is this one and stays on the processors on which it is.
    if !given(&["-l", "-c", "--lcores"]) {
        arguments.push(format!("--lcores=0@({})", processors()));
    }
    let memory = match options.memory {
        Memory::Auto if free_hugepages() >= u64::from(options.memory_mb) * 1_000_000 => Memory::InMemory,
        Memory::Auto => Memory::NoHuge,
        other => other,
    };
    match memory {
        // In few files, which is what virtio-user and memif without copies hand to the other end.
        Memory::InMemory => arguments.extend(["--in-memory", "--single-file-segments"].map(str::to_owned)),
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

/// Processors on which this thread may run, in the kernel's words, for instance `0-3,8`.
fn processors() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.map_or("0", str::trim).to_owned()
}

/// Octets of free hugepages of the default size.
fn free_hugepages() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let pages = number("HugePages_Free:").unwrap_or(0);
    pages * number("Hugepagesize:").unwrap_or(0) * 1024
}
