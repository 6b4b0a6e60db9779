//! Messages between engines about windows: the contents of active messages.
//!
//! ```text
//! 0        1        2        3        4                         8                         16
//! +--------+--------+--------+--------+-------------------------+-------------------------+
//! |   op   |    a   |    b   |  runs  |           id            |        window           |
//! +--------+--------+--------+--------+-------------------------+-------------------------+
//! ```
//!
//! and then `runs` *runs*: offset in the window (8 bytes) and length (4). Numbers are in network byte order, data in
//! the byte order of the host.
//!
//! | op | | a | b | after the runs |
//! |---|---|---|---|---|
//! | 1 | accumulate | kind of the elements | operation | the operand |
//! | 2 | accumulate and fetch the old value | kind | operation | the operand; nothing if it is not needed |
//! | 3 | compare and swap | kind | 0 | the value to compare with, the new value |
//! | 4 | get | 0 | 0 | the region for the bytes, which are placed one run after the other |
//! | 5 | lock | 1 if exclusive | 0 | |
//! | 6, 7, 8 | unlock, post, complete | 0 | 0 | |
//! | 9 | answer to the request with this id | status | 0 | the fetched value. (No window, no runs.) |
//!
//! Kinds and operations are numbered in the order of their declaration. Window and region are region ids with their
//! keys.

use alloc::vec::Vec;

use crate::mpi::{
    datatype::{Kind, Sort},
    operation::Predefined,
};

/// Most runs in one message.
pub(super) const MAX_RUNS: usize = 64;
/// Most bytes of data in one message: with runs and headers it fits the credit that is reserved for the protocol.
pub(super) const MAX_DATA: u64 = 8 << 10;
/// Most bytes that one get may ask for.
pub(super) const MAX_GET: u64 = 1 << 20;

/// A contiguous range of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Offset from the beginning of the window, bytes; in a dynamic window the address.
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// Runs as they are written in a message: never empty ones, at least one, at most [`MAX_RUNS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Runs<'a>(&'a [u8]);

impl<'a> Runs<'a> {
    const LEN: usize = 12;

    pub(super) fn push(into: &mut Vec<u8>, run: Run) {
        into.extend_from_slice(&run.offset.to_be_bytes());
        into.extend_from_slice(&run.len.to_be_bytes());
    }

    /// Checks encoded runs.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let runs = Self(bytes);
        let whole = bytes.len().is_multiple_of(Self::LEN) && (1..=MAX_RUNS).contains(&(bytes.len() / Self::LEN));
        if whole && runs.iter().all(|run| run.len > 0) {
            Ok(runs)
        } else {
            Err(Malformed)
        }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Run> + 'a {
        self.0.chunks_exact(Self::LEN).map(|run| Run {
            offset: word(run),
            len: u32::from_be_bytes([run[8], run[9], run[10], run[11]]),
        })
    }

    /// Bytes of all runs.
    pub(super) fn total(self) -> u64 {
        self.iter().map(|run| u64::from(run.len)).sum()
    }
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The operation was done.
    Done,
    /// The range is not completely inside the window; nothing was done.
    Range,
    /// There is no such window.
    Window,
    /// The request exceeds a limit, or contradicts the state of the window.
    Refused,
}

