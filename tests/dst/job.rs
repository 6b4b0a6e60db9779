//! A job as drawn from the seed: network, hosts, settings, program and faults.

use std::{sync::Arc, time::Duration};

use hikyaku::{
    Config,
    mpi::{
        collectives::Levels,
        engine::{ANY_SOURCE, ANY_TAG, Communicator, Engine},
        error::Error,
    },
    sim::{
        Cpu, Fault, Impairment, Network, Outcome, Polling, Queues, Rank, Routing, Simulation, SimulationError, Topology,
    },
};

use super::{
    draw::draw_config,
    prng::Prng,
    script::{self, Limits, Phase, Wild},
    seeds::{directory, note},
};

/// Time when all faults end, ns.
pub(crate) const LONGEST_TROUBLE: u64 = 1_500_000_000;
/// Longest time to recover after that: time-outs that have doubled, and slow networks.
const PATIENCE: Duration = Duration::from_secs(120);

/// Bytes of all messages of a phase.
const MOST_LETTERS: u32 = 1_000_000;

/// A process, and how its program has ended.
pub(crate) type Ended = (u32, Result<(), Error>);

pub(crate) struct Job {
    pub(crate) simulation: Simulation,
    pub(crate) phases: Arc<[Phase]>,
}

fn draw_network(rng: &mut Prng) -> Network {
    let topology = match rng.below(10) {
        0..=5 => Topology::Switch,
        6 | 7 => Topology::LeafSpine {
            hosts: rng.between(1, 4) as u32,
            spines: rng.between(1, 3) as u32,
        },
        _ => Topology::Shared,
    };
    let mtu = rng.pick(&[576, 1_500, 1_500, 9_000]);
    let shared = topology == Topology::Shared;
    Network {
        topology,
        bandwidth: if shared {
            rng.pick(&[10e6, 100e6])
        } else {
            rng.pick(&[100e6, 1e9, 10e9])
        },
        // Hosts must detect collisions in time.
        delay: Duration::from_nanos(rng.skewed(if shared { 2_500 } else { 200_000 })),
        mtu,
        queue: rng.pick(&[1, 20_000, 512 << 10]).max(mtu + 100),
        rails: if shared { 1 } else { rng.pick(&[1, 1, 2, 4]) },
        loss: rng.pick(&[0.0, 0.0, 0.0, 0.01]),
        ..Network::default()
    }
}

/// Draws another shape for some jobs: grids, hosts with several processes, relays, and ways to poll the hosts' queues.
fn draw_shape(rng: &mut Prng, simulation: &mut Simulation, wild: Wild) {
    if rng.chance(600) {
        return;
    }
    let (network, ranks) = (&mut simulation.network, simulation.processes);
    if rng.chance(400) {
        network.per_host = rng.between(2, 4) as u32;
    }
    if network.topology == Topology::Switch && rng.chance(600) {
        let (a, b) = (rng.between(1, 3) as u32, rng.between(1, 3) as u32);
        network.topology = Topology::HyperCrossbar {
            sides: [a, ranks.div_ceil(a * b), b],
        };
        network.forward = Duration::from_nanos(rng.skewed(20_000));
    }
    // A relay that has crashed would cut off the processes behind it.
    if wild == Wild::All && rng.chance(300) {
        network.routing = Some(rng.pick(&[Routing::Chain, Routing::Tree, Routing::Ring, Routing::Torus]));
    }
    simulation.polling = rng.pick(&[Polling::Helper, Polling::Process, Polling::Dedicated, Polling::Combined]);
    simulation.queues = Queues {
        count: rng.between(1, 4) as u32,
        length: rng.between(8, 512) as u32,
    };
    if simulation.network.per_host > 1 {
        simulation.options.policy.levels = rng.pick(&[Levels::Auto, Levels::Leaders, Levels::Leaders]);
    }
}

/// Where there are several rails, each may fail by itself, in one direction or in both.
fn draw_cuts(rng: &mut Prng, simulation: &mut Simulation) {
    let rails = simulation.network.rails;
    if rails == 1 {
        return;
    }
    let Some(&(end, _)) = simulation.faults.plan.last() else {
        return;
    };
    for _ in 0..rng.skewed(12) {
        let at = Duration::from_nanos(rng.below(end.as_nanos() as u64));
        let mut draw = |below: u32| rng.below(below.into()) as u32;
        let (one, other) = (draw(simulation.processes), draw(simulation.processes));
        let rail = draw(rails) as u8;
        simulation.faults.plan.push((at, Fault::CutRail(one, other, rail)));
        // The other direction, too, or a little later: first it loses acknowledgements alone, and then it dies.
        if draw(2) == 0 {
            let later = at + Duration::from_nanos(u64::from(draw(2)) * u64::from(draw(20_000_000)));
            // (At the end, all are joined.)
            let at = if later < end { later } else { at };
            simulation.faults.plan.push((at, Fault::CutRail(other, one, rail)));
        }
    }
}

fn draw_impairment(rng: &mut Prng, corrupt: bool) -> Impairment {
    let mut chance = |usual: u32, most: u64| {
        if rng.chance(usual) {
            rng.skewed(most) as f64 / 1_000.0
        } else {
            0.0
        }
    };
    Impairment {
        loss: chance(600, 300),
        duplicate: chance(400, 300),
        late: chance(500, 500),
        truncate: if corrupt { chance(500, 50) } else { 0.0 },
        corrupt: if corrupt { chance(1_000, 100) } else { 0.0 },
        hold: Duration::from_nanos(rng.skewed(20_000_000)),
    }
}

