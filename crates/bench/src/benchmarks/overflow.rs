//! `bench overflow`: what is lost while a process computes, with the process looking at the network itself and with a
//! poller that looks for it; and what a flood to one process does to another one of the same poller.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::{
    failure::Failure,
    report::{Group, Output, Table, emit},
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench overflow                                50 ms of computing between two looks
  hikyaku bench overflow --compute 10 --descriptors 64
  hikyaku bench overflow --queues 1,2,8 --format json

Processes joined by memif (shared memory) in the place of a card; it takes neither root nor hugepages. What finds no room \
in the queue is lost, and sent again: that is what is counted. With fewer cores than processes (three), times say more \
about the system's turns than about the poller. The flood is counted in packets, by one thread.";

/// Options of `bench overflow`.
#[derive(Clone, Debug, Args)]
pub(crate) struct OverflowArgs {
    /// Time that the receiver computes between two looks, ms
    #[arg(long, default_value_t = 50, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=1_000))]
    compute: u64,
    /// Time that is sent for, s
    #[arg(long, default_value_t = 4, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Bytes of a message; each goes in a packet of its own
    #[arg(long, default_value_t = 2_048, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=8_000))]
    size: u32,
    /// Messages a second: what comes in a computation is to be more than a queue holds, and less than a poller can take
    #[arg(long, default_value_t = 15_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: u32,
    /// Packets that wait in a queue of the port
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = clap::value_parser!(u16).range(64..=16_384))]
    descriptors: u16,
    /// Queues of the port with the flood
    #[arg(long, default_value = "1,4", value_delimiter = ',', value_name = "LIST",
          value_parser = clap::value_parser!(u16).range(1..=16))]
    queues: Vec<u16>,
    /// The output.
    #[command(flatten)]
    output: Output,
    /// The part that a process started by this benchmark plays
    #[arg(long, hide = true, value_enum)]
    part: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Takes messages, and computes in between.
    Compute,
    /// Floods a poller of its own.
    Flood,
}

/// A line of results.
#[derive(Debug, Serialize)]
struct Row {
    table: &'static str,
    transport: String,
    queues: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resends: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mb_per_s: Option<f64>,
    /// Packets of the flood that wait in the port, those of them that the poller takes before the other's, and times that
    /// the other's found no room.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_before: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<u64>,
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    compute_ms: u64,
    size: u32,
    rate: u32,
    descriptors: u16,
    rows: Vec<Row>,
}

fn print(args: &OverflowArgs, rows: Vec<Row>) -> Result<(), Failure> {
    let about = |text: &str| vec![text.to_owned()];
    let mut loss = Table::new(
        about(&format!(
            "The receiver computes {} ms between two looks; {} messages of {} B a second, queue of {} packets, over memif",
            args.compute, args.rate, args.size, args.descriptors
        )),
        vec![
            Group::new("", &["who looks"]),
            Group::new("", &["messages", "lost", "lost %", "resends", "MB/s"]),
        ],
    );
    let mut flood = Table::new(
        about("One process of a poller is flooded until its queues are full; then a packet comes for another one"),
        vec![
            Group::new("", &["queues"]),
            Group::new("packets of the flood", &["that wait", "taken before"]),
            Group::new("the other's packet", &["found no room"]),
        ],
    );
    let cell = |number: Option<f64>, digits: usize| number.map_or_else(String::new, |n| format!("{n:.digits$}"));
    let count = |number: Option<u64>| number.map_or_else(String::new, |n| n.to_string());
    for row in &rows {
        if row.table == "loss" {
            loss.row(vec![
                row.transport.clone(),
                count(row.messages),
                count(row.lost),
                cell(row.lost_percent, 2),
                count(row.resends),
                cell(row.mb_per_s, 1),
            ]);
        } else {
            flood.row(vec![
                row.queues.to_string(),
                count(row.waiting),
                count(row.taken_before),
                count(row.refused),
            ]);
        }
    }
    let document = Document {
        benchmark: "overflow",
        compute_ms: args.compute,
        size: args.size,
        rate: args.rate,
        descriptors: args.descriptors,
        rows,
    };
    emit(&args.output, &document, &[loss, flood], None)
}

#[cfg(not(feature = "dpdk"))]
pub(crate) fn run(args: &OverflowArgs) -> Result<(), Failure> {
    let _ = (args.seconds, &args.queues, args.part);
    let _: fn(&OverflowArgs, Vec<Row>) -> Result<(), Failure> = print;
    Err(Failure::usage(
        "bench overflow: this build has no poller; it takes the feature dpdk (and dpdk-dev)",
    ))
}

#[cfg(feature = "dpdk")]
pub(crate) fn run(args: &OverflowArgs) -> Result<(), Failure> {
    match args.part {
        Some(Part::Compute) => real::compute(args),
        Some(Part::Flood) => real::flood_here(args),
        None => print(args, real::measure(args)?),
    }
}

