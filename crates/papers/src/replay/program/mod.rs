//! The program of a rank, read from its trace: computing and calls, in their order.

mod collective;
mod fields;
mod partitioned;
mod window;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
};

use hikyaku_bench::traces::{Call, Status, Trace};

use self::fields::{PROC_NULL, lacks, number, unknown};
pub(crate) use self::{
    collective::{Collective, Lengths},
    partitioned::{Partitioned, Ready},
    window::{Access, Operate, WindowCall},
};

/// One thing that a rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The program is busy with itself for so many nanoseconds.
    Compute(u64),
    Send {
        context: u32,
        to: i32,
        tag: i32,
        bytes: u64,
        synchronous: bool,
        /// It goes on under this number.
        request: Option<u64>,
    },
    Receive {
        context: u32,
        from: i32,
        tag: i32,
        /// Bytes that there is room for.
        room: u64,
        request: Option<u64>,
    },
    /// Waits for these.
    Wait(Vec<u64>),
    Collective {
        /// MPI's name of the call.
        name: &'static str,
        context: u32,
        what: Collective,
        how: How,
    },
    /// Sets up one side of a partitioned message, to be started by this number.
    Partitioned {
        context: u32,
        side: Partitioned,
        planned: u64,
    },
    Ready {
        planned: u64,
        partitions: Ready,
    },
    /// A partition has arrived.
    Arrived {
        planned: u64,
        partition: u32,
    },
    /// Starts what was planned under a number, which goes on under another one.
    Start {
        planned: u64,
        request: u64,
    },
    /// The persistent request of this number is not started any more.
    Free(u64),
    /// About the window whose communicator has this context.
    Window {
        context: u32,
        call: WindowCall,
    },
    /// Makes a communicator, or takes part in making one.
    Make {
        context: u32,
        how: Making,
        made: Option<(u32, Vec<u32>)>,
    },
}

/// How a collective is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It ends with the call.
    Waited,
    /// It goes on under this number.
    Begun(u64),
    /// It is to be started, by this number.
    Planned(u64),
}

/// How a communicator is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    Duplicate,
    /// Of these ranks, which alone take part if `alone`.
    Group {
        ranks: Vec<i32>,
        tag: Option<i32>,
    },
    Split,
    /// Between its group and these processes.
    Between(Vec<u32>),
    /// Of both groups.
    Merge,
}

