#![expect(unsafe_code, reason = "lends memory that other processes write to")]
//! Windows whose memory all processes have in common.

use std::{
    fmt,
    marker::PhantomData,
    ops::Index,
    ptr::NonNull,
    slice,
    sync::atomic::{AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64},
};

use hikyaku::mpi::{
    Rank, engine,
    error::{Detail, Error, ErrorClass},
};

use crate::{
    collective::{SystemOperation, traits::*},
    datatype::Equivalence,
    topology::{Communicator, SimpleCommunicator},
};

/// Elements of `T` at each process of a communicator whose processes share memory
/// ([`split_shared`](Communicator::split_shared)): each sees the elements of all where they are
/// (`MPI_Win_allocate_shared`).
///
/// The processes use them in *phases*, which all of them begin together: in [`write`](Self::write) each has its own
/// elements to itself, in [`read`](Self::read) all read those of all, in [`atomics`](Self::atomics) all do with all
/// what atomics can do. A phase begins when all processes have come to it, so each sees what the others have done in the
/// phases before; within a phase nobody waits for anybody.
///
/// ```
/// use mpi::{traits::*, window::SharedWindow};
///
/// let universe = mpi::initialize().unwrap();
/// let host = universe.world().split_shared(0)?;
/// let mut window = SharedWindow::<f64>::allocate(&host, 3)?;
/// let rank = host.rank();
/// window.write(|own| own.fill(f64::from(rank)))?;
/// let sum = window.read(|all| (0..host.size()).flat_map(|rank| &all[rank]).sum::<f64>())?;
/// let size = f64::from(host.size());
/// assert_eq!(sum, 3.0 * size * (size - 1.0) / 2.0);
/// window.free()?;
/// # Ok::<_, mpi::Error>(())
/// ```
///
/// The elements of a phase do not leave it:
///
/// ```compile_fail
/// use mpi::{traits::*, window::SharedWindow};
///
/// let universe = mpi::initialize().unwrap();
/// let mut window = SharedWindow::<f64>::allocate(&universe.world(), 3).unwrap();
/// let kept = window.read(|all| &all[0]).unwrap();
/// window.write(|own| own[0] = 1.0).unwrap();
/// println!("{}", kept[0]);
/// ```
///
/// # Why no safe program can race with others
///
/// Before the closure of a phase runs, all processes have told each other the kind of the phase that they begin, in a
/// collective operation. So all are in phases of the same kind, and nobody is in a phase before. A process that has not
/// heard all others, because one of them is lost, gets an error, in this phase and in all that follow: it does not see
/// the memory again. Phases borrow the window mutably, so a process is in one at a time, whatever its threads do. Other
/// processes may run another program: one that uses this crate keeps to these rules.
pub struct SharedWindow<T: Equivalence> {
    window: engine::Window,
    /// For the agreement on phases alone.
    communicator: SimpleCommunicator,
    /// The elements of each rank.
    places: Vec<Place>,
    elements: PhantomData<fn(T) -> T>,
}

/// The place of the elements of a rank in this process, and their number.
#[derive(Clone, Copy, Debug)]
struct Place(NonNull<u8>, usize);

// SAFETY: the memory belongs to the window, which may be used from any thread; it is only used in phases.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

/// The kind of a phase.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Write = 1,
    Read = 2,
    Atomics = 3,
}

/// Elements that processes can change at the same time.
///
/// # Safety
/// [`Atomic`](Self::Atomic) has the same bytes, and may be at the same places.
pub unsafe trait Atomically: Equivalence {
    /// The atomic of the same size.
    type Atomic: 'static;
}

macro_rules! atomics {
    ($($element:ty: $atomic:ty),*) => {$(
        // SAFETY: an atomic has "the same size and bit validity" as its integer, says its documentation. Its alignment
        // is its size: the elements lie one behind the other from the begin of a page on.
        unsafe impl Atomically for $element {
            type Atomic = $atomic;
        }
    )*};
}

atomics! {
    i8: AtomicI8, i16: AtomicI16, i32: AtomicI32, i64: AtomicI64,
    u8: AtomicU8, u16: AtomicU16, u32: AtomicU32, u64: AtomicU64
}

/// The elements of all ranks, for the time of a phase: `parts[rank]` are those of a rank.
pub struct Parts<'p, E> {
    places: &'p [Place],
    elements: PhantomData<&'p [E]>,
}

impl<E> fmt::Debug for Parts<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lens: Vec<usize> = self.places.iter().map(|place| place.1).collect();
        f.debug_struct("Parts").field("lens", &lens).finish_non_exhaustive()
    }
}

impl<E> Index<Rank> for Parts<'_, E> {
    type Output = [E];

    /// # Panics
    /// There is no such rank.
    fn index(&self, rank: Rank) -> &[E] {
        let Place(base, len) = self.places[usize::try_from(rank).unwrap_or(usize::MAX)];
        // SAFETY: so many elements lie there, valid and aligned, as `allocate` has made sure. In this phase no process has
        // a reference by which it writes, other than by atomics.
        unsafe { slice::from_raw_parts(base.as_ptr().cast(), len) }
    }
}

