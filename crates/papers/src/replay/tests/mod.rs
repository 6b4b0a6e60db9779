//! Replays, and traces that a replay refuses.

mod functions;
mod grids;
mod groups;
mod partitioned;
mod windows;

use std::{
    env, fs,
    path::Path,
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use mpi::{
    collective::SystemOperation, datatype::PartitionMut, point_to_point::persistent, topology::Color, traits::*,
};

use super::{program::without_end, *};

const HEADER: &str = r#"{"trace":"hikyaku","version":1,"rank":0,"size":1,"host":"h","time":0,"unix":0}"#;

/// A bit of everything, with receives from any source.
fn program() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    if rank == 0 {
        for _ in 1..size {
            world.any_process().receive_vec::<u64>().unwrap();
        }
    } else {
        hikyaku::sim::compute(Duration::from_micros(7 * (size - rank) as u64)).unwrap();
        world
            .process_at_rank(0)
            .send(&vec![0_u64; 1_000 * rank as usize][..])
            .unwrap();
    }
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let large = vec![1_u8; 300_000];
    let mut into = vec![0_u8; 300_000];
    mpi::request::scope(|scope| {
        let receive = world
            .process_at_rank(previous)
            .immediate_receive_into_with_tag(scope, &mut into[..], 5);
        let send = world
            .process_at_rank(next)
            .immediate_send_with_tag(scope, &large[..], 5);
        receive.wait().unwrap();
        send.wait().unwrap();
    });
    let half = world.split_by_color(Color::with_value(rank % 2)).unwrap().unwrap();
    let mut sum = 0;
    half.all_reduce_into(&rank, &mut sum, SystemOperation::sum()).unwrap();
    let mut all = vec![0; size as usize];
    world
        .all_to_all_into(&vec![rank; size as usize][..], &mut all[..])
        .unwrap();
    world.barrier().unwrap();
}

fn parsed(calls: &[String], rank: u32, size: u32) -> traces::Trace {
    let header = HEADER.replace("\"rank\":0,\"size\":1", &format!("\"rank\":{rank},\"size\":{size}"));
    let text = header + "\n" + &calls.join("\n");
    traces::parse(Path::new("t"), &text).unwrap().0
}

/// The sends and calls, without times, and receives by the message that they got.
fn messages(trace: &traces::Trace) -> Vec<String> {
    let mut messages = Vec::new();
    for step in programs(std::slice::from_ref(trace))
        .map(|mut all| all.remove(0))
        .unwrap_or_default()
    {
        match step {
            Step::Compute(_) | Step::Wait(_) => {}
            Step::Receive { context, from, tag, .. } => messages.push(format!("{context} {from} {tag}")),
            Step::Send {
                context,
                to,
                tag,
                bytes,
                ..
            } => messages.push(format!("{context} {to} {tag} {bytes}")),
            other => messages.push(format!("{other:?}")),
        }
    }
    messages
}

/// The calls of ranks, and the packets that the network has carried.
fn recorded<R>(ranks: u32, run: impl FnOnce(&Simulation) -> R) -> (Vec<traces::Trace>, R) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let directory = env::temp_dir().join(format!("hikyaku-replay-{}-{number}", process::id()));
    let mut simulation = Simulation::new(ranks, 1);
    simulation.trace = Some(directory.clone());
    let result = run(&simulation);
    let (traces, warnings) = traces::read(std::slice::from_ref(&directory)).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(warnings, []);
    (traces, result)
}

/// Whether two numbers are the same but for two percent, or what is next to nothing.
fn close(one: u64, other: u64, nothing: u64) -> bool {
    one.abs_diff(other) <= one.max(other) / 50 + nothing
}

/// A replay on the same network calls the same, and takes about as long: while a program computes, its core takes
/// packets in, which is recorded as computing, and happens again. Gives the programs.
fn agrees(ranks: u32, program: impl Fn(&Arc<Engine>) + 'static) -> Vec<Vec<Step>> {
    let (first, outcome) = recorded(ranks, |simulation| simulation.run(program).unwrap());
    let steps = Programs::from(programs(&first).unwrap());
    let (again, played) = recorded(ranks, |simulation| replay(&steps, simulation, 1.0).unwrap());
    for (first, again) in first.iter().zip(&again) {
        let looks = |call: &traces::Call| call.call == "MPI_Parrived" && call.ended.is_empty();
        let before = without_end(&first.calls).iter().filter(|call| !looks(call));
        let before = &before.cloned().collect::<Vec<_>>()[..];
        let names = |calls: &[traces::Call]| -> Vec<(String, u64)> {
            let name = |call: &traces::Call| call.call.replace("MPI_Win_allocate", "MPI_Win_create");
            calls.iter().map(|call| (name(call), call.volume())).collect()
        };
        // Where windows are left all meet, as they do in what ends MPI.
        let (again, end) = again.calls.split_at(before.len().min(again.calls.len()));
        assert_eq!(names(before), names(again));
        assert!(end.iter().all(|call| call.call == "MPI_Barrier"), "{end:?}");
        let last = |calls: &[traces::Call]| calls.iter().map(|call| call.end).max().unwrap();
        let (before, after) = (last(before), last(again));
        assert!(close(before, after, 1_000), "{before} {after}");
    }
    // What ends MPI is small: a barrier, and goodbyes to all.
    let (bytes, packets) = (outcome.network.bytes, outcome.network.sent);
    assert!(close(bytes, played.bytes, 2_000), "{bytes} {played:?}");
    let goodbyes = 4 * u64::from(ranks * ranks);
    assert!(close(packets, played.packets, goodbyes), "{packets} {played:?}");
    steps.to_vec()
}

