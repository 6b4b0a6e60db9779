//! `hikyaku poller`: the node-wide poller process.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use hikyaku_bench::failure::Failure;

/// How to use it.
pub(crate) const EXAMPLES: &str = "\
A process that owns a port of DPDK and runs the protocol for the processes of this host: nothing is lost while they \
compute, and they need neither root nor DPDK. Processes with DPDK send and receive large messages by queues of the port \
themselves, where another process can poll some: on a memif or a ring, with hugepages in a mounted hugetlbfs (and on \
cards, where that has never run). The second line says whether they can, or why not; HIKYAKU_POLLER_BULK=off switches it \
off for a process, --bulk-queues 0 for all.

Examples:
  hikyaku poller --device af_packet:iface=eth1 --address 10.0.0.7 --socket /tmp/p &
  HIKYAKU_POLLER=/tmp/p my-program                      with the backend `poller`
  HIKYAKU_BACKEND=poller HIKYAKU_POLLER=/tmp/p my-mpi-program
  hikyaku poller --device af_packet:iface=eth1,af_packet:iface=eth2 --address 10.0.0.7,10.1.0.7 &
                                                        two ports, by which each peer has two rails
  hikyaku poller --device memif:socket=/tmp/m,role=server --address 10.0.0.1 --socket /tmp/a &
  hikyaku poller --device memif:socket=/tmp/m,role=client --address 10.0.0.2 --socket /tmp/b &
                                                        two of them on one host, to try it out

The address is the port's own: no interface of the kernel may have it. Several ports are named in the same order of \
networks on all hosts. Ctrl-C or SIGTERM ends the poller, which prints \
its counters; its processes then fail with an error that says so. Give it a core of its own (taskset -c 1 hikyaku \
poller …) and --wait spin; with fewer cores, --wait nap. HIKYAKU_DPDK_* are described by `hikyaku doctor` \
and in docs/dpdk.md.";

/// The behaviour of an idle poller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wait {
    /// Polls all the time.
    Spin,
    /// Polls for a millisecond, then sleeps for 50 µs at a time.
    Adaptive,
    /// Sleeps for 50 µs at a time.
    Nap,
}

/// A number of processes; `None`: the poller finds it out.
#[derive(Clone, Copy, Debug)]
struct BulkQueues(Option<u16>);

fn bulk_queues(text: &str) -> Result<BulkQueues, String> {
    if text == "auto" {
        return Ok(BulkQueues(None));
    }
    let number = text.parse().ok().filter(|number| *number <= 15);
    let number = number.ok_or("it is auto, or a number from 0 to 15")?;
    Ok(BulkQueues(Some(number)))
}

/// Options of `poller`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PollerArgs {
    /// The port: memif:socket=PATH,role=server, af_packet:iface=NAME, port:0000:03:00.0, … or up to six, separated by
    /// commas [default: HIKYAKU_DPDK_DEVICE]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// IP address of the port; of several, one for each, in their order, separated by commas
    #[arg(long, value_name = "IP", value_delimiter = ',', required = true)]
    address: Vec<IpAddr>,
    /// The socket for processes [default: hikyaku-poller in $XDG_RUNTIME_DIR if that is yours alone, else in
    /// /tmp/hikyaku-USER, which is made]
    #[arg(long, value_name = "PATH", env = "HIKYAKU_POLLER")]
    socket: Option<PathBuf>,
    /// Queues of each port in each direction
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    queues: u16,
    /// Processes that send and receive their large messages by queues of the first port, at the same time; `auto`: as many
    /// as the port, and DPDK's memory, allow (2 on a memif, 3 on a ring), and none beside a second port; 0: none
    #[arg(long, value_name = "N", default_value = "auto", value_parser = bulk_queues)]
    bulk_queues: BulkQueues,
    /// Buffers for received packets
    #[arg(long, value_name = "N", default_value_t = 8_192)]
    buffers: u32,
    /// How to wait while there is nothing to do
    #[arg(long, value_enum, default_value_t = Wait::Adaptive)]
    wait: Wait,
}

#[cfg(not(feature = "dpdk"))]
pub(crate) fn run(args: &PollerArgs) -> Result<(), Failure> {
    let _ = (
        &args.device,
        &args.address,
        &args.socket,
        args.queues,
        args.buffers,
        args.bulk_queues.0,
        spin(args.wait),
    );
    Err(Failure::usage(
        "this build has no poller: it takes `cargo build --release -p hikyaku-cli --features dpdk` (and dpdk-dev)",
    ))
}

