//! A call from its beginning to its end, as the profiler and the fabric are told of it.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use std::thread;

use super::{
    super::{Engine, communicator::Communicator, fabric::CallNote, status::Status, uninterrupted::uninterrupted},
    profiler::{Entry, Exit, Made, Profiler},
    state::Profile,
};
use crate::{
    mpi::{Rank, datatype::Datatype, error::Error},
    time::Instant,
};

/// A call that has been entered; empty if neither profiler nor fabric is told of it.
#[derive(Default)]
pub(in super::super) struct Span(Option<Told>);

/// The description of a call for the profiler.
enum Told {
    /// The fabric. It is not told when the call ends: the next call, or time that the program spends outside of calls,
    /// implies it.
    Fabric,
    /// The profiler; the fabric, too, if it wants to know.
    Profiler(Box<Open>),
    /// The call that this one is a part of.
    Nested(Arc<Engine>),
}

/// Marks this thread as being in a call that consists of others, until dropped.
struct Within<'a>(&'a Profile);

impl<'a> Within<'a> {
    fn new(profile: &'a Profile) -> Self {
        profile.nested().push((thread::current().id(), Vec::new()));
        Self(profile)
    }

    /// The operations that have ended in it.
    fn ended(&self) -> Vec<(u64, Status)> {
        let own = thread::current().id();
        let mut nested = self.0.nested();
        let found = nested.iter_mut().find(|(thread, _)| *thread == own);
        found.map_or_else(Vec::new, |(_, ended)| core::mem::take(ended))
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        let own = thread::current().id();
        self.0.nested().retain(|(thread, _)| *thread != own);
    }
}

/// Calls of the standard that are made of several of the engine's: a profiler sees one call.
impl Communicator {
    /// Whether a profiler is told of calls ([`Options::profiler`](super::super::Options::profiler)).
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.engine().profile.profiler().is_some()
    }

    /// Presents `f` as one call with a message of `count` elements. If the call receives, `room` is the size of the
    /// receive buffer, bytes, and `received` gives the status.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn message_as_one<R>(
        &self,
        call: &'static str,
        (count, datatype): (u64, &Datatype),
        (peer, tag): (Rank, i32),
        room: Option<u64>,
        f: impl FnOnce() -> Result<R, Error>,
        received: impl FnOnce(&R) -> Option<Status>,
    ) -> Result<R, Error> {
        let entry = || Entry {
            received: room.into_iter().collect(),
            ..Entry::of(call, count, datatype).with_peer(peer).with_tag(tag)
        };
        self.as_one(entry, f, |result, _| {
            received(result).map(|status| (0, status)).into_iter().collect()
        })
    }

    /// Presents `f` as one call that creates a communicator, or none.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn make_as_one(
        &self,
        call: &'static str,
        f: impl FnOnce() -> Result<Option<Self>, Error>,
    ) -> Result<Option<Self>, Error> {
        let profile = &self.engine().profile;
        if profile.profiler().is_none() || profile.is_nested() {
            return f();
        }
        let span = self.enter(|| Entry::named(call));
        let within = Within::new(profile);
        let made = f();
        drop(within);
        span.may_make(made)
    }

    pub(in super::super) fn as_one<R>(
        &self,
        entry: impl FnOnce() -> Entry,
        f: impl FnOnce() -> Result<R, Error>,
        ended: impl FnOnce(&R, Vec<(u64, Status)>) -> Vec<(u64, Status)>,
    ) -> Result<R, Error> {
        let profile = &self.engine().profile;
        if profile.profiler().is_none() || profile.is_nested() {
            return f();
        }
        let span = self.enter(entry);
        let within = Within::new(profile);
        let result = f();
        let parts = within.ended();
        drop(within);
        span.leave(result, |result, leave| {
            leave(&Exit {
                ended: &ended(result, parts),
                ..Exit::default()
            });
        })
    }
}

struct Open {
    engine: Arc<Engine>,
    begun: Instant,
    entry: Entry,
}

impl Communicator {
    /// A call begins.
    #[inline]
    pub(in super::super) fn enter(&self, entry: impl FnOnce() -> Entry) -> Span {
        let profile = &self.engine().profile;
        match profile.profiler() {
            None if !profile.noted => Span(None),
            None => {
                let Entry { call, peer, tag, .. } = entry();
                self.note(call, peer, tag);
                Span(Some(Told::Fabric))
            }
            Some(profiler) => Span::open(self, profiler, entry()),
        }
    }

    /// The same for a message of `count` elements. The entry is made only if there is a profiler; the fabric is told if
    /// the call [has to wait](Self::will_wait).
    #[inline]
    pub(in super::super) fn enter_message(
        &self,
        call: &'static str,
        (count, datatype): (u64, &Datatype),
        (peer, tag): (Rank, i32),
    ) -> Span {
        let Some(profiler) = self.engine().profile.profiler() else {
            return Span(None);
        };
        let entry = Entry::of(call, count, datatype).with_peer(peer).with_tag(tag);
        Span::open(self, profiler, entry)
    }

