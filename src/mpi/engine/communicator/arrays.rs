//! Arrays are sent and received.

use alloc::vec;

use super::Communicator;
use crate::mpi::{
    Rank,
    datatype::{Datatype, Kind},
    engine::{Array, Entry, MatchedMessage, Mode, Request, Status},
    error::{Detail, Error, ErrorClass},
};

/// An array that is being received. Dropping it loses the array.
#[derive(Debug)]
pub struct Arriving {
    request: Request,
    array: Array,
}

impl Arriving {
    /// Waits until all of it has arrived.
    ///
    /// # Errors
    /// The sender is lost, or the communicator is revoked.
    pub fn wait(mut self) -> Result<(Array, Status), Error> {
        let status = self.request.wait()?;
        self.array.truncate(usize::try_from(status.len).unwrap_or(usize::MAX));
        Ok((self.array, status))
    }

    /// The receive, to be waited for beside others ([`Request::wait_ready`]).
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Whether all of it has arrived: [`wait`](Self::wait) would not wait. Makes no progress.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.request.is_done()
    }
}

/// Arrays. They are messages of bytes: other receive calls can receive them, and arrays can receive what other send
/// calls send.
impl Communicator {
    /// An array of `len` bytes (`pmGetSendBufferArray`).
    ///
    /// # Panics
    /// There is not enough memory.
    #[must_use]
    pub fn array(&self, len: usize) -> Array {
        let array = self.try_array(len);
        array.unwrap_or_else(|| panic!("there is no memory for an array of {len} bytes"))
    }

    /// As [`array`](Self::array); `None`: there is not enough memory.
    #[must_use]
    pub fn try_array(&self, len: usize) -> Option<Array> {
        Array::new(&self.engine().arrays, len)
    }

    /// Begins to send an array with an id (`pmSendBufferArray`). Above the eager limit it is sent from where it is, and
    /// lands where its receiver uses it. The request need not be kept: [`Array::get_mut`] tells when the array may be
    /// written again.
    ///
    /// # Errors
    /// The rank or the id (a tag) is wrong, or the communicator is revoked.
    pub fn send_array(&self, array: &Array, destination: Rank, id: i32) -> Result<Request, Error> {
        const CALL: &str = "MPI_Isend";
        let bytes = || Entry::of(CALL, array.len() as u64, &Datatype::predefined(Kind::Byte));
        let span = self.enter(|| bytes().with_peer(destination).with_tag(id));
        let buffer = array.buffer();
        let buffer = buffer.ok_or_else(|| self.locate(Error::new(ErrorClass::Count, CALL)));
        span.begin(buffer.and_then(|buffer| self.isend_buffer(CALL, Mode::Standard, buffer, destination, id)))
    }

    /// Waits for an array from this source with this id, and receives it (`pmReceiveBufferArray`). Both may be
    /// wildcards.
    ///
    /// # Errors
    /// The rank or the id is wrong, the communicator is revoked, or the sender is lost.
    pub fn receive_array(&self, source: Rank, id: i32) -> Result<(Array, Status), Error> {
        self.arrive(self.mprobe(source, id)?)?.wait()
    }

    /// Begins to receive an array from this source with this id, if one has been sent. Makes progress once.
    ///
    /// # Errors
    /// The rank or the id is wrong, or the communicator is revoked.
    pub fn poll_array(&self, source: Rank, id: i32) -> Result<Option<Arriving>, Error> {
        let message = self.improbe(source, id)?;
        message.map(|message| self.arrive(message)).transpose()
    }

    /// Begins to receive an array of at most `len` bytes from this source with this id, whether it has been sent or not.
    /// A large array is then on its way as soon as its sender has told of it, while the program waits for others.
    ///
    /// # Errors
    /// The rank or the id is wrong, the communicator is revoked, or there is not enough memory.
    pub fn ireceive_array(&self, len: usize, source: Rank, id: i32) -> Result<Arriving, Error> {
        const CALL: &str = "MPI_Irecv";
        let bytes = || Entry::of(CALL, len as u64, &Datatype::predefined(Kind::Byte));
        let span = self.enter(|| bytes().with_peer(source).with_tag(id));
        let array = self.try_array(len);
        let buffer = array.as_ref().and_then(Array::buffer);
        let (Some(array), Some(buffer)) = (array, buffer) else {
            return span.end(Err(self.locate(Error::new(ErrorClass::NoMem, CALL))));
        };
        let request = span.begin(self.ireceive_buffer(CALL, buffer, source, id))?;
        Ok(Arriving { request, array })
    }

    fn arrive(&self, message: MatchedMessage) -> Result<Arriving, Error> {
        const CALL: &str = "MPI_Imrecv";
        let (number, bytes) = (message.number, message.status().len);
        let span = self.enter(|| Entry {
            requests: vec![number],
            ..Entry::of(CALL, bytes, &Datatype::predefined(Kind::Byte))
        });
        let len = usize::try_from(bytes).ok();
        let array = len.and_then(|len| self.try_array(len));
        let buffer = array.as_ref().and_then(Array::buffer);
        match (array, buffer) {
            (Some(array), Some(buffer)) => Ok(Arriving {
                request: span.begin(Self::receive_matched(CALL, message, buffer))?,
                array,
            }),
            _ => {
                let detail = Detail::Value {
                    argument: "bytes of the message",
                    value: bytes as i64,
                    min: 0,
                    max: isize::MAX as i64,
                };
                span.end(Err(self.locate(Error::new(ErrorClass::NoMem, CALL).with_detail(detail))))
            }
        }
    }
}
