#![expect(unsafe_code, reason = "lends parts of a buffer to threads and to the engine")]
//! Messages whose parts are sent as they become ready, and can be read as they arrive (MPI 4.2). Not in rsmpi.
//!
//! Each side divides its buffer into partitions of equal length, in any number. Each time the message is started, the
//! sender gets a [`Part`] for each partition, and may give the parts to its threads: a part is the memory of the
//! partition until it is [`ready`](Part::ready). The receiver asks its [`Arrivals`] for partitions that have arrived.
//!
//! ```
//! use mpi::{point_to_point::partitioned, traits::*};
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let myself = world.this_process();
//! let (mut news, mut room) = ([0; 12], [0; 12]);
//! let mut receiving = partitioned::receive_init(&myself, &mut room, 2, 0)?;
//! let mut sending = partitioned::send_init(&myself, &mut news, 4, 0)?;
//! for round in 1..4 {
//!     mpi::request::scope(|scope| {
//!         let (arrivals, received) = receiving.start(scope);
//!         let (parts, sent) = sending.start(scope);
//!         std::thread::scope(|threads| {
//!             for mut part in parts {
//!                 threads.spawn(move || {
//!                     let value = part.index() as i32 + round;
//!                     part.fill(value);
//!                     part.ready()
//!                 });
//!             }
//!         });
//!         sent.wait()?;
//!         received.wait()?;
//!         let first = arrivals.get(0)?.expect("all is there");
//!         assert_eq!(first, [round, round, round, round + 1, round + 1, round + 1]);
//!         Ok::<_, mpi::Error>(())
//!     })?;
//! }
//! # Ok::<_, mpi::Error>(())
//! ```
//!
//! A part that is ready cannot be changed any more:
//!
//! ```compile_fail,E0382
//! use mpi::{point_to_point::partitioned, traits::*};
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let mut news = [0; 4];
//! let mut sending = partitioned::send_init(&world.this_process(), &mut news, 1, 0).unwrap();
//! mpi::request::scope(|scope| {
//!     let (mut parts, sent) = sending.start(scope);
//!     let mut part = parts.pop().unwrap();
//!     part.ready().unwrap();
//!     part[0] = 1;
//! });
//! ```
//!
//! The buffer can neither be read nor freed during the receive:
//!
//! ```compile_fail,E0502
//! use mpi::{point_to_point::partitioned, traits::*};
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let mut room = vec![0; 4];
//! let mut receiving = partitioned::receive_init(&world.this_process(), &mut room, 1, 0).unwrap();
//! mpi::request::scope(|scope| {
//!     let (arrivals, received) = receiving.start(scope);
//!     println!("{:?}", receiving.buffer());
//!     received.wait()
//! });
//! ```
//!
//! ```compile_fail,E0505
//! use mpi::{point_to_point::partitioned, traits::*};
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let mut room = vec![0; 4];
//! let mut receiving = partitioned::receive_init(&world.this_process(), &mut room, 1, 0).unwrap();
//! mpi::request::scope(|scope| {
//!     std::mem::forget(receiving.start(scope));
//!     drop(receiving);
//!     drop(room);
//! });
//! ```

use std::{
    fmt,
    marker::PhantomData,
    mem,
    ops::{Deref, DerefMut},
    slice,
};

use hikyaku::mpi::{
    engine,
    error::{Detail, Error, ErrorClass},
};

use super::{Destination, Source};
use crate::{
    Tag,
    datatype::Equivalence,
    raw::AsRaw,
    request::{Request, Running, Scope},
    topology::handle,
};

/// A message that is sent partition by partition, again and again.
#[must_use = "it does nothing before it is started"]
pub struct PartitionedSend<'a, T: Equivalence> {
    raw: engine::PartitionedSend,
    buffer: &'a mut [T],
    /// Number of elements of a partition.
    each: usize,
}

/// A message that is received partition by partition, again and again.
#[must_use = "it does nothing before it is started"]
pub struct PartitionedReceive<'a, T: Equivalence> {
    raw: engine::PartitionedReceive,
    buffer: &'a mut [T],
    /// Number of elements of a partition.
    each: usize,
}

