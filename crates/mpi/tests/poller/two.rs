//! Two hosts, each with a poller, joined by a link of DPDK's: half of the ranks are behind each poller.

use std::{collections::BTreeMap, fs, process::Command};

use super::{
    built::launcher,
    netns::{INTERFACE, Namespace, Veth, ip},
    support::{Counted, DPDK, Folder, NO_HUGE, Poller, RIGHT, UDP, job, succeeds, words},
};

pub(crate) const ADDRESSES: [&str; 2] = ["10.99.0.1", "10.99.0.2"];
/// Of first and second ports.
const BOTH: [&str; 2] = ["10.99.0.1,10.98.0.1", "10.99.0.2,10.98.0.2"];
/// The transposes of `ft S` are 2 MiB between the two halves of the ranks, and there are seven.
pub(crate) const TRANSPOSED: u64 = 7 * (2 << 20);
/// All else that `ft S` sends to the other half is much less.
const REST: u64 = TRANSPOSED / 20;
/// Programs, and whether they compare their result with that of one process.
const PROGRAMS: [(&[&str], bool); 7] = [
    (&["sor", "64", "50"], true),
    (&["halo", "16", "3"], false),
    (&["ft", "S"], false),
    (&["sizes"], false),
    (&["window"], false),
    (&["all_to_all"], false),
    (&["intercommunicator"], false),
];

/// Two pollers, the second of which joins the first.
pub(crate) struct Pair {
    pub(crate) pollers: [Poller; 2],
    folder: Folder,
}

impl Pair {
    /// Joined by memory, in one place.
    fn memif() -> Self {
        Self::on_memif(Folder::new(), [&[]; 2], &[NO_HUGE])
    }

    /// The same, with more options of each poller and with these settings.
    pub(crate) fn on_memif(folder: Folder, more: [&[&str]; 2], settings: &[(&str, &str)]) -> Self {
        Self::on_memifs(folder, &["memif"], ADDRESSES, more, settings)
    }

    /// Joined twice.
    fn on_two_memifs() -> Self {
        Self::on_memifs(Folder::new(), &["memif", "second"], BOTH, [&[]; 2], &[NO_HUGE])
    }

    fn on_memifs(
        folder: Folder,
        files: &[&str],
        addresses: [&str; 2],
        more: [&[&str]; 2],
        settings: &[(&str, &str)],
    ) -> Self {
        let start = |host: usize, role: &str| {
            let device = |file: &&str| format!("memif:socket={},role={role}", folder.file(file));
            let devices = files.iter().map(device).collect::<Vec<_>>().join(",");
            let socket = folder.file(&format!("poller{host}"));
            let command = Command::new(launcher());
            let mut poller = Poller::begin_with(command, &devices, addresses[host], &socket, more[host], settings);
            poller.wait();
            poller
        };
        let pollers = [start(0, "server"), start(1, "client")];
        Self { pollers, folder }
    }

    /// Runs an example as `ranks` ranks of one machine, and says what it has printed.
    pub(crate) fn run(&self, ranks: u32, options: &[&str], program: &[&str], settings: &[(&str, &str)]) -> String {
        succeeds(&self.job(ranks, options, program, settings).output().unwrap())
    }

    /// The launcher of such a job.
    pub(crate) fn job(&self, ranks: u32, options: &[&str], program: &[&str], settings: &[(&str, &str)]) -> Command {
        let half = (ranks / 2).to_string();
        let behind = self
            .pollers
            .each_ref()
            .map(|poller| format!("HIKYAKU_POLLER={}", poller.socket));
        let options = [options, &["-n", &half, "--env", &behind[0]]].concat();
        let mut command = job(Command::new(launcher()), &options, settings);
        command
            .args(words(program))
            .args([":", "-n", &half, "--env", &behind[1]])
            .args(words(program));
        command
    }

    /// Runs all programs, as two ranks and as four.
    fn run_all(&self, settings: &[(&str, &str)]) {
        for ranks in [2, 4] {
            for (program, compares) in PROGRAMS {
                let text = self.run(ranks, &[], program, settings);
                assert!(!compares || text.contains(RIGHT), "{program:?}: {text}");
            }
        }
    }

    pub(crate) fn end(self) -> [Counted; 2] {
        let counted = self.pollers.map(Poller::end);
        drop(self.folder);
        counted
    }
}

/// Bytes that the ranks of a job have sent, by way of pollers or by themselves (`HIKYAKU_STATS=-`).
pub(crate) fn sent_by_ranks(text: &str) -> u64 {
    let all = text.lines().filter(|line| line.starts_with("{\"processor\""));
    all.map(|line| {
        let counters: serde_json::Value = serde_json::from_str(line).expect(line);
        counters["backend_stats"]["bytes_sent"].as_u64().expect(line)
    })
    .sum()
}

