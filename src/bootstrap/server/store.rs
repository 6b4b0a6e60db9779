//! Keys, values and the fence: the answers to the requests of ranks.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use crate::bootstrap::{
    MAX_KEY, MAX_VALUE, Program,
    message::{Message, MessageError, NOTHING, Version, from_hex, key_of},
};

/// Most keys of a rank.
pub const MAX_KEYS: usize = 64;
/// Bytes after which an answer with the values of many ranks ends, and the rest has to be asked for: far less than the
/// limit of bytes that may wait for a rank.
const MAX_PAGE: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Joined,
    Finalized,
    Gone,
    /// It has failed, and the others go on without it.
    Lost,
}

/// Something that the launcher must know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A rank wants the job to end.
    Aborted {
        /// The exit code it asks for.
        code: u8,
        /// Its message.
        message: String,
    },
    /// A rank has said goodbye.
    Finalized,
    /// A rank has sent a malformed line, which gets no answer.
    Malformed(MessageError),
    /// A process wants programs to be started; it gets its answer when they have met.
    Spawn(Spawning),
    /// These processes will come.
    Expect(Range<u32>),
}

/// Programs to spawn, as a process asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spawning {
    /// The programs.
    pub programs: Vec<Program>,
    /// What the processes are told about those that spawn them.
    pub by: String,
}

/// The effects of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Lines to send, each to its rank.
    pub replies: Vec<(u32, String)>,
    /// A note about the rank that has sent the line.
    pub note: Option<Note>,
}

/// The state of a job: its ranks and their values, at most [`MAX_KEYS`] for each rank.
#[derive(Debug)]
pub struct Store {
    ranks: Vec<State>,
    keys: Vec<usize>,
    values: BTreeMap<String, String>,
    in_fence: BTreeSet<u32>,
    /// Number of ranks that will not come to a fence any more, without which it cannot be complete.
    away: usize,
    /// Number of failed ranks, without which a fence can be complete.
    lost: usize,
    /// Whether all ranks have been in a fence: then each can get what it must know of the others.
    met: bool,
    /// Why no fence can be complete any more.
    failure: Option<String>,
}

impl Store {
    /// For a job of `size` ranks.
    #[must_use]
    pub fn new(size: u32) -> Self {
        Self {
            ranks: vec![State::Absent; size as usize],
            keys: vec![0; size as usize],
            values: BTreeMap::new(),
            in_fence: BTreeSet::new(),
            away: 0,
            lost: 0,
            met: false,
            failure: None,
        }
    }

    /// `rank` has connected.
    pub fn joined(&mut self, rank: u32) {
        self.set(rank, State::Joined);
    }

    /// `rank` will send nothing more: its connection or its process has ended. Ranks that wait for it in a fence are
    /// told.
    pub fn left(&mut self, rank: u32) -> Outcome {
        self.in_fence.remove(&rank);
        if !self.has_finalized(rank) {
            self.set(rank, State::Gone);
        }
        self.settle()
    }

    /// `rank` has failed, and the others go on: no fence waits for it any more. Its values stay.
    pub fn lost(&mut self, rank: u32) -> Outcome {
        self.in_fence.remove(&rank);
        self.set(rank, State::Lost);
        self.settle()
    }

    /// Whether all ranks have been in a fence together.
    #[must_use]
    pub fn has_met(&self) -> bool {
        self.met
    }

    /// Whether `rank` has joined and has not said goodbye.
    #[must_use]
    pub fn is_inside(&self, rank: u32) -> bool {
        self.state(rank) == Some(State::Joined)
    }

    /// Whether `rank` has said goodbye.
    #[must_use]
    pub fn has_finalized(&self, rank: u32) -> bool {
        self.state(rank) == Some(State::Finalized)
    }

