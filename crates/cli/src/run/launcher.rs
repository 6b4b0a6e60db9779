//! The launcher: waits for everything at once, answers the wire-up, and decides when the job ends and how.

mod worlds;

use std::{
    io::{self, ErrorKind, IsTerminal, Read},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use hikyaku::internals::bootstrap::server::{Note, Outcome, Worlds};
use hikyaku_bench::failure::{Failure, While};
use nix::{
    sys::signal::Signal,
    unistd::{getpgrp, tcgetpgrp},
};

use super::{
    frame::{Ended, Frame, Hello, Kind, NotStarted, Started},
    output::Output,
    pipes::{Interest, Raw},
    plan::Plan,
    remote::Link,
    signals::Signals,
};

/// How long ranks may take to end by themselves before they are killed, and agents after them.
const GRACE: Duration = Duration::from_secs(3);
/// Exit code when `--timeout` has passed, as of timeout(1).
const TIMED_OUT: u8 = 124;
/// How much is read from standard input before rank 0 must have taken it.
const STDIN_PIECE: usize = 64 << 10;

/// The launcher's knowledge of a rank.
#[derive(Clone, Copy, Debug, Default)]
struct Rank {
    pid: Option<i32>,
    joined: bool,
    over: bool,
    /// It belongs to a spawned world that could not begin.
    refused: bool,
}

/// The next step if the job does not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Ranks are killed.
    Kill,
    /// Agents are killed, and ranks with them.
    Abandon,
}

/// How the wait for standard input stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// More can be read.
    Open,
    /// Rank 0 has not taken the last piece yet.
    Waiting,
    Closed,
}

struct Launcher<'a> {
    plan: &'a Plan,
    worlds: Worlds,
    links: Vec<Link>,
    /// Index of the host of each rank.
    host_of: Vec<usize>,
    ranks: Vec<Rank>,
    signals: Signals,
    output: Output,
    input: Input,
    started: bool,
    /// The secret of the job.
    job_key: String,
    /// Exit code of the job, once it cannot be 0 any more.
    code: Option<u8>,
    /// Ranks that have failed while the others went on.
    failed: Vec<u32>,
    /// The job is being ended: the next step, and when.
    next_step: Option<(Step, Instant)>,
    /// Until when hosts must have answered.
    hello_until: Instant,
    /// The time by which a fence must be complete in which a rank waits.
    fence_until: Option<Instant>,
    job_until: Option<Instant>,
}

/// Runs a job and gives its exit code.
pub(super) fn run(plan: &Plan) -> Result<u8, Failure> {
    let mut links = Vec::new();
    for (host, _) in &plan.hosts {
        let link = Link::start(host, plan);
        links.push(link.or_fail(&format!("host {}: starting its agent", host.name))?);
    }
    let wanted = [
        Signal::SIGCHLD,
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ];
    let mut host_of = vec![0; plan.size as usize];
    for (index, (_, places)) in plan.hosts.iter().enumerate() {
        places.iter().for_each(|place| host_of[place.rank as usize] = index);
    }
    let now = Instant::now();
    let mut launcher = Launcher {
        plan,
        worlds: Worlds::new(plan.size),
        links,
        host_of,
        ranks: vec![Rank::default(); plan.size as usize],
        signals: Signals::take(&wanted).or_fail("taking signals")?,
        output: Output::new(plan.tag_output),
        input: Input::Open,
        started: false,
        job_key: String::new(),
        code: None,
        failed: Vec::new(),
        next_step: None,
        hello_until: now + plan.startup_timeout,
        fence_until: None,
        job_until: plan.timeout.map(|limit| now + limit),
    };
    if plan.missing_slots > 0 {
        launcher.output.say(&format!(
            "{} ranks on {} slots: hosts get ranks beyond theirs",
            plan.size,
            plan.size - plan.missing_slots
        ));
    }
    launcher.serve().or_fail("waiting")?;
    launcher.sum_up().or_fail("waiting")?;
    Ok(launcher.code.unwrap_or(0))
}

