//! DPDK: hugepages, the library, its drivers, cards that it could take.

use hikyaku::environment::Environment;

use super::{
    finding::{Finding, State},
    look::{ask, names, read},
};

const AREA: &str = "dpdk";
/// Hugepages that one port wants, bytes.
const WANTED: u64 = 256 << 20;
/// Where distributions put the drivers.
const PLUGINS: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/dpdk",
    "/usr/lib/aarch64-linux-gnu/dpdk",
    "/usr/lib64/dpdk",
];
/// Drivers of devices that are no cards.
const VIRTUAL: [&str; 8] = ["memif", "af_packet", "af_xdp", "vhost", "virtio", "ring", "tap", "null"];

pub(super) fn findings() -> Vec<Finding> {
    let mut rows = vec![backend()];
    rows.push(match ask("pkg-config", &["--modversion", "libdpdk"]) {
        Some(version) => Finding::new(AREA, "headers", State::Ok, format!("DPDK {version}")),
        None => Finding::new(AREA, "headers", State::None, "not found by pkg-config")
            .advise("to build with --features dpdk: apt-get install dpdk-dev pkg-config clang (or cargo xtask setup)"),
    });
    let folders = PLUGINS
        .iter()
        .flat_map(|folder| names(folder).into_iter().map(move |name| format!("{folder}/{name}")));
    let files: Vec<String> = folders.flat_map(names).collect();
    let drivers = drivers(&files);
    rows.push(if drivers.is_empty() {
        Finding::new(AREA, "drivers", State::None, "no plugin folder").advise("apt-get install dpdk")
    } else {
        let (devices, cards): (Vec<_>, Vec<_>) = drivers.iter().partition(|name| VIRTUAL.contains(&name.as_str()));
        let devices: Vec<&str> = devices.into_iter().map(String::as_str).collect();
        Finding::new(
            AREA,
            "drivers",
            State::Ok,
            format!("{}; and {} of cards", devices.join(", "), cards.len()),
        )
    });
    rows.push(poller());
    rows.push(hugepages(&read("/proc/meminfo")));
    rows.push(mount(&read("/proc/mounts")));
    rows.push(vfio(names("/sys/kernel/iommu_groups").len(), names("/dev/vfio").len()));
    rows
}

/// The poller that `HIKYAKU_POLLER` names.
fn poller() -> Finding {
    let environment = Environment::of_process();
    let Some(path) = environment.path("HIKYAKU_POLLER") else {
        return Finding::new(AREA, "poller", State::None, "HIKYAKU_POLLER names none")
            .advise("one process of a host that owns the port for the others: hikyaku poller --help");
    };
    // Who says nothing is thrown away, and counted as a stranger.
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Finding::new(AREA, "poller", State::Ok, format!("answers at {}", path.display())),
        Err(error) => Finding::new(AREA, "poller", State::Could, format!("{}: {error}", path.display()))
            .advise(format!("hikyaku poller --socket {} …", path.display())),
    }
}

#[cfg(feature = "dpdk")]
fn backend() -> Finding {
    let version = hikyaku::backends::dpdk::version();
    Finding::new(AREA, "backend", State::Ok, format!("in this build, with {version}"))
}

#[cfg(not(feature = "dpdk"))]
fn backend() -> Finding {
    Finding::new(AREA, "backend", State::None, "not in this build")
        .advise("cargo build --release -p hikyaku-cli --features dpdk")
}

/// Names of network drivers in a plugin folder.
fn drivers(files: &[String]) -> Vec<String> {
    let mut drivers: Vec<String> = files
        .iter()
        .filter_map(|file| file.strip_prefix("librte_net_")?.split_once(".so"))
        .map(|(name, _)| name.to_owned())
        .collect();
    drivers.sort();
    drivers.dedup();
    drivers
}

fn hugepages(meminfo: &str) -> Finding {
    let number = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let size = number("Hugepagesize:") << 10;
    let (total, free) = (number("HugePages_Total:"), number("HugePages_Free:"));
    let state = match () {
        () if total == 0 => State::None,
        () if free * size < WANTED => State::Could,
        () => State::Ok,
    };
    let value = if total == 0 {
        "none reserved".to_owned()
    } else {
        format!("{free} of {total} free, {} KiB each", size >> 10)
    };
    let pages = WANTED.div_ceil(size.max(1 << 20)) * 2;
    Finding::new(AREA, "hugepages", state, value).advise(format!(
        "devices in memory do without (HIKYAKU_DPDK_MEMORY=no-huge), cards do not: echo {pages} > /proc/sys/vm/nr_hugepages"
    ))
}

fn mount(mounts: &str) -> Finding {
    let point = mounts
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| words.get(2) == Some(&"hugetlbfs"));
    match point.and_then(|words| words.get(1).map(ToString::to_string)) {
        Some(point) => Finding::new(AREA, "hugetlbfs", State::Ok, point),
        None => Finding::new(AREA, "hugetlbfs", State::None, "not mounted").advise(
            "a poller needs it to give ranks queues of its port, for large messages: mount -t hugetlbfs nodev /dev/hugepages",
        ),
    }
}

fn vfio(groups: usize, devices: usize) -> Finding {
    if groups > 0 && devices > 0 {
        return Finding::new(AREA, "vfio", State::Ok, format!("{groups} IOMMU groups"));
    }
    let value = match (groups, devices) {
        (0, 0) => "no IOMMU, no /dev/vfio",
        (0, _) => "no IOMMU",
        _ => "no /dev/vfio",
    };
    Finding::new(AREA, "vfio", State::None, value).advise(
        "cards are taken from the kernel by VFIO: IOMMU on in the firmware, intel_iommu=on, modprobe vfio-pci, dpdk-devbind.py",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hugepages_none_few_enough() {
        let meminfo = |total: u32, free: u32| {
            format!("MemTotal: 1 kB\nHugePages_Total:  {total}\nHugePages_Free:   {free}\nHugepagesize:   2048 kB\n")
        };
        let none = hugepages(&meminfo(0, 0));
        assert_eq!(none.state, State::None);
        assert!(none.advice.unwrap().contains("echo 256 >"));
        assert_eq!(hugepages(&meminfo(512, 100)).state, State::Could);
        assert_eq!(hugepages(&meminfo(512, 128)).state, State::Ok);
    }

    #[test]
    fn drivers_by_their_files() {
        let files = [
            "librte_net_memif.so",
            "librte_net_memif.so.23",
            "librte_bus_pci.so",
            "librte_net_ice.so.23.0",
        ];
        assert_eq!(drivers(&files.map(str::to_owned)), ["ice", "memif"]);
    }

    #[test]
    fn mounts_and_vfio() {
        let mounts = "proc /proc proc rw 0 0\nnodev /dev/hugepages hugetlbfs rw 0 0\n";
        assert_eq!(mount(mounts).value, "/dev/hugepages");
        assert_eq!(mount("proc /proc proc rw 0 0").state, State::None);
        assert_eq!(vfio(3, 2).state, State::Ok);
        assert!(vfio(0, 0).value.contains("no IOMMU"));
    }
}
