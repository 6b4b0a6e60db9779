//! The worlds of a job: the one with which it begins, and those that its processes spawn (MPI 11.8).
//!
//! Processes are numbered through all worlds of a job, in the order in which they were spawned. Each world has a store of
//! its own, in which its processes have ranks from 0.

use std::{collections::BTreeMap, ops::Range};

use super::store::{Note, Outcome, Spawning, Store};
use crate::bootstrap::{
    MAX_PROCESSES, Program,
    message::{Message, Version, from_hex, key_of, to_hex},
};

/// Most words of the commands that a process may have told before it spawns them.
pub(super) const MAX_WORDS: usize = 16 << 10;

#[derive(Debug)]
struct Member {
    first: u32,
    size: u32,
    store: Store,
    /// The process that waits until this world has met.
    spawner: Option<u32>,
}

/// The key of the first process of a spawned world under which there is what those tell it that have spawned it.
pub(in crate::bootstrap) const BY: &str = ".by";

/// Most names that the processes of a job may have published.
const MAX_NAMES: usize = 4 << 10;

/// The state of a job, whose processes may spawn others.
#[derive(Debug)]
pub struct Worlds {
    worlds: Vec<Member>,
    /// The words that a process has told so far.
    told: BTreeMap<u32, Vec<Vec<String>>>,
    /// What has been published under names (MPI 11.9.4). Both are opaque here.
    names: BTreeMap<String, String>,
    /// Processes have numbers below this one.
    end: u32,
}

impl Worlds {
    /// For a job that begins with `size` processes.
    #[must_use]
    pub fn new(size: u32) -> Self {
        let mut worlds = Self {
            worlds: Vec::new(),
            told: BTreeMap::new(),
            names: BTreeMap::new(),
            end: MAX_PROCESSES,
        };
        worlds.begin(size, None);
        worlds
    }

    /// The same, where the processes that are spawned have the numbers `spawned`: others give the numbers outside of it.
    #[must_use]
    pub fn sharing(size: u32, spawned: Range<u32>) -> Self {
        let mut worlds = Self::new(size);
        if spawned.start > size {
            // Nobody comes for these.
            worlds.begin(spawned.start - size, None);
        }
        worlds.end = spawned.end;
        worlds
    }

    /// `process` of the first world has put this value elsewhere.
    pub fn adopt(&mut self, process: u32, key: &str, value: &[u8]) {
        let world = self.index(process);
        let rank = process - self.worlds[world].first;
        self.worlds[world].store.adopt(key_of(rank, key), to_hex(value));
    }

    /// Number of processes of all worlds.
    #[must_use]
    pub fn processes(&self) -> u32 {
        self.worlds.last().map_or(0, |world| world.first + world.size)
    }

    /// A world of `size` processes begins; gives the number of the first. `spawner` is answered when they have met.
    pub fn begin(&mut self, size: u32, spawner: Option<u32>) -> u32 {
        let first = self.processes();
        self.worlds.push(Member {
            first,
            size,
            store: Store::new(size),
            spawner,
        });
        first
    }

    /// The processes of the world of `process`: the first, and how many.
    #[must_use]
    pub fn world_of(&self, process: u32) -> (u32, u32) {
        let world = &self.worlds[self.index(process)];
        (world.first, world.size)
    }

    /// Whether the world of `process` was spawned and has not met yet.
    #[must_use]
    pub fn is_spawning(&self, process: u32) -> bool {
        self.worlds[self.index(process)].spawner.is_some()
    }

    /// The world of `process` cannot begin: its spawner is told why, and none of its processes waits in a fence any more.
    pub fn refuse(&mut self, process: u32, reason: &str) -> Outcome {
        let reason = reason.replace(char::is_whitespace, "_");
        let mut outcome = self.of(process, |store, _| store.give_up(reason.clone()));
        let world = self.index(process);
        if let Some(spawner) = self.worlds[world].spawner.take() {
            let answer = refusal("spawn_result", &reason);
            outcome.replies.push((spawner, answer.encode(Version::One)));
        }
        outcome
    }

    /// `process` has connected.
    pub fn joined(&mut self, process: u32) {
        self.of(process, |store, rank| {
            store.joined(rank);
            Outcome::default()
        });
    }

    /// See [`Store::left`].
    pub fn left(&mut self, process: u32) -> Outcome {
        self.of(process, Store::left)
    }

    /// See [`Store::lost`].
    pub fn lost(&mut self, process: u32) -> Outcome {
        self.of(process, Store::lost)
    }

