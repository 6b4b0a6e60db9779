//! Packets and bursts of them, and the ownership of mbufs.
#![expect(unsafe_code, reason = "foreign calls, and fields of mbufs")]

use std::{mem, ops::Range, ptr, slice};

use dpdk_sys as sys;

/// Most packets of one call.
pub(in crate::backends::dpdk) const BURST: usize = 32;

/// A packet with its buffer: a pointer to an mbuf, so that an array of packets is what DPDK takes and fills.
#[repr(transparent)]
pub(in crate::backends::dpdk) struct Packet {
    mbuf: ptr::NonNull<sys::rte_mbuf>,
}

const _: () = assert!(size_of::<Option<Packet>>() == size_of::<*mut sys::rte_mbuf>());

// SAFETY: it owns its mbuf; freeing one is allowed on any thread.
unsafe impl Send for Packet {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for Packet {}

impl Packet {
    /// # Safety
    /// The mbuf has no other owner.
    pub(super) unsafe fn new(mbuf: ptr::NonNull<sys::rte_mbuf>) -> Self {
        Self { mbuf }
    }

    /// Its mbuf, which stays this one's.
    #[inline]
    pub(super) fn mbuf(&self) -> *mut sys::rte_mbuf {
        self.mbuf.as_ptr()
    }

    /// A field of the mbuf.
    ///
    /// # Safety
    /// There is one of this type at this offset.
    #[inline]
    unsafe fn field<T: Copy>(&self, offset: u32) -> T {
        // SAFETY: by the contract; the mbuf is ours.
        unsafe { self.mbuf.byte_add(offset as usize).cast::<T>().read() }
    }

    /// The first byte of the first segment, and how many there are.
    #[inline]
    fn first(&self) -> (*mut u8, usize) {
        // SAFETY: the offsets and types are those of DPDK's headers (`shim.c` compares the sizes), and what begins so far
        // into the buffer is still in it.
        unsafe {
            let buffer: *mut u8 = self.field(sys::DPDK_MBUF_BUFFER);
            let start: u16 = self.field(sys::DPDK_MBUF_START);
            let len: u16 = self.field(sys::DPDK_MBUF_DATA_LEN);
            (buffer.add(start.into()), len.into())
        }
    }

    /// The bytes of the frame.
    #[inline]
    pub(in crate::backends::dpdk) fn data(&self) -> &[u8] {
        let (data, len) = self.first();
        // SAFETY: the first segment has so many bytes there, which nothing else refers to.
        unsafe { slice::from_raw_parts(data, len) }
    }

    /// The bytes of the frame.
    #[inline]
    pub(in crate::backends::dpdk) fn data_mut(&mut self) -> &mut [u8] {
        let (data, len) = self.first();
        // SAFETY: as in `data`, and `self` is borrowed for writing.
        unsafe { slice::from_raw_parts_mut(data, len) }
    }

    /// Bytes of all segments.
    #[inline]
    pub(in crate::backends::dpdk) fn len(&self) -> usize {
        // SAFETY: as in `first`.
        let len: u32 = unsafe { self.field(sys::DPDK_MBUF_PACKET_LEN) };
        len as usize
    }

    /// All of the packet is in its first segment.
    #[inline]
    pub(in crate::backends::dpdk) fn is_whole(&self) -> bool {
        self.first().1 == self.len()
    }

    /// The port's check of the UDP checksum: right, wrong, or `None` if it has not looked.
    #[inline]
    pub(in crate::backends::dpdk) fn udp_checksum(&self) -> Option<bool> {
        // SAFETY: as in `first`.
        let flags: u64 = unsafe { self.field(sys::DPDK_MBUF_FLAGS) };
        match flags & sys::DPDK_RX_L4_CHECKSUM_MASK {
            // "None": the other end has left it to a card that there is not (virtio); the data is right.
            sys::DPDK_RX_L4_CHECKSUM_GOOD | sys::DPDK_RX_L4_CHECKSUM_NONE => Some(true),
            sys::DPDK_RX_L4_CHECKSUM_BAD => Some(false),
            _ => None,
        }
    }

