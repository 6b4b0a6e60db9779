//! The memory of two processes: where its parts lie, and the rings of packets in it.
//!
//! ```text
//! 0         control of the rings, a page: for each direction, the positions of its four rings of packets,
//!           and how far its ring of short messages is written and read; at 1920, for each side for which session it uses
//!           those (`claim.rs`); at 2048, for each side what copies between the processes by way of the system need
//!           (`attached.rs`)
//! 4096      two rings of short messages, 64 lines each
//! 12288     two rings of packets of 2 KB, two of 64 KB, two of 512 KB, two of 2 MB
//! ...       bytes of short messages that are longer than a line: for each direction 16 KB, 256 KB, and 2 MB for streams
//! ```
//!
//! Of these rings each direction uses one at a time. It begins with the smallest, so that a pair takes 16 KB; a packet
//! that does not fit, or finds the ring full, makes its sender go on in the next larger one. The sender leaves a record
//! that says so, and the receiver follows when it comes to it. A direction that is silent goes back to the smallest, and
//! the memory of the larger ones goes back to the system. The largest is of use only where the processor's last cache
//! holds it beside the messages (`Streams::largest_ring`).
#![expect(
    unsafe_code,
    reason = "rings of lines lie in memory that two processes share; where is written in this file"
)]

use std::{
    array,
    io::{self, IoSlice},
    os::fd::OwnedFd,
    ptr::NonNull,
    sync::Arc,
};

use super::{
    attached::{self, Attached},
    claim::{self, Claim},
    streams::{Lender, Streams},
};
use crate::{
    backends::Data,
    ring,
    shm::{Access, CONTROL, Consumer, Corrupt, Found, Place, Producer, Segment, taken},
};

/// The version of this layout.
pub(super) const LAYOUT: u32 = 9;
/// Lines of a ring of short messages.
const LINES: u32 = 64;
const LINE: usize = 64;
/// The sizes of the rings of packets.
const SIZES: [usize; LEVELS] = [2 << 10, 64 << 10, 512 << 10, 2 << 20];
const LEVELS: usize = 4;
/// The first level of large rings, in which packets of all lengths have room.
const LARGE: usize = 2;
/// A page: where control ends, and a multiple of what the other parts begin at.
const PAGE: usize = 4096;
/// In it, what copies by way of the system need, and before that, who uses the rings of short messages.
const ATTACHED: usize = PAGE / 2;
const CLAIMS: usize = ATTACHED - 2 * claim::LEN;
const PACKETS: usize = PAGE + 2 * LINES as usize * LINE;
const CHUNKS: usize = PACKETS + 2 * (SIZES[0] + SIZES[1] + SIZES[2] + SIZES[3]);
pub(super) const LEN: usize = CHUNKS + 2 * ring::Place::CHUNKS;
/// The longest packet: 32 KB and a header. It is no longer than half of a large ring.
pub(super) const LONGEST: usize = (32 << 10) + 128;

const _: () = assert!(2 * taken(LONGEST) <= SIZES[LARGE]);
const _: () = assert!(2 * (LEVELS * CONTROL + ring::Place::PROGRESS) <= CLAIMS);
const _: () = assert!(ATTACHED + 2 * attached::LEN <= PAGE);

/// The kind of a record that is a packet, and of one that says that the ring of another level comes next.
const PACKET: u32 = 0;
const LEVEL: u32 = 1;

/// One of the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It made the memory.
    Maker,
    /// It got the memory.
    Guest,
}

/// The place of a ring of packets: that in which `role` writes.
fn place(role: Role, level: usize) -> Place {
    let side = role as usize;
    let below: usize = SIZES[..level].iter().sum();
    Place {
        control: side * LEVELS * CONTROL + level * CONTROL,
        data: PACKETS + 2 * below + side * SIZES[level],
        size: SIZES[level],
    }
}

/// The last level whose ring has no more than `most` bytes; a large one in any case.
fn top(most: usize) -> usize {
    SIZES.iter().rposition(|&size| size <= most).unwrap_or(0).max(LARGE)
}

/// The place of a ring of short messages: that in which `role` writes.
fn lines(memory: &Segment, role: Role, owner: impl ring::Owner + 'static) -> ring::Place {
    let side = role as usize;
    let at = |offset: usize| {
        let place = memory.base().wrapping_add(offset);
        NonNull::new(place).unwrap_or(NonNull::dangling())
    };
    ring::Place {
        progress: at(2 * LEVELS * CONTROL + side * ring::Place::PROGRESS),
        lines: at(PAGE + side * LINES as usize * LINE),
        count: LINES,
        chunks: at(CHUNKS + side * ring::Place::CHUNKS),
        owner: Box::new(owner),
    }
}