    /// Whether no rank will ask for anything any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let over = |state: &State| matches!(state, State::Finalized | State::Gone | State::Lost);
        self.ranks.iter().all(over)
    }

    /// Ends this fence and all later ones with an error: not all ranks can come, for this reason (words joined by `_`).
    pub fn give_up(&mut self, reason: impl Into<String>) -> Outcome {
        self.failure = Some(reason.into());
        self.settle()
    }

    /// Whether a rank waits in a fence.
    #[must_use]
    pub fn is_awaiting(&self) -> bool {
        !self.in_fence.is_empty()
    }

    /// The ranks for which others wait in a fence; none while no rank waits.
    #[must_use]
    pub fn awaited(&self) -> Vec<u32> {
        if self.in_fence.is_empty() {
            return Vec::new();
        }
        let size = self.ranks.len() as u32;
        let missing = |rank: &u32| !self.in_fence.contains(rank) && self.state(*rank) != Some(State::Lost);
        (0..size).filter(missing).collect()
    }

    /// Handles a line of `rank`.
    pub fn handle(&mut self, rank: u32, line: &[u8]) -> Outcome {
        let message = match Message::parse_line(line) {
            Ok(message) => message,
            Err(error) => {
                return Outcome {
                    note: Some(Note::Malformed(error)),
                    ..Outcome::default()
                };
            }
        };
        if !self.is_inside(rank) {
            return reply(rank, refusal(&message, "not_in_the_job"));
        }
        match message.command() {
            "put" => reply(rank, self.put(rank, &message)),
            "get" => reply(rank, self.get(&message)),
            "get_all" => reply(rank, self.get_all(&message)),
            "barrier_in" => {
                self.in_fence.insert(rank);
                self.settle()
            }
            "finalize" => {
                self.set(rank, State::Finalized);
                let mut outcome = self.settle();
                outcome
                    .replies
                    .push(line_to(rank, &Message::new("finalize_ack").with("rc", 0)));
                outcome.note = Some(Note::Finalized);
                outcome
            }
            "abort" => Outcome {
                note: Some(aborted(&message)),
                ..Outcome::default()
            },
            _ => reply(rank, refusal(&message, "unknown_command")),
        }
    }

    fn put(&mut self, rank: u32, message: &Message) -> Message {
        let (Some(key), Some(value)) = (message.get("key"), message.get("value")) else {
            return refusal(message, "no_key_or_value");
        };
        // The prefix with the rank is added to the caller's key.
        if key.len() > MAX_KEY + 16 || value.len() > 2 * MAX_VALUE {
            return refusal(message, "key_or_value_too_long");
        }
        let Some(count) = self.keys.get_mut(rank as usize) else {
            return refusal(message, "no_such_rank");
        };
        if *count == MAX_KEYS {
            return refusal(message, "too_many_keys");
        }
        if self.values.contains_key(key) {
            return refusal(message, "this_key_was_put_before");
        }
        *count += 1;
        self.values.insert(key.to_owned(), value.to_owned());
        Message::new("put_result").with("rc", 0)
    }

    /// Takes over a value, under a whole key with the rank in it.
    pub(super) fn adopt(&mut self, key: String, value: String) {
        self.values.insert(key, value);
    }

    /// The value under a whole key, with the rank in it.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    fn get(&self, message: &Message) -> Message {
        match message.get("key").and_then(|key| self.value(key)) {
            Some(value) => Message::new("get_result").with("rc", 0).with("value", value),
            None => refusal(message, "no_such_key"),
        }
    }

    /// Values of ranks under a key, from one rank on, as many as fit into an answer.
    fn get_all(&self, message: &Message) -> Message {
        let (Some(key), Some(from)) = (message.get("key"), message.number::<u32>("from")) else {
            return refusal(message, "no_key_or_first_rank");
        };
        let mut values = String::new();
        let mut count = 0;
        for rank in from..self.ranks.len() as u32 {
            if values.len() > MAX_PAGE {
                break;
            }
            if count > 0 {
                values.push(',');
            }
            let value = self.values.get(&key_of(rank, key));
            values.push_str(value.map_or(NOTHING, String::as_str));
            count += 1;
        }
        let answer = Message::new("get_all_result").with("rc", 0);
        answer.with("count", count).with("values", values)
    }

    /// Ends the fence if all ranks are in it, or if a missing one cannot come any more.
    fn settle(&mut self) -> Outcome {
        if self.in_fence.is_empty() {
            return Outcome::default();
        }
        let all = self.in_fence.len() + self.lost == self.ranks.len();
        let answer = match &self.failure {
            Some(reason) => fence_failed(reason),
            None if all => {
                self.met = true;
                Message::new("barrier_out").with("rc", 0)
            }
            None if self.away == 0 => return Outcome::default(),
            None => {
                let away = |rank: &u32| matches!(self.state(*rank), Some(State::Gone | State::Finalized));
                let gone: Vec<String> = self
                    .awaited()
                    .iter()
                    .filter(|rank| away(rank))
                    .map(u32::to_string)
                    .collect();
                if gone.is_empty() {
                    return Outcome::default();
                }
                fence_failed(&format!("rank_{}_has_gone", gone.join(",_")))
            }
        };
        let waiting = std::mem::take(&mut self.in_fence);
        Outcome {
            replies: waiting.into_iter().map(|rank| line_to(rank, &answer)).collect(),
            note: None,
        }
    }

    fn state(&self, rank: u32) -> Option<State> {
        self.ranks.get(rank as usize).copied()
    }

    fn set(&mut self, rank: u32, state: State) {
        let is_away = |state: State| usize::from(matches!(state, State::Gone | State::Finalized));
        let is_lost = |state: State| usize::from(state == State::Lost);
        if let Some(entry) = self.ranks.get_mut(rank as usize) {
            self.away = self.away + is_away(state) - is_away(*entry);
            self.lost = self.lost + is_lost(state) - is_lost(*entry);
            *entry = state;
        }
    }
}

