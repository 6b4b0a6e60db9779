//! Two ports of each end in one network: which of the four pairs are used.

use super::*;

/// Slow, so that a stream of seconds is a few megabytes.
const SLOW: Way = Way {
    rate: 2,
    mtu: 8_972,
    ..WAY
};

/// The pairs of ports in the order of their rails, as indices of their ways: first the straight ones.
const WAYS: [usize; 4] = [0, 3, 1, 2];

/// Of the ways between the ports 0-0, 0-1, 1-0 and 1-1, those in `carry` do.
fn crossed(carry: [bool; 4], way: Way) -> Net {
    let config = Config {
        late_peers: true,
        ..settings()
    };
    let mut net = Net::new(&config, &[way]);
    net.crossed = true;
    net.ways = [(); 2].map(|()| carry.map(|carries| Way { cut: !carries, ..way }).to_vec());
    for (end, endpoint) in net.ends.iter_mut().enumerate() {
        for (rail, way) in (1..).zip(&WAYS[1..]) {
            let ports = [way / 2, way % 2].map(|port| port as u8);
            let path = Path::new(address(1 - end, ports[1 - end]), ports[end]);
            assert_eq!(endpoint.add_rail(Instant::ZERO, PEER, path), Ok(rail));
        }
    }
    net
}

impl Net {
    /// Bytes to the second end by each way.
    fn carried(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|way: usize| self.ways[1][way].bytes)
    }

    /// Streams for so long.
    fn stream_for(&mut self, limit_ms: u64) -> [u64; 4] {
        let (before, end) = (self.carried(), self.now + limit_ms * 1_000_000);
        let mut number = self.got[1].messages.len() as u32;
        while self.now < end {
            self.send(0, number, 512 << 10);
            // Two are under way.
            assert!(self.run(2_000, |net| net.got[1].messages.len() as u32 >= number));
            number += 1;
        }
        assert!(self.run(2_000, |net| net.ends[0].all_idle()));
        core::array::from_fn(|way| self.carried()[way] - before[way])
    }

    fn states(&self, end: usize) -> [RailState; 4] {
        [0, 1, 2, 3].map(|rail| self.state(end, rail))
    }
}

/// Milliseconds until a session is open.
fn opens(net: &mut Net) -> u64 {
    net.send(0, 0, 1);
    assert!(net.run(5_000, |net| net.got[1].messages.len() == 1));
    net.now / 1_000_000
}

#[test]
fn straight_pairs_are_all_that_is_used_where_they_carry() {
    let mut net = crossed([true; 4], SLOW);
    assert!(opens(&mut net) < 2);
    let carried = net.stream_for(3_000);
    net.run(60_000, |_| false);
    for end in 0..2 {
        use RailState::{Unproven, Up};
        assert_eq!(net.states(end), [Up, Up, Unproven, Unproven]);
        assert_eq!([1, 2].map(|way| net.ways[end][way].carried), [0, 0], "not one probe");
    }
    assert!(carried[0].min(carried[3]) * 3 > carried[0] + carried[3], "{carried:?}");
}

#[test]
fn crossed_pairs_are_used_where_straight_ones_do_not_carry() {
    let mut net = crossed([false, true, true, false], SLOW);
    let ms = opens(&mut net);
    assert!(ms < 50, "{ms}");
    let is_up = |net: &Net| (0..2).all(|end| [2, 3].map(|rail| net.state(end, rail)) == [RailState::Up; 2]);
    assert!(net.run(400, is_up));
    let carried = net.stream_for(1_000);
    assert!(carried[1].min(carried[2]) * 3 > carried[1] + carried[2], "{carried:?}");
    // A straight one comes to life, and both crossed ones still stand in for the other one.
    net.ways.iter_mut().for_each(|ways| ways[0].cut = false);
    let carried = net.stream_for(3_000);
    assert!(carried[..3].iter().all(|&bytes| bytes > 200 << 10), "{carried:?}");
    // With the other one, they are not needed.
    net.ways.iter_mut().for_each(|ways| ways[3].cut = false);
    net.stream_for(3_000);
    let carried = net.stream_for(1_000);
    assert_eq!(carried[1..3], [0, 0]);
    assert!(carried[0].min(carried[3]) * 3 > carried[0] + carried[3], "{carried:?}");
    assert_eq!(net.ends[0].rails_up(PEER), 2);
    // They are there at once when they are.
    net.ways.iter_mut().for_each(|ways| ways[3].cut = true);
    let carried = net.stream_for(1_000);
    assert!(carried[..3].iter().all(|&bytes| bytes > 200 << 10), "{carried:?}");
    assert_eq!(net.first_loss(), None);
}

#[test]
fn one_pair_of_four_is_enough() {
    for only in 0..4 {
        let mut carry = [false; 4];
        carry[only] = true;
        let mut net = crossed(carry, SLOW);
        let ms = opens(&mut net);
        assert!(ms < 150, "{ms}");
        net.stream_for(200);
        net.run(60_000, |_| false);
        let states = [0, 1].map(|end| {
            WAYS.map(|way| way == only)
                .map(|up| if up { RailState::Up } else { RailState::Unproven })
                == net.states(end)
        });
        assert_eq!(states, [true; 2], "{only}");
        // All others are asked seldom.
        let sent = |net: &Net| net.ways[1].iter().map(|way| way.carried).collect::<Vec<_>>();
        let counts = sent(&net);
        net.run(60_000, |_| false);
        for way in (0..4).filter(|&way| way != only) {
            let asked = sent(&net)[way] - counts[way];
            assert!(asked < 10, "way {way}: {asked} in a minute");
        }
    }
}

