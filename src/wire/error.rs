//! Why bytes are no packet.

use super::header::{MAX_SACK_WORDS, VERSION};

/// Why some bytes are not a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The datagram is shorter than its header says, or than any header.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes present.
        have: usize,
    },
    /// Another version of the format.
    Version(u8),
    /// A packet kind that this version does not know.
    Kind(u8),
    /// Flags that this version does not know.
    Flags(u16),
    /// Reserved bytes are not zero.
    Reserved,
    /// The datagram is longer than header and payload.
    Trailing {
        /// Bytes in excess.
        excess: usize,
    },
    /// A selective-acknowledgement bitmap of this many words.
    SackWords(u8),
    /// A fragment that reaches beyond its message, or fragment and bundle at once.
    Fragment,
    /// A bundle whose records do not fill the payload exactly.
    Bundle,
    /// This kind of packet cannot carry this payload or extension.
    Unexpected,
    /// The checksum does not match.
    Checksum,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "packet truncated: {need} bytes needed, {have} there")
            }
            Self::Version(v) => write!(f, "wire format version {v}, this side speaks {VERSION}"),
            Self::Kind(k) => write!(f, "unknown packet kind {k}"),
            Self::Flags(bits) => write!(f, "unknown flags {bits:#06x}"),
            Self::Reserved => f.write_str("reserved bytes are not zero"),
            Self::Trailing { excess } => write!(f, "{excess} bytes after the payload"),
            Self::SackWords(n) => write!(f, "acknowledgement bitmap of {n} words (1 to {MAX_SACK_WORDS})"),
            Self::Fragment => f.write_str("fragment does not lie inside its message"),
            Self::Bundle => f.write_str("records do not fill the bundle"),
            Self::Unexpected => f.write_str("payload or extension that this kind of packet cannot carry"),
            Self::Checksum => f.write_str("checksum does not match"),
        }
    }
}

impl core::fmt::Debug for Error {
    /// As `Display`: `fn main() -> Result<_, Box<dyn Error>>` prints this form.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Error {}