#[test]
fn a_replay_has_the_messages_of_the_run() {
    let (first, _) = recorded(5, |simulation| simulation.run(|_| program()).unwrap());
    let steps = Programs::from(programs(&first).unwrap());
    let (again, _) = recorded(5, |simulation| replay(&steps, simulation, 1.0).unwrap());
    for (first, again) in first.iter().zip(&again) {
        let alone = |trace: &traces::Trace| {
            let mut trace = trace.clone();
            (trace.header.rank, trace.header.size) = (0, 1);
            messages(&trace)
        };
        let (before, after) = (alone(first), alone(again));
        assert!(before.len() > 6, "{before:?}");
        assert_eq!(before, after);
    }
    // Sends of all sizes are among them.
    assert!(
        steps[3]
            .iter()
            .any(|step| matches!(step, Step::Send { bytes: 24_000, .. }))
    );
    // It is over on circuits, too, and later.
    let mut simulation = Simulation::new(5, 1);
    let ethernet = replay(&steps, &simulation, 1.0).unwrap();
    optical::circuits(&mut simulation, 2, Duration::from_millis(10), Handling::Planned);
    let optics = replay(&steps, &simulation, 1.0).unwrap();
    assert!(
        optics.seconds > ethernet.seconds + 0.01 && optics.optics.set_up > 5,
        "{ethernet:?} {optics:?}"
    );
}

