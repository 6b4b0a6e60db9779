//! `HIKYAKU_TRACE` and `hikyaku trace` with a real job: this program is its ranks, too.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use mpi::{collective::SystemOperation, traits::*};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hikyaku");
const RANKS: u64 = 4;

/// A bit of everything, with messages whose receives are posted in another order than they are waited for.
#[test]
#[ignore = "a rank of the job that the other tests look at"]
fn rank_of_the_job() {
    let universe = mpi::initialize().unwrap_or_else(|error| panic!("{error}"));
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let previous = world.process_at_rank((rank + size - 1) % size);
    let (mut first, mut second) = (0, [0.0_f64; 3]);
    mpi::request::scope(|scope| {
        let first = previous.immediate_receive_into_with_tag(scope, &mut first, 1);
        let second = previous.immediate_receive_into_with_tag(scope, &mut second, 2);
        next.send_with_tag(&[0.5, 1.5, 2.5][..], 2).unwrap();
        next.send_with_tag(&rank, 1).unwrap();
        second.wait().unwrap();
        first.wait().unwrap();
    });
    assert_eq!((first, second[2]), ((rank + size - 1) % size, 2.5));
    let large = vec![1_u8; 300_000];
    if rank == 0 {
        for other in 1..size {
            world.process_at_rank(other).send(&large[..]).unwrap();
        }
    } else {
        let (message, _) = world
            .any_process()
            .matched_probe()
            .unwrap()
            .matched_receive_vec::<u8>()
            .unwrap();
        assert_eq!(message, large);
    }
    let halves = world
        .split_by_color(mpi::topology::Color::with_value(rank % 2))
        .unwrap()
        .unwrap();
    let mut sum = 0;
    halves.all_reduce_into(&rank, &mut sum, SystemOperation::sum()).unwrap();
    if halves.rank() == 0 {
        halves.process_at_rank(1).send(&sum).unwrap();
    } else {
        assert_eq!(halves.process_at_rank(0).receive::<i32>().unwrap().0, sum);
    }
    let mut barrier = world.immediate_barrier();
    while let Err(pending) = barrier.test() {
        barrier = pending;
    }
}

/// Runs this program as ranks of a job.
fn job(settings: &[(&str, &str)], arguments: &[&str]) -> Output {
    let own = env::current_exe().unwrap();
    let rank = [
        "--exact",
        "rank_of_the_job",
        "--ignored",
        "--nocapture",
        "--test-threads",
        "1",
    ];
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--bind-to", "none"]);
    for part in arguments {
        match *part {
            "RANK" => command.arg(&own).args(rank),
            other => command.arg(other),
        };
    }
    let settings = settings.iter().copied();
    command.envs(settings).stdin(Stdio::null()).output().unwrap()
}

/// Where the traces of one run are.
fn traces() -> &'static Path {
    static TRACES: OnceLock<PathBuf> = OnceLock::new();
    TRACES.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("traces");
        let _ = fs::remove_dir_all(&directory);
        let done = job(
            &[("HIKYAKU_TRACE", directory.to_str().unwrap())],
            &["-n", &RANKS.to_string(), "RANK"],
        );
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        directory
    })
}

