//! The launcher's end of an agent.

use std::{
    env,
    io::{self, BufRead, Write},
    net::IpAddr,
    os::unix::process::CommandExt,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

use super::{
    frame::{Frame, GREETING, Hello, MAX_PAYLOAD},
    hosts::{Host, is_here},
    pipes::{Interest, Lines, Queue, read_some, set_nonblocking},
    plan::Plan,
};

/// How many bytes that a login shell prints are skipped, and how many of standard error are kept for errors.
const CHATTER: usize = 64 << 10;
const TURN: usize = 256 << 10;

/// An agent and the pipes to it.
pub(super) struct Link {
    pub(super) name: String,
    /// How it was started, as it could be typed.
    pub(super) line: String,
    /// On this host, without ssh.
    pub(super) local: bool,
    child: Child,
    to: Queue,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    from: Vec<u8>,
    errors: Lines,
    greeted: bool,
    pub(super) hello: Option<Hello>,
    /// How it has ended.
    pub(super) ended: Option<ExitStatus>,
}

impl Link {
    pub(super) fn start(host: &Host, plan: &Plan) -> io::Result<Self> {
        let local = is_here(&host.name);
        let mut command = if local {
            let mut command = Command::new(env::current_exe()?);
            command.args(["run", "--agent"]);
            // Only ssh may say how this host was reached.
            command.env_remove("SSH_CONNECTION");
            command
        } else {
            let (program, args) = plan
                .ssh
                .split_first()
                .ok_or_else(|| io::Error::other("--ssh names no command"))?;
            let mut command = Command::new(program);
            command.args(args).arg(&host.name);
            command.arg(format!("{} run --agent", quoted(&plan.remote_path)));
            command
        };
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let line = line.join(" ");
        // In a group of its own, so that Ctrl-C reaches it through the launcher only.
        command.process_group(0);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        stdin.iter().try_for_each(set_nonblocking)?;
        stdout.iter().try_for_each(set_nonblocking)?;
        stderr.iter().try_for_each(set_nonblocking)?;
        Ok(Self {
            name: host.name.clone(),
            line,
            local,
            child,
            to: Queue::default(),
            stdin,
            stdout,
            stderr,
            from: Vec::new(),
            errors: Lines::default(),
            greeted: false,
            hello: None,
            ended: None,
        })
    }

    pub(super) fn send(&mut self, frame: &Frame) {
        self.queue(frame);
        self.flush();
    }

    /// To be sent with the bytes after it.
    pub(super) fn queue(&mut self, frame: &Frame) {
        frame.append_to(&mut self.to.bytes);
    }

    pub(super) fn flush(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            self.to.flush(stdin);
        }
    }

    /// Nothing more is sent; the agent ends when it sees that.
    pub(super) fn close(&mut self) {
        self.stdin = None;
    }

    pub(super) fn kill(&mut self) {
        // It may have ended just now.
        let _ = self.child.kill();
    }

    pub(super) fn interest<'a>(&'a self, interest: &mut Interest<'a>, reads: bool) {
        use std::os::fd::AsFd;
        if reads {
            self.stdout.iter().for_each(|pipe| interest.read(pipe.as_fd()));
        }
        self.stderr.iter().for_each(|pipe| interest.read(pipe.as_fd()));
        if !self.to.is_empty() && !self.to.broken {
            self.stdin.iter().for_each(|pipe| interest.write(pipe.as_fd()));
        }
    }

    /// The frames that have come, as far as they are whole.
    pub(super) fn receive(&mut self) -> Result<Vec<Frame>, String> {
        if let Some(stdout) = &mut self.stdout
            && !read_some(stdout, &mut self.from, TURN)
        {
            self.stdout = None;
        }
        if !self.greeted && !self.greet()? {
            return Ok(Vec::new());
        }
        let frames = Frame::take_all(&mut self.from)?;
        debug_assert!(self.from.len() <= MAX_PAYLOAD + TURN + CHATTER);
        Ok(frames)
    }

    /// Looks for the agent's first words in the output of a login shell.
    fn greet(&mut self) -> Result<bool, String> {
        // A line feed begins it, in case the shell has not ended its line.
        let found = self.from.windows(GREETING.len()).position(|window| window == GREETING);
        if let Some(at) = found {
            self.from.drain(..at + GREETING.len());
            self.greeted = true;
            return Ok(true);
        }
        let other = b"\nhikyaku agent ";
        if let Some(at) = self.from.windows(other.len()).position(|window| window == other) {
            let version = self.from[at + other.len()..].lines().next().and_then(Result::ok);
            if self.from[at + 1..].contains(&b'\n') {
                let version = version.unwrap_or_default();
                return Err(format!(
                    "hikyaku {version} is there, and {} is here: {}",
                    env!("CARGO_PKG_VERSION"),
                    self.line
                ));
            }
        }
        if self.from.len() > CHATTER {
            return Err(format!("it says something else than an agent does: {}", self.line));
        }
        Ok(false)
    }

    /// An error message of ssh or of the agent, for people.
    pub(super) fn complaints(&mut self, sink: &mut Vec<u8>) {
        let open = match &mut self.stderr {
            Some(stderr) => read_some(stderr, self.errors.buffer(), TURN),
            None => return,
        };
        if !open {
            self.stderr = None;
        }
        for line in self.errors.take(!open).unwrap_or_default().split(|byte| *byte == b'\n') {
            if !line.is_empty() {
                let _ = write!(sink, "{}: ", self.name);
                sink.extend_from_slice(line.trim_ascii_end());
                sink.push(b'\n');
            }
        }
    }

    /// Looks whether it has ended, once all that it said was heard.
    pub(super) fn look(&mut self) {
        if self.ended.is_none() && self.stdout.is_none() {
            self.ended = self.child.try_wait().unwrap_or_default();
        }
    }

    /// As `look`, but what it still says is not waited for: something else may have its pipe.
    pub(super) fn look_hard(&mut self) {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap_or_default();
        }
    }

    pub(super) fn reached_at(&self) -> Option<IpAddr> {
        self.hello.as_ref()?.reached_at.as_ref()?.parse().ok()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

/// For a shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
