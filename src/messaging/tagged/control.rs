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
//!
//! Between processes whose memories the system can copy between, a request to send may go on with the address of the
//! message's bytes (8) and the permission to read there (4), an offer; the receiver that has read them says how many (op 7).
//! A grant goes on with the address of the region's memory (8) and the permission to write there (4). Then the sender has a range read by its receiver (op 5): region and key, the
//! range's offset and length (8 each), the address of its bytes (8) and the permission to read there (4); and is told
//! (op 7) how many of them were read (8). Or it has written a range (op 6): region and key, offset and length.

use alloc::vec::Vec;

use crate::messaging::RegionId;

/// A message of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control<'a> {
    /// RTS: `id` is the sender's. The receiver may read the bytes of an offer instead of granting anything.
    RequestToSend {
        id: u32,
        bits: u64,
        len: u64,
        offer: Option<Exposure>,
    },
    /// For a handler of the layer above.
    Active { handler: u32, data: &'a [u8] },
    /// What follows the request to send of this `id`.
    FollowUp { id: u32, what: FollowUp },
}

/// What sender and receiver tell each other after a request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowUp {
    /// CTS: the sender may send the bytes before `until`; the receiver wants `limit` bytes in all.
    Grant(Grant),
    /// The sender has revoked the message.
    Withdraw,
    /// The receiver is to read this range in the memory of the sender.
    Read { range: Range, from: Exposure },
    /// The sender has written this range.
    Written { range: Range },
    /// The receiver has read what it was offered; or so many bytes of the oldest range that it was to read, and cannot read
    /// more.
    WasRead { len: u64 },
}

/// What a receiver grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) region: RegionId,
    pub(super) until: u64,
    pub(super) limit: u64,
    /// The memory of the region, if the system copies to it.
    pub(super) exposure: Option<Exposure>,
}

/// Memory of a process that the other one may read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exposure {
    pub(super) address: u64,
    pub(super) permission: u32,
}

impl Exposure {
    fn emit(self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.address.to_be_bytes());
        into.extend_from_slice(&self.permission.to_be_bytes());
    }

    fn parse(bytes: &[u8], at: usize) -> Result<Self, Malformed> {
        let permission = bytes.get(at + 8..).and_then(<[u8]>::first_chunk).ok_or(Malformed)?;
        Ok(Self {
            address: word(bytes, at)?,
            permission: u32::from_be_bytes(*permission),
        })
    }

    /// `None`: the bytes end there.
    fn parse_if_any(bytes: &[u8], at: usize) -> Result<Option<Self>, Malformed> {
        match bytes.len() == at {
            true => Ok(None),
            false => Self::parse(bytes, at).map(Some),
        }
    }
}

/// Bytes of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) region: RegionId,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Range {
    /// Takes the first `len` bytes off.
    pub(super) fn take_front(&mut self, len: u64) -> Self {
        let front = Self { len, ..*self };
        self.offset += len;
        self.len -= len;
        front
    }

    fn emit(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.region.region.to_be_bytes());
        into.extend_from_slice(&self.region.key.to_be_bytes());
        into.extend_from_slice(&self.offset.to_be_bytes());
        into.extend_from_slice(&self.len.to_be_bytes());
    }

    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        Ok(Self {
            region: region(bytes)?,
            offset: word(bytes, 8)?,
            len: word(bytes, 16)?,
        })
    }
}

const REQUEST_TO_SEND: u8 = 1;
const GRANT: u8 = 2;
const ACTIVE: u8 = 3;
const WITHDRAW: u8 = 4;
const READ: u8 = 5;
const WRITTEN: u8 = 6;
const WAS_READ: u8 = 7;

