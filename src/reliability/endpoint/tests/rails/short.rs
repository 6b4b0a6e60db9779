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

/// The first answers of a session may have waited, and then each end believes that another rail is the quicker one. Small
/// messages show the second end which one the first takes; acknowledgements ride on them then.
#[test]
fn both_directions_of_small_messages_take_the_same_rail() {
    for (first, second) in [(0, 1), (1, 0), (2, 0), (1, 2)] {
        let mut net = Net::new(&settings(), &[WAY; 3]);
        net.open();
        net.twins = true;
        let choose = |net: &mut Net, end: usize, rail| net.ends[end].peers[0].set_primary_rail(rail);
        choose(&mut net, 0, first);
        choose(&mut net, 1, second);
        let mut counts = [1, 0];
        for turn in 0..60 {
            let from = turn % 2;
            net.send_copied(from, counts[from], 8);
            counts[from] += 1;
            assert!(net.run(10, |net| net.got[1 - from].messages.len() as u32 == counts[from]));
        }
        assert_eq!([0, 1].map(|end| net.ends[end].primary_rail(PEER)), [first; 2]);
        // (Each side numbers its own rails; here both have the same ones.)
        let sent = net.ends.each_ref().map(|end| end.stats().packets_sent);
        net.send_copied(0, counts[0], 8);
        assert!(net.run(10, |net| net.got[1].messages.len() as u32 == counts[0] + 1));
        net.send_copied(1, counts[1], 8);
        assert!(net.run(10, |net| net.got[0].messages.len() as u32 == counts[1] + 1));
        let more = net.ends.each_ref().map(|end| end.stats().packets_sent);
        assert_eq!(more, sent.map(|sent| sent + 1), "an acknowledgement alone");
    }
}

/// Their rails have enough to carry.
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
    assert_eq!([0, 1].map(|end| net.ends[end].primary_rail(PEER)), [0, 1]);
}