/// Both directions of a memory, as one side sees them.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) outward: Outward,
    pub(super) inward: Inward,
    pub(super) short: Short,
}

/// What the packet layer has of a memory.
#[derive(Debug)]
pub(super) struct Short {
    /// The rings of short messages.
    pub(super) rings: (ring::Producer, ring::Consumer),
    /// For which session they are used.
    pub(super) claim: Arc<Claim>,
    /// The memory of the other process.
    pub(super) attached: Attached,
}

impl Pair {
    /// Makes a memory in common with the process of this number, with the descriptor for it.
    pub(super) fn create(streams: &Arc<Streams>, process: u32) -> io::Result<(Self, OwnedFd)> {
        let (memory, fd) = Segment::create("hikyaku", LEN, Access::Write)?;
        Ok((Self::new(memory, Role::Maker, streams, process)?, fd))
    }

    /// This side has made the memory.
    pub(super) fn is_own(&self) -> bool {
        self.outward.role == Role::Maker
    }

    /// Takes the memory that the process of this number has made.
    pub(super) fn take(fd: &OwnedFd, streams: &Arc<Streams>, process: u32) -> io::Result<Self> {
        use std::os::fd::AsFd;
        let memory = Segment::map(fd.as_fd(), LEN, Access::Write)?;
        Self::new(memory, Role::Guest, streams, process)
    }

    /// Where the memory begins.
    #[cfg(test)]
    pub(super) fn base(&self) -> *const u8 {
        self.outward.memory.base()
    }