fn fence_failed(reason: &str) -> Message {
    Message::new("barrier_out").with("rc", -1).with("msg", reason)
}

fn aborted(message: &Message) -> Note {
    let text = message.get("text").and_then(from_hex).unwrap_or_default();
    let code = message.number::<i32>("exitcode").unwrap_or(1);
    Note::Aborted {
        code: u8::try_from(code & 0xff).unwrap_or(1),
        message: String::from_utf8_lossy(&text).into_owned(),
    }
}

fn refusal(request: &Message, reason: &str) -> Message {
    let command = match request.command() {
        "put" => "put_result",
        "get" => "get_result",
        "get_all" => "get_all_result",
        "barrier_in" => "barrier_out",
        "finalize" => "finalize_ack",
        "spawn_word" => "spawn_word_result",
        "get_of" => "get_of_result",
        _ => "error",
    };
    Message::new(command).with("rc", -1).with("msg", reason)
}

fn line_to(rank: u32, message: &Message) -> (u32, String) {
    (rank, message.encode(Version::One))
}

fn reply(rank: u32, message: Message) -> Outcome {
    Outcome {
        replies: vec![line_to(rank, &message)],
        note: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_two() -> Store {
        let mut store = Store::new(2);
        store.joined(0);
        store.joined(1);
        store
    }

    fn replies(outcome: &Outcome) -> Vec<(u32, &str)> {
        let lines = outcome.replies.iter();
        lines.map(|(rank, line)| (*rank, line.trim_end())).collect()
    }

    #[test]
    fn put_fence_get() {
        let mut store = of_two();
        let outcome = store.handle(0, b"cmd=put kvsname=x key=hk.0.a value=01");
        assert_eq!(replies(&outcome), [(0, "cmd=put_result rc=0")]);
        assert_eq!(replies(&store.handle(0, b"cmd=barrier_in")), []);
        assert_eq!(store.awaited(), [1]);
        let outcome = store.handle(1, b"cmd=barrier_in");
        assert_eq!(
            replies(&outcome),
            [(0, "cmd=barrier_out rc=0"), (1, "cmd=barrier_out rc=0")]
        );
        assert_eq!(store.awaited(), []);
        let outcome = store.handle(1, b"cmd=get key=hk.0.a");
        assert_eq!(replies(&outcome), [(1, "cmd=get_result rc=0 value=01")]);
        let outcome = store.handle(1, b"cmd=get key=hk.1.a");
        assert_eq!(replies(&outcome), [(1, "cmd=get_result rc=-1 msg=no_such_key")]);
    }

    #[test]
    fn values_of_all_ranks_come_in_pages() {
        let size = 300;
        let mut store = Store::new(size);
        let value = |rank: u32| format!("{rank:08x}").repeat(20);
        for rank in (0..size).filter(|rank| *rank != 7) {
            store.joined(rank);
            let line = format!("cmd=put key={} value={}", key_of(rank, "a"), value(rank));
            store.handle(rank, line.as_bytes());
        }
        let (mut found, mut pages) = (Vec::new(), 0);
        while found.len() < size as usize {
            let line = format!("cmd=get_all key=a from={}", found.len());
            let outcome = store.handle(0, line.as_bytes());
            assert!(outcome.replies[0].1.len() < 20 << 10);
            let page = Message::parse_line(outcome.replies[0].1.as_bytes()).unwrap();
            let values = page.get("values").unwrap().split(',').map(str::to_owned);
            found.extend(values);
            pages += 1;
        }
        assert_eq!((pages, found[7].as_str(), found.len()), (3, NOTHING, 300));
        assert!((8..300).all(|rank| found[rank as usize] == value(rank)));
        let outcome = store.handle(0, b"cmd=get_all key=a from=300");
        assert!(replies(&outcome)[0].1.contains("rc=0 count=0"), "{outcome:?}");
        let outcome = store.handle(0, b"cmd=get_all key=a");
        assert!(replies(&outcome)[0].1.contains("rc=-1"), "{outcome:?}");
    }

    #[test]
    fn who_gives_up_tells_those_who_wait_and_those_who_come() {
        let mut store = of_two();
        store.handle(0, b"cmd=barrier_in");
        let said = "cmd=barrier_out rc=-1 msg=no_more_files";
        assert_eq!(replies(&store.give_up("no_more_files")), [(0, said)]);
        assert_eq!(replies(&store.handle(1, b"cmd=barrier_in")), [(1, said)]);
    }

    #[test]
    fn a_fence_does_not_wait_for_who_has_gone() {
        for finalizes in [false, true] {
            let mut store = of_two();
            store.handle(0, b"cmd=barrier_in");
            let outcome = if finalizes {
                store.handle(1, b"cmd=finalize")
            } else {
                store.left(1)
            };
            assert_eq!(
                replies(&outcome)[0],
                (0, "cmd=barrier_out rc=-1 msg=rank_1_has_gone"),
                "{finalizes}"
            );
            // A rank that comes later is told as well.
            assert_eq!(store.handle(0, b"cmd=barrier_in").replies.len(), 1);
        }
    }

    #[test]
    fn a_fence_goes_on_without_who_is_lost() {
        let mut store = Store::new(3);
        (0..3).for_each(|rank| store.joined(rank));
        assert_eq!(store.handle(0, b"cmd=barrier_in").replies, []);
        assert_eq!(store.handle(2, b"cmd=barrier_in").replies, []);
        let outcome = store.lost(2);
        assert_eq!((outcome, store.awaited()), (Outcome::default(), vec![1]));
        let outcome = store.handle(1, b"cmd=barrier_in");
        let complete = [(0, "cmd=barrier_out rc=0"), (1, "cmd=barrier_out rc=0")];
        assert_eq!(replies(&outcome), complete);
        assert!(store.has_met());
        // The last missing rank is lost while the others wait.
        store.handle(0, b"cmd=barrier_in");
        assert_eq!(replies(&store.lost(1)), [(0, "cmd=barrier_out rc=0")]);
        store.handle(0, b"cmd=finalize");
        assert!(store.is_over());
    }

    #[test]
    fn memory_is_bounded() {
        let mut store = of_two();
        for number in 0..2 * MAX_KEYS {
            let outcome = store.handle(0, format!("cmd=put key=k{number} value=00").as_bytes());
            assert_eq!(replies(&outcome)[0].1.contains("rc=0"), number < MAX_KEYS);
        }
        let long = format!("cmd=put key=k value={}", "0".repeat(2 * MAX_VALUE + 1));
        assert!(replies(&store.handle(1, long.as_bytes()))[0].1.contains("too_long"));
        assert!(
            replies(&store.handle(1, b"cmd=put key=k0 value=1"))[0]
                .1
                .contains("before")
        );
    }

    #[test]
    fn the_end() {
        let mut store = of_two();
        let outcome = store.handle(1, b"cmd=abort exitcode=3 text=6e6f");
        assert_eq!(
            outcome.note,
            Some(Note::Aborted {
                code: 3,
                message: "no".into()
            })
        );
        assert_eq!(store.handle(0, b"cmd=finalize").note, Some(Note::Finalized));
        assert!(store.has_finalized(0) && store.is_inside(1) && !store.is_over());
        store.left(0);
        assert!(store.has_finalized(0), "leaving after the goodbye changes nothing");
        store.left(1);
        assert!(store.is_over());
    }

    proptest! {
        #[test]
        fn any_line_of_anybody_is_survived(
            lines in proptest::collection::vec((0_u32..5, "(cmd=(put|get|barrier_in|finalize|abort|x))?( [a-z]{0,3}=?[a-z0-9.]{0,4}){0,4}"), 0..30),
        ) {
            let mut store = of_two();
            for (rank, line) in lines {
                let outcome = store.handle(rank, line.as_bytes());
                for (_, reply) in outcome.replies {
                    prop_assert!(Message::parse_line(reply.as_bytes()).is_ok());
                }
            }
        }
    }
}