    /// See [`Store::has_met`]: whether those of `process`'s world have.
    #[must_use]
    pub fn has_met(&self, process: u32) -> bool {
        self.worlds[self.index(process)].store.has_met()
    }

    /// See [`Store::has_finalized`].
    #[must_use]
    pub fn has_finalized(&self, process: u32) -> bool {
        let world = &self.worlds[self.index(process)];
        world.store.has_finalized(process - world.first)
    }

    /// Whether a process waits in a fence.
    #[must_use]
    pub fn is_awaiting(&self) -> bool {
        self.worlds.iter().any(|world| world.store.is_awaiting())
    }

    /// Whether all processes that wait in a fence have been in one before.
    #[must_use]
    pub fn awaits_only_again(&self) -> bool {
        let mut awaiting = self.worlds.iter().filter(|world| world.store.is_awaiting());
        awaiting.all(|world| world.store.has_met())
    }

    /// The processes for which others wait in a fence.
    #[must_use]
    pub fn awaited(&self) -> Vec<u32> {
        let awaited = |world: &Member| {
            let first = world.first;
            world.store.awaited().into_iter().map(move |rank| first + rank)
        };
        self.worlds.iter().flat_map(awaited).collect()
    }

    /// Handles a line of `process`.
    pub fn handle(&mut self, process: u32, line: &[u8]) -> Outcome {
        let world = &self.worlds[self.index(process)];
        let inside = world.store.is_inside(process - world.first);
        let message = Message::parse_line(line).ok().filter(|_| inside);
        let answered = |answer: Message| Outcome {
            replies: vec![(process, answer.encode(Version::One))],
            note: None,
        };
        match message {
            Some(message) if message.command() == "get_of" => answered(self.get_of(&message)),
            Some(message) if message.command() == "publish_name" => answered(self.publish(&message)),
            Some(message) if message.command() == "lookup_name" => answered(self.look_up(&message)),
            Some(message) if message.command() == "unpublish_name" => answered(self.unpublish(&message)),
            Some(message) if message.command() == "reserve" => self.reserve(process, &message),
            Some(message) if message.command() == "give_up" => self.give_up(process, &message),
            Some(message) if message.command() == "spawn_word" => answered(self.hear(process, &message)),
            Some(message) if message.command() == "spawn" => match self.spawning(process, &message) {
                Ok(spawning) => Outcome {
                    replies: Vec::new(),
                    note: Some(Note::Spawn(spawning)),
                },
                Err(reason) => answered(refusal("spawn_result", reason)),
            },
            _ => self.of(process, |store, rank| store.handle(rank, line)),
        }
    }

    /// The value that a process of any world has put.
    fn get_of(&self, message: &Message) -> Message {
        const ANSWER: &str = "get_of_result";
        let (Some(process), Some(key)) = (message.number::<u32>("process"), message.get("key")) else {
            return refusal(ANSWER, "no_process_or_key");
        };
        if process >= self.processes() {
            return refusal(ANSWER, "no_such_process");
        }
        let world = &self.worlds[self.index(process)];
        match world.store.value(&key_of(process - world.first, key)) {
            Some(value) => Message::new(ANSWER).with("rc", 0).with("value", value),
            None => refusal(ANSWER, "no_such_key"),
        }
    }

    fn publish(&mut self, message: &Message) -> Message {
        const ANSWER: &str = "publish_result";
        let (Some(service), Some(port)) = (message.get("service"), message.get("port")) else {
            return refusal(ANSWER, "no_name_or_port");
        };
        if self.names.contains_key(service) {
            return refusal(ANSWER, "the_name_is_published_already");
        }
        if self.names.len() >= MAX_NAMES {
            return refusal(ANSWER, "too_many_names_are_published");
        }
        self.names.insert(service.to_owned(), port.to_owned());
        Message::new(ANSWER).with("rc", 0)
    }

    fn look_up(&self, message: &Message) -> Message {
        const ANSWER: &str = "lookup_result";
        match message.get("service").and_then(|service| self.names.get(service)) {
            Some(port) => Message::new(ANSWER).with("rc", 0).with("port", port),
            None => refusal(ANSWER, "no_such_name"),
        }
    }

    fn unpublish(&mut self, message: &Message) -> Message {
        const ANSWER: &str = "unpublish_result";
        match message.get("service").and_then(|service| self.names.remove(service)) {
            Some(_) => Message::new(ANSWER).with("rc", 0),
            None => refusal(ANSWER, "no_such_name"),
        }
    }

