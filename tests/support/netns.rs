//! Two network namespaces joined by a veth pair: a real network between real processes, with a real MTU and loss.
//!
//! ```text
//!   namespace …-a                                    namespace …-b
//!   veth0  10.77.0.1/24  fd77::1/64  ───── mtu ─────  veth0  10.77.0.2/24  fd77::2/64
//! ```
//!
//! Needs root and iproute2; loss needs nftables, [`Namespace::split_bursts`] ethtool. Every wait here has an end, and
//! everything made is removed when its value is dropped, also by a panic. What a killed test left behind is removed by
//! the next [`Veth::new`].

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    process::{self, Child, Command, ExitStatus, Stdio},
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// Names of namespaces begin so, then come the process id, a number, and the side.
const PREFIX: &str = "hikyaku-";
/// Name of the one Ethernet interface of a namespace.
pub(crate) const INTERFACE: &str = "veth0";
/// Tells a re-executed test binary which part it plays, see [`role`].
pub(crate) const ROLE: &str = "NETNS_ROLE";
/// For commands that configure something; they take milliseconds.
const CONFIGURE_LIMIT: Duration = Duration::from_secs(10);

/// The part this process was started for by [`Namespace::spawn_role`], if it was.
pub(crate) fn role() -> Option<String> {
    env::var(ROLE).ok()
}

/// The pair.
#[derive(Debug)]
pub(crate) struct Veth {
    /// One end.
    pub(crate) a: Namespace,
    /// The other end.
    pub(crate) b: Namespace,
}

impl Veth {
    /// Both ends up, with addresses and `mtu`. `None` when not root or without `ip`, `nft`: a line says so, once, and the
    /// test should return.
    ///
    /// # Panics
    ///
    /// If root cannot make it, which is a failure and no missing permission.
    pub(crate) fn new(mtu: u32) -> Option<Self> {
        Self::prepared(mtu, |_| {})
    }

    /// The same; each end is prepared before it gets its interface.
    pub(crate) fn prepared(mtu: u32, prepare: impl Fn(&Namespace)) -> Option<Self> {
        let [a, b] = namespaces(["a", "b"])?;
        for end in [&a, &b] {
            prepare(end);
        }
        let veth = Self { a, b };
        veth.add_pair(INTERFACE, mtu);
        for end in [&veth.a, &veth.b] {
            end.add_addresses();
        }
        Some(veth)
    }

    /// Adds a pair: at both ends an interface of this name that is up, without addresses.
    pub(crate) fn add_pair(&self, interface: &str, mtu: u32) {
        join([(&self.a, interface), (&self.b, interface)], [mtu, mtu]);
        for end in [&self.a, &self.b] {
            end.wait_until_up(interface);
        }
    }
}

/// Namespaces with these last letters, the first one host 1, each with its loopback interface only. `None` when not root
/// or without `ip`, `nft`: a line says so, once, and the test should return.
///
/// # Panics
///
/// If root cannot make them, which is a failure and no missing permission.
pub(crate) fn namespaces<const N: usize>(letters: [&str; N]) -> Option<[Namespace; N]> {
    if let Some(why) = obstacle() {
        static SAID: Once = Once::new();
        // Past the harness, which does not show what tests print that pass.
        SAID.call_once(|| {
            let line = "skipped: tests between network namespaces need root, iproute2 and nftables";
            let _ = writeln!(io::stderr(), "{line}: {why}");
        });
        return None;
    }
    remove_leftovers();
    let id = unique_name();
    let mut host = 0;
    Some(letters.map(|letter| {
        host += 1;
        Namespace::new(format!("{id}-{letter}"), host)
    }))
}

