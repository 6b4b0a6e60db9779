//! Makes progress: moves datagrams between a [`Messenger`] and a [`Backend`], by one clock.
//!
//! A *pass* is:
//!
//! 1. transmit what the messenger has to transmit;
//! 2. receive a burst and hand it to the messenger, with one reading of the clock, or with none if the clock was read a
//!    few empty polls ago;
//! 3. if that made messages ready, return to the caller, so that its reply can carry the acknowledgement; otherwise
//!    transmit again;
//! 4. if there was nothing to receive and a deadline is due, handle the deadline. Receiving comes first, so that time
//!    during which *this* side did not run never looks like silence of a peer.
//!
//! [`Driver::send`] transmits within the call if the flow has nothing in flight; otherwise it transmits full batches
//! only. The rest waits for further messages until the next pass. Every pass begins by transmitting.
//!
//! Between passes, a waiting driver spins (or yields), sleeps, or spins a little and then sleeps: [`WaitPolicy`].

mod aside;
mod chance;
mod clock;
mod closing;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod counter;
mod events;
mod parked;
mod policy;
mod report;
#[cfg(all(test, feature = "loopback"))]
mod tests;
mod transmit;

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use std::hint::spin_loop as relax;
use std::{fmt, hint, io, mem, net::SocketAddr, thread, time::Duration};

#[cfg(all(target_arch = "x86_64", not(miri)))]
use self::counter::relax;
pub use self::policy::{Acks, WaitPolicy};
pub(crate) use self::{
    chance::{random, random_key},
    clock::Clock,
    report::Report,
};
use self::{
    clock::Stopwatch,
    events::{Events, MAX_SENT},
    parked::Parked,
};
use crate::{
    backends::{Backend, BackendStats, Capabilities, Data, Neighbours, Notice, Received, Unreachable, Wake},
    error::{AddPeerError, AddRailError, PeerError, SendError},
    messaging::{Message, Messenger, SendOptions},
    reliability::{Burst, Due, Event, Limits, LostMessages, Path, Payload, PeerId, SendToken},
    time::{Instant, nanos},
};

/// Most buffers per receive. Few, so that they stay in the cache, and so that a caller that waits for an answer does
/// not wait for the rest.
const BUDGET: usize = 4;
/// Most bursts that a call without waiting receives; a call that waits checks its time limit after this many bursts.
const BURSTS: u32 = 16;
/// Empty passes per reading of the clock while spinning.
const EMPTY_PASSES: u32 = 8;
/// A program that does something else polls again after this time, ns: a poll costs a thirtieth of it.
#[cfg(feature = "mpi")]
const NEXT_LOOK: u64 = 10_000;
/// A due deadline waits for at most this many passes that had something to receive.
const BUSY_PASSES: u32 = 8;
/// Messages that come past the backend between two passes.
const UNPOLLED: u32 = 16;
/// It does not pay to sleep for less than this, ns.
const SHORT: u64 = 2_000;
/// How long to sleep at most while a burst waits for room in the backend.
const BUSY_WAIT: Duration = Duration::from_micros(100);
/// A messenger, a backend, a clock and a way to wait. See the module's documentation.
pub struct Driver {
    messenger: Messenger,
    backend: Box<dyn Backend>,
    capabilities: Capabilities,
    clock: Stopwatch,
    policy: WaitPolicy,
    /// The last reading of the clock.
    now: Instant,
    burst: Burst,
    /// The burst could not be transmitted yet.
    held: bool,
    /// The bytes of a held burst: the memory that they were gathered from may be acknowledged and freed before the next
    /// try.
    kept: Vec<u8>,
    /// Bursts that wait for room in their ports, one for each, while others go on.
    parked: Vec<Parked>,
    /// There is something to do before transmitting: to hear of released memory, or for what is parked.
    prepares: bool,
    /// There may be more to receive.
    backlog: bool,
    /// Index of the buffer that was handed in last: a message may still lie in it.
    last: usize,
    /// Passes in a row that had something to receive while a deadline was due.
    overdue: u32,
    /// Passes in a row that did not poll the backend.
    postponed: u32,
    /// Messages in a row that were received without a pass.
    unpolled: u32,
    passes: u64,
    /// When the backend was last polled for received datagrams.
    looked: Instant,
    events: Events,
    /// Sessions that have ended.
    ended: u64,
    /// Peers lost with unacknowledged messages, since [`Driver::watch_losses`] was called.
    losses: Option<Vec<(PeerId, PeerError)>>,
    /// The error of a backend that failed in a call that could not return it; the next pass returns it.
    failure: Option<io::Error>,
    report: Option<Report>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("backend", &self.backend.name())
            .field("local_addr", &self.backend.local_addr())
            .field("policy", &self.policy)
            .field("messenger", &self.messenger)
            .finish_non_exhaustive()
    }
}

