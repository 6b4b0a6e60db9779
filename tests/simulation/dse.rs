//! `Config::dse()` is the protocol of the DSE paper (`docs/papers.md`).

use std::time::Duration;

use hikyaku::{Config, WindowMode};

use crate::{
    exactly_once::traffic,
    harness::{App, Job, NodeOptions, Prng, World, scenario},
};

const DELAY: Duration = Duration::from_micros(20);

fn dse(mode: WindowMode) -> NodeOptions {
    let mut config = Config::dse();
    config.window_mode = mode;
    NodeOptions {
        config,
        ..NodeOptions::default()
    }
}

fn open(seed: u64, options: &NodeOptions) -> World {
    let mut world = World::pair(seed, options);
    world.send(0, 1, Job::new(8));
    world.send(1, 0, Job::new(8));
    world.run_idle(Duration::from_secs(5));
    world.network.reset_counts();
    world
}

/// The example of the paper's figure 2 (section 2.2): one sender sends packets 0 to 3, of which 1 and 2 are the halves
/// of a message; another sends a to d, of which a and b are halves. They arrive in the order a, 0, 1, b, c, 2, 3, d.
#[test]
fn worked_example() {
    for bare in [false, true] {
        let mut world = World::new(1);
        for _ in 0..3 {
            world.add(NodeOptions {
                bare,
                ..dse(WindowMode::Sliding)
            });
        }
        for sender in [0, 1] {
            world.connect(sender, 2);
            world.send(sender, 2, Job::new(8));
        }
        world.run_idle(Duration::from_secs(5));
        let before = world.nodes[2].log.len();

        // Catch what they send, before the network has it.
        world.tap = Some(Vec::new());
        world.filter = Some(Box::new(|_, to, _| to != 2));
        for len in [500, 2_000, 600] {
            world.send(0, 2, Job::new(len));
        }
        for len in [1_900, 700, 800] {
            world.send(1, 2, Job::new(len));
        }
        world.run_for(DELAY);
        let packets = world.tap.take().unwrap_or_default();
        let of = |sender: usize| {
            let packets = packets.iter().filter(|packet| packet.from == sender);
            packets.map(|packet| packet.bytes.clone()).collect::<Vec<_>>()
        };
        let (numbers, letters) = (of(0), of(1));
        assert_eq!((numbers.len(), letters.len()), (4, 4), "packets of each sender");

        // Sender, packet, and the message (sender, bytes) that this completes.
        let arrivals: [(usize, usize, &[_]); 8] = [
            (1, 0, &[]),
            (0, 0, &[(0, 500)]),
            (0, 1, &[]),
            (1, 1, &[(1, 1_900)]),
            (1, 2, &[(1, 700)]),
            (0, 2, &[(0, 2_000)]),
            (0, 3, &[(0, 600)]),
            (1, 3, &[(1, 800)]),
        ];
        let mut seen = before;
        for (sender, packet, delivered) in arrivals {
            let bytes = if sender == 0 { &numbers } else { &letters }[packet].clone();
            let from = world.nodes[sender].address;
            world.inject(2, from, bytes);
            world.run_for(Duration::ZERO);
            let log = &world.nodes[2].log;
            let new: Vec<_> = log[seen..].iter().map(|entry| (entry.1, entry.2)).collect();
            assert_eq!(new, delivered, "after packet {packet} of sender {sender}");
            seen = log.len();
        }
        world.filter = None;
        world.finish(Duration::from_secs(5));
    }
}

/// Section 2.4: at most 10 packets of at most 1,024 bytes in a row, the rest after the acknowledgement.
#[test]
fn ten_packets_in_a_row() {
    for mode in [WindowMode::Sliding, WindowMode::BurstThenWait] {
        let mut world = open(1, &dse(mode));
        world.send(0, 1, Job::new(25 * 1_024).shared());
        world.pump(0);
        assert_eq!(world.network.counts(0, 1).data, 10, "{mode:?}: in the first burst");
        world.run_for(DELAY / 2);
        assert_eq!(
            world.network.counts(0, 1).data,
            10,
            "{mode:?}: before the acknowledgement"
        );
        world.finish(Duration::from_secs(5));
        assert_eq!(world.network.counts(0, 1).data, 25, "{mode:?}: in all");
    }
}

