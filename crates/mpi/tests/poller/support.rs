//! Pollers, and jobs whose ranks are behind them.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Read},
    path::PathBuf,
    process::{self, Child, Command, ExitStatus, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use super::built::{example, launcher};

/// The output of programs that compare their result with that of one process.
pub(crate) const RIGHT: &str = "as in one process";
pub(crate) const UDP: (&str, &str) = ("HIKYAKU_POLLER_BULK", "udp");
pub(crate) const PORT: (&str, &str) = ("HIKYAKU_POLLER_BULK", "port");
pub(crate) const DPDK: (&str, &str) = ("HIKYAKU_POLLER_BULK", "dpdk");
pub(crate) const NO_HUGE: (&str, &str) = ("HIKYAKU_DPDK_MEMORY", "no-huge");

/// A folder for sockets, removed when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("hikyaku-mpi-poller-{}-{number}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a poller has counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Packets that it has brought to processes.
    pub(crate) packets: u64,
    /// Bytes that have gone through its port, in both directions.
    pub(crate) bytes: u64,
}

/// `hikyaku poller`. Killed when it is dropped.
pub(crate) struct Poller {
    child: Child,
    output: Box<dyn BufRead>,
    pub(crate) socket: String,
    /// `None`: it is of somebody else.
    _folder: Option<Folder>,
}

impl Poller {
    /// On a port that leads nowhere: ranks of one host talk to each other.
    pub(crate) fn start() -> Self {
        let folder = Folder::new();
        let socket = folder.file("poller");
        let device = format!("net_null{},no-rx=1", process::id());
        let mut this = Self::begin(Command::new(launcher()), &device, "10.99.0.1", &socket);
        this._folder = Some(folder);
        this.wait();
        this
    }

    /// Starts one; [`wait`](Self::wait) follows. `command`: the launcher, wherever it is to run.
    pub(crate) fn begin(command: Command, device: &str, address: &str, socket: &str) -> Self {
        Self::begin_with(command, device, address, socket, &[], &[NO_HUGE])
    }

    /// The same, with more options and with these settings.
    pub(crate) fn begin_with(
        mut command: Command,
        device: &str,
        address: &str,
        socket: &str,
        more: &[&str],
        settings: &[(&str, &str)],
    ) -> Self {
        let mut child = command
            .args(["poller", "--device", device, "--address", address, "--socket", socket])
            .args(more)
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            output: Box::new(BufReader::new(child.stdout.take().unwrap())),
            child,
            socket: socket.to_owned(),
            _folder: None,
        }
    }

    /// Waits until it serves.
    pub(crate) fn wait(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(
            line.contains("HIKYAKU_POLLER="),
            "no poller starts (`cargo xtask dpdk ranks` builds what this test runs). It says: {line}"
        );
    }

    /// Its next line, by which it says how large messages go.
    pub(crate) fn says(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Closes its output.
    pub(crate) fn leave_unread(&mut self) {
        self.output = Box::new(io::empty());
    }

    /// Tells it to end, and waits until it has.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let told = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(told.success());
        self.child.wait().unwrap()
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Runs an example as so many ranks.
    pub(crate) fn run(&self, ranks: u32, program: &[&str], settings: &[(&str, &str)]) -> Output {
        self.job(&["-n", &ranks.to_string()], program, settings)
            .output()
            .unwrap()
    }

    pub(crate) fn job(&self, options: &[&str], program: &[&str], settings: &[(&str, &str)]) -> Command {
        let mut command = job(Command::new(launcher()), options, settings);
        command.args(words(program)).env("HIKYAKU_POLLER", &self.socket);
        command
    }

    /// Ends it. All processes have gone with a goodbye.
    pub(crate) fn end(mut self) -> Counted {
        let ended = self.ended();
        let mut table = String::new();
        self.output.read_to_string(&mut table).unwrap();
        assert!(ended.success(), "{ended}: {table}");
        let count = |name: &str| -> u64 {
            let line = table.lines().find(|line| line.trim().starts_with(name));
            let line = line.unwrap_or_else(|| panic!("no {name} in {table}"));
            line.split_whitespace().last().unwrap().parse().unwrap()
        };
        let bad = ["ended without one", "thrown out", "refused", "buffers on loan"].map(count);
        assert_eq!(bad, [0; 4], "{table}");
        Counted {
            packets: count("lent to processes") + count("copied to them"),
            bytes: count("bytes received") + count("bytes sent"),
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An example with its arguments.
pub(crate) fn words(program: &[&str]) -> Vec<String> {
    let [name, arguments @ ..] = program else {
        panic!("no program")
    };
    let path = example(name).display().to_string();
    [path]
        .into_iter()
        .chain(arguments.iter().map(|&word| word.to_owned()))
        .collect()
}

/// `hikyaku run` with ranks behind pollers; the program follows.
pub(crate) fn job(mut command: Command, options: &[&str], settings: &[(&str, &str)]) -> Command {
    command
        .args(["run", "--timeout", "60", "--backend", "poller"])
        .args(options)
        .envs(settings.iter().copied())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null());
    command
}

pub(crate) fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

pub(crate) fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    said(output)
}