impl Launcher<'_> {
    /// Until all ranks have ended and all that they printed is out.
    fn serve(&mut self) -> io::Result<()> {
        while !self.is_over() {
            self.turn()?;
        }
        self.links.iter_mut().for_each(Link::close);
        let until = Instant::now() + GRACE;
        while self.links.iter().any(|link| link.ended.is_none()) && Instant::now() < until {
            self.turn_until(Some(until))?;
        }
        self.links.iter_mut().for_each(Link::kill);
        self.output.sum_up_repeats();
        self.drain()
    }

    /// Until all that was printed is out. A reader that is slow has its time; one that does not read has not.
    fn drain(&mut self) -> io::Result<()> {
        let until = Instant::now() + GRACE;
        while !self.output.is_empty() && (self.is_patient() || Instant::now() < until) {
            self.turn_until((!self.is_patient()).then_some(until))?;
        }
        Ok(())
    }

    /// The job was not ended.
    fn is_patient(&self) -> bool {
        self.code.is_none() || self.plan.goes_on && self.next_step.is_none()
    }

    fn is_over(&self) -> bool {
        let gone = |index: usize| self.links[index].ended.is_some();
        let mut ranks = self.ranks.iter().zip(&self.host_of);
        // A job that fails before it has started has no ranks to wait for.
        (!self.started && self.code.is_some()) || ranks.all(|(rank, &host)| rank.over || gone(host))
    }

    fn turn(&mut self) -> io::Result<()> {
        let times = [
            (!self.started).then_some(self.hello_until),
            self.fence_until,
            self.job_until,
            self.next_step.map(|(_, at)| at),
            self.output.next_release(),
        ];
        self.turn_until(times.into_iter().flatten().min())
    }

    /// Waits for an event and handles it.
    fn turn_until(&mut self, until: Option<Instant>) -> io::Result<()> {
        let (stdin, out, err) = (io::stdin(), io::stdout(), io::stderr());
        let reads_stdin = self.started && self.input == Input::Open && may_read_stdin();
        let mut interest = Interest::default();
        interest.read(self.signals.as_fd());
        if reads_stdin {
            interest.read(stdin.as_fd());
        }
        self.output.interest(&out, &err, &mut interest);
        let reads = !self.output.is_full();
        self.links.iter().for_each(|link| link.interest(&mut interest, reads));
        interest.wait(until)?;
        let ready = interest.ready();
        let stdin_ready = reads_stdin && ready.has(&stdin);
        self.output.flush(&out, &err, &ready);
        if self.output.is_broken() && self.is_patient() {
            self.end(Signal::SIGTERM, 128 + Signal::SIGPIPE as u8, None);
        }
        if stdin_ready {
            self.read_stdin();
        }
        self.hear_signals();
        self.hear_agents(reads);
        // Of ranks that are ended it is seen soon enough how.
        if self.next_step.is_none() {
            self.output.release_late(Instant::now());
        }
        self.watch_time();
        Ok(())
    }

    fn read_stdin(&mut self) {
        let mut piece = vec![0; STDIN_PIECE];
        // One read of what is there: the terminal's or a pipe's, which stay as blocking as they are.
        let count = match Raw(io::stdin()).read(&mut piece) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => return,
            Err(_) => 0,
        };
        piece.truncate(count);
        self.input = if count == 0 { Input::Closed } else { Input::Waiting };
        self.links[self.host_of[0]].send(&Frame::new(Kind::Stdin, 0, piece));
    }

    fn hear_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                Signal::SIGCHLD => self.links.iter_mut().for_each(Link::look_hard),
                Signal::SIGUSR1 | Signal::SIGUSR2 => self.signal_all(signal),
                _ if self.next_step.is_none() => {
                    let code = 128 + signal as u8;
                    self.end(signal, code, Some(format!("{signal}: ending all ranks")));
                }
                // Again: it has waited long enough.
                _ => self.take_step(Step::Kill),
            }
        }
    }

    fn hear_agents(&mut self, reads: bool) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            link.complaints(self.output.errors());
            let frames = if reads { link.receive() } else { Ok(Vec::new()) };
            match frames {
                Ok(frames) => {
                    for frame in frames {
                        if let Err(error) = self.handle(index, &frame) {
                            self.fail_host(index, &error);
                        }
                    }
                }
                Err(error) => self.fail_host(index, &error),
            }
            self.links[index].look();
            self.mourn(index);
        }
        // What was answered meanwhile goes out in one piece.
        self.links.iter_mut().for_each(Link::flush);
    }

    fn fail_host(&mut self, index: usize, error: &str) {
        let name = self.links[index].name.clone();
        self.end(Signal::SIGTERM, 1, Some(format!("host {name}: {error}")));
        self.links[index].kill();
    }

    /// If an agent has ended although its ranks have not.
    fn mourn(&mut self, index: usize) {
        let link = &mut self.links[index];
        let Some(status) = link.ended else { return };
        // If it was only ssh that has ended, this ends the agent.
        link.close();
        let here = (0..).zip(&self.host_of).filter(|(_, host)| **host == index);
        let lost: Vec<u32> = here
            .map(|(rank, _)| rank)
            .filter(|rank| !self.ranks[*rank as usize].over)
            .collect();
        if lost.is_empty() {
            return;
        }
        let text = if link.hello.is_none() {
            format!(
                "host {}: no agent could be started ({status}): {}",
                link.name, link.line
            )
        } else {
            format!(
                "host {}: its agent has ended ({status}): {} lost",
                link.name,
                ranks_text(&lost)
            )
        };
        lost.iter().for_each(|rank| self.ranks[*rank as usize].over = true);
        if !self.goes_on(lost[0]) {
            return self.end(Signal::SIGTERM, 1, Some(text));
        }
        self.code = self.code.or(Some(1));
        self.output.say(&format!("{text}; the others go on"));
        lost.into_iter().for_each(|rank| self.lose(rank));
    }

    fn handle(&mut self, index: usize, frame: &Frame) -> Result<(), String> {
        let rank = frame.rank;
        if rank as usize >= self.ranks.len() {
            return Err(format!("rank {rank} does not exist"));
        }
        let state = &mut self.ranks[rank as usize];
        match frame.kind {
            Kind::Hello => {
                self.links[index].hello = Some(frame.content::<Hello>()?);
                if !self.started && self.code.is_none() && self.links.iter().all(|link| link.hello.is_some()) {
                    self.start_ranks().map_err(|error| error.to_string())?;
                }
            }
            Kind::Started => {
                let started: Started = frame.content()?;
                state.pid = Some(started.pid);
                self.report(rank, &started);
            }
            Kind::NotStarted => {
                let problem: NotStarted = frame.content()?;
                state.over = true;
                let text = format!("{} could not be started: {}", self.name(rank), problem.message);
                if self.worlds.is_spawning(rank) || self.is_refused(rank) {
                    self.refuse(rank, &text);
                    return Ok(());
                }
                self.end(Signal::SIGTERM, problem.code, Some(text));
            }
            Kind::Stdout => self.output.carry(rank, false, &frame.payload),
            Kind::Stderr => self.output.carry(rank, true, &frame.payload),
            Kind::StdinTaken if self.input == Input::Waiting => self.input = Input::Open,
            Kind::StdinTaken => {}
            Kind::Joined => {
                state.joined = true;
                self.output.release(rank);
                self.worlds.joined(rank);
                self.blame_who_did_not_join();
            }
            Kind::Line => {
                let outcome = self.worlds.handle(rank, &frame.payload);
                self.answer(rank, outcome);
            }
            Kind::Limit => {
                let (name, text) = (&self.links[index].name, String::from_utf8_lossy(&frame.payload));
                self.output.say(&format!("host {name}: {text}"));
            }
            Kind::Exited => self.rank_ended(rank, frame.content()?),
            kind => return Err(format!("{kind:?} from an agent")),
        }
        Ok(())
    }

    fn report(&mut self, rank: u32, started: &Started) {
        if self.plan.report_bindings {
            let place = match started.cpu {
                Some(cpu) => format!("bound to CPU {cpu}"),
                None => "not bound".to_owned(),
            };
            let text = format!("{} is {place}", self.name(rank));
            self.output.say(&text);
        }
    }

    fn answer(&mut self, rank: u32, outcome: Outcome) {
        for (to, line) in outcome.replies {
            self.links[self.host_of[to as usize]].queue(&Frame::new(Kind::Reply, to, line));
        }
        match outcome.note {
            Some(Note::Aborted { code, message }) => {
                let text = format!("{} aborted the job with code {code}: {message}", self.name(rank));
                self.end(Signal::SIGTERM, code, Some(text));
            }
            Some(Note::Malformed(error)) => {
                let text = format!("{} spoke to the wire-up server, but {error}", self.name(rank));
                self.end(Signal::SIGTERM, 1, Some(text));
            }
            Some(Note::Spawn(spawning)) => self.spawn(rank, spawning),
            _ => {}
        }
        self.fence_until = match (self.worlds.is_awaiting(), self.fence_until) {
            (false, _) => None,
            (true, Some(until)) => Some(until),
            // Others may compute for long, and who fails is not waited for.
            (true, None) if self.plan.goes_on && self.worlds.awaits_only_again() => None,
            (true, None) => Some(Instant::now() + self.plan.startup_timeout),
        };
    }

    fn rank_ended(&mut self, rank: u32, ended: Ended) {
        if ended.code() == 0 {
            self.output.release(rank);
        } else {
            self.output.drop_repeats(rank);
        }
        let finalized = self.worlds.has_finalized(rank);
        self.ranks[rank as usize].over = true;
        if self.is_refused(rank) {
            return;
        }
        let joined = self.ranks[rank as usize].joined;
        let text = match ended {
            Ended::Code(0) if joined && !finalized => "exited without finalize".to_owned(),
            Ended::Code(0) => return self.blame_who_did_not_join(),
            Ended::Code(code) => format!("exited with code {code}"),
            Ended::Signal(number) => {
                let name = Signal::try_from(number).map_or("unknown", Signal::as_str);
                format!("killed by signal {number} ({name})")
            }
        };
        let code = ended.code().max(1);
        if finalized {
            // The others have no need of it.
            self.say_end(code, format!("{}: {text}", self.name(rank)));
        } else if self.goes_on(rank) {
            self.code = self.code.or(Some(code));
            let text = format!("{}: {text}; the others go on", self.name(rank));
            self.output.say(&text);
            return self.lose(rank);
        } else {
            self.end(Signal::SIGTERM, code, Some(format!("{}: {text}", self.name(rank))));
        }
        let outcome = self.worlds.left(rank);
        self.answer(rank, outcome);
    }

    /// The job can go on without a rank: that was asked for, it does not end already, and the rank is not one that others
    /// wait for at start-up.
    fn goes_on(&self, rank: u32) -> bool {
        let nobody_joined = !self.ranks.iter().any(|rank| rank.joined);
        self.plan.goes_on && self.next_step.is_none() && (self.worlds.has_met(rank) || nobody_joined)
    }

    /// Tells the others that a rank has failed, and goes on with them.
    fn lose(&mut self, rank: u32) {
        self.failed.push(rank);
        for link in self.links.iter_mut().filter(|link| link.ended.is_none()) {
            link.queue(&Frame::new(Kind::Lost, rank, Vec::new()));
        }
        let outcome = self.worlds.lost(rank);
        self.answer(rank, outcome);
    }

    /// The last line of a job that went on: the ranks that have failed.
    fn sum_up(&mut self) -> io::Result<()> {
        if self.failed.is_empty() {
            return Ok(());
        }
        self.failed.sort_unstable();
        let (count, size) = (self.failed.len(), self.ranks.len());
        let text = format!("{count} of {size} ranks failed: {}", ranks_text(&self.failed));
        self.output.say(&text);
        self.drain()
    }

    /// A job of programs that do not join is fine; one that some join and others cannot join any more is not.
    fn blame_who_did_not_join(&mut self) {
        let left_out = |rank: &Rank| rank.over && !rank.joined && !rank.refused;
        let culprit = self.ranks.iter().position(left_out).map(|rank| rank as u32);
        if let Some(rank) = culprit
            && self.ranks.iter().any(|rank| rank.joined)
        {
            let text = format!("{}: exited without joining the job as others have", self.name(rank));
            self.end(Signal::SIGTERM, 1, Some(text));
        }
    }

    /// `rank 2 (pid 123 on host)`
    fn name(&self, rank: u32) -> String {
        let host = &self.links[self.host_of[rank as usize]].name;
        match self.ranks[rank as usize].pid {
            Some(pid) => format!("rank {rank} (pid {pid} on {host})"),
            None => format!("rank {rank} (on {host})"),
        }
    }

    /// Says why the job fails; only the first reason counts, since the others follow from it.
    fn say_end(&mut self, code: u8, text: String) {
        if self.code.is_none() {
            self.code = Some(code);
            self.output.say(&text);
        }
    }

    /// Ends the job: with `signal` first, then by force.
    fn end(&mut self, signal: Signal, code: u8, text: Option<String>) {
        if self.next_step.is_some() {
            return;
        }
        match text {
            Some(text) => self.say_end(code, text),
            None => self.code = self.code.or(Some(code)),
        }
        self.signal_all(signal);
        self.next_step = Some((Step::Kill, Instant::now() + GRACE));
    }

    fn signal_all(&mut self, signal: Signal) {
        let frame = Frame::new(Kind::Signal, 0, [signal as u8]);
        let running = self.links.iter_mut().filter(|link| link.ended.is_none());
        running.for_each(|link| link.send(&frame));
    }

    fn take_step(&mut self, step: Step) {
        match step {
            Step::Kill => {
                self.signal_all(Signal::SIGKILL);
                self.next_step = Some((Step::Abandon, Instant::now() + GRACE));
            }
            Step::Abandon => {
                self.links.iter_mut().for_each(Link::kill);
                self.ranks.iter_mut().for_each(|rank| rank.over = true);
                self.next_step = None;
            }
        }
    }

    fn watch_time(&mut self) {
        let now = Instant::now();
        if let Some((step, at)) = self.next_step {
            if now >= at {
                self.take_step(step);
            }
            return;
        }
        if !self.started && now >= self.hello_until {
            let silent = self.links.iter().filter(|link| link.hello.is_none());
            let silent: Vec<String> = silent.map(|link| format!("{} ({})", link.name, link.line)).collect();
            if !silent.is_empty() {
                let seconds = self.plan.startup_timeout.as_secs_f64();
                let text = format!("no answer within {seconds} s from: {}", silent.join(", "));
                self.end(Signal::SIGTERM, 1, Some(text));
            }
        }
        if self.fence_until.is_some_and(|until| now >= until) {
            let missing = ranks_text(&self.worlds.awaited());
            let seconds = self.plan.startup_timeout.as_secs_f64();
            let text = format!("others wait at start-up, and {missing} did not come within {seconds} s");
            self.end(Signal::SIGTERM, 1, Some(text));
        }
        if self.job_until.is_some_and(|until| now >= until) {
            self.job_until = None;
            let seconds = self.plan.timeout.unwrap_or_default().as_secs_f64();
            self.end(
                Signal::SIGTERM,
                TIMED_OUT,
                Some(format!("the job has not ended within {seconds} s")),
            );
        }
    }
}

/// `rank 3`, `ranks 1, 2, 5`
fn ranks_text(ranks: &[u32]) -> String {
    const SHOWN: usize = 20;
    let mut names: Vec<String> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    if ranks.len() > SHOWN {
        names.push(format!("and {} more", ranks.len() - SHOWN));
    }
    let plural = if ranks.len() == 1 { "" } else { "s" };
    format!("rank{plural} {}", names.join(", "))
}

/// In the background of a terminal, reading from it would stop this process.
fn may_read_stdin() -> bool {
    let stdin = io::stdin();
    !stdin.is_terminal() || tcgetpgrp(&stdin).is_ok_and(|foreground| foreground == getpgrp())
}

#[cfg(test)]
mod tests {
    use super::ranks_text;

    #[test]
    fn ranks_are_named() {
        assert_eq!(ranks_text(&[3]), "rank 3");
        assert_eq!(ranks_text(&[1, 2, 5]), "ranks 1, 2, 5");
        let many: Vec<u32> = (0..25).collect();
        assert!(ranks_text(&many).ends_with("19, and 5 more"));
    }
}
