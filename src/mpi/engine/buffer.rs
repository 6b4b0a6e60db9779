#![expect(unsafe_code, reason = "messages lie where the caller's pointers and datatypes say")]
//! The caller's memory, from which messages are sent and into which they are received.

use alloc::{sync::Arc, vec::Vec};
use core::{
    mem::MaybeUninit,
    ptr::{self, NonNull},
    slice,
};

use bytes::Bytes;

use super::packed::{PACK, Packs, UNDER_WAY};
use crate::{
    messaging::{MemoryRegion, tagged::Content},
    mpi::datatype::{Datatype, Kind, Signature},
    span::Span,
    sync,
};

/// Contiguous runs of at least this many bytes are sent from where they lie.
const RUN: u64 = 4 << 10;

/// A part of a buffer: elements of one datatype at one address.
#[derive(Clone, Debug)]
enum Part {
    /// Their data are one run.
    Run(Run),
    Typed(Arc<Typed>),
}

#[derive(Clone, Debug)]
struct Run {
    start: *mut u8,
    len: u64,
    /// Keeps the memory alive, if the program does not.
    owner: Option<Owner>,
}

#[derive(Clone, Debug)]
struct Typed {
    base: *mut u8,
    count: u64,
    datatype: Datatype,
    /// The range of the packed bytes: `len` of them from `from` on.
    from: u64,
    len: u64,
}

/// Elements in memory of the caller: of one datatype at one address, or several such parts one after the other.
///
/// The caller of [`Buffer::new`] answers for the memory, so using a buffer is safe.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    parts: Parts,
}

/// Keeps memory alive.
pub(super) type Owner = Arc<super::pool::Memory>;

#[derive(Clone, Debug)]
enum Parts {
    One(Part),
    Many(Arc<[Part]>),
}

// (It moves with each message, from hand to hand.)
const _: () = assert!(size_of::<Buffer>() <= 32);

// SAFETY: `Buffer::new` demands that the memory may be used from any thread.
unsafe impl Send for Buffer {}
// SAFETY: as above; through a reference to it nothing but that memory is reached, which is only read.
unsafe impl Send for Typed {}
// SAFETY: as above.
unsafe impl Sync for Typed {}

impl Buffer {
    /// No bytes.
    pub(crate) const NOTHING: Self = Self::of(Part::Run(Run {
        start: ptr::dangling_mut(),
        len: 0,
        owner: None,
    }));

    /// `count` elements of `datatype` at `base`; `None` if they do not fit into the address space.
    ///
    /// # Safety
    /// As long as this value, its clones or anything made from it exist: the data of these elements are initialised
    /// memory that may be read through `base` from any thread. If the buffer is received into, the memory may also be
    /// written, and no other code uses it meanwhile; otherwise no other code writes to it.
    #[inline]
    pub(crate) unsafe fn new(base: *mut u8, count: u64, datatype: &Datatype) -> Option<Self> {
        match datatype.begin_of_run(count) {
            Some(begin) if datatype.fits(count) => Some(Self::of(Part::Run(Run {
                start: base.wrapping_offset(begin as isize),
                len: datatype.size() * count,
                owner: None,
            }))),
            // SAFETY: the caller's contract.
            _ => unsafe { Self::typed(base, count, datatype) },
        }
    }

    /// The same for a buffer that knows the type of its elements.
    ///
    /// # Safety
    /// See [`new`](Self::new).
    pub(crate) unsafe fn typed(base: *mut u8, count: u64, datatype: &Datatype) -> Option<Self> {
        let len = datatype.packed_size(count).ok()?;
        datatype.fits(count).then(|| {
            Self::of(Part::Typed(Arc::new(Typed {
                base,
                count,
                datatype: datatype.clone(),
                from: 0,
                len,
            })))
        })
    }

    #[inline(always)]
    const fn of(part: Part) -> Self {
        Self {
            parts: Parts::One(part),
        }
    }