#[cfg(feature = "dpdk")]
mod real {
    use std::{
        env, fs,
        io::{BufRead, BufReader, IoSlice},
        net::SocketAddr,
        path::PathBuf,
        process::{self, Child, Command, Stdio},
        thread,
        time::Duration,
    };

    use hikyaku::{
        Config, Congestion, PeerId,
        backends::{
            Backend, Sent, Transmit,
            dpdk::{Device, DpdkBackend, DpdkOptions, DpdkPort, Memory},
        },
        environment::Environment,
        poller::{Poller, PollerBackend, PollerOptions},
        time::Instant,
        transport::{Transport, WaitPolicy},
    };
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };

    use super::{OverflowArgs, Row};
    use crate::{
        failure::Failure,
        machine::{clock, pin},
    };

    const OURS: &str = "10.98.0.1";
    const THEIRS: &str = "10.98.0.2";
    const PORT: u16 = 7_100;
    const OTHER_PORT: u16 = 7_101;
    const LONG: Duration = Duration::from_secs(20);
    const END: &[u8] = b"end";

    fn failed(error: impl std::fmt::Display) -> Failure {
        Failure::run(format!("bench overflow: {error}"))
    }

    /// Seconds since some time.
    fn seconds() -> f64 {
        clock::now() as f64 / 1e9
    }

    /// No message shares a packet with others, and nothing but the window, which the receiver's buffer bounds, limits what
    /// is on its way.
    fn config() -> Config {
        Config {
            bundle: false,
            congestion: Congestion::Fixed,
            window_bytes: 16 << 20,
            unexpected_bytes: 64 << 20,
            ..Config::default()
        }
    }

    /// A process, killed when this is dropped.
    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            // It may have ended.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl Running {
        /// Starts this program once more, and waits until it says something.
        fn start(words: &[String], variables: &[(&str, &str)]) -> Result<Self, Failure> {
            let program = env::current_exe().map_err(failed)?;
            let mut command = Command::new(program);
            command
                .args(words)
                .envs(variables.iter().copied())
                .stdout(Stdio::piped());
            let mut child = Self(command.spawn().map_err(failed)?);
            let mut line = String::new();
            if let Some(stdout) = &mut child.0.stdout {
                BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
            }
            if line.is_empty() {
                return Err(failed(format!("`hikyaku {}` does not start", words.join(" "))));
            }
            Ok(child)
        }

        /// Asks it to end, and waits until it has.
        fn end(mut self) -> Result<(), Failure> {
            kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM).map_err(failed)?;
            self.0.wait().map_err(failed)?;
            Ok(())
        }
    }

    /// A folder for sockets, removed in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Result<Self, Failure> {
            let folder = env::temp_dir().join(format!("hikyaku-overflow-{}", process::id()));
            fs::create_dir_all(&folder).map_err(failed)?;
            Ok(Self(folder))
        }

        fn memif(&self, number: usize, role: &str) -> String {
            let socket = self.0.join(format!("memif{number}"));
            format!("memif:socket={},role={role}", socket.display())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn options(args: &OverflowArgs, device: &str, queues: u16) -> Result<DpdkOptions, Failure> {
        let mut options = DpdkOptions::from_environment(&Environment::of_process(), Some(device)).map_err(failed)?;
        options.device = Device::parse(device).map_err(failed)?;
        options.memory = Memory::NoHuge;
        // Both ends of a link, in the flood; it is taken as it is used.
        options.memory_mb = 8_192;
        options.descriptors = Some(args.descriptors);
        options.queues = queues;
        Ok(options)
    }

    fn transport(backend: DpdkBackend) -> Result<Transport, Failure> {
        let builder = Transport::builder()
            .config(config())
            .processor(1)
            .wait(WaitPolicy::Spin);
        builder.backend(Box::new(backend)).map_err(failed)
    }

    /// The rank that computes: with the backend that the environment names.
    pub(super) fn compute(args: &OverflowArgs) -> Result<(), Failure> {
        let mut transport = rank(PORT)?;
        println!("ready");
        loop {
            loop {
                transport.progress().map_err(failed)?;
                let mut any = false;
                while let Some(message) = transport.try_receive().map_err(failed)? {
                    any = true;
                    if message.data() == END {
                        transport.close(LONG).map_err(failed)?;
                        return Ok(());
                    }
                }
                if !any {
                    break;
                }
            }
            let until = seconds() + args.compute as f64 / 1e3;
            while seconds() < until {
                std::hint::spin_loop();
            }
        }
    }

    fn rank(port: u16) -> Result<Transport, Failure> {
        let config = Config {
            accept_strangers: true,
            ..config()
        };
        let builder = Transport::builder().config(config).processor(2).environment();
        builder.bind("poller", (THEIRS, port)).map_err(failed)
    }

    /// Two cores, which may be the same.
    fn cores() -> [usize; 2] {
        let places = pin::places();
        let at = |index: usize| places.get(index).or_else(|| places.first()).copied().unwrap_or(0);
        [at(0), at(1)]
    }

    /// This process, and those that it starts, run there. If that is not allowed they run anywhere.
    fn pin(cpu: usize) {
        let _ = pin::pin(cpu);
    }

    fn words(args: &OverflowArgs) -> Vec<String> {
        let compute = args.compute.to_string();
        ["bench", "overflow", "--part", "compute", "--compute", &compute]
            .map(str::to_owned)
            .into()
    }

    fn poller(args: &OverflowArgs, folder: &Folder, device: &str) -> Result<(Running, String), Failure> {
        let socket = folder.0.join("poller").display().to_string();
        let words = [
            "poller",
            "--device",
            device,
            "--address",
            THEIRS,
            "--socket",
            &socket,
            "--buffers",
            "16384",
            "--wait",
            "spin",
        ];
        let descriptors = args.descriptors.to_string();
        let variables = [
            ("HIKYAKU_DPDK_MEMORY", "no-huge"),
            ("HIKYAKU_DPDK_DESCRIPTORS", &*descriptors),
        ];
        Ok((Running::start(&words.map(str::to_owned), &variables)?, socket))
    }

    pub(super) fn measure(args: &OverflowArgs) -> Result<Vec<Row>, Failure> {
        let folder = Folder::new()?;
        let mut rows = vec![loss(args, &folder, false)?, loss(args, &folder, true)?];
        for &queues in &args.queues {
            rows.push(flood(args, queues)?);
        }
        Ok(rows)
    }

    /// Sends to a rank that computes.
    fn loss(args: &OverflowArgs, folder: &Folder, polled: bool) -> Result<Row, Failure> {
        let number = usize::from(polled);
        let [first, second] = cores();
        pin(first);
        let port = DpdkPort::open(&options(args, &folder.memif(number, "server"), 1)?).map_err(failed)?;
        let backend = port
            .bind(format!("{OURS}:{PORT}").parse().expect("an address"), 1)
            .map_err(failed)?;
        let device = folder.memif(number, "client");
        let descriptors = args.descriptors.to_string();
        let mut poller_process = None;
        // The poller has a core of its own; without one, the receiver has.
        pin(second);
        let receiver = if polled {
            let (process, socket) = poller(args, folder, &device)?;
            poller_process = Some(process);
            pin(first);
            Running::start(&words(args), &[("HIKYAKU_POLLER", &*socket)])?
        } else {
            let variables = [
                ("HIKYAKU_BACKEND", "dpdk"),
                ("HIKYAKU_DPDK_DEVICE", &*device),
                ("HIKYAKU_DPDK_MEMORY", "no-huge"),
                ("HIKYAKU_DPDK_DESCRIPTORS", &*descriptors),
            ];
            Running::start(&words(args), &variables)?
        };
        pin(first);
        let mut sender = transport(backend)?;
        let to: PeerId = sender
            .add_peer(format!("{THEIRS}:{PORT}").parse().expect("an address"), 2)
            .map_err(failed)?;
        let data = vec![7_u8; args.size as usize];
        sender.send_blocking(to, &data).map_err(failed)?;
        sender.flush(LONG).map_err(failed)?;
        let (before, taken) = (sender.stats(), port.sent());
        let begun = seconds();
        let mut messages = 0_u64;
        while seconds() < begun + args.seconds as f64 {
            let due = (seconds() - begun) * f64::from(args.rate);
            while (messages as f64) < due && sender.send(to, &data).is_ok() {
                messages += 1;
            }
            sender.progress().map_err(failed)?;
        }
        sender.flush(LONG).map_err(failed)?;
        let took = seconds() - begun;
        // Before the other end goes: with it the port begins to count anew.
        let (after, taken) = (sender.stats(), port.sent().saturating_sub(taken));
        sender.send(to, END).map_err(failed)?;
        sender.close(LONG).map_err(failed)?;
        drop(receiver);
        if let Some(process) = poller_process {
            process.end()?;
        }
        let resends = after.resends - before.resends;
        // What the protocol has sent and the port has not taken: the queue was full.
        let packets = after.packets_sent - before.packets_sent;
        let lost = packets.saturating_sub(taken);
        Ok(Row {
            table: "loss",
            transport: if polled { "a poller" } else { "the process" }.to_owned(),
            queues: 1,
            messages: Some(messages),
            resends: Some(resends),
            lost: Some(lost),
            lost_percent: Some(100.0 * lost as f64 / packets as f64),
            mb_per_s: Some(messages as f64 * f64::from(args.size) / took / 1e6),
            waiting: None,
            taken_before: None,
            refused: None,
        })
    }

    /// Sends a datagram that says nothing; gives whether there was room.
    fn send(backend: &mut DpdkBackend, port: u16) -> Result<bool, Failure> {
        let bytes = [0; 64];
        let slices = [IoSlice::new(&bytes)];
        let transmit = Transmit {
            destination: at(THEIRS, port),
            port: 0,
            segment_size: bytes.len(),
            len: bytes.len(),
            slices: &slices,
            dont_fragment: true,
            token: 0,
        };
        let sent = backend.transmit(now(), &transmit).map_err(failed)?;
        Ok(sent == Sent::All)
    }

    fn at(ip: &str, port: u16) -> SocketAddr {
        SocketAddr::new(ip.parse().expect("an address"), port)
    }

    fn now() -> Instant {
        Instant::from_nanos(clock::now())
    }

    /// Runs [`flood_here`] in a process of its own, and returns its count.
    fn flood(args: &OverflowArgs, queues: u16) -> Result<Row, Failure> {
        let program = env::current_exe().map_err(failed)?;
        let (many, descriptors) = (queues.to_string(), args.descriptors.to_string());
        let words = [
            "bench",
            "overflow",
            "--part",
            "flood",
            "--queues",
            &many,
            "--descriptors",
            &descriptors,
        ];
        let output = Command::new(program)
            .args(words)
            .stderr(Stdio::inherit())
            .output()
            .map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let counts: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [waiting, taken_before, refused] = counts[..] else {
            return Err(failed(format!(
                "the flood over {queues} queues: {}, '{text}'",
                output.status
            )));
        };
        Ok(Row {
            table: "flood",
            transport: "a poller".to_owned(),
            queues,
            messages: None,
            resends: None,
            lost: None,
            lost_percent: None,
            mb_per_s: None,
            waiting: Some(waiting),
            taken_before: Some(taken_before),
            refused: Some(refused),
        })
    }

    /// Floods one process of a poller until its queues are full, and then sends a packet for another one. One thread does
    /// all of it, so nothing depends on the system's turns.
    pub(super) fn flood_here(args: &OverflowArgs) -> Result<(), Failure> {
        let folder = Folder::new()?;
        let queues = args.queues.first().copied().unwrap_or(1);
        let port = DpdkPort::open(&options(args, &folder.memif(0, "server"), queues)?).map_err(failed)?;
        let theirs = options(args, &folder.memif(0, "client"), queues)?;
        let socket = folder.0.join("poller");
        let mut polled = PollerOptions::new(theirs, at(THEIRS, 0).ip(), socket.clone());
        polled.buffers = (4 * u32::from(queues) * u32::from(args.descriptors)).max(512);
        let mut poller = Poller::start(polled).map_err(failed)?;
        let turn = |poller: &mut Poller| poller.turn(now()).map_err(failed);
        // It has a UDP port, and does not look.
        let flooded = thread::scope(|scope| {
            let connects = scope.spawn(|| PollerBackend::connect(&socket, PORT));
            while !connects.is_finished() {
                turn(&mut poller)?;
            }
            connects.join().expect("it does not panic").map_err(failed)
        })?;
        // With queues to choose from, the flood has its own.
        let mut backends = vec![port.bind(at(OURS, PORT), (queues - 1).max(1)).map_err(failed)?];
        if queues > 1 {
            backends.push(port.bind(at(OURS, OTHER_PORT), 1).map_err(failed)?);
        }
        let mac = poller.mac();
        for backend in &mut backends {
            backend.add_neighbour(at(THEIRS, 0).ip(), mac);
        }
        let deadline = seconds() + LONG.as_secs_f64();
        while poller.stats().datagrams_received == 0 {
            send(&mut backends[0], PORT)?;
            turn(&mut poller)?;
            if seconds() > deadline {
                return Err(failed("the link does not come up"));
            }
        }
        while turn(&mut poller)? {}
        let mut waiting = 0_u64;
        while send(&mut backends[0], PORT)? && waiting < 1 << 20 {
            waiting += 1;
        }
        let before = poller.stats();
        let other = backends.last_mut().expect("there is one");
        let mut refused = 0_u64;
        while !send(other, OTHER_PORT)? {
            refused += 1;
            turn(&mut poller)?;
        }
        // No process has that port, which is counted.
        while poller.stats().for_nobody == before.for_nobody {
            turn(&mut poller)?;
            if seconds() > deadline {
                return Err(failed("a packet has got lost"));
            }
        }
        let taken = poller.stats().datagrams_received - before.datagrams_received;
        println!("{waiting} {} {refused}", taken.saturating_sub(1));
        // The driver is not made for a process that closes both ends.
        std::mem::forget((flooded, backends, poller, port));
        Ok(())
    }
}
