//! The interface of every compared transport, so that each benchmark is written once.
//!
//! A *hub* answers; one or more *spokes* ask and hold the stop-watch. An error of kind `TimedOut` says that data was
//! lost or the other end has gone; anything else is fatal.

use std::io;

use super::{
    settings::{Job, Offer, Operation, Report},
    sizes::{Messages, Sizes},
};

/// The end that answers.
pub(crate) trait Hub {
    /// Where spokes reach it.
    fn offer(&self) -> io::Result<Offer>;

    /// Takes in the next spoke, which has just been opened towards [`Hub::offer`].
    fn join(&mut self, spoke: &Offer) -> io::Result<()>;

    /// Called once the spoke that joined last has been told to get [`Spoke::ready`]; the spoke may be waiting for it.
    fn joined(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Sends back `count` messages of these sizes to their senders, the first `spokes` spokes being the senders.
    fn echo(&mut self, sizes: &Sizes, count: usize, spokes: usize) -> io::Result<()>;

    /// Receives `count` messages of these sizes in all, each put together in its place, and gives every spoke a small
    /// reply after each `window` of its messages.
    fn sink(&mut self, sizes: &Sizes, window: usize, count: usize, spokes: usize) -> io::Result<()>;

    /// The hub's part of a round is over and no clock runs here: brings to an end what is still under way.
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Throws away what is left over from a round that went wrong.
    fn drain(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The end that asks.
pub(crate) trait Spoke {
    /// Where the hub reaches it.
    fn offer(&self) -> io::Result<Offer>;

    /// Called once when the hub has taken this spoke in; the hub is in [`Hub::joined`] at the same time.
    fn ready(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Sends one message, waits for its echo, and shows that to `seen` where it lies.
    fn ping(&mut self, message: &[u8], seen: &mut dyn FnMut(&[u8])) -> io::Result<()>;

    /// Sends the first `window` messages and waits for the reply. `spokes` spokes do so at the same time.
    fn stream(&mut self, messages: &Messages, window: usize, spokes: usize) -> io::Result<()>;

    /// Does a whole round, if the ends are programs with a stop-watch of their own.
    fn measured(&mut self, _: &Job) -> Option<io::Result<Report>> {
        None
    }

    /// The round is over and no clock runs: brings to an end what is still under way.
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Throws away what is left over from a round that went wrong.
    fn drain(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The hub's part of one round.
pub(crate) fn serve(hub: &mut dyn Hub, job: &Job, sizes: &Sizes) -> io::Result<()> {
    let operations = job.operations() * job.spokes;
    match job.operation {
        Operation::PingPong => hub.echo(sizes, operations, job.spokes),
        Operation::Stream => hub.sink(sizes, job.window, operations * job.window, job.spokes),
    }
}
