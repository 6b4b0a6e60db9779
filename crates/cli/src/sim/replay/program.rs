//! What a rank has done, read out of its trace: computing and calls, in their order.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use crate::trace::file::{Call, Made, Status, Trace};

/// One thing that a rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The program is busy with itself for so many nanoseconds.
    Compute(u64),
    Send {
        context: u32,
        to: i32,
        tag: i32,
        octets: u64,
        synchronous: bool,
        /// It goes on under this number.
        request: Option<u64>,
    },
    Receive {
        context: u32,
        from: i32,
        tag: i32,
        /// Octets that there is room for.
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
        request: Option<u64>,
    },
    /// Makes a communicator, or takes part in making one.
    Make {
        context: u32,
        how: Making,
        made: Option<(u32, Vec<u32>)>,
    },
}

/// How a communicator is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    Duplicate,
    /// Of these ranks, who alone take part if `alone`.
    Group {
        ranks: Vec<i32>,
        tag: Option<i32>,
    },
    Split,
}

/// A collective: octets of blocks, and the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    Barrier,
    Bcast {
        root: usize,
        octets: usize,
    },
    Gather {
        root: usize,
        own: usize,
        blocks: Lengths,
    },
    Scatter {
        root: usize,
        own: usize,
        blocks: Lengths,
    },
    Allgather {
        own: usize,
        blocks: Lengths,
    },
    Alltoall {
        sent: Lengths,
        received: Lengths,
    },
    Reduce {
        root: usize,
        vector: Vector,
    },
    Allreduce(Vector),
    /// The vector's, and elements of each block.
    ReduceScatter {
        vector: Vector,
        blocks: Lengths,
    },
    Scan {
        vector: Vector,
        exclusive: bool,
    },
    NeighborAllgather {
        own: usize,
        received: Lengths,
        sources: Vec<i32>,
        destinations: Vec<i32>,
    },
    NeighborAlltoall {
        sent: Lengths,
        received: Lengths,
        sources: Vec<i32>,
        destinations: Vec<i32>,
    },
}

/// Octets of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    Even(usize),
    Each(Vec<usize>),
}

/// What is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vector {
    /// Elements, and octets of one: 1, 2, 4 or 8.
    pub count: usize,
    pub element: usize,
    pub commutative: bool,
}

impl Vector {
    pub(crate) fn octets(&self) -> usize {
        self.count * self.element
    }
}

/// Why a trace can not be replayed.
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

fn program(trace: &Trace) -> Result<Vec<Step>, ReplayError> {
    let mut reader = Reader {
        found: BTreeMap::new(),
        open: BTreeMap::new(),
    };
    let mut steps = Vec::new();
    let mut before = trace.header.time;
    for call in without_end(&trace.calls) {
        let fail = |problem: String| ReplayError {
            path: trace.path.clone(),
            line: call.line,
            problem,
        };
        if call.begin > before {
            steps.push(Step::Compute(call.begin - before));
        }
        before = before.max(call.end);
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
        reader.read(call, &mut steps).map_err(fail)?;
    }
    Ok(steps)
}

/// What ends MPI, the barrier before it included, is the library's and no part of the program.
fn without_end(calls: &[Call]) -> &[Call] {
    match calls {
        [program @ .., barrier, last] if last.call == "MPI_Finalize" && barrier.call == "MPI_Barrier" => program,
        [program @ .., last] if last.call == "MPI_Finalize" => program,
        _ => calls,
    }
}

/// Remembers what later calls refer to.
struct Reader {
    /// Messages found by matched probes.
    found: BTreeMap<u64, Status>,
    /// Requests that have not ended; receives with where their message comes from in `steps`.
    open: BTreeMap<u64, Option<usize>>,
}

