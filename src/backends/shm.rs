//! Memory between the processes of one host, as the backend `shm` of a transport (Linux, feature `shm`).
//!
//! Two processes meet at sockets without a file, share memory that has no name either, and send each other packets through
//! rings in it: nothing is lost, so nothing is acknowledged, sent again or timed. They belong to the same user (or to
//! root), to the same release of this crate, and see the same network namespace.
//!
//! # Addresses
//!
//! A process is found by its name, 64 bits, as the address `[fd68:696b:7961:6b75:NAME]:1` (`fd68:696b:7961:6b75` spells
//! "hikyaku"). No network has such addresses. [`address`] makes one of a text; any address with port 0, such as
//! `"[::]:0"`, stands for a random name that is free. A process that binds gets a name; others add its address as that
//! of a peer:
//!
//! ```
//! use hikyaku::{backends::shm, transport::Transport};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let name = format!("solver-{}", std::process::id());
//! let mut solver = Transport::builder().processor(1).bind_shm(&name)?;
//! let mut viewer = Transport::builder().processor(2).bind_shm("")?;
//! let peer = viewer.add_peer(shm::address(&name), 1)?;
//! solver.add_peer(viewer.local_addr(), 2)?;
//! viewer.send(peer, b"show me")?;
//! viewer.progress()?;
//! assert_eq!(solver.receive(std::time::Duration::from_secs(5))?.data(), b"show me");
//! # Ok(())
//! # }
//! ```
//!
//! A peer is met when something is first sent to it, so it must listen by then: there is no waiting for one that comes
//! later. [`PeerError`](crate::PeerError) says why there is no way to a peer: `Refused` (nobody listens there, or its
//! process has ended), `OtherUser`, `OtherRelease`, `NoMemory`.

use std::net::{Ipv6Addr, SocketAddr};

/// Name of the backend.
pub(crate) const NAME: &str = "shm";
/// The first half of all addresses.
const PREFIX: [u16; 4] = [0xfd68, 0x696b, 0x7961, 0x6b75];
const PORT: u16 = 1;

/// The address of the process that has bound this name.
#[must_use]
pub fn address(name: &str) -> SocketAddr {
    // FNV-1a: the address of a text is the same in all releases.
    let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    address_of(name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix))
}

/// The address of a name in its short form.
pub(crate) fn address_of(name: u64) -> SocketAddr {
    let [a, b, c, d] = PREFIX;
    let [e, f, g, h] = [48, 32, 16, 0].map(|shift| (name >> shift) as u16);
    SocketAddr::from((Ipv6Addr::new(a, b, c, d, e, f, g, h), PORT))
}

/// The name behind an address. `None`: it is not one of these.
pub(crate) fn name_of(address: SocketAddr) -> Option<u64> {
    let SocketAddr::V6(address) = address else { return None };
    let segments = address.ip().segments();
    let (prefix, name) = segments.split_at(PREFIX.len());
    (prefix == PREFIX).then(|| name.iter().fold(0, |name, &part| name << 16 | u64::from(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_address_and_back() {
        for name in [0, 1, 0x1234_5678_9abc_def0, u64::MAX] {
            assert_eq!(name_of(address_of(name)), Some(name));
        }
        let parsed: SocketAddr = "[fd68:696b:7961:6b75::5]:1".parse().unwrap();
        assert_eq!(address_of(5), parsed);
        assert_eq!(name_of("127.0.0.1:1".parse().unwrap()), None);
        assert_eq!(name_of("[fd68:696b:7961:6b76::5]:1".parse().unwrap()), None);
        assert_eq!(address("solver"), address("solver"));
        assert_ne!(address("solver"), address("viewer"));
    }
}
