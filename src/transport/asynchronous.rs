//! A transport whose waits are futures, for programs that run on tokio.
#![expect(
    unsafe_code,
    reason = "tokio asks for a promise about the descriptor that it watches"
)]

use std::{fmt, future, os::fd::OwnedFd, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::coop::consume_budget,
    time::{sleep_until, timeout},
};

use super::{
    BackendError, CloseError, Event, FlushError, Incoming, Message, SendBlockingError, SendOptions, Transport,
    WaitError, error::AsyncError,
};
use crate::{
    error::SendError,
    progress::Acks,
    reliability::{Payload, PeerId, SendToken},
};

/// A [`Transport`] on tokio: every method that would wait is a future.
///
/// ```
/// # #[cfg(feature = "udp")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use hikyaku::transport::{AsyncTransport, Transport};
///
/// let alice = Transport::builder().processor(1).bind_udp("127.0.0.1:0")?;
/// let bob = Transport::builder().processor(2).bind_udp("127.0.0.1:0")?;
/// let (mut alice, mut bob) = (AsyncTransport::new(alice)?, AsyncTransport::new(bob)?);
/// let to_bob = alice.get_mut().add_peer(bob.get_ref().local_addr(), 2)?;
/// bob.get_mut().add_peer(alice.get_ref().local_addr(), 1)?;
///
/// alice.send(to_bob, b"hello").await?;
/// assert_eq!(&*bob.receive().await?, b"hello");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "udp"))]
/// # fn main() {}
/// ```
///
/// # Progress
///
/// Like the transport inside, this one sends, receives, acknowledges and resends only while one of its futures is
/// polled. A task that awaits something else for longer than a peer waits
/// ([`Config::death_timeout`](crate::Config::death_timeout)) selects between that and [`wait_any`](Self::wait_any), or
/// calls [`progress`](Transport::progress) now and then. Timers of tokio have a resolution of one millisecond, so a
/// retransmission may come up to that much later than in a [`Transport`] that waits by itself.
///
/// # Cancellation
///
/// Every future may be dropped before it is ready, as `tokio::select!` does. [`receive`](Self::receive),
/// [`receive_from`](Self::receive_from), [`wait_any`](Self::wait_any) and [`wait_event`](Self::wait_event) take something only when they return it, so nothing
/// is lost. [`send`](Self::send) and its relatives take the message whole when they return `Ok`, and nothing of it before
/// that. [`flush`](Self::flush) changes nothing. [`close`](Self::close) leaves a transport that has said goodbye without
/// waiting for an answer, like a transport that is dropped.
pub struct AsyncTransport {
    transport: Transport,
    /// The descriptor of the transport's backend, a duplicate of it.
    descriptor: AsyncFd<OwnedFd>,
}

impl fmt::Debug for AsyncTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncTransport")
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

impl AsyncTransport {
    /// Watches the descriptor of `transport` on the tokio runtime of the caller, whose IO and time drivers must be
    /// enabled.
    ///
    /// # Errors
    /// The backend has no descriptor to watch ([`AsyncError::NoDescriptor`]: DPDK's, and the in-process one), or the
    /// runtime cannot watch it.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as everything of tokio does.
    pub fn new(transport: Transport) -> Result<Self, AsyncError> {
        let descriptor = transport.descriptor().map_err(AsyncError::NoDescriptor)?;
        let descriptor = descriptor.try_clone_to_owned().map_err(AsyncError::Watch)?;
        // SAFETY: `descriptor` is open, and stays so and the same until the `AsyncFd` drops it.
        let descriptor = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        let descriptor = descriptor.map_err(|error| AsyncError::Watch(error.into()))?;
        Ok(Self { transport, descriptor })
    }

    /// The transport, for its getters.
    #[must_use]
    pub fn get_ref(&self) -> &Transport {
        &self.transport
    }

    /// The transport, for calls that do not wait.
    pub fn get_mut(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// Gives the transport back.
    #[must_use]
    pub fn into_inner(self) -> Transport {
        self.transport
    }

    /// Sends a copy of `data`. Waits for room instead of returning [`SendError::WouldBlock`]: that is the back-pressure.
    ///
    /// # Errors
    /// Nothing of the message was taken: the peer is unknown, closed or lost, the message is too large, or the backend
    /// has failed.
    pub async fn send(&mut self, peer: PeerId, data: &[u8]) -> Result<(), SendBlockingError> {
        self.send_with(peer, Payload::Copy(data), &SendOptions::default())
            .await?;
        Ok(())
    }

    /// Sends `data` by reference, waiting for room. [`Event::Sent`] returns the token when everything is acknowledged.
    ///
    /// # Errors
    /// See [`send`](Self::send). [`SendError::EventsWaiting`]: the program does not take the events.
    pub async fn send_bytes(&mut self, peer: PeerId, data: Bytes) -> Result<SendToken, SendBlockingError> {
        let options = SendOptions::default();
        match self.send_with(peer, Payload::Shared(data), &options).await? {
            Some(token) => Ok(token),
            None => unreachable!("a payload by reference has a token"),
        }
    }

    /// Sends with all options, waiting for room. Returns a token for [`Payload::Shared`].
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub async fn send_with(
        &mut self,
        peer: PeerId,
        payload: Payload<'_>,
        options: &SendOptions,
    ) -> Result<Option<SendToken>, SendBlockingError> {
        let mut result = self.transport.send_with(peer, payload.clone(), options);
        while let Err(SendError::WouldBlock(_)) = result {
            self.transport.pass(Acks::Now)?;
            result = self.transport.send_with(peer, payload.clone(), options);
            if let Err(SendError::WouldBlock(_)) = result {
                self.wait().await?;
            }
        }
        Ok(result?)
    }

    /// Waits for the next message. The message is lent until the next call.
    ///
    /// # Errors
    /// The backend has failed: the transport cannot be used any more.
    pub async fn receive(&mut self) -> Result<Message<'_>, BackendError> {
        self.advance_until(Acks::Later, |transport| transport.is_sure_of_message())
            .await?;
        match self.transport.try_receive()? {
            Some(message) => Ok(message),
            None => unreachable!("a message is ready"),
        }
    }