/// The bytes are no message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl<'a> Control<'a> {
    pub(super) fn emit(&self, into: &mut Vec<u8>) {
        into.clear();
        let (op, id) = match *self {
            Self::RequestToSend { id, .. } => (REQUEST_TO_SEND, id),
            Self::Active { handler, .. } => (ACTIVE, handler),
            Self::FollowUp { id, what } => (what.op(), id),
        };
        into.extend_from_slice(&[op, 0, 0, 0]);
        into.extend_from_slice(&id.to_be_bytes());
        match self {
            Self::RequestToSend { bits, len, offer, .. } => {
                into.extend_from_slice(&bits.to_be_bytes());
                into.extend_from_slice(&len.to_be_bytes());
                if let Some(offer) = offer {
                    offer.emit(into);
                }
            }
            Self::Active { data, .. } => into.extend_from_slice(data),
            Self::FollowUp { what, .. } => what.emit(into),
        }
    }

    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (head, rest) = bytes.split_first_chunk::<8>().ok_or(Malformed)?;
        let [op, 0, 0, 0, a, b, c, d] = *head else {
            return Err(Malformed);
        };
        let id = u32::from_be_bytes([a, b, c, d]);
        match op {
            REQUEST_TO_SEND if matches!(rest.len(), 16 | 28) => Ok(Self::RequestToSend {
                id,
                bits: word(rest, 0)?,
                len: word(rest, 8)?,
                offer: Exposure::parse_if_any(rest, 16)?,
            }),
            ACTIVE => Ok(Self::Active {
                handler: id,
                data: rest,
            }),
            _ => Ok(Self::FollowUp {
                id,
                what: FollowUp::parse(op, rest)?,
            }),
        }
    }
}

impl FollowUp {
    fn op(&self) -> u8 {
        match self {
            Self::Grant(_) => GRANT,
            Self::Withdraw => WITHDRAW,
            Self::Read { .. } => READ,
            Self::Written { .. } => WRITTEN,
            Self::WasRead { .. } => WAS_READ,
        }
    }

    fn emit(&self, into: &mut Vec<u8>) {
        match self {
            Self::Grant(Grant {
                region,
                until,
                limit,
                exposure,
            }) => {
                into.extend_from_slice(&region.region.to_be_bytes());
                into.extend_from_slice(&region.key.to_be_bytes());
                into.extend_from_slice(&until.to_be_bytes());
                into.extend_from_slice(&limit.to_be_bytes());
                if let Some(exposure) = exposure {
                    exposure.emit(into);
                }
            }
            Self::Withdraw => {}
            Self::Read { range, from } => {
                range.emit(into);
                from.emit(into);
            }
            Self::Written { range } => range.emit(into),
            Self::WasRead { len } => into.extend_from_slice(&len.to_be_bytes()),
        }
    }

    fn parse(op: u8, rest: &[u8]) -> Result<Self, Malformed> {
        match op {
            GRANT if rest.len() == 24 || rest.len() == 36 => Ok(Self::Grant(Grant {
                region: region(rest)?,
                until: word(rest, 8)?,
                limit: word(rest, 16)?,
                exposure: Exposure::parse_if_any(rest, 24)?,
            })),
            WITHDRAW if rest.is_empty() => Ok(Self::Withdraw),
            READ if rest.len() == 36 => Ok(Self::Read {
                range: Range::parse(rest)?,
                from: Exposure::parse(rest, 24)?,
            }),
            WRITTEN if rest.len() == 24 => Ok(Self::Written {
                range: Range::parse(rest)?,
            }),
            WAS_READ if rest.len() == 8 => Ok(Self::WasRead { len: word(rest, 0)? }),
            _ => Err(Malformed),
        }
    }
}

fn region(bytes: &[u8]) -> Result<RegionId, Malformed> {
    let both = word(bytes, 0)?;
    Ok(RegionId {
        region: (both >> 32) as u32,
        key: both as u32,
    })
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
            1..=7_u8,
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
            let region = RegionId { region: (a >> 32) as u32, key: a as u32 };
            let range = Range { region, offset: b, len: c };
            let exposure = Exposure { address: b ^ c, permission: id };
            let control = match op {
                1 => Control::RequestToSend {
                    id,
                    bits: a,
                    len: b,
                    offer: (id % 2 == 0).then_some(exposure),
                },
                3 => Control::Active { handler: id, data: &data },
                _ => Control::FollowUp { id, what: match op {
                    2 => FollowUp::Grant(Grant {
                        region,
                        until: b,
                        limit: c,
                        exposure: (id % 2 == 0).then_some(exposure),
                    }),
                    4 => FollowUp::Withdraw,
                    5 => FollowUp::Read { range, from: exposure },
                    6 => FollowUp::Written { range },
                    _ => FollowUp::WasRead { len: a },
                }},
            };
            let mut bytes = Vec::new();
            control.emit(&mut bytes);
            prop_assert_eq!(Control::parse(&bytes), Ok(control));
            if op != 3 {
                for len in 0..bytes.len() {
                    // (A request or grant without the rest is one without exposure.)
                    if matches!((op, len), (1, 24) | (2, 32)) {
                        continue;
                    }
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
