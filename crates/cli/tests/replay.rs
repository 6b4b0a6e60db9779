//! `hikyaku sim replay` of a real job: this program is its ranks, too.
#![cfg(feature = "sim")]

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use mpi::{
    collective::SystemOperation,
    point_to_point::{partitioned, persistent},
    traits::*,
    window::{LockKind, Window},
};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hikyaku");
const RANKS: usize = 3;

#[test]
#[ignore = "a rank of the job that the other test looks at"]
fn rank_of_the_job() {
    let universe = mpi::initialize().unwrap_or_else(|error| panic!("{error}"));
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let previous = world.process_at_rank((rank + size - 1) % size);

    let (mut news, mut room) = (vec![rank; 5_000], vec![0; 5_000]);
    let mut sending = persistent::send_init(&next, &mut news, 3);
    let mut receiving = persistent::receive_init(&previous, &mut room, 3);
    let (mut own, mut sum) = ([1; 9], [0; 9]);
    let mut reduction = world
        .persistent_all_reduce_into(&mut own, &mut sum, SystemOperation::sum())
        .unwrap();
    for _ in 0..4 {
        mpi::request::scope(|scope| {
            let receive = receiving.start(scope);
            sending.start(scope).wait().unwrap();
            receive.wait().unwrap();
            reduction.start(scope).wait().unwrap();
        });
    }

    let (mut news, mut room) = (vec![rank; 60_000], vec![0; 60_000]);
    let mut receiving = partitioned::receive_init(&previous, &mut room, 6, 2).unwrap();
    let mut sending = partitioned::send_init(&next, &mut news, 12, 2).unwrap();
    mpi::request::scope(|scope| {
        let (arrivals, received) = receiving.start(scope);
        let (parts, sent) = sending.start(scope);
        parts.into_iter().for_each(|part| part.ready().unwrap());
        while arrivals.get(5).unwrap().is_none() {}
        received.wait().unwrap();
        sent.wait().unwrap();
    });

    let window = Window::<u64>::allocate(&world, 5_000).unwrap();
    let news = vec![1; 4_000];
    window
        .fence(|epoch| epoch.put(&news, (rank + 1) % size, 1_000))
        .unwrap();
    window.fence(|_| Ok(())).unwrap();
    for kind in [LockKind::Shared, LockKind::Exclusive] {
        let count = |epoch: &mpi::window::Epoch<'_, '_, u64>| epoch.fetch_and_op(&1, 0, 0, SystemOperation::sum());
        window.lock(kind, 0, count).unwrap();
    }
    window.free().unwrap();
}

#[test]
fn what_a_real_job_has_called_is_replayed() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replayed");
    let _ = fs::remove_dir_all(&directory);
    let rank = ["--exact", "rank_of_the_job", "--ignored", "--test-threads", "1"];
    let mut job = Command::new(PROGRAM);
    job.args(["run", "--bind-to", "none", "-n", &RANKS.to_string()]);
    job.arg(env::current_exe().unwrap()).args(rank);
    let done = job
        .env("HIKYAKU_TRACE", &directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

    let mut replay = Command::new(PROGRAM);
    replay
        .args(["sim", "replay", "--format", "json", "--compute", "0"])
        .arg(&directory);
    let done = replay.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let document: Value = serde_json::from_slice(&done.stdout).unwrap();
    let number = |key: &str| document[key].as_u64().unwrap();
    assert_eq!(number("ranks"), RANKS as u64);
    // Each rank: 4 · 20 kB, 240 kB in partitions and 32 kB into a window, and headers.
    let bytes = RANKS as u64 * (80_000 + 240_000 + 32_000);
    assert!((bytes..bytes + bytes / 5).contains(&number("bytes")), "{document}");
    assert!(
        number("calls") >= RANKS as u64 * (4 * 6 + 4 + 12 + 5 + 12),
        "{document}"
    );
}
