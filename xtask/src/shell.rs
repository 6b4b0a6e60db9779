//! Commands that print themselves, and questions about this machine.

use std::{
    env, fmt,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A command to run in the repository's root, which can be printed so that it can be typed.
#[derive(Clone, Debug)]
pub(crate) struct Cmd {
    program: String,
    args: Vec<String>,
    envs: Vec<(String, String)>,
    limit_s: Option<u32>,
}

impl Cmd {
    pub(crate) fn new(program: &str) -> Self {
        Self {
            program: program.to_owned(),
            args: Vec::new(),
            envs: Vec::new(),
            limit_s: None,
        }
    }

    /// `line` split at white space, for commands without quoting.
    pub(crate) fn parse(line: &str) -> Self {
        let mut words = line.split_whitespace();
        Self::new(words.next().expect("a command has a program")).args(words)
    }

    pub(crate) fn args<S: AsRef<str>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.envs.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Kills the command and its children after `seconds`; for what could hang.
    pub(crate) fn limit_s(mut self, seconds: u32) -> Self {
        self.limit_s = Some(seconds);
        self
    }

    fn command(&self) -> Command {
        let mut command = match self.limit_s {
            // `timeout` makes a process group of its own, so that a test that cargo has started ends too.
            Some(limit_s) => {
                let mut timeout = Command::new("timeout");
                timeout.args(["--kill-after=10", &limit_s.to_string(), &self.program]);
                timeout
            }
            None => Command::new(&self.program),
        };
        command.args(&self.args).current_dir(root()).stdin(Stdio::null());
        for (name, value) in &self.envs {
            command.env(name, value);
        }
        command
    }

    /// Runs with the terminal's output; the error says what happened and how to repeat it.
    pub(crate) fn run(&self) -> Result<(), String> {
        println!("$ {self}");
        match self.command().status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) if self.limit_s.is_some() && status.code() == Some(124) => Err(format!(
                "not finished after {} s\n  repeat it: {self}",
                self.limit_s.unwrap_or_default()
            )),
            Ok(status) => Err(format!("{status}\n  repeat it: {self}")),
            Err(error) => Err(format!("{}: {error}\n  repeat it: {self}", self.program)),
        }
    }

    /// Runs, and gives each line of its standard output to `take`. The error says what happened and how to repeat it.
    pub(crate) fn lines(&self, mut take: impl FnMut(&str)) -> Result<(), String> {
        println!("$ {self}");
        let failed = |what: String| format!("{what}\n  repeat it: {self}");
        let mut child = self
            .command()
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let stdout = child.stdout.take().expect("piped");
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            take(&line);
        }
        match child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(failed(status.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Runs and keeps what it prints.
    pub(crate) fn output(&self) -> io::Result<Output> {
        self.command().output()
    }

    /// Its standard output, if it succeeds.
    pub(crate) fn stdout(&self) -> Option<String> {
        let output = self.output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.envs {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str(&self.program)?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{word}'")
    }
}

/// Builds what `cargo` says, which is one program, and gives its path. A crate that is compiled in parts has up to 7 %
/// more instructions, so the environment cannot ask for that.
pub(crate) fn executable(cargo: &str) -> Result<String, String> {
    let whole = |cargo: &str| Cmd::parse(cargo).env("CARGO_INCREMENTAL", "0");
    whole(cargo).run()?;
    let messages = whole(&format!("{cargo} --quiet --message-format=json"));
    let messages = messages.stdout().ok_or_else(|| format!("fails: {messages}"))?;
    let path = |line: &str| Some(line.split_once(r#""executable":""#)?.1.split_once('"')?.0.to_owned());
    messages
        .lines()
        .find_map(path)
        .ok_or_else(|| "cargo names no executable".to_owned())
}

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the root")
}

/// Where cargo puts what it builds for the root workspace.
pub(crate) fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// A file that is built for it, as an argument.
pub(crate) fn built(file: &str) -> String {
    target_dir().join(file).display().to_string()
}

/// The path of `tool`, as a shell would find it. Administrators' folders count although users' PATHs lack them.
pub(crate) fn which(tool: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|dir| dir.join(tool))
        .find(|file| file.is_file())
}

pub(crate) fn is_root() -> bool {
    Cmd::parse("id -u").stdout().is_some_and(|id| id.trim() == "0")
}

/// A toolchain of this name or version is here. Asked of rustup without naming it to cargo, which would begin to
/// download it.
pub(crate) fn has_toolchain(name: &str) -> bool {
    Cmd::parse("rustup toolchain list").stdout().is_some_and(|list| {
        list.lines()
            .any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')))
    })
}

/// A nightly toolchain is here.
pub(crate) fn has_nightly() -> bool {
    has_toolchain("nightly")
}

/// The installed compiler, for instance `rustc 1.88.0 (6b00bc388 2025-06-23)`.
pub(crate) fn rustc_version() -> String {
    Cmd::parse("rustc --version")
        .stdout()
        .map_or_else(|| "unknown".to_owned(), |version| version.trim().to_owned())
}

/// The missing ones of `tools`, as the end of a sentence, or `None`.
pub(crate) fn missing(tools: &[&str]) -> Option<String> {
    let missing: Vec<&str> = tools.iter().copied().filter(|tool| which(tool).is_none()).collect();
    (!missing.is_empty()).then(|| format!("{} not installed (cargo xtask setup)", missing.join(", ")))
}
