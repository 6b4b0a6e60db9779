//! Values drawn from seeds, here and for simulated ranks.

use std::time::Duration;

use hikyaku::{Config, Congestion, Recovery, WindowMode};

use super::prng::Prng;

/// Up to so many nanoseconds, short ones as likely as long ones.
pub(crate) fn duration(rng: &mut Prng, max_ns: u64) -> Duration {
    Duration::from_nanos(rng.skewed(max_ns))
}

/// Any settings of the protocol, with checksums in any case if `checksum`.
pub(crate) fn draw_config(rng: &mut Prng, checksum: bool) -> Config {
    let mut config = if rng.chance(150) {
        Config::dse()
    } else {
        Config::default()
    };
    if rng.chance(500) {
        config.window_packets = rng.skewed(1_024) as u16;
    }
    if rng.chance(500) {
        config.recovery = rng.pick(&[Recovery::SelectiveRepeat, Recovery::GoBackN]);
    }
    if rng.chance(200) {
        config.window_mode = WindowMode::BurstThenWait;
    }
    config.congestion = rng.pick(&[Congestion::Fixed, Congestion::Aimd, Congestion::Delay]);
    config.timestamps = rng.chance(700);
    config.bundle = rng.chance(700);
    config.nack = rng.chance(700);
    config.checksum = checksum || rng.chance(200);
    config.path_mtu_discovery = rng.chance(600);
    if rng.chance(500) {
        config.ack_delay = duration(rng, 5_000_000);
        config.ack_bytes = rng.skewed(256 << 10) as u32;
    }
    if rng.chance(300) {
        config.max_payload = rng.between(1, 3_000).max(rng.between(1, 3_000)) as u16;
    }
    if rng.chance(300) {
        config.reordering_window = duration(rng, 2_000_000);
    }
    if rng.chance(300) {
        config.window_bytes = rng.between(1 << 10, 256 << 10) as u32;
    }
    if rng.chance(300) {
        config.unexpected_bytes = rng.between(64 << 10, 512 << 10) as u32;
    }
    if rng.chance(300) {
        config.send_queue_bytes = rng.between(4 << 10, 256 << 10) as u32;
        config.send_queue_messages = rng.skewed(100) as u32;
    }
    config
}
