//! The short ways of small messages over several rails, against the long ones.

use super::{
    super::{inline::describe, predicted::handle_unpredicted},
    *,
};

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

    /// Sends a message past the queue if that can be, as a twin does that queues it.
    fn send_small(&mut self, from: usize, number: u32, len: usize) {
        let (now, data) = (Instant::from_nanos(self.now), data(number, len));
        let message = message(from, number);
        // What was left for later is not compared.
        self.transmit();
        let mut twin = self.ends[from].clone();
        let (mut burst, mut other) = (Burst::default(), Burst::default());
        let inline = self.ends[from].begin_inline(now, PEER, 0, &message, &data, &mut burst);
        twin.send(now, PEER, 0, &message, Payload::Copy(&data)).unwrap();
        let Some(inline) = inline else {
            self.ends[from] = twin;
            return;
        };
        self.ends[from].finish_inline(&inline, &data, &mut burst);
        assert!(twin.poll_transmit(now, &mut other));
        assert_eq!(describe(&self.ends[from], &burst), describe(&twin, &other));
        let mut nothing = Burst::default();
        assert!(!twin.poll_transmit(now, &mut nothing) && !self.ends[from].poll_transmit(now, &mut nothing));
        assert_same(&self.ends[from], &twin);
        self.inline += 1;
        self.emit(from, &burst);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn short_ways_are_as_the_long_ones(
        (rails, quickest, drop_every) in (1_usize..4, 0_usize..3, prop::sample::select(vec![7, 40, u64::MAX])),
        steps in prop::collection::vec((0_usize..2, 1_u32..5, 0_usize..2_000, 0_u64..400), 1..40),
        bulk in any::<bool>(),
    ) {
        let mut ways = vec![Way { delay: 60_000, drop_every, ..WAY }; rails];
        ways[quickest % rails].delay = 10_000;
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
                net.send_small(from, sent[from], len);
                sent[from] += 1;
            }
            let until = net.now + pause * 1_000;
            net.run(1, |net| net.now >= until);
        }
        prop_assert!(net.run(20_000, |net| net.ends.iter().all(Endpoint::all_idle)));
        prop_assert_eq!(net.got.each_ref().map(|got| got.messages.len() as u32), [sent[1], sent[0]]);
    }
}

/// To and fro on a quick rail that is not the first: each message takes the short ways.
#[test]
fn one_message_after_the_other_takes_the_short_ways() {
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
        net.send_small(from, counts[from], 8);
        counts[from] += 1;
        assert!(net.run(10, |net| net.got[1 - from].messages.len() as u32 == counts[from]));
    }
    assert!(
        net.inline >= 195 && net.predicted >= 190,
        "{} {}",
        net.inline,
        net.predicted
    );
    assert!(by(&net, 1) - second >= 100 * 48 && by(&net, 0) == first);
}
