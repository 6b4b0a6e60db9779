//! A stranger who wants to be a rail of the pair's session, which has two.

use std::time::Duration;

use crate::{
    battery::{Allowed, Attacker, Battery},
    forge::{Form, guess},
    honest::{Pair, Setup, Task},
    raw::{self, Tap},
    replay::{record, replay},
};

/// Datagrams a second.
const RATE: u64 = 100_000;
/// For both ends to prove their second rails.
const LIMIT: Duration = Duration::from_secs(10);

/// What a rail is made of.
const FORMS: [Form; 6] = [
    Form::Probe,
    Form::ProbeAck,
    Form::Settle,
    Form::Settled,
    Form::Ack,
    Form::Data,
];

fn setup() -> Setup {
    let beside = ["127.1.1.1:0", "127.1.1.2:0"].map(|address| address.parse().expect("an address"));
    Setup {
        // What is recorded is what goes over a wire.
        gso: false,
        late: true,
        beside: Some(beside),
        ..Setup::default()
    }
}

/// A pair with two rails, and everything that was said from its first packet on.
fn start(setup: &Setup) -> (Pair, Vec<raw::Seen>) {
    let tap = Tap::new().expect("root may listen");
    let pair = Pair::start(setup);
    pair.complete();
    let recorded = record(&tap, &pair);
    wait_for_rails(&pair);
    (pair, recorded)
}

fn wait_for_rails(pair: &Pair) {
    let deadline = raw::now() + LIMIT;
    // (How often they were proven does not count: a session that was opened by the second rail proves the first one.)
    while pair.report().working != [2, 2] {
        assert!(raw::now() < deadline, "no second rail: {:?}", pair.report());
        raw::pause(Duration::from_millis(1));
    }
}

pub(crate) fn run(battery: &mut Battery) {
    if !battery.wants("rails") {
        return;
    }
    let setup = setup();
    let (pair, recorded) = start(&setup);
    let beside = pair.beside.expect("there are two");
    let kinds = |kind| {
        let is =
            |seen: &&raw::Seen| hikyaku::wire::Packet::new_checked(&seen.payload[..]).is_ok_and(|p| p.kind() == kind);
        recorded.iter().filter(is).count()
    };
    assert!(
        kinds(hikyaku::wire::Kind::Probe) > 2 && kinds(hikyaku::wire::Kind::ProbeAck) > 2,
        "the rails were proven meanwhile"
    );
    for form in FORMS {
        let name = format!("rails: 4,096 guesses: {form:?}");
        let mut attacker = Attacker::new(pair.addresses);
        battery.attack_pair(&name, &pair, &mut attacker, Allowed::default(), |attacker| {
            for number in 0..6 * 4_096_u64 {
                attacker.pace(RATE);
                let victim = (number % 2) as usize;
                let from = match number / 2 % 3 {
                    0 => attacker.own,
                    1 => attacker.ends[1 - victim],
                    _ => beside[1 - victim],
                };
                // By either port; of the rail that there is, and of one that there is not.
                let to = if number.is_multiple_of(4) {
                    beside[victim]
                } else {
                    attacker.ends[victim]
                };
                let (rail, guessed) = (1 + (number / 8 % 2) as u8, guess(number / 6));
                let packet = attacker
                    .forger
                    .packet_of_rail(form, guessed, victim, number as u32, rail);
                attacker.sender.udp(from, to, packet);
            }
        });
    }
    // What is acknowledged twice is no drop.
    let allowed = Allowed {
        uncounted: true,
        ..Allowed::default()
    };
    for own_address in [false, true] {
        let from = if own_address { "elsewhere" } else { "their addresses" };
        let name = format!("rails: replays into the same session, from {from}");
        let mut attacker = Attacker::new(pair.addresses);
        battery.attack_pair(&name, &pair, &mut attacker, allowed, |attacker| {
            replay(attacker, &recorded, own_address);
        });
        let redirected = (attacker.acknowledgements > 0).then(|| "acknowledgements went to the attacker".to_owned());
        let heard = attacker.acknowledgements.to_string();
        battery.row("    acknowledgements heard", &[heard], redirected.as_slice());
    }
    pair.restart();
    wait_for_rails(&pair);
    pair.assign(Task::Talk);
    let mut attacker = Attacker::new(pair.addresses);
    let name = "rails: replays after both have restarted";
    battery.attack_pair(name, &pair, &mut attacker, Allowed::default(), |attacker| {
        replay(attacker, &recorded, true);
    });
}