/// `HIKYAKU_STATS`: each rank appends its counters to one file when it has finalized.
#[test]
fn ranks_append_their_counters() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("counters.jsonl");
    let _ = fs::remove_file(&file);
    let np = RANKS.to_string();
    let settings = [("HIKYAKU_STATS", file.to_str().unwrap()), ("HIKYAKU_ROUTES", "network")];
    let done = job(&settings, &["-n", &np, "RANK"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = fs::read_to_string(&file).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.sort_by_key(|line| line["processor"].as_u64());
    assert_eq!(lines.len() as u64, RANKS, "{text}");
    for (rank, line) in (0..).zip(&lines) {
        assert_eq!(line["processor"], rank, "{line}");
        assert_eq!(line["backend"], "udp", "{line}");
        assert!(line["seconds"].as_f64().unwrap() > 0.0, "{line}");
        assert!(line["stats"]["payload_sent"].as_u64().unwrap() > 24, "{line}");
        assert!(line["backend_stats"]["datagrams_sent"].as_u64().unwrap() > 0, "{line}");
        assert!(line["dropped"].is_object(), "{line}");
        // The large messages are rank 0's.
        let large = line["messages"]["rendezvous"].as_u64().unwrap();
        assert_eq!(large, if rank == 0 { RANKS - 1 } else { 0 }, "{line}");
    }
}

/// A file that cannot be written is reported at the beginning, not after all the work.
#[test]
fn a_bad_file_for_counters_is_named() {
    let done = job(&[("HIKYAKU_STATS", "/nowhere/counters")], &["-n", "1", "RANK"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success(), "{said}");
    assert!(said.contains("HIKYAKU_STATS=/nowhere/counters"), "{said}");
}

fn trace(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("trace").args(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "no warnings");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn timeline() -> Vec<Value> {
    let timeline = json(&trace(&[traces().to_str().unwrap()]));
    timeline["traceEvents"].as_array().unwrap().clone()
}

/// Begin and end of a slice, ns.
fn span(slice: &Value) -> (i64, i64) {
    let nanos = |key: &str| (slice[key].as_f64().unwrap() * 1e3).round() as i64;
    (nanos("ts"), nanos("ts") + nanos("dur"))
}

fn of_phase<'a>(events: &'a [Value], phase: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["ph"] == phase)
}

#[test]
fn the_timeline_has_every_rank_and_its_calls_one_after_the_other() {
    let events = timeline();
    let mut threads: BTreeMap<(u64, u64), Vec<(i64, i64)>> = BTreeMap::new();
    let mut calls: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for slice in of_phase(&events, "X") {
        let rank = slice["pid"].as_u64().unwrap();
        threads
            .entry((rank, slice["tid"].as_u64().unwrap()))
            .or_default()
            .push(span(slice));
        calls.entry(rank).or_default().insert(slice["name"].as_str().unwrap());
    }
    assert_eq!(calls.len() as u64, RANKS);
    for names in calls.values() {
        for name in [
            "MPI_Irecv",
            "MPI_Send",
            "MPI_Wait",
            "MPI_Comm_split",
            "MPI_Allreduce",
            "MPI_Ibarrier",
            "MPI_Test",
            "MPI_Finalize",
        ] {
            assert!(names.contains(name), "{name} in {names:?}");
        }
    }
    for (thread, mut slices) in threads {
        slices.sort_unstable();
        for both in slices.windows(2) {
            let ((_, end), (begin, _)) = (both[0], both[1]);
            assert!(
                end <= begin,
                "{thread:?}: calls of the program are not within each other: {both:?}"
            );
        }
    }
}

#[test]
fn every_message_has_its_arrow_from_its_send_to_its_receive() {
    let events = timeline();
    let mut arrows: BTreeMap<u64, [Option<&Value>; 2]> = BTreeMap::new();
    for (place, phase) in ["s", "f"].into_iter().enumerate() {
        for end in of_phase(&events, phase) {
            arrows.entry(end["id"].as_u64().unwrap()).or_default()[place] = Some(end);
        }
    }
    let slice_at = |end: &Value| {
        let at = (end["ts"].as_f64().unwrap() * 1e3).round() as i64;
        let mut slices = of_phase(&events, "X");
        let found = slices.find(|slice| {
            let (begin, over) = span(slice);
            slice["pid"] == end["pid"] && slice["tid"] == end["tid"] && (begin..=over).contains(&at) && at != over
        });
        found.unwrap_or_else(|| panic!("no call at the end of the arrow {end}"))
    };
    let mut routes: BTreeMap<(u64, u64, String), u64> = BTreeMap::new();
    for arrow in arrows.values() {
        let [Some(start), Some(end)] = arrow else {
            panic!("half an arrow: {arrow:?}")
        };
        assert!(
            start["ts"].as_f64() <= end["ts"].as_f64(),
            "one host, one clock: {arrow:?}"
        );
        let (send, receive) = (slice_at(start), slice_at(end));
        assert_eq!(send["name"], "MPI_Send");
        let tag = send["args"]["tag"].as_i64().unwrap();
        let got = match receive["name"].as_str().unwrap() {
            // What was probed for is told by the probe.
            "MPI_Mrecv" => send["args"]["bytes"].as_u64().unwrap(),
            "MPI_Wait" | "MPI_Recv" => {
                let status = &receive["args"]["ended"][0];
                assert_eq!(status["tag"], tag);
                status["bytes"].as_u64().unwrap()
            }
            other => panic!("{other}"),
        };
        let context = send["args"]["communicator"].as_u64().unwrap();
        assert_eq!(send["args"]["bytes"], got);
        let route = (
            start["pid"].as_u64().unwrap(),
            end["pid"].as_u64().unwrap(),
            format!("{}/{tag}", context > 0),
        );
        *routes.entry(route).or_default() += 1;
    }
    let mut expected = BTreeMap::new();
    for rank in 0..RANKS {
        for tag in [1, 2] {
            expected.insert((rank, (rank + 1) % RANKS, format!("false/{tag}")), 1);
        }
        if rank > 0 {
            expected.insert((0, rank, "false/0".to_owned()), 1);
        }
        if rank < 2 {
            expected.insert((rank, rank + 2, "true/0".to_owned()), 1);
        }
    }
    assert_eq!(routes, expected);
}

#[test]
fn the_summary_adds_up() {
    let path = traces().to_str().unwrap();
    let summary = json(&trace(&[path, "--summary", "--format", "json"]));
    assert_eq!((&summary["ranks"], &summary["size"]), (&RANKS.into(), &RANKS.into()));
    let calls = summary["calls"].as_array().unwrap();
    let row = |name: &str| calls.iter().find(|row| row["call"] == name).unwrap();
    assert_eq!(row("MPI_Send")["count"], 2 * RANKS + (RANKS - 1) + 2);
    assert_eq!(row("MPI_Send")["bytes"], RANKS * 28 + (RANKS - 1) * 300_000 + 8);
    assert_eq!(row("MPI_Finalize")["count"], RANKS);
    let shares: f64 = calls.iter().map(|row| row["share"].as_f64().unwrap()).sum();
    let all = shares + summary["outside"].as_f64().unwrap();
    assert!((0.99..1.01).contains(&all), "{all}");
    let text = trace(&[path, "--summary"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("MPI_Send") && text.contains("(outside of MPI)"), "{text}");
}

#[test]
fn damaged_traces_are_shown_as_far_as_they_go() {
    let directory = traces().with_extension("damaged");
    fs::create_dir_all(&directory).unwrap();
    let whole = fs::read_to_string(traces().join("rank-0.jsonl")).unwrap();
    let file = directory.join("rank-0.jsonl");
    let shown = |text: &str, code: i32| {
        fs::write(&file, text).unwrap();
        let output = trace(&[file.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        said
    };
    assert_eq!(shown(&whole, 0), "");
    assert!(shown(&whole[..whole.len() / 2], 0).contains("calls before it are shown"));
    assert!(shown(&whole.replacen("\"begin\":", "\"begin\":x", 3), 0).contains("line 2: "));
    let without_end: Vec<&str> = whole.lines().filter(|line| !line.starts_with("{\"calls\"")).collect();
    assert!(shown(&without_end.join("\n"), 0).contains("has not finalised"));
    assert!(shown("nonsense", 1).contains("line 1: this is no trace of hikyaku"));
    let nothing = trace(&[directory.join("none").to_str().unwrap()]);
    assert_eq!(nothing.status.code(), Some(1));
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_trace_that_can_not_be_written_is_an_error_at_the_beginning() {
    let file = traces().with_extension("file");
    fs::write(&file, "no directory").unwrap();
    let done = Command::new(env::current_exe().unwrap())
        .args(["--exact", "rank_of_the_job", "--ignored", "--nocapture"])
        .env("HIKYAKU_TRACE", &file)
        .output()
        .unwrap();
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(
        said.contains("writing a trace to") && said.contains("(HIKYAKU_TRACE): "),
        "{said}"
    );
    fs::remove_file(&file).unwrap();
}

#[test]
fn a_job_that_checks_does_the_same_and_all_of_it_must_check() {
    let done = job(&[("HIKYAKU_CHECK", "on")], &["-n", "4", "RANK"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let settings = [
        "-n",
        "1",
        "--env",
        "HIKYAKU_CHECK=on",
        "RANK",
        ":",
        "-n",
        "1",
        "--env",
        "HIKYAKU_CHECK=off",
        "RANK",
    ];
    let done = job(&[], &settings);
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("HIKYAKU_CHECK is on here and off at process 1"), "{said}");
}
