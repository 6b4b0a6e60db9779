//! `bench overflow`: what is lost while a process computes, with the process looking at the network itself and with a
//! poller that looks for it; and what a flood to one process does to another one of the same poller.

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{
    output::emit,
    table::{Group, Table},
};
use crate::{args::Output, failure::Failure};

/// Options of `bench overflow`.
#[derive(Clone, Debug, Args)]
pub(crate) struct OverflowArgs {
    /// Time that the receiver computes between two looks, ms
    #[arg(long, default_value_t = 50, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=1_000))]
    compute: u64,
    /// Time that is sent for, s
    #[arg(long, default_value_t = 4, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Octets of a message; each goes in a packet of its own
    #[arg(long, default_value_t = 2_048, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=8_000))]
    size: u32,
    /// Packets that wait in a queue of the port
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u16).range(64..=16_384))]
    descriptors: u16,
    /// Queues of the port with the flood
    #[arg(long, default_value = "1,4", value_delimiter = ',', value_name = "LIST",
          value_parser = clap::value_parser!(u16).range(1..=16))]
    queues: Vec<u16>,
    /// What comes out.
    #[command(flatten)]
    output: Output,
    /// What a process started by this benchmark does
    #[arg(long, hide = true, value_enum)]
    part: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Takes messages, and computes in between.
    Compute,
    /// Sends messages back.
    Echo,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trips_alone_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trips_flooded_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_round_trip_us: Option<f64>,
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    compute_ms: u64,
    size: u32,
    descriptors: u16,
    rows: Vec<Row>,
}

fn print(args: &OverflowArgs, rows: Vec<Row>) -> Result<(), Failure> {
    let about = |text: &str| vec![text.to_owned()];
    let mut loss = Table::new(
        about(&format!(
            "The receiver computes {} ms between two looks; {} B messages, queue of {} packets, over memif",
            args.compute, args.size, args.descriptors
        )),
        vec![
            Group::new("", &["who looks"]),
            Group::new("", &["messages", "lost", "lost %", "resends", "MB/s"]),
        ],
    );
    let mut flood = Table::new(
        about("Round trips of a process of the poller, alone and while another one is flooded"),
        vec![
            Group::new("", &["queues"]),
            Group::new("round trips/s", &["alone", "flooded"]),
            Group::new("longest", &["us"]),
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
                cell(row.round_trips_alone_per_s, 0),
                cell(row.round_trips_flooded_per_s, 0),
                cell(row.longest_round_trip_us, 0),
            ]);
        }
    }
    let document = Document {
        benchmark: "overflow",
        compute_ms: args.compute,
        size: args.size,
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
        Some(Part::Echo) => real::echo(),
        None => print(args, real::measure(args)?),
    }
}

#[cfg(feature = "dpdk")]
mod real {
    use std::{
        env, fs,
        io::{BufRead, BufReader},
        path::PathBuf,
        process::{self, Child, Command, Stdio},
        time::Duration,
    };