#[cfg(feature = "dpdk")]
pub(crate) fn run(args: &PollerArgs) -> Result<(), Failure> {
    use hikyaku::{
        backends::{Place, dpdk::DpdkOptions},
        environment::Environment,
        poller::{Poller, PollerOptions, default_socket},
    };
    use hikyaku_bench::{failure::While, report::write};
    use nix::sys::signal::Signal;

    use crate::run::signals::Signals;

    // Before DPDK's threads, so that none of them takes them.
    let signals = Signals::take(&[Signal::SIGINT, Signal::SIGTERM]).or_fail("taking signals")?;
    let environment = Environment::of_process();
    let ports = DpdkOptions::of_process(&environment, args.device.as_deref(), Place::default());
    let mut ports = ports.map_err(|error| Failure::usage(error.to_string()))?;
    let addresses = &args.address;
    if ports.len() != addresses.len() {
        return Err(Failure::usage(format!(
            "{} of --device and {} of --address: each port has an address of its own",
            count(ports.len(), "device", "devices"),
            count(addresses.len(), "address", "addresses"),
        )));
    }
    for (port, address) in ports.iter_mut().zip(addresses) {
        (port.queues, port.address) = (args.queues, *address);
    }
    let dpdk = ports.remove(0);
    // Received packets are not in DPDK's memory, those to be sent are.
    let fail = |error: &dyn std::fmt::Display| Failure::run(format!("the poller does not start: {error}"));
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => default_socket(&environment).map_err(|error| fail(&error))?,
    };
    let mut options = PollerOptions::new(dpdk, addresses[0], socket.clone());
    options.further = ports;
    options.buffers = args.buffers;
    options.bulk_queues = args.bulk_queues.0;
    options.spin = spin(args.wait);
    let mut poller = Poller::start(options).map_err(|error| fail(&error))?;
    let mut ports = poller.ports().map(|port| {
        let [a, b, c, d, e, f] = port.mac;
        format!(
            "{} ({a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}) on {}",
            port.address, port.device
        )
    });
    let first = ports.next().unwrap_or_default();
    let further: String = ports.map(|port| format!("and {port}\n")).collect();
    let bulk = match poller.bulk_queues() {
        Ok(processes) => format!("queues for large messages: for {processes} processes of this host"),
        Err(why) => format!("large messages go through the poller: {why}"),
    };
    write(&format!(
        "{first}: HIKYAKU_POLLER={}\n{bulk}\n{further}",
        socket.display()
    ))?;
    let ended = poller.run(|| signals.next().is_some());
    write(&table(&poller))?;
    ended.or_fail("the port has failed")
}

/// `2 devices`.
#[cfg(feature = "dpdk")]
fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// How long to poll before sleeping.
fn spin(wait: Wait) -> Option<Duration> {
    match wait {
        Wait::Spin => None,
        Wait::Adaptive => Some(Duration::from_millis(1)),
        Wait::Nap => Some(Duration::ZERO),
    }
}

/// Statistics of the poller.
#[cfg(feature = "dpdk")]
fn table(poller: &hikyaku::poller::Poller) -> String {
    use hikyaku::{backends::dpdk::DpdkStats, poller::PollerPort};

    let (stats, pools) = (poller.stats(), poller.pools());
    let ports: Vec<PollerPort> = poller.ports().collect();
    let sum = |count: fn(&DpdkStats) -> u64| -> u64 { ports.iter().map(|port| count(&port.dpdk_stats)).sum() };
    let strangers = stats.dropped.of(hikyaku::DropReason::Stranger);
    let rows: [(&str, u64); 27] = [
        ("processes: came", stats.came),
        ("  left with a goodbye", stats.left),
        ("  ended without one", stats.died),
        ("  thrown out", stats.thrown_out),
        ("  refused, or no processes of ours", stats.refused + stats.strangers),
        ("  still here", stats.processes as u64),
        ("  with queues for large messages", stats.queues_given),
        ("  without, because all were taken", stats.queues_denied),
        ("datagrams: received", stats.datagrams_received),
        ("  sent", stats.datagrams_sent),
        ("  bytes received", stats.bytes_received),
        ("  bytes sent", stats.bytes_sent),
        ("  sent again", stats.resends),
        ("  given up: no room in the port", sum(|port| port.untaken)),
        ("  lent to processes", stats.lent),
        ("  copied to them", stats.copied),
        ("  put off: no room at a process", stats.put_off),
        ("  dropped: a process does not read", stats.unread),
        ("  dropped: strangers, or another job's", strangers),
        ("  dropped for another reason", stats.dropped.total() - strangers),
        ("  for UDP ports without a process", stats.for_nobody),
        ("  unresolved neighbours", sum(|port| port.unresolved)),
        (
            "frames: malformed",
            sum(|port| port.malformed + port.bad_checksum + port.oversized),
        ),
        (
            "  for others, or something else",
            sum(|port| port.not_ours + port.other_protocol + port.vlan + port.fragments),
        ),
        (
            "  missed by the port",
            sum(|port| port.port_missed + port.port_no_buffer),
        ),
        ("buffers on loan", stats.on_loan.into()),
        ("buffers in use", pools.receive().in_use.into()),
    ];
    let row = |name: &str, count: u64| format!("{name:<36}{count:>14}\n");
    let mut table: String = rows.iter().map(|(name, count)| row(name, *count)).collect();
    if ports.len() > 1 {
        for PollerPort { address, stats, .. } in &ports {
            table += &row(&format!("port {address}: bytes received"), stats.bytes_received);
            table += &row("  sent", stats.bytes_sent);
        }
    }
    table
}
