//! The seed draws everything: the topology, the configuration, the network, the traffic and the faults.

use std::time::Duration;

use crate::{
    exactly_once::any_job,
    harness::{
        App, Job, Link, NodeOptions, Prng, World,
        draw::{draw_config, duration},
        note,
        prng::Transcript,
        scenario,
        seal::IS_ON,
    },
};

pub(crate) fn draw_options(rng: &mut Prng, checksum: bool, processors: usize) -> NodeOptions {
    let mut options = NodeOptions {
        config: draw_config(rng, checksum),
        processors,
        bare: rng.chance(300),
        coalesce: rng.pick(&[0, 500, 1_000]),
        slack: rng.pick(&[0, 0, 50_000, 1_000_000]),
        hold: rng.skewed(10_000_000),
        budget: rng.skewed(128) as usize,
        ..NodeOptions::default()
    };
    options.limits.max_datagram = rng.pick(&[1_472, 8_972, 65_507]);
    options.limits.max_segments = rng.pick(&[1, 4, 64]);
    options.limits.max_batch = options.limits.max_datagram * rng.skewed(64) as usize;
    options.limits.receive_buffer = rng.pick(&[70_000, 212_992, 4 << 20]);
    options.limits.holds_references = rng.chance(300);
    options
}

pub(crate) fn draw_link(rng: &mut Prng, corrupt: bool) -> Link {
    let mut link = Link {
        delay: rng.skewed(5_000_000),
        ..Link::default()
    };
    if rng.chance(600) {
        link.loss = rng.skewed(300) as u32;
        link.loss_run = rng.pick(&[0, link.loss, 500]);
    }
    if rng.chance(400) {
        link.duplicate = rng.skewed(300) as u32;
    }
    if rng.chance(400) {
        link.reorder = rng.skewed(500) as u32;
        link.hold_back = rng.skewed(10_000_000);
    }
    if rng.chance(300) {
        link.jitter = rng.skewed(1_000_000);
    }
    if rng.chance(200) {
        link.paths = vec![0, rng.skewed(100_000), rng.skewed(1_000_000)];
    }
    if rng.chance(300) {
        link.rate = rng.between(1_000_000, 1_250_000_000);
        link.queue = rng.between(20_000, 1 << 20);
    }
    if corrupt {
        link.corrupt = rng.skewed(100) as u32;
        link.truncate = rng.skewed(50) as u32;
    } else if rng.chance(200) {
        link.truncate = rng.skewed(50) as u32;
    }
    link.mtu = rng.pick(&[1_472, 1_472, 4_000, 8_972, 65_507]);
    link
}

/// The pairs that talk.
fn draw_topology(rng: &mut Prng, nodes: usize) -> Vec<(usize, usize)> {
    match rng.below(4) {
        0 => (1..nodes).map(|node| (0, node)).collect(),
        1 => (1..nodes).map(|node| (node, 0)).collect(),
        2 => (1..nodes).map(|node| (node - 1, node)).collect(),
        _ => (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b))).collect(),
    }
}

fn build(rng: &mut Prng, seed: u64, proxy: bool) -> (World, Vec<(usize, usize)>) {
    let nodes = rng.between(2, 6) as usize;
    let corrupt = rng.chance(200);
    let processors = if rng.chance(300) { rng.between(2, 4) as usize } else { 1 };
    let same = rng.chance(500);
    let common = draw_options(rng, corrupt, processors);
    let mut world = World::new(seed);
    for node in 0..nodes {
        let options = if same {
            common.clone()
        } else {
            // One of two is enough.
            draw_options(rng, corrupt && node > 0, processors)
        };
        let options = NodeOptions {
            bare: options.bare && !proxy,
            proxy: proxy && rng.chance(700),
            ..options
        };
        note(format!("{options:?}"));
        world.add(options);
    }
    world.network.usual = draw_link(rng, corrupt);
    note(format!("{:?}", world.network.usual));
    let pairs = draw_topology(rng, nodes);
    note(format!("{pairs:?}"));
    for &(a, b) in &pairs {
        world.connect(a, b);
        if rng.chance(200) {
            *world.network.link_mut(a, b) = draw_link(rng, corrupt);
            note(format!("{a}→{b}: {:?}", world.network.link(a, b)));
        }
    }
    if rng.chance(300) {
        world.stalls = (rng.skewed(100) as u32, rng.skewed(100_000_000));
        note(format!("stalls {:?}", world.stalls));
    }
    (world, pairs)
}