/// The properties of a backend that the protocol must know.
impl From<&Capabilities> for Limits {
    fn from(capabilities: &Capabilities) -> Self {
        Self {
            max_datagram: capabilities.max_datagram,
            max_segments: capabilities.max_segments,
            max_batch: capabilities.max_batch,
            receive_buffer: capabilities.receive_buffer,
            holds_references: capabilities.holds_references,
            ack_bytes: capabilities.ack_bytes,
            receive_port: capabilities.receive_port,
        }
    }
}

/// Getters.
impl Driver {
    /// Joins `messenger` and `backend`. The endpoint in `messenger` must have been made with the limits of the backend
    /// (`Limits::from`).
    #[must_use]
    pub fn new(messenger: Messenger, backend: Box<dyn Backend>, policy: WaitPolicy) -> Self {
        let clock = Clock::new();
        let capabilities = backend.capabilities();
        let mut this = Self {
            messenger,
            capabilities,
            backend,
            clock: Stopwatch::new(clock),
            policy,
            now: clock.now(),
            burst: Burst::default(),
            held: false,
            kept: Vec::new(),
            parked: Vec::new(),
            prepares: capabilities.holds_references,
            backlog: false,
            last: 0,
            overdue: 0,
            postponed: 0,
            unpolled: 0,
            passes: 0,
            looked: clock.now(),
            events: Events::default(),
            ended: 0,
            losses: None,
            failure: None,
            report: None,
        };
        this.limit_ports();
        this
    }

    /// The messenger, for its getters.
    #[must_use]
    #[inline]
    pub fn messenger(&self) -> &Messenger {
        &self.messenger
    }

    /// The address at which peers reach this driver.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.backend.local_addr()
    }

    /// The backend, for its getters.
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Counters of the backend.
    #[must_use]
    pub fn backend_stats(&self) -> BackendStats {
        self.backend.stats()
    }

    /// Number of messages that can be received without a pass.
    #[must_use]
    #[inline]
    pub fn ready(&self) -> usize {
        self.messenger.ready()
    }

    /// The time at which the next pass is due even if nothing arrives. A pass is due at once if there is something to
    /// transmit, or if the last pass ended before everything was received.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.backlog {
            return Some(self.now);
        }
        if self.has_waiting() {
            return Some(self.now + BUSY_WAIT);
        }
        earliest(self.messenger.poll_timeout(), self.backend.next_deadline())
    }

    /// [`deadline`](Self::deadline) on the system's clock.
    #[must_use]
    pub fn std_deadline(&self) -> Option<std::time::Instant> {
        self.clock.clock().to_std(self.deadline()?)
    }

    /// Returns whether an event waits for [`poll_event`](Self::poll_event).
    pub(crate) fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    #[cfg(feature = "mpi")]
    /// Time until [`deadline`](Self::deadline).
    pub(crate) fn time_left(&mut self) -> Option<Duration> {
        let deadline = self.deadline()?;
        let now = self.read_clock();
        Some(Duration::from_nanos(deadline.nanos_since(now)))
    }

    #[cfg(feature = "mpi")]
    /// Sleeps until something arrives or a deadline is due, for at most `most`.
    pub(crate) fn sleep_at_most(&mut self, most: Duration) -> io::Result<Wake> {
        let now = self.read_clock();
        self.sleep(now, Some(now + most))
    }

    /// Returns whether the backend was last polled [`NEXT_LOOK`] ago or earlier.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.clock.now().nanos_since(self.looked) >= NEXT_LOOK
    }

    /// Number of calls since the start that made passes.
    pub(crate) fn passes(&self) -> u64 {
        self.passes
    }
}

/// Commands.
impl Driver {
    /// See [`Messenger::add_peer`].
    ///
    /// # Errors
    /// See there.
    pub fn add_peer(&mut self, address: SocketAddr, processor: u32) -> Result<PeerId, AddPeerError> {
        self.messenger.add_peer(address, processor)
    }

    /// See [`Messenger::add_rail`].
    ///
    /// # Errors
    /// See there.
    pub fn add_rail(&mut self, peer: PeerId, path: Path) -> Result<u8, AddRailError> {
        let now = self.read_clock();
        self.messenger.add_rail(now, peer, path)
    }