    /// Cuts it to `len` bytes, at most what it has.
    #[inline]
    pub(in crate::backends::dpdk) fn cut(&mut self, len: usize) {
        let len = len.min(self.first().1);
        // SAFETY: the mbuf is ours.
        unsafe { sys::dpdk_cut(self.mbuf(), len as u16) };
    }

    /// Asks the port to compute the UDP checksum, behind headers of these sizes.
    #[inline]
    pub(in crate::backends::dpdk) fn ask_udp_checksum(&mut self, ethernet: usize, ipv4: usize) {
        // SAFETY: the mbuf is ours.
        unsafe { sys::dpdk_ask_udp_checksum(self.mbuf(), ethernet as u16, ipv4 as u16) };
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the mbuf is ours, and this is the end of it.
        unsafe { sys::dpdk_free(self.mbuf()) };
    }
}

/// A packet, of which some bytes are the payload.
pub(in crate::backends::dpdk) struct Payload {
    packet: Packet,
    /// The first of them, within the first segment of the packet.
    data: *mut u8,
    len: u32,
    /// Where in the packet they begin.
    start: u32,
}

// SAFETY: it is the owner of the bytes, as of the packet.
unsafe impl Send for Payload {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for Payload {}

impl Payload {
    /// These bytes of a packet.
    ///
    /// # Panics
    /// If it has not that many.
    #[inline(always)]
    pub(in crate::backends::dpdk) fn new(packet: Packet, bytes: Range<usize>) -> Self {
        let (first, len) = packet.first();
        assert!(bytes.start <= bytes.end && bytes.end <= len, "beyond the packet");
        Self {
            // SAFETY: that is still in the packet.
            data: unsafe { first.add(bytes.start) },
            len: bytes.len() as u32,
            start: bytes.start as u32,
            packet,
        }
    }

