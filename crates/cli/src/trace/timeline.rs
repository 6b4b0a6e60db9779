//! The timeline: JSON that Perfetto and Chrome's tracing page show ("Trace Event Format").

use hikyaku_bench::traces::{Call, Trace};
use serde_json::{Map, Value, json};

use super::pairs::{At, pairs};

pub(super) fn timeline(traces: &[Trace]) -> Value {
    let origin = origin(traces);
    let mut events = Vec::new();
    for trace in traces {
        name_rank(trace, &mut events);
        events.extend(trace.calls.iter().map(|call| slice(trace, call, origin)));
    }
    for (number, pair) in pairs(traces).into_iter().enumerate() {
        let mut end = |phase, (trace, call): At, time: u64| {
            let trace: &Trace = &traces[trace];
            let call = &trace.calls[call];
            events.push(json!({
                "name": "message", "cat": "message", "ph": phase, "id": number, "bp": "e",
                "ts": micros(trace.wall(time.clamp(call.begin, call.end)) - origin),
                "pid": trace.header.rank, "tid": call.thread,
            }));
        };
        let at = |(trace, call): At| -> &Call { &traces[trace].calls[call] };
        end("s", pair.send, at(pair.send).begin);
        // Within the slice, so that it is known whose end it is.
        end("f", pair.receive, at(pair.receive).end.saturating_sub(1));
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events })
}

/// Nanoseconds of the wall clock at which the first rank began.
fn origin(traces: &[Trace]) -> u64 {
    traces.iter().map(|trace| trace.header.unix).min().unwrap_or(0)
}

/// Times of the format are microseconds; three places are nanoseconds.
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

fn name_rank(trace: &Trace, events: &mut Vec<Value>) {
    let rank = trace.header.rank;
    let metadata = |name: &str, args: Value| json!({"name": name, "ph": "M", "pid": rank, "tid": 0, "args": args});
    let name = format!("rank {rank} of {} on {}", trace.header.size, trace.header.host);
    events.push(metadata("process_name", json!({ "name": name })));
    events.push(metadata("process_sort_index", json!({ "sort_index": rank })));
}

fn slice(trace: &Trace, call: &Call, origin: u64) -> Value {
    json!({
        "name": call.call, "cat": "mpi", "ph": "X", "pid": trace.header.rank, "tid": call.thread,
        "ts": micros(trace.wall(call.begin) - origin), "dur": micros(call.nanos()), "args": arguments(call),
    })
}

/// The arguments of a call, for the timeline.
fn arguments(call: &Call) -> Value {
    let ended: Vec<Value> = call
        .ended
        .iter()
        .map(|status| json!({"source": status.source, "tag": status.tag, "bytes": status.bytes, "request": status.request, "cancelled": status.cancelled}))
        .collect();
    let made = call
        .made
        .as_ref()
        .map(|made| json!({"context": made.context, "group": made.group, "remote": made.remote}));
    let all = [
        ("communicator", Some(json!(call.context))),
        ("peer", call.peer.map(|peer| json!(peer))),
        ("tag", call.tag.map(|tag| json!(tag))),
        ("count", (call.count > 0).then(|| json!(call.count))),
        ("datatype", call.kind.as_ref().map(|kind| json!(kind))),
        ("bytes", (call.volume() > 0).then(|| json!(call.volume()))),
        ("operation", call.operation.as_ref().map(|operation| json!(operation))),
        ("displacement", call.displacement.map(|at| json!(at))),
        ("partitions", call.partitions.map(|partitions| json!(partitions))),
        ("ready", (!call.ready.is_empty()).then(|| json!(call.ready))),
        ("lock", call.lock.as_ref().map(|lock| json!(lock))),
        ("sent", (!call.sent.is_empty()).then(|| json!(call.sent))),
        ("received", (!call.received.is_empty()).then(|| json!(call.received))),
        ("requests", (!call.requests.is_empty()).then(|| json!(call.requests))),
        ("request", call.request.map(|request| json!(request))),
        ("looks", (call.looks > 0).then(|| json!(call.looks + 1))),
        ("ended", (!ended.is_empty()).then(|| json!(ended))),
        ("made", made),
        ("error", call.error.as_ref().map(|error| json!(error))),
    ];
    let said = all
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(said.collect::<Map<_, _>>())
}