#[test]
fn what_can_not_be_replayed_is_said_with_its_line() {
    let ok = r#"{"call":"MPI_Ibarrier","begin":1,"end":2,"request":1}"#;
    for (line, said) in [
        (
            r#"{"call":"MPI_Put","begin":3,"end":4,"context":9,"peer":0,"displacement":0,"bytes":8}"#,
            "t, line 3: MPI_Put: no call before it has made window 9",
        ),
        (
            r#"{"call":"MPI_Put","begin":3,"end":4,"context":9,"peer":0,"bytes":8}"#,
            "t, line 3: MPI_Put has no `displacement`: a number was expected",
        ),
        (
            r#"{"call":"MPI_Win_lock","begin":3,"end":4,"context":9,"peer":0}"#,
            "MPI_Win_lock has no `lock`: MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE was expected",
        ),
        (
            r#"{"call":"MPI_Win_allocate","begin":3,"end":4,"bytes":8,"displacement":1}"#,
            "MPI_Win_allocate has no `made`",
        ),
        (
            r#"{"call":"MPI_Accumulate","begin":3,"end":4,"peer":0,"bytes":8,"kind":"MPI_DOUBLE"}"#,
            "MPI_Accumulate has no `operation`",
        ),
        (
            r#"{"call":"MPI_Win_shared_query","begin":3,"end":4}"#,
            "MPI_Win_shared_query cannot be replayed",
        ),
        (
            r#"{"call":"MPI_Send","begin":3,"end":4,"tag":1}"#,
            "t, line 3: MPI_Send has no `peer`: a rank was expected",
        ),
        (
            r#"{"call":"MPI_Isend","begin":3,"end":4,"tag":1,"peer":0}"#,
            "t, line 3: MPI_Isend has no `request`",
        ),
        (
            r#"{"call":"MPI_Wait","begin":3,"end":4,"ended":[[7,0,0,0]]}"#,
            "no call before it has begun request 7",
        ),
        (
            r#"{"call":"MPI_Mrecv","begin":3,"end":4,"requests":[7]}"#,
            "no call before it has found message 7",
        ),
        (
            r#"{"call":"MPI_Bcast","begin":3,"end":4,"bytes":1}"#,
            "the root's rank was expected",
        ),
        (
            r#"{"call":"MPI_Send","begin":3,"end":4,"error":"MPI_ERR_RANK"}"#,
            "has failed (MPI_ERR_RANK)",
        ),
        (
            r#"{"call":"MPI_Barrier","begin":3,"end":4,"thread":1}"#,
            "of another thread",
        ),
        (
            r#"{"call":"MPI_Start","begin":3,"end":4,"requests":[7],"request":8}"#,
            "t, line 3: MPI_Start: no call before it has planned request 7",
        ),
        (
            r#"{"call":"MPI_Psend_init","begin":3,"end":4,"peer":0,"tag":1,"bytes":8,"request":7}"#,
            "t, line 3: MPI_Psend_init has no `partitions`",
        ),
        (
            r#"{"call":"MPI_Precv_init","begin":3,"end":4,"peer":0,"tag":1,"bytes":8,"partitions":3,"request":7}"#,
            "t, line 3: MPI_Precv_init: 8 bytes cannot be cut into 3 partitions",
        ),
        (
            r#"{"call":"MPI_Pready","begin":3,"end":4,"requests":[7],"displacement":0,"count":1}"#,
            "t, line 3: MPI_Pready: no call before it has planned request 7",
        ),
        (
            r#"{"call":"MPI_Bcast_init","begin":3,"end":4,"peer":0,"bytes":1}"#,
            "t, line 3: MPI_Bcast_init has no `request`",
        ),
        (
            r#"{"call":"MPI_Ibarrier","begin":3,"end":4,"request":1}"#,
            "MPI_Ibarrier gives number 1, which was given before",
        ),
        (
            r#"{"call":"MPI_Intercomm_create","begin":3,"end":4,"peer":0,"tag":1}"#,
            "t, line 3: MPI_Intercomm_create has no `made`",
        ),
        (
            r#"{"call":"MPI_Comm_spawn","begin":3,"end":4}"#,
            "t, line 3: MPI_Comm_spawn cannot be replayed",
        ),
    ] {
        let trace = parsed(&[ok.to_owned(), line.to_owned()], 0, 1);
        let error = programs(&[trace]).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let missing = programs(&[parsed(&[], 1, 3)]).unwrap_err().to_string();
    assert!(missing.contains("rank 0 is not there"), "{missing}");
}

#[test]
fn traces_that_do_not_go_together_end_with_who_waits() {
    let receive = r#"{"call":"MPI_Recv","begin":1,"end":2,"peer":1,"tag":3,"bytes":8,"ended":[[0,1,3,8]]}"#;
    let steps = programs(&[parsed(&[receive.to_owned()], 0, 2), parsed(&[], 1, 2)])
        .unwrap()
        .into();
    let error = replay(&steps, &Simulation::new(2, 1), 1.0).unwrap_err().to_string();
    assert!(error.contains("deadlock") && error.contains("rank 1, tag 3"), "{error}");
    let unknown = r#"{"call":"MPI_Barrier","begin":1,"end":2,"context":9}"#;
    let steps = programs(&[parsed(&[unknown.to_owned()], 0, 1)]).unwrap().into();
    let error = replay(&steps, &Simulation::new(1, 1), 1.0).unwrap_err().to_string();
    assert!(error.contains("step 1: there is no communicator 9"), "{error}");
}

/// Sends, receives and collectives that are set up once.
fn set_up_once() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let previous = world.process_at_rank((rank + size - 1) % size);
    let (mut news, mut room) = (vec![rank; 50_000], vec![0; 50_000]);
    let mut sending = persistent::send_init(&next, &mut news, 3);
    let mut receiving = persistent::receive_init(&previous, &mut room, 3);
    let (mut own, mut sum) = (vec![1.5_f64; 700], vec![0.0_f64; 700]);
    let mut reduction = world
        .persistent_all_reduce_into(&mut own, &mut sum, SystemOperation::sum())
        .unwrap();
    let counts: Vec<i64> = (1..=size as i64).map(|count| 10 * count).collect();
    let starts: Vec<i64> = (0..size as i64).map(|rank| 5 * rank * (rank + 1)).collect();
    let (mut part, mut all) = (
        vec![7_u8; 10 * (rank as usize + 1)],
        vec![0_u8; 5 * (size * (size + 1)) as usize],
    );
    let mut blocks = PartitionMut::new(&mut all[..], counts, starts);
    let mut gather = world
        .persistent_all_gather_varcount_into(&mut part[..], &mut blocks)
        .unwrap();
    for round in 0..3 {
        hikyaku::sim::compute(Duration::from_micros(11 * (rank + round) as u64)).unwrap();
        mpi::request::scope(|scope| {
            let receive = receiving.start(scope);
            let send = sending.start(scope);
            let gathered = gather.start(scope);
            reduction.start(scope).wait().unwrap();
            receive.wait().unwrap();
            send.wait().unwrap();
            gathered.wait().unwrap();
        });
    }
    drop((reduction, gather));
    let mut barrier = world.persistent_barrier().unwrap();
    mpi::request::scope(|scope| barrier.start(scope).wait().unwrap());
}

#[test]
fn what_is_persistent_is_replayed() {
    let steps = agrees(4, |_| set_up_once());
    let starts = |step: &&Step| matches!(step, Step::Start { .. });
    assert_eq!(steps[2].iter().filter(starts).count(), 3 * 2 + 1);
    assert!(steps[2].iter().any(|step| matches!(step, Step::Free(_))));
}

/// Vectors whose blocks are of one size.
fn scattered() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let size = world.size() as usize;
    let own: Vec<u64> = (0..3_000 * size as u64).collect();
    let mut block = vec![0_u64; 3_000];
    world
        .reduce_scatter_block_into(&own[..], &mut block[..], SystemOperation::sum())
        .unwrap();
    assert_eq!(block[1], size as u64 * (3_000 * world.rank() as u64 + 1));
}

#[test]
fn blocks_of_reductions_are_replayed() {
    agrees(3, |_| scattered());
}