    /// `process` spawns a world by a launcher that does not number processes through all worlds: gives the numbers. What
    /// the new processes are told is a value of the first of them.
    fn reserve(&mut self, process: u32, message: &Message) -> Outcome {
        let refused = |reason| Outcome {
            replies: vec![(process, refusal("reserve_result", reason).encode(Version::One))],
            note: None,
        };
        let count = message.number::<u32>("count").filter(|count| *count > 0);
        let (Some(count), Some(by)) = (count, message.get("by")) else {
            return refused("no_number_of_processes");
        };
        if self.processes().checked_add(count).is_none_or(|total| total > self.end) {
            return refused("a_job_that_spawns_has_at_most_4096_processes,_of_which_half_are_for_what_rank_0_spawns");
        }
        let first = self.begin(count, Some(process));
        self.adopt(first, BY, by.as_bytes());
        let answer = Message::new("reserve_result").with("rc", 0).with("first", first);
        Outcome {
            replies: vec![(process, answer.encode(Version::One))],
            note: Some(Note::Expect(first..first + count)),
        }
    }

    /// A world for which `process` has reserved numbers does not come.
    fn give_up(&mut self, process: u32, message: &Message) -> Outcome {
        let first = message.number::<u32>("first").filter(|first| *first < self.processes());
        let mut outcome = match first.filter(|first| self.worlds[self.index(*first)].spawner == Some(process)) {
            Some(first) => self.refuse(first, "given_up"),
            None => Outcome::default(),
        };
        outcome.replies.retain(|(to, _)| *to != process);
        let answer = Message::new("give_up_result").with("rc", 0);
        outcome.replies.push((process, answer.encode(Version::One)));
        outcome
    }

    /// Notes a word of a command that `process` is about to spawn.
    fn hear(&mut self, process: u32, message: &Message) -> Message {
        const ANSWER: &str = "spawn_word_result";
        let word = message.get("word").and_then(from_hex).map(String::from_utf8);
        let (Some(Ok(word)), Some(app)) = (word, message.number::<usize>("app")) else {
            return refusal(ANSWER, "no_word_or_number_of_a_program");
        };
        let commands = self.told.entry(process).or_default();
        if app > commands.len() || commands.iter().map(Vec::len).sum::<usize>() >= MAX_WORDS {
            return refusal(ANSWER, "too_many_words");
        }
        if app == commands.len() {
            commands.push(Vec::new());
        }
        commands[app].push(word);
        Message::new(ANSWER).with("rc", 0)
    }

    fn spawning(&mut self, process: u32, message: &Message) -> Result<Spawning, &'static str> {
        let commands = self.told.remove(&process).unwrap_or_default();
        let counts = message.get("counts").unwrap_or_default().split(',');
        let counts: Option<Vec<u32>> = counts
            .map(|count| count.parse().ok().filter(|count| *count > 0))
            .collect();
        let counts = counts.ok_or("no_numbers_of_processes")?;
        if counts.len() != commands.len() {
            return Err("as_many_programs_as_numbers_are_needed");
        }
        let mut counted = counts.iter();
        let total = counted.try_fold(self.processes(), |sum, count| sum.checked_add(*count));
        if total.is_none_or(|total| total > self.end) {
            return Err("a_job_that_spawns_has_at_most_4096_processes");
        }
        let programs = commands.into_iter().zip(counts);
        let program = |(command, processes)| Program { command, processes };
        Ok(Spawning {
            programs: programs.map(program).collect(),
            by: message.get("by").unwrap_or_default().to_owned(),
        })
    }

    /// Calls `f` with the store of `process` and its rank there. A spawner is answered when its world has met.
    fn of(&mut self, process: u32, f: impl FnOnce(&mut Store, u32) -> Outcome) -> Outcome {
        let index = self.index(process);
        let world = &mut self.worlds[index];
        let first = world.first;
        let mut outcome = f(&mut world.store, process - first);
        outcome.replies.iter_mut().for_each(|(rank, _)| *rank += first);
        if world.store.has_met()
            && let Some(spawner) = world.spawner.take()
        {
            let answer = Message::new("spawn_result").with("rc", 0).with("first", first);
            outcome.replies.push((spawner, answer.encode(Version::One)));
        }
        outcome
    }

    /// Index of the world of `process`; the last one has all that do not exist.
    fn index(&self, process: u32) -> usize {
        self.worlds.partition_point(|world| world.first <= process) - 1
    }
}