    /// Waits for the next message of `peer`: see [`Transport::receive_from`].
    ///
    /// # Errors
    /// A message of another peer is too large to be set aside ([`WaitError::InTheWay`]), or the backend has failed.
    pub async fn receive_from(&mut self, peer: PeerId) -> Result<Message<'_>, WaitError> {
        let mut found = self.transport.pass_over(peer);
        while found == Ok(false) {
            let more = |transport: &mut Transport| transport.driver.ready() > 0;
            self.advance_until(Acks::Later, more).await?;
            found = self.transport.pass_over(peer);
        }
        found.map_err(WaitError::InTheWay)?;
        match self.transport.next_of(peer) {
            Some(message) => Ok(message),
            None => unreachable!("a message is ready"),
        }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// The backend has failed: the transport cannot be used any more.
    pub async fn wait_event(&mut self) -> Result<Event, BackendError> {
        self.advance_until(Acks::Now, |transport| transport.driver.has_event())
            .await?;
        match self.transport.next_event() {
            Some(event) => Ok(event),
            None => unreachable!("an event is there"),
        }
    }

    /// Waits for the next message or event, messages first.
    ///
    /// # Errors
    /// The backend has failed: the transport cannot be used any more.
    pub async fn wait_any(&mut self) -> Result<Incoming<'_>, BackendError> {
        let there = |transport: &mut Transport| transport.is_sure_of_message() || transport.driver.has_event();
        self.advance_until(Acks::Later, there).await?;
        match self.transport.next_incoming() {
            Some(incoming) => Ok(incoming),
            None => unreachable!("one of them is there"),
        }
    }

    /// Waits until all peers have acknowledged everything sent so far. (`tokio::time::timeout` limits the time.)
    ///
    /// # Errors
    /// A peer was lost before it had acknowledged everything, or the backend has failed.
    pub async fn flush(&mut self) -> Result<(), FlushError> {
        self.transport.driver.watch_losses(true);
        let flushing = Flushing(self);
        flushing.0.transport.driver.request_acks();
        let all_idle = |transport: &mut Transport| transport.driver.messenger().layer().all_idle();
        let flushed = flushing.0.advance_until(Acks::Now, all_idle).await;
        flushed?;
        match flushing.0.transport.driver.losses().first() {
            Some(&(peer, error)) => Err(FlushError::Peer(peer, error)),
            None => Ok(()),
        }
    }

    /// Says goodbye to all peers, after all messages to them, and waits until they have heard it, not longer than
    /// `linger`.
    ///
    /// # Errors
    /// A peer was lost before it had acknowledged everything, the time is over, or the backend has failed. The
    /// transport is gone all the same.
    pub async fn close(mut self, linger: impl Into<Option<Duration>>) -> Result<(), CloseError> {
        let linger = linger.into();
        let ends = self.transport.begin_close();
        let closing = self.advance_until(Acks::Now, |transport| transport.driver.ended() >= ends);
        match linger {
            Some(linger) => timeout(linger, closing).await.unwrap_or(Ok(()))?,
            None => closing.await?,
        }
        let left = self.transport.driver.wait_ended(ends, Some(Duration::ZERO));
        self.transport.end_close(left, linger)
    }

    /// Makes progress until `done`.
    async fn advance_until(&mut self, acks: Acks, done: impl Fn(&mut Transport) -> bool) -> Result<(), BackendError> {
        // A task that always finds something must let others run.
        consume_budget().await;
        while !done(&mut self.transport) {
            self.transport.pass(acks)?;
            if done(&mut self.transport) {
                break;
            }
            self.wait().await?;
        }
        Ok(())
    }

    /// Waits until a pass may find something to do.
    async fn wait(&mut self) -> Result<(), BackendError> {
        let deadline = self.transport.next_deadline();
        let deadline = async {
            match deadline {
                Some(deadline) => sleep_until(deadline.into()).await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            readable = self.descriptor.readable() => {
                // The next pass takes all that is there, or leaves a deadline that is due at once.
                readable.map_err(|error| self.transport.failed(error))?.clear_ready();
            }
            () = deadline => {}
        }
        Ok(())
    }
}

/// A flush under way, which may be cancelled: losses of peers are noted as long as it lives.
struct Flushing<'a>(&'a mut AsyncTransport);

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.0.transport.driver.watch_losses(false);
    }
}
