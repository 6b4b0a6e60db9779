#![expect(unsafe_code, reason = "messages lie where the caller's pointers and datatypes say")]
//! The caller's memory: what messages are sent from and received into.

use alloc::{sync::Arc, vec::Vec};
use core::{mem::MaybeUninit, slice};

use bytes::Bytes;

use crate::{
    messaging::{Landing, tagged::Content},
    mpi::datatype::{Datatype, Signature},
    span::Span,
    sync,
};

/// Bytes packed at a time when data can not be sent from where they lie.
const PACK: u64 = 64 << 10;
/// Contiguous runs of at least this many bytes are sent from where they lie.
const RUN: u64 = 4 << 10;

/// Elements of a datatype at some address.
#[derive(Clone, Debug)]
struct Piece {
    base: *mut u8,
    count: u64,
    datatype: Datatype,
    /// The range of the packed bytes: `len` of them from `from` on.
    from: u64,
    len: u64,
    /// Keeps the memory alive, if the program does not.
    owner: Option<Owner>,
}

/// Elements in memory of the caller: of one datatype at one address, or several such pieces one after the other.
///
/// The caller of [`Buffer::new`] answers for the memory, so using a buffer is safe.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pieces: Pieces,
}

/// Keeps memory alive.
pub(super) type Owner = Arc<super::array::Memory>;

#[derive(Clone, Debug)]
enum Pieces {
    One(Piece),
    Many(Arc<[Piece]>),
}

