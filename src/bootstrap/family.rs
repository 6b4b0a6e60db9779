//! Worlds that are spawned by a launcher which gives each of them a store of its own (PMI, PMIx).
//!
//! A process of the first world that has others started runs a wire-up server for them, and for all that these spawn in
//! turn: it numbers the processes of these worlds, tells each what it must know of those that have spawned it, and learns
//! their addresses. The launcher starts the processes and passes on one word, by which they find that server. For
//! everything else they use the launcher's own store.

use std::{
    env, fmt, fs,
    net::{SocketAddr, TcpListener},
    ops::Range,
    os::unix::fs::PermissionsExt,
    path::Path,
    str::FromStr,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    Exchange, JobKey, Launcher, MAX_PROCESSES,
    channel::connect,
    error::{BootstrapError, Cause},
    exchange::{Home, Origin, Program, Spawner, Starter},
    identity::Identity,
    news::News,
    pmi::Pmi,
    rendezvous::patiently,
    server::{BY, ListenerEvent, Note, Outcome, WireUpListener, Worlds},
};
use crate::helper;

/// Where the server is, and what a new process must know to come there.
#[derive(Clone, Debug, PartialEq)]
struct Contact {
    address: SocketAddr,
    ticket: JobKey,
    /// The number of the first process of its world.
    first: u32,
    job_key: JobKey,
}

/// A word without blanks.
impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ticket, key) = (self.ticket.to_hex(), self.job_key.to_hex());
        write!(f, "{}/{ticket}/{}/{key}", self.address, self.first)
    }
}

impl FromStr for Contact {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        let [address, ticket, first, key] = <[&str; 4]>::try_from(word.split('/').collect::<Vec<_>>()).map_err(drop)?;
        Ok(Self {
            address: address.parse().map_err(drop)?,
            ticket: ticket.parse()?,
            first: first.parse().ok().filter(|first| *first < MAX_PROCESSES).ok_or(())?,
            job_key: key.parse()?,
        })
    }
}

/// The connection to the server.
struct Line {
    client: Pmi,
    address: SocketAddr,
    ticket: JobKey,
}

/// A process of a launcher that can start others.
pub(super) struct Family {
    launcher: Launcher,
    own: Box<dyn Starter>,
    rank: u32,
    size: u32,
    timeout: Duration,
    /// The keys that this process, and so each of its world, has put before they met.
    keys: Vec<String>,
    met: bool,
    line: Option<Line>,
    /// How this world was spawned.
    origin: Option<Origin>,
}

impl Family {
    /// `contact` is the word of the processes that have spawned this one.
    pub(super) fn join(
        launcher: Launcher,
        own: Box<dyn Starter>,
        identity: Identity,
        contact: Option<&str>,
        timeout: Duration,
    ) -> Result<(Box<dyn Exchange>, Identity), BootstrapError> {
        let mut family = Self {
            launcher,
            own,
            rank: identity.rank,
            size: identity.size,
            timeout,
            keys: Vec::new(),
            line: None,
            origin: None,
            met: false,
        };
        let Some(word) = contact else {
            return Ok((Box::new(family), identity));
        };
        let fail = |cause| BootstrapError::new(launcher, "finding the processes that have spawned this one", cause);
        let contact: Contact = word
            .parse()
            .map_err(|()| fail(Cause::Refused("a contact that is none".into())))?;
        let process = contact.first + identity.rank;
        let mut line = family.call(contact.address, contact.ticket, process)?;
        let by = line.client.get_of(contact.first, BY)?;
        family.origin = Some(Origin {
            first: contact.first,
            by: String::from_utf8(by).map_err(|_| fail(Cause::Refused("a word that is no text".into())))?,
            on_one_host: contact.address.ip().is_loopback(),
        });
        family.line = Some(line);
        let job_key = Some(contact.job_key);
        Ok((Box::new(family), Identity { job_key, ..identity }))
    }

