//! Path MTU: what fits the interface need not fit the path.

use std::time::Duration;

use hikyaku::wire::Packet;

use crate::{
    exactly_once::traffic,
    harness::{Job, NodeOptions, Prng, World, note, scenario, talk::Talk},
};

/// Interfaces of 9,000 bytes: what is left for UDP payload over IPv4.
const JUMBO: usize = 8_972;
const ETHERNET: usize = 1_472;

fn jumbo(seed: u64, path: usize) -> World {
    let mut options = NodeOptions::default();
    options.limits.max_datagram = JUMBO;
    let mut world = World::pair(seed, &options);
    world.network.usual.mtu = path;
    world
}

fn stream(world: &mut World, messages: usize, len: usize) {
    for _ in 0..messages {
        world.send(0, 1, Job::new(len).shared());
    }
}

#[test]
fn smaller_path_than_interface_loses_nothing() {
    scenario("mtu::smaller_path_than_interface_loses_nothing", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = jumbo(seed, ETHERNET);
        traffic(&mut world, &mut rng, 100, 100_000);
        stream(&mut world, 50, 100_000);
        world.finish(Duration::from_secs(30));
        for node in 0..2 {
            let stats = world.nodes[node].endpoint().stats();
            assert_eq!(stats.resends, 0, "node {node}: {stats:?}");
            assert!(world.peer_stats(node, 1 - node).max_datagram <= ETHERNET as u64);
        }
    });
}

#[test]
fn grows_to_the_interface() {
    scenario("mtu::grows_to_the_interface", 4, |seed| {
        let mut world = jumbo(seed, JUMBO);
        let lossy = seed % 2 == 0;
        world.network.usual.loss = if lossy { 30 } else { 0 };
        world.network.usual.rate = 125_000_000;
        stream(&mut world, 100, 100_000);
        world.finish(Duration::from_secs(30));
        let found = world.peer_stats(0, 1).max_datagram as usize;
        // Three probes of the largest size are lost in one search of some 5,000; twice three are not.
        assert!(found == JUMBO || lossy && found > JUMBO / 2, "{found}");
        assert_eq!(world.network.counts(0, 1).largest_data, found);
    });
}

#[test]
fn grows_to_something_between() {
    scenario("mtu::grows_to_something_between", 6, |seed| {
        let mut rng = Prng::new(seed);
        let path = rng.between(1_600, 8_900) as usize;
        let mut world = jumbo(seed, path);
        stream(&mut world, 300, 100_000);
        world.finish(Duration::from_secs(60));
        let found = world.peer_stats(0, 1).max_datagram as usize;
        assert!(found <= path, "{found} found on a path of {path}");
        assert!(found >= ETHERNET);
    });
}

/// A black hole: large datagrams vanish from one moment to the next.
#[test]
fn shrinks_in_mid_transfer() {
    scenario("mtu::shrinks_in_mid_transfer", 6, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = jumbo(seed, JUMBO);
        world.network.usual.rate = 125_000_000;
        stream(&mut world, 100, 100_000);
        world.run_for(Duration::from_nanos(rng.between(1_000_000, 60_000_000)));
        world.network.usual.mtu = ETHERNET;
        let start = world.now;
        world.finish(Duration::from_secs(60));
        assert_eq!(world.downs(0), []);
        let took = world.nodes[1].log.last().map_or(start, |last| last.0) - start;
        assert!(
            took < Duration::from_secs(3),
            "recovered from the black hole after {took:?}"
        );
    });
}

/// A silence that looks like a black hole: when it is over the path is searched anew.
#[test]
fn grows_again_after_a_silence() {
    scenario("mtu::grows_again_after_a_silence", 4, |seed| {
        let mut world = jumbo(seed, JUMBO);
        world.network.usual.rate = 125_000_000;
        stream(&mut world, 100, 100_000);
        world.run_for(Duration::from_millis(30));
        world.network.cut(0, 1);
        world.run_for(Duration::from_millis(1_000));
        world.network.join(0, 1);
        world.finish(Duration::from_secs(60));
        assert_eq!(world.peer_stats(0, 1).max_datagram, JUMBO as u64);
    });
}

/// The interface itself is changed.
#[test]
fn interface_shrinks() {
    scenario("mtu::interface_shrinks", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = jumbo(seed, JUMBO);
        world.network.usual.rate = 125_000_000;
        stream(&mut world, 50, 100_000);
        world.run_for(Duration::from_nanos(rng.between(1_000_000, 20_000_000)));
        world.network.usual.mtu = ETHERNET;
        let mut limits = world.nodes[0].options.limits;
        limits.max_datagram = ETHERNET;
        world.nodes[0].options.limits = limits;
        world.nodes[0].stack_mut().set_limits(limits);
        world.touch(0);
        world.finish(Duration::from_secs(60));
        assert_eq!(world.downs(0), []);
    });
}