/// One thing that happens in the safety phase.
pub(crate) fn disturb(rng: &mut Prng, world: &mut World, pairs: &[(usize, usize)]) {
    let (a, b) = rng.pick(pairs);
    let node = if rng.chance(500) { a } else { b };
    match rng.below(8) {
        0 => {
            let time = duration(rng, 1_000_000_000);
            world.stall(node, time);
        }
        1 => world.network.cut(a, b),
        2 => world.network.cut_one_way(a, b),
        3..=5 => pairs.iter().for_each(|&(a, b)| world.network.join(a, b)),
        6 => {
            world.nodes[node].options.app = rng.pick(&[App::Take, App::Hold]);
            world.touch(node);
        }
        _ => {
            let now = world.now;
            world.nodes[node].stack_mut().request_acks(now);
            world.touch(node);
        }
    }
}

fn run(seed: u64, proxy: bool) -> Transcript {
    let mut rng = Prng::new(seed ^ 0x5a5a);
    let (mut world, pairs) = build(&mut rng, seed, proxy);
    let channels = rng.pick(&[1, 1, 2, 5]);
    let max_len = rng.pick(&[64, 1_000, 10_000, 100_000]);
    let messages = rng.between(20, 300);
    let mut budget = 1_500_000u64;
    note(format!(
        "{channels} channels, {messages} messages of at most {max_len} bytes"
    ));
    // Safety: anything may fail (for less than the time after which peers are given up).
    let calm = world.now + Duration::from_secs(2);
    for _ in 0..messages {
        let (mut from, mut to) = rng.pick(&pairs);
        if rng.chance(400) {
            (from, to) = (to, from);
        }
        let mut job = Job {
            channel: rng.below(channels) as u8 * 7,
            source: rng.below(4) as usize,
            destination: rng.below(4) as usize,
            ..any_job(&mut rng, max_len)
        };
        // Tiny packets of huge messages take for ever to simulate.
        let per_packet = u64::from(world.nodes[from].options.config.max_payload).min(1_400);
        job.len = job.len.min(budget as usize).min(per_packet as usize * 200);
        budget -= (job.len as u64).min(budget);
        world.send(from, to, job);
        if rng.chance(150) && world.now < calm {
            world.run_for(duration(&mut rng, 20_000_000));
        }
        if rng.chance(50) && world.now < calm {
            disturb(&mut rng, &mut world, &pairs);
        }
    }
    let more = duration(&mut rng, 500_000_000);
    world.run_for(more);
    // Liveness: the faults heal, and everything must finish.
    world.network.heal();
    world.stalls = (0, 0);
    for node in 0..world.nodes.len() {
        world.nodes[node].options.app = App::Take;
        world.touch(node);
    }
    world.finish(Duration::from_secs(120));
    for node in 0..world.nodes.len() {
        assert_eq!(world.downs(node), [], "node {node} lost peers");
    }
    world.transcript
}

#[test]
fn swarm() {
    scenario("swarm", 60, |seed| {
        let first = run(seed, false);
        if seed % 4 == 0 {
            assert_eq!(run(seed, false), first, "I7: the same seed gave another transcript");
        }
    });
}

/// The same with endpoints elsewhere.
#[test]
fn proxy() {
    if IS_ON {
        // Endpoints of a poller have no sealer.
        return;
    }
    scenario("swarm::proxy", 40, |seed| {
        run(seed, true);
    });
}
