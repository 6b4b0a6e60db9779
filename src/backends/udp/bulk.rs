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
/// "nothing there" delays the handling of the datagram before it. Both save much when there is a backlog. A datagram
/// that is there at once after the caller has sent is an answer and no backlog.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    score: u8,
    /// Calls that found something since the last call that found nothing.
    run: u32,
    /// Datagrams found since the caller last sent, or a call found nothing.
    unanswered: usize,
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
        self.unanswered = self.unanswered.saturating_add(datagrams);
        if self.unanswered > 1 {
            self.score = (self.score + 1).min(MOST);
        }
        if self.score >= ON { Advice::On } else { Advice::Keep }
    }

    /// The caller sent something.
    pub(super) fn sent(&mut self) {
        if self.unanswered == 1 {
            self.score = self.score.saturating_sub(1);
        }
        self.unanswered = 0;
    }

    /// A call found nothing, or the caller slept.
    pub(super) fn empty(&mut self) -> Advice {
        self.sent();
        self.run = 0;
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
        // How soon an answer is there: after some calls that find nothing, or at once.
        for empty_calls in [2, 0] {
            let mut bulk = Bulk::default();
            let exchange = |bulk: &mut Bulk| {
                let on = bulk.found(1);
                bulk.sent();
                // A run of answers makes the backend look for more, in vain.
                let vain = usize::from(bulk.more());
                let off = (0..empty_calls.max(vain)).map(|_| bulk.empty()).last();
                (on, off.unwrap_or(Advice::Keep))
            };
            for _ in 0..100 {
                assert_eq!(exchange(&mut bulk).0, Advice::Keep);
            }
            while bulk.found(64) != Advice::On {}
            bulk.empty();
            let rounds = 1 + (0..100).take_while(|_| exchange(&mut bulk).1 != Advice::Off).count();
            assert!(
                rounds <= usize::from(MOST) + RUN as usize,
                "{rounds} single datagrams until GRO went off"
            );
        }
    }

    #[test]
    fn a_backlog_turns_gro_on() {
        let mut bulk = Bulk::default();
        let calls = (1..100).find(|_| bulk.found(1) == Advice::On).unwrap();
        assert_eq!(calls, usize::from(ON) + 1);
        assert!(bulk.more());
    }

    #[test]
    fn a_backlog_both_ways_turns_gro_on() {
        let mut bulk = Bulk::default();
        // The caller sends after each receive, which takes one datagram, or several once they come in a run.
        let receives = (1..100).find(|_| {
            let advice = if bulk.more() {
                (0..4).map(|_| bulk.found(1)).last()
            } else {
                Some(bulk.found(1))
            };
            bulk.sent();
            advice == Some(Advice::On)
        });
        assert!(receives.unwrap() < 10);
    }
}