impl<T: Equivalence> fmt::Debug for SharedWindow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWindow")
            .field("communicator", &self.communicator)
            .finish_non_exhaustive()
    }
}

impl<T: Equivalence> SharedWindow<T> {
    /// Allocates `len` elements at this process, with all bytes 0; the other processes may have other numbers of
    /// elements. Collective.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SHARED` if the processes do not all share memory; `MPI_ERR_TYPE` if another process has elements of
    /// another size; `MPI_ERR_NO_MEM`; a process is lost.
    pub fn allocate<C: Communicator + ?Sized>(communicator: &C, len: usize) -> Result<Self, Error> {
        const CALL: &str = "MPI_Win_allocate_shared";
        const {
            assert!(
                T::CHECK.is_none(),
                "elements of which not all bytes are valid are not shared"
            );
            assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096);
        }
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let unit = u32::try_from(size_of::<T>()).unwrap_or(0);
        let window = engine::Window::allocate_shared(&communicator.as_handle().comm, bytes, unit)?;
        let mut places = Vec::new();
        for rank in 0..communicator.target_size() {
            let (base, len, their_unit) = window.shared_query(rank)?;
            let base = NonNull::new(base).filter(|base| base.cast::<T>().is_aligned());
            let Some(base) = base.filter(|_| their_unit == unit || len == 0) else {
                let detail = Detail::Text("another process has elements of another size");
                return Err(Error::new(ErrorClass::Type, CALL).with_detail(detail).with_peer(rank));
            };
            places.push(Place(base, len as usize / size_of::<T>()));
        }
        Ok(Self {
            window,
            communicator: communicator.duplicate()?,
            places,
            elements: PhantomData,
        })
    }

    /// Number of elements at this process.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len_at(self.communicator.rank()).unwrap_or(0)
    }

    /// Returns whether this process has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of elements at a rank; `None` if there is no such rank.
    #[must_use]
    pub fn len_at(&self, rank: Rank) -> Option<usize> {
        let place = self.places.get(usize::try_from(rank).ok()?)?;
        Some(place.1)
    }

    /// Where the elements of a rank are in this process, and their number (`MPI_Win_shared_query`): for programs that
    /// synchronise by themselves. `None` if there is no such rank.
    #[must_use]
    pub fn query(&self, rank: Rank) -> Option<(*mut T, usize)> {
        let Place(base, len) = *self.places.get(usize::try_from(rank).ok()?)?;
        Some((base.as_ptr().cast(), len))
    }

    /// A phase in which each process has its own elements to itself. Collective: waits until all have come to it.
    ///
    /// # Errors
    /// A process is lost; another process begins a phase of another kind (`MPI_ERR_RMA_SYNC`).
    pub fn write<R>(&mut self, f: impl FnOnce(&mut [T]) -> R) -> Result<R, Error> {
        self.begin(Phase::Write)?;
        let Place(base, len) = self.places[self.communicator.rank() as usize];
        // SAFETY: so many elements lie there, valid and aligned, as `allocate` has made sure. All processes are in this
        // phase or wait for the next one, and use their own elements alone.
        Ok(f(unsafe { slice::from_raw_parts_mut(base.as_ptr().cast(), len) }))
    }

    /// A phase in which all processes read the elements of all. Collective: waits until all have come to it.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn read<R>(&mut self, f: impl FnOnce(&Parts<'_, T>) -> R) -> Result<R, Error> {
        self.begin(Phase::Read)?;
        Ok(f(&self.parts()))
    }

    /// A phase in which all processes change the elements of all at the same time. Collective: waits until all have come
    /// to it.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn atomics<R>(&mut self, f: impl FnOnce(&Parts<'_, T::Atomic>) -> R) -> Result<R, Error>
    where
        T: Atomically,
    {
        self.begin(Phase::Atomics)?;
        Ok(f(&self.parts()))
    }

    fn parts<E>(&self) -> Parts<'_, E> {
        Parts {
            places: &self.places,
            elements: PhantomData,
        }
    }

    /// Waits until all processes begin a phase of this kind.
    fn begin(&self, phase: Phase) -> Result<(), Error> {
        let own = phase as i32;
        let mut most = [0; 2];
        self.communicator
            .all_reduce_into(&[own, -own][..], &mut most[..], SystemOperation::max())?;
        if most != [own, -own] {
            let detail = Detail::Text("another process begins a phase of another kind");
            return Err(Error::new(ErrorClass::RmaSync, "MPI_Win_sync").with_detail(detail));
        }
        self.window.sync()
    }

    /// Ends the window, when all processes have called this (`MPI_Win_free`). A window that is dropped ends at this
    /// process alone.
    ///
    /// # Errors
    /// A process is lost.
    pub fn free(self) -> Result<(), Error> {
        self.window.free()
    }
}
