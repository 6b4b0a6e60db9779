//! MPI by pointer, with memory that is kept as long as the network may refer to it.

use std::time::Duration;

use hikyaku::{
    mpi::{
        Rank,
        datatype::{Datatype, Kind},
        engine::{Communicator, MatchedMessage, Mode, Request, Status},
        error::Error,
    },
    sim,
};

pub(crate) fn byte() -> Datatype {
    Datatype::predefined(Kind::Byte)
}

pub(crate) fn i64s() -> Datatype {
    Datatype::predefined(Kind::I64)
}

/// Polls at growing intervals, so that long faults do not take many polls.
#[derive(Default)]
pub(crate) struct Timeout(u32);

impl Timeout {
    pub(crate) fn wait(&mut self) {
        self.0 = (self.0 + 1).min(10);
        if let Err(error) = sim::compute(Duration::from_micros(1 << self.0)) {
            panic!("{error}");
        }
    }
}

/// Memory of messages. It is freed only by [`done`](Self::done), when all of them have ended: after an error, some may
/// not have.
#[derive(Default)]
pub(crate) struct Kept(Vec<Box<[u8]>>);

impl Kept {
    pub(crate) fn keep(&mut self, bytes: Vec<u8>) -> *mut u8 {
        self.0.push(bytes.into_boxed_slice());
        self.0.last_mut().map_or(std::ptr::null_mut(), |last| last.as_mut_ptr())
    }

    pub(crate) fn last(&self) -> usize {
        self.0.len() - 1
    }

    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
        &self.0[index]
    }

    /// All messages have ended.
    pub(crate) fn done(mut self) {
        self.0.clear();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        std::mem::take(&mut self.0).into_iter().for_each(std::mem::forget);
    }
}

pub(crate) fn isend(
    comm: &Communicator,
    mode: Mode,
    kept: &mut Kept,
    data: Vec<u8>,
    to: Rank,
    tag: i32,
) -> Result<Request, Error> {
    let len = data.len() as u64;
    let base = kept.keep(data);
    // SAFETY: it is kept until all messages have ended, and not written to.
    unsafe { comm.isend(mode, base, len, &byte(), to, tag) }
}

pub(crate) fn ireceive(
    comm: &Communicator,
    kept: &mut Kept,
    room: usize,
    from: Rank,
    tag: i32,
) -> Result<Request, Error> {
    let base = kept.keep(vec![0xee; room]);
    // SAFETY: it is kept until all messages have ended, and not read before.
    unsafe { comm.ireceive(base, room as u64, &byte(), from, tag) }
}

pub(crate) fn receive(comm: &Communicator, room: &mut [u8], from: Rank, tag: i32) -> Result<Status, Error> {
    // SAFETY: `room` is borrowed until it has ended.
    unsafe { comm.receive(room.as_mut_ptr(), room.len() as u64, &byte(), from, tag) }
}

pub(crate) fn receive_matched(message: MatchedMessage, room: &mut [u8]) -> Result<Status, Error> {
    // SAFETY: `room` is borrowed until it has ended.
    unsafe { Communicator::imreceive(message, room.as_mut_ptr(), room.len() as u64, &byte()) }?.wait()
}
