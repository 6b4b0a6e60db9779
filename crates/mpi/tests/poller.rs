//! Programs whose ranks go by way of a node-wide poller, with large messages by a backend of their own or without.

#[path = "support/built.rs"]
mod built;

use std::{
    env,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{self, Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use built::{example, launcher};

/// The output of programs that compare their result with that of one process.
const RIGHT: &str = "as in one process";

/// `hikyaku poller`, on a port that leads nowhere: ranks of one host talk to each other. Killed when it is dropped.
struct Poller {
    child: Child,
    output: BufReader<process::ChildStdout>,
    socket: PathBuf,
}

impl Poller {
    fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = env::temp_dir().join(format!("hikyaku-mpi-poller-{}-{number}", process::id()));
        let mut child = Command::new(launcher())
            .args(["poller", "--device", &format!("net_null{number},no-rx=1")])
            .args(["--address", "10.99.0.1", "--socket"])
            .arg(&socket)
            .env("HIKYAKU_DPDK_MEMORY", "no-huge")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(
            line.contains("HIKYAKU_POLLER="),
            "no poller starts: cargo build -p hikyaku-cli --features dpdk. It says: {line}"
        );
        Self { child, output, socket }
    }

    /// Runs an example as so many ranks.
    fn run(&self, ranks: u32, program: &[&str], settings: &[(&str, &str)]) -> Output {
        self.job(&["-n", &ranks.to_string()], program, settings)
            .output()
            .unwrap()
    }

    fn job(&self, options: &[&str], program: &[&str], settings: &[(&str, &str)]) -> Command {
        let [name, arguments @ ..] = program else {
            panic!("no program")
        };
        let mut command = Command::new(launcher());
        command
            .args(["run", "--timeout", "60", "--backend", "poller"])
            .args(options)
            .arg(example(name))
            .args(arguments)
            .env("HIKYAKU_POLLER", &self.socket)
            .envs(settings.iter().copied())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null());
        command
    }

    /// Ends it. Gives how many packets it has brought to processes, all of which have gone with a goodbye.
    fn end(mut self) -> u64 {
        let ended = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(ended.success());
        let mut table = String::new();
        self.output.read_to_string(&mut table).unwrap();
        assert!(self.child.wait().unwrap().success(), "{table}");
        let count = |name: &str| -> u64 {
            let line = table.lines().find(|line| line.trim().starts_with(name));
            let line = line.unwrap_or_else(|| panic!("no {name} in {table}"));
            line.split_whitespace().last().unwrap().parse().unwrap()
        };
        let bad = ["ended without one", "thrown out", "refused", "buffers on loan"].map(count);
        assert_eq!(bad, [0; 4], "{table}");
        count("lent to processes") + count("copied to them")
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    said(output)
}

const UDP: (&str, &str) = ("HIKYAKU_POLLER_BULK", "udp");

#[test]
fn ranks_of_one_poller() {
    let poller = Poller::start();
    assert!(succeeds(&poller.run(4, &["sor", "64", "50"], &[])).contains(RIGHT));
    for name in ["sizes", "window", "all_to_all", "intercommunicator"] {
        succeeds(&poller.run(2, &[name], &[]));
    }
    assert!(poller.end() > 0);
}

/// The transposes of a Fourier transform are messages of 256 KiB.
#[test]
fn large_messages_past_the_poller() {
    let through = Poller::start();
    succeeds(&through.run(4, &["ft", "S"], &[]));
    let through = through.end();
    let past = Poller::start();
    succeeds(&past.run(4, &["ft", "S"], &[UDP]));
    let past = past.end();
    assert!(0 < past && past < through / 10, "{past} packets, {through} without");
    // Windows and all sizes, with everything that is larger than nothing asking first.
    let poller = Poller::start();
    let ask = [UDP, ("HIKYAKU_EAGER_LIMIT", "0")];
    for name in ["sizes", "window", "all_to_all"] {
        succeeds(&poller.run(4, &[name], &ask));
    }
    poller.end();
}

#[test]
fn large_messages_over_a_device_of_the_ranks_own() {
    let poller = Poller::start();
    let memif = [("HIKYAKU_POLLER_BULK", "dpdk"), ("HIKYAKU_DPDK_MEMORY", "no-huge")];
    let ranks = ["-n", "2", "--device", "memif"];
    for program in [&["ft", "S"][..], &["halo", "16", "3"], &["sizes"], &["window"]] {
        succeeds(&poller.job(&ranks, program, &memif).output().unwrap());
    }
    poller.end();
}

#[test]
fn who_has_no_backend_beside_the_poller_is_named() {
    let poller = Poller::start();
    let sor = example("sor");
    let mut command = Command::new(launcher());
    let output = command
        .args(["run", "--timeout", "60", "--backend", "poller", "-n", "2"])
        .arg(&sor)
        .args([":", "-n", "1", "--env", "HIKYAKU_POLLER_BULK=udp"])
        .arg(&sor)
        .env("HIKYAKU_POLLER", &poller.socket)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = said(&output);
    assert!(
        !output.status.success() && text.contains("beginning MPI: reaching process 0"),
        "{text}"
    );
    assert!(
        text.contains("HIKYAKU_POLLER_BULK is for all processes of a job"),
        "{text}"
    );
}
