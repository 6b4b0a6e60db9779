//! Forwards the output of ranks to standard output and standard error.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Bound,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use super::pipes::{Interest, Queue, Raw, Ready};

/// How long a line is held back that another rank has written before.
const HOLD: Duration = Duration::from_secs(2);
/// How many different lines are remembered, and the longest of them in bytes: errors are at the beginning, and short.
const REMEMBERED: usize = 256;
const LONGEST: usize = 4 << 10;

/// Both outputs of the launcher.
///
/// A mistake that concerns the whole job (a variable, an option) makes all ranks write the same and fail. So what a rank
/// writes to standard error is held back for a moment if another rank has written the same line: if the rank then fails,
/// its lines are only counted.
#[derive(Default)]
pub(super) struct Output {
    tagged: bool,
    out: Queue,
    err: Queue,
    repeats: Repeats,
}

/// Lines of standard error that ranks have in common.
#[derive(Default)]
struct Repeats {
    /// Lines that ranks have written, each with the first rank that wrote it.
    seen: BTreeMap<Vec<u8>, u32>,
    held: BTreeMap<u32, Held>,
    /// Ranks that wrote the same as others, and failed.
    dropped: BTreeSet<u32>,
}

struct Held {
    lines: Vec<u8>,
    until: Instant,
}

/// A line as other ranks would write it: of a panic without the number of the thread.
fn without_thread(line: &[u8]) -> Cow<'_, [u8]> {
    let number = || {
        let text = str::from_utf8(line).ok().filter(|text| text.starts_with("thread '"))?;
        let (name, rest) = text.split_once(" (")?;
        let (number, rest) = rest.split_once(") ")?;
        number.parse::<u32>().ok()?;
        Some(format!("{name} {rest}").into_bytes())
    };
    number().map_or(Cow::Borrowed(line), Cow::Owned)
}

impl Repeats {
    /// Another rank has written each of these lines, or they are not worth a look.
    fn has(&mut self, rank: u32, lines: &[u8]) -> bool {
        let mut all = true;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if line.len() > LONGEST {
                return false;
            }
            if !line.ends_with(b"\n") {
                // The rank was ended while it wrote.
                return all && self.begins(rank, line);
            }
            let line = without_thread(line);
            match self.seen.get(line.as_ref()) {
                Some(first) => all &= *first != rank,
                None => {
                    all = false;
                    if self.seen.len() < REMEMBERED {
                        self.seen.insert(line.into_owned(), rank);
                    }
                }
            }
        }
        all
    }

    /// Another rank has written a line that begins so.
    fn begins(&self, rank: u32, begin: &[u8]) -> bool {
        let mut after = self.seen.range::<[u8], _>((Bound::Included(begin), Bound::Unbounded));
        after
            .next()
            .is_some_and(|(line, first)| line.starts_with(begin) && *first != rank)
    }
}

impl Output {
    pub(super) fn new(tagged: bool) -> Self {
        Self {
            tagged,
            ..Self::default()
        }
    }

    /// Lines of a rank.
    pub(super) fn carry(&mut self, rank: u32, to_stderr: bool, lines: &[u8]) {
        if to_stderr {
            if self.repeats.has(rank, lines) {
                let until = Instant::now() + HOLD;
                let held = self.repeats.held.entry(rank);
                let held = held.or_insert(Held {
                    lines: Vec::new(),
                    until,
                });
                held.lines.extend_from_slice(lines);
                return;
            }
            self.release(rank);
        }
        self.append(rank, to_stderr, lines);
    }

    /// Writes those of a rank's lines that were held back.
    pub(super) fn release(&mut self, rank: u32) {
        if let Some(held) = self.repeats.held.remove(&rank) {
            self.append(rank, true, &held.lines);
        }
    }

    /// The same for all that were held back for long enough.
    pub(super) fn release_late(&mut self, now: Instant) {
        let late = self.repeats.held.iter().filter(|(_, held)| held.until <= now);
        let late: Vec<u32> = late.map(|(rank, _)| *rank).collect();
        late.into_iter().for_each(|rank| self.release(rank));
    }

    /// When that will be.
    pub(super) fn next_release(&self) -> Option<Instant> {
        self.repeats.held.values().map(|held| held.until).min()
    }

    /// The rank has failed: its lines that were held back are counted.
    pub(super) fn drop_repeats(&mut self, rank: u32) {
        if self.repeats.held.remove(&rank).is_some() {
            self.repeats.dropped.insert(rank);
        }
    }

    /// Says how many ranks wrote the same as others before, and writes the lines that are still held back.
    pub(super) fn sum_up_repeats(&mut self) {
        let held: Vec<u32> = self.repeats.held.keys().copied().collect();
        held.into_iter().for_each(|rank| self.release(rank));
        match self.repeats.dropped.len() {
            0 => {}
            1 => self.say("another rank that failed has written the same"),
            count => self.say(&format!("{count} other ranks that failed have written the same")),
        }
        self.repeats.dropped.clear();
    }

