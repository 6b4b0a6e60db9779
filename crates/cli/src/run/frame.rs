//! The protocol of the launcher and its agents, over the pipes between them (or over ssh): frames of a kind, a
//! rank and bytes.

use serde::{Deserialize, Serialize};

use super::hosts::{Binding, Place};

/// The first bytes of an agent. They separate its output from the text that a login shell prints before.
pub(super) const GREETING: &[u8] = concat!("\nhikyaku agent ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();
/// Bytes before the payload: kind, rank, length.
const HEAD: usize = 9;
/// Longest payload.
pub(super) const MAX_PAYLOAD: usize = 16 << 20;

/// The meaning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// To an agent: the ranks to start ([`Start`]).
    Start,
    /// To an agent: for the standard input of rank 0; nothing means that it ends.
    Stdin,
    /// To an agent: an answer of the wire-up server.
    Reply,
    /// To an agent: a signal for all ranks.
    Signal,
    /// To an agent: this rank must end.
    End,
    /// To an agent: this rank has failed, and the others should know.
    Lost,
    /// From an agent: its CPUs and its address ([`Hello`]).
    Hello,
    /// A rank runs ([`Started`]).
    Started,
    /// A rank could not be started ([`NotStarted`]).
    NotStarted,
    /// Whole lines of a rank's standard output.
    Stdout,
    /// Whole lines of its standard error.
    Stderr,
    /// It took the bytes for its standard input.
    StdinTaken,
    /// A rank has come to the wire-up server.
    Joined,
    /// The line that it sent.
    Line,
    /// A rank has ended ([`Ended`]).
    Exited,
    /// A limit of the host was reached; for people.
    Limit,
}

const KINDS: [Kind; 16] = [
    Kind::Start,
    Kind::Stdin,
    Kind::Reply,
    Kind::Signal,
    Kind::End,
    Kind::Lost,
    Kind::Hello,
    Kind::Started,
    Kind::NotStarted,
    Kind::Stdout,
    Kind::Stderr,
    Kind::StdinTaken,
    Kind::Joined,
    Kind::Line,
    Kind::Exited,
    Kind::Limit,
];

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) rank: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    pub(super) fn new(kind: Kind, rank: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            kind,
            rank,
            payload: payload.into(),
        }
    }

    /// With a structure as its payload.
    pub(super) fn of(kind: Kind, rank: u32, content: &impl Serialize) -> Self {
        let payload = serde_json::to_vec(content).expect("plain data becomes JSON");
        Self::new(kind, rank, payload)
    }

    pub(super) fn content<'a, T: Deserialize<'a>>(&'a self) -> Result<T, String> {
        serde_json::from_slice(&self.payload).map_err(|error| format!("{:?}: {error}", self.kind))
    }

    pub(super) fn append_to(&self, buffer: &mut Vec<u8>) {
        let length = u32::try_from(self.payload.len()).expect("payloads are short");
        buffer.push(self.kind as u8);
        buffer.extend_from_slice(&self.rank.to_be_bytes());
        buffer.extend_from_slice(&length.to_be_bytes());
        buffer.extend_from_slice(&self.payload);
    }

    /// Takes the frames out of `buffer` that are whole.
    pub(super) fn take_all(buffer: &mut Vec<u8>) -> Result<Vec<Self>, String> {
        let mut frames = Vec::new();
        let mut at = 0;
        while let Some((frame, length)) = Self::first(&buffer[at..])? {
            frames.push(frame);
            at += length;
        }
        buffer.drain(..at);
        Ok(frames)
    }

    /// The first frame and its length, if all of it is there.
    fn first(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let Some(head) = bytes.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (rank, length) = (number(1), number(5) as usize);
        let Some(&kind) = KINDS.get(usize::from(head[0])) else {
            return Err(format!("a frame of unknown kind {}", head[0]));
        };
        if length > MAX_PAYLOAD {
            return Err(format!("a frame of {length} bytes"));
        }
        let payload = bytes[HEAD..].get(..length).map(<[u8]>::to_vec);
        Ok(payload.map(|payload| (Self { kind, rank, payload }, HEAD + length)))
    }
}

/// Identifies an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// CPUs that ranks may use.
    pub(super) cpus: usize,
    /// The address at which the launcher's host has reached this one, if ssh says so.
    pub(super) reached_at: Option<String>,
}

/// A program of the job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct App {
    pub(super) command: Vec<String>,
    pub(super) env: Vec<(String, String)>,
}

/// The processes that an agent starts: those of a world on its host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Start {
    /// The number of the world's first process in the job.
    pub(super) first: u32,
    pub(super) size: u32,
    pub(super) places: Vec<Place>,
    pub(super) apps: Vec<App>,
    pub(super) directory: String,
    pub(super) binding: Binding,
    pub(super) ticket: String,
    pub(super) job_key: String,
    pub(super) host_address: Option<String>,
    /// Ranks that fail do not end the others, which listen for reports of those that fail.
    pub(super) goes_on: bool,
    /// What the world is told about the processes that have spawned it.
    pub(super) spawned_by: Option<String>,
}

/// A rank runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Started {
    pub(super) pid: i32,
    pub(super) cpu: Option<usize>,
}

/// A rank could not be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct NotStarted {
    pub(super) message: String,
    /// Exit code as of a shell: 127 if there is no such program, else 126.
    pub(super) code: u8,
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ended {
    Code(u8),
    Signal(i32),
}

impl Ended {
    /// As shells count it.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => u8::try_from(number).map_or(u8::MAX, |number| number.saturating_add(128)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_back() {
        let frames = [
            Frame::new(Kind::Stdout, 3, *b"hello\n"),
            Frame::of(Kind::Exited, 1, &Ended::Signal(9)),
            Frame::new(Kind::Stdin, 0, Vec::new()),
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.append_to(&mut bytes));
        let mut buffer = Vec::new();
        let mut read = Vec::new();
        for byte in bytes {
            buffer.push(byte);
            read.extend(Frame::take_all(&mut buffer).unwrap());
        }
        assert_eq!(read, frames);
        assert_eq!(read[1].content(), Ok(Ended::Signal(9)));
    }

    #[test]
    fn every_kind_has_its_number() {
        for (number, kind) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        assert!(Frame::take_all(&mut vec![200; 20]).is_err());
        assert!(Frame::take_all(&mut vec![0, 0, 0, 0, 0, 255, 255, 255, 255]).is_err());
    }
}
