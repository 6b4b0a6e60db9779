//! What ranks print, on its way to standard output and standard error.

use std::{io, os::fd::AsFd};

use super::pipes::{Interest, Queue, Raw, Ready};

/// Both outputs of the launcher.
#[derive(Default)]
pub(super) struct Output {
    tagged: bool,
    out: Queue,
    err: Queue,
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
        let queue = if to_stderr { &mut self.err } else { &mut self.out };
        if !self.tagged {
            queue.octets.extend_from_slice(lines);
            return;
        }
        for line in lines.split_inclusive(|octet| *octet == b'\n') {
            queue.octets.extend_from_slice(format!("[{rank}] ").as_bytes());
            queue.octets.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                queue.octets.push(b'\n');
            }
        }
    }

    /// A line of the launcher's own.
    pub(super) fn say(&mut self, text: &str) {
        // What a rank has left unended stays a line of its own.
        self.err
            .octets
            .extend_from_slice(format!("hikyaku run: {text}\n").as_bytes());
    }

    pub(super) fn errors(&mut self) -> &mut Vec<u8> {
        &mut self.err.octets
    }

    /// Nobody reads: agents must wait.
    pub(super) fn is_full(&self) -> bool {
        self.out.is_full() || self.err.is_full()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.err.is_empty()
    }

    /// Whoever read standard output has gone.
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

    /// Writes what those take that are ready.
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
    fn every_line_has_its_rank() {
        let mut output = Output::new(true);
        output.carry(3, false, b"one\ntwo");
        output.carry(4, true, b"\n");
        assert_eq!(output.out.octets, b"[3] one\n[3] two\n");
        assert_eq!(output.err.octets, b"[4] \n");
        let mut plain = Output::new(false);
        plain.carry(3, false, b"one\ntwo");
        assert_eq!(plain.out.octets, b"one\ntwo");
    }
}