    /// The first rail to a peer leaves by this port of the backend, instead of the first.
    #[cfg(feature = "mpi")]
    pub(crate) fn leave_by(&mut self, peer: PeerId, port: u8) {
        self.messenger.leave_by(peer, port);
    }

    /// Queues a message. If nothing is in flight to this peer, the call transmits what is queued; otherwise it
    /// transmits full batches only. With [`SendOptions::more`], which says that more is to come, it transmits nothing.
    ///
    /// # Errors
    /// See [`Messenger::send`]; and [`SendError::EventsWaiting`].
    #[inline]
    pub fn send(
        &mut self,
        peer: PeerId,
        options: &SendOptions,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        if matches!(payload, Payload::Shared(_)) && self.events.sent() >= MAX_SENT {
            return Err(SendError::EventsWaiting(MAX_SENT));
        }
        self.queue(peer, options, payload)
    }

    /// Like [`send`](Self::send), but no [`Event::Sent`] reports this message. Until the next such call,
    /// [`is_sent`](Self::is_sent) does.
    pub(crate) fn send_untold(
        &mut self,
        peer: PeerId,
        options: &SendOptions,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        let token = self.queue(peer, options, payload)?;
        if let Some(token) = token {
            self.events.mute(token);
        }
        Ok(token)
    }

    /// Returns whether the last message sent by [`send_untold`](Self::send_untold) has been acknowledged as a whole,
    /// whatever has happened to its peer since.
    pub(crate) fn is_sent(&mut self, token: SendToken) -> bool {
        self.collect_events();
        !self.events.is_muted(token)
    }

    #[inline]
    fn queue(
        &mut self,
        peer: PeerId,
        options: &SendOptions,
        payload: Payload<'_>,
    ) -> Result<Option<SendToken>, SendError> {
        if let Payload::Copy(data) = payload
            && let Some(transmits) = self.messenger.send_plain(peer, options, data)
        {
            if transmits {
                self.transmit_now();
            }
            return Ok(None);
        }
        let due = if options.more {
            Due::Later
        } else {
            self.messenger.layer().due(peer, options.channel, payload.len())
        };
        if due == Due::Now
            && let Payload::Copy(data) = payload
            && self.send_inline(peer, options, data)
        {
            return Ok(None);
        }
        // A message queued behind others needs no exact time, and a transmission reads the clock itself.
        let token = self.messenger.send(self.now, peer, options, payload)?;
        match due {
            Due::Now => self.transmit_now(),
            Due::Batch => self.transmit_batches(peer, options.channel),
            Due::Later => {}
        }
        Ok(token)
    }

    /// Transmits while a full batch is queued. The rest waits for further messages: alone it would be a burst of its
    /// own.
    fn transmit_batches(&mut self, peer: PeerId, channel: u8) {
        while self.messenger.layer().has_batch(peer, channel) {
            let now = self.read_clock();
            match self.transmit_next(now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
        }
    }

    /// Transmits everything that can be transmitted now. If the backend fails, the next pass returns the error.
    pub(crate) fn transmit_now(&mut self) {
        let now = self.read_clock();
        if let Err(error) = self.transmit(now) {
            self.failure = Some(error);
        }
    }

    /// The next message, lent until the next call.
    #[inline]
    pub fn receive(&mut self) -> Option<Message<'_>> {
        if self.messenger.is_in_place() {
            let datagram = self.backend.received(self.last).data.own().unwrap_or_default();
            return self.messenger.receive_in_place(datagram);
        }
        self.messenger.receive()
    }

    /// Copies a message that still lies in its receive buffer, because the buffer may be reused.
    #[inline]
    fn copy_out(&mut self) {
        if self.messenger.is_in_place() {
            let datagram = self.backend.received(self.last).data.own().unwrap_or_default();
            self.messenger.copy_out(datagram);
        }
    }

    /// Asks for acknowledgement of everything outstanding.
    pub fn request_acks(&mut self) {
        let now = self.read_clock();
        self.messenger.request_acks(now);
    }

    /// See [`Messenger::watch`].
    pub fn watch(&mut self, peer: PeerId, on: bool) {
        let now = self.read_clock();
        self.messenger.watch(now, peer, on);
        self.collect_events();
    }

