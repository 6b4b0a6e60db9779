#![expect(unsafe_code, reason = "descriptions are received into memory of their own")]
//! A collective of descriptions that precedes each collective: all ranks compare what they have called.

use alloc::{sync::Arc, vec, vec::Vec};
use std::sync::OnceLock;

use crate::mpi::{
    Rank,
    called::{Called, Mismatch, NAME, operation_code},
    collectives::{Blocks, Call, Collective, Role},
    datatype::{Datatype, Kind, Signature},
    engine::regions::{Address, Buffers, Memory, Region},
    operation::Operation,
};

/// Bytes of a description.
const LEN: usize = 64;

/// Result of the comparison: empty as long as all calls match.
pub(in crate::mpi::engine) type Verdict = OnceLock<Mismatch>;

/// Description of a rank's call. `kind` is that of all elements, if they have one; `signature` and `bytes` are set if
/// all ranks must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Description {
    name: [u8; NAME],
    root: Rank,
    operation: u8,
    kind: Option<Kind>,
    /// Signature of the block that is the same at all ranks; `None` if blocks may differ.
    signature: Option<Signature>,
    bytes: u64,
}

impl Description {
    fn new(name: &str, call: &Call<'_>, buffers: &Buffers<'_>, operation: Option<&Operation>, rank: usize) -> Self {
        let mut text = [0; NAME];
        let len = name.len().min(NAME);
        text[..len].copy_from_slice(&name.as_bytes()[..len]);
        let operation = operation_code(operation.map(Operation::as_predefined));
        let part = part(call, buffers, rank);
        let (kind, signature, bytes) = match part {
            Part::None => (None, None, 0),
            Part::Kind(datatype) => (datatype.element_kind(), None, 0),
            Part::Same(count, datatype) => (
                datatype.element_kind(),
                Some(datatype.signature(count)),
                count.saturating_mul(datatype.size()),
            ),
        };
        Self {
            name: text,
            root: call.root().map_or(-1, |root| root as Rank),
            operation,
            kind,
            signature,
            bytes,
        }
    }

    fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let signature = self.signature.unwrap_or(Signature::EMPTY);
        bytes[..NAME].copy_from_slice(&self.name);
        bytes[32..36].copy_from_slice(&self.root.to_be_bytes());
        bytes[36] = self.operation;
        bytes[37] = self.kind.map_or(0, |kind| kind as u8 + 1);
        bytes[38] = self.signature.is_some().into();
        bytes[40..48].copy_from_slice(&signature.count.to_be_bytes());
        bytes[48..56].copy_from_slice(&signature.hash.to_be_bytes());
        bytes[56..].copy_from_slice(&self.bytes.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8; LEN]) -> Self {
        let number = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(eight)
        };
        let (mut name, mut root) = ([0; NAME], [0; 4]);
        name.copy_from_slice(&bytes[..NAME]);
        root.copy_from_slice(&bytes[32..36]);
        let kind = usize::from(bytes[37]).checked_sub(1);
        let signature = Signature {
            count: number(40),
            hash: number(48),
        };
        Self {
            name,
            root: Rank::from_be_bytes(root),
            operation: bytes[36],
            kind: kind.and_then(|kind| Kind::ALL.get(kind).copied()),
            signature: (bytes[38] != 0).then_some(signature),
            bytes: number(56),
        }
    }

    fn is_untyped(&self) -> bool {
        matches!(self.kind, Some(Kind::Byte | Kind::Packed))
    }

    /// Whether both ranks have called the same collective, as far as this can be told.
    fn fits(&self, other: &Self) -> bool {
        if (self.name, self.root, self.operation) != (other.name, other.root, other.operation) {
            return false;
        }
        let untyped = self.is_untyped() || other.is_untyped();
        match (self.signature, other.signature) {
            (Some(_), Some(_)) if untyped => self.bytes == other.bytes,
            (Some(own), Some(others)) => own == others,
            _ => untyped || self.kind.is_none() || other.kind.is_none() || self.kind == other.kind,
        }
    }

    fn called(&self) -> Called {
        let len = self.name.iter().position(|byte| *byte == 0).unwrap_or(NAME);
        let name = core::str::from_utf8(&self.name[..len]).unwrap_or("");
        let count = self.signature.map_or(0, |signature| signature.count);
        // A pair counts as two elements in a signature.
        let pairs = self.kind.is_some_and(|kind| kind.pair().is_some());
        let count = if pairs { count / 2 } else { count };
        Called::new(name, self.root, self.operation, count, self.kind)
    }
}

