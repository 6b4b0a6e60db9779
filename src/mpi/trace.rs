//! Writes the calls of a process to a file, from which timelines are drawn and programs replayed. `docs/tracing.md` has
//! the format.

use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::fmt;
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
    time::SystemTime,
};

use rustix::system::uname;

use super::engine::{Entry, Exit, Made, Profiler, Status};
use crate::{environment::Environment, time::Instant};

/// The environment variable that names the directory.
const VARIABLE: &str = "HIKYAKU_TRACE";
/// Version of the format.
const VERSION: u32 = 1;
/// The file is written when this many bytes are buffered …
const LARGE: usize = 64 << 10;
/// … or when this many nanoseconds have passed since the last write.
const OLD: u64 = 1_000_000_000;

/// A [`Profiler`] that writes a file of lines, each a JSON object: one per call, in the order in which calls end.
///
/// Polls without result (`MPI_Test`, `MPI_Iprobe` and the like) share one line as long as nothing else happens. Lines
/// are buffered until they are 64 KiB, or a second old, or one of them reports an error; [`close`](Profiler::close) and
/// dropping the tracer write the rest.
#[derive(Debug)]
pub struct Tracer {
    path: PathBuf,
    /// Times come from a simulation, which all processes share; the clock is not read.
    simulated: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` after an error, or after the end.
    file: Option<File>,
    /// In a simulation: why the trace is not complete.
    error: Option<io::Error>,
    lines: Vec<u8>,
    /// When lines were last written to the file.
    written: Instant,
    /// Lines of calls written so far.
    calls: u64,
    threads: Vec<ThreadId>,
    /// Polls without result, and when the last one ended.
    idle: Option<Idle>,
}

#[derive(Debug)]
struct Idle {
    entry: Entry,
    thread: usize,
    begun: Instant,
    now: Instant,
    looks: u64,
}

/// A trace cannot be started.
pub struct TraceError {
    /// The directory.
    pub directory: PathBuf,
    /// The cause.
    pub source: io::Error,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "writing a trace to {} ({VARIABLE}): {}",
            self.directory.display(),
            self.source
        )
    }
}

crate::debug_as_display!(TraceError);

impl core::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl Tracer {
    /// Writes to the directory that `HIKYAKU_TRACE` names, if it names one.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn of_environment(environment: &Environment, process: u32) -> Result<Option<Arc<Self>>, TraceError> {
        let Some(directory) = environment.path(VARIABLE) else {
            return Ok(None);
        };
        let tracer = Self::create(directory, process);
        tracer.map(Some).map_err(|source| TraceError {
            directory: directory.to_owned(),
            source,
        })
    }

    /// Writes to `rank-N.jsonl` in `directory`, for process `N`; creates the directory if there is none.
    ///
    /// # Errors
    /// The directory or the file cannot be created.
    pub fn create(directory: &Path, process: u32) -> io::Result<Arc<Self>> {
        Self::begin(directory, process, false)
    }

    /// Takes the error that has ended the trace, and the path of its file, if there is one.
    pub fn take_error(&self) -> Option<(PathBuf, io::Error)> {
        self.lock().error.take().map(|error| (self.path.clone(), error))
    }

    /// As [`create`](Self::create); traces of simulated processes have no date.
    pub(crate) fn begin(directory: &Path, process: u32, simulated: bool) -> io::Result<Arc<Self>> {
        fs::create_dir_all(directory)?;
        let path = directory.join(format!("rank-{process}.jsonl"));
        let file = File::create(&path)?;
        Ok(Arc::new(Self {
            path,
            simulated,
            state: Mutex::new(State {
                file: Some(file),
                lines: Vec::with_capacity(LARGE + LARGE / 8),
                error: None,
                written: Instant::ZERO,
                calls: 0,
                threads: Vec::new(),
                idle: None,
            }),
        }))
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Profiler for Tracer {
    fn open(&self, now: Instant, process: u32, size: u32) {
        #[expect(
            clippy::disallowed_methods,
            reason = "traces of several processes are put side by side by it"
        )]
        let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let (unix, host) = if self.simulated {
            (now.as_nanos().into(), "simulated".to_owned())
        } else {
            let unix = clock().map_or(0, |since| since.as_nanos());
            (unix, uname().nodename().to_string_lossy().into_owned())
        };
        let host: String = host.chars().filter(|c| c.is_ascii_graphic()).collect();
        let host = host.replace(['"', '\\'], "");
        let mut state = self.lock();
        let header = format!(
            "{{\"trace\":\"hikyaku\",\"version\":{VERSION},\"rank\":{process},\"size\":{size},\"host\":\"{host}\",\
             \"time\":{},\"unix\":{unix}}}\n",
            now.as_nanos()
        );
        state.lines.extend_from_slice(header.as_bytes());
        state.write(&self.path, self.simulated, now);
    }

    fn leave(&self, begun: Instant, now: Instant, entry: &Entry, exit: &Exit<'_>) {
        let mut state = self.lock();
        let thread = state.thread();
        if exit.error.is_none() && exit.ended.is_empty() && only_looks(entry.call) {
            state.look(thread, begun, now, entry);
            return;
        }
        state.tell_idle();
        state.line(thread, begun, now, entry, exit, 1);
        if state.lines.len() >= LARGE || now.nanos_since(state.written) >= OLD || exit.error.is_some() {
            state.write(&self.path, self.simulated, now);
        }
    }

    fn close(&self, now: Instant) {
        let mut state = self.lock();
        state.tell_idle();
        let footer = format!("{{\"calls\":{},\"time\":{}}}\n", state.calls, now.as_nanos());
        state.lines.extend_from_slice(footer.as_bytes());
        state.write(&self.path, self.simulated, now);
        state.file = None;
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let path = &self.path;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.tell_idle();
        state.write(path, self.simulated, Instant::FAR_FUTURE);
    }
}

/// Calls that poll without waiting.
fn only_looks(call: &str) -> bool {
    matches!(
        call,
        "MPI_Test"
            | "MPI_Testsome"
            | "MPI_Testany"
            | "MPI_Testall"
            | "MPI_Request_get_status"
            | "MPI_Iprobe"
            | "MPI_Improbe"
            | "MPI_Win_test"
            | "MPI_Parrived"
    )
}

impl State {
    /// The number of this thread.
    fn thread(&mut self) -> usize {
        let id = thread::current().id();
        let known = self.threads.iter().position(|thread| *thread == id);
        known.unwrap_or_else(|| {
            self.threads.push(id);
            self.threads.len() - 1
        })
    }

    /// A poll without result.
    fn look(&mut self, thread: usize, begun: Instant, now: Instant, entry: &Entry) {
        if let Some(idle) = &mut self.idle
            && idle.thread == thread
            && idle.entry == *entry
        {
            idle.now = now;
            idle.looks += 1;
            return;
        }
        self.tell_idle();
        self.idle = Some(Idle {
            entry: entry.clone(),
            thread,
            begun,
            now,
            looks: 1,
        });
    }

    fn tell_idle(&mut self) {
        if let Some(idle) = self.idle.take() {
            self.line(
                idle.thread,
                idle.begun,
                idle.now,
                &idle.entry,
                &Exit::default(),
                idle.looks,
            );
        }
    }

    fn line(&mut self, thread: usize, begun: Instant, now: Instant, entry: &Entry, exit: &Exit<'_>, looks: u64) {
        if self.file.is_none() {
            return;
        }
        self.calls += 1;
        let mut line = Line(&mut self.lines);
        line.open();
        line.text("call", entry.call);
        line.number("begin", begun.as_nanos());
        line.number("end", now.as_nanos());
        line.number("context", entry.context.into());
        line.nonzero("thread", thread as u64);
        line.nonzero("looks", looks - 1);
        line.arguments(entry);
        line.exit(exit);
        line.close();
    }

    /// Writes the buffered lines to the file. The first error ends the trace.
    fn write(&mut self, path: &Path, simulated: bool, now: Instant) {
        self.written = now;
        let Some(file) = &mut self.file else {
            self.lines.clear();
            return;
        };
        if let Err(error) = file.write_all(&self.lines) {
            self.file = None;
            if simulated {
                self.error = Some(error);
            } else {
                // A failed trace must not end the program.
                std::eprintln!("hikyaku: the trace {} ends here: {error}", path.display());
            }
        }
        self.lines.clear();
    }
}

/// A JSON object in one line. Formatted by hand for speed, since this runs while the program communicates.
struct Line<'a>(&'a mut Vec<u8>);

impl Line<'_> {
    fn open(&mut self) {
        self.0.push(b'{');
    }

    fn close(&mut self) {
        self.0.pop();
        self.0.extend_from_slice(b"}\n");
    }

    fn key(&mut self, key: &str) {
        self.0.push(b'"');
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    /// `text` needs no escapes: names of MPI.
    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        self.0.push(b'"');
        self.0.extend_from_slice(text.as_bytes());
        self.0.extend_from_slice(b"\",");
    }

    fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        self.digits(number);
        self.0.push(b',');
    }

    fn nonzero(&mut self, key: &str, number: u64) {
        if number != 0 {
            self.number(key, number);
        }
    }

    fn signed(&mut self, key: &str, number: Option<i64>) {
        if let Some(number) = number {
            self.key(key);
            self.integer(number);
            self.0.push(b',');
        }
    }

    fn integer(&mut self, number: i64) {
        if number < 0 {
            self.0.push(b'-');
        }
        self.digits(number.unsigned_abs());
    }

    fn digits(&mut self, mut number: u64) {
        let (mut digits, mut at) = ([0; 20], 20);
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.0.extend_from_slice(&digits[at..]);
    }

    fn list<T>(&mut self, key: &str, items: impl IntoIterator<Item = T>, mut item: impl FnMut(&mut Self, T)) {
        let mut items = items.into_iter().peekable();
        if items.peek().is_none() {
            return;
        }
        self.key(key);
        self.0.push(b'[');
        for each in items {
            item(self, each);
            self.0.push(b',');
        }
        self.0.pop();
        self.0.extend_from_slice(b"],");
    }

    fn arguments(&mut self, entry: &Entry) {
        self.signed("peer", entry.peer.map(i64::from));
        self.signed("tag", entry.tag.map(i64::from));
        self.nonzero("count", entry.count);
        self.nonzero("bytes", entry.bytes);
        if let Some(kind) = entry.kind {
            self.text("kind", kind.name());
        }
        if let Some(operation) = entry.operation {
            self.text("operation", operation);
        }
        self.signed("partitions", entry.partitions.map(i64::from));
        self.list("ready", &entry.ready, |line, partition| {
            line.digits((*partition).into())
        });
        self.signed("displacement", entry.displacement);
        if let Some(lock) = entry.lock {
            self.text("lock", lock);
        }
        self.list("sent", &entry.sent, |line, bytes| line.digits(*bytes));
        self.list("received", &entry.received, |line, bytes| line.digits(*bytes));
        self.list("sources", &entry.sources, |line, rank| line.integer((*rank).into()));
        self.list("destinations", &entry.destinations, |line, rank| {
            line.integer((*rank).into());
        });
        self.list("requests", &entry.requests, |line, number| line.digits(*number));
    }

    fn exit(&mut self, exit: &Exit<'_>) {
        if let Some(error) = exit.error {
            self.text("error", error.class().name());
        }
        if let Some(request) = exit.request {
            self.number("request", request);
        }
        self.list("ended", exit.ended, |line, (number, status)| {
            line.status(*number, status)
        });
        if let Some(made) = exit.made {
            self.made(&made);
        }
    }

    fn status(&mut self, number: u64, status: &Status) {
        self.0.push(b'[');
        self.digits(number);
        for value in [status.source, status.tag] {
            self.0.push(b',');
            self.integer(value.into());
        }
        self.0.push(b',');
        self.digits(status.len);
        self.0
            .extend_from_slice(if status.cancelled { b",true]" } else { b"]" });
    }

    fn made(&mut self, made: &Made<'_>) {
        self.key("made");
        self.open();
        self.number("context", made.context.into());
        self.list("group", made.group.processes(), |line, process| {
            line.digits(process.into());
        });
        if let Some(remote) = made.remote {
            self.list("remote", remote.processes(), |line, process| {
                line.digits(process.into())
            });
        }
        self.0.pop();
        self.0.extend_from_slice(b"},");
    }
}
