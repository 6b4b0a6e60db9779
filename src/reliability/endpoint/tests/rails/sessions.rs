//! What a session knows of its rails, the next one finds out anew.

use super::*;

/// A rail that was dead often is found dead later. A new session forgets that; the statistic goes on.
#[test]
fn a_new_session_forgets_how_often_a_rail_was_dead() {
    let mut net = Net::new(&settings(), &[WAY, WAY]);
    net.open();
    // Milliseconds until the second rail is found dead.
    let dies = |net: &mut Net| {
        let sent = |net: &Net| net.ends[0].rail_stats(PEER, 1).unwrap().bytes_sent;
        let before = sent(net);
        net.send(0, net.got[1].messages.len() as u32, 8 << 20);
        assert!(net.run(100, |net| sent(net) > before));
        net.cut(1, true);
        let begun = net.now;
        assert!(net.run(2_000, |net| net.state(0, 1) == RailState::Down));
        let taken = (net.now - begun) / 1_000_000;
        net.cut(1, false);
        assert!(net.run(2_000, |net| net.ends[0].all_idle() && net.state(0, 1) == RailState::Up));
        taken
    };
    let times = [(); 6].map(|()| dies(&mut net));
    assert!(times[0] < 80 && times[5] >= 160, "{times:?}");
    net.ends[0].close(Instant::from_nanos(net.now), PEER);
    assert!(net.run(500, |net| net.ends.iter().all(|end| end.down(PEER).is_some())));
    net.ends[0].reconnect(PEER);
    net.send(0, net.got[1].messages.len() as u32, 1);
    assert!(net.run(500, |net| net.state(0, 1) == RailState::Up && net.ends[0].all_idle()));
    let again = dies(&mut net);
    assert!(again < 80, "{again} ms");
    assert_eq!(net.ends[0].rail_stats(PEER, 1).unwrap().failures, 7);
}