    fn new(memory: Segment, role: Role, streams: &Arc<Streams>, process: u32) -> io::Result<Self> {
        memory.leave_out_of_dumps_and_children()?;
        let memory = Arc::new(memory);
        let other = match role {
            Role::Maker => Role::Guest,
            Role::Guest => Role::Maker,
        };
        let largest = streams.largest_ring();
        let side = |role: Role| CLAIMS + role as usize * claim::LEN;
        let claim = Arc::new(Claim::new(Arc::clone(&memory), (side(role), side(other))));
        // SAFETY: the places lie in the memory, begin at cache lines, do not overlap each other or the rings of packets,
        // and each ring has one end here. (There is one `Pair` for a mapping.)
        let rings = unsafe {
            (
                lines(&memory, role, Lender::new(&memory, &claim, streams)).producer(largest),
                lines(&memory, other, Arc::clone(&memory)).consumer(),
            )
        };
        let side = |role: Role| ATTACHED + role as usize * attached::LEN;
        let producer = |level| Producer::new(Arc::clone(&memory), place(role, level));
        let consumer = |level| Consumer::new(Arc::clone(&memory), place(other, level));
        Ok(Self {
            outward: Outward {
                rings: array::from_fn(producer),
                level: 0,
                top: top(largest),
                has_sent: false,
                left: 0,
                role,
                memory: Arc::clone(&memory),
            },
            inward: Inward {
                rings: array::from_fn(consumer),
                level: 0,
                memory: Arc::clone(&memory),
            },
            short: Short {
                rings,
                claim,
                attached: Attached::new(memory, (side(role), side(other)), process),
            },
        })
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pushed {
    /// It lies in the ring. Otherwise there is no room.
    pub(super) is_sent: bool,
    /// The other side sleeps, and has to be woken.
    pub(super) wakes: bool,
}

/// The direction to the other side.
#[derive(Debug)]
pub(super) struct Outward {
    rings: [Producer; LEVELS],
    level: usize,
    /// The last level that it uses.
    top: usize,
    /// Something was sent since the last [`rest`](Self::rest).
    has_sent: bool,
    /// A bit for each level that this side has left: its memory can go back when its ring has been read.
    left: u8,
    role: Role,
    memory: Arc<Segment>,
}

impl Outward {
    /// Sends a packet of `len` bytes, at most [`LONGEST`].
    #[inline]
    pub(super) fn push(&mut self, slices: &[IoSlice<'_>], len: usize) -> Result<Pushed, Corrupt> {
        let mut wakes = false;
        self.has_sent = true;
        loop {
            let ring = &mut self.rings[self.level];
            if 2 * taken(len) <= SIZES[self.level] && ring.has_room(len)? {
                ring.push(PACKET, slices);
                wakes |= ring.publish();
                return Ok(Pushed { is_sent: true, wakes });
            }
            if self.level == self.top || !ring.has_room(0)? {
                return Ok(Pushed { is_sent: false, wakes });
            }
            wakes |= self.go_on_in(self.level + 1);
        }
    }

    /// Returns whether a packet of any length can be sent.
    #[inline]
    pub(super) fn has_room(&mut self) -> Result<bool, Corrupt> {
        let ring = &mut self.rings[self.level];
        let is_top = self.level == self.top;
        // (One that does not fit goes on in the next larger ring.)
        ring.has_room(if is_top { LONGEST } else { 0 })
    }

    /// How much the other side has read, in the rings of all levels, and whether it has read all.
    pub(super) fn read(&mut self) -> Result<(u64, bool), Corrupt> {
        let (mut read, mut sent) = (0_u64, 0_u64);
        for ring in &mut self.rings {
            read = read.wrapping_add(ring.refresh()?);
            sent = sent.wrapping_add(ring.position());
        }
        Ok((read, read == sent))
    }

    /// Goes on in the ring of another level. Returns whether the other side has to be woken. There is room for a record.
    #[cold]
    fn go_on_in(&mut self, level: usize) -> bool {
        let ring = &mut self.rings[self.level];
        ring.push(LEVEL + level as u32, &[]);
        let wakes = ring.publish();
        self.left &= !(1 << level);
        self.left |= 1 << self.level;
        self.level = level;
        wakes
    }

    /// Is called now and then: if nothing was sent since the last call, gives memory back. Returns whether the other side
    /// has to be woken.
    pub(super) fn rest(&mut self) -> Result<bool, Corrupt> {
        let mut wakes = false;
        let ring = &mut self.rings[self.level];
        // (One that was not read stays: there may be no room in it when the direction comes back.)
        if !self.has_sent && self.level > 0 && ring.refresh()? == ring.position() {
            wakes = self.go_on_in(0);
        }
        self.has_sent = false;
        // (The smallest ring stays.)
        self.left &= !1;
        for level in 1..LEVELS {
            let ring = &mut self.rings[level];
            if self.left & 1 << level != 0 && ring.refresh()? == ring.position() {
                self.left &= !(1 << level);
                let Place { data, size, .. } = place(self.role, level);
                self.memory.give_back(data, size);
            }
        }
        Ok(wakes)
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> &Segment {
        &self.memory
    }

    /// Spoils the positions of all rings of packets.
    #[cfg(test)]
    pub(super) fn scribble(&self) {
        self.memory.write(0, &[0x55; 2 * LEVELS * CONTROL]);
    }

    /// Returns whether [`rest`](Self::rest) may have something to do.
    pub(super) fn is_large(&self) -> bool {
        self.level > 0 || self.left > 1
    }
}

/// The direction from the other side.
#[derive(Debug)]
pub(super) struct Inward {
    rings: [Consumer; LEVELS],
    level: usize,
    memory: Arc<Segment>,
}

impl Inward {
    /// Copies the next packet to the beginning of `into`, which has room for [`LONGEST`] bytes. Returns its length.
    #[cfg(test)]
    pub(super) fn next(&mut self, into: &mut [u8]) -> Result<Option<usize>, Corrupt> {
        let Some(Found { at, len, .. }) = self.find()? else {
            return Ok(None);
        };
        self.copy(at, &mut into[..len]);
        Ok(Some(len))
    }

    /// Finds the next packet, of at most [`LONGEST`] bytes. It stays until the next [`release`](Self::release).
    #[inline]
    pub(super) fn find(&mut self) -> Result<Option<Found>, Corrupt> {
        while let Some(found) = self.rings[self.level].next()? {
            if found.kind != PACKET {
                self.follow(found.kind)?;
            } else if found.len > LONGEST || !self.memory.holds(found.at, found.len) {
                return Err(Corrupt);
            } else {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Copies a packet that was found.
    #[inline]
    pub(super) fn copy(&self, at: usize, into: &mut [u8]) {
        self.memory.copy(at, into);
    }

    /// Lends the bytes of a packet that was found.
    #[inline]
    pub(super) fn lend(&self, at: usize, len: usize) -> Data<'_> {
        self.memory.span(at, len).map_or(Data::Own(&mut []), Data::Shared)
    }

    #[cold]
    fn follow(&mut self, kind: u32) -> Result<(), Corrupt> {
        let level = kind.wrapping_sub(LEVEL) as usize;
        if level >= LEVELS || level == self.level {
            return Err(Corrupt);
        }
        self.level = level;
        Ok(())
    }

    /// Gives what was read back to the sender, in the rings of all levels.
    #[inline]
    pub(super) fn release(&mut self) {
        self.rings.iter_mut().for_each(Consumer::release);
    }

    /// Asks to be woken. `false`: there is a packet already.
    pub(super) fn arm(&mut self) -> Result<bool, Corrupt> {
        self.rings[self.level].arm()
    }

    /// Takes that back.
    pub(super) fn disarm(&self) {
        self.rings[self.level].disarm();
    }
}