    /// See [`Backend::neighbours`].
    pub fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        self.backend.neighbours()
    }

    /// See [`Messenger::close`].
    pub fn close(&mut self, peer: PeerId) {
        let now = self.read_clock();
        self.copy_out();
        self.messenger.close(now, peer);
        self.collect_events();
    }

    /// See [`Messenger::reconnect`].
    pub fn reconnect(&mut self, peer: PeerId) {
        self.messenger.reconnect(peer);
    }

    /// See [`Messenger::take_lost`].
    pub fn take_lost(&mut self, peer: PeerId) -> Vec<LostMessages> {
        self.messenger.take_lost(peer)
    }

    /// Begins (or ends) to record lost peers. Returns the peers recorded until now.
    pub(crate) fn watch_losses(&mut self, on: bool) -> Vec<(PeerId, PeerError)> {
        mem::replace(&mut self.losses, on.then(Vec::new)).unwrap_or_default()
    }

    pub(crate) fn losses(&self) -> &[(PeerId, PeerError)] {
        self.losses.as_deref().unwrap_or(&[])
    }

    /// The next event, if there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.collect_events();
        }
        self.events.pop()
    }

    #[cfg(feature = "mpi")]
    /// The messenger, and the time for commands to it. The next pass, or [`transmit_now`](Self::transmit_now),
    /// transmits what these commands queue.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut Messenger, Instant) {
        self.copy_out();
        (&mut self.messenger, self.now)
    }

    /// The messenger, the time for commands to it, and the datagram at whose end a message may still lie
    /// ([`Messenger::is_in_place`]).
    #[cfg(feature = "mpi")]
    #[inline]
    pub(crate) fn parts_in_place(&mut self) -> (&mut Messenger, Instant, &[u8]) {
        let datagram = match self.messenger.is_in_place() {
            true => &*self.backend.received(self.last).data.own().unwrap_or_default(),
            false => &[],
        };
        (&mut self.messenger, self.now, datagram)
    }

    /// The messenger, for what takes no time and does not receive: a message that lies in a receive buffer stays there.
    #[cfg(feature = "mpi")]
    #[inline]
    pub(crate) fn messenger_mut(&mut self) -> &mut Messenger {
        &mut self.messenger
    }

    /// The clock from which the driver reads the time.
    #[cfg(feature = "mpi")]
    pub(crate) fn clock(&self) -> Clock {
        self.clock.clock()
    }

    /// Drops the messenger and the backend, with all their references to memory, and goes on with others that have
    /// none.
    pub(crate) fn replace(&mut self, messenger: Messenger, backend: Box<dyn Backend>) {
        self.copy_out();
        self.messenger = messenger;
        self.backend = backend;
        self.capabilities = self.backend.capabilities();
        self.burst = Burst::default();
        self.held = false;
        self.parked.clear();
        self.prepares = self.capabilities.holds_references;
        self.limit_ports();
    }
}

/// Passes.
impl Driver {
    /// Makes passes, without waiting, until messages are ready or everything that has arrived is received. Returns the
    /// number of ready messages.
    ///
    /// # Errors
    /// The backend has failed; this driver cannot be used any more.
    pub fn progress(&mut self, acks: Acks) -> io::Result<usize> {
        self.check()?;
        let now = self.read_clock();
        self.looked = now;
        self.begin(now)?;
        self.backlog = true;
        // The clock was read just now.
        let mut fresh = true;
        for _ in 0..BURSTS {
            if self.receive_burst(self.now, mem::take(&mut fresh))? == 0 {
                self.backlog = false;
                self.idle()?;
            }
            if acks == Acks::Later && self.messenger.ready() > 0 {
                break;
            }
            self.begin(self.now)?;
            if !self.backlog {
                break;
            }
        }
        self.announce_sleep();
        Ok(self.messenger.ready())
    }

    /// Has the messenger take all messages in: a caller that makes passes without receiving them must not hold up those
    /// that come behind them.
    #[inline]
    pub(crate) fn admit(&mut self) {
        if self.messenger.has_short() {
            self.copy_out();
            self.messenger.deliver_all_short();
        }
    }

    /// Returns whether a message can be received, whatever its sender does meanwhile.
    #[cfg(feature = "tokio")]
    pub(crate) fn admit_next(&mut self) -> bool {
        self.messenger.ready() > 0 && self.messenger.admit_next()
    }

    /// Returns whether a pass is due though messages wait: they come past the backend, without an end if they come fast
    /// enough.
    #[inline]
    pub(crate) fn is_pass_due(&mut self) -> bool {
        self.messenger.has_short() && {
            self.unpolled = (self.unpolled + 1) % UNPOLLED;
            self.unpolled == 0
        }
    }