    /// Connects to the server.
    fn call(&self, address: SocketAddr, ticket: JobKey, process: u32) -> Result<Line, BootstrapError> {
        let (launcher, timeout) = (self.launcher, self.timeout);
        let doing = format!("connecting to the processes that spawn others, at {address}");
        let hello = || {
            let stream = connect(&address.to_string(), timeout);
            let stream = stream.map_err(|cause| BootstrapError::new(launcher, doing.as_str(), cause))?;
            Pmi::join_hikyaku(launcher, stream, &ticket.to_hex(), process, timeout)
        };
        Ok(Line {
            client: patiently(launcher, &hello)?.with_rank(self.rank),
            address,
            ticket,
        })
    }

    /// Begins the server in this process, which is of the first world.
    fn serve(&mut self, home: &Home) -> Result<Line, BootstrapError> {
        let fail = |cause: Cause| BootstrapError::new(self.launcher, "listening for processes that are spawned", cause);
        let listener = TcpListener::bind((home.address, 0)).map_err(|error| fail(error.into()))?;
        let address = listener.local_addr().map_err(|error| fail(error.into()))?;
        let ticket = JobKey::random().map_err(|error| fail(error.into()))?;
        let mut listener =
            WireUpListener::new(listener, &ticket.to_hex(), [self.rank]).map_err(|error| fail(error.into()))?;
        let mut worlds = Worlds::sharing(self.size, numbers(self.rank, self.size));
        for key in &self.keys {
            for (process, value) in (0..).zip(self.own.get_all(self.size, key)?) {
                if let Some(value) = value {
                    worlds.adopt(process, key, &value);
                }
            }
        }
        let rank = self.rank;
        helper::spawn("hikyaku spawned", move || serve(&mut listener, &mut worlds, rank))
            .map_err(|error| fail(error.into()))?;
        self.call(address, ticket, self.rank)
    }
}

/// The numbers of the processes that this rank of a first world, or any process of its descent, may spawn. No message is
/// needed to agree on them: half are for rank 0, which is the root of most calls, and the others share the other half.
fn numbers(rank: u32, size: u32) -> Range<u32> {
    let rest = MAX_PROCESSES.saturating_sub(size);
    if size == 1 {
        return size..MAX_PROCESSES;
    }
    let half = rest / 2;
    if rank == 0 {
        return size..size + half;
    }
    let share = (rest - half) / (size - 1);
    let begin = size + half + share * (rank - 1);
    begin..begin + share
}

/// Answers until the process `root`, in which this runs, leaves.
fn serve(listener: &mut WireUpListener, worlds: &mut Worlds, root: u32) {
    loop {
        let limit = Duration::from_millis(if listener.has_strangers() { 100 } else { 1000 });
        let limit = Timespec::try_from(limit).unwrap_or_default();
        let _ = poll(&mut [PollFd::new(&*listener, PollFlags::IN)], Some(&limit));
        for event in listener.pump() {
            let outcome = match event {
                ListenerEvent::Left(process) if process == root => return,
                ListenerEvent::Joined(process) => {
                    worlds.joined(process);
                    Outcome::default()
                }
                ListenerEvent::Line(process, line) => worlds.handle(process, &line),
                ListenerEvent::Left(process) if worlds.is_spawning(process) => {
                    let left = worlds.left(process);
                    let mut outcome = worlds.refuse(process, "a process has ended before all have come");
                    outcome.replies.extend(left.replies);
                    outcome
                }
                ListenerEvent::Left(process) => worlds.left(process),
                ListenerEvent::Limit(limit) => {
                    eprintln!("hikyaku: {limit}");
                    Outcome::default()
                }
                ListenerEvent::Dropped(_) => Outcome::default(),
            };
            if let Some(Note::Expect(processes)) = outcome.note {
                listener.expect(processes);
            }
            for (process, line) in outcome.replies {
                listener.send(process, &line);
            }
        }
    }
}

/// Why a program cannot be started on this host, if it is known: launchers do not always say it.
fn missing(program: &str) -> Option<String> {
    let is_there =
        |path: &Path| fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return match fs::metadata(program) {
            Err(error) => Some(format!("{program}: {error}")),
            Ok(_) if is_there(Path::new(program)) => None,
            Ok(_) => Some(format!("{program}: it is no program")),
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|directory| is_there(&directory.join(program)));
    (!found).then(|| format!("{program}: no such program is in PATH"))
}