/// Joins two namespaces by interfaces of these names, with these MTUs and without addresses.
/// [`Namespace::wait_until_up`] follows.
pub(crate) fn join(ends: [(&Namespace, &str); 2], mtus: [u32; 2]) {
    let [(a, at_a), (b, at_b)] = ends;
    let [mtu_a, mtu_b] = mtus;
    // Made inside the namespaces: the names cannot clash with the host's, and go when the namespaces go.
    ip(&format!(
        "link add {at_a} mtu {mtu_a} netns {} type veth peer name {at_b} mtu {mtu_b} netns {}",
        a.name, b.name
    ));
    for (end, interface) in ends {
        ip(&format!("-n {} link set {interface} up", end.name));
    }
}

/// One end. Dropping it kills the processes in it and removes it.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// As `ip netns` knows it.
    pub(crate) name: String,
    /// Address of [`INTERFACE`].
    pub(crate) ipv4: IpAddr,
    /// Address of [`INTERFACE`].
    pub(crate) ipv6: IpAddr,
}

impl Namespace {
    fn new(name: String, host: u8) -> Self {
        ip(&format!("netns add {name}"));
        ip(&format!("-n {name} link set lo up"));
        Self {
            name,
            ipv4: Ipv4Addr::new(10, 77, 0, host).into(),
            ipv6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host.into()).into(),
        }
    }

    fn add_addresses(&self) {
        let Self { name, ipv4, ipv6 } = self;
        ip(&format!("-n {name} address add {ipv4}/24 dev {INTERFACE}"));
        // Without duplicate address detection, which would take a second before the address can be bound.
        ip(&format!("-n {name} address add {ipv6}/64 dev {INTERFACE} nodad"));
    }

    /// The kernel looks at carriers once a second, and IPv6 is silent until it has.
    pub(crate) fn wait_until_up(&self, interface: &str) {
        let deadline = now() + CONFIGURE_LIMIT;
        let state = format!("/sys/class/net/{interface}/operstate");
        while self.exec("cat", &[&state], CONFIGURE_LIMIT).trim() != "up" {
            assert!(now() < deadline, "{interface} of {} does not come up", self.name);
            pause();
        }
    }

    /// Starts `program` in here.
    pub(crate) fn spawn(&self, program: &str, args: &[&str], envs: &[(&str, &str)]) -> Process {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name, program])
            .args(args)
            .envs(envs.iter().copied());
        Process::spawn(command)
    }

    /// Runs `program` in here to its end and gives what it printed.
    ///
    /// # Panics
    ///
    /// If it fails, or does not end within `limit`.
    pub(crate) fn exec(&self, program: &str, args: &[&str], limit: Duration) -> String {
        let (status, output) = self.spawn(program, args, &[]).finish(limit);
        assert!(
            status.success(),
            "{program} {args:?} in {}: {status}\n{output}",
            self.name
        );
        output
    }

    /// Starts this test binary in here once more, to run only the test `test` with [`role`] set to `role`.
    pub(crate) fn spawn_role(&self, test: &str, role: &str, envs: &[(&str, &str)]) -> Process {
        let binary = env::current_exe().expect("a test knows its binary");
        let binary = binary.to_str().expect("cargo's paths are UTF-8");
        let args = ["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"];
        self.spawn(binary, &args, &[envs, &[(ROLE, role)]].concat())
    }

    /// From now on, `percent` of the IP packets that arrive here are lost, before any socket sees them; 0 ends it.
    ///
    /// A burst that the sender's kernel has not split (GSO) is one packet here: see [`Self::split_bursts`].
    pub(crate) fn loss(&self, percent: u32) {
        self.loss_on(INTERFACE, percent);
    }

    /// The same at one interface.
    pub(crate) fn loss_on(&self, interface: &str, percent: u32) {
        assert!(percent <= 100, "{percent} %");
        // To add and delete first replaces the table whether it was there or not.
        let mut rules = "add table inet hikyaku\ndelete table inet hikyaku\n".to_owned();
        if percent > 0 {
            rules += "add table inet hikyaku\n";
            rules += "add chain inet hikyaku in { type filter hook input priority 0; policy accept; }\n";
            // nft refuses a comparison that is always true.
            let dice = if percent < 100 {
                format!("numgen random mod 100 < {percent}")
            } else {
                String::new()
            };
            rules += &format!("add rule inet hikyaku in iifname {interface} meta l4proto udp {dice} drop\n");
        }
        self.nft(&rules);
    }

    /// Adds a rule of nftables for packets that come in.
    pub(crate) fn filter(&self, rule: &str) {
        self.nft(&format!(
            "add table inet rules\nadd chain inet rules in {{ type filter hook input priority 0; }}\n\
             add rule inet rules in {rule}\n"
        ));
    }

    /// Takes commands of nftables.
    pub(crate) fn nft(&self, commands: &str) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, "nft", "-f", "-"]);
        run(command, commands);
    }

    /// It is a router from now on.
    pub(crate) fn forwards(&self) {
        for switch in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            self.exec("sysctl", &["-w", switch], CONFIGURE_LIMIT);
        }
    }

    /// No ICMP error reaches this namespace, so that a port where nobody listens is silent.
    pub(crate) fn ignore_icmp(&self) {
        self.block_icmp("input");
    }

    /// The kernel's hook `input` or `output` drops ICMP errors.
    pub(crate) fn block_icmp(&self, hook: &str) {
        // Neighbours of IPv6 are found by ICMP too.
        let rules = format!(
            "add table inet mute\nadd chain inet mute errors {{ type filter hook {hook} priority 0; policy accept; }}\n\
             add rule inet mute errors icmp type destination-unreachable drop\n\
             add rule inet mute errors icmpv6 type {{ destination-unreachable, packet-too-big }} drop\n"
        );
        self.nft(&rules);
    }

    /// Takes the link away, or brings it back. The addresses stay.
    pub(crate) fn link(&self, up: bool) {
        let keep = format!("net.ipv6.conf.{INTERFACE}.keep_addr_on_down=1");
        self.exec("sysctl", &["-w", &keep], CONFIGURE_LIMIT);
        let state = if up { "up" } else { "down" };
        ip(&format!("-n {} link set {INTERFACE} {state}", self.name));
    }

    /// Makes the kernel split bursts (UDP segmentation offload) before they leave, as a card without the offload needs
    /// it, so that each datagram is lost by itself.
    pub(crate) fn split_bursts(&self) {
        self.split_bursts_on(INTERFACE);
    }

    /// The same at one interface.
    pub(crate) fn split_bursts_on(&self, interface: &str) {
        let args = ["-K", interface, "tx-udp-segmentation", "off"];
        self.exec("ethtool", &args, CONFIGURE_LIMIT);
    }

    /// A counter of the kernel, for instance `("Ip", "FragCreates")`, from `/proc/net/snmp`.
    pub(crate) fn counter(&self, protocol: &str, name: &str) -> u64 {
        let text = self.exec("cat", &["/proc/net/snmp"], CONFIGURE_LIMIT);
        let prefix = format!("{protocol}:");
        let mut lines = text.lines().filter(|line| line.starts_with(&prefix));
        let (names, values) = lines
            .next()
            .zip(lines.next())
            .expect("the protocol is one of those of RFC 1213");
        let column = names
            .split_whitespace()
            .position(|column| column == name)
            .expect("the counter exists");
        values
            .split_whitespace()
            .nth(column)
            .and_then(|value| value.parse().ok())
            .expect("a counter is a number")
    }
}

