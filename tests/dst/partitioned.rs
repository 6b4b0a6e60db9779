//! Partitioned messages with a process that crashes and is restarted: channels that others have kept from before never
//! match those of the new incarnation, though both begin with the same numbers.

use std::{sync::Arc, time::Duration};

use hikyaku::{
    mpi::{
        Rank,
        engine::{Communicator, PartitionedReceive, PartitionedSend},
        error::{Error, ErrorClass},
    },
    sim::{self, Fault, Impairment, Rank as Process, Simulation},
};

use super::{
    prng::{self, Prng},
    safe::byte,
    seeds::{directory, note, scenario},
};

/// Time after a crash in which every process hears of it.
const PATIENCE: Duration = Duration::from_secs(40);
/// Rounds after the restart, and the time before each.
const LATE: usize = 3;
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Clone, Debug)]
struct Plan {
    /// The process that talks to all others, which talk only to it.
    centre: Rank,
    /// For each channel from or to it: partitions, and bytes of each.
    channels: Vec<(u32, u64)>,
    rounds: usize,
    /// When it has restarted, and all others try again what they had begun with the old incarnation.
    back: Option<Duration>,
}

/// Content of a round; each incarnation sends another one.
fn content(from: Rank, incarnation: u32, round: usize, channel: usize, len: usize) -> Vec<u8> {
    prng::bytes(&[from as u64, incarnation.into(), round as u64, channel as u64], len)
}

/// Both directions with one other process. (Their memory is leaked: after an error, the network may still refer to it.)
struct Channel {
    send: PartitionedSend,
    receive: PartitionedReceive,
    data: *mut u8,
    room: *mut u8,
    len: usize,
    /// The incarnation of the other process that was last heard from.
    heard: Option<u32>,
    lost: bool,
}

impl Channel {
    fn open(world: &Communicator, (partitions, bytes): (u32, u64), other: Rank, tag: i32) -> Result<Self, Error> {
        let len = (u64::from(partitions) * bytes) as usize;
        let [data, room] = [(); 2].map(|()| Box::leak(vec![0; len].into_boxed_slice()).as_mut_ptr());
        // SAFETY: the memory stays, and is used only when no round runs.
        let (send, receive) = unsafe {
            (
                world.psend_init(data, (partitions, bytes), &byte(), other, tag)?,
                world.precv_init(room, (partitions, bytes), &byte(), other, tag)?,
            )
        };
        Ok(Self {
            send,
            receive,
            data,
            room,
            len,
            heard: None,
            lost: false,
        })
    }

    fn room(&self) -> &[u8] {
        // SAFETY: as many bytes as were leaked; no round runs when this is called.
        unsafe { std::slice::from_raw_parts(self.room, self.len) }
    }

    /// A round in both directions, with this content.
    fn exchange(&self, said: &[u8]) -> Result<(), Error> {
        // SAFETY: no round runs.
        unsafe {
            self.data.copy_from_nonoverlapping(said.as_ptr(), self.len);
            self.room.write_bytes(0xee, self.len);
        }
        let receiving = self.receive.start();
        let sending = self.send.start().and_then(|sending| {
            (0..self.send.partitions()).try_for_each(|partition| self.send.ready(partition))?;
            sending.wait()
        });
        let received = receiving.and_then(|receiving| receiving.wait());
        sending.and(received).map(drop)
    }
}

/// A round on all channels.
fn exchange(world: &Communicator, channels: &mut [(Rank, usize, Channel)], incarnation: u32, round: usize) {
    for (other, index, channel) in channels {
        let said = content(world.rank(), incarnation, round, *index, channel.len);
        match channel.exchange(&said) {
            Ok(()) => {
                assert!(
                    !channel.lost,
                    "rank {}: rank {other} was lost, and answers",
                    world.rank()
                );
                let is_of =
                    |incarnation: &u32| channel.room() == content(*other, *incarnation, round, *index, channel.len);
                let Some(heard) = (0..2).find(is_of) else {
                    panic!(
                        "rank {}: round {round} of rank {other} is of another channel",
                        world.rank()
                    );
                };
                assert_eq!(
                    *channel.heard.get_or_insert(heard),
                    heard,
                    "rank {other} is another one"
                );
            }
            Err(error) => {
                assert_eq!(error.class(), ErrorClass::ProcFailed, "rank {}: {error}", world.rank());
                channel.lost = true;
            }
        }
    }
}