impl Exchange for Family {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.own.put(key, value)?;
        // Those of this room are nobody's business elsewhere.
        if self.met || key.starts_with('.') {
            return Ok(());
        }
        if self.origin.is_some()
            && let Some(line) = &mut self.line
        {
            line.client.put(key, value)?;
        }
        self.keys.push(key.to_owned());
        Ok(())
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        self.own.fence()?;
        if !self.met && !self.keys.is_empty() {
            self.met = true;
            if self.origin.is_some()
                && let Some(line) = &mut self.line
            {
                return line.client.fence();
            }
        }
        Ok(())
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.own.get(rank, key)
    }

    fn get_all(&mut self, size: u32, key: &str) -> Result<Vec<Option<Vec<u8>>>, BootstrapError> {
        self.own.get_all(size, key)
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        self.own.finalize()
    }

    fn spawner(&mut self) -> Option<&mut dyn Spawner> {
        Some(self)
    }

    fn origin(&self) -> Option<Origin> {
        self.origin.clone()
    }

    fn news(&self) -> Option<&News> {
        self.own.news()
    }

    fn abort(&mut self, code: u8, message: &str) {
        self.own.abort(code, message);
    }
}

impl Spawner for Family {
    fn spawn(&mut self, programs: &[Program], by: &str, home: &Home) -> Result<u32, BootstrapError> {
        let doing = "spawning processes";
        if home.on_one_host
            && let Some(why) = programs.iter().find_map(|program| missing(&program.command[0]))
        {
            return Err(BootstrapError::new(self.launcher, doing, Cause::Argument(why)));
        }
        let line = match self.line.take() {
            Some(line) => line,
            None => self.serve(home)?,
        };
        let line = self.line.insert(line);
        let count = programs.iter().map(|program| program.processes).sum();
        let first = line.client.reserve(count, by)?;
        let contact = Contact {
            address: line.address,
            ticket: line.ticket,
            first,
            job_key: home.job_key,
        };
        let come = self.own.start(programs, &contact.to_string());
        let come = come.and_then(|()| line.client.await_spawned(first));
        if come.is_err() {
            line.client.give_up(first)?;
        }
        come
    }

    fn get_of(&mut self, process: u32, key: &str) -> Result<Vec<u8>, BootstrapError> {
        match &mut self.line {
            Some(line) => line.client.get_of(process, key),
            None => {
                let cause = Cause::Argument("this process was not spawned, and has spawned none".into());
                Err(BootstrapError::new(
                    self.launcher,
                    format!("getting '{key}' of process {process}"),
                    cause,
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_a_word() {
        let contact = Contact {
            address: "[fd00::1]:80".parse().unwrap(),
            ticket: JobKey::new([7; 16]),
            first: 9,
            job_key: JobKey::new([8; 16]),
        };
        let word = contact.to_string();
        assert!(!word.contains([' ', ';', '=']), "{word}");
        assert_eq!(word.parse(), Ok(contact));
        for wrong in [
            "",
            "127.0.0.1:1/a/b/c",
            &word.replace("/9/", "/4096/"),
            &format!("{word}/"),
        ] {
            assert_eq!(wrong.parse::<Contact>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn no_two_ranks_spawn_processes_of_one_number() {
        for size in [1, 2, 3, 7, 1_000, 4_095, 4_096] {
            let mut end = size;
            for rank in 0..size {
                let own = numbers(rank, size);
                assert!(
                    own.start >= end && own.end <= MAX_PROCESSES,
                    "{rank} of {size}: {own:?}"
                );
                end = own.end.max(own.start);
            }
        }
        assert_eq!(numbers(0, 1).len(), 4_095);
        assert_eq!(numbers(0, 2), 2..2_049);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        assert_eq!(missing("sh"), None);
        assert_eq!(missing("/bin/sh"), None);
        for (program, why) in [
            ("/nowhere/program", "No such file"),
            ("/etc/passwd", "no program"),
            ("hikyaku-is-not-there", "PATH"),
        ] {
            let said = missing(program).unwrap();
            assert!(said.contains(program) && said.contains(why), "{said}");
        }
    }
}