/// Why a trace cannot be replayed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReplayError {
    path: PathBuf,
    /// 0: the file as a whole.
    line: usize,
    problem: String,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if self.line > 0 {
            write!(f, ", line {}", self.line)?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for ReplayError {}

/// The program of each rank of a job, whose traces these are, by rank.
pub(crate) fn programs(traces: &[Trace]) -> Result<Vec<Vec<Step>>, ReplayError> {
    let Some(first) = traces.first() else {
        return Ok(Vec::new());
    };
    let size = first.header.size;
    let missing = (0..size).find(|rank| traces.iter().all(|trace| trace.header.rank != *rank));
    if let Some(rank) = missing {
        return Err(ReplayError {
            path: first.path.clone(),
            line: 1,
            problem: format!("this is of a job of {size} ranks, and rank {rank} is not there: a replay needs all"),
        });
    }
    traces.iter().map(program).collect()
}

/// Which file, line and call a step of a rank comes from.
pub(crate) fn place(traces: &[Trace], rank: usize, step: usize) -> String {
    let trace = traces.iter().find(|trace| trace.header.rank as usize == rank);
    let Some(trace) = trace else { return String::new() };
    let path = trace.path.display();
    let (mut reader, mut steps, mut before) = (Reader::default(), Vec::new(), trace.header.time);
    for call in without_end(&trace.calls) {
        let _ = read(trace, call, &mut reader, &mut steps, &mut before);
        if steps.len() > step {
            return format!("{path}, line {}: {}", call.line, call.call);
        }
    }
    format!("{path}: what has not ended there")
}

fn program(trace: &Trace) -> Result<Vec<Step>, ReplayError> {
    let (mut reader, mut steps, mut before) = (Reader::default(), Vec::new(), trace.header.time);
    for call in without_end(&trace.calls) {
        read(trace, call, &mut reader, &mut steps, &mut before)?;
    }
    Ok(steps)
}

/// Goes on to the next call.
fn read(
    trace: &Trace,
    call: &Call,
    reader: &mut Reader,
    steps: &mut Vec<Step>,
    before: &mut u64,
) -> Result<(), ReplayError> {
    let fail = |problem: String| ReplayError {
        path: trace.path.clone(),
        line: call.line,
        problem,
    };
    if call.begin > *before {
        steps.push(Step::Compute(call.begin - *before));
    }
    *before = call.end.max(*before);
    if let Some(error) = &call.error {
        return Err(fail(format!(
            "{} has failed ({error}): only calls that succeeded can be replayed",
            call.call
        )));
    }
    if call.thread > 0 {
        return Err(fail(format!(
            "{} is of another thread: only programs of one can be replayed",
            call.call
        )));
    }
    reader.read(call, steps).map_err(fail)
}

/// Nanoseconds from the beginning of MPI to the end of the last call that is replayed.
pub(super) fn run_time(trace: &Trace) -> u64 {
    let ends = without_end(&trace.calls).iter().map(|call| call.end);
    ends.max().unwrap_or(0).saturating_sub(trace.header.time)
}

/// The calls that end MPI are the library's and no part of the program.
pub(super) fn without_end(calls: &[Call]) -> &[Call] {
    match calls {
        [program @ .., last] if last.call == "MPI_Finalize" => program,
        _ => calls,
    }
}

/// Remembers the objects that later calls refer to.
#[derive(Debug, Default)]
struct Reader {
    /// Messages found by matched probes.
    found: BTreeMap<u64, Status>,
    /// Requests that have not ended; receives with where their message comes from in `steps`.
    open: BTreeMap<u64, Option<usize>>,
    /// Persistent requests that can be started.
    planned: BTreeSet<u64>,
    /// Windows, by the contexts of their communicators.
    windows: BTreeSet<u32>,
    /// Contexts of communicators with the topology of a grid.
    grids: BTreeSet<u32>,
    /// All numbers that calls have given: of each there is one.
    given: BTreeSet<u64>,
}

impl Reader {
    fn read(&mut self, call: &Call, steps: &mut Vec<Step>) -> Result<(), String> {
        let name = call.call.as_str();
        let context = call.context;
        if let Some(number) = call.request.filter(|number| !self.given.insert(*number)) {
            return Err(format!("{name} gives number {number}, which was given before"));
        }
        let request = if goes_on(name) { Some(number(call)?) } else { None };
        match name {
            "MPI_Send" | "MPI_Ssend" | "MPI_Rsend" | "MPI_Bsend" | "MPI_Isend" | "MPI_Issend" | "MPI_Irsend"
            | "MPI_Ibsend" => {
                let to = call.peer.ok_or_else(|| lacks(name, "peer", "a rank"))?;
                steps.push(Step::Send {
                    context,
                    to,
                    tag: call.tag.ok_or_else(|| lacks(name, "tag", "a number"))?,
                    bytes: call.bytes,
                    synchronous: matches!(name, "MPI_Ssend" | "MPI_Issend"),
                    request,
                });
                self.open.extend(request.map(|request| (request, None)));
            }
            "MPI_Recv" | "MPI_Irecv" => {
                let mut from = call.peer.ok_or_else(|| lacks(name, "peer", "a rank"))?;
                let mut tag = call.tag.ok_or_else(|| lacks(name, "tag", "a number"))?;
                if let Some(status) = call.ended.first().filter(|_| from != PROC_NULL) {
                    (from, tag) = (status.source, status.tag);
                }
                if let Some(request) = request {
                    self.open.insert(request, Some(steps.len()));
                }
                let room = call.bytes;
                steps.push(Step::Receive {
                    context,
                    from,
                    tag,
                    room,
                    request,
                });
            }
            "MPI_Sendrecv" | "MPI_Sendrecv_replace" => self.read_exchange(call, steps)?,
            "MPI_Mrecv" | "MPI_Imrecv" => {
                let number = call
                    .requests
                    .first()
                    .ok_or_else(|| lacks(name, "requests", "that of the message"))?;
                let status = self.found.remove(number);
                let status = status.ok_or_else(|| format!("{name}: no call before it has found message {number}"))?;
                self.open.extend(request.map(|request| (request, None)));
                steps.push(Step::Receive {
                    context,
                    from: status.source,
                    tag: status.tag,
                    room: call.bytes.max(status.bytes),
                    request,
                });
            }
            "MPI_Mprobe" | "MPI_Improbe" => {
                if let (Some(number), Some(status)) = (call.request, call.ended.first()) {
                    self.found.insert(number, *status);
                }
            }
            // What was found is received later.
            "MPI_Probe" | "MPI_Iprobe" | "MPI_Request_get_status" | "MPI_Reduce_local" => {}
            "MPI_Wait" | "MPI_Waitany" | "MPI_Waitsome" | "MPI_Waitall" | "MPI_Test" | "MPI_Testany"
            | "MPI_Testsome" | "MPI_Testall" => self.end(call, steps)?,
            "MPI_Psend_init" | "MPI_Precv_init" => {
                let (side, planned) = (partitioned::read(call)?, number(call)?);
                self.planned.insert(planned);
                steps.push(Step::Partitioned { context, side, planned });
            }
            "MPI_Pready" | "MPI_Pready_range" | "MPI_Pready_list" => steps.push(Step::Ready {
                planned: self.planned_by(call)?,
                partitions: partitioned::ready(call)?,
            }),
            // What has found nothing does nothing.
            "MPI_Parrived" if call.ended.is_empty() => {}
            "MPI_Parrived" => steps.push(Step::Arrived {
                planned: self.planned_by(call)?,
                partition: partitioned::partition(call)?,
            }),
            _ if window::is_about(name) => return self.read_window(call, steps),
            "MPI_Start" => {
                let (planned, request) = (self.planned_by(call)?, number(call)?);
                self.open.insert(request, None);
                steps.push(Step::Start { planned, request });
            }
            "MPI_Request_free" => {
                for number in &call.requests {
                    if self.planned.remove(number) {
                        steps.push(Step::Free(*number));
                    }
                    self.open.remove(number);
                }
            }
            _ => return self.read_collective(call, request, steps),
        }
        Ok(())
    }

    /// Sends and receives at once: the receive goes on under a number that no trace has until the message is sent.
    fn read_exchange(&mut self, call: &Call, steps: &mut Vec<Step>) -> Result<(), String> {
        let (name, context) = (call.call.as_str(), call.context);
        let to = call.peer.ok_or_else(|| lacks(name, "peer", "a rank"))?;
        let tag = call.tag.ok_or_else(|| lacks(name, "tag", "a number"))?;
        let status = call
            .ended
            .first()
            .ok_or_else(|| lacks(name, "ended", "what it has received"))?;
        let request = Some(u64::MAX);
        let room = call.received.first().copied().unwrap_or(0).max(status.bytes);
        let (from, tag_received) = (status.source, status.tag);
        steps.push(Step::Receive {
            context,
            from,
            tag: tag_received,
            room,
            request,
        });
        let bytes = call.bytes;
        steps.push(Step::Send {
            context,
            to,
            tag,
            bytes,
            synchronous: false,
            request: None,
        });
        steps.push(Step::Wait(vec![u64::MAX]));
        Ok(())
    }

    /// Requests that the call lists have ended.
    fn end(&mut self, call: &Call, steps: &mut Vec<Step>) -> Result<(), String> {
        let mut ended = Vec::new();
        for status in &call.ended {
            if status.cancelled {
                return Err(format!(
                    "request {} was cancelled, which cannot be replayed",
                    status.request
                ));
            }
            if status.request == 0 {
                continue;
            }
            let Some(receive) = self.open.remove(&status.request) else {
                return Err(format!(
                    "{}: no call before it has begun request {}",
                    call.call, status.request
                ));
            };
            // A wildcard gets the message that it got then.
            if let Some(Step::Receive { from, tag, .. }) = receive.and_then(|index| steps.get_mut(index))
                && *from != PROC_NULL
            {
                (*from, *tag) = (status.source, status.tag);
            }
            ended.push(status.request);
        }
        if !ended.is_empty() {
            steps.push(Step::Wait(ended));
        }
        Ok(())
    }

    fn read_collective(&mut self, call: &Call, request: Option<u64>, steps: &mut Vec<Step>) -> Result<(), String> {
        let context = call.context;
        if let Some(how) = making(call)? {
            let made = call.made.as_ref().map(|made| (made.context, made.group.clone()));
            if let Some((made, _)) = &made {
                let is_grid =
                    call.call.starts_with("MPI_Cart_") || how == Making::Duplicate && self.grids.contains(&context);
                self.grids.remove(made);
                self.grids.extend(is_grid.then_some(*made));
            }
            steps.push(Step::Make { context, how, made });
            return Ok(());
        }
        let (name, what) = collective::read(call, self.grids.contains(&context))?;
        let how = match request {
            Some(request) => How::Begun(request),
            None if name.ends_with("_init") => How::Planned(number(call)?),
            None => How::Waited,
        };
        match how {
            How::Waited => {}
            How::Begun(number) => drop(self.open.insert(number, None)),
            How::Planned(number) => drop(self.planned.insert(number)),
        }
        steps.push(Step::Collective {
            name,
            context,
            what,
            how,
        });
        Ok(())
    }

    fn read_window(&mut self, call: &Call, steps: &mut Vec<Step>) -> Result<(), String> {
        let name = &call.call;
        let Some(what) = window::read(call)? else {
            return if name == "MPI_Win_test" {
                Ok(())
            } else {
                Err(unknown(name))
            };
        };
        let context = match what {
            WindowCall::Make { .. } | WindowCall::MakeDynamic { .. } => {
                let made = call
                    .made
                    .as_ref()
                    .ok_or_else(|| lacks(name, "made", "its communicator"))?;
                self.windows.insert(made.context);
                made.context
            }
            _ => call.context,
        };
        if !self.windows.contains(&context) {
            return Err(format!("{name}: no call before it has made window {context}"));
        }
        match what {
            WindowCall::Free => drop(self.windows.remove(&context)),
            WindowCall::Access(access) => self.open.extend(access.request.map(|request| (request, None))),
            _ => {}
        }
        steps.push(Step::Window { context, call: what });
        Ok(())
    }

    /// The number of what was planned, which the call is about.
    fn planned_by(&self, call: &Call) -> Result<u64, String> {
        let number = call.requests.first();
        let number = number.ok_or_else(|| lacks(&call.call, "requests", "that of what was planned"))?;
        let known = self.planned.get(number).copied();
        known.ok_or_else(|| format!("{}: no call before it has planned request {number}", call.call))
    }
}

/// The operation goes on after the call: `MPI_Isend` and its like.
fn goes_on(name: &str) -> bool {
    let probes = matches!(name, "MPI_Iprobe" | "MPI_Improbe") || name.starts_with("MPI_Intercomm");
    name.starts_with("MPI_I") && !probes
}

fn making(call: &Call) -> Result<Option<Making>, String> {
    let group = |tag| Making::Group {
        ranks: call.destinations.clone(),
        tag,
    };
    Ok(Some(match call.call.as_str() {
        "MPI_Comm_dup" => Making::Duplicate,
        "MPI_Comm_create" => group(None),
        "MPI_Comm_create_group" => group(Some(call.tag.ok_or_else(|| lacks(&call.call, "tag", "a number"))?)),
        "MPI_Comm_split"
        | "MPI_Comm_split_type"
        | "MPI_Cart_create"
        | "MPI_Cart_sub"
        | "MPI_Graph_create"
        | "MPI_Dist_graph_create_adjacent" => Making::Split,
        "MPI_Intercomm_create" => {
            let remote = call.made.as_ref().and_then(|made| made.remote.clone());
            Making::Between(remote.ok_or_else(|| lacks(&call.call, "made", "a communicator between two groups"))?)
        }
        "MPI_Intercomm_merge" => Making::Merge,
        _ => return Ok(None),
    }))
}
