//! An attacker who knows addresses, ports and the wire format, and has seen no packet, against an honest pair on real
//! sockets: `cargo xtask attack`. What is promised is in `docs/security.md`.
#![cfg(all(feature = "udp", target_os = "linux"))]

mod amplify;
mod battery;
mod flood;
mod forge;
mod honest;
mod rails;
mod raw;
mod replay;

use battery::{Battery, Length};

/// `short` (the default) or `long`. With `ATTACK_ONLY`, only attacks with this in their names.
const FORM: &str = "ATTACK_FORM";

#[test]
#[ignore = "needs root: cargo xtask attack"]
fn attacks() {
    if let Err(error) = raw::enter_own_network() {
        eprintln!("skipped: a network of one's own needs root: {error}");
        return;
    }
    raw::pin(1);
    let long = std::env::var(FORM).is_ok_and(|form| form == "long");
    let length = if long { Length::Long } else { Length::Short };
    let mut battery = Battery::new(length);
    battery.run();
    flood::run(&mut battery, length);
    assert!(
        battery.failed.is_empty(),
        "these attacks did harm: {:?}",
        battery.failed
    );
}