fn refusal(command: &str, reason: &str) -> Message {
    Message::new(command).with("rc", -1).with("msg", reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::message::to_hex;

    fn told(worlds: &mut Worlds, process: u32, line: &str) -> Outcome {
        worlds.handle(process, line.as_bytes())
    }

    fn fence(worlds: &mut Worlds, processes: Range<u32>) -> Outcome {
        processes.fold(Outcome::default(), |_, process| {
            told(worlds, process, "cmd=barrier_in\n")
        })
    }

    #[test]
    fn a_spawned_world_meets_and_its_spawner_is_answered() {
        let mut worlds = Worlds::new(2);
        (0..2).for_each(|process| worlds.joined(process));
        for word in ["child", "with space"] {
            let line = format!("cmd=spawn_word app=0 word={}\n", to_hex(word.as_bytes()));
            let outcome = told(&mut worlds, 1, &line);
            assert_eq!(outcome.replies, [(1, "cmd=spawn_word_result rc=0\n".to_owned())]);
        }
        let outcome = told(&mut worlds, 1, "cmd=spawn counts=3 by=7/0-1\n");
        assert_eq!(outcome.replies, []);
        let Some(Note::Spawn(spawning)) = outcome.note else {
            panic!("{outcome:?}")
        };
        let program = &spawning.programs[0];
        assert_eq!((spawning.programs.len(), program.processes), (1, 3));
        assert_eq!(
            (&program.command[..], spawning.by.as_str()),
            (&["child".into(), "with space".into()][..], "7/0-1")
        );

        assert_eq!(worlds.begin(3, Some(1)), 2);
        assert_eq!((worlds.processes(), worlds.world_of(4)), (5, (2, 3)));
        (2..5).for_each(|process| worlds.joined(process));
        let put = format!("cmd=put key={} value=0a\n", key_of(2, "a"));
        told(&mut worlds, 4, &put);
        assert!(worlds.is_spawning(4) && !worlds.has_met(4));
        let outcome = fence(&mut worlds, 2..5);
        let to: Vec<u32> = outcome.replies.iter().map(|(process, _)| *process).collect();
        assert_eq!(to, [2, 3, 4, 1]);
        assert_eq!(outcome.replies[3].1, "cmd=spawn_result rc=0 first=2\n");
        let outcome = told(&mut worlds, 0, "cmd=get_of process=4 key=a\n");
        assert_eq!(outcome.replies[0].1, "cmd=get_of_result rc=0 value=0a\n");
        // The first world's fences know nothing of the other's.
        assert_eq!(fence(&mut worlds, 0..2).replies.len(), 2);
    }

    #[test]
    fn what_is_published_is_found_until_it_is_withdrawn() {
        let mut worlds = Worlds::new(1);
        worlds.joined(0);
        worlds.begin(1, Some(0));
        worlds.joined(1);
        let mut answer = |process, line: &str| told(&mut worlds, process, line).replies.remove(0).1;
        assert!(answer(0, "cmd=lookup_name service=6f63\n").starts_with("cmd=lookup_result rc=-1"));
        let publish = "cmd=publish_name service=6f63 port=70\n";
        assert_eq!(answer(0, publish), "cmd=publish_result rc=0\n");
        assert!(
            answer(1, publish).starts_with("cmd=publish_result rc=-1"),
            "of all worlds one"
        );
        let looked_up = "cmd=lookup_name service=6f63\n";
        assert_eq!(answer(1, looked_up), "cmd=lookup_result rc=0 port=70\n");
        let withdraw = "cmd=unpublish_name service=6f63\n";
        assert_eq!(answer(1, withdraw), "cmd=unpublish_result rc=0\n");
        assert!(answer(1, withdraw).starts_with("cmd=unpublish_result rc=-1"));
        assert!(answer(0, looked_up).starts_with("cmd=lookup_result rc=-1"));
        assert!(answer(0, "cmd=publish_name service=6f63\n").starts_with("cmd=publish_result rc=-1"));
        for name in 0..MAX_NAMES {
            answer(0, &format!("cmd=publish_name service={name} port=70\n"));
        }
        assert!(
            answer(0, publish).starts_with("cmd=publish_result rc=-1"),
            "there is a limit"
        );
    }

    #[test]
    fn a_world_that_cannot_begin_is_refused_once() {
        let mut worlds = Worlds::new(1);
        worlds.joined(0);
        worlds.begin(2, Some(0));
        // One has come, the other one is missing.
        worlds.joined(1);
        told(&mut worlds, 1, "cmd=barrier_in\n");
        assert_eq!(worlds.awaited(), [2]);
        let outcome = worlds.refuse(2, "no such program");
        let [waiting, spawner] = &outcome.replies[..] else {
            panic!("{outcome:?}")
        };
        assert!(
            waiting.0 == 1 && waiting.1.starts_with("cmd=barrier_out rc=-1"),
            "{waiting:?}"
        );
        let said = "cmd=spawn_result rc=-1 msg=no_such_program\n".to_owned();
        assert_eq!(*spawner, (0, said));
        assert!(!worlds.is_awaiting());
        assert_eq!(worlds.refuse(2, "again").replies, []);
    }

    #[test]
    fn wrong_requests_are_refused() {
        let mut worlds = Worlds::new(1);
        worlds.joined(0);
        for (line, said) in [
            ("cmd=spawn counts=1 by=-\n", "as_many_programs"),
            ("cmd=spawn counts=x by=-\n", "no_numbers"),
            ("cmd=spawn_word app=1 word=61\n", "too_many_words"),
            ("cmd=spawn_word app=0 word=zz\n", "no_word"),
            ("cmd=get_of process=9 key=a\n", "no_such_process"),
            ("cmd=get_of process=0 key=a\n", "no_such_key"),
        ] {
            let outcome = told(&mut worlds, 0, line);
            assert!(
                outcome.note.is_none() && outcome.replies[0].1.contains(said),
                "{line}: {outcome:?}"
            );
        }
        told(&mut worlds, 0, "cmd=spawn_word app=0 word=61\n");
        let outcome = told(&mut worlds, 0, "cmd=spawn counts=4096 by=-\n");
        assert!(outcome.replies[0].1.contains("at_most"), "{outcome:?}");
    }

    /// Where another launcher starts the processes.
    #[test]
    fn numbers_are_reserved_and_given_up() {
        let mut worlds = Worlds::sharing(2, 100..105);
        worlds.joined(0);
        worlds.adopt(1, "address", b"a");
        let outcome = told(&mut worlds, 0, "cmd=get_of process=1 key=address\n");
        assert_eq!(outcome.replies[0].1, "cmd=get_of_result rc=0 value=61\n");
        let outcome = told(&mut worlds, 0, "cmd=reserve count=2 by=7/0-1\n");
        assert_eq!(outcome.replies, [(0, "cmd=reserve_result rc=0 first=100\n".to_owned())]);
        assert_eq!(outcome.note, Some(Note::Expect(100..102)));
        (100..102).for_each(|process| worlds.joined(process));
        let by = told(&mut worlds, 101, "cmd=get_of process=100 key=.by\n");
        assert!(by.replies[0].1.contains(&to_hex(b"7/0-1")), "{by:?}");
        let met = fence(&mut worlds, 100..102);
        let spawner: Vec<_> = met.replies.iter().filter(|(process, _)| *process == 0).collect();
        assert_eq!(spawner, [&(0, "cmd=spawn_result rc=0 first=100\n".to_owned())]);
        // One comes, and the other one does not.
        told(&mut worlds, 0, "cmd=reserve count=2 by=8/0-1\n");
        worlds.joined(102);
        assert_eq!(fence(&mut worlds, 102..103).replies, []);
        let outcome = told(&mut worlds, 0, "cmd=give_up first=102\n");
        assert!(outcome.replies.contains(&(0, "cmd=give_up_result rc=0\n".to_owned())));
        assert!(
            outcome
                .replies
                .iter()
                .any(|(to, line)| *to == 102 && line.contains("given_up")),
            "{outcome:?}"
        );
        assert_eq!(outcome.replies.len(), 2);
        // A world that has met is not given up, nor one that has been.
        for first in [100, 102, 4_000] {
            let outcome = told(&mut worlds, 0, &format!("cmd=give_up first={first}\n"));
            assert_eq!(outcome.replies.len(), 1, "{outcome:?}");
        }
        for wrong in [
            "count=2 by=8",
            "count=0 by=8",
            "count=1",
            "by=8",
            "count=4294967295 by=8",
        ] {
            let outcome = told(&mut worlds, 0, &format!("cmd=reserve {wrong}\n"));
            assert!(
                outcome.replies[0].1.starts_with("cmd=reserve_result rc=-1"),
                "{wrong}: {outcome:?}"
            );
        }
        let outcome = told(&mut worlds, 0, "cmd=reserve count=1 by=8\n");
        assert_eq!(outcome.replies[0].1, "cmd=reserve_result rc=0 first=104\n");
    }
}