    fn append(&mut self, rank: u32, to_stderr: bool, lines: &[u8]) {
        let queue = if to_stderr { &mut self.err } else { &mut self.out };
        if !self.tagged {
            queue.bytes.extend_from_slice(lines);
            return;
        }
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            queue.bytes.extend_from_slice(format!("[{rank}] ").as_bytes());
            queue.bytes.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                queue.bytes.push(b'\n');
            }
        }
    }

    /// A line of the launcher's own.
    pub(super) fn say(&mut self, text: &str) {
        // What a rank has left unended stays a line of its own.
        self.err
            .bytes
            .extend_from_slice(format!("hikyaku run: {text}\n").as_bytes());
    }

    pub(super) fn errors(&mut self) -> &mut Vec<u8> {
        &mut self.err.bytes
    }

    /// The reader is slow: agents must wait.
    pub(super) fn is_full(&self) -> bool {
        self.out.is_full() || self.err.is_full()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.err.is_empty()
    }

    /// The reader of standard output has gone.
    pub(super) fn is_broken(&self) -> bool {
        self.out.broken
    }

    pub(super) fn interest<'a>(&self, out: &'a io::Stdout, err: &'a io::Stderr, interest: &mut Interest<'a>) {
        if !self.out.is_empty() {
            interest.write(out.as_fd());
        }
        if !self.err.is_empty() {
            interest.write(err.as_fd());
        }
    }

    /// Writes as much as the descriptors that are ready take.
    pub(super) fn flush(&mut self, out: &io::Stdout, err: &io::Stderr, ready: &Ready) {
        if !self.out.is_empty() && ready.has(out) {
            self.out.flush_piece(&mut Raw(out));
        }
        if !self.err.is_empty() && ready.has(err) {
            self.err.flush_piece(&mut Raw(err));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_mistake_of_many_ranks_is_written_once() {
        let mut output = Output::new(false);
        for rank in 0..4 {
            output.carry(rank, true, b"bad option\nusage\n");
        }
        assert_eq!(output.err.bytes, b"bad option\nusage\n");
        assert_eq!(
            *without_thread(b"thread 'main' (12) panicked at a.rs:\n"),
            *b"thread 'main' panicked at a.rs:\n"
        );
        // Rank 1 fails, 2 does not, 3 goes on after a while; and 0 may repeat itself.
        output.drop_repeats(1);
        output.release(2);
        output.carry(3, true, b"more\n");
        output.carry(0, true, b"usage\n");
        output.sum_up_repeats();
        let said = "bad option\nusage\nbad option\nusage\nbad option\nusage\nmore\nusage\n\
                    hikyaku run: another rank that failed has written the same\n";
        assert_eq!(String::from_utf8_lossy(&output.err.bytes), said);
    }

    #[test]
    fn the_same_mistake_cut_short_is_the_same() {
        let mut output = Output::new(false);
        output.carry(0, true, b"bad option\nusage: one, two\n");
        output.carry(1, true, b"bad option\nusage: o");
        output.drop_repeats(1);
        output.carry(2, true, b"bad option\nusage: t");
        let said = "bad option\nusage: one, two\nbad option\nusage: t";
        assert_eq!(String::from_utf8_lossy(&output.err.bytes), said);
    }

    #[test]
    fn nothing_is_held_back_for_long() {
        let mut output = Output::new(true);
        output.carry(0, true, b"one\n");
        output.carry(1, true, b"one\n");
        let until = output.next_release().unwrap();
        output.release_late(until - Duration::from_millis(1));
        assert_eq!(output.err.bytes, b"[0] one\n");
        output.release_late(until);
        assert_eq!(
            (output.err.bytes.as_slice(), output.next_release()),
            (b"[0] one\n[1] one\n".as_slice(), None)
        );
        // What is no line, or a long one, is compared with whole lines only.
        output.err.bytes.clear();
        output.carry(1, true, b"two");
        output.carry(2, true, b"two");
        assert_eq!(output.err.bytes, b"[1] two\n[2] two\n");
    }

    #[test]
    fn every_line_has_its_rank() {
        let mut output = Output::new(true);
        output.carry(3, false, b"one\ntwo");
        output.carry(4, true, b"\n");
        assert_eq!(output.out.bytes, b"[3] one\n[3] two\n");
        assert_eq!(output.err.bytes, b"[4] \n");
        let mut plain = Output::new(false);
        plain.carry(3, false, b"one\ntwo");
        assert_eq!(plain.out.bytes, b"one\ntwo");
    }
}
