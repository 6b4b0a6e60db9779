//! Every message once, in order per pair, with its bytes, whatever the network does.

use std::time::Duration;

use hikyaku::{Config, Recovery};

use crate::harness::{Job, Link, NodeOptions, Prng, World, note, scenario};

/// The default configuration, changed.
pub(crate) fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    change(&mut config);
    config
}

/// A message of any kind.
pub(crate) fn any_job(rng: &mut Prng, max_len: u64) -> Job {
    Job {
        len: if rng.chance(50) {
            0
        } else {
            rng.skewed(max_len) as usize
        },
        channel: 0,
        shared: rng.chance(300),
        tag: rng.chance(300).then(|| rng.next()),
        immediate: rng.chance(100).then(|| rng.next()),
        source: 0,
        destination: 0,
    }
}

/// Queues messages in both directions, some now, some while time goes by.
pub(crate) fn traffic(world: &mut World, rng: &mut Prng, messages: u64, max_len: u64) {
    for _ in 0..messages {
        let (from, to) = if rng.chance(700) { (0, 1) } else { (1, 0) };
        let job = any_job(rng, max_len);
        world.send(from, to, job);
        if rng.chance(200) {
            world.run_for(Duration::from_nanos(rng.skewed(2_000_000)));
        }
    }
}

fn run(name: &str, change: impl Fn(&mut NodeOptions), link: impl Fn(&mut Link)) {
    scenario(name, 4, |seed| {
        let mut rng = Prng::new(seed ^ 0x0e1);
        let mut options = NodeOptions::default();
        options.config.recovery = rng.pick(&[Recovery::SelectiveRepeat, Recovery::GoBackN]);
        options.bare = rng.chance(500);
        change(&mut options);
        note(format!("{options:?}"));
        let mut world = World::pair(seed, &options);
        link(&mut world.network.usual);
        note(format!("{:?}", world.network.usual));
        traffic(&mut world, &mut rng, 300, 30_000);
        world.finish(Duration::from_secs(120));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
    });
}

#[test]
fn perfect_network() {
    run("exactly_once::perfect_network", |_| {}, |_| {});
}

#[test]
fn loss() {
    run("exactly_once::loss", |_| {}, |link| link.loss = 300);
}

#[test]
fn loss_in_runs() {
    run(
        "exactly_once::loss_in_runs",
        // A run may swallow thirty datagrams, which is all that is sent in the usual time.
        |options| options.config.death_timeout = Duration::from_secs(60),
        |link| {
            link.loss = 20;
            link.loss_run = 900;
        },
    );
}

#[test]
fn reordering() {
    run(
        "exactly_once::reordering",
        |_| {},
        |link| {
            link.reorder = 400;
            link.hold_back = 3_000_000;
            link.jitter = 50_000;
        },
    );
}

#[test]
fn duplication() {
    run(
        "exactly_once::duplication",
        |_| {},
        |link| {
            link.duplicate = 500;
            link.jitter = 500_000;
        },
    );
}

#[test]
fn corruption_with_checksum() {
    let checksum = |options: &mut NodeOptions| options.config.checksum = true;
    run("exactly_once::corruption_with_checksum", checksum, |link| {
        link.corrupt = 150;
        link.truncate = 50;
    });
}

#[test]
fn truncation() {
    run("exactly_once::truncation", |_| {}, |link| link.truncate = 200);
}

#[test]
fn several_paths() {
    run(
        "exactly_once::several_paths",
        |_| {},
        |link| {
            link.paths = vec![0, 30_000, 200_000, 1_000_000];
            link.loss = 20;
        },
    );
}

#[test]
fn long_delay_against_small_time_outs() {
    run(
        "exactly_once::long_delay_against_small_time_outs",
        |_| {},
        |link| link.delay = 50_000_000,
    );
}

#[test]
fn overflowing_queue() {
    run(
        "exactly_once::overflowing_queue",
        |_| {},
        |link| {
            link.rate = 12_500_000;
            link.queue = 20_000;
        },
    );
}

#[test]
fn overflowing_socket_buffer() {
    let small = |options: &mut NodeOptions| options.limits.receive_buffer = 40_000;
    run("exactly_once::overflowing_socket_buffer", small, |_| {});
}

