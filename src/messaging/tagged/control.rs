//! Messages of the protocol itself, which carry no match bits: requests to send, grants.
//!
//! ```text
//! 0        1        2                 4                         8
//! +--------+--------+-----------------+-------------------------+
//! |   op   |  flags |    reserved     |          id             |
//! +--------+--------+-----------------+-------------------------+
//! ```
//!
//! and then, in network byte order: of a request to send (op 1) the match bits (8 bytes) and the length (8); of a
//! grant (op 2) region and key (4 each), how far may be sent (8) and how much is wanted in all (8); of an active message
//! (op 3), whose id says for whom, its bytes; of a withdrawal (op 4) nothing.

use alloc::vec::Vec;

use crate::messaging::RegionId;

/// A message of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control<'a> {
    /// RTS: `id` is the sender's.
    RequestToSend { id: u32, bits: u64, len: u64 },
    /// CTS: the sender with `id` may send the bytes before `until`; the receiver wants `limit` bytes in all.
    Grant {
        id: u32,
        region: RegionId,
        until: u64,
        limit: u64,
    },
    /// For a handler of the layer above.
    Active { handler: u32, data: &'a [u8] },
    /// The sender has revoked the message that it requested to send under this `id`.
    Withdraw { id: u32 },
}

const REQUEST_TO_SEND: u8 = 1;
const GRANT: u8 = 2;
const ACTIVE: u8 = 3;
const WITHDRAW: u8 = 4;

/// The bytes are no message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl<'a> Control<'a> {
    pub(super) fn emit(&self, into: &mut Vec<u8>) {
        into.clear();
        let (op, id) = match *self {
            Self::RequestToSend { id, .. } => (REQUEST_TO_SEND, id),
            Self::Grant { id, .. } => (GRANT, id),
            Self::Active { handler, .. } => (ACTIVE, handler),
            Self::Withdraw { id } => (WITHDRAW, id),
        };
        into.extend_from_slice(&[op, 0, 0, 0]);
        into.extend_from_slice(&id.to_be_bytes());
        match *self {
            Self::RequestToSend { bits, len, .. } => {
                into.extend_from_slice(&bits.to_be_bytes());
                into.extend_from_slice(&len.to_be_bytes());
            }
            Self::Grant {
                region, until, limit, ..
            } => {
                into.extend_from_slice(&region.region.to_be_bytes());
                into.extend_from_slice(&region.key.to_be_bytes());
                into.extend_from_slice(&until.to_be_bytes());
                into.extend_from_slice(&limit.to_be_bytes());
            }
            Self::Active { data, .. } => into.extend_from_slice(data),
            Self::Withdraw { .. } => {}
        }
    }

    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (head, rest) = bytes.split_first_chunk::<8>().ok_or(Malformed)?;
        let [op, 0, 0, 0, a, b, c, d] = *head else {
            return Err(Malformed);
        };
        let id = u32::from_be_bytes([a, b, c, d]);
        match op {
            REQUEST_TO_SEND if rest.len() == 16 => Ok(Self::RequestToSend {
                id,
                bits: word(rest, 0)?,
                len: word(rest, 8)?,
            }),
            GRANT if rest.len() == 24 => {
                let both = word(rest, 0)?;
                Ok(Self::Grant {
                    id,
                    region: RegionId {
                        region: (both >> 32) as u32,
                        key: both as u32,
                    },
                    until: word(rest, 8)?,
                    limit: word(rest, 16)?,
                })
            }
            ACTIVE => Ok(Self::Active {
                handler: id,
                data: rest,
            }),
            WITHDRAW if rest.is_empty() => Ok(Self::Withdraw { id }),
            _ => Err(Malformed),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u64, Malformed> {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(Malformed)?;
    Ok(u64::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_control() -> impl Strategy<Value = (u8, u32, u64, u64, u64, Vec<u8>)> {
        (
            1..=4_u8,
            any::<u32>(),
            any::<u64>(),
            any::<u64>(),
            any::<u64>(),
            any::<Vec<u8>>(),
        )
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed((op, id, a, b, c, data) in any_control()) {
            let control = match op {
                1 => Control::RequestToSend { id, bits: a, len: b },
                2 => Control::Grant {
                    id,
                    region: RegionId { region: (a >> 32) as u32, key: a as u32 },
                    until: b,
                    limit: c,
                },
                3 => Control::Active { handler: id, data: &data },
                _ => Control::Withdraw { id },
            };
            let mut bytes = Vec::new();
            control.emit(&mut bytes);
            prop_assert_eq!(Control::parse(&bytes), Ok(control));
            if op != 3 {
                for len in 0..bytes.len() {
                    prop_assert_eq!(Control::parse(&bytes[..len]), Err(Malformed));
                }
            }
        }

        #[test]
        fn parsing_is_total(bytes: Vec<u8>) {
            if let Ok(control) = Control::parse(&bytes) {
                let mut again = Vec::new();
                control.emit(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