#[test]
fn different_interfaces() {
    scenario("mtu::different_interfaces", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::new(seed);
        for max_datagram in [JUMBO, ETHERNET] {
            let mut options = NodeOptions::default();
            options.limits.max_datagram = max_datagram;
            world.add(options);
        }
        world.connect(0, 1);
        // The smaller interface does not take what is larger.
        world.network.usual.mtu = ETHERNET;
        traffic(&mut world, &mut rng, 100, 50_000);
        stream(&mut world, 20, 100_000);
        world.finish(Duration::from_secs(30));
        assert_eq!(world.nodes[0].endpoint().stats().resends, 0);
    });
}

/// From now on the path drops everything larger than `most` bytes, fragments of IP too, without a word.
fn narrow(world: &mut World, most: usize) {
    let len = |packet: &Packet<&[u8]>| packet.header_len() + packet.payload().len();
    world.filter = Some(Box::new(move |_, _, packet| len(packet) <= most));
}

/// Runs traffic on a path that then becomes narrower than the size that is taken for safe.
fn narrowing(name: &str, most: usize, send: impl Fn(&mut World, &mut Prng)) {
    scenario(name, 8, |seed| {
        let mut rng = Prng::new(seed);
        let interface = rng.pick(&[ETHERNET, JUMBO, 65_507]);
        let mut options = NodeOptions::default();
        options.limits.max_datagram = interface;
        options.limits.holds_references = rng.chance(500);
        options.hold = if options.limits.holds_references { 1_000_000 } else { 0 };
        note(format!("{options:?}"));
        let mut world = World::pair(seed, &options);
        world.network.usual.rate = 125_000_000;
        world.network.usual.loss = rng.pick(&[0, 0, 10]);
        world.network.usual.reorder = rng.pick(&[0, 100]);
        world.network.usual.hold_back = 300_000;
        world.send(0, 1, Job::new(8));
        world.run_idle(Duration::from_secs(5));
        send(&mut world, &mut rng);
        world.run_for(Duration::from_nanos(rng.between(100_000, 20_000_000)));
        narrow(&mut world, most);
        let start = world.now;
        send(&mut world, &mut rng);
        world.finish(Duration::from_secs(60));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
        let took = world
            .nodes
            .iter()
            .filter_map(|node| node.log.last())
            .map(|last| last.0)
            .max();
        let took = took.map_or(Duration::ZERO, |last| last - start);
        assert!(took < Duration::from_secs(2), "the last message came after {took:?}");
        let found = world.peer_stats(0, 1).max_datagram as usize;
        assert!(found <= most && found + 32 > most, "{found} found");
    });
}

fn bulk(world: &mut World, _: &mut Prng) {
    stream(world, 30, 100_000);
}

/// Messages that nearly fill a datagram as records.
fn small(world: &mut World, rng: &mut Prng) {
    for _ in 0..1_000 {
        let mut job = Job::new(rng.between(1, 1_420) as usize);
        job.tag = rng.chance(500).then(|| rng.next());
        world.send(0, 1, job);
    }
}

fn both_ways(world: &mut World, rng: &mut Prng) {
    traffic(world, rng, 300, 30_000);
    stream(world, 10, 100_000);
    world.send(1, 0, Job::new(300_000).shared());
}

#[test]
fn path_narrows_to_1200_under_bulk() {
    narrowing("mtu::path_narrows_to_1200_under_bulk", 1_200, bulk);
}

#[test]
fn path_narrows_to_1300_under_bulk() {
    narrowing("mtu::path_narrows_to_1300_under_bulk", 1_300, bulk);
}

#[test]
fn path_narrows_to_1200_under_small_messages() {
    narrowing("mtu::path_narrows_to_1200_under_small_messages", 1_200, small);
}

#[test]
fn path_narrows_to_1300_under_small_messages() {
    narrowing("mtu::path_narrows_to_1300_under_small_messages", 1_300, small);
}

#[test]
fn path_narrows_to_1200_both_ways() {
    narrowing("mtu::path_narrows_to_1200_both_ways", 1_200, both_ways);
}

#[test]
fn path_narrows_to_1300_both_ways() {
    narrowing("mtu::path_narrows_to_1300_both_ways", 1_300, both_ways);
}

/// Placements, and messages with match bits.
#[test]
fn path_narrows_under_placements() {
    scenario("mtu::path_narrows_under_placements", 8, |seed| {
        let mut rng = Prng::new(seed);
        let mut options = NodeOptions {
            eager_limit: Some(4_096),
            ..NodeOptions::default()
        };
        options.limits.max_datagram = rng.pick(&[ETHERNET, JUMBO]);
        let mut world = World::pair(seed, &options);
        world.network.usual.rate = 125_000_000;
        let mut talk = Talk::new(world);
        for n in 0..60 {
            let len = rng.pick(&[100, 1_300, 3_000, 200_000]) + n;
            talk.send(0, 1, n as u64, len, false);
            talk.receive(1, Some(0), n as u64, 0, len);
            talk.world.run_for(Duration::from_nanos(rng.below(1_000_000)));
            if n == 30 {
                narrow(&mut talk.world, rng.pick(&[1_200, 1_300]));
            }
        }
        let world = talk.finish();
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
    });
}