    /// When this call returns, the program may wait for the descriptor by itself: peers that send short messages are told to
    /// wake it. If there are some already, a pass is due.
    #[inline]
    fn announce_sleep(&mut self) {
        if self.messenger.is_watched() && !self.messenger.set_asleep(true) {
            self.messenger.admit_early();
            self.backlog = true;
        }
    }

    /// Makes passes until messages are ready or `timeout` has passed. Returns whether messages are ready.
    ///
    /// # Errors
    /// The backend has failed; this driver cannot be used any more.
    #[inline]
    pub fn wait_ready(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        if self.messenger.ready() > 0 {
            if self.is_pass_due() {
                self.progress(Acks::Later)?;
            }
            return Ok(true);
        }
        self.run(timeout, Acks::Later, |driver| driver.messenger.ready() > 0)
    }

    /// Makes passes until `done` returns true or `timeout` has passed. The driver asks `done` whenever something has
    /// happened and, with [`Acks::Now`], also before it receives for the first time. Returns whether it is done.
    ///
    /// # Errors
    /// The backend has failed; this driver cannot be used any more.
    pub fn run(
        &mut self,
        timeout: Option<Duration>,
        acks: Acks,
        done: impl FnMut(&mut Self) -> bool,
    ) -> io::Result<bool> {
        let ran = self.make_passes(timeout, acks, done);
        self.announce_sleep();
        ran
    }

