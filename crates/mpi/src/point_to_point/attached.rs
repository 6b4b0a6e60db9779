#![expect(unsafe_code, reason = "sends from memory of its own")]
//! Buffered sends: messages are copied, and kept until they are sent (MPI 3.6).

use hikyaku::mpi::{
    engine::Communicator as RawCommunicator,
    error::{Detail, Error, ErrorClass},
};

use super::transfer::Outgoing;
use crate::{
    datatype::{Place, bytes},
    request::Running,
};

/// The buffer for buffered sends of one process.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    size: usize,
    used: usize,
    messages: Vec<(Running, Vec<u8>)>,
}

impl Attached {
    /// Size of the whole buffer.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Attaches a buffer, in place of an earlier one (`MPI_Buffer_attach`). Waits until that one is free.
    pub(crate) fn resize(&mut self, size: usize) {
        for (running, _) in &mut self.messages {
            running.wait_quietly();
        }
        self.messages.clear();
        (self.size, self.used) = (size, 0);
    }

    /// Sends from a copy.
    pub(super) fn send(&mut self, comm: &RawCommunicator, outgoing: Outgoing, place: &Place) -> Result<(), Error> {
        let needed = place.bytes() as usize;
        if needed > self.size - self.used {
            self.reap();
        }
        if needed > self.size - self.used {
            let detail = Detail::Value {
                argument: "bytes of the message",
                value: needed as i64,
                min: 0,
                max: (self.size - self.used) as i64,
            };
            return Err(Error::new(ErrorClass::Buffer, "MPI_Bsend").with_detail(detail));
        }
        let mut message = place.pack();
        let copy = Place {
            base: message.as_mut_ptr(),
            count: message.len() as u64,
            datatype: bytes(),
            validator: None,
        };
        let mut begun = None;
        let (data, to) = ((place.count, &place.datatype), (outgoing.destination, outgoing.tag));
        let run = || {
            // SAFETY: the copy is on the heap, is not changed, and is kept until the operation has ended.
            let mut running = unsafe { outgoing.begin(comm, &copy) };
            let ended = running.now();
            begun = Some(running);
            ended.transpose()
        };
        let ended = comm.message_as_one("MPI_Bsend", data, to, None, run, |_| None)?;
        if let (None, Some(running)) = (ended, begun) {
            self.used += message.len();
            self.messages.push((running, message));
        }
        Ok(())
    }

    /// Frees the messages that have been sent.
    fn reap(&mut self) {
        let used = &mut self.used;
        self.messages.retain_mut(|(running, message)| {
            let pending = running.test().is_none();
            *used -= if pending { 0 } else { message.len() };
            pending
        });
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.resize(0);
    }
}
