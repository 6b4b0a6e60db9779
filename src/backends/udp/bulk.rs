//! Tells bulk from single datagrams, to decide when GRO and further receive calls pay.

/// Score at which GRO is turned on; at zero it is turned off.
const ON: u8 = 8;
/// The highest score: after bulk, this many single datagrams in a row turn GRO off.
const MOST: u8 = 24;
/// After this many receive calls in a row that found something, another call is worth trying without asking the caller.
const RUN: u32 = 4;

/// Watches the results of receive calls.
///
/// Receiving with GRO costs a single datagram a few per cent (recvmsg instead of recvfrom), and a call that only says
/// "nothing there" delays the handling of the datagram before it. Both save much when there is a backlog.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    score: u8,
    /// Calls that found something since the last call that found nothing.
    run: u32,
    /// One of these calls found several datagrams.
    coalesced: bool,
}

/// A change of GRO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Leave GRO as it is.
    Keep,
    /// Turn GRO on: it would pay.
    On,
    /// Turn GRO off: it costs more than it saves.
    Off,
}

impl Bulk {
    /// A call found `datagrams`.
    pub(super) fn found(&mut self, datagrams: usize) -> Advice {
        self.run = self.run.saturating_add(1);
        self.coalesced |= datagrams > 1;
        if datagrams > 1 || self.run > 1 {
            self.score = (self.score + 1).min(MOST);
        }
        if self.score >= ON { Advice::On } else { Advice::Keep }
    }

    /// A call found nothing, or the caller slept.
    pub(super) fn empty(&mut self) -> Advice {
        let lone = self.run == 1 && !self.coalesced;
        self.run = 0;
        self.coalesced = false;
        if !lone {
            return Advice::Keep;
        }
        self.score = self.score.saturating_sub(1);
        if self.score == 0 { Advice::Off } else { Advice::Keep }
    }

    /// Returns whether another call will probably find something.
    pub(super) fn more(&self) -> bool {
        self.run >= RUN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ping_pong_never_turns_gro_on_and_turns_it_off() {
        let mut bulk = Bulk::default();
        for _ in 0..100 {
            assert_eq!(bulk.found(1), Advice::Keep);
            assert!(!bulk.more());
            bulk.empty();
            bulk.empty();
        }
        while bulk.found(64) != Advice::On {}
        let mut rounds = 1;
        bulk.empty();
        while {
            bulk.found(1);
            bulk.empty() != Advice::Off
        } {
            rounds += 1;
        }
        assert!(
            rounds <= usize::from(MOST),
            "{rounds} single datagrams until GRO went off"
        );
    }

    #[test]
    fn a_backlog_turns_gro_on() {
        let mut bulk = Bulk::default();
        let calls = (1..100).find(|_| bulk.found(1) == Advice::On).unwrap();
        assert_eq!(calls, usize::from(ON) + 1);
        assert!(bulk.more());
    }
}