/// Number and length of the partitions.
fn cut(call: &'static str, len: usize, partitions: usize) -> Result<(u32, u64), Error> {
    let detail = Detail::Text("the elements of the buffer cannot be divided evenly among the partitions");
    let wrong = Error::new(ErrorClass::Count, call).with_detail(detail);
    match (u32::try_from(partitions), len.checked_rem(partitions)) {
        (Ok(number), Some(0)) => Ok((number, (len / partitions) as u64)),
        _ => Err(wrong),
    }
}

/// Sets up a send of a buffer in partitions of equal length (`MPI_Psend_init`). It matches the receive that the other
/// side sets up with the same tag, in the order in which both sides do so.
///
/// # Errors
/// The partitions do not divide the buffer evenly, the tag is negative, or the communicator is revoked.
pub fn send_init<'a, D: Destination, T: Equivalence>(
    destination: &D,
    buf: &'a mut [T],
    partitions: usize,
    tag: Tag,
) -> Result<PartitionedSend<'a, T>, Error> {
    let cut = cut("MPI_Psend_init", buf.len(), partitions)?;
    let datatype = T::equivalent_datatype().as_raw();
    let (comm, rank) = (&handle(destination).comm, destination.destination_rank());
    // SAFETY: it is started with the address that the buffer has then, which is borrowed until the round has ended; and
    // what is ready is not written to, because its `Part` is gone.
    let raw = unsafe { comm.psend_init(buf.as_ptr().cast(), cut, &datatype, rank, tag) }?;
    Ok(PartitionedSend {
        raw,
        buffer: buf,
        each: cut.1 as usize,
    })
}

/// Sets up a receive of a buffer in partitions of equal length (`MPI_Precv_init`), in any number. Not for types with
/// truth values, whose bytes would have to be checked.
///
/// # Errors
/// The partitions do not divide the buffer evenly, the source or tag is a wildcard, the tag is negative, or the
/// communicator is revoked.
pub fn receive_init<'a, S: Source, T: Equivalence>(
    source: &S,
    buf: &'a mut [T],
    partitions: usize,
    tag: Tag,
) -> Result<PartitionedReceive<'a, T>, Error> {
    const { assert!(T::CHECK.is_none(), "any bytes must be a value: no truth values") };
    let cut = cut("MPI_Precv_init", buf.len(), partitions)?;
    let datatype = T::equivalent_datatype().as_raw();
    let (comm, rank) = (&handle(source).comm, source.source_rank());
    // SAFETY: it is started with the address that the buffer has then, which is borrowed mutably until the round has
    // ended; only what has arrived is given out.
    let raw = unsafe { comm.precv_init(buf.as_mut_ptr().cast(), cut, &datatype, rank, tag) }?;
    Ok(PartitionedReceive {
        raw,
        buffer: buf,
        each: cut.1 as usize,
    })
}

impl<T: Equivalence> PartitionedSend<'_, T> {
    /// Starts the message once more (`MPI_Start`). Returns its parts, in order, and a request that ends when all parts
    /// are ready and sent: a scope that waits for the request waits for the threads that have the parts. (If it cannot
    /// start, there are no parts, and the request returns the error.)
    pub fn start<'b, Sc: Scope<'b>>(&'b mut self, scope: Sc) -> (Vec<Part<'b, T>>, Request<'b, (), Sc>) {
        let base = self.buffer.as_mut_ptr();
        // SAFETY: borrowed for `'b`, and the scope ends the round before that; see `send_init`.
        unsafe { self.raw.move_to(base.cast()) };
        let begun = self.raw.start();
        let (raw, each) = (&self.raw, self.each);
        let all = begun.as_ref().map_or(0, |_| raw.partitions());
        let part = |index: u32| Part {
            raw,
            index,
            base: base.wrapping_add(index as usize * each),
            len: each,
            memory: PhantomData,
        };
        let parts = (0..all).map(part).collect();
        (parts, Request::new(Running::new(begun), &(), scope))
    }
}