/// Draws faults up to `end`, when all are over.
fn draw_troubles(rng: &mut Prng, ranks: u32, corrupt: bool, end: u64) -> Vec<(Duration, Fault)> {
    let mut plan = Vec::new();
    for _ in 0..rng.skewed(12) - 1 {
        let at = Duration::from_nanos(rng.below(end));
        let one = rng.below(ranks.into()) as u32;
        let fault = match rng.below(6) {
            0 => Fault::Impair(draw_impairment(rng, corrupt)),
            1 => Fault::Isolate((0..ranks).filter(|_| rng.chance(400)).collect()),
            2 => Fault::Cut(one, rng.below(ranks.into()) as u32),
            3 => Fault::Join,
            _ => Fault::Pause(one, Duration::from_nanos(rng.skewed(1_000_000_000))),
        };
        plan.push((at, fault));
    }
    let end = Duration::from_nanos(end);
    plan.extend([(end, Fault::Join), (end, Fault::Impair(Impairment::default()))]);
    plan
}

impl Job {
    /// Draws the whole job. Faults that heal are included, crashes are not.
    pub(crate) fn draw(rng: &mut Prng, seed: u64, troubles: bool, wild: Wild) -> Self {
        let ranks = if rng.chance(150) {
            rng.between(7, 13)
        } else {
            rng.between(2, 6)
        } as u32;
        let corrupt = troubles && rng.chance(250);
        let mut simulation = Simulation::new(ranks, seed);
        simulation.network = draw_network(rng);
        draw_shape(&mut Prng::new(seed ^ 0x5a9e), &mut simulation, wild);
        simulation.cpu = match rng.below(4) {
            0 => Cpu::FREE,
            1 => Cpu {
                send: rng.skewed(20_000) as f64,
                receive: rng.skewed(20_000) as f64,
                ..Cpu::default()
            },
            _ => Cpu::default(),
        };
        // The stacks of crashed processes are never freed.
        simulation.stack = 256 << 10;
        simulation.receive_buffer = rng.pick(&[70_000, 212_992, 1 << 20]);
        simulation.config = Config {
            path_mtu_discovery: false,
            ..draw_config(rng, corrupt)
        };
        // Packets of a few bytes add no new states, but many packets.
        simulation.config.max_payload = simulation.config.max_payload.max(100);
        simulation.options.eager_limit = rng.pick(&[0, 100, 4_096, 64 << 10]);
        simulation.options.check = rng.chance(150);
        let slow = simulation.network.bandwidth < 1e9 || simulation.config.max_payload < 500;
        let limits = Limits {
            letters: 60,
            bytes: if slow { 20_000 } else { 300_000 },
            total: if slow { 60_000 } else { MOST_LETTERS.into() },
            wild,
        };
        if troubles {
            let end = (20_000 << rng.below(17)).min(LONGEST_TROUBLE);
            simulation.faults.impairment = draw_impairment(rng, corrupt);
            simulation.faults.plan = draw_troubles(rng, ranks, corrupt, end);
        }
        draw_cuts(&mut Prng::new(seed ^ 0x4a11), &mut simulation);
        simulation.limit = Some(Duration::from_nanos(LONGEST_TROUBLE) + PATIENCE);
        let phases = script::draw(rng, ranks as usize, limits, 0).into();
        Self { simulation, phases }
    }

    /// Prints what was drawn, if the test fails.
    pub(crate) fn note(&self) {
        note(format!("{:?}", self.simulation));
        for phase in &*self.phases {
            let mut text = format!("{phase:?}");
            text.truncate(text.char_indices().nth(500).map_or(text.len(), |(at, _)| at));
            note(text);
        }
    }

    /// Runs the job. Gives how each rank has ended, and the rest of the outcome.
    pub(crate) fn run(&self) -> Result<Outcome<Ended>, SimulationError> {
        let mut simulation = self.simulation.clone();
        if let Some(directory) = directory() {
            simulation.capture = Some(directory.join("packets.pcapng"));
            simulation.trace = Some(directory.join("trace"));
        }
        let (bound, phases) = (self.bound(), Arc::clone(&self.phases));
        simulation.run(move |engine| {
            let ended = program(engine, &phases);
            let stats = engine.stats();
            assert!(stats.unexpected_peak <= bound, "bounded by {bound}: {stats:?}");
            let left = if ended.is_ok() { stats.unexpected_bytes } else { 0 };
            assert_eq!(left, 0, "memory is left over at rank {}: {stats:?}", engine.process());
            (engine.process(), ended)
        })
    }

    /// Most bytes of unreceived messages that a process may keep: a share of each other process, perhaps more for the
    /// first bytes, and its own.
    fn bound(&self) -> u64 {
        const FIRST: u32 = 64 << 10;
        let Simulation { processes, config, .. } = &self.simulation;
        u64::from((processes - 1) * config.unexpected_bytes.max(FIRST) + MOST_LETTERS)
    }
}

/// The program of a rank: its phases, a barrier, a check for messages that are left over, and the end.
fn program(engine: &Arc<Engine>, phases: &[Phase]) -> Result<(), Error> {
    let incarnation = Rank::current().map_or(0, |rank| rank.incarnation());
    let world = Communicator::world(engine);
    let done = script::run(&world, phases, incarnation).and_then(|()| world.barrier());
    if done.is_ok() {
        // (An error if the others have finished already.)
        let left = world.iprobe(ANY_SOURCE, ANY_TAG).ok().flatten();
        assert_eq!(left, None, "a message is left over at rank {}", world.rank());
        assert_eq!(engine.requests(), 0, "requests are left over at rank {}", world.rank());
    }
    if let Err(error) = engine.finalize(Duration::from_secs(1)) {
        panic!("{error}");
    }
    done
}
