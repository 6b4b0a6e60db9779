//! A process: its requests, and the operations that stand on them. Collectives, partitioned communications and remote
//! memory know the requests, but neither this nor each other; here they are told what has happened to them.

use core::ops::{Deref, DerefMut};

use super::{
    collective::Collectives,
    connection_plan::ConnectionPlan,
    core::{Arrived, Core, RequestId},
    partitioned::Channels,
    peers::Peers,
    rma::{self, Net, OnDemand, Rma},
};
use crate::{
    error::PeerError,
    messaging::Messenger,
    reliability::{Event, PeerId},
    time::Instant,
};

/// State of one process. It is used like its requests, which most calls need alone.
pub(crate) struct Process {
    pub(super) requests: Core,
    pub(super) collectives: Collectives,
    pub(super) channels: Channels,
    pub(super) rma: OnDemand,
}

impl Deref for Process {
    type Target = Core;

    #[inline(always)]
    fn deref(&self) -> &Core {
        &self.requests
    }
}

impl DerefMut for Process {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.requests
    }
}

impl Process {
    /// `peers` are the processes of the job.
    pub(crate) fn new(messenger: &Messenger, peers: Peers, eager_limit: u32) -> Self {
        Self {
            requests: Core::new(messenger, peers, eager_limit),
            collectives: Collectives::default(),
            channels: Channels::default(),
            rma: OnDemand::default(),
        }
    }

    /// How the peers of collectives are connected before they are needed.
    pub(crate) fn set_connection_plan(&mut self, connection_plan: ConnectionPlan) {
        self.collectives.connection_plan = connection_plan;
    }

    /// Takes what the messenger has ready, and goes on with the operations that waited for it.
    pub(crate) fn pump(&mut self, messenger: &mut Messenger, now: Instant) {
        self.pump_in_place(messenger, now, &[]);
    }

    /// The same, also if a message [is in place](Messenger::is_in_place), at the end of `datagram`.
    pub(crate) fn pump_in_place(&mut self, messenger: &mut Messenger, now: Instant, datagram: &[u8]) {
        self.requests.take_ready(messenger, now, datagram);
        if !self.rma.is_settled() || !self.requests.inbox.0.is_empty() {
            self.with_rma(messenger, now, |rma, net| rma.pump(net));
        }
        let core = &mut self.requests;
        core.collect();
        if !core.channel_news.is_empty() {
            self.channels.advance(core, messenger, now);
        }
        if core.leaving.has_untold() {
            core.tell_leaving(messenger, now);
        }
        if self.collectives.drains() || !core.advancing.is_empty() {
            self.collectives.advance_all(core, messenger, now);
        }
    }

    /// Handles an event of the transport.
    pub(crate) fn handle_event(&mut self, messenger: &mut Messenger, now: Instant, event: Event) {
        if let Event::Sent { token, .. } = event {
            if !self.requests.tagged.handle_sent(token) {
                self.with_rma(messenger, now, |rma, net| rma.handle_sent(net, token));
            }
            self.requests.collect();
        } else {
            self.requests.handle_event(messenger, now, event);
            self.tell_losses(messenger, now);
        }
    }

    /// The launcher reports that a process has ended.
    pub(crate) fn declare_lost(&mut self, messenger: &mut Messenger, now: Instant, process: u32) {
        self.requests.declare_lost(messenger, now, process);
        self.tell_losses(messenger, now);
    }

    /// Operations with processes that are lost, or that take no part in a collective, fail.
    fn tell_losses(&mut self, messenger: &mut Messenger, now: Instant) {
        while let Some((process, error)) = self.requests.losses.pop_front() {
            self.with_rma(messenger, now, |rma, net| rma.fail(net, process, error));
            if error != PeerError::Closed {
                self.collectives.fail(&mut self.requests, process, error);
            }
        }
        if core::mem::take(&mut self.requests.misses) {
            self.collectives.fail_missed(&mut self.requests);
        }
    }

    /// Cancels an operation whose messages have not been matched yet, which ends it. Gives whether it was one message,
    /// and has ended so.
    pub(crate) fn cancel(&mut self, id: RequestId) -> bool {
        self.channels.cancel_round(&mut self.requests, id);
        self.requests.cancel(id)
    }

    /// Peers that pending requests, probes and remote memory need: their silence must be noticed.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = PeerId> + '_ {
        let rma = self.rma.awaited();
        let rma = rma.filter_map(|process| self.requests.peers.get(process));
        self.requests.awaited().chain(rma)
    }

    /// Calls `f`, in which a call that waits checks whether it may go on. `sole_caller`: no other thread of the program
    /// calls, so this process sends nothing, not even to itself, until the call ends.
    #[inline]
    pub(crate) fn while_waiting<T>(&mut self, sole_caller: bool, f: impl FnOnce(&mut Self) -> T) -> T {
        self.requests.sole_caller_waits = sole_caller;
        let found = f(self);
        self.requests.sole_caller_waits = false;
        found
    }

    /// The network has failed, and neither it nor this messenger is used any more: forgets all requests, so that
    /// nothing refers to memory of the caller from here on.
    pub(crate) fn abandon(&mut self, messenger: &mut Messenger) {
        self.requests.abandon(messenger);
        self.collectives.clear();
        self.channels.clear();
        self.rma = OnDemand::default();
    }

    // ---- remote memory

    fn rma<'a>(&'a mut self, messenger: &'a mut Messenger, now: Instant) -> (&'a mut Rma, Net<'a>) {
        let core = &mut self.requests;
        let net = Net {
            me: core.process(),
            tagged: &mut core.tagged,
            messenger,
            now,
            peers: &mut core.peers,
            inbox: &mut core.inbox,
            touched: &mut core.touched,
            scratch: &mut core.scratch,
            packs: &core.packs,
        };
        (self.rma.it(), net)
    }

    /// Calls `f` with the state of remote memory, and handles what it has ended or sent to this process itself.
    pub(super) fn with_rma<R>(
        &mut self,
        messenger: &mut Messenger,
        now: Instant,
        f: impl FnOnce(&mut Rma, &mut Net<'_>) -> R,
    ) -> R {
        let (rma, mut net) = self.rma(messenger, now);
        let result = f(rma, &mut net);
        if !self.requests.inbox.0.is_empty() {
            self.handle_inbox(messenger, now);
        }
        let rma = self.rma.it();
        self.requests.ended += u64::from(core::mem::take(&mut rma.news));
        for (id, ended) in core::mem::take(&mut rma.ended) {
            self.requests.end(id, ended);
        }
        result
    }

    /// Handles the active messages of other engines, and those of this process to itself.
    fn handle_inbox(&mut self, messenger: &mut Messenger, now: Instant) {
        while let Some(arrived) = self.requests.inbox.0.pop_front() {
            match arrived {
                Arrived::Active {
                    peer,
                    handler: rma::HANDLER,
                    data,
                } => {
                    let (rma, mut net) = self.rma(messenger, now);
                    rma.handle(&mut net, peer, &data);
                }
                Arrived::Active {
                    peer: Some(peer),
                    handler,
                    data,
                } => {
                    self.requests.handle_notice(messenger, now, (peer, handler), &data);
                    self.tell_losses(messenger, now);
                }
                Arrived::Active { .. } => {}
                Arrived::Landed(id) => {
                    let (rma, mut net) = self.rma(messenger, now);
                    rma.handle_landed(&mut net, id);
                }
            }
        }
    }
}