/// The part of a rank's buffers that must match those of the others.
enum Part<'a> {
    /// None that could be compared.
    None,
    /// So many elements, at all ranks.
    Same(u64, &'a Datatype),
    /// Elements of the same kind, but not as many at each rank.
    Kind(&'a Datatype),
}

fn part<'a>(call: &Call<'_>, buffers: &Buffers<'a>, rank: usize) -> Part<'a> {
    let (input, output) = (&buffers.input, &buffers.output);
    let datatype = |region: &Region<'a>| match region {
        Region::Plain(_, datatype) => Some(*datatype),
        Region::None | Region::Each(..) => None,
    };
    let same =
        |count: usize, region| datatype(region).map_or(Part::None, |datatype| Part::Same(count as u64, datatype));
    let kind = |region| datatype(region).map_or(Part::None, Part::Kind);
    let is_even = !call.collective().may_be_uneven();
    // Of a collective with a root, the root has all blocks, which may differ in length, and the others their own.
    let blocks = |blocks: &Blocks<'_>, region| match blocks {
        Blocks::Even { count } => same(*count, region),
        _ if blocks.total(0) > 0 => kind(region),
        _ => Part::None,
    };
    let own = |count: usize, region| match count {
        _ if is_even => same(count, region),
        0 => Part::None,
        _ => kind(region),
    };
    let vector = |count| same(count, if matches!(output, Region::None) { input } else { output });
    let has_blocks = call.has_blocks(rank);
    match call.roles() {
        _ if call.is_among_neighbours() => Part::None,
        (Role::Packed, _) => datatype(output).map_or(Part::None, |datatype| {
            let bytes = call.output.single() as u64;
            Part::Same(bytes.checked_div(datatype.size()).unwrap_or(0), datatype)
        }),
        (Role::Vector, _) => vector(call.output.single()),
        (Role::Divided, _) => vector(call.output.total(1)),
        (Role::Block, Role::Blocks) if has_blocks => blocks(&call.output, output),
        (Role::Block, Role::Blocks) => own(call.input.single(), input),
        (Role::Blocks, Role::Block) if has_blocks => blocks(&call.input, input),
        (Role::Blocks, Role::Block) => own(call.output.single(), output),
        (_, Role::Blocks) if is_even => same(call.output.single(), output),
        // Each pair of ranks may exchange elements of its own types.
        _ => Part::None,
    }
}

/// The memory of the preceding collective: the descriptions of all ranks, and the result of the comparison.
pub(in crate::mpi::engine) struct Agreement {
    /// The rank's own description, then those of all ranks. (Words, for alignment.)
    memory: Vec<u64>,
    rank: usize,
    size: usize,
    verdict: Arc<Verdict>,
}

impl Agreement {
    /// Bytes that each rank sends to each other one.
    pub(in crate::mpi::engine) const BYTES: usize = LEN;

    /// For rank `rank` of `size`.
    pub(in crate::mpi::engine) fn new(
        name: &str,
        call: &Call<'_>,
        buffers: &Buffers<'_>,
        operation: Option<&Operation>,
        (rank, size): (usize, usize),
    ) -> Self {
        let mut memory = vec![0; (1 + size) * LEN / 8];
        let own = Description::new(name, call, buffers, operation, rank).encode();
        for (word, bytes) in memory.iter_mut().zip(own.chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(bytes);
            *word = u64::from_ne_bytes(eight);
        }
        Self {
            memory,
            rank,
            size,
            verdict: Arc::default(),
        }
    }

    /// The call that exchanges descriptions.
    pub(in crate::mpi::engine) fn call() -> Call<'static> {
        Call::of(Collective::Allgather).with_count(LEN)
    }

    /// Its input and output. The memory stays in place when this value is moved.
    pub(in crate::mpi::engine) fn regions(&mut self) -> [Memory; 2] {
        let base = self.memory.as_mut_ptr().cast::<u8>();
        let at = |offset| {
            let datatype = Datatype::predefined(Kind::Byte);
            // SAFETY: the memory holds all descriptions and one more.
            Memory::Plain(Address(unsafe { base.add(offset) }), datatype)
        };
        [at(0), at(LEN)]
    }

    pub(in crate::mpi::engine) fn verdict(&self) -> Arc<Verdict> {
        Arc::clone(&self.verdict)
    }

    fn of(&self, rank: usize) -> Description {
        let mut bytes = [0; LEN];
        let words = self.memory.iter().skip((1 + rank) * LEN / 8);
        for (eight, word) in bytes.chunks_exact_mut(8).zip(words) {
            eight.copy_from_slice(&word.to_ne_bytes());
        }
        Description::decode(&bytes)
    }

    /// Whether all ranks have called the same; called when all descriptions have arrived.
    pub(in crate::mpi::engine) fn holds(&self) -> bool {
        let first = self.of(0);
        let mine = (self.rank, 0);
        // First this rank with rank 0, so that its own mistake is reported as such; then every rank with rank 0; then,
        // since untyped bytes match everything, each with the rank before it.
        let pairs = core::iter::once(mine)
            .chain((1..self.size).map(|rank| (rank, 0)))
            .chain((1..self.size).map(|rank| (rank, rank - 1)));
        for (rank, other) in pairs {
            let called = self.of(rank);
            let others = if other == 0 { first } else { self.of(other) };
            if !called.fits(&others) {
                let mismatch = Mismatch {
                    rank: rank as Rank,
                    called: called.called(),
                    other: other as Rank,
                    other_called: others.called(),
                };
                // It is set once.
                let _ = self.verdict.set(mismatch);
                return false;
            }
        }
        true
    }
}