    /// The call, which sends or receives a message, may wait from here on.
    #[inline]
    pub(in super::super) fn will_wait(&self, call: &'static str, peer: Rank, tag: i32) {
        if self.engine().profile.noted {
            self.note(call, Some(peer), Some(tag));
        }
    }
}

impl Communicator {
    /// This communicator, as a profiler is told of it.
    pub(in super::super) fn as_made(&self) -> Made<'_> {
        Made {
            context: self.context(),
            group: self.group(),
            remote: self.remote_group(),
        }
    }

    /// Tells the fabric which call the program is in.
    fn note(&self, call: &'static str, peer: Option<Rank>, tag: Option<i32>) {
        self.engine().fabric.note(Some(CallNote {
            call,
            context: self.context(),
            peer,
            tag,
        }));
    }
}

impl Span {
    #[cold]
    fn open(communicator: &Communicator, profiler: &dyn Profiler, entry: Entry) -> Self {
        let engine = communicator.engine();
        if engine.profile.is_nested() {
            return Self(Some(Told::Nested(Arc::clone(engine))));
        }
        let begun = engine.fabric.now();
        let entry = Entry {
            context: communicator.context(),
            ..entry
        };
        uninterrupted(|| profiler.enter(begun, &entry));
        if engine.profile.noted {
            communicator.note(entry.call, entry.peer, entry.tag);
        }
        Self(Some(Told::Profiler(Box::new(Open {
            engine: Arc::clone(engine),
            begun,
            entry,
        }))))
    }

    pub(in super::super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// The call ends with `result`. If it has succeeded, `tell` is called to report its exit.
    #[inline]
    pub(in super::super) fn leave<T>(
        self,
        result: Result<T, Error>,
        tell: impl FnOnce(&T, &mut dyn FnMut(&Exit<'_>)),
    ) -> Result<T, Error> {
        if let Self(Some(Told::Profiler(_) | Told::Nested(_))) = &self {
            self.close(result.as_ref(), tell);
        }
        result
    }

    #[cold]
    fn close<T>(mut self, result: Result<&T, &Error>, tell: impl FnOnce(&T, &mut dyn FnMut(&Exit<'_>))) {
        let open = match self.0.take() {
            Some(Told::Profiler(open)) => open,
            Some(Told::Nested(engine)) => {
                if let Ok(value) = result {
                    tell(value, &mut |exit| engine.profile.add_ended(exit.ended));
                }
                return;
            }
            _ => return,
        };
        match result {
            Ok(value) => tell(value, &mut |exit| open.leave(exit)),
            Err(error) => open.leave(&Exit {
                error: Some(error),
                ..Exit::default()
            }),
        }
    }

    /// The same for a call with nothing more to report.
    #[inline]
    pub(in super::super) fn end<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        self.leave(result, |_, leave| leave(&Exit::default()))
    }

    /// The same for a call that gives a status.
    #[inline]
    pub(in super::super) fn end_with(self, result: Result<Status, Error>) -> Result<Status, Error> {
        self.leave(result, |status, leave| {
            leave(&Exit {
                ended: &[(0, *status)],
                ..Exit::default()
            });
        })
    }

    /// The same for a call that has created a communicator.
    pub(in super::super) fn make(self, result: Result<Communicator, Error>) -> Result<Communicator, Error> {
        self.leave(result, |made, leave| {
            leave(&Exit {
                made: Some(made.as_made()),
                ..Exit::default()
            });
        })
    }

    /// The same for a call that may have created none.
    pub(in super::super) fn may_make(
        self,
        result: Result<Option<Communicator>, Error>,
    ) -> Result<Option<Communicator>, Error> {
        self.leave(result, |made, leave| {
            leave(&Exit {
                made: made.as_ref().map(Communicator::as_made),
                ..Exit::default()
            });
        })
    }

    /// A number for the request or message of the call; 0 if there is no profiler.
    pub(in super::super) fn number(&self) -> u64 {
        match &self.0 {
            Some(Told::Profiler(open)) => open.number(),
            _ => 0,
        }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(Told::Profiler(open)) = &self.0 {
            open.leave(&Exit::default());
        }
    }
}

impl Open {
    fn number(&self) -> u64 {
        self.engine.profile.numbers.fetch_add(1, Ordering::Relaxed)
    }

    #[cold]
    fn leave(&self, exit: &Exit<'_>) {
        let profile = &self.engine.profile;
        if let Some(profiler) = profile.profiler() {
            let now = self.engine.fabric.now();
            uninterrupted(|| profiler.leave(self.begun, now, &self.entry, exit));
        }
        if profile.noted {
            self.engine.fabric.note(None);
        }
    }
}
