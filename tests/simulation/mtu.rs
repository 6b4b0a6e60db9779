//! Path MTU: what fits the interface need not fit the path.

use std::time::Duration;

use crate::{
    exactly_once::traffic,
    harness::{Job, NodeOptions, Prng, World, scenario},
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
        world.network.usual.loss = if seed % 2 == 0 { 30 } else { 0 };
        world.network.usual.rate = 125_000_000;
        stream(&mut world, 100, 100_000);
        world.finish(Duration::from_secs(30));
        assert_eq!(world.peer_stats(0, 1).max_datagram, JUMBO as u64);
        assert_eq!(world.network.counts(0, 1).largest_data, JUMBO);
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