// SAFETY: `Buffer::new` demands that the memory may be used from any thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// `count` elements of `datatype` at `base`; `None` if they do not fit into the address space.
    ///
    /// # Safety
    /// As long as this value, its clones or anything made from it exist: the data of these elements are initialised
    /// memory that may be read through `base` from any thread. If the buffer is received into, the memory may also be
    /// written, and no other code uses it meanwhile; otherwise no other code writes to it.
    pub(crate) unsafe fn new(base: *mut u8, count: u64, datatype: &Datatype) -> Option<Self> {
        let len = datatype.packed_size(count).ok()?;
        datatype.fits(count).then(|| Self {
            pieces: Pieces::One(Piece {
                base,
                count,
                datatype: datatype.clone(),
                from: 0,
                len,
                owner: None,
            }),
        })
    }

    /// With an owner that keeps the memory, which is one piece, alive as long as this buffer or anything made from it
    /// exists.
    pub(super) fn owned_by(mut self, owner: Owner) -> Self {
        if let Pieces::One(piece) = &mut self.pieces {
            piece.owner = Some(owner);
        }
        self
    }

    /// These buffers one after the other.
    pub(crate) fn join(mut buffers: Vec<Self>) -> Self {
        if buffers.len() == 1
            && let Some(one) = buffers.pop()
        {
            return one;
        }
        let pieces = buffers
            .iter()
            .flat_map(|buffer| buffer.pieces().iter().cloned())
            .collect();
        Self {
            pieces: Pieces::Many(pieces),
        }
    }

    /// The packed bytes from `from` on, `len` of them; `None` if the buffer has fewer, or is not one piece.
    pub(crate) fn range(&self, from: u64, len: u64) -> Option<Self> {
        let Pieces::One(piece) = &self.pieces else { return None };
        let fits = from.checked_add(len).is_some_and(|end| end <= piece.len);
        fits.then(|| Self {
            pieces: Pieces::One(Piece {
                from: piece.from + from,
                len,
                ..piece.clone()
            }),
        })
    }

    fn pieces(&self) -> &[Piece] {
        match &self.pieces {
            Pieces::One(piece) => slice::from_ref(piece),
            Pieces::Many(pieces) => pieces,
        }
    }

    /// Length of the packed data, bytes.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        match &self.pieces {
            Pieces::One(piece) => piece.len,
            Pieces::Many(pieces) => pieces.iter().map(|piece| piece.len).sum(),
        }
    }

    /// The type signature of the data, if the buffer consists of whole elements.
    pub(super) fn signature(&self) -> Signature {
        let signatures = self.pieces().iter().map(|piece| piece.datatype.signature(piece.count));
        signatures.fold(Signature::EMPTY, Signature::then)
    }

    /// The data, if they are contiguous.
    pub(crate) fn as_slice(&self) -> Option<&[u8]> {
        match &self.pieces {
            Pieces::One(piece) => piece.as_slice(),
            Pieces::Many(pieces) if pieces.is_empty() => Some(&[]),
            _ => None,
        }
    }

    /// Calls `with` with the data, packed into `scratch` if they are not contiguous.
    pub(crate) fn with_packed<R>(&self, scratch: &mut Vec<u8>, with: impl FnOnce(&[u8]) -> R) -> R {
        if let Some(data) = self.as_slice() {
            return with(data);
        }
        scratch.clear();
        self.pack(0, self.len(), scratch);
        with(scratch)
    }

    /// Appends the packed bytes from `offset` on, at most `len`, to `out`.
    pub(super) fn pack(&self, offset: u64, len: u64, out: &mut Vec<u8>) {
        let len = len.min(self.len().saturating_sub(offset)) as usize;
        out.reserve(len);
        let filled = out.len() + self.pack_to(offset, &mut out.spare_capacity_mut()[..len]);
        // SAFETY: `pack_to` has just initialised that much of the spare capacity.
        unsafe { out.set_len(filled) };
    }

    /// Writes the packed bytes from `offset` on to `room`, which is no part of this buffer. Gives how many.
    fn pack_to(&self, mut offset: u64, room: &mut [MaybeUninit<u8>]) -> usize {
        let mut done = 0;
        for piece in self.pieces() {
            if offset >= piece.len {
                offset -= piece.len;
                continue;
            }
            let take = ((room.len() - done) as u64).min(piece.len - offset) as usize;
            let part = &mut room[done..done + take];
            // SAFETY: by `new`'s contract the data may be read; and `room` is other memory.
            done += unsafe {
                piece
                    .datatype
                    .pack_at(piece.base, piece.count, piece.from + offset, part)
            };
            offset = 0;
            if done == room.len() {
                break;
            }
        }
        done
    }

    /// Copies elements: the bytes of `from` become those of this buffer, up to the length of the shorter one.
    pub(crate) fn copy_from(&mut self, from: &Self, scratch: &mut Vec<u8>) {
        let (mut at, len) = (0, from.len().min(self.len()));
        if let Some(data) = from.as_slice() {
            self.place(0, Span::new(&data[..len as usize]));
            return;
        }
        if let Pieces::One(piece) = &self.pieces
            && let Some(run) = piece
                .datatype
                .segments(piece.count, piece.from..piece.from + len)
                .next()
            && run.len == len
        {
            let start = piece
                .base
                .wrapping_offset(run.offset as isize)
                .cast::<MaybeUninit<u8>>();
            // SAFETY: by `new`'s contract these are data of the elements, which no other code uses; so `from` is other
            // memory.
            from.pack_to(0, unsafe { slice::from_raw_parts_mut(start, len as usize) });
            return;
        }
        while at < len {
            scratch.clear();
            from.pack(at, PACK.min(len - at), scratch);
            self.place(at, Span::new(scratch));
            at += scratch.len() as u64;
        }
    }

    /// Address, count and datatype, if it is one piece.
    pub(crate) fn piece(&self) -> Option<(*mut u8, u64, &Datatype)> {
        match &self.pieces {
            Pieces::One(piece) => Some((piece.base, piece.count, &piece.datatype)),
            Pieces::Many(_) => None,
        }
    }
}

impl Piece {
    /// The data, if they are contiguous.
    #[inline]
    fn as_slice(&self) -> Option<&[u8]> {
        if self.len == 0 {
            return Some(&[]);
        }
        let begin = self.datatype.begin_of_run(self.count)?;
        let start = self.base.wrapping_offset(begin as isize + self.from as isize);
        // SAFETY: by `new`'s contract these are data of the elements.
        Some(unsafe { slice::from_raw_parts(start, self.len as usize) })
    }