impl<T: Equivalence> PartitionedReceive<'_, T> {
    /// Starts the message once more (`MPI_Start`). Returns its arrivals, and a request that ends when all partitions
    /// have arrived.
    pub fn start<'b, Sc: Scope<'b>>(&'b mut self, scope: Sc) -> (Arrivals<'b, T>, Request<'b, (), Sc>) {
        let base = self.buffer.as_mut_ptr();
        // SAFETY: borrowed mutably for `'b`, and the scope ends the round before that; see `receive_init`.
        unsafe { self.raw.move_to(base.cast()) };
        let begun = self.raw.start();
        let arrivals = Arrivals {
            raw: &self.raw,
            base,
            each: self.each,
            memory: PhantomData,
        };
        (arrivals, Request::new(Running::new(begun), &(), scope))
    }
}

/// The memory of a partition that is not ready. Dropping it makes it ready as it is.
pub struct Part<'b, T: Equivalence> {
    raw: &'b engine::PartitionedSend,
    index: u32,
    base: *mut T,
    len: usize,
    memory: PhantomData<&'b mut [T]>,
}

// SAFETY: as `&mut [T]`, of a type that may be sent to other threads (`Equivalence`).
unsafe impl<T: Equivalence> Send for Part<'_, T> {}
// SAFETY: as `&[T]`, of a type that is plain data.
unsafe impl<T: Equivalence> Sync for Part<'_, T> {}

impl<T: Equivalence> Part<'_, T> {
    /// The number of the partition, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Marks the partition as ready to be sent (`MPI_Pready`).
    ///
    /// # Errors
    /// None is known: the request returns the errors of the message.
    pub fn ready(self) -> Result<(), Error> {
        let done = self.raw.ready(self.index);
        mem::forget(self);
        done
    }
}

impl<T: Equivalence> Deref for Part<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: it is of the buffer, in no other part, and not ready.
        unsafe { slice::from_raw_parts(self.base, self.len) }
    }
}

impl<T: Equivalence> DerefMut for Part<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.base, self.len) }
    }
}

impl<T: Equivalence> Drop for Part<'_, T> {
    fn drop(&mut self) {
        let _ = self.raw.ready(self.index);
    }
}

/// Shows which partitions have arrived.
#[derive(Clone, Copy)]
pub struct Arrivals<'b, T: Equivalence> {
    raw: &'b engine::PartitionedReceive,
    base: *const T,
    each: usize,
    memory: PhantomData<&'b [T]>,
}

// SAFETY: as `&[T]`, of a type that is plain data.
unsafe impl<T: Equivalence> Send for Arrivals<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Equivalence> Sync for Arrivals<'_, T> {}

impl<'b, T: Equivalence> Arrivals<'b, T> {
    /// Returns a partition, if it has arrived (`MPI_Parrived`). Makes progress once if it has not.
    ///
    /// # Errors
    /// There is no such partition, or the network has failed.
    pub fn get(&self, partition: usize) -> Result<Option<&'b [T]>, Error> {
        let index = u32::try_from(partition).unwrap_or(u32::MAX);
        if !self.raw.arrived(index)? {
            return Ok(None);
        }
        let start = self.base.wrapping_add(partition * self.each);
        // SAFETY: it is of the buffer, has arrived, and is not written before the next start, which is after `'b`; any
        // bytes are values (`receive_init`).
        Ok(Some(unsafe { slice::from_raw_parts(start, self.each) }))
    }

    /// Number of partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.raw.partitions() as usize
    }
}

macro_rules! common {
    ($($name:ident)*) => {$(
        impl<T: Equivalence> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("raw", &self.raw).finish_non_exhaustive()
            }
        }
    )*};
}

common! {
    PartitionedSend
    PartitionedReceive
    Part
    Arrivals
}

macro_rules! buffers {
    ($($name:ident)*) => {$(
        impl<T: Equivalence> $name<'_, T> {
            /// The buffer.
            #[must_use]
            pub fn buffer(&self) -> &[T] {
                self.buffer
            }

            /// The buffer, mutably.
            #[must_use]
            pub fn buffer_mut(&mut self) -> &mut [T] {
                self.buffer
            }
        }
    )*};
}

buffers! {
    PartitionedSend
    PartitionedReceive
}
