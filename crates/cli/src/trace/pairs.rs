//! Which receive got which message.
//!
//! Messages of a sender with the same tag on the same communicator are received in the order in which they were sent
//! (MPI 3.5), and each goes to the receive that was posted first. So the n-th send and the n-th receive posted that got
//! such a message belong together.

use std::collections::{BTreeMap, HashMap};

use hikyaku_bench::traces::{Call, Made, Status, Trace};

/// A call: index of the trace, index in it.
pub(super) type At = (usize, usize);

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// The call that sent it.
    pub send: At,
    /// The call with which its receive ended.
    pub receive: At,
}

/// The key of a sequence of messages: context, sender, receiver, tag. Both processes by number.
type Sequence = (u32, u32, u32, i32);

/// All messages that can be told.
pub(super) fn pairs(traces: &[Trace]) -> Vec<Pair> {
    let mut sends: BTreeMap<Sequence, Vec<At>> = BTreeMap::new();
    let mut receives: BTreeMap<Sequence, Vec<(u64, At)>> = BTreeMap::new();
    for (index, trace) in traces.iter().enumerate() {
        let rank = trace.header.rank;
        let known = Communicators::of(trace);
        for (at, call) in trace.calls.iter().enumerate() {
            if let (Some(peer), Some(tag), true, None) = (call.peer, call.tag, is_send(&call.call), &call.error)
                && let Some(to) = known.process(call.context, peer)
            {
                let sequence = (call.context, rank, to, tag);
                sends.entry(sequence).or_default().push((index, at));
            }
        }
        for received in received(trace) {
            if let Some(from) = known.process(received.context, received.status.source) {
                let sequence = (received.context, from, rank, received.status.tag);
                let receives = receives.entry(sequence).or_default();
                receives.push((received.posted, (index, received.at)));
            }
        }
    }
    let mut pairs = Vec::new();
    for (sequence, mut receives) in receives {
        receives.sort_unstable();
        let sends = sends.get(&sequence).into_iter().flatten();
        pairs.extend(sends.zip(receives).map(|(&send, (_, receive))| Pair { send, receive }));
    }
    pairs
}

/// A message that a rank has got.
struct Received {
    context: u32,
    status: Status,
    /// When its receive began.
    posted: u64,
    /// The call with which that ended.
    at: usize,
}

/// The kind of a request.
#[derive(Clone, Copy)]
struct Posted {
    context: u32,
    begun: u64,
    /// The message that a matched probe has found.
    found: Option<Status>,
}

fn received(trace: &Trace) -> Vec<Received> {
    let mut posted: HashMap<u64, Posted> = HashMap::new();
    let mut received = Vec::new();
    for (at, call) in trace.calls.iter().enumerate() {
        let own = Posted {
            context: call.context,
            begun: call.begin,
            found: None,
        };
        let (name, ended) = (call.call.as_str(), call.ended.as_slice());
        match (name, call.request, ended) {
            ("MPI_Recv" | "MPI_Sendrecv" | "MPI_Sendrecv_replace", _, [status]) => {
                received.extend(message(own, *status, at))
            }
            ("MPI_Irecv", Some(request), _) => drop(posted.insert(request, own)),
            ("MPI_Mprobe" | "MPI_Improbe", Some(request), [status]) => {
                let found = Some(*status);
                posted.insert(request, Posted { found, ..own });
            }
            ("MPI_Mrecv", ..) => {
                let message = call.requests.first().and_then(|message| posted.remove(message));
                let found = message.and_then(|begun| Some((begun, begun.found?)));
                received.extend(found.and_then(|(begun, status)| self::message(begun, status, at)));
            }
            ("MPI_Imrecv", Some(request), _) => {
                let message = call.requests.first().and_then(|message| posted.remove(message));
                posted.extend(message.map(|message| (request, message)));
            }
            ("MPI_Mprobe" | "MPI_Improbe" | "MPI_Probe" | "MPI_Iprobe" | "MPI_Request_get_status", ..) => {}
            _ => {
                for status in ended {
                    let begun = posted.remove(&status.request);
                    received.extend(begun.and_then(|begun| message(begun, *status, at)));
                }
            }
        }
    }
    received
}

fn message(posted: Posted, status: Status, at: usize) -> Option<Received> {
    let status = posted.found.unwrap_or(status);
    (!status.cancelled).then_some(Received {
        context: posted.context,
        status,
        posted: posted.begun,
        at,
    })
}

fn is_send(call: &str) -> bool {
    matches!(
        call,
        "MPI_Send"
            | "MPI_Ssend"
            | "MPI_Rsend"
            | "MPI_Bsend"
            | "MPI_Isend"
            | "MPI_Issend"
            | "MPI_Irsend"
            | "MPI_Ibsend"
            | "MPI_Sendrecv"
            | "MPI_Sendrecv_replace"
    )
}

/// The communicators that a rank has had.
struct Communicators<'a> {
    size: u32,
    own: u32,
    made: HashMap<u32, &'a Made>,
}

impl<'a> Communicators<'a> {
    fn of(trace: &'a Trace) -> Self {
        let made = trace.calls.iter().filter_map(|call: &Call| call.made.as_ref());
        Self {
            size: trace.header.size,
            own: trace.header.rank,
            made: made.map(|made| (made.context, made)).collect(),
        }
    }

    /// The process that messages with this rank go to and come from.
    fn process(&self, context: u32, rank: i32) -> Option<u32> {
        let index = usize::try_from(rank).ok()?;
        match context {
            0 => ((rank as u32) < self.size).then_some(rank as u32),
            1 => (rank == 0).then_some(self.own),
            _ => {
                let made = self.made.get(&context)?;
                made.remote.as_ref().unwrap_or(&made.group).get(index).copied()
            }
        }
    }
}
