//! The processes of the benchmark, and how they are joined.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{self, Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use hikyaku::{
    Config, Congestion,
    backends::dpdk::{Device, DpdkOptions, Memory},
    environment::Environment,
    transport::Transport,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::options::{OverflowArgs, Part};
use crate::{failure::Failure, machine::clock};

/// The address of the host that sends …
pub(super) const OURS: &str = "10.98.0.1";
/// … and of the one that receives.
pub(super) const THEIRS: &str = "10.98.0.2";
/// UDP port of the process that takes the messages.
pub(super) const PORT: u16 = 7_100;
/// Longest wait for something that will happen.
pub(super) const LONG: Duration = Duration::from_secs(20);
/// The last message.
pub(super) const END: &[u8] = b"end";

pub(super) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::run(format!("bench overflow: {error}"))
}

/// Seconds since some time.
pub(super) fn seconds() -> f64 {
    clock::now() as f64 / 1e9
}

pub(super) fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

/// No message shares a packet with others, and nothing but the window, which the receiver's buffer bounds, limits what
/// is on its way.
pub(super) fn config() -> Config {
    Config {
        bundle: false,
        congestion: Congestion::Fixed,
        window_bytes: 16 << 20,
        unexpected_bytes: 64 << 20,
        ..Config::default()
    }
}

/// A process at `port` of `ip`, with the backend that the environment names; without one, behind a poller.
pub(super) fn rank(ip: &str, port: u16, processor: u32) -> Result<Transport, Failure> {
    let config = Config {
        accept_strangers: true,
        ..config()
    };
    let builder = Transport::builder().config(config).processor(processor).environment();
    builder.bind("poller", (ip, port)).map_err(failed)
}

/// A process, killed when this is dropped.
pub(super) struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts this program once more.
    fn spawn(words: &[&str], variables: &[(&str, &str)]) -> Result<Self, Failure> {
        let program = env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command
            .args(words)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let Some(output) = child.stdout.take().map(BufReader::new) else {
            return Err(failed("no output"));
        };
        Ok(Self { child, output })
    }

    /// Starts this program once more, and waits until it says something.
    pub(super) fn start(words: &[&str], variables: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut this = Self::spawn(words, variables)?;
        if this.line()?.is_empty() {
            return Err(failed(format!("`hikyaku {}` does not start", words.join(" "))));
        }
        Ok(this)
    }

    /// The next line that it prints; empty: it has ended.
    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(failed)?;
        Ok(line)
    }

    /// Starts a part of this benchmark that says when it is ready.
    pub(super) fn part(args: &OverflowArgs, part: Part, variables: &[(&str, &str)]) -> Result<Self, Failure> {
        let number = |number: u64| number.to_string();
        let [compute, time, size, rate] =
            [args.compute, args.seconds, u64::from(args.size), u64::from(args.rate)].map(number);
        let words = [
            "bench",
            "overflow",
            "--part",
            part.name(),
            "--compute",
            &compute,
            "--seconds",
            &time,
        ];
        Self::start(&[&words[..], &["--size", &size, "--rate", &rate]].concat(), variables)
    }

    /// The numbers in its next line.
    pub(super) fn numbers<const N: usize>(&mut self) -> Result<[f64; N], Failure> {
        let line = self.line()?;
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        numbers
            .try_into()
            .map_err(|_| failed(format!("a part of it says '{line}'")))
    }

    /// Whether it still runs.
    pub(super) fn runs(&mut self) -> Result<bool, Failure> {
        Ok(self.child.try_wait().map_err(failed)?.is_none())
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), Failure> {
        kill(Pid::from_raw(self.child.id() as i32), signal).map_err(failed)
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.signal(Signal::SIGTERM)?;
        self.child.wait().map_err(failed)?;
        Ok(())
    }
}

/// A folder for sockets, removed in the end.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Result<Self, Failure> {
        let folder = env::temp_dir().join(format!("hikyaku-overflow-{}", process::id()));
        fs::create_dir_all(&folder).map_err(failed)?;
        Ok(Self(folder))
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// An end of the link `name`.
    pub(super) fn memif(&self, name: &str, role: &str) -> String {
        format!("memif:socket={},role={role}", self.file(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A port of this process.
pub(super) fn options(args: &OverflowArgs, device: &str, queues: u16) -> Result<DpdkOptions, Failure> {
    let mut options = DpdkOptions::from_environment(&Environment::of_process(), Some(device)).map_err(failed)?;
    options.device = Device::parse(device).map_err(failed)?;
    options.memory = Memory::NoHuge;
    // For all ports of this process, one after the other; it is taken as it is used.
    options.memory_mb = 8_192;
    options.descriptors = Some(args.descriptors);
    options.queues = queues;
    Ok(options)
}

/// The poller of the host that receives, and its socket.
pub(super) fn poller(
    args: &OverflowArgs,
    folder: &Folder,
    device: &str,
    queues: u16,
    wait: &str,
) -> Result<(Running, String), Failure> {
    let socket = folder.file("poller");
    let (queues, descriptors) = (queues.to_string(), args.descriptors.to_string());
    let words = ["poller", "--device", device, "--address", THEIRS, "--socket", &socket];
    let words = [&words[..], &["--buffers", "16384", "--wait", wait, "--queues", &queues]].concat();
    let variables = [
        ("HIKYAKU_DPDK_MEMORY", "no-huge"),
        ("HIKYAKU_DPDK_MEMORY_MB", "2048"),
        ("HIKYAKU_DPDK_DESCRIPTORS", &*descriptors),
    ];
    Ok((Running::start(&words, &variables)?, socket))
}