/// A path through a router whose far side carries less than both ends believe.
///
/// ```text
///   namespace …-a                 namespace …-r                          namespace …-b
///   veth0 10.77.0.1   ── 9000 ──  veth0 10.77.0.254
///         fd77::1                 veth1 10.78.0.254  ── path MTU, 9000 ── veth0 10.78.0.2, fd78::2
/// ```
///
/// A datagram that is too large is answered by ICMP on the way from `a` to `b`, and silently lost on the way back.
#[derive(Debug)]
pub(crate) struct Routed {
    /// One end.
    pub(crate) a: Namespace,
    /// The other end.
    pub(crate) b: Namespace,
    pub(crate) router: Namespace,
}

impl Routed {
    /// `mtu`: of the path. `None` as [`Veth::new`].
    ///
    /// # Panics
    ///
    /// If root cannot make it.
    pub(crate) fn new(mtu: u32) -> Option<Self> {
        let Veth { a, b: mut router } = Veth::new(9000)?;
        let mut b = Namespace::new(format!("{}-b2", router.name.trim_end_matches("-b")), 2);
        join([(&router, "veth1"), (&b, INTERFACE)], [mtu, 9000]);
        b.wait_until_up(INTERFACE);
        b.ipv4 = Ipv4Addr::new(10, 78, 0, 2).into();
        b.ipv6 = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 2).into();
        b.add_addresses();
        router.forwards();
        for (side, network) in [(INTERFACE, 77), ("veth1", 78)] {
            ip(&format!(
                "-n {} address add 10.{network}.0.254/24 dev {side}",
                router.name
            ));
            ip(&format!(
                "-n {} address add fd{network}::fe/64 dev {side} nodad",
                router.name
            ));
        }
        for (end, network) in [(&a, 77), (&b, 78)] {
            ip(&format!("-n {} route add default via 10.{network}.0.254", end.name));
            ip(&format!("-n {} -6 route add default via fd{network}::fe", end.name));
        }
        router.ipv4 = Ipv4Addr::new(10, 77, 0, 254).into();
        Some(Self { a, b, router })
    }

    /// From now on the router forwards packets of `mtu` bytes at most, both ways. Packets of IPv4 that may be
    /// fragmented are.
    pub(crate) fn shrink(&self, mtu: u32) {
        let router = &self.router.name;
        for (side, network) in [(INTERFACE, 77), ("veth1", 78)] {
            ip(&format!(
                "-n {router} route replace 10.{network}.0.0/24 dev {side} proto kernel scope link mtu lock {mtu}"
            ));
            ip(&format!(
                "-n {router} -6 route replace fd{network}::/64 dev {side} proto kernel metric 256 mtu lock {mtu}"
            ));
        }
    }

    /// The router says nothing any more about what it cannot forward.
    pub(crate) fn block_icmp(&self) {
        self.router.block_icmp("output");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Lines of both its outputs as they come; disconnected when both are closed.
    lines: Receiver<String>,
    seen: String,
}

