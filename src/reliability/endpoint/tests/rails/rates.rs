//! Rails of different rates.

use super::*;
use crate::reliability::Target;

/// Time to send 14 messages of 4 MB (what the credit allows), ns.
fn time_over(rails: &[Way]) -> u64 {
    let mut net = Net::new(&settings(), rails);
    net.open();
    let before = net.now;
    let mut lens = vec![1];
    for number in 1..=14 {
        net.send(0, number, 4 << 20);
        lens.push(4 << 20);
        assert!(net.run(10_000, |net| net.got[1].messages.len() >= lens.len() - 2));
    }
    assert!(net.run(10_000, |net| net.ends[0].all_idle()));
    net.assert_got(1, &lens);
    assert_eq!(net.ends[0].stats().rails_down, 0);
    net.now - before
}

#[test]
fn bulk_data_is_striped_in_proportion_to_rates() {
    let slow = |rate| Way { rate, ..WAY };
    let one = time_over(&[slow(125)]);
    let two = time_over(&[slow(125), slow(125)]);
    assert!(two * 100 < one * 52, "two rails: {two} ns, one: {one} ns");
    let unequal = time_over(&[slow(1_250), slow(125)]);
    let quick = time_over(&[slow(1_250)]);
    assert!(
        unequal * 110 < quick * 105,
        "with a slow one beside: {unequal} ns, alone: {quick} ns"
    );
    let turned = time_over(&[slow(125), slow(1_250)]);
    assert!(
        turned * 110 < quick * 105,
        "the first one is the slow one: {turned} ns, alone: {quick} ns"
    );
}

/// Time of 400 messages of 64 KiB, four under way, ns.
fn time_of_many(rails: &[Way]) -> u64 {
    let mut net = Net::new(&settings(), rails);
    net.open();
    let before = net.now;
    for number in 1..=400 {
        net.send(0, number, 64 << 10);
        assert!(net.run(1_000, |net| net.got[1].messages.len() + 4 > number as usize));
    }
    assert!(net.run(1_000, |net| net.got[1].messages.len() == 401));
    net.now - before
}

/// A piece of a message on a slow rail must not be what the others wait for.
#[test]
fn a_slow_rail_takes_no_more_than_it_carries_in_time() {
    for (quick, slow, most) in [(1_250, 125, 115), (125, 12, 115), (125, 2, 130)] {
        let [quick, slow] = [quick, slow].map(|rate| Way {
            rate,
            mtu: 8_972,
            ..WAY
        });
        let alone = time_of_many(&[quick]);
        for both in [[quick, slow], [slow, quick]] {
            let beside = time_of_many(&both);
            assert!(
                beside * 100 < alone * most,
                "{} beside {}: {beside} ns, alone: {alone} ns",
                slow.rate,
                quick.rate
            );
        }
    }
}

/// Time of 200 placements of 64 KiB that wait one behind the other, ns.
fn time_of_placements(rails: &[Way]) -> u64 {
    let mut net = Net::new(&settings(), rails);
    net.open();
    let before = net.now;
    let target = Target {
        source: 0,
        destination: 1,
        region: 1,
        key: 1,
        offset: 0,
    };
    let bytes = Bytes::from(vec![7; 64 << 10]);
    for _ in 0..200 {
        let now = Instant::from_nanos(net.now);
        net.ends[0].place(now, PEER, 0, &target, bytes.clone()).unwrap();
    }
    assert!(net.run(10_000, |net| net.ends[0].all_idle()));
    net.now - before
}

/// The last packets of one do not keep the others from going by rails that have room.
#[test]
fn placements_that_wait_behind_others_go_by_all_rails() {
    let way = Way {
        rate: 125,
        mtu: 8_972,
        ..WAY
    };
    let (one, six) = (time_of_placements(&[way]), time_of_placements(&[way; 6]));
    assert!(six * 550 < one * 100, "six rails: {six} ns, one: {one} ns");
}

/// The time for which a rail was dead does not count as slowness.
#[test]
fn a_rail_that_comes_back_takes_its_share() {
    let rails = [Way { rate: 125, ..WAY }; 2];
    let mut net = Net::new(&settings(), &rails);
    net.open();
    let mut sent = 1;
    let mut stream = |net: &mut Net| {
        let before = net.now;
        for _ in 0..4 {
            net.send(0, sent, 4 << 20);
            sent += 1;
        }
        assert!(net.run(10_000, |net| net.ends[0].all_idle()));
        net.now - before
    };
    let first = stream(&mut net);
    net.cut(1, true);
    stream(&mut net);
    assert_eq!(net.state(0, 1), RailState::Down);
    net.cut(1, false);
    assert!(net.run(5_000, |net| net.state(0, 1) == RailState::Up));
    let again = stream(&mut net);
    assert!(again * 100 < first * 110, "{again} ns, before {first} ns");
}
