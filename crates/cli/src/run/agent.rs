//! An agent: the part of `hikyaku run` that is on the same host as the ranks. It starts them, carries their output and
//! what they say to the wire-up server, and ends with its connection to the launcher: then, so do they.

use std::{
    env, fs,
    io::{self, ErrorKind, Read},
    net::TcpListener,
    os::fd::AsFd,
    process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use hikyaku::internals::bootstrap::{
    names,
    server::{ListenerEvent, WireUpListener},
};
use hikyaku_bench::{
    failure::{Failure, While},
    machine::pin,
};
use nix::{
    sys::{
        prctl::set_child_subreaper,
        signal::{Signal, kill, killpg},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use super::{
    frame::{Ended, Frame, GREETING, Hello, Kind, NotStarted, Start, Started},
    hosts::{Binding, Place},
    limits::{self, Files},
    pipes::{Interest, Lines, Queue, Raw, Ready, read_some, set_nonblocking},
    signals::Signals,
    spawn::spawn,
};

/// How much is read from one pipe before others have their turn.
const TURN: usize = 64 << 10;
/// As much as a pipe can hold (`/proc/sys/fs/pipe-max-size`).
const ALL: usize = 1 << 20;

/// How long processes may take to end that were killed, and how often is looked for those that they leave.
const FAREWELL: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

struct Rank {
    place: Place,
    pid: Pid,
    stdin: Option<ChildStdin>,
    to_stdin: Queue,
    /// Standard input ends when the queue is empty.
    stdin_ends: bool,
    stdout: Option<ChildStdout>,
    stdout_lines: Lines,
    stderr: Option<ChildStderr>,
    stderr_lines: Lines,
    running: bool,
}

struct Agent {
    signals: Signals,
    /// As it was at the start, and as ranks get it.
    files: Files,
    from_launcher: Vec<u8>,
    to_launcher: Queue,
    /// The launcher is there.
    connected: bool,
    /// One for each world.
    wire_up: Vec<WireUpListener>,
    ranks: Vec<Rank>,
}

/// Runs on standard input and output.
pub(super) fn run() -> Result<u8, Failure> {
    let signals = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    let signals = Signals::take(&signals).or_fail("agent: taking signals")?;
    set_child_subreaper(true)
        .map_err(io::Error::from)
        .or_fail("agent: becoming the reaper of orphans")?;
    set_nonblocking(io::stdin()).or_fail("agent: standard input")?;
    set_nonblocking(io::stdout()).or_fail("agent: standard output")?;
    let mut agent = Agent {
        signals,
        files: Files::now().or_fail("agent: the limit of open files")?,
        from_launcher: Vec::new(),
        to_launcher: Queue::default(),
        connected: true,
        wire_up: Vec::new(),
        ranks: Vec::new(),
    };
    agent.to_launcher.bytes.extend_from_slice(GREETING);
    // SSH_CONNECTION: the client's address and port, then the server's.
    let connection = env::var("SSH_CONNECTION").unwrap_or_default();
    let hello = Hello {
        cpus: pin::places().len(),
        reached_at: connection.split(' ').nth(2).map(str::to_owned),
    };
    agent.tell(&Frame::of(Kind::Hello, 0, &hello));
    let result = agent.serve();
    agent.end_everything();
    result.map(|()| 0)
}

impl Agent {
    fn tell(&mut self, frame: &Frame) {
        frame.append_to(&mut self.to_launcher.bytes);
    }

    fn serve(&mut self) -> Result<(), Failure> {
        while self.connected {
            let ready = self.wait().or_fail("agent: waiting")?;
            self.hear_launcher()?;
            self.hear_signals();
            self.pump_listener();
            self.pump_ranks(&ready);
            self.reap();
            self.to_launcher.flush(&mut Raw(io::stdout()));
            self.connected &= !self.to_launcher.broken;
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<Ready> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let mut interest = Interest::default();
        interest.read(stdin.as_fd());
        interest.read(self.signals.as_fd());
        if !self.to_launcher.is_empty() {
            interest.write(stdout.as_fd());
        }
        self.wire_up.iter().for_each(|wire_up| interest.read(wire_up.as_fd()));
        for rank in &self.ranks {
            // A launcher that does not read makes the ranks wait.
            if !self.to_launcher.is_full() {
                rank.stdout.iter().for_each(|pipe| interest.read(pipe.as_fd()));
                rank.stderr.iter().for_each(|pipe| interest.read(pipe.as_fd()));
            }
            if !rank.to_stdin.is_empty() {
                rank.stdin.iter().for_each(|pipe| interest.write(pipe.as_fd()));
            }
        }
        let strangers = self.wire_up.iter().any(WireUpListener::has_strangers);
        interest.wait(strangers.then(|| Instant::now() + Duration::from_millis(100)))?;
        Ok(interest.ready())
    }

    fn hear_launcher(&mut self) -> Result<(), Failure> {
        self.connected &= read_some(&mut Raw(io::stdin()), &mut self.from_launcher, TURN);
        for frame in Frame::take_all(&mut self.from_launcher).map_err(Failure::run)? {
            match frame.kind {
                Kind::Start => {
                    let start: Start = frame.content().map_err(Failure::run)?;
                    self.start(&start);
                }
                Kind::Stdin => self.feed(&frame),
                Kind::Reply => {
                    if let Ok(line) = std::str::from_utf8(&frame.payload) {
                        // Only that of its world has the rank.
                        self.wire_up
                            .iter_mut()
                            .for_each(|wire_up| wire_up.send(frame.rank, line));
                    }
                }
                Kind::Lost => {
                    let line = format!("cmd=lost rank={}\n", frame.rank);
                    self.wire_up.iter_mut().for_each(|wire_up| wire_up.announce(&line));
                }
                Kind::End => {
                    let rank = self
                        .ranks
                        .iter()
                        .find(|rank| rank.place.rank == frame.rank && rank.running);
                    // It may have ended just now.
                    if let Some(rank) = rank {
                        let _ = killpg(rank.pid, Signal::SIGKILL);
                    }
                }
                Kind::Signal => self.signal(frame.payload.first().copied().unwrap_or(0)),
                kind => return Err(Failure::run(format!("agent: {kind:?} from the launcher"))),
            }
        }
        Ok(())
    }

    /// A signal for the agent itself means the end; children are looked after in any case.
    fn hear_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            self.connected &= signal == Signal::SIGCHLD;
        }
    }

    fn start(&mut self, start: &Start) {
        let prepared = self.prepare(start);
        let cpus = pin::places();
        for (index, place) in start.places.iter().enumerate() {
            let cpu = match start.binding {
                Binding::Core if !cpus.is_empty() => Some(cpus[index % cpus.len()]),
                _ => None,
            };
            let started = match &prepared {
                Ok(address) => self.start_rank(start, *place, address, cpu),
                Err(problem) => Err(problem.clone()),
            };
            match started {
                Ok(started) => self.tell(&Frame::of(Kind::Started, place.rank, &started)),
                Err(problem) => self.tell(&Frame::of(Kind::NotStarted, place.rank, &problem)),
            }
        }
    }

    /// The directory and the listener; gives the address of the listener.
    fn prepare(&mut self, start: &Start) -> Result<String, NotStarted> {
        let fail = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| NotStarted {
                message: format!("{what}: {error}"),
                code: 126,
            }
        };
        let limit = |message| NotStarted { message, code: 126 };
        self.files.allow(start.places.len()).map_err(limit)?;
        env::set_current_dir(&start.directory).map_err(fail(&format!("directory {}", start.directory)))?;
        let listener = TcpListener::bind("127.0.0.1:0").map_err(fail("the wire-up server"))?;
        let address = listener.local_addr().map_err(fail("the wire-up server"))?;
        let ranks = start.places.iter().map(|place| place.rank);
        let wire_up = WireUpListener::new(listener, &start.ticket, ranks).map_err(fail("the wire-up server"))?;
        self.wire_up.push(wire_up);
        Ok(address.to_string())
    }

    fn start_rank(
        &mut self,
        start: &Start,
        place: Place,
        address: &str,
        cpu: Option<usize>,
    ) -> Result<Started, NotStarted> {
        let app = &start.apps[place.app as usize];
        let (program, args) = app.command.split_first().expect("a program has a name");
        let mut command = Command::new(program);
        command
            .args(args)
            .envs(app.env.iter().map(|(name, value)| (name, value)));
        let stdin = if place.rank == 0 { Stdio::piped() } else { Stdio::null() };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
            .env(names::RUN_ADDRESS, address)
            .env(names::RUN_TICKET, &start.ticket)
            .env(names::RANK, (place.rank - start.first).to_string())
            .env(names::SIZE, start.size.to_string())
            .env(names::LOCAL_RANK, place.local_rank.to_string())
            .env(names::LOCAL_SIZE, start.places.len().to_string())
            .env(names::APP, place.app.to_string())
            .env(names::JOB_KEY, &start.job_key);
        // Not from a job around this one, nor from the world that spawns this one.
        match &start.spawned_by {
            Some(by) => command
                .env(names::FIRST, start.first.to_string())
                .env(names::SPAWNED_BY, by),
            None => command.env_remove(names::FIRST).env_remove(names::SPAWNED_BY),
        };
        if start.goes_on {
            command.env(names::ON_FAILURE, "continue");
        } else {
            command.env_remove(names::ON_FAILURE);
        }
        match &start.host_address {
            Some(address) => command.env(names::HOST_ADDRESS, address),
            None => command.env_remove(names::HOST_ADDRESS),
        };
        let mut child = spawn(command, cpu, self.files).map_err(|error| NotStarted {
            code: if error.kind() == ErrorKind::NotFound { 127 } else { 126 },
            message: format!("{program}: {}", limits::named(&error)),
        })?;
        let pid = i32::try_from(child.id()).expect("process numbers are positive");
        let rank = Rank {
            place,
            pid: Pid::from_raw(pid),
            stdin: child.stdin.take(),
            to_stdin: Queue::default(),
            stdin_ends: false,
            stdout: child.stdout.take(),
            stdout_lines: Lines::default(),
            stderr: child.stderr.take(),
            stderr_lines: Lines::default(),
            running: true,
        };
        rank.stdin.iter().for_each(|pipe| drop(set_nonblocking(pipe)));
        rank.stdout.iter().for_each(|pipe| drop(set_nonblocking(pipe)));
        rank.stderr.iter().for_each(|pipe| drop(set_nonblocking(pipe)));
        self.ranks.push(rank);
        Ok(Started { pid, cpu })
    }

    fn feed(&mut self, frame: &Frame) {
        match self.ranks.iter_mut().find(|rank| rank.place.rank == frame.rank) {
            Some(rank) if frame.payload.is_empty() => rank.stdin_ends = true,
            Some(rank) if rank.stdin.is_some() => rank.to_stdin.bytes.extend_from_slice(&frame.payload),
            _ => self.tell(&Frame::new(Kind::StdinTaken, frame.rank, Vec::new())),
        }
    }

    fn signal(&mut self, number: u8) {
        let Ok(signal) = Signal::try_from(i32::from(number)) else {
            return;
        };
        for rank in self.ranks.iter().filter(|rank| rank.running) {
            // It may have ended just now.
            let _ = killpg(rank.pid, signal);
        }
    }

    fn pump_listener(&mut self) {
        for event in self
            .wire_up
            .iter_mut()
            .flat_map(WireUpListener::pump)
            .collect::<Vec<_>>()
        {
            let frame = match event {
                ListenerEvent::Joined(rank) => Frame::new(Kind::Joined, rank, Vec::new()),
                ListenerEvent::Line(rank, line) => Frame::new(Kind::Line, rank, line),
                ListenerEvent::Limit(limit) => Frame::new(Kind::Limit, 0, limit.to_string()),
                // A rank that has left without a goodbye is told of when it ends, so that it is the one to blame.
                _ => continue,
            };
            self.tell(&frame);
        }
    }

    fn pump_ranks(&mut self, ready: &Ready) {
        let mut frames = Vec::new();
        let full = self.to_launcher.is_full();
        for rank in &mut self.ranks {
            let number = rank.place.rank;
            if !full {
                if rank.stdout.as_ref().is_some_and(|pipe| ready.has(pipe)) {
                    let lines = carry(&mut rank.stdout, &mut rank.stdout_lines, TURN);
                    frames.extend(lines.map(|lines| Frame::new(Kind::Stdout, number, lines)));
                }
                if rank.stderr.as_ref().is_some_and(|pipe| ready.has(pipe)) {
                    let lines = carry(&mut rank.stderr, &mut rank.stderr_lines, TURN);
                    frames.extend(lines.map(|lines| Frame::new(Kind::Stderr, number, lines)));
                }
            }
            if rank.feed() {
                frames.push(Frame::new(Kind::StdinTaken, number, Vec::new()));
            }
        }
        frames.iter().for_each(|frame| self.tell(frame));
    }

    /// Tells which ranks have ended, after all that they have said before.
    fn reap(&mut self) {
        let mut ended = Vec::new();
        while let Some((pid, how)) = next_ended() {
            ended.extend(
                self.ranks
                    .iter()
                    .position(|rank| rank.pid == pid && rank.running)
                    .map(|index| (index, how)),
            );
        }
        if ended.is_empty() {
            return;
        }
        self.pump_listener();
        for (index, how) in ended {
            let rank = &mut self.ranks[index];
            rank.running = false;
            rank.stdin = None;
            let number = rank.place.rank;
            // What it has left in its pipes, also without a line feed; children that it leaves may still write.
            let rest = [
                (Kind::Stdout, carry(&mut rank.stdout, &mut rank.stdout_lines, ALL)),
                (Kind::Stdout, rank.stdout_lines.take(true)),
                (Kind::Stderr, carry(&mut rank.stderr, &mut rank.stderr_lines, ALL)),
                (Kind::Stderr, rank.stderr_lines.take(true)),
            ];
            for (kind, lines) in rest {
                if let Some(lines) = lines {
                    self.tell(&Frame::new(kind, number, lines));
                }
            }
            self.tell(&Frame::of(Kind::Exited, number, &how));
        }
    }

    /// Kills what is left of the ranks and of all that they have started; those become children of the agent.
    ///
    /// A process that cannot be killed (it hangs in the kernel, or belongs to another user) is left after [`FAREWELL`].
    fn end_everything(&mut self) {
        for rank in self.ranks.iter().filter(|rank| rank.running) {
            let _ = killpg(rank.pid, Signal::SIGKILL);
        }
        let until = Instant::now() + FAREWELL;
        loop {
            // Each that ends may leave children of its own.
            for child in children() {
                let _ = kill(child, Signal::SIGKILL);
            }
            while let Some(status) = ended_child() {
                if status.is_err() {
                    return;
                }
            }
            let now = Instant::now();
            if now >= until {
                let left: Vec<String> = children().iter().map(ToString::to_string).collect();
                eprintln!(
                    "processes that do not end although they were killed: {}",
                    left.join(", ")
                );
                return;
            }
            let mut interest = Interest::default();
            interest.read(self.signals.as_fd());
            if interest.wait(Some(until.min(now + LOOK_AGAIN))).is_err() {
                return;
            }
            while self.signals.next().is_some() {}
        }
    }
}

impl Rank {
    /// Writes to standard input; `true` once all of it is written.
    fn feed(&mut self) -> bool {
        let mut taken = false;
        if let Some(stdin) = &mut self.stdin
            && !self.to_stdin.is_empty()
        {
            self.to_stdin.flush(stdin);
            taken = self.to_stdin.is_empty();
        }
        if self.to_stdin.is_empty() && self.stdin_ends || self.to_stdin.broken {
            self.stdin = None;
        }
        taken
    }
}

/// Reads a pipe and gives whole lines; drops it at its end.
fn carry(pipe: &mut Option<impl Read>, lines: &mut Lines, limit: usize) -> Option<Vec<u8>> {
    let open = read_some(pipe.as_mut()?, lines.buffer(), limit);
    if !open {
        *pipe = None;
    }
    lines.take(!open)
}

/// A child that has ended; the error says that there are no children. `None`: none has.
fn ended_child() -> Option<nix::Result<WaitStatus>> {
    match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::StillAlive) => None,
        result => Some(result),
    }
}

fn next_ended() -> Option<(Pid, Ended)> {
    match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::Exited(pid, code)) => Some((pid, Ended::Code(u8::try_from(code & 0xff).unwrap_or(1)))),
        Ok(WaitStatus::Signaled(pid, signal, _)) => Some((pid, Ended::Signal(signal as i32))),
        _ => None,
    }
}

fn children() -> Vec<Pid> {
    let list = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let numbers = list.split_whitespace().filter_map(|number| number.parse().ok());
    numbers.map(Pid::from_raw).collect()
}
