//! Jobs on light paths: too few of them, set-ups that take long and fail, ports and wavelengths that come and go; and
//! the faults of wires happen here, too.

use std::time::Duration;

use hikyaku::sim::{Available, Change, Handling, Optics, Simulation, Topology, Unconnected};

use super::{
    crash::{self, After},
    job::{Job, LONGEST_TROUBLE},
    prng::Prng,
    script::Wild,
    seeds::scenario,
};

/// Longest time-out, in virtual time.
const PATIENCE: Duration = Duration::from_secs(600);
/// Longest time after the last crash until every process knows of it: silence is waited out, and processes that hear of
/// it from others may have to wait for those first.
pub(crate) const BOUND: Duration = Duration::from_secs(4 * PATIENCE.as_secs());

fn draw_optics(rng: &mut Prng, simulation: &mut Simulation) {
    let ranks = simulation.processes;
    let unconnected = match rng.below(4) {
        0 => Unconnected::Drop,
        1 => Unconnected::Hold(rng.skewed(100_000) as u32),
        _ => Unconnected::Hold(16 << 20),
    };
    // Packets lost for want of a path are sent again, when a path may have come and gone: where there are few paths,
    // that may go on for ever.
    let few = unconnected == Unconnected::Hold(16 << 20);
    let draw = |rng: &mut Prng, most: u32| if few { rng.skewed(most.into()) as u32 } else { most };
    let ports = |rng: &mut Prng| draw(rng, ranks + 1);
    let wavelengths = |rng: &mut Prng| draw(rng, ranks * ranks);
    let mut changes = Vec::new();
    let mut last = Vec::new();
    let end = (20_000 << rng.below(17)).min(LONGEST_TROUBLE);
    for _ in 0..rng.skewed(12) - 1 {
        let (gone, host) = (rng.chance(200), rng.below(ranks.into()) as u32);
        let to = match rng.below(3) {
            0 => Available::Wavelengths(if gone { 0 } else { wavelengths(rng) }),
            1 => Available::Ports(None, if gone { 0 } else { ports(rng) }),
            _ => Available::Ports(Some(host), if gone { 0 } else { ports(rng) }),
        };
        let at = Duration::from_nanos(rng.below(end));
        changes.push(Change { at, to });
    }
    // Some ports and wavelengths must be left at the end.
    if !changes.is_empty() {
        last.push(Available::Ports(None, ports(rng)));
        last.push(Available::Wavelengths(wavelengths(rng)));
    }
    let at = Duration::from_nanos(end);
    changes.extend(last.into_iter().map(|to| Change { at, to }));
    simulation.optics = Some(Optics {
        ports: ports(rng),
        setup: Duration::from_nanos(rng.skewed(10_000_000) - 1),
        spread: Duration::ZERO,
        release: Duration::from_nanos(rng.pick(&[0, 0, 20_000, 5_000_000])),
        handling: rng.pick(&[
            Handling::Naive,
            Handling::Planned,
            Handling::Planned,
            Handling::Unplanned,
        ]),
        wavelengths: rng.chance(500).then(|| wavelengths(rng)),
        failure: rng.pick(&[0.0, 0.0, 0.1, 0.5]),
        unconnected,
        keep: rng.chance(300),
        changes,
    });
    simulation.network.per_host = 1;
    if rng.chance(700) {
        let network = &mut simulation.network;
        (network.topology, network.routing) = (Topology::Direct, None);
    }
    let config = &mut simulation.config;
    if rng.chance(500) {
        // As recommended where packets wait for paths.
        (config.initial_rto, config.min_rto) = (Duration::from_millis(100), Duration::from_millis(100));
        config.max_rto = config.max_rto.max(config.initial_rto);
    }
    // Plans that do not match wait for 100 set-ups, one after the other.
    (config.open_timeout, config.death_timeout) = (PATIENCE, PATIENCE);
    simulation.limit = Some(2 * PATIENCE);
}

/// Draws light paths from a generator of their own: the job is the one that the same seed draws without them.
pub(crate) fn draw(seed: u64, simulation: &mut Simulation) {
    draw_optics(&mut Prng::new(seed ^ 0x0971c5), simulation);
}

fn run(seed: u64, troubles: bool) -> u64 {
    let mut job = Job::draw(&mut Prng::new(seed ^ 0xd57), seed, troubles, Wild::All);
    draw(seed, &mut job.simulation);
    job.note();
    let outcome = job.run().unwrap_or_else(|error| panic!("{error}"));
    for (rank, result) in &outcome.results {
        assert!(result.is_ok(), "rank {rank}: {result:?}: {:?}", outcome.optics);
    }
    assert_eq!(outcome.results.len(), job.simulation.processes as usize);
    outcome.digest
}

/// Runs each fourth seed twice.
fn same_again(seed: u64, run: impl Fn(u64) -> u64) {
    let first = run(seed);
    if seed.is_multiple_of(4) {
        assert_eq!(run(seed), first, "the same seed has come to something else");
    }
}

#[test]
fn light_paths() {
    scenario("optics::light_paths", 40, |seed| {
        same_again(seed, |seed| run(seed, false))
    });
}

/// The same with packets lost, duplicated, delayed or corrupted, and hosts isolated or paused.
#[test]
fn with_troubles() {
    scenario("optics::with_troubles", 40, |seed| {
        same_again(seed, |seed| run(seed, true))
    });
}

/// The same with crashes: no process waits for a path to a crashed one for ever.
#[test]
fn with_crashes() {
    scenario("optics::with_crashes", 30, |seed| {
        same_again(seed, |seed| crash::run(seed, After::Perhaps, true));
    });
}

#[test]
fn with_restarts() {
    scenario("optics::with_restarts", 30, |seed| {
        same_again(seed, |seed| crash::run(seed, After::Restart, true));
    });
}