    #[inline]
    fn make_passes(
        &mut self,
        timeout: Option<Duration>,
        acks: Acks,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> io::Result<bool> {
        self.check()?;
        self.backlog = false;
        let spin = self.policy.spin().map(nanos);
        let awake = spin.map(|spin| spin.saturating_add(nanos(self.policy.turns())));
        // A driver that spins polls several times per reading of the clock.
        let looks = if spin == Some(0) || timeout == Some(Duration::ZERO) {
            1
        } else {
            EMPTY_PASSES
        };
        // A clock reading costs as much as handing a message in. If there is nothing to transmit, the reading can wait
        // until the first polls have found nothing. The spin time and the time limit then count from that reading.
        let due = self.has_waiting() || self.messenger.poll_timeout().is_some_and(|at| at <= self.now);
        let mut now = if due { self.read_clock() } else { self.now };
        let mut end = None;
        let mut since = None;
        let mut busy = 0;
        loop {
            let admits = match acks {
                Acks::Now => {
                    self.messenger.deliver_all_short();
                    true
                }
                Acks::Later => self.messenger.admit_early(),
            };
            // (The layer above may have asked to be called at the time of a deadline that was handled.)
            let is_asked = self.begin(now)? || admits;
            if is_asked && done(self) {
                self.backlog = acks == Acks::Later;
                return Ok(true);
            }
            // Datagrams may arrive faster than they are taken, and never stop: check the time limit after this many
            // bursts.
            if busy >= BURSTS {
                busy = 0;
                let limit = end.or_else(|| timeout.map(|timeout| now + timeout));
                if limit.is_some_and(|limit| now >= limit) {
                    return Ok(done(self));
                }
                end = limit;
                self.hear_notices(now);
            }
            // Polls left before the clock is read again.
            let mut left = looks;
            // Set if the clock was read a few polls ago, which is exact enough for a burst that is found now.
            let mut fresh = false;
            loop {
                if self.receive_burst(now, fresh)? > 0 {
                    now = self.now;
                    since = None;
                    busy += 1;
                    break;
                }
                relax();
                left -= 1;
                if left > 0 {
                    continue;
                }
                left = looks;
                now = self.read_clock();
                let begun = *since.get_or_insert(now);
                if end.is_none() {
                    end = timeout.map(|timeout| now + timeout);
                }
                if self.idle()? {
                    break;
                }
                if end.is_some_and(|end| now >= end) {
                    return Ok(done(self));
                }
                let waited = now.nanos_since(begun);
                fresh = true;
                if awake.is_some_and(|awake| waited >= awake) {
                    let woken = self.sleep(now, end)?;
                    now = self.read_clock();
                    if woken == Wake::Readable {
                        since = None;
                    }
                } else if spin.is_some_and(|spin| waited >= spin) {
                    thread::yield_now();
                    fresh = false;
                }
                if self.has_waiting() {
                    break;
                }
            }
            if acks == Acks::Later && done(self) {
                self.backlog = true;
                return Ok(true);
            }
        }
    }

    /// Sleeps until something arrives or a deadline is due.
    #[cold]
    fn sleep(&mut self, now: Instant, end: Option<Instant>) -> io::Result<Wake> {
        let until = earliest(self.deadline(), end);
        let left = until.map(|until| until.nanos_since(now));
        if left.is_some_and(|left| left < SHORT) {
            hint::spin_loop();
            return Ok(Wake::TimedOut);
        }
        let waited = match self.messenger.set_asleep(true) {
            true => self.backend.wait(left.map(Duration::from_nanos)),
            false => Ok(Wake::Readable),
        };
        self.messenger.set_asleep(false);
        waited
    }

    #[inline]
    fn check(&mut self) -> io::Result<()> {
        self.passes += 1;
        if self.messenger.is_watched() {
            self.messenger.set_asleep(false);
        }
        match self.failure.take() {
            None => Ok(()),
            Some(failure) => Err(failure),
        }
    }

    #[inline]
    fn read_clock(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    /// Receives a burst and hands it in. Its time of arrival is `now` if that is `fresh`; otherwise the clock is read.
    /// Returns the number of buffers.
    #[inline]
    fn receive_burst(&mut self, now: Instant, fresh: bool) -> io::Result<usize> {
        self.copy_out();
        if self.messenger.has_short() && self.postpone() {
            return Ok(1);
        }
        let count = self.backend.receive(now, BUDGET)?;
        if count == 0 {
            return Ok(0);
        }
        let now = if fresh { now } else { self.read_clock() };
        self.looked = now;
        self.last = count - 1;
        for index in 0..self.last {
            let Received {
                source,
                port,
                stride,
                data,
            } = self.backend.received(index);
            match data {
                Data::Own(data) => self
                    .messenger
                    .handle_datagrams(now, Path::new(source, port), data, stride),
                Data::Shared(data) => self.messenger.handle_shared(now, source, data),
            }
        }
        let Received {
            source,
            port,
            stride,
            data,
        } = self.backend.received(self.last);
        match data {
            Data::Own(data) => {
                self.messenger
                    .handle_datagrams_in_place(now, Path::new(source, port), data, stride);
            }
            Data::Shared(data) => self.messenger.handle_shared(now, source, data),
        }
        self.collect_events();
        Ok(count)
    }

    /// Returns whether the backend can be polled later, as messages wait that came in beside it: for so many passes.
    #[inline]
    fn postpone(&mut self) -> bool {
        self.postponed = (self.postponed + 1) % BUSY_PASSES;
        self.postponed != 0
    }

    /// Begins a pass: transmits. Under steady load it handles due deadlines too, only later. Returns whether it has.
    #[inline]
    fn begin(&mut self, now: Instant) -> io::Result<bool> {
        self.transmit(now)?;
        if self.messenger.poll_timeout().is_some_and(|at| at < now) {
            self.overdue += 1;
            if self.overdue >= BUSY_PASSES {
                self.overdue = 0;
                self.messenger.handle_timeout(now);
                self.collect_events();
                self.transmit(now)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does the work that is due when there was nothing to receive. Returns whether there was any.
    fn idle(&mut self) -> io::Result<bool> {
        let now = self.now;
        self.overdue = 0;
        let mut any = self.hear_notices(now);
        if self.messenger.poll_timeout().is_some_and(|at| at <= now) {
            self.messenger.handle_timeout(now);
            // While a burst waits for room in the backend, the timeout is always due.
            any |= !self.held;
        }
        self.collect_events();
        Ok(any)
    }

    /// Hands in what the backend has to say of datagrams that were sent. Returns whether there was anything.
    fn hear_notices(&mut self, now: Instant) -> bool {
        let mut any = false;
        self.copy_out();
        let messenger = &mut self.messenger;
        self.backend.poll_notices(&mut |notice| {
            any = true;
            match notice {
                Notice::Released(token) => messenger.handle_released(token),
                Notice::Unreachable(Unreachable { address, quoted }) => {
                    messenger.handle_unreachable(now, address, quoted);
                }
            }
        });
        any
    }

    #[inline]
    fn collect_events(&mut self) {
        if self.messenger.has_events() {
            self.collect_some();
        }
    }

    fn collect_some(&mut self) {
        while let Some(event) = self.messenger.poll_event() {
            if let Event::Down { peer, error, lost, .. } = event {
                self.ended += 1;
                if lost && let Some(losses) = &mut self.losses {
                    losses.push((peer, error));
                }
            }
            self.events.push(event);
        }
    }
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