#[test]
fn backend_that_keeps_references() {
    let hold = |options: &mut NodeOptions| {
        options.limits.holds_references = true;
        options.hold = 20_000_000;
    };
    run("exactly_once::backend_that_keeps_references", hold, |link| {
        link.loss = 100
    });
}

#[test]
fn one_segment_at_a_time() {
    let single = |options: &mut NodeOptions| {
        options.limits.max_segments = 1;
        options.limits.max_batch = 1_472;
        options.limits.max_datagram = 1_472;
    };
    run("exactly_once::one_segment_at_a_time", single, |link| link.loss = 50);
}

#[test]
fn asymmetric_delay() {
    scenario("exactly_once::asymmetric_delay", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &NodeOptions::default());
        world.network.link_mut(0, 1).delay = 5_000;
        world.network.link_mut(1, 0).delay = rng.between(1_000_000, 30_000_000);
        traffic(&mut world, &mut rng, 300, 30_000);
        world.finish(Duration::from_secs(120));
    });
}

#[test]
fn receiver_stalls() {
    scenario("exactly_once::receiver_stalls", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &NodeOptions::default());
        world.network.usual.loss = 20;
        for _ in 0..30 {
            traffic(&mut world, &mut rng, 10, 30_000);
            let node = rng.below(2) as usize;
            world.stall(node, Duration::from_nanos(rng.skewed(300_000_000)));
        }
        world.finish(Duration::from_secs(120));
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
    });
}

#[test]
fn tail_loss() {
    scenario("exactly_once::tail_loss", 8, |seed| {
        let mut rng = Prng::new(seed);
        let options = NodeOptions {
            config: config(|config| config.path_mtu_discovery = false),
            ..NodeOptions::default()
        };
        let mut world = World::pair(seed, &options);
        world.send(0, 1, Job::new(8));
        world.run_idle(Duration::from_secs(5));
        // The last packets of a burst are lost, once: nothing newer tells of it.
        let (mut count, keep) = (0, rng.between(0, 9));
        world.filter = Some(Box::new(move |from, _, packet| {
            if from != 0 || !packet.kind().is_sequenced() {
                return true;
            }
            count += 1;
            count <= keep || count > 10
        }));
        let start = world.now;
        world.send(0, 1, Job::new(1_400 * 10));
        world.finish(Duration::from_secs(5));
        let took = world.nodes[1].log[1].0 - start;
        assert!(took < Duration::from_millis(50), "tail loss healed after {took:?}");
    });
}

#[test]
fn ack_loss() {
    scenario("exactly_once::ack_loss", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mut world = World::pair(seed, &NodeOptions::default());
        world.network.link_mut(1, 0).loss = 900;
        for _ in 0..200 {
            world.send(0, 1, any_job(&mut rng, 20_000));
            world.run_for(Duration::from_micros(100));
        }
        world.run_for(Duration::from_secs(1));
        world.network.heal();
        world.finish(Duration::from_secs(60));
        assert_eq!(world.downs(0), []);
    });
}

/// Tiny windows, so that every offset in the rings is used many times.
#[test]
fn small_windows() {
    scenario("exactly_once::small_windows", 4, |seed| {
        let mut rng = Prng::new(seed);
        let options = NodeOptions {
            config: config(|config| {
                config.window_packets = 1 + (seed % 5) as u16;
                config.recovery = if seed % 2 == 0 {
                    Recovery::GoBackN
                } else {
                    Recovery::SelectiveRepeat
                };
                config.max_payload = 64;
                config.bundle = false;
            }),
            ..NodeOptions::default()
        };
        let mut world = World::pair(seed, &options);
        world.network.usual.loss = 20;
        world.network.usual.duplicate = 50;
        world.network.usual.jitter = 20_000;
        traffic(&mut world, &mut rng, 300, 3_000);
        world.finish(Duration::from_secs(300));
    });
}

#[test]
fn same_seed_same_transcript() {
    scenario("exactly_once::same_seed_same_transcript", 4, |seed| {
        let run = || {
            let mut rng = Prng::new(seed);
            let mut world = World::pair(seed, &NodeOptions::default());
            let link = &mut world.network.usual;
            (link.loss, link.duplicate, link.reorder, link.hold_back) = (100, 50, 100, 1_000_000);
            traffic(&mut world, &mut rng, 200, 20_000);
            world.finish(Duration::from_secs(60));
            world.transcript
        };
        assert_eq!(run(), run(), "I7: the same seed gave another transcript");
    });
}