fn program(world: &Communicator, plan: &Plan) -> Result<(), Error> {
    let (rank, incarnation) = (
        world.rank(),
        Process::current().map_or(0, |process| process.incarnation()),
    );
    let others = (0..world.size()).filter(|other| *other != rank && (rank == plan.centre || *other == plan.centre));
    let others: Vec<Rank> = others.collect();
    let open = || {
        let each = plan.channels.iter().enumerate();
        let each = each.flat_map(|(index, shape)| others.iter().map(move |other| (*other, index, *shape)));
        each.map(|(other, index, shape)| Ok((other, index, Channel::open(world, shape, other, index as i32)?)))
            .collect::<Result<Vec<_>, Error>>()
    };
    let mut channels = open()?;
    for round in 0..plan.rounds {
        exchange(world, &mut channels, incarnation, round);
    }
    let Some(back) = plan.back.filter(|_| rank != plan.centre) else {
        return Ok(());
    };
    let now = Duration::from_nanos(world.engine().now().as_nanos());
    sim::compute(back.saturating_sub(now)).unwrap();
    for round in plan.rounds..plan.rounds + LATE {
        sim::compute(PAUSE).unwrap();
        exchange(world, &mut channels, incarnation, round);
    }
    // New channels are with the old incarnation, too, if that was lost.
    let lost = channels.iter().any(|(.., channel)| channel.lost);
    let mut new = open()?;
    new.iter_mut().for_each(|(.., channel)| channel.lost = lost);
    if lost {
        exchange(world, &mut new, incarnation, 0);
    }
    for (.., channel) in channels.iter().chain(&new).filter(|(.., channel)| channel.lost) {
        let untouched = channel.room() == vec![0xee; channel.len];
        assert!(
            untouched,
            "rank {rank}: bytes of another process have landed in a channel that is lost"
        );
    }
    Ok(())
}

fn run(simulation: &Simulation, plan: &Plan) -> Duration {
    let plan = Arc::new(plan.clone());
    let outcome = simulation.run(move |engine| {
        let world = Communicator::world(engine);
        if let Err(error) = program(&world, &plan) {
            assert_eq!(error.class(), ErrorClass::ProcFailed, "rank {}: {error}", world.rank());
        }
        engine.finalize(Duration::from_secs(1)).unwrap();
    });
    outcome.unwrap_or_else(|error| panic!("{error}")).time
}

#[test]
fn restarts() {
    scenario("partitioned::restarts", 40, |seed| {
        let mut rng = Prng::new(seed ^ 0x9a47);
        let ranks = rng.between(2, 4);
        let mut plan = Plan {
            centre: rng.below(ranks) as Rank,
            channels: (0..rng.between(1, 3))
                .map(|_| (rng.between(1, 6) as u32, rng.pick(&[8, 3_000, 40_000])))
                .collect(),
            rounds: rng.between(2, 8) as usize,
            back: None,
        };
        let mut simulation = Simulation::new(ranks as u32, seed);
        simulation.options.eager_limit = rng.pick(&[0, 100, 4_096, 64 << 10]);
        simulation.network.rails = rng.pick(&[1, 2, 3]);
        simulation.faults.watch = true;
        simulation.faults.impairment = Impairment {
            loss: rng.pick(&[0.0, 0.0, 0.05]),
            ..Impairment::default()
        };
        simulation.limit = Some(PATIENCE);
        let well = run(&simulation, &plan).as_nanos() as u64;
        let process = plan.centre as u32;
        let at = Duration::from_nanos(rng.below(well + 1));
        let back = at + Duration::from_nanos(rng.skewed(20_000_000_000));
        let refuse = rng.chance(300);
        simulation.faults.plan = vec![(at, Fault::Crash { process, refuse }), (back, Fault::Restart(process))];
        if rng.chance(500) {
            // Resent packets come together with others.
            let from = back + Duration::from_nanos(rng.skewed(1_000_000));
            let other = (process + 1) % ranks as u32;
            simulation.faults.plan.push((from, Fault::Cut(process, other)));
            let until = from + Duration::from_nanos(rng.skewed(10_000_000));
            simulation.faults.plan.push((until, Fault::Join));
        }
        let rails = u64::from(simulation.network.rails);
        if rails > 1 && rng.chance(700) {
            // A rail loses what one side sends, before the crash or at any time until the restart.
            let from = Duration::from_nanos(rng.below(back.as_nanos() as u64 + 1));
            let other = (process + 1 + rng.below(ranks - 1) as u32) % ranks as u32;
            let (one, other) = rng.pick(&[(process, other), (other, process)]);
            let cut = Fault::CutRail(one, other, rng.below(rails) as u8);
            let until = from + Duration::from_nanos(rng.skewed(100_000_000));
            simulation.faults.plan.extend([(from, cut), (until, Fault::Join)]);
        }
        plan.back = Some(back);
        simulation.limit = Some(back + PATIENCE);
        if let Some(directory) = directory() {
            simulation.capture = Some(directory.join("packets.pcapng"));
            simulation.trace = Some(directory.join("trace"));
        }
        note(format!("{simulation:?}"));
        note(format!("{plan:?}, {well} ns without a crash"));
        run(&simulation, &plan);
    });
}