    #[inline]
    pub(in crate::backends::dpdk) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(in crate::backends::dpdk) fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`, and `self` is borrowed for writing.
        unsafe { slice::from_raw_parts_mut(self.data, self.len()) }
    }

    /// The bytes of the packet before the payload.
    #[inline]
    pub(in crate::backends::dpdk) fn headers(&self) -> &[u8] {
        &self.packet.data()[..self.start as usize]
    }

    /// The payload with the `before` bytes before it.
    ///
    /// # Panics
    /// If there are not that many.
    #[inline]
    pub(in crate::backends::dpdk) fn data_with(&mut self, before: usize) -> &mut [u8] {
        assert!(before <= self.start as usize, "before the packet");
        // SAFETY: as in `data_mut`, and there are `start` bytes before it.
        unsafe { slice::from_raw_parts_mut(self.data.sub(before), self.len() + before) }
    }
}

/// Packets that are given back together, which costs less than one by one: when there are many, and when it is dropped.
pub(in crate::backends::dpdk) struct Returning {
    mbufs: [mem::MaybeUninit<*mut sys::rte_mbuf>; BURST],
    /// So many of them are ours.
    count: usize,
}

impl Returning {
    #[inline]
    pub(in crate::backends::dpdk) fn new() -> Self {
        Self {
            mbufs: [const { mem::MaybeUninit::uninit() }; BURST],
            count: 0,
        }
    }

    #[inline]
    pub(in crate::backends::dpdk) fn push(&mut self, payload: Payload) {
        let packet = mem::ManuallyDrop::new(payload.packet);
        let place = match self.mbufs.get_mut(self.count) {
            Some(place) => place,
            None => {
                self.flush();
                &mut self.mbufs[0]
            }
        };
        place.write(packet.mbuf());
        self.count += 1;
    }

    fn flush(&mut self) {
        // SAFETY: the first `count` are ours, and this is the end of them.
        unsafe { sys::rte_pktmbuf_free_bulk(self.mbufs.as_mut_ptr().cast(), self.count as u32) };
        self.count = 0;
    }
}

impl Drop for Returning {
    #[inline]
    fn drop(&mut self) {
        self.flush();
    }
}

/// The result of a receive.
pub(in crate::backends::dpdk) enum Found {
    Nothing,
    Single(Packet),
    /// They are in a burst.
    Several,
}

/// Up to [`BURST`] packets in a row.
pub(in crate::backends::dpdk) struct Burst {
    /// Those from `next` to `end` are packets that are owned.
    slots: [mem::MaybeUninit<Packet>; BURST],
    next: usize,
    end: usize,
}

// SAFETY: as `Packet`.
unsafe impl Send for Burst {}

impl Burst {
    pub(in crate::backends::dpdk) fn new() -> Self {
        Self {
            slots: [const { mem::MaybeUninit::uninit() }; BURST],
            next: 0,
            end: 0,
        }
    }

    /// Gives what is in it back; gives room for [`BURST`] mbufs.
    #[inline]
    fn room(&mut self) -> *mut *mut sys::rte_mbuf {
        debug_assert!(self.is_empty());
        if !self.is_empty() {
            self.clear();
        }
        self.slots.as_mut_ptr().cast()
    }

    /// Has `fill` fill it, which is empty; gives how many there are then.
    ///
    /// # Safety
    /// `fill` is given room for [`BURST`] mbufs, and gives how many it has put there, which have no other owner.
    #[inline]
    pub(super) unsafe fn fill(&mut self, fill: impl FnOnce(*mut *mut sys::rte_mbuf) -> usize) -> usize {
        let count = fill(self.room());
        (self.next, self.end) = (0, count);
        count
    }

    /// The same, but gives a single packet away.
    ///
    /// # Safety
    /// As of [`fill`](Self::fill).
    #[inline]
    pub(super) unsafe fn fill_or_give(&mut self, fill: impl FnOnce(*mut *mut sys::rte_mbuf) -> usize) -> Found {
        match fill(self.room()) {
            // SAFETY: by the contract it is there; it is given away, and the burst stays empty.
            1 => Found::Single(unsafe { self.slots[0].assume_init_read() }),
            0 => Found::Nothing,
            count => {
                (self.next, self.end) = (0, count);
                Found::Several
            }
        }
    }

    /// Has `take` take some, from the oldest; gives how many those are.
    ///
    /// # Safety
    /// `take` is given so many mbufs, and gives how many of them it has made its own.
    #[inline]
    pub(super) unsafe fn take(&mut self, take: impl FnOnce(*mut *mut sys::rte_mbuf, usize) -> usize) -> usize {
        let packets = &mut self.slots[self.next..self.end];
        let taken = take(packets.as_mut_ptr().cast(), packets.len());
        self.next += taken;
        taken
    }

    #[inline]
    pub(in crate::backends::dpdk) fn is_empty(&self) -> bool {
        self.next == self.end
    }

    pub(in crate::backends::dpdk) fn len(&self) -> usize {
        self.end - self.next
    }

    /// Takes the oldest out.
    #[inline]
    pub(in crate::backends::dpdk) fn pop(&mut self) -> Option<Packet> {
        let next = self.next;
        if next == self.end {
            return None;
        }
        self.next += 1;
        // SAFETY: it is a packet that is owned, and is not any more.
        Some(unsafe { self.slots[next].assume_init_read() })
    }

    /// Adds one at the end; gives it back if there is no room.
    pub(in crate::backends::dpdk) fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.is_empty() {
            (self.next, self.end) = (0, 0);
        }
        if self.end == BURST {
            return Err(packet);
        }
        self.slots[self.end].write(packet);
        self.end += 1;
        Ok(())
    }

    /// Cuts the newest to `len` bytes, at most what it has.
    pub(in crate::backends::dpdk) fn cut_last(&mut self, len: usize) {
        let last = self.len().saturating_sub(1);
        self.for_each(|index, packet| {
            if index == last {
                packet.cut(len);
            }
        });
    }

    /// Shows each packet, oldest first.
    #[inline]
    pub(in crate::backends::dpdk) fn for_each(&mut self, mut each: impl FnMut(usize, &mut Packet)) {
        for (index, slot) in self.slots[self.next..self.end].iter_mut().enumerate() {
            // SAFETY: it is a packet that is owned; behind a reference, the burst stays the owner.
            each(index, unsafe { slot.assume_init_mut() });
        }
    }

    /// Gives all back.
    #[cold]
    pub(in crate::backends::dpdk) fn clear(&mut self) {
        while self.pop().is_some() {}
        (self.next, self.end) = (0, 0);
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        self.clear();
    }
}