    /// The contiguous run of memory that holds byte `offset`: its address as an offset from `base`, and its bytes from
    /// there on, at most `max`.
    fn run(&self, offset: u64, max: u64) -> Option<(i64, &[u8])> {
        if offset >= self.len {
            return Some((0, &[]));
        }
        let end = (offset + max).min(self.len);
        let (place, len) = match self.datatype.begin_of_run(self.count) {
            Some(begin) => (begin + (self.from + offset) as i64, end - offset),
            None => {
                let mut segments = self.datatype.segments(self.count, self.from + offset..self.from + end);
                let segment = segments.next()?;
                (segment.offset, segment.len)
            }
        };
        let start = self.base.wrapping_offset(place as isize);
        // SAFETY: by `new`'s contract these are data of the elements.
        Some((place, unsafe { slice::from_raw_parts(start, len as usize) }))
    }
}

impl Piece {
    /// Unpacks `bytes` to where the packed bytes from `offset` on belong.
    #[inline]
    fn place(&self, offset: u64, bytes: Span<'_>) {
        let Some(left) = self.len.checked_sub(offset) else {
            return;
        };
        let len = bytes.len().min(left as usize);
        // SAFETY: by `Buffer::new`'s contract the data may be written, and no other code uses them, so `bytes` is other
        // memory.
        unsafe {
            self.datatype
                .unpack_span_at(self.base, self.count, self.from + offset, bytes.part(0..len))
        };
    }
}

impl Landing for Buffer {
    fn capacity(&self) -> u64 {
        self.len()
    }

    fn place(&mut self, mut offset: u64, mut bytes: Span<'_>) {
        if let Pieces::One(piece) = &self.pieces {
            return piece.place(offset, bytes);
        }
        for piece in self.pieces() {
            if offset >= piece.len {
                offset -= piece.len;
                continue;
            }
            let (here, rest) = bytes.split_at(bytes.len().min((piece.len - offset) as usize));
            piece.place(offset, here);
            bytes = rest;
            offset = 0;
            if bytes.is_empty() {
                break;
            }
        }
    }
}

/// Counts the references to a send's memory that exist outside of the send.
#[derive(Clone, Debug, Default)]
pub(super) struct Loans(sync::Loans);

impl Loans {
    /// Whether all references have been given back.
    pub(super) fn are_back(&self) -> bool {
        self.0.are_back()
    }

    /// Lends memory by reference; it counts as lent until the result and its clones are dropped.
    ///
    /// # Safety
    /// Until all loans are back, this is initialised memory that may be read from any thread and is not written to.
    pub(super) unsafe fn lend(&self, start: *const u8, len: usize, owner: Option<Owner>) -> Bytes {
        Bytes::from_owner(Lent {
            start,
            len,
            _lease: self.0.lend(),
            _owner: owner,
        })
    }
}

/// The content of a rendezvous send.
pub(super) struct Lender {
    buffer: Buffer,
    loans: Loans,
}

impl Lender {
    pub(super) fn new(buffer: Buffer) -> (Self, Loans) {
        let loans = Loans::default();
        let lender = Self {
            buffer,
            loans: loans.clone(),
        };
        (lender, loans)
    }

    pub(super) fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

/// Lent memory.
struct Lent {
    start: *const u8,
    len: usize,
    /// Keeps count: the owner of the memory keeps it until all loans are back.
    _lease: sync::Lease,
    _owner: Option<Owner>,
}

// SAFETY: the memory may be read from any thread, by the contract of `Loans::lend`.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: by the contract of `Loans::lend`, which holds at least until the lease is back.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl Content for Lender {
    fn len(&self) -> u64 {
        self.buffer.len()
    }

    fn chunk(&mut self, offset: u64, max: u64) -> Bytes {
        let mut at = offset;
        for piece in self.buffer.pieces() {
            if at >= piece.len {
                at -= piece.len;
                continue;
            }
            if let Some((_, run)) = piece.run(at, max)
                && (run.len() as u64 >= RUN.min(max))
            {
                // SAFETY: by `Buffer::new`'s contract, which holds as long as loans are out.
                return unsafe { self.loans.lend(run.as_ptr(), run.len(), piece.owner.clone()) };
            }
            break;
        }
        let mut packed = Vec::new();
        self.buffer.pack(offset, max.min(PACK), &mut packed);
        packed.into()
    }
}
