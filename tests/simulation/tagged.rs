//! Messages with match bits: the seed draws configuration, network and operations, a reference checks what comes of them.

use crate::{
    harness::{Prng, World, draw::duration, note, prng::Transcript, scenario, talk::Talk, talk_ops},
    swarm::{disturb, draw_link, draw_options},
};

fn build(rng: &mut Prng, seed: u64, split: bool) -> (World, Vec<(usize, usize)>) {
    let nodes = rng.between(2, 4) as usize;
    let corrupt = rng.chance(300);
    let mut world = World::new(seed);
    for node in 0..nodes {
        let mut options = draw_options(rng, corrupt && node > 0, 1);
        options.bare = false;
        (options.proxy, options.split) = (split, split);
        options.eager_limit = Some(rng.pick(&[0, 64, 1_000, 4_096, 60_000]));
        if rng.chance(500) {
            options.config.unexpected_bytes = 64 << 10;
        }
        note(format!("{options:?}"));
        world.add(options);
    }
    world.network.usual = draw_link(rng, corrupt);
    note(format!("{:?}", world.network.usual));
    let pairs: Vec<_> = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b))).collect();
    pairs.iter().for_each(|&(a, b)| world.connect(a, b));
    if rng.chance(200) {
        world.stalls = (rng.skewed(100) as u32, rng.skewed(50_000_000));
        note(format!("stalls {:?}", world.stalls));
    }
    (world, pairs)
}

/// How many of 1,000 operations are of each kind.
struct Mixture {
    receives: u32,
    probes: u32,
    claims: u32,
    cancels: u32,
    synchronous: u32,
    to_itself: u32,
    any_source: u32,
}

impl Mixture {
    fn draw(rng: &mut Prng) -> Self {
        Self {
            receives: rng.pick(&[50, 350, 450, 500, 550]),
            probes: rng.pick(&[0, 50]),
            claims: rng.pick(&[0, 50]),
            cancels: rng.pick(&[0, 20, 100]),
            synchronous: rng.pick(&[0, 100, 1_000]),
            to_itself: rng.pick(&[0, 100]),
            any_source: rng.pick(&[0, 300, 1_000]),
        }
    }
}

/// Lengths and rooms up to `max`, often just about what fits.
fn length(rng: &mut Prng, max: u64) -> usize {
    if rng.chance(50) { 0 } else { rng.skewed(max) as usize }
}

fn operate(rng: &mut Prng, talk: &mut Talk, mixture: &Mixture, max_len: u64) {
    let nodes = talk.world.nodes.len() as u64;
    let node = rng.below(nodes) as usize;
    let bits = rng.below(3) << 32 | rng.below(2);
    let source = (!rng.chance(mixture.any_source)).then(|| rng.below(nodes) as usize);
    let ignore = rng.pick(&[0, 0, 0, 0xffff_ffff, u64::MAX, 1]);
    let room = if rng.chance(700) {
        max_len as usize + 100
    } else {
        length(rng, max_len)
    };
    let mut kind = rng.below(1_000) as u32;
    let mut is = |chance: u32| {
        let is = kind < chance;
        kind = kind.wrapping_sub(chance);
        is
    };
    if is(mixture.receives) {
        talk.receive(node, source, bits, ignore, room);
    } else if is(mixture.probes) {
        talk.probe(node, talk.selector(source, bits, ignore));
    } else if is(mixture.claims) {
        talk.claim(node, talk.selector(source, bits, ignore), room);
    } else if is(mixture.claims) {
        talk.receive_claimed(node);
    } else if is(mixture.cancels) {
        talk.cancel(node, rng.next() as usize);
    } else {
        let to = if rng.chance(mixture.to_itself) {
            node
        } else {
            (node + rng.between(1, nodes - 1) as usize) % nodes as usize
        };
        talk.send(node, to, bits, length(rng, max_len), rng.chance(mixture.synchronous));
    }
}

fn run(seed: u64, split: bool) -> Transcript {
    let mut rng = Prng::new(seed ^ 0x7a66);
    let (world, pairs) = build(&mut rng, seed, split);
    // Tiny packets of huge messages take for ever to simulate.
    let payload = |node: &crate::harness::node::Node| u64::from(node.options.config.max_payload).min(1_400);
    let per_packet = world.nodes.iter().map(payload).min().unwrap_or(1);
    let max_len = rng.pick(&[100, 5_000, 100_000, 300_000]).min(per_packet * 100);
    // Now and then one that is granted piece by piece, or more at once than are granted something at a time.
    let max_len = if per_packet == 1_400 && rng.chance(30) {
        6_000_000
    } else {
        max_len
    };
    let operations = rng.between(20, if max_len > 300_000 { 30 } else { 400 });
    let mixture = Mixture::draw(&mut rng);
    note(format!("{operations} operations, messages of at most {max_len} bytes"));
    let mut talk = Talk::new(world);
    // Anything may fail, for less than the time after which peers are given up.
    let calm = talk.world.now + std::time::Duration::from_secs(2);
    for _ in 0..operations {
        operate(&mut rng, &mut talk, &mixture, max_len);
        if talk.world.now < calm && rng.chance(200) {
            talk.world.run_for(duration(&mut rng, 20_000_000));
        }
        if talk.world.now < calm && rng.chance(30) {
            disturb(&mut rng, &mut talk.world, &pairs);
        }
    }
    let world = talk.finish();
    for node in 0..world.nodes.len() {
        assert_eq!(world.downs(node), [], "node {node} lost peers");
    }
    world.transcript
}

#[test]
fn swarm() {
    scenario("tagged::swarm", 300, |seed| {
        let first = run(seed, false);
        if seed % 4 == 0 {
            assert_eq!(run(seed, false), first, "I7: the same seed gave another transcript");
        }
    });
}

/// The same with messages by way of a host, and placements from process to process.
#[test]
fn split() {
    scenario("tagged::split", 150, |seed| {
        let first = run(seed, true);
        if seed % 4 == 0 {
            assert_eq!(run(seed, true), first, "I7: the same seed gave another transcript");
        }
    });
}

/// The fuzz target's body under random bytes.
#[test]
fn random_operations() {
    scenario("tagged::random_operations", 300, |seed| {
        let mut rng = Prng::new(seed);
        let bytes: Vec<u8> = (0..rng.skewed(600)).map(|_| rng.next() as u8).collect();
        talk_ops::run(&bytes);
    });
}