    /// With an owner that keeps the memory, which is one run, alive as long as this buffer or anything made from it
    /// exists.
    pub(super) fn owned_by(mut self, owner: Owner) -> Self {
        if let Parts::One(Part::Run(run)) = &mut self.parts {
            run.owner = Some(owner);
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
        let parts = buffers
            .iter()
            .flat_map(|buffer| buffer.parts().iter().cloned())
            .collect();
        Self {
            parts: Parts::Many(parts),
        }
    }

    /// The packed bytes from `from` on, `len` of them; `None` if the buffer has fewer, or is not one part.
    pub(crate) fn range(&self, from: u64, len: u64) -> Option<Self> {
        let Parts::One(part) = &self.parts else { return None };
        let fits = from.checked_add(len).is_some_and(|end| end <= part.len());
        fits.then(|| {
            Self::of(match part {
                Part::Run(run) => Part::Run(Run {
                    start: run.start.wrapping_add(from as usize),
                    len,
                    owner: run.owner.clone(),
                }),
                Part::Typed(typed) => Part::Typed(Arc::new(Typed {
                    from: typed.from + from,
                    len,
                    ..Typed::clone(typed)
                })),
            })
        })
    }

    fn parts(&self) -> &[Part] {
        match &self.parts {
            Parts::One(part) => slice::from_ref(part),
            Parts::Many(parts) => parts,
        }
    }

    /// Length of the packed data, bytes.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        match &self.parts {
            Parts::One(part) => part.len(),
            Parts::Many(parts) => parts.iter().map(Part::len).sum(),
        }
    }

    /// The type signature of the data, if the buffer consists of whole elements. Bytes of a buffer that does not know
    /// their type are bytes.
    pub(super) fn signature(&self) -> Signature {
        let signatures = self.parts().iter().map(|part| match part {
            Part::Run(run) => Datatype::predefined(Kind::Byte).signature(run.len),
            Part::Typed(typed) => typed.datatype.signature(typed.count),
        });
        signatures.fold(Signature::EMPTY, Signature::then)
    }

    /// The data, if they are contiguous.
    #[inline]
    pub(crate) fn as_slice(&self) -> Option<&[u8]> {
        match &self.parts {
            Parts::One(part) => part.as_slice(),
            Parts::Many(parts) if parts.is_empty() => Some(&[]),
            Parts::Many(_) => None,
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
        for part in self.parts() {
            if offset >= part.len() {
                offset -= part.len();
                continue;
            }
            let take = ((room.len() - done) as u64).min(part.len() - offset) as usize;
            done += part.pack_to(offset, &mut room[done..done + take]);
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
        if let Parts::One(part) = &self.parts
            && let Some((start, run)) = part.run(0, len)
            && run == len
        {
            // SAFETY: by `new`'s contract these are data of the elements, which no other code uses; so `from` is other
            // memory.
            from.pack_to(0, unsafe { slice::from_raw_parts_mut(start.cast(), len as usize) });
            return;
        }
        while at < len {
            scratch.clear();
            from.pack(at, (PACK as u64).min(len - at), scratch);
            self.place(at, Span::new(scratch));
            at += scratch.len() as u64;
        }
    }

    /// Address, count and datatype, if it is one part.
    pub(crate) fn elements(&self) -> Option<(*mut u8, u64, Datatype)> {
        match &self.parts {
            Parts::One(Part::Run(run)) => Some((run.start, run.len, Datatype::predefined(Kind::Byte))),
            Parts::One(Part::Typed(typed)) => Some((typed.base, typed.count, typed.datatype.clone())),
            Parts::Many(_) => None,
        }
    }
}

impl Part {
    #[inline(always)]
    fn len(&self) -> u64 {
        match self {
            Self::Run(run) => run.len,
            Self::Typed(typed) => typed.len,
        }
    }

    /// The data, if they are contiguous.
    #[inline]
    fn as_slice(&self) -> Option<&[u8]> {
        if self.len() == 0 {
            return Some(&[]);
        }
        let start = match self {
            Self::Run(run) => run.start,
            Self::Typed(typed) => {
                let begin = typed.datatype.begin_of_run(typed.count)?;
                typed.base.wrapping_offset(begin as isize + typed.from as isize)
            }
        };
        // SAFETY: by `new`'s contract these are data of the elements.
        Some(unsafe { slice::from_raw_parts(start, self.len() as usize) })
    }

    /// The contiguous run of memory that holds byte `offset`: the address of that byte, and how many there are from there
    /// on, at most `max`. `None`: there are no more.
    fn run(&self, offset: u64, max: u64) -> Option<(*mut u8, u64)> {
        let end = offset.saturating_add(max).min(self.len());
        if offset >= end {
            return None;
        }
        match self {
            Self::Run(run) => Some((run.start.wrapping_add(offset as usize), end - offset)),
            Self::Typed(typed) => {
                let mut segments = typed
                    .datatype
                    .segments(typed.count, typed.from + offset..typed.from + end);
                let segment = segments.next()?;
                Some((typed.base.wrapping_offset(segment.offset as isize), segment.len))
            }
        }
    }

    /// Writes the packed bytes from `offset` on to `room`, which is no part of the buffer. Gives how many.
    fn pack_to(&self, offset: u64, room: &mut [MaybeUninit<u8>]) -> usize {
        match self {
            Self::Run(run) => {
                let len = room.len().min((run.len - offset) as usize);
                // SAFETY: by `new`'s contract the data may be read; and `room` is other memory, of at least this length.
                unsafe {
                    let from = run.start.wrapping_add(offset as usize);
                    room.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from, len);
                }
                len
            }
            // SAFETY: by `new`'s contract the data may be read; and `room` is other memory.
            Self::Typed(typed) => unsafe {
                typed
                    .datatype
                    .pack_at(typed.base, typed.count, typed.from + offset, room)
            },
        }
    }

    /// Unpacks `bytes` to where the packed bytes from `offset` on belong.
    #[inline]
    fn place(&self, offset: u64, bytes: Span<'_>) {
        let Some(left) = self.len().checked_sub(offset) else {
            return;
        };
        let len = bytes.len().min(left as usize);
        // SAFETY: by `Buffer::new`'s contract the data may be written, and no other code uses them, so `bytes` is other
        // memory.
        unsafe {
            match self {
                Self::Run(run) => {
                    let to = run.start.wrapping_add(offset as usize);
                    to.copy_from_nonoverlapping(bytes.as_ptr(), len);
                }
                Self::Typed(typed) => {
                    let (base, at) = (typed.base, typed.from + offset);
                    typed.datatype.unpack_span_at(base, typed.count, at, bytes.part(0..len));
                }
            }
        }
    }
}

