#![expect(unsafe_code, reason = "values are made of bytes that were received")]
//! Messages taken out of the queue, and values made of messages.

use std::{
    alloc::{Layout, alloc_zeroed},
    mem::MaybeUninit,
    ptr::NonNull,
};

use hikyaku::mpi::{
    engine::{self, Communicator as RawCommunicator},
    error::{Detail, Error, ErrorClass},
};

use super::Status;
use crate::{
    datatype::{BufferMut, Equivalence, Place, Validator},
    raw::AsRaw,
    request::{Request, Running, Scope, uninterrupted},
};

/// A message that a matched probe has taken out of the queue. A message that is dropped without being received is lost.
#[derive(Debug)]
#[must_use = "a message that is dropped is lost"]
pub struct Message(engine::MatchedMessage);

/// Another name of [`Message`].
pub type MatchedMessage = Message;

impl Message {
    pub(super) fn new(message: engine::MatchedMessage) -> Self {
        Self(message)
    }

    /// Returns whether it is from no process (`MPI_MESSAGE_NO_PROC`). That does not happen here.
    #[must_use]
    pub fn is_no_proc(&self) -> bool {
        false
    }

    /// Receives the message as one value (`MPI_Mrecv`).
    ///
    /// # Errors
    /// The message is not such a value, or the sender is lost.
    pub fn matched_receive<Msg: Equivalence>(self) -> Result<(Msg, Status), Error> {
        let value = Value::<Msg>::new();
        let status = self.receive(&value.place())?;
        value.received("MPI_Mrecv", status)
    }

    /// Receives the message into a buffer. The message may be shorter than the buffer.
    ///
    /// # Errors
    /// The message is longer than the buffer, which then holds its beginning; or the sender is lost.
    pub fn matched_receive_into<Buf: BufferMut + ?Sized>(self, buf: &mut Buf) -> Result<Status, Error> {
        self.receive(&Place::of_mut(buf))
    }

    /// Begins to receive the message into a buffer (`MPI_Imrecv`).
    pub fn immediate_matched_receive_into<'a, Sc, Buf>(self, scope: Sc, buf: &'a mut Buf) -> Request<'a, Buf, Sc>
    where
        Buf: 'a + BufferMut + ?Sized,
        Sc: Scope<'a>,
    {
        let data: *mut Buf = buf;
        // SAFETY: just borrowed; what is derived from it is not used any more when `data` is.
        let place = Place::of_mut(unsafe { &mut *data });
        // SAFETY: borrowed for `'a`, and the scope ends the operation before that.
        let running = unsafe { self.begin(&place) };
        Request::new(running, data, scope)
    }

    /// # Safety
    /// The place is borrowed mutably until the operation has ended.
    unsafe fn begin(self, place: &Place) -> Running {
        // SAFETY: the caller's contract.
        let begun = unsafe { RawCommunicator::imreceive(self.0, place.base, place.count, &place.datatype) };
        Running::new(begun).into_place(place)
    }

    /// Receives the message into a place that is borrowed mutably meanwhile.
    fn receive(self, place: &Place) -> Result<Status, Error> {
        // SAFETY: borrowed by our caller, and this is not left before the end.
        let received =
            uninterrupted(|| unsafe { RawCommunicator::mreceive(self.0, place.base, place.count, &place.datatype) });
        place.validate();
        received.map(Status::new)
    }
}

/// Receives a message of the length that the probe has found.
pub trait MatchedReceiveVec {
    /// Receives the message as values.
    ///
    /// # Errors
    /// The message is not a whole number of such values, or the sender is lost.
    fn matched_receive_vec<Msg: Equivalence>(self) -> Result<(Vec<Msg>, Status), Error>;
}

impl MatchedReceiveVec for (Message, Status) {
    fn matched_receive_vec<Msg: Equivalence>(self) -> Result<(Vec<Msg>, Status), Error> {
        let (message, status) = self;
        let datatype = Msg::equivalent_datatype().as_raw();
        let bytes = status.len();
        let count = bytes.checked_div(datatype.size()).unwrap_or(0);
        let whole = count * datatype.size() == bytes;
        let Some(mut values) = zeroed::<Msg>(count) else {
            return Err(no_memory("MPI_Mrecv", bytes).with_peer(status.source_rank()));
        };
        let place = Place {
            base: values.as_mut_ptr().cast(),
            count,
            datatype,
            validator: Validator::of(values.as_mut_ptr(), count as usize),
        };
        let received = message.receive(&place);
        if !whole {
            return Err(not_whole::<Msg>("MPI_Mrecv", bytes, count).with_peer(status.source_rank()));
        }
        let status = received?;
        // SAFETY: all have been received (or the message would have been shorter than what the probe said, which it
        // never is), and made valid.
        unsafe { values.set_len(count as usize) };
        Ok((values, status))
    }
}

/// Memory for `count` values, zeroed and not touched yet: the count is only the sender's claim. `None`: there is not so
/// much memory.
fn zeroed<T>(count: u64) -> Option<Vec<T>> {
    let count = usize::try_from(count).ok()?;
    let layout = Layout::array::<T>(count).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the layout has a size.
    let memory = unsafe { alloc_zeroed(layout) }.cast::<T>();
    // SAFETY: if it is not null it was allocated as a vector of this capacity allocates.
    (!memory.is_null()).then(|| unsafe { Vec::from_raw_parts(memory, 0, count) })
}

/// There is no memory for a message of this size.
fn no_memory(call: &'static str, bytes: u64) -> Error {
    Error::new(ErrorClass::NoMem, call).with_detail(Detail::Value {
        argument: "bytes of the message",
        value: i64::try_from(bytes).unwrap_or(i64::MAX),
        min: 0,
        max: isize::MAX as i64,
    })
}

fn not_whole<Msg: Equivalence>(call: &'static str, bytes: u64, count: u64) -> Error {
    Error::new(ErrorClass::Truncate, call).with_detail(Detail::Value {
        argument: "bytes of the message",
        value: bytes as i64,
        min: (count.max(1) * Msg::equivalent_datatype().as_raw().size()) as i64,
        max: (count.max(1) * Msg::equivalent_datatype().as_raw().size()) as i64,
    })
}

/// Memory for one value that is received. (No `Box`: that would claim to be the only way to its memory.)
#[derive(Debug)]
pub(super) struct Value<Msg>(NonNull<MaybeUninit<Msg>>);

impl<Msg: Equivalence> Value<Msg> {
    pub(super) fn new() -> Self {
        let room = Box::new(MaybeUninit::zeroed());
        // SAFETY: a box is not null.
        Self(unsafe { NonNull::new_unchecked(Box::into_raw(room)) })
    }

    /// The place to receive into.
    pub(super) fn place(&self) -> Place {
        let value = self.0.cast::<Msg>().as_ptr();
        Place {
            base: value.cast(),
            count: 1,
            datatype: Msg::equivalent_datatype().as_raw(),
            validator: Validator::of(value, 1),
        }
    }

    /// The value, after the receive.
    pub(super) fn received(self, call: &'static str, status: Status) -> Result<(Msg, Status), Error> {
        let size = Msg::equivalent_datatype().as_raw().size();
        if status.is_cancelled() || status.len() != size {
            return Err(not_whole::<Msg>(call, status.len(), 1).with_peer(status.source_rank()));
        }
        // SAFETY: all bytes of the datatype have been received, the others are zero, and it was made valid.
        Ok((unsafe { self.0.as_ref().assume_init_read() }, status))
    }
}

impl<Msg> Drop for Value<Msg> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`; the value, if there is one, was moved out.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
