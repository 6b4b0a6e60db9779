//! Packets of an earlier session, recorded by an attacker on the path, and sent again by one that is not any more.

use std::time::Duration;

use crate::{
    battery::{Allowed, Attacker, Battery},
    honest::{Pair, Setup},
    raw::{self, Seen, Tap},
};

/// Packets recorded, at most.
const RECORDED: usize = 20_000;
/// Datagrams a second.
const RATE: u64 = 100_000;

pub(crate) fn run(battery: &mut Battery) {
    if !battery.wants("replays") {
        return;
    }
    let setup = Setup {
        // What is recorded is what goes over a wire.
        gso: false,
        late: true,
        ..Setup::default()
    };
    for own_address in [false, true] {
        let from = if own_address {
            "from elsewhere"
        } else {
            "from the peer's address"
        };
        let tap = Tap::new().expect("root may listen");
        let pair = Pair::start(&setup);
        // From the first packet on.
        pair.complete();
        let recorded = record(&tap, &pair);
        let mut attacker = Attacker::new(pair.addresses);
        let live = format!("replays into the same session, {from}");
        // An acknowledgement that comes twice is no drop.
        let allowed = Allowed {
            uncounted: true,
            ..Allowed::default()
        };
        battery.attack_pair(&live, &pair, &mut attacker, allowed, |attacker| {
            replay(attacker, &recorded, own_address);
        });
        pair.restart();
        let mut attacker = Attacker::new(pair.addresses);
        let later = format!("replays after both have restarted, {from}");
        battery.attack_pair(&later, &pair, &mut attacker, Allowed::default(), |attacker| {
            replay(attacker, &recorded, own_address);
        });
    }
}

/// Everything between the two, for a while.
pub(crate) fn record(tap: &Tap, pair: &Pair) -> Vec<Seen> {
    let ours = [&pair.addresses[..], pair.beside.as_ref().map_or(&[], |beside| beside)].concat();
    let mut recorded = Vec::new();
    let end = raw::now() + Duration::from_millis(500);
    while recorded.len() < RECORDED && raw::now() < end {
        match tap.next() {
            Some(seen) if ours.contains(&seen.from) && ours.contains(&seen.to) => {
                recorded.push(seen);
            }
            Some(_) => {}
            None => raw::pause(Duration::from_millis(1)),
        }
    }
    assert!(recorded.len() > 1_000, "only {} packets were recorded", recorded.len());
    recorded
}

pub(crate) fn replay(attacker: &mut Attacker, recorded: &[Seen], own_address: bool) {
    for seen in recorded {
        attacker.pace(RATE);
        let from = if own_address { attacker.own } else { seen.from };
        attacker.sender.udp(from, seen.to, &seen.payload);
    }
}