/// The rails are tried in their order, and there are at most sixteen.
#[test]
fn a_session_opens_by_the_last_of_many_rails() {
    let mut net = Net::new(&settings(), &[WAY; 16]);
    (0..15).for_each(|rail| net.cut(rail, true));
    let ms = opens(&mut net);
    assert!(ms < 2_500, "{ms}");
}

/// The first rail leaves by another port than the first, as the second rail would.
#[test]
fn the_first_rail_leaves_by_any_port() {
    let mut net = crossed([false, false, true, true], WAY);
    net.ends[0] = Endpoint::new(settings(), LIMITS, 33, 3).unwrap();
    let peer = net.ends[0].add_peer(address(1, 0), 1).unwrap();
    net.ends[0].leave_by(peer, 1);
    let path = Path::new(address(1, 1), 1);
    assert_eq!(net.ends[0].add_rail(Instant::ZERO, peer, path), Ok(1));
    assert_eq!(
        net.ends[0].rail_stats(PEER, 0).unwrap().path,
        Path::new(address(1, 0), 1)
    );
    let ms = opens(&mut net);
    assert!(ms < 2, "{ms}");
    assert!(net.run(1_000, |net| net.state(0, 1) == RailState::Up));
    assert_eq!(net.ways[1][0].carried + net.ways[1][1].carried, 0);
    net.ends[0].close(Instant::from_nanos(net.now), PEER);
    assert!(net.run(500, |net| net.ends.iter().all(|end| end.down(PEER).is_some())));
    net.ends[0].reconnect(PEER);
    net.send(0, 1, 1);
    assert!(net.run(500, |net| net.got[1].messages.len() == 2));
    assert_eq!(net.ways[1][0].carried + net.ways[1][1].carried, 0);
}

/// The other process starts late: the session may be opened by any rail, and settles on the straight ones.
#[test]
fn a_late_peer_ends_up_at_the_straight_pairs() {
    for (refuses, late) in [
        (true, 35),
        (true, 300),
        (false, 35),
        (false, 95),
        (false, 300),
        (false, 5_000),
    ] {
        let mut net = crossed([true; 4], SLOW);
        (net.away[1], net.refuses) = (late * 1_000_000, refuses);
        net.send(0, 0, 1);
        assert!(net.run(late + 1_000, |net| net.got[1].messages.len() == 1));
        net.run(1_000, |_| false);
        let carried = net.stream_for(500);
        assert_eq!(carried[1..3], [0, 0], "{refuses} {late}");
        assert_eq!([0, 1].map(|end| net.ends[end].rails_up(PEER)), [2, 2]);
    }
}

/// A port dies for good, and the other one takes what both did.
#[test]
fn backups_stand_in_for_a_dead_port_and_rest_when_it_is_back() {
    let mut net = crossed([true; 4], SLOW);
    opens(&mut net);
    net.stream_for(100);
    let cut = |net: &mut Net, cut| {
        net.ways
            .iter_mut()
            .for_each(|ways| (ways[2].cut, ways[3].cut) = (cut, cut))
    };
    for _ in 0..3 {
        // The second one of the first end.
        cut(&mut net, true);
        net.stream_for(500);
        assert_eq!(net.states(0)[..3], [RailState::Up, RailState::Down, RailState::Up]);
        let carried = net.stream_for(500);
        assert!(carried[1] > 200 << 10, "{carried:?}");
        cut(&mut net, false);
        net.stream_for(3_000);
        let carried = net.stream_for(500);
        assert_eq!(carried[1..3], [0, 0]);
    }
}

/// Whatever carries when, all arrives once.
#[test]
fn model_of_crossed_pairs() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let way = Way {
            rate: [125, 1_250][prng.below(2) as usize],
            delay: prng.range(5_000..3_000_000),
            drop_every: [u64::MAX, 29, 200][prng.below(3) as usize],
            ..WAY
        };
        let lives = prng.below(4) as usize;
        let mut net = crossed([0, 1, 2, 3].map(|way| way == lives || prng.below(2) == 0), way);
        opens(&mut net);
        let mut lens = vec![1];
        for _ in 0..30 {
            let len = [8, 1_000, 20_000, 300_000][prng.below(4) as usize];
            net.send(0, lens.len() as u32, len);
            lens.push(len);
            let way = prng.below(4) as usize;
            let cut = prng.below(3) == 0 && way != lives;
            net.ways.iter_mut().for_each(|ways| ways[way].cut = cut);
            net.run(prng.below(80), |_| false);
        }
        let idle = net.run(60_000, |net| net.ends.iter().all(Endpoint::all_idle));
        assert!(idle, "seed {seed}: {:?}", net.ends[0].stats());
        net.assert_got(1, &lens);
        assert_eq!(net.first_loss(), None, "seed {seed}");
    }
}