impl Process {
    /// Starts `command`, in whatever namespace that is.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (sender, lines) = mpsc::channel();
        let stdout: Box<dyn Read + Send> = Box::new(child.stdout.take().expect("piped"));
        let stderr: Box<dyn Read + Send> = Box::new(child.stderr.take().expect("piped"));
        for output in [stdout, stderr] {
            let sender = sender.clone();
            // Ends when the child has closed its end, or been killed.
            thread::spawn(move || {
                BufReader::new(output)
                    .lines()
                    .map_while(Result::ok)
                    .try_for_each(|line| sender.send(line))
            });
        }
        Self {
            child,
            lines,
            seen: String::new(),
        }
    }

    /// Waits until it prints a line that contains `wanted`, and gives what comes after `wanted` in it.
    ///
    /// # Panics
    ///
    /// If it ends before, or `limit` passes.
    pub(crate) fn wait_for(&mut self, wanted: &str, limit: Duration) -> String {
        let deadline = now() + limit;
        while let Ok(line) = self.next_line(deadline) {
            if let Some((_, rest)) = line.split_once(wanted) {
                return rest.to_owned();
            }
        }
        panic!("no '{wanted}' within {limit:?}; it printed:\n{}", self.seen);
    }

    /// Waits until it has ended; gives how, and all that it printed.
    ///
    /// # Panics
    ///
    /// If `limit` passes.
    pub(crate) fn finish(mut self, limit: Duration) -> (ExitStatus, String) {
        let deadline = now() + limit;
        while let Ok(_line) = self.next_line(deadline) {}
        // Both outputs are closed or the time is over, so that it is about to end, or never will.
        let status = wait_until(&mut self.child, deadline);
        let output = std::mem::take(&mut self.seen);
        (
            status.unwrap_or_else(|| panic!("not ended within {limit:?}; it printed:\n{output}")),
            output,
        )
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill")
            .args([&format!("-{signal}"), &self.child.id().to_string()])
            .status();
        assert!(status.is_ok_and(|status| status.success()), "kill -{signal}");
    }

    /// Kills it, as `kill -KILL`, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Looks for `time` whether it ends, which it must not.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub(crate) fn outlasts(&mut self, time: Duration) {
        let status = wait_until(&mut self.child, now() + time);
        assert!(status.is_none(), "it has ended: {status:?}\n{}", self.seen);
    }

    /// Passes over the lines that it has printed so far.
    pub(crate) fn skip(&mut self) {
        while self.next_line(now()).is_ok() {}
    }

    fn next_line(&mut self, deadline: Instant) -> Result<String, RecvTimeoutError> {
        let line = self.lines.recv_timeout(deadline.saturating_duration_since(now()))?;
        self.seen.push_str(&line);
        self.seen.push('\n');
        Ok(line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // `ip netns exec` replaces itself by the program, so this is the program. An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "bounds waits for other processes, which run in real time"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Between two looks at something that nobody reports.
#[expect(
    clippy::disallowed_methods,
    reason = "processes and interfaces are polled, see the callers"
)]
fn pause() {
    thread::sleep(Duration::from_millis(2));
}

