//! `hikyaku run` as people use it: jobs that end well, jobs that do not, hosts, signals. Nothing here sleeps: what a
//! test waits for is a line, the end of a process, or the end of a pipe that processes hold open.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

mod launchers;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hikyaku");
/// Much longer than anything here takes, so that what hangs fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// `hikyaku run`, with words of `line` and then the rest as they are; `hello` stands for `hikyaku hello`.
fn command(line: &str, rest: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("run");
    for word in line.split_whitespace() {
        if word == "hello" {
            command.arg(PROGRAM);
        }
        command.arg(word);
    }
    command.args(rest).stdin(Stdio::null());
    command.env_remove("SSH_CONNECTION");
    command
}

fn run(line: &str, rest: &[&str]) -> Output {
    command(line, rest).output().expect("the command starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Expects this exit code and this on standard error.
fn expect(line: &str, rest: &[&str], code: i32, said: &str) -> Output {
    let output = run(line, rest);
    assert_eq!(output.status.code(), Some(code), "{line}: {}", err(&output));
    assert!(err(&output).contains(said), "{line}: {}", err(&output));
    output
}

/// A directory that goes away.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{process}-{number}"));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }

    /// A program of the shell.
    fn script(&self, name: &str, text: &str) -> String {
        let path = self.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A stand-in for ssh: it starts the processes of other hosts on this one.
    fn ssh(&self) -> String {
        self.script(
            "ssh",
            "host=$1; shift; export FAKE_HOST=$host SSH_CONNECTION='127.0.0.1 50000 127.0.0.1 22'; exec sh -c \"$*\"",
        )
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A pipe with a name, which ranks open to write: its end is the end of all of them and of all that they have started.
struct Lifeline {
    lines: mpsc::Receiver<String>,
}

impl Lifeline {
    fn new(dir: &Dir) -> (Self, String) {
        let path = dir.path("lifeline");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let (sender, lines) = mpsc::channel();
        let to_open = path.clone();
        thread::spawn(move || {
            let pipe = File::open(to_open).unwrap();
            for line in BufReader::new(pipe).lines() {
                let _ = sender.send(line.unwrap());
            }
        });
        (Self { lines }, path)
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line of a rank")
    }

    /// Until nobody has it open.
    fn end(&self) {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("something is left running"),
            }
        }
    }
}

/// A job that runs; killed if the test fails, or if it takes too long.
struct Job {
    child: Child,
    /// Dropped, it ends the watch over the job.
    _watched: mpsc::Sender<()>,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Job {
    fn start(line: &str, rest: &[&str]) -> Self {
        let mut command = command(line, rest);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (watched, end) = mpsc::channel();
        let pid = child.id();
        thread::spawn(move || {
            if end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                kill("-KILL", pid);
            }
        });
        Self {
            _watched: watched,
            stdout: BufReader::new(child.stdout.take().unwrap()),
            stderr: BufReader::new(child.stderr.take().unwrap()),
            child,
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    fn error_line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, name: &str) {
        kill(name, self.child.id());
    }

    /// Waits for its end; gives its exit code and what else it has said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kill(name: &str, pid: u32) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

/// The word after `name` in a line of `hikyaku hello`.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, rest) = line
        .split_once(&format!("{name} "))
        .unwrap_or_else(|| panic!("no {name}: {line}"));
    rest.split([',', ' ', '\n']).next().unwrap()
}

/// Checks what `size` ranks of `hikyaku hello` have printed: all there, with addresses of their own, all with the same key
/// and the same view of all addresses.
fn check_hello(text: &str, size: usize, launcher: &str) {
    let mut lines: Vec<&str> = text.lines().filter(|line| line.contains("rank ")).collect();
    assert_eq!(lines.len(), size, "{text}");
    lines.sort_by_key(|line| field(line, "rank").parse::<usize>().unwrap());
    for (rank, line) in lines.iter().enumerate() {
        assert_eq!(field(line, "rank"), rank.to_string(), "{text}");
        assert_eq!(field(line, "by"), launcher, "{text}");
        assert_eq!(field(line, "key"), field(lines[0], "key"), "{text}");
        assert_eq!(field(line, "all"), field(lines[0], "all"), "{text}");
        // What a line has does not grow with the number of ranks.
        assert!(line.len() < 200, "{text}");
    }
    let addresses: BTreeSet<&str> = lines.iter().map(|line| field(line, "at")).collect();
    assert_eq!(addresses.len(), size, "{text}");
}

/// `HIKYAKU_LOG` is for all ranks; without it nothing is printed.
#[test]
fn events_are_printed_if_asked_for() {
    let begin = || {
        let mut command = command("-n 2 hello", &[]);
        command.env_remove("HIKYAKU_LOG");
        command
    };
    let run = |level: Option<&str>| {
        let mut command = begin();
        if let Some(level) = level {
            command.env("HIKYAKU_LOG", level);
        }
        command.output().unwrap()
    };
    let output = run(Some("debug"));
    assert!(output.status.success(), "{}", err(&output));
    for rank in 0..2 {
        let line =
            format!(" INFO hikyaku::bootstrap::world: address chosen rank={rank} interface=\"lo\" address=127.0.0.1");
        assert!(err(&output).contains(&line), "{}", err(&output));
    }
    for level in [None, Some("warn")] {
        let output = run(level);
        assert!(output.status.success() && output.stderr.is_empty(), "{}", err(&output));
    }
    // Each rank says what a setting names and it does not use.
    let twice = [("HIKYAKU_LOG", "warn"), ("HIKYAKU_IFACE", "lo,lo")];
    let output = begin().envs(twice).output().unwrap();
    let says = " WARN hikyaku::bootstrap::world: an item of HIKYAKU_IFACE is not used rank=";
    let lines: Vec<String> = err(&output).lines().map(str::to_owned).collect();
    assert!(
        lines.len() == 2 && lines.iter().all(|line| line.contains(says)),
        "{lines:#?}"
    );
    let output = run(Some("loud"));
    assert_eq!(output.status.code(), Some(2));
    let says = "hikyaku: the environment has HIKYAKU_LOG=loud, which cannot be understood";
    assert!(err(&output).starts_with(says), "{}", err(&output));
}

#[test]
fn ranks_find_each_other() {
    let output = expect("-n 3 hello", &[], 0, "");
    check_hello(&out(&output), 3, "hikyaku");
    let locals = out(&output).matches("of 3, app 0").count();
    assert_eq!(locals, 3, "{}", out(&output));
}

#[test]
fn hundreds_of_ranks_on_one_host_find_each_other() {
    let output = expect("-n 256 hello", &[], 0, "256 ranks on ");
    check_hello(&out(&output), 256, "hikyaku");
}

#[test]
fn programs_go_on_without_one_that_fails_if_that_is_wanted() {
    let script = "test $HIKYAKU_RANK = 1 && exit 5; echo done";
    let output = expect(
        "-n 4 --on-failure continue sh -c",
        &[script],
        5,
        "1 of 4 ranks failed: rank 1\n",
    );
    assert_eq!(out(&output), "done\n".repeat(3));
    assert!(err(&output).contains("exited with code 5; the others go on"));
    // Others wait for it in a fence, or come to that later.
    let output = expect(
        "-n 3 --on-failure continue hello --vanish 1",
        &[],
        1,
        "1 of 3 ranks failed: rank 1\n",
    );
    check_hello(&out(&output), 3, "hikyaku");
    // Before all have met, nobody can do without it.
    let script = format!("test $HIKYAKU_RANK = 1 && exit 3; exec {PROGRAM} hello");
    let output = expect("-n 3 --on-failure continue sh -c", &[&script], 3, "rank 1 (pid ");
    assert!(out(&output).is_empty());
    // A rank that aborts means the whole job.
    expect(
        "-n 3 --on-failure continue hello --abort 2 --code 7",
        &[],
        7,
        "aborted the job",
    );
}

#[test]
fn ranks_go_on_without_a_host_that_is_lost() {
    let dir = Dir::new("continue");
    let ssh = dir.script("ssh", "shift; echo $$ >&2; exec sh -c \"$*\"");
    // Rank 1 waits for rank 0 in a fence.
    let line = format!("--on-failure continue --host nodea,localhost --ssh {ssh} -n 1 hello --stay");
    let mut job = Job::start(&line, &[":", "-n", "1", PROGRAM, "hello", "--vanish", "9"]);
    let agent = job.error_line();
    let agent = agent.trim().strip_prefix("nodea: ").unwrap().parse().unwrap();
    job.line();
    job.line();
    kill("-KILL", agent);
    let (code, said) = job.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("host nodea: its agent has ended"), "{said}");
    assert!(said.ends_with("hikyaku run: 1 of 2 ranks failed: rank 0\n"), "{said}");
}

#[test]
fn nothing_is_left_of_hundreds_of_ranks_after_ctrl_c() {
    let dir = Dir::new("hundreds");
    let (lifeline, path) = Lifeline::new(&dir);
    let script = format!("exec 3>\"$1\"; exec {PROGRAM} hello --stay");
    let mut job = Job::start("-n 256 sh -c", &[&script, "sh", &path]);
    (0..256).for_each(|_| drop(job.line()));
    job.signal("-INT");
    let (code, said) = job.end();
    assert_eq!(code, Some(130), "{said}");
    lifeline.end();
}

#[test]
fn a_mistake_of_the_whole_job_is_said_once() {
    let output = run("-n 8 hello --no-such-option", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(err(&output).matches("--no-such-option").count(), 1, "{}", err(&output));
    let output = run("-n 8 --env HIKYAKU_PORT_BASE=x hello", &[]);
    let said = err(&output);
    assert_eq!(
        said.matches("HIKYAKU_PORT_BASE=x: expected a port").count(),
        1,
        "{said}"
    );
    // Here the first one to fail does not end the others before they have said it, too.
    let output = run("-n 8 --on-failure continue sh -c", &["echo a mistake >&2; exit 3"]);
    let said = err(&output);
    assert_eq!(said.matches("a mistake").count(), 1, "{said}");
    let counted = said.contains("7 other ranks that failed have written the same");
    assert!(counted, "{said}");
}

#[test]
fn limits_of_open_files_are_named_and_raised_where_that_is_allowed() {
    // What is inherited is `ulimit -n`: both limits, or the soft one alone.
    let limited = |limits: &str, rest: &str| {
        let script = format!("{limits}; exec {PROGRAM} {rest}");
        let output = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output();
        output.expect("sh")
    };
    let hello = format!("run -n 40 {PROGRAM} hello");
    let output = limited("ulimit -S -n 100", &hello);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    check_hello(&out(&output), 40, "hikyaku");
    // Ranks have the limit that the launcher had.
    let output = limited("ulimit -S -n 100", "run -n 40 sh -c 'ulimit -S -n'");
    assert_eq!(out(&output), "100\n".repeat(40), "{}", err(&output));
    let output = limited("ulimit -n 100", &hello);
    assert_eq!(output.status.code(), Some(126), "{}", err(&output));
    let said =
        "40 ranks on this host need 296 open files of their agent, which may have 100 (RLIMIT_NOFILE): raise that";
    assert!(err(&output).contains(said), "{}", err(&output));
}

#[test]
fn a_wire_up_server_without_descriptors_says_so_to_both_sides() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rank_0 = Command::new("sh")
        .args(["-c", &format!("ulimit -n 16; exec {PROGRAM} hello")])
        .env("HIKYAKU_RENDEZVOUS", format!("127.0.0.1:{port}"))
        .envs([("HIKYAKU_RANK", "0"), ("HIKYAKU_SIZE", "2")])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut others: Vec<TcpStream> = Vec::new();
    while others.len() < 16 {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => others.push(stream),
            // It does not listen yet.
            Err(_) if others.is_empty() => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    let output = rank_0.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    // Rank 0 hears it from its server or, if all connections before its own were strangers', as a client.
    let as_server = said.contains("can open no more files, of which it may have 16");
    let as_client = said.contains("no more files can be opened there, of which 16 are allowed");
    assert!(as_server || as_client, "{said}");
    let heard = others.iter_mut().any(|stream| {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text.contains("rc=-1 msg=no_more_files_can_be_opened_there,_of_which_16_are_allowed")
    });
    // The first that is told may be rank 0 itself, which ends then.
    assert!(heard || as_client, "nobody was told");
}

#[test]
fn two_jobs_have_two_keys() {
    let key = || field(&out(&run("-n 1 hello", &[])), "key").to_owned();
    assert_ne!(key(), key());
}

#[test]
fn output_is_tagged_by_lines() {
    let output = run("-n 2 -l sh -c", &["printf 'one\\ntwo'; echo three >&2"]);
    // Lines of different ranks come in any order.
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines.join("|")
    };
    assert_eq!(sorted(out(&output)), "[0] one|[0] two|[1] one|[1] two");
    assert_eq!(sorted(err(&output)), "[0] three|[1] three");
}

#[test]
fn all_of_a_lot_of_output_arrives() {
    let script = "head -c 5000000 /dev/zero; printf end; head -c 3000000 /dev/zero >&2";
    let output = run("-n 2 sh -c", &[script]);
    assert_eq!(output.stdout.len(), 2 * 5_000_003);
    assert_eq!(
        output.stderr.len(),
        2 * 3_000_000,
        "{}",
        err(&output).trim_matches('\0')
    );
}

#[test]
fn standard_input_goes_to_rank_0() {
    let mut child = command("-n 2 -l cat", &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text: String = (0..50_000).map(|number| format!("{number}\n")).collect();
    let writer = thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let wanted: String = (0..50_000).map(|number| format!("[0] {number}\n")).collect();
    assert!(
        out(&output) == wanted,
        "{} bytes of {}",
        output.stdout.len(),
        wanted.len()
    );
}

#[test]
fn several_programs() {
    let output = run(
        "-n 1 --env X=1 sh -c",
        &[
            "echo $HIKYAKU_RANK $HIKYAKU_APP $X",
            ":",
            "-n",
            "2",
            "--env",
            "X=2",
            "sh",
            "-c",
            "echo $HIKYAKU_RANK $HIKYAKU_APP $X",
        ],
    );
    let text = out(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 0 1", "1 1 2", "2 1 2"]);
}

#[test]
fn exit_codes_are_passed_on() {
    expect("-n 2 true", &[], 0, "");
    expect("-n 2 sh -c", &["exit 3"], 3, "exited with code 3");
    expect("-n 2 sh -c", &["kill -9 $$"], 137, "killed by signal 9 (SIGKILL)");
    expect(
        "-n 2 /nowhere/prog",
        &[],
        127,
        "could not be started: /nowhere/prog: No such file",
    );
    expect("-n 1 /etc/passwd", &[], 126, "Permission denied");
    // The first that fails counts, although the others are ended by a signal then.
    let script = "test $HIKYAKU_RANK = 1 && exit 5; sleep 1000";
    let output = expect("-n 3 sh -c", &[script], 5, "rank 1 (pid ");
    assert_eq!(
        err(&output).matches("hikyaku run: rank ").count(),
        1,
        "{}",
        err(&output)
    );
}

#[test]
fn a_rank_that_says_goodbye_may_fail_alone() {
    let output = expect("-n 2 hello --code 4", &[], 4, "exited with code 4");
    check_hello(&out(&output), 2, "hikyaku");
}

#[test]
fn a_rank_that_vanishes_ends_the_job() {
    expect("-n 3 hello --vanish 1", &[], 1, "exited without finalize");
    expect("-n 3 hello --vanish 1 --code 6", &[], 6, "rank 1 (pid ");
}

#[test]
fn a_rank_can_abort_the_job() {
    let output = expect(
        "-n 3 hello --abort 2 --code 7",
        &[],
        7,
        "aborted the job with code 7: as it was told to",
    );
    assert!(err(&output).contains("rank 2 (pid "), "{}", err(&output));
}

#[test]
fn ranks_that_never_come_are_named() {
    let output = expect(
        "-n 3 --startup-timeout 0.5 hello --absent 1",
        &[],
        1,
        "rank 1 did not come within 0.5 s",
    );
    assert!(out(&output).is_empty());
    let script = format!("test $HIKYAKU_RANK = 0 && exit 0; exec {PROGRAM} hello");
    expect(
        "-n 2 sh -c",
        &[&script],
        1,
        "exited without joining the job as others have",
    );
}

#[test]
fn a_killed_rank_is_said() {
    let mut job = Job::start("-n 3 hello --stay", &[]);
    let lines: Vec<String> = (0..3).map(|_| job.line()).collect();
    let victim = lines.iter().find(|line| line.starts_with("rank 2 ")).unwrap();
    let pid = field(victim, "pid").parse().unwrap();
    kill("-KILL", pid);
    let (code, said) = job.end();
    assert_eq!(code, Some(137), "{said}");
    assert!(
        said.contains(&format!(
            "rank 2 (pid {pid} on localhost): killed by signal 9 (SIGKILL)"
        )),
        "{said}"
    );
}

/// A rank that has a child in the background and one in a session of its own, all of which hold the lifeline.
const FAMILY: &str =
    "exec 3>\"$1\"; sleep 1000 & setsid sleep 1000 & trap '' INT TERM; echo ready >&3; sleep 1000; sleep 1000";

fn family(options: &str) -> (Job, Lifeline, Dir) {
    let dir = Dir::new("family");
    let (lifeline, path) = Lifeline::new(&dir);
    let job = Job::start(&format!("{options} sh -c"), &[FAMILY, "sh", &path]);
    assert_eq!((lifeline.line(), lifeline.line()), ("ready".into(), "ready".into()));
    (job, lifeline, dir)
}

#[test]
fn nothing_is_left_when_the_launcher_is_killed() {
    let (job, lifeline, _dir) = family("-n 2");
    job.signal("-KILL");
    lifeline.end();
}

#[test]
fn nothing_is_left_when_the_agent_is_killed() {
    let (job, lifeline, _dir) = family("-n 2 --bind-to none");
    let launcher = job.child.id();
    let children = fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children")).unwrap();
    let agent: u32 = children.trim().parse().unwrap();
    // Its ranks are killed by the kernel; what they have started goes to the next reaper, which is not ours.
    kill("-TERM", agent);
    let (code, said) = job.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("its agent has ended") && said.contains("ranks 0, 1 lost"),
        "{said}"
    );
    lifeline.end();
}

#[test]
fn ctrl_c_ends_and_a_second_one_kills() {
    let (mut job, lifeline, _dir) = family("-n 2 --timeout 1000");
    job.signal("-INT");
    loop {
        let line = job.error_line();
        assert!(!line.is_empty(), "it says nothing");
        if line.contains("SIGINT: ending all ranks") {
            break;
        }
    }
    job.signal("-INT");
    let (code, said) = job.end();
    assert_eq!(code, Some(130), "{said}");
    lifeline.end();
    let mut polite = Job::start("-n 2 hello --stay", &[]);
    polite.line();
    polite.signal("-TERM");
    assert_eq!(polite.end().0, Some(143));
}

#[test]
fn signals_for_the_program_are_passed_on() {
    let script = "trap 'echo got it; exit 0' USR1; echo ready; while :; do sleep 0.01; done";
    let mut job = Job::start("-n 1 sh -c", &[script]);
    assert_eq!(job.line(), "ready\n");
    job.signal("-USR1");
    assert_eq!(job.line(), "got it\n");
    assert_eq!(job.end().0, Some(0));
}

#[test]
fn a_job_has_its_time() {
    let (job, lifeline, _dir) = family("-n 2 --timeout 1");
    let (code, said) = job.end();
    assert_eq!(code, Some(124), "{said}");
    assert!(said.contains("the job has not ended within 1 s"), "{said}");
    lifeline.end();
}

#[test]
fn who_reads_no_more_ends_the_job() {
    let mut job = Job::start("-n 2 yes", &[]);
    assert_eq!(job.line(), "y\n");
    // What `head -1` does: it closes its end.
    job.stdout = BufReader::new(empty_stdout());
    assert_eq!(job.end().0, Some(141));
}

/// Standard output of a process that prints nothing.
fn empty_stdout() -> ChildStdout {
    let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    child.wait().unwrap();
    stdout
}

#[test]
fn ranks_are_bound_and_that_is_said() {
    let script = "grep Cpus_allowed_list /proc/self/status";
    let output = expect("-n 1 --report-bindings sh -c", &[script], 0, "is bound to CPU ");
    let cpu = err(&output).trim().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(out(&output).split_whitespace().last(), Some(cpu.as_str()));
    let output = expect(
        "-n 1 --bind-to none --report-bindings sh -c",
        &[script],
        0,
        "is not bound",
    );
    assert!(!err(&output).contains("CPU"));
    expect("-n 500 --timeout 60 true", &[], 0, "cores: they are not bound");
}

#[test]
fn hosts_by_ssh() {
    let dir = Dir::new("hosts");
    let hosts = dir.write("hosts", "nodea slots=2 # two\nnodeb:1\n");
    let ssh = dir.ssh();
    let output = run(
        &format!("--hostfile {hosts} --ssh {ssh} -l sh -c"),
        &["echo $FAKE_HOST"],
    );
    let text = out(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] nodea", "[1] nodea", "[2] nodeb"], "{}", err(&output));
    let output = expect(&format!("--host nodea,nodeb,localhost --ssh {ssh} hello"), &[], 0, "");
    check_hello(&out(&output), 3, "hikyaku");
    // Where ssh has reached a host is where its ranks are.
    assert_eq!(out(&output).matches("local 0 of 1").count(), 3);
    assert_eq!(out(&output).matches(" 127.0.0.1:").count(), 3, "{}", out(&output));
    let output = expect(
        &format!("-n 3 --host nodea,nodeb --ssh {ssh} hello"),
        &[],
        0,
        "3 ranks on 2 slots",
    );
    check_hello(&out(&output), 3, "hikyaku");
}

#[test]
fn settings_and_odd_words_reach_other_hosts() {
    let dir = Dir::new("settings");
    let ssh = dir.ssh();
    let line = format!("--host nodea --ssh {ssh} --backend udp --env 'A=x sh -c");
    let output = command(
        &line,
        &[
            "echo \"$HIKYAKU_BACKEND $HIKYAKU_WAIT\"; printf '%s|' \"$@\"; pwd",
            "sh",
            "a b",
            "$HOME",
            "'\"",
        ],
    )
    .env("HIKYAKU_WAIT", "block")
    .output()
    .unwrap();
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        out(&output),
        format!("udp block\na b|$HOME|'\"|{}\n", here.display()),
        "{}",
        err(&output)
    );
}

#[test]
fn a_host_that_can_not_be_reached() {
    let dir = Dir::new("unreachable");
    let ssh = dir.script(
        "ssh",
        "test $1 = nodeb && { echo no route to $1 >&2; exit 255; }; shift; exec sh -c \"$*\"",
    );
    let output = expect(
        &format!("--host nodea,nodeb --ssh {ssh} hello"),
        &[],
        1,
        "host nodeb: no agent could be started (exit status: 255)",
    );
    assert!(err(&output).contains("nodeb: no route to nodeb\n"), "{}", err(&output));
    assert!(out(&output).is_empty(), "no rank may start before all hosts are there");
}

#[test]
fn a_host_that_does_not_answer() {
    let dir = Dir::new("silent");
    let ssh = dir.script("ssh", "exec sleep 1000");
    expect(
        &format!("--startup-timeout 0.3 --host nodea --ssh {ssh} hello"),
        &[],
        1,
        "no answer within 0.3 s from: nodea (",
    );
}

#[test]
fn a_host_with_another_version_or_another_mind() {
    let dir = Dir::new("versions");
    let ssh = dir.script("ssh", "printf '\\nhikyaku agent 99.1.2\\n'; exec cat");
    expect(
        &format!("--host nodea --ssh {ssh} hello"),
        &[],
        1,
        "hikyaku 99.1.2 is there",
    );
    let ssh = dir.script("loud", "yes welcome | head -c 100000; exec cat");
    expect(
        &format!("--host nodea --ssh {ssh} hello"),
        &[],
        1,
        "it says something else than an agent does",
    );
    // What a login shell prints before is skipped.
    let ssh = dir.script("chatty", "shift; printf 'Welcome to nodea'; exec sh -c \"$*\"");
    let output = expect(&format!("--host nodea --ssh {ssh} hello"), &[], 0, "");
    check_hello(&out(&output), 1, "hikyaku");
}

#[test]
fn a_host_that_is_lost() {
    let dir = Dir::new("lost");
    let ssh = dir.script("ssh", "shift; echo $$ >&2; exec sh -c \"$*\"");
    let mut job = Job::start(&format!("--host nodea,localhost --ssh {ssh} hello --stay"), &[]);
    let agent = job.error_line();
    let agent = agent.trim().strip_prefix("nodea: ").unwrap().parse().unwrap();
    job.line();
    job.line();
    kill("-KILL", agent);
    let (code, said) = job.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("host nodea: its agent has ended") && said.contains("rank 0 lost"),
        "{said}"
    );
}

#[test]
fn malformed_hosts_have_their_place() {
    let dir = Dir::new("malformed");
    let hosts = dir.write("hosts", "# hosts\nnodea slots=two\n");
    let output = expect(
        &format!("--hostfile {hosts} true"),
        &[],
        2,
        "hosts:2:13: 'two' is no number of slots",
    );
    assert!(out(&output).is_empty());
    expect("--host a:0 true", &[], 2, "--host a:0: '0' is no number of slots");
}

#[test]
fn addresses_and_ports_can_be_chosen() {
    let mut chosen = command(
        "-n 2 --env HIKYAKU_IFACE=127.0.0.9 --env HIKYAKU_PORT_BASE=28411 hello",
        &[],
    );
    let output = chosen.output().unwrap();
    for port in [28411, 28412] {
        let said = format!("at 127.0.0.9:{port},");
        assert!(out(&output).contains(&said), "{}{}", out(&output), err(&output));
    }
    let output = run("-n 1 --env HIKYAKU_IFACE=nothere0 hello", &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    assert!(
        said.contains("HIKYAKU_IFACE=nothere0: no interface fits; this host has lo 127.0.0.1"),
        "{said}"
    );
}

#[test]
fn strangers_at_the_wire_up_server_do_not_matter() {
    let mut job = Job::start(
        "-n 1 sh -c",
        &["echo $HIKYAKU_RUN_ADDRESS; read go; exec \"$0\" hello", PROGRAM],
    );
    // Standard input is /dev/null, so the rank goes on by itself; the stranger comes before or after it.
    let address = job.line();
    let stranger = TcpStream::connect(address.trim());
    if let Ok(mut stranger) = stranger {
        let _ = stranger.write_all(b"cmd=hello rank=0 ticket=00\n");
    }
    check_hello(&job.line(), 1, "hikyaku");
    assert_eq!(job.end().0, Some(0));
}

#[test]
fn help_teaches() {
    let output = run("--help", &[]);
    let text = out(&output);
    for part in ["Examples:", "--hostfile", "Ctrl-C", ": -n 3 ./worker"] {
        assert!(text.contains(part), "{text}");
    }
    // The agent's option is not for people.
    assert!(!text.contains("--agent"));
}
