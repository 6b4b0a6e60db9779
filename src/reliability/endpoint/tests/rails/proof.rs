//! How often a rail is asked that has not answered yet.

use super::*;

/// It may be a network that leads nowhere, and there may be thousands of peers.
#[test]
fn a_rail_that_never_answers_is_asked_seldom() {
    let mut net = Net::new(&settings(), &[WAY, WAY]);
    net.cut(1, true);
    net.open();
    net.run(60_000, |_| false);
    let asked = [0, 1].map(|end| net.ways[end][1].carried);
    net.run(60_000, |_| false);
    for (end, before) in asked.into_iter().enumerate() {
        let asked = net.ways[end][1].carried - before;
        assert!((5..10).contains(&asked), "{asked} in a minute");
        assert_eq!(net.state(end, 1), RailState::Unproven);
    }
    net.cut(1, false);
    // One side asks, and the other one does so at once when it hears that.
    assert!(net.run(8_100, |net| net.state(0, 1) == RailState::Up
        || net.state(1, 1) == RailState::Up));
    assert!(net.run(10, |net| [0, 1].map(|end| net.state(end, 1)) == [RailState::Up; 2]));
}

/// Messages of 256 KiB follow each other, two under way, until `done`; at most for so many milliseconds.
fn stream(net: &mut Net, sent: &mut u32, limit_ms: u64, mut done: impl FnMut(&Net) -> bool) -> bool {
    let end = net.now + limit_ms * 1_000_000;
    while net.now < end && !done(net) {
        net.send(0, *sent, 256 << 10);
        *sent += 1;
        let enough = *sent as usize - 1;
        assert!(net.run(1_000, |net| net.got[1].messages.len() >= enough || done(net)));
    }
    done(net)
}

/// It may have come to life, and would carry a part of what waits.
#[test]
fn a_rail_that_has_never_answered_is_asked_each_second_while_there_is_bulk() {
    let slow = Way {
        rate: 2,
        mtu: 1_472,
        ..WAY
    };
    let mut net = Net::new(&settings(), &[slow, slow]);
    net.cut(1, true);
    net.open();
    net.run(20_000, |_| false);
    let (before, mut sent) = (net.ways[1][1].carried, 1);
    stream(&mut net, &mut sent, 10_000, |_| false);
    let asked = net.ways[1][1].carried - before;
    assert!((9..=11).contains(&asked), "{asked} in ten seconds");
    net.cut(1, false);
    let mended = net.now;
    let is_up = |net: &Net| [0, 1].map(|end| net.state(end, 1)) == [RailState::Up; 2];
    assert!(stream(&mut net, &mut sent, 2_000, is_up));
    assert!(net.now - mended < 1_100_000_000, "{} ns", net.now - mended);
    // The next messages go by both.
    let carried = net.ways[1].iter().map(|way| way.bytes).collect::<Vec<u64>>();
    stream(&mut net, &mut sent, 2_000, |_| false);
    for (way, before) in net.ways[1].iter().zip(carried) {
        assert!(way.bytes - before > 2_000_000, "{} of 4 MB", way.bytes - before);
    }
}