impl Reader {
    fn read(&mut self, call: &Call, steps: &mut Vec<Step>) -> Result<(), String> {
        let name = call.call.as_str();
        let immediate = blocking(name) != name;
        let context = call.context;
        let request = if immediate { call.request } else { None };
        if immediate && request.is_none() {
            return Err(format!("{name} has no `request`: a number was expected"));
        }
        match name {
            "MPI_Send" | "MPI_Ssend" | "MPI_Rsend" | "MPI_Bsend" | "MPI_Isend" | "MPI_Issend" | "MPI_Irsend"
            | "MPI_Ibsend" => {
                let to = call.peer.ok_or_else(|| lacks(name, "peer", "a rank"))?;
                steps.push(Step::Send {
                    context,
                    to,
                    tag: call.tag.ok_or_else(|| lacks(name, "tag", "a number"))?,
                    octets: call.octets,
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
                let room = call.octets;
                steps.push(Step::Receive {
                    context,
                    from,
                    tag,
                    room,
                    request,
                });
            }
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
                    room: call.octets.max(status.octets),
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
            "MPI_Wait" | "MPI_Waitany" | "MPI_Waitsome" | "MPI_Test" | "MPI_Testsome" => self.end(call, steps)?,
            "MPI_Request_free" => {
                for number in &call.requests {
                    self.open.remove(number);
                }
            }
            _ => return self.read_collective(call, request, steps),
        }
        Ok(())
    }

    /// Requests that the call lists have ended.
    fn end(&mut self, call: &Call, steps: &mut Vec<Step>) -> Result<(), String> {
        let mut ended = Vec::new();
        for status in &call.ended {
            if status.cancelled {
                return Err(format!(
                    "request {} was cancelled, which can not be replayed",
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
            let made = call.made.as_ref().map(own_group).transpose()?;
            steps.push(Step::Make { context, how, made });
            return Ok(());
        }
        let what = collective(call)?;
        let name = NAMES.iter().copied().find(|name| *name == call.call);
        let name = name.ok_or_else(|| unknown(&call.call))?;
        self.open.extend(request.map(|request| (request, None)));
        steps.push(Step::Collective {
            name,
            context,
            what,
            request,
        });
        Ok(())
    }
}

/// The receiver or sender that is nobody.
pub(crate) const PROC_NULL: i32 = hikyaku::mpi::engine::PROC_NULL;

fn lacks(name: &str, key: &str, expected: &str) -> String {
    format!("{name} has no `{key}`: {expected} was expected")
}

fn own_group(made: &Made) -> Result<(u32, Vec<u32>), String> {
    match made.remote {
        Some(_) => Err("communicators between two groups can not be replayed".to_owned()),
        None => Ok((made.context, made.group.clone())),
    }
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
        _ => return Ok(None),
    }))
}

/// The name of the blocking call of the same kind.
fn blocking(name: &str) -> String {
    let probes = matches!(name, "MPI_Iprobe" | "MPI_Improbe") || name.starts_with("MPI_Intercomm");
    let mut rest = name
        .strip_prefix("MPI_I")
        .filter(|_| !probes)
        .unwrap_or_default()
        .chars();
    match rest.next() {
        Some(first) => format!("MPI_{}{}", first.to_ascii_uppercase(), rest.as_str()),
        None => name.to_owned(),
    }
}

fn octets(number: u64) -> Result<usize, String> {
    let most = 1 << 40;
    if number > most {
        return Err(format!("{number} octets: at most {most} were expected"));
    }
    Ok(number as usize)
}

fn lengths(list: &[u64], even: bool) -> Result<Lengths, String> {
    let each: Vec<usize> = list.iter().map(|number| octets(*number)).collect::<Result<_, _>>()?;
    Ok(if even {
        Lengths::Even(each.first().copied().unwrap_or(0))
    } else {
        Lengths::Each(each)
    })
}

fn vector(call: &Call) -> Result<Vector, String> {
    let (total, count) = (octets(call.octets)?, octets(call.count)?);
    let whole = |element: &usize| element * count == total;
    let element = [2, 4, 8].into_iter().find(whole).unwrap_or(1);
    Ok(Vector {
        count: total / element,
        element,
        commutative: call.operation.as_deref() != Some("user"),
    })
}

fn collective(call: &Call) -> Result<Collective, String> {
    let name = call.call.as_str();
    let plain = blocking(name);
    let even = !plain.ends_with('v') && !plain.ends_with('w');
    let own = octets(call.octets)?;
    let root = || match call.peer.map(usize::try_from) {
        Some(Ok(root)) => Ok(root),
        _ => Err(lacks(name, "peer", "the root's rank")),
    };
    let sent = || lengths(&call.sent, even);
    let received = || lengths(&call.received, even);
    let (sources, destinations) = (call.sources.clone(), call.destinations.clone());
    Ok(match plain.as_str() {
        "MPI_Barrier" => Collective::Barrier,
        "MPI_Bcast" => Collective::Bcast {
            root: root()?,
            octets: own,
        },
        "MPI_Gather" | "MPI_Gatherv" => Collective::Gather {
            root: root()?,
            own,
            blocks: received()?,
        },
        "MPI_Scatter" | "MPI_Scatterv" => Collective::Scatter {
            root: root()?,
            own,
            blocks: sent()?,
        },
        "MPI_Allgather" | "MPI_Allgatherv" => Collective::Allgather {
            own,
            blocks: received()?,
        },
        "MPI_Alltoall" | "MPI_Alltoallv" | "MPI_Alltoallw" => Collective::Alltoall {
            sent: sent()?,
            received: received()?,
        },
        "MPI_Reduce" => Collective::Reduce {
            root: root()?,
            vector: vector(call)?,
        },
        "MPI_Allreduce" => Collective::Allreduce(vector(call)?),
        "MPI_Reduce_scatter" => Collective::ReduceScatter {
            vector: vector(call)?,
            blocks: lengths(&call.received, false)?,
        },
        "MPI_Reduce_scatter_block" => Collective::ReduceScatter {
            vector: vector(call)?,
            blocks: lengths(&call.received, true)?,
        },
        "MPI_Scan" | "MPI_Exscan" => Collective::Scan {
            vector: vector(call)?,
            exclusive: plain == "MPI_Exscan",
        },
        "MPI_Neighbor_allgather" | "MPI_Neighbor_allgatherv" => Collective::NeighborAllgather {
            own,
            received: received()?,
            sources,
            destinations,
        },
        "MPI_Neighbor_alltoall" | "MPI_Neighbor_alltoallv" | "MPI_Neighbor_alltoallw" => Collective::NeighborAlltoall {
            sent: sent()?,
            received: received()?,
            sources,
            destinations,
        },
        _ => return Err(unknown(name)),
    })
}

fn unknown(name: &str) -> String {
    format!(
        "{name} can not be replayed: messages, collectives and new communicators of one group can; windows, persistent \
         and partitioned operations can not"
    )
}

/// The collectives that can be replayed.
const NAMES: &[&str] = &[
    "MPI_Barrier",
    "MPI_Ibarrier",
    "MPI_Bcast",
    "MPI_Ibcast",
    "MPI_Gather",
    "MPI_Igather",
    "MPI_Gatherv",
    "MPI_Igatherv",
    "MPI_Scatter",
    "MPI_Iscatter",
    "MPI_Scatterv",
    "MPI_Iscatterv",
    "MPI_Allgather",
    "MPI_Iallgather",
    "MPI_Allgatherv",
    "MPI_Iallgatherv",
    "MPI_Alltoall",
    "MPI_Ialltoall",
    "MPI_Alltoallv",
    "MPI_Ialltoallv",
    "MPI_Alltoallw",
    "MPI_Ialltoallw",
    "MPI_Reduce",
    "MPI_Ireduce",
    "MPI_Allreduce",
    "MPI_Iallreduce",
    "MPI_Reduce_scatter",
    "MPI_Ireduce_scatter",
    "MPI_Reduce_scatter_block",
    "MPI_Ireduce_scatter_block",
    "MPI_Scan",
    "MPI_Iscan",
    "MPI_Exscan",
    "MPI_Iexscan",
    "MPI_Neighbor_allgather",
    "MPI_Ineighbor_allgather",
    "MPI_Neighbor_allgatherv",
    "MPI_Ineighbor_allgatherv",
    "MPI_Neighbor_alltoall",
    "MPI_Ineighbor_alltoall",
    "MPI_Neighbor_alltoallv",
    "MPI_Ineighbor_alltoallv",
    "MPI_Neighbor_alltoallw",
    "MPI_Ineighbor_alltoallw",
];