/// The two readings of section 2.4 differ when some of the packets are acknowledged.
#[test]
fn both_readings_of_the_window() {
    for (mode, expected) in [(WindowMode::Sliding, 5), (WindowMode::BurstThenWait, 0)] {
        let mut world = open(1, &dse(mode));
        let mut passed = 0;
        world.filter = Some(Box::new(move |from, _, packet| {
            passed += u64::from(from == 0 && packet.kind().is_sequenced());
            from != 0 || passed <= 5
        }));
        world.send(0, 1, Job::new(25 * 1_024).shared());
        // Five arrive and are acknowledged after this time at the latest; the timer, which knows of it, does not fire before.
        world.run_for(Config::dse().ack_delay + Duration::from_millis(3));
        let more = world.network.counts(0, 1).data - 10;
        let resent = world.nodes[0].endpoint().stats().resends;
        assert_eq!(
            more - resent,
            expected,
            "{mode:?}: new packets after half is acknowledged"
        );
        world.filter = None;
        world.finish(Duration::from_secs(5));
    }
}

/// Section 2.3: a NACK asks for a missing packet, and the sender sends that one and all later ones again.
#[test]
fn nack_and_go_back_n() {
    let mut world = open(1, &dse(WindowMode::Sliding));
    let mut count = 0;
    world.filter = Some(Box::new(move |from, _, packet| {
        count += u32::from(from == 0 && packet.kind().is_sequenced());
        from != 0 || count != 4
    }));
    let start = world.now;
    world.send(0, 1, Job::new(10 * 1_024).shared());
    world.finish(Duration::from_secs(5));
    let took = world.nodes[1].log.last().map_or(Duration::MAX, |last| last.0 - start);
    assert!(
        took < Duration::from_millis(1),
        "without waiting for a timer, not {took:?}"
    );
    assert!(world.network.counts(1, 0).nacks >= 1, "a NACK was sent");
    // Packets 3 to 9 again: the receiver drops what is out of order.
    assert_eq!(world.network.counts(0, 1).data, 10 + 7);
}

/// The other means of section 2.3: where no NACK arrives, the timer fires.
#[test]
fn timer() {
    let mut world = open(1, &dse(WindowMode::Sliding));
    let mut count = 0;
    world.filter = Some(Box::new(move |from, _, packet| {
        count += u32::from(from == 0 && packet.kind().is_sequenced());
        from != 0 || count != 1
    }));
    let start = world.now;
    world.send(0, 1, Job::new(100));
    world.finish(Duration::from_secs(5));
    let took = world.nodes[1].log.last().map_or(Duration::MAX, |last| last.0 - start);
    assert!(
        took >= Config::dse().min_rto && took <= Config::dse().max_rto,
        "{took:?}"
    );
}

/// Section 2.4: acknowledgements ride on replies.
#[test]
fn acknowledgements_ride_on_replies() {
    let mut world = open(1, &dse(WindowMode::Sliding));
    world.nodes[1].options.app = App::Echo;
    for round in 0..50 {
        world.send(0, 1, Job::new(16));
        world.run_for(3 * DELAY);
        assert_eq!(world.nodes[0].log.len(), 2 + round);
    }
    assert_eq!(world.network.counts(1, 0).acks_alone, 0);
    assert_eq!(world.network.counts(0, 1).acks_alone, 0);
    world.finish(Duration::from_secs(5));
}

/// Section 3.1: several processors on one endpoint.
#[test]
fn several_processors_share_an_endpoint() {
    scenario("dse::several_processors_share_an_endpoint", 2, |seed| {
        let mut rng = Prng::new(seed);
        let options = NodeOptions {
            processors: 4,
            ..dse(WindowMode::Sliding)
        };
        let mut world = World::pair(seed, &options);
        world.network.usual.loss = 50;
        for _ in 0..300 {
            let job = Job {
                source: rng.below(4) as usize,
                destination: rng.below(4) as usize,
                ..Job::new(rng.skewed(5_000) as usize)
            };
            world.send(0, 1, job);
        }
        world.finish(Duration::from_secs(60));
    });
}

#[test]
fn exactly_once_under_loss() {
    scenario("dse::exactly_once_under_loss", 4, |seed| {
        let mut rng = Prng::new(seed);
        let mode = rng.pick(&[WindowMode::Sliding, WindowMode::BurstThenWait]);
        let mut world = World::pair(seed, &dse(mode));
        world.network.usual.loss = 200;
        world.network.usual.jitter = 30_000;
        world.network.usual.duplicate = 50;
        traffic(&mut world, &mut rng, 200, 10_000);
        world.finish(Duration::from_secs(200));
        assert!(world.network.counts(0, 1).largest_data <= 1_024 + 300);
    });
}