pub(crate) const COUNTED: (&str, &str) = ("HIKYAKU_STATS", "-");
pub(crate) const ASK: (&str, &str) = ("HIKYAKU_EAGER_LIMIT", "0");

/// Each transposed matrix has gone past both pollers; requests and grants, and small messages, have not.
pub(crate) fn has_gone_past(pollers: [Counted; 2], text: &str) {
    assert!(sent_by_ranks(text) > TRANSPOSED, "{text}");
    for poller in pollers {
        assert!(
            poller.packets > 0 && (1..REST).contains(&poller.bytes),
            "{poller:?}: {text}"
        );
    }
}

#[test]
fn two_pollers() {
    let pair = Pair::memif();
    pair.run_all(&[]);
    for poller in pair.end() {
        assert!(poller.packets > 0 && poller.bytes > TRANSPOSED, "{poller:?}");
    }
}

/// The bytes that each rail of the ranks has carried, by the address of the peer's port without its last number, from their
/// counters.
fn sent_by_rails(text: &str) -> BTreeMap<String, u64> {
    let mut sent = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("{\"processor\"")) {
        let counters: serde_json::Value = serde_json::from_str(line).expect(line);
        for rail in counters["rails"].as_array().into_iter().flatten() {
            let address = rail["address"].as_str().expect(line);
            let (network, _) = address.rsplit_once('.').expect(line);
            *sent.entry(network.to_owned()).or_default() += rail["stats"]["bytes_sent"].as_u64().expect(line);
        }
    }
    sent
}

#[test]
fn two_pollers_with_two_ports() {
    let pair = Pair::on_two_memifs();
    pair.run_all(&[]);
    pair.run_all(&[UDP]);
    let text = pair.run(4, &[], &["ft", "S"], &[COUNTED]);
    let sent = sent_by_rails(&text);
    assert_eq!(sent.len(), 2, "{sent:?}: {text}");
    assert!(sent.values().all(|bytes| *bytes > TRANSPOSED / 10), "{sent:?}: {text}");
    // Ranks of one poller have no rails: nothing between them passes a port.
    let here = succeeds(&pair.pollers[0].run(2, &["ft", "S"], &[COUNTED]));
    assert_eq!(sent_by_rails(&here).len(), 0, "{here}");
    pair.end();
}

/// The first ports have no link: sessions are opened by the second ones.
#[test]
fn two_hosts_whose_first_link_is_cut() {
    const SECOND: &str = "second";
    let Some(hosts) = Hosts::new() else { return };
    hosts.veth.add_pair(SECOND, 1500);
    for end in hosts.ends() {
        ip(&format!("-n {} link set {} down", end.name, Hosts::POLLERS));
        end.exec("sysctl", &["-w", "net.ipv6.conf.all.disable_ipv6=1"], LIMIT);
    }
    let pollers = hosts.pollers_on(&[Hosts::POLLERS, SECOND], BOTH);
    for (program, compares) in PROGRAMS {
        let text = hosts.run(4, program, &[COUNTED]);
        assert!(!compares || text.contains(RIGHT), "{program:?}: {text}");
        let sent = sent_by_rails(&text);
        assert!(sent["10.98.0"] > 0, "{program:?}, {sent:?}: {text}");
    }
    for poller in pollers.map(Poller::end) {
        assert!(poller.packets > 0 && poller.bytes > TRANSPOSED, "{poller:?}");
    }
}

#[test]
fn large_messages_past_two_pollers() {
    let pair = Pair::memif();
    pair.run_all(&[UDP]);
    // Everything that is larger than nothing asks first.
    for program in [&["halo", "16", "3"][..], &["sizes"], &["window"], &["all_to_all"]] {
        pair.run(4, &[], program, &[UDP, ASK]);
    }
    pair.end();
    for ranks in [2, 4] {
        let pair = Pair::memif();
        let text = pair.run(ranks, &[], &["ft", "S"], &[UDP, COUNTED]);
        has_gone_past(pair.end(), &text);
    }
}

#[test]
fn large_messages_past_two_pollers_over_a_device_of_the_ranks_own() {
    let pair = Pair::memif();
    for program in [&["halo", "16", "3"][..], &["sizes"], &["window"]] {
        pair.run(2, &["--device", "memif"], program, &[DPDK, NO_HUGE]);
    }
    pair.end();
    let pair = Pair::memif();
    let text = pair.run(2, &["--device", "memif"], &["ft", "S"], &[DPDK, NO_HUGE, COUNTED]);
    has_gone_past(pair.end(), &text);
}

/// Two hosts: network namespaces, joined three times. The pollers have one link, the kernels, for sockets, have another
/// one, and four devices of ranks are on two bridges that the third one joins.
struct Hosts {
    veth: Veth,
    folder: Folder,
}

impl Hosts {
    const POLLERS: &str = "wire";
    const BRIDGES: &str = "trunk";