impl Status {
    const ALL: [Self; 4] = [Self::Done, Self::Range, Self::Window, Self::Refused];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// A request for a window of the receiver.
    Request { id: u32, window: u64, request: Request<'a> },
    /// The answer to the request with this id.
    Answer { id: u32, status: Status, data: &'a [u8] },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// `operation` is defined for `kind`; the runs are whole elements, at most [`MAX_DATA`] bytes; the operand is as
    /// long, or absent if the operation is `MPI_NO_OP`.
    Accumulate {
        kind: Kind,
        operation: Predefined,
        fetch: bool,
        runs: Runs<'a>,
        operand: &'a [u8],
    },
    /// One run of the length of `kind`; the operands are two such elements.
    Swap {
        kind: Kind,
        runs: Runs<'a>,
        operands: &'a [u8],
    },
    /// At most [`MAX_GET`] bytes.
    Get {
        runs: Runs<'a>,
        region: u64,
    },
    Lock {
        exclusive: bool,
    },
    Unlock,
    Post,
    Complete,
}

/// The data are no message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Whether compare-and-swap is defined for this kind (MPI 12.3.4), as far as elements
/// have at most 8 bytes.
pub(super) fn swaps(kind: Kind) -> bool {
    let has_bits = matches!(kind.sort(), Sort::Integer | Sort::Logical | Sort::Byte);
    has_bits && kind.size() <= 8
}

const ANSWER: u8 = 9;

impl<'a> Message<'a> {
    pub(super) fn emit(&self, into: &mut Vec<u8>) {
        into.clear();
        let (id, window, request) = match *self {
            Self::Answer { id, status, data } => {
                into.extend_from_slice(&[ANSWER, status as u8, 0, 0]);
                into.extend_from_slice(&id.to_be_bytes());
                into.extend_from_slice(data);
                return;
            }
            Self::Request { id, window, request } => (id, window, request),
        };
        let none = Runs(&[]);
        let (op, a, b, runs) = match request {
            Request::Accumulate {
                kind,
                operation,
                fetch,
                runs,
                ..
            } => (1 + u8::from(fetch), kind as u8, operation as u8, runs),
            Request::Swap { kind, runs, .. } => (3, kind as u8, 0, runs),
            Request::Get { runs, .. } => (4, 0, 0, runs),
            Request::Lock { exclusive } => (5, exclusive.into(), 0, none),
            Request::Unlock => (6, 0, 0, none),
            Request::Post => (7, 0, 0, none),
            Request::Complete => (8, 0, 0, none),
        };
        into.extend_from_slice(&[op, a, b, (runs.0.len() / Runs::LEN) as u8]);
        into.extend_from_slice(&id.to_be_bytes());
        into.extend_from_slice(&window.to_be_bytes());
        into.extend_from_slice(runs.0);
        match request {
            Request::Accumulate { operand, .. } => into.extend_from_slice(operand),
            Request::Swap { operands, .. } => into.extend_from_slice(operands),
            Request::Get { region, .. } => into.extend_from_slice(&region.to_be_bytes()),
            Request::Lock { .. } | Request::Unlock | Request::Post | Request::Complete => {}
        }
    }

    /// Total: any bytes give a message that keeps the conditions stated at [`Request`], or an error.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (&[op, a, b, runs, i, j, k, l], rest) = bytes.split_first_chunk::<8>().ok_or(Malformed)?;
        let id = u32::from_be_bytes([i, j, k, l]);
        if op == ANSWER {
            let status = *Status::ALL.get(usize::from(a)).ok_or(Malformed)?;
            let data = rest;
            return match (b, runs) {
                (0, 0) => Ok(Self::Answer { id, status, data }),
                _ => Err(Malformed),
            };
        }
        let (window, rest) = rest.split_first_chunk::<8>().ok_or(Malformed)?;
        let window = u64::from_be_bytes(*window);
        let (runs, rest) = rest.split_at_checked(usize::from(runs) * Runs::LEN).ok_or(Malformed)?;
        let request = match op {
            1..=4 => Request::parse_access(op, a, b, Runs::new(runs)?, rest)?,
            5..=8 if !runs.is_empty() || !rest.is_empty() => return Err(Malformed),
            5 if a < 2 && b == 0 => Request::Lock { exclusive: a == 1 },
            6 if (a, b) == (0, 0) => Request::Unlock,
            7 if (a, b) == (0, 0) => Request::Post,
            8 if (a, b) == (0, 0) => Request::Complete,
            _ => return Err(Malformed),
        };
        Ok(Self::Request { id, window, request })
    }
}

impl<'a> Request<'a> {
    fn parse_access(op: u8, a: u8, b: u8, runs: Runs<'a>, rest: &'a [u8]) -> Result<Self, Malformed> {
        let total = runs.total();
        if op == 4 {
            let region = <[u8; 8]>::try_from(rest).map_err(|_| Malformed)?;
            let region = u64::from_be_bytes(region);
            return match (a, b) {
                (0, 0) if total <= MAX_GET => Ok(Self::Get { runs, region }),
                _ => Err(Malformed),
            };
        }
        let kind = *Kind::ALL.get(usize::from(a)).ok_or(Malformed)?;
        let whole = total <= MAX_DATA && total.is_multiple_of(kind.size());
        if op == 3 {
            let one = total == kind.size() && runs.iter().count() == 1 && rest.len() as u64 == 2 * total;
            return if swaps(kind) && one && b == 0 {
                Ok(Self::Swap {
                    kind,
                    runs,
                    operands: rest,
                })
            } else {
                Err(Malformed)
            };
        }
        let operation = *Predefined::ALL.get(usize::from(b)).ok_or(Malformed)?;
        let operand = rest.len() as u64 == total || rest.is_empty() && operation == Predefined::NoOp;
        if whole && operand && operation.is_defined_for(kind) {
            Ok(Self::Accumulate {
                kind,
                operation,
                fetch: op == 2,
                runs,
                operand: rest,
            })
        } else {
            Err(Malformed)
        }
    }
}

/// The first eight bytes.
fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    /// Places, and how many elements lie there.
    fn runs() -> impl Strategy<Value = Vec<(u64, u32)>> {
        prop::collection::vec((any::<u64>(), 1..30_u32), 1..=MAX_RUNS)
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            (op, id, window, region) in (0..8_u8, any::<u32>(), any::<u64>(), any::<u64>()),
            places in runs(),
            (kind, operation) in (0..Kind::ALL.len(), 0..Predefined::ALL.len()),
            data: Vec<u8>,
        ) {
            let (kind, operation) = (Kind::ALL[kind], Predefined::ALL[operation]);
            let mut bytes = Vec::new();
            for (offset, elements) in places {
                Runs::push(&mut bytes, Run { offset, len: elements * kind.size() as u32 });
            }
            let runs = Runs::new(&bytes).unwrap();
            let zeros = vec![0; runs.total() as usize];
            let mut one = Vec::new();
            Runs::push(&mut one, Run { offset: region, len: kind.size() as u32 });
            let operands = vec![7; 2 * kind.size() as usize];
            let request = match op {
                0 | 1 => Request::Accumulate { kind, operation, fetch: op == 1, runs, operand: &zeros },
                2 => Request::Swap { kind, runs: Runs::new(&one).unwrap(), operands: &operands },
                3 => Request::Get { runs, region },
                4 => Request::Lock { exclusive: id % 2 == 0 },
                5 => Request::Unlock,
                6 => Request::Post,
                _ => Request::Complete,
            };
            let legal = match op {
                0 | 1 => operation.is_defined_for(kind) && runs.total() <= MAX_DATA,
                2 => swaps(kind),
                _ => true,
            };
            let message = Message::Request { id, window, request };
            let mut bytes = Vec::new();
            message.emit(&mut bytes);
            prop_assert_eq!(Message::parse(&bytes), if legal { Ok(message) } else { Err(Malformed) });
            let answer = Message::Answer { id, status: Status::ALL[usize::from(op % 4)], data: &data };
            answer.emit(&mut bytes);
            prop_assert_eq!(Message::parse(&bytes), Ok(answer));
        }

        #[test]
        fn parsing_is_total(mut bytes in prop::collection::vec(any::<u8>(), 0..200), op in 0..12_u8, few: bool) {
            if let Some(first) = bytes.first_mut() {
                *first = op;
            }
            if few && bytes.len() > 3 {
                bytes[1] %= 20;
                bytes[2] %= 14;
                bytes[3] %= 10;
            }
            if let Ok(message) = Message::parse(&bytes) {
                let mut again = Vec::new();
                message.emit(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
