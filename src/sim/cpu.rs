//! The CPU time that a packet costs its sender and its receiver.

use super::network::RangeError;

/// The cost of a packet at its host, in core time. Default: 300 ns per packet and 0.05 ns per byte at each side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// Per packet sent, ns. Up to 1e9.
    pub send: f64,
    /// Per packet received, ns. Up to 1e9.
    pub receive: f64,
    /// Per byte sent or received, ns. Up to 1e6.
    pub byte: f64,
    /// A poll without result (`MPI_Test`), ns. At least 1, so that time goes on; up to 1e9. Default 500: a system call.
    pub look: f64,
}

impl Default for Cpu {
    fn default() -> Self {
        Self {
            send: 300.0,
            receive: 300.0,
            byte: 0.05,
            look: 500.0,
        }
    }
}

impl Cpu {
    /// A host where only polls cost time.
    pub const FREE: Self = Self {
        send: 0.0,
        receive: 0.0,
        byte: 0.0,
        look: 500.0,
    };

    /// Checks every range.
    ///
    /// # Errors
    /// Names the first value that is out of its range.
    pub fn validate(&self) -> Result<(), RangeError> {
        let checks = [
            ((0.0..=1e9).contains(&self.send), "send", "from 0 to 1e9 ns"),
            ((0.0..=1e9).contains(&self.receive), "receive", "from 0 to 1e9 ns"),
            ((0.0..=1e6).contains(&self.byte), "byte", "from 0 to 1e6 ns"),
            ((1.0..=1e9).contains(&self.look), "look", "from 1 to 1e9 ns"),
        ];
        RangeError::first(&checks)
    }

    /// Time of a packet of so many bytes, ns; `packet` is what it takes without them.
    pub(super) fn cost(&self, packet: f64, bytes: usize) -> u64 {
        round(packet + self.byte * bytes as f64)
    }
}

/// Rounds a number that is not negative, halves up; not by a library call, since not every CPU has an instruction
/// for it.
fn round(number: f64) -> u64 {
    // By way of signed integers, for which there are instructions.
    let below = number as i64;
    (below as u64).saturating_add(u64::from(number - below as f64 >= 0.5))
}
