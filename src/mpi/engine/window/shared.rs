#![expect(unsafe_code, reason = "windows are memory at addresses")]
//! Windows whose memory all processes of a communicator have in common (MPI 12.2.3).

use alloc::sync::Arc;

use super::{
    Flavor, Own, Peer, Window,
    memory::{Kept, Offer, WORDS, Word, with_words},
};
use crate::mpi::{
    Rank,
    engine::{Communicator, PROC_NULL, rma::Memory},
    error::{Detail, Error, ErrorClass},
};

/// Numbers of a rank: the length of its part, and how it is found.
const SHARED: usize = 1 + WORDS;

/// Shared windows.
impl Window {
    /// A window over `len` new bytes, which are 0, in memory that all ranks have in common (`MPI_Win_allocate_shared`).
    /// The parts of the ranks lie one behind the other, without gaps; [`shared_query`](Self::shared_query) says where
    /// they are in this process. Their first byte begins a page.
    ///
    /// Loads and stores of the program are its own affair: ranks synchronise by messages, by atomics, or by the calls of
    /// the window, with [`sync`](Self::sync) between them (MPI 12.7).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SHARED` if the processes do not all belong to one host and one user, or this build shares no memory
    /// (feature `shm`, Linux); `MPI_ERR_NO_MEM`; as [`create`](Self::create).
    pub fn allocate_shared(communicator: &Communicator, len: u64, unit: u32) -> Result<Self, Error> {
        const CALL: &str = "MPI_Win_allocate_shared";
        let failed = |class, text| communicator.locate(Error::new(class, CALL).with_detail(Detail::Text(text)));
        let engine = communicator.engine();
        let offer = engine.fabric.is_native().then(|| Offer::open(engine)).flatten();
        let mut own = [0; SHARED];
        own[0] = i64::try_from(len).unwrap_or(i64::MAX);
        if let Some(offer) = &offer {
            own[1..].copy_from_slice(&offer.words());
        }
        let all = communicator.share(CALL, &own)?;
        let is_near = |offer: &Offer| all.chunks_exact(SHARED).all(|said| offer.meets(&said[1..]));
        let Some(mut offer) = offer.filter(is_near) else {
            return Err(failed(
                ErrorClass::RmaShared,
                "not all processes belong to one host and one user, or one of them shares no memory",
            ));
        };
        let lens = || all.chunks_exact(SHARED).map(|said| said[0] as u64);
        let total = lens().try_fold(0_u64, u64::checked_add);
        let total = total.filter(|total| i64::try_from(*total).is_ok());
        let total = total.ok_or_else(|| failed(ErrorClass::Size, "all parts together exceed the address space"))?;
        // The words of all locks lie behind the parts.
        let whole = with_words(total, lens().count() as u64).unwrap_or(u64::MAX);
        let rank = communicator.rank() as usize;
        // The first rank makes the memory.
        let mapped = if rank == 0 {
            let made = offer.make(whole);
            offer.exchange(engine, communicator.size() as usize - 1, &[]);
            made
        } else {
            let first = (all[1..SHARED].to_vec(), whole);
            offer.exchange(engine, 0, &[first]).pop().flatten()
        };
        let mapped = mapped.map(Arc::new);
        let has_memory = mapped.is_some();
        let start = mapped.as_ref().map_or(core::ptr::null_mut(), |mapped| mapped.base());
        let word = |rank: usize| Some(Word::behind(mapped.as_ref()?, total, rank as u64));
        let begins = |rank: usize| lens().take(rank).sum::<u64>() as usize;
        let base = start.wrapping_add(begins(rank));
        // A rank without memory takes part all the same, so that all ranks learn about it.
        let (len, unit) = if has_memory { (len, unit) } else { (0, 0) };
        // SAFETY: the memory is kept until the window is closed, and its address is given out as a pointer only.
        let exposed = unsafe { Memory::new(base, len) };
        let own = Own {
            kept: Kept {
                segments: mapped.iter().cloned().collect(),
                ..Kept::default()
            },
            word: word(rank),
            ..Own::alone(Flavor::Shared, exposed, (base, len, unit))
        };
        let made = Self::make_with(CALL, communicator, own, |rank, peer| {
            peer.mapped = Some(start.wrapping_add(begins(rank)));
            peer.word = word(rank);
        });
        made.map_err(|error| {
            if has_memory {
                error
            } else {
                failed(ErrorClass::NoMem, "the memory cannot be made, or not be mapped")
            }
        })
    }

    /// Where the part of `rank` is in this process, its length in bytes, and its displacement unit
    /// (`MPI_Win_shared_query`). Of [`PROC_NULL`]: of the first rank whose part is not empty. A part that this process
    /// does not share has length 0 and a null pointer: windows of other flavours may have such.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_FLAVOR` if the window was made by [`create_dynamic`](Self::create_dynamic); `MPI_ERR_RANK`.
    pub fn shared_query(&self, rank: Rank) -> Result<(*mut u8, u64, u32), Error> {
        const CALL: &str = "MPI_Win_shared_query";
        self.told(CALL, Some(rank), || {
            self.check(CALL)?;
            if self.0.flavor == Flavor::Dynamic {
                return Err(self.error(CALL, ErrorClass::RmaFlavor));
            }
            let own = self.0.communicator.rank();
            let part = |rank: Rank, peer: &Peer| match peer.mapped.or_else(|| (rank == own).then_some(self.0.base)) {
                Some(base) => (base, peer.len, peer.unit),
                None => (core::ptr::null_mut(), 0, peer.unit),
            };
            if rank != PROC_NULL {
                return Ok(part(rank, self.peer(CALL, rank)?));
            }
            let first = (0..).zip(&self.0.peers).find(|(_, peer)| peer.len > 0);
            let (rank, peer) = first.unwrap_or((0, &self.0.peers[0]));
            Ok(part(rank, peer))
        })
    }
}
