//! The short way for what is predicted over several rails, against the long one.

use super::{super::predicted::handle_unpredicted, *};

impl Net {
    /// Takes in a datagram, and a twin does, too, which predicts nothing.
    pub(super) fn take_in_twice(&mut self, to: usize, path: Path, bytes: &mut [u8]) {
        let (now, len) = (Instant::from_nanos(self.now), bytes.len());
        let (mut twin, mut got) = (self.ends[to].clone(), self.got[to].clone());
        self.ends[to].handle_datagrams(now, path, bytes, len, &mut self.got[to]);
        twin.port = path.port;
        self.predicted += usize::from(handle_unpredicted(&mut twin, now, path.address, bytes, &mut got));
        assert_same(&self.ends[to], &twin);
        assert_eq!(self.got[to], got);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn as_predicted_by_rails_is_as_ever(
        (rails, quickest, drop_every) in (1_usize..4, 0_usize..3, prop::sample::select(vec![7, 40, u64::MAX])),
        steps in prop::collection::vec((0_usize..2, 1_u32..5, 0_usize..5_000, 0_u64..400), 1..40),
        (bulk, narrow) in (any::<bool>(), any::<bool>()),
    ) {
        let mut ways = vec![Way { delay: 60_000, drop_every, ..WAY }; rails];
        ways[quickest % rails].delay = 10_000;
        if narrow {
            // A message that fits one datagram of the others may not fit one there.
            ways[quickest % rails].mtu = 1_472;
        }
        let mut net = Net::new(&settings(), &ways);
        net.open();
        net.twins = true;
        let mut sent = [1, 0];
        for (from, count, len, pause) in steps {
            if bulk {
                net.send(from, sent[from], 100_000);
                sent[from] += 1;
            }
            for _ in 0..count {
                net.send_copied(from, sent[from], len);
                sent[from] += 1;
            }
            let until = net.now + pause * 1_000;
            net.run(1, |net| net.now >= until);
        }
        prop_assert!(net.run(20_000, |net| net.ends.iter().all(Endpoint::all_idle)));
        prop_assert_eq!(net.got.each_ref().map(|got| got.messages.len() as u32), [sent[1], sent[0]]);
    }
}

/// To and fro on a quick rail that is not the first: each message goes past the queue, and is predicted.
#[test]
fn one_message_after_the_other_is_predicted() {
    let mut net = Net::new(
        &settings(),
        &[Way { delay: 60_000, ..WAY }, Way { delay: 10_000, ..WAY }],
    );
    net.open();
    net.twins = true;
    let by = |net: &Net, rail| net.ends[0].rail_stats(PEER, rail).unwrap().bytes_sent;
    let (first, second) = (by(&net, 0), by(&net, 1));
    let mut counts = [1, 0];
    for turn in 0..200 {
        let from = turn % 2;
        net.send_copied(from, counts[from], 8);
        counts[from] += 1;
        assert!(net.run(10, |net| net.got[1 - from].messages.len() as u32 == counts[from]));
    }
    assert!(net.predicted >= 190, "{}", net.predicted);
    assert!(net.past_the_queue >= 190, "{}", net.past_the_queue);
    assert!(by(&net, 1) - second >= 100 * 48 && by(&net, 0) == first);
}

/// Messages of 8 bytes to and fro.
fn to_and_fro(net: &mut Net, turns: usize) {
    for turn in 0..turns {
        let (from, counts) = (turn % 2, net.got.each_ref().map(|got| got.messages.len() as u32));
        net.send_copied(from, counts[1 - from], 8);
        assert!(net.run(100, |net| net.got[1 - from].messages.len() as u32
            == counts[1 - from] + 1));
    }
}

fn primaries(net: &Net) -> [u8; 2] {
    [0, 1].map(|end| net.ends[end].primary_rail(PEER))
}

/// The first answers of a session may have waited, and then each end believes that another rail is the quicker one. Small
/// messages show the second end which one the first takes; acknowledgements ride on them then.
#[test]
fn both_directions_of_small_messages_take_the_same_rail() {
    for (first, second) in [(0, 1), (1, 0), (2, 0), (1, 2)] {
        for waited in [false, true] {
            let mut net = Net::new(&settings(), &[WAY; 3]);
            net.open();
            net.twins = true;
            net.ends[0].peers[0].set_primary_rail(first);
            net.ends[1].peers[0].set_primary_rail(second);
            if waited {
                // It asks again.
                net.ends[1].rails.get_mut(0, first).unwrap().round_trip = 10_000_000;
            }
            to_and_fro(&mut net, 1_000);
            assert_eq!(primaries(&net), [first; 2], "{second} before, waited: {waited}");
        }
    }
}

/// Each side numbers its own rails, and acknowledges what came by a number in packets of that number: whatever their
/// paths are.
#[test]
fn the_same_rail_is_one_of_the_same_number() {
    let mut net = Net::new(&settings(), &[WAY]);
    net.ways.iter_mut().for_each(|ways| *ways = vec![WAY; 3]);
    for (end, ports) in [(0, [1, 2]), (1, [2, 1])] {
        for port in ports {
            let path = Path::new(address(1 - end, port), port);
            net.ends[end].add_rail(Instant::ZERO, PEER, path).unwrap();
        }
    }
    net.open();
    for (first, second) in [(1, 1), (2, 1)] {
        net.ends[0].peers[0].set_primary_rail(first);
        net.ends[1].peers[0].set_primary_rail(second);
        to_and_fro(&mut net, 1_000);
        assert_eq!(primaries(&net), [first; 2]);
        let packets = |net: &Net| net.ends.iter().map(|end| end.stats().packets_sent).sum::<u64>();
        let before = packets(&net);
        to_and_fro(&mut net, 200);
        let alone = packets(&net) - before - 200;
        assert!(alone <= 4, "{alone} acknowledgements did not ride on a message");
    }
}

/// The second end knows that the rail of the first one is slower.
#[test]
fn no_end_follows_to_a_slower_rail() {
    let mut net = Net::new(&settings(), &[Way { delay: 200_000, ..WAY }, WAY]);
    net.open();
    net.ends[0].peers[0].set_primary_rail(0);
    to_and_fro(&mut net, 200);
    assert_eq!(primaries(&net), [0, 1]);
}

/// The more rails both ends take the better.
#[test]
fn a_pair_that_swaps_large_messages_keeps_its_rails() {
    let mut net = Net::new(&settings(), &[WAY; 2]);
    net.open();
    net.ends[0].peers[0].set_primary_rail(0);
    net.ends[1].peers[0].set_primary_rail(1);
    for (from, number) in [(0, 1), (1, 0)] {
        net.send(from, number, 200_000);
    }
    assert!(net.run(1_000, |net| net.got[1].messages.len() == 2
        && net.got[0].messages.len() == 1));
    for number in 2..40 {
        net.send_copied(0, number, 8);
        assert!(net.run(10, |net| net.got[1].messages.len() as u32 == number + 1));
    }
    assert_eq!(primaries(&net), [0, 1]);
}

/// A rail that small messages fill does not look slower than others before. (Its wire takes twice as long from then on.)
#[test]
fn small_messages_leave_a_rail_on_which_they_take_longer() {
    for (slower, first) in [(0, [0, 0]), (1, [1, 1]), (0, [0, 1]), (1, [0, 1])] {
        let mut net = Net::new(&settings(), &[WAY; 2]);
        net.open();
        net.twins = true;
        for (end, rail) in first.into_iter().enumerate() {
            net.ends[end].peers[0].set_primary_rail(rail);
        }
        to_and_fro(&mut net, 400);
        net.ways.iter_mut().for_each(|ways| ways[slower].delay *= 2);
        to_and_fro(&mut net, 2_000);
        assert_eq!(primaries(&net), [1 - slower as u8; 2], "by {first:?} before");
    }
}

/// Where no rail is as quick as all were, the questions end, and the rail stays.
#[test]
fn rails_that_all_take_longer_are_not_asked_for_ever() {
    let mut net = Net::new(&settings(), &[WAY; 2]);
    net.open();
    to_and_fro(&mut net, 400);
    net.ways.iter_mut().flatten().for_each(|way| way.delay *= 2);
    let (rail, probes) = (primaries(&net), |net: &Net| {
        net.ends.each_ref().map(|end| end.rails.probes)
    });
    to_and_fro(&mut net, 60_000);
    let before = probes(&net);
    to_and_fro(&mut net, 10_000);
    assert_eq!((probes(&net), primaries(&net)), (before, rail));
}