    /// `None` without root and iproute2, which is said.
    fn new() -> Option<Self> {
        let veth = Veth::new(1500)?;
        for (host, end) in [&veth.a, &veth.b].into_iter().enumerate() {
            end.exec("sysctl", &["-w", "net.ipv6.conf.default.disable_ipv6=1"], LIMIT);
            ip(&format!("-n {} link add br0 type bridge", end.name));
            ip(&format!("-n {} link set br0 up", end.name));
            for rank in [2 * host, 2 * host + 1] {
                ip(&format!("-n {} link add r{rank} type veth peer name p{rank}", end.name));
                ip(&format!("-n {} link set p{rank} master br0 up", end.name));
                ip(&format!("-n {} link set r{rank} up", end.name));
            }
        }
        veth.add_pair(Self::POLLERS, 1500);
        veth.add_pair(Self::BRIDGES, 1500);
        for end in [&veth.a, &veth.b] {
            ip(&format!("-n {} link set {} master br0", end.name, Self::BRIDGES));
        }
        let folder = Folder::new();
        let reaches = format!(
            "host=$1; shift\nHIKYAKU_POLLER={}-$host exec ip netns exec $host sh -c \"$*\"\n",
            folder.file("poller")
        );
        fs::write(folder.file("ssh"), reaches).unwrap();
        Some(Self { veth, folder })
    }

    fn ends(&self) -> [&Namespace; 2] {
        [&self.veth.a, &self.veth.b]
    }

    /// A poller in each.
    fn pollers(&self) -> [Poller; 2] {
        self.pollers_on(&[Self::POLLERS], ADDRESSES)
    }

    /// With these interfaces as ports, and these addresses.
    fn pollers_on(&self, interfaces: &[&str], addresses: [&str; 2]) -> [Poller; 2] {
        let [a, b] = self.ends().map(|end| &end.name);
        let device = |interface: &&str| format!("af_packet:iface={interface}");
        let devices = interfaces.iter().map(device).collect::<Vec<_>>().join(",");
        let start = |name: &str, address| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", name]).arg(launcher());
            let socket = self.folder.file(&format!("poller-{name}"));
            Poller::begin(command, &devices, address, &socket)
        };
        let mut pollers = [start(a, addresses[0]), start(b, addresses[1])];
        pollers.iter_mut().for_each(Poller::wait);
        pollers
    }

    /// Runs an example as `ranks` ranks, half of them on each host, and says what it has printed.
    fn run(&self, ranks: u32, program: &[&str], settings: &[(&str, &str)]) -> String {
        let hosts = self.ends().map(|end| format!("{}:{}", end.name, ranks / 2)).join(",");
        let ssh = format!("sh {}", self.folder.file("ssh"));
        let options = ["--host", &hosts, "--ssh", &ssh, "-n", &ranks.to_string()];
        let mut command = job(Command::new(launcher()), &options, settings);
        succeeds(
            &command
                .args(words(program))
                .env("HIKYAKU_IFACE", INTERFACE)
                .env_remove("HIKYAKU_POLLER")
                .output()
                .unwrap(),
        )
    }
}

const LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

#[test]
fn two_hosts() {
    let Some(hosts) = Hosts::new() else { return };
    let pollers = hosts.pollers();
    for ranks in [2, 4] {
        for (program, compares) in PROGRAMS {
            let text = hosts.run(ranks, program, &[]);
            assert!(!compares || text.contains(RIGHT), "{program:?}: {text}");
        }
    }
    for poller in pollers.map(Poller::end) {
        assert!(poller.packets > 0 && poller.bytes > TRANSPOSED, "{poller:?}");
    }
}

/// By the kernel's sockets, and by a device for each rank.
#[test]
fn large_messages_past_the_pollers_of_two_hosts() {
    let Some(hosts) = Hosts::new() else { return };
    let devices = |ranks: &[u32]| {
        ranks
            .iter()
            .map(|rank| format!("af_packet:iface=r{rank}"))
            .collect::<Vec<_>>()
            .join("+")
    };
    for ranks in [2, 4] {
        let places: &[u32] = if ranks == 2 { &[0, 2] } else { &[0, 1, 2, 3] };
        let devices = devices(places);
        let own = [DPDK, NO_HUGE, ("HIKYAKU_DPDK_DEVICE", &*devices)];
        for settings in [&[UDP][..], &own] {
            let pollers = hosts.pollers();
            let text = hosts.run(ranks, &["ft", "S"], &[settings, &[COUNTED]].concat());
            has_gone_past(pollers.map(Poller::end), &text);
            if ranks == 4 {
                let pollers = hosts.pollers();
                for program in [&["halo", "16", "3"][..], &["sizes"], &["window"]] {
                    hosts.run(ranks, program, &[settings, &[ASK]].concat());
                }
                let _ = pollers.map(Poller::end);
            }
        }
    }
}
