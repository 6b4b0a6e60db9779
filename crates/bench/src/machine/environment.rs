//! The machine that a measurement was made on.

use std::{fs, net::IpAddr};

use nix::{ifaddrs::getifaddrs, sys::utsname::uname};
use serde::Serialize;

/// Model name of the CPU.
pub fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// Name and release of the kernel.
pub fn kernel() -> String {
    uname().map_or_else(
        |_| "unknown".into(),
        |name| {
            format!(
                "{} {}",
                name.sysname().to_string_lossy(),
                name.release().to_string_lossy()
            )
        },
    )
}

/// MTU of the interface that has this address.
pub fn interface_mtu(address: IpAddr) -> Option<usize> {
    let has = |entry: &nix::ifaddrs::InterfaceAddress| {
        entry.address.as_ref().is_some_and(|found| match address {
            IpAddr::V4(wanted) => found.as_sockaddr_in().is_some_and(|found| found.ip() == wanted),
            IpAddr::V6(wanted) => found.as_sockaddr_in6().is_some_and(|found| found.ip() == wanted),
        })
    };
    let interface = getifaddrs().ok()?.find(has)?;
    fs::read_to_string(format!("/sys/class/net/{}/mtu", interface.interface_name))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Largest UDP payload that a packet of this size carries.
pub fn datagram_of(mtu: usize, address: IpAddr) -> usize {
    let headers = if address.is_ipv4() { 28 } else { 48 };
    mtu.saturating_sub(headers).min(65_507)
}

/// The facts that are printed over every table and go into every JSON object.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// CPU model; both, if they differ.
    pub cpu: String,
    /// Kernel; both, if they differ.
    pub kernel: String,
    /// Bytes of an IP packet.
    pub mtu: usize,
    /// Bytes of a UDP payload.
    pub datagram: usize,
    /// How both ends wait.
    pub wait: &'static str,
    /// CPUs of the driver and the workers, in this order; null: not pinned.
    pub pinning: Vec<Option<usize>>,
    /// `processes`, `threads` or `hosts`.
    pub ends: &'static str,
    /// Rounds.
    pub rounds: usize,
}

impl Environment {
    /// As comment lines for the head of a table.
    pub fn lines(&self) -> Vec<String> {
        let place = |cpu: &Option<usize>| cpu.map_or_else(|| "none".into(), |cpu| cpu.to_string());
        let pinning = self.pinning.iter().map(place).collect::<Vec<_>>().join(", ");
        vec![
            format!("CPU {}, {}", self.cpu, self.kernel),
            format!(
                "MTU {} (datagrams of up to {} B), wait: {}, {} pinned to CPUs {pinning}",
                self.mtu, self.datagram, self.wait, self.ends
            ),
        ]
    }
}