impl MemoryRegion for Buffer {
    #[inline]
    fn capacity(&self) -> u64 {
        self.len()
    }

    #[inline]
    fn place(&mut self, offset: u64, bytes: Span<'_>) {
        match &self.parts {
            Parts::One(part) => part.place(offset, bytes),
            Parts::Many(parts) => place_in(parts, offset, bytes),
        }
    }

    #[inline(always)]
    fn whole(&mut self) -> Option<&mut [u8]> {
        match &self.parts {
            Parts::One(Part::Run(run)) if run.len > 0 => {
                // SAFETY: by `new`'s contract these are data of the elements, initialised memory that no other code uses.
                Some(unsafe { slice::from_raw_parts_mut(run.start, run.len as usize) })
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn run(&mut self) -> Option<&mut [u8]> {
        match &self.parts {
            Parts::One(Part::Run(run)) if run.owner.is_none() => self.whole(),
            _ => None,
        }
    }
}

/// Few elements that are one run of memory of the program's.
#[derive(Debug)]
pub(crate) struct PlainRun {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: as of `Buffer`.
unsafe impl Send for PlainRun {}

impl PlainRun {
    /// `None`: the elements are many, or none, or not one run.
    ///
    /// # Safety
    /// See [`Buffer::new`].
    #[inline(always)]
    pub(crate) unsafe fn new(base: *mut u8, count: u64, datatype: &Datatype) -> Option<Self> {
        let begin = datatype.begin_of_small_run(count)?;
        let len = (datatype.size() * count) as usize;
        let start = NonNull::new(base.wrapping_offset(begin as isize))?;
        (len > 0).then_some(Self { start, len })
    }

    /// Bytes.
    #[inline(always)]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: by `new`'s contract these are data of the elements, initialised memory that no other code uses.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl From<PlainRun> for Buffer {
    #[inline(always)]
    fn from(run: PlainRun) -> Self {
        Self::of(Part::Run(Run {
            start: run.start.as_ptr(),
            len: run.len as u64,
            owner: None,
        }))
    }
}

/// Unpacks `bytes` to where the packed bytes of these parts from `offset` on belong.
fn place_in(parts: &[Part], mut offset: u64, mut bytes: Span<'_>) {
    for part in parts {
        if offset >= part.len() {
            offset -= part.len();
            continue;
        }
        let (here, rest) = bytes.split_at(bytes.len().min((part.len() - offset) as usize));
        part.place(offset, here);
        bytes = rest;
        offset = 0;
        if bytes.is_empty() {
            break;
        }
    }
}

/// Counts the references to a send's memory that exist outside of the send.
#[derive(Clone, Debug, Default)]
pub(super) struct Pins(sync::Pins);

impl Pins {
    /// Whether all references have been given back.
    pub(super) fn are_released(&self) -> bool {
        self.0.are_released()
    }

    /// Lends memory by reference; it counts as lent until the result and its clones are dropped.
    ///
    /// # Safety
    /// Until all pins are back, this is initialised memory that may be read from any thread and is not written to.
    pub(super) unsafe fn lend(&self, start: *const u8, len: usize, owner: Option<Owner>) -> Bytes {
        Bytes::from_owner(Lent {
            start,
            len,
            _pin: self.0.lend(),
            _owner: owner,
        })
    }
}

/// The content of a rendezvous send.
pub(super) struct PinnedBuffer {
    buffer: Buffer,
    pins: Pins,
    packs: Packs,
    /// Packed bytes that are under way.
    packed: sync::Pins,
}

impl PinnedBuffer {
    pub(super) fn new(buffer: Buffer, packs: &Packs) -> (Self, Pins) {
        let pins = Pins::default();
        let pinned = Self {
            buffer,
            pins: pins.clone(),
            packs: packs.clone(),
            packed: sync::Pins::default(),
        };
        (pinned, pins)
    }

    pub(super) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// A run of a part, by reference.
    fn lend(&self, part: &Part, start: *const u8, len: u64) -> Bytes {
        let owner = match part {
            Part::Run(run) => run.owner.clone(),
            Part::Typed(_) => None,
        };
        // SAFETY: by `Buffer::new`'s contract, which holds as long as pins are out.
        unsafe { self.pins.lend(start, len as usize, owner) }
    }
}

/// Lent memory.
struct Lent {
    start: *const u8,
    len: usize,
    /// Keeps count: the owner of the memory keeps it until all pins are back.
    _pin: sync::Pin,
    _owner: Option<Owner>,
}

// SAFETY: the memory may be read from any thread, by the contract of `Pins::lend`.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: by the contract of `Pins::lend`, which holds at least until the pin is back.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl Content for PinnedBuffer {
    fn len(&self) -> u64 {
        self.buffer.len()
    }

    fn chunk(&mut self, offset: u64, max: u64) -> Bytes {
        let mut at = offset;
        for part in self.buffer.parts() {
            if at >= part.len() {
                at -= part.len();
                continue;
            }
            if let Some((start, len)) = part.run(at, max)
                && len >= RUN.min(max)
            {
                return self.lend(part, start, len);
            }
            break;
        }
        let len = max.min(PACK as u64);
        self.packs
            .fill(&self.packed, |bytes| self.buffer.pack(offset, len, bytes))
    }

    fn run(&mut self) -> Option<Bytes> {
        let [part] = self.buffer.parts() else { return None };
        let (start, len) = part.run(0, u64::MAX).filter(|(_, len)| *len == part.len())?;
        Some(self.lend(part, start, len))
    }

    fn is_busy(&self) -> bool {
        self.packed.count() >= UNDER_WAY
    }
}