/// Polls, as `std` has no wait for a process with a deadline.
fn wait_until(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return Some(status);
        }
        if now() >= deadline {
            return None;
        }
        pause();
    }
}

/// Of this process and no other use in it.
fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Why namespaces cannot be made here.
fn obstacle() -> Option<String> {
    for (program, args) in [("ip", ["-V"]), ("nft", ["-v"])] {
        if let Err(error) = Command::new(program).args(args).output() {
            return Some(format!("{program}: {error}"));
        }
    }
    let probe = unique_name();
    let output = Command::new("ip").args(["netns", "add", &probe]).output().ok()?;
    let _ = Command::new("ip").args(["netns", "del", &probe]).output();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Removes namespaces of test processes that are gone.
fn remove_leftovers() {
    let output = Command::new("ip")
        .args(["netns", "list"])
        .output()
        .expect("ip was there before");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let Some(pid) = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()) else {
            continue;
        };
        if !std::path::Path::new("/proc").join(pid).exists() {
            remove(name);
        }
    }
}

/// Kills what runs in the namespace, which would keep it alive, and removes it. Never panics: it runs in `drop`.
fn remove(name: &str) {
    if let Ok(pids) = Command::new("ip").args(["netns", "pids", name]).output() {
        let pids = String::from_utf8_lossy(&pids.stdout).into_owned();
        if !pids.trim().is_empty() {
            let _ = Command::new("kill").arg("-KILL").args(pids.split_whitespace()).output();
        }
    }
    if let Err(error) = Command::new("ip").args(["netns", "del", name]).output() {
        eprintln!("namespace {name} is left behind: {error}");
    }
}

pub(crate) fn ip(line: &str) {
    let mut command = Command::new("ip");
    command.args(line.split_whitespace());
    run(command, "");
}

/// Runs lines of `ip` in a namespace, by one process.
pub(crate) fn ip_batch(namespace: &str, lines: &str) {
    let mut command = Command::new("ip");
    command.args(["-n", namespace, "-batch", "-"]);
    run(command, lines);
}

/// Runs a command that configures something, with `input` on its standard input.
fn run(mut command: Command, input: &str) {
    let mut run = || -> io::Result<_> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        // Dropped at once: the end of the file.
        child.stdin.take().expect("piped").write_all(input.as_bytes())?;
        let status = wait_until(&mut child, now() + CONFIGURE_LIMIT);
        if status.is_none() {
            child.kill()?;
        }
        let mut messages = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut messages)?;
        Ok((status, messages))
    };
    let (status, messages) = run().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        status.is_some_and(|status| status.success()),
        "{command:?}: {status:?}\n{messages}"
    );
}
