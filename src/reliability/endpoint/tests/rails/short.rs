//! The short ways over several rails, for what is predicted and for what is sent inline, against the long ones.

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

    /// Sends a message past the queue, and a twin sends it through the queue. `false`: it cannot go so, and nothing was
    /// done.
    fn send_inline(&mut self, from: usize, number: u32, len: usize) -> bool {
        self.transmit();
        let (now, message, data) = (Instant::from_nanos(self.now), message(from, number), data(number, len));
        let endpoint = &mut self.ends[from];
        let (mut twin, mut burst, mut other) = (endpoint.clone(), Burst::default(), Burst::default());
        let Some(inline) = endpoint.begin_inline(now, PEER, 0, &message, &data, &mut burst) else {
            assert_same(endpoint, &twin);
            return false;
        };
        endpoint.finish_inline(&inline, &data, &mut burst);
        let sent = twin.send(now, PEER, 0, &message, Payload::Copy(&data));
        assert!(sent.is_ok() && twin.poll_transmit(now, &mut other));
        assert_eq!(describe(endpoint, &burst), describe(&twin, &other));
        assert_eq!(burst.port(), other.port());
        assert!(!twin.poll_transmit(now, &mut other) && !endpoint.poll_transmit(now, &mut other));
        assert_same(endpoint, &twin);
        self.emit(from, &burst);
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn as_predicted_by_rails_is_as_ever(
        (rails, quickest, drop_every) in (1_usize..4, 0_usize..3, prop::sample::select(vec![7, 40, u64::MAX])),
        steps in prop::collection::vec((0_usize..2, 1_u32..5, 0_usize..5_000, 0_u64..400), 1..40),
        (bulk, narrow, inline) in (any::<bool>(), any::<bool>(), any::<bool>()),
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
                if !inline || !net.send_inline(from, sent[from], len) {
                    net.send_copied(from, sent[from], len);
                }
                sent[from] += 1;
            }
            let until = net.now + pause * 1_000;
            net.run(1, |net| net.now >= until);
        }
        prop_assert!(net.run(20_000, |net| net.ends.iter().all(Endpoint::all_idle)));
        prop_assert_eq!(net.got.each_ref().map(|got| got.messages.len() as u32), [sent[1], sent[0]]);
    }
}

/// To and fro on a quick rail that is not the first: each message is sent inline, and predicted.
#[test]
fn one_message_after_the_other_goes_the_short_ways() {
    let mut net = Net::new(
        &settings(),
        &[Way { delay: 60_000, ..WAY }, Way { delay: 10_000, ..WAY }],
    );
    net.open();
    net.twins = true;
    let by = |net: &Net, rail| net.ends[0].rail_stats(PEER, rail).unwrap().bytes_sent;
    let (first, second) = (by(&net, 0), by(&net, 1));
    let (mut counts, mut inline) = ([1, 0], 0);
    for turn in 0..200 {
        let from = turn % 2;
        match net.send_inline(from, counts[from], 8) {
            true => inline += 1,
            false => net.send_copied(from, counts[from], 8),
        }
        counts[from] += 1;
        assert!(net.run(10, |net| net.got[1 - from].messages.len() as u32 == counts[from]));
    }
    assert!(net.predicted >= 190 && inline >= 190, "{} {inline}", net.predicted);
    assert!(by(&net, 1) - second >= 100 * 48 && by(&net, 0) == first);
}