    use hikyaku::{
        Config, Congestion, PeerId,
        backends::dpdk::{Device, DpdkBackend, DpdkOptions, DpdkPort, Memory},
        transport::{Transport, WaitPolicy},
    };
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };

    use super::{OverflowArgs, Part, Row};
    use crate::{bench::pin, clock, failure::Failure};

    const OURS: &str = "10.98.0.1";
    const THEIRS: &str = "10.98.0.2";
    const PORT: u16 = 7_100;
    const ECHO_PORT: u16 = 7_101;
    const LONG: Duration = Duration::from_secs(20);
    const END: &[u8] = b"end";

    fn failed(error: impl std::fmt::Display) -> Failure {
        Failure::run(format!("bench overflow: {error}"))
    }

    /// Seconds since some time.
    fn seconds() -> f64 {
        clock::now() as f64 / 1e9
    }

    /// No message shares a packet with others, and nothing but the window limits what is on its way.
    fn config() -> Config {
        Config {
            bundle: false,
            congestion: Congestion::Fixed,
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
        let mut options = DpdkOptions::from_environment(Some(device)).map_err(failed)?;
        options.device = Device::parse(device).map_err(failed)?;
        options.memory = Memory::NoHuge;
        options.descriptors = args.descriptors;
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

    /// The rank that answers.
    pub(super) fn echo() -> Result<(), Failure> {
        let mut transport = rank(ECHO_PORT)?;
        println!("ready");
        loop {
            let message = transport.receive(None).map_err(failed)?;
            let (peer, data) = (message.peer(), message.into_vec());
            if data == END {
                return transport.close(LONG).map_err(failed);
            }
            transport.send(peer, &data).map_err(failed)?;
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

    /// Two processors, which may be the same.
    fn cores() -> [usize; 2] {
        let places = pin::places();
        let at = |index: usize| places.get(index).or_else(|| places.first()).copied().unwrap_or(0);
        [at(0), at(1)]
    }

    /// This process, and those that it starts, run there. If that is not allowed they run anywhere.
    fn pin(cpu: usize) {
        let _ = pin::pin(cpu);
    }

    fn words(args: &OverflowArgs, part: Part) -> Vec<String> {
        let part = if part == Part::Echo { "echo" } else { "compute" };
        let compute = args.compute.to_string();
        ["bench", "overflow", "--part", part, "--compute", &compute]
            .map(str::to_owned)
            .into()
    }

    fn poller(args: &OverflowArgs, folder: &Folder, device: &str, queues: u16) -> Result<(Running, String), Failure> {
        let socket = folder.0.join("poller").display().to_string();
        let queues = queues.to_string();
        let words = [
            "poller",
            "--device",
            device,
            "--address",
            THEIRS,
            "--socket",
            &socket,
            "--queues",
            &queues,
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
        for (index, &queues) in args.queues.iter().enumerate() {
            rows.push(flood(args, &folder, 10 + index, queues)?);
        }
        Ok(rows)
    }

    /// Sends as fast as it goes to a rank that computes.
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
        // The poller has a processor of its own; without one, the receiver has.
        pin(second);
        let receiver = if polled {
            let (process, socket) = poller(args, folder, &device, 1)?;
            poller_process = Some(process);
            pin(first);
            Running::start(&words(args, Part::Compute), &[("HIKYAKU_POLLER", &*socket)])?
        } else {
            let variables = [
                ("HIKYAKU_BACKEND", "dpdk"),
                ("HIKYAKU_DPDK_DEVICE", &*device),
                ("HIKYAKU_DPDK_MEMORY", "no-huge"),
                ("HIKYAKU_DPDK_DESCRIPTORS", &*descriptors),
            ];
            Running::start(&words(args, Part::Compute), &variables)?
        };
        pin(first);
        let mut sender = transport(backend)?;
        let to: PeerId = sender
            .add_peer(2, format!("{THEIRS}:{PORT}").parse().expect("an address"))
            .map_err(failed)?;
        let data = vec![7_u8; args.size as usize];
        sender.send_blocking(to, &data).map_err(failed)?;
        sender.flush(LONG).map_err(failed)?;
        let (before, taken) = (sender.stats(), port.sent());
        let begun = seconds();
        let mut messages = 0_u64;
        while seconds() < begun + args.seconds as f64 {
            if sender.send(to, &data).is_ok() {
                messages += 1;
            } else {
                sender.progress().map_err(failed)?;
            }
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
            round_trips_alone_per_s: None,
            round_trips_flooded_per_s: None,
            longest_round_trip_us: None,
        })
    }

    /// Talks to one rank of a poller while another one, which computes, is flooded.
    fn flood(args: &OverflowArgs, folder: &Folder, number: usize, queues: u16) -> Result<Row, Failure> {
        let [first, second] = cores();
        pin(first);
        let port = DpdkPort::open(&options(args, &folder.memif(number, "server"), queues)?).map_err(failed)?;
        pin(second);
        let (poller, socket) = poller(args, folder, &folder.memif(number, "client"), queues)?;
        pin(first);
        let computes = Running::start(&words(args, Part::Compute), &[("HIKYAKU_POLLER", &*socket)])?;
        let answers = Running::start(&words(args, Part::Echo), &[("HIKYAKU_POLLER", &*socket)])?;
        // With queues to choose from, the flood has its own.
        let at = |port: u16| format!("{OURS}:{port}").parse().expect("an address");
        let mut talk = transport(port.bind(at(PORT), 1).map_err(failed)?)?;
        let mut flood = match queues {
            1 => None,
            _ => Some(transport(port.bind(at(ECHO_PORT), queues - 1).map_err(failed)?)?),
        };
        let to_echo = talk.add_peer(2, format!("{THEIRS}:{ECHO_PORT}").parse().expect("an address"));
        let to_echo = to_echo.map_err(failed)?;
        let to_sink = flood.as_mut().unwrap_or(&mut talk);
        let to_sink = to_sink
            .add_peer(2, format!("{THEIRS}:{PORT}").parse().expect("an address"))
            .map_err(failed)?;
        let data = vec![7_u8; args.size as usize];
        let mut results = [0.0; 2];
        let mut longest = 0.0_f64;
        for flooded in [false, true] {
            let begun = seconds();
            let mut trips = 0_u64;
            talk.send(to_echo, b"ping").map_err(failed)?;
            let mut sent_at = seconds();
            while seconds() < begun + args.seconds as f64 / 2.0 {
                if flooded {
                    let transport = flood.as_mut().unwrap_or(&mut talk);
                    for _ in 0..16 {
                        if transport.send(to_sink, &data).is_err() {
                            break;
                        }
                    }
                    transport.progress().map_err(failed)?;
                }
                if talk.try_receive().map_err(failed)?.is_some() {
                    trips += 1;
                    if flooded {
                        longest = longest.max(seconds() - sent_at);
                    }
                    talk.send(to_echo, b"ping").map_err(failed)?;
                    sent_at = seconds();
                }
            }
            results[usize::from(flooded)] = trips as f64 / (seconds() - begun);
            // The last answer.
            talk.receive(Some(LONG)).map_err(failed)?;
        }
        let sink = flood.as_mut().unwrap_or(&mut talk);
        sink.flush(LONG).map_err(failed)?;
        sink.send(to_sink, END).map_err(failed)?;
        talk.send(to_echo, END).map_err(failed)?;
        if let Some(flood) = flood {
            flood.close(LONG).map_err(failed)?;
        }
        talk.close(LONG).map_err(failed)?;
        drop((computes, answers));
        poller.end()?;
        Ok(Row {
            table: "flood",
            transport: "a poller".to_owned(),
            queues,
            messages: None,
            resends: None,
            lost: None,
            lost_percent: None,
            mb_per_s: None,
            round_trips_alone_per_s: Some(results[0]),
            round_trips_flooded_per_s: Some(results[1]),
            longest_round_trip_us: Some(longest * 1e6),
        })
    }
}
