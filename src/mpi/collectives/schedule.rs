//! The schedule of one rank: messages, copies and reductions of a collective whose algorithm has been chosen.

use alloc::{collections::BTreeMap, vec::Vec};
use core::{fmt, ops::Range};

/// Where the elements of a [`Span`] lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// The send buffer; only read.
    Input,
    /// The receive buffer.
    Output,
    /// Memory for the duration of the collective: [`Schedule::scratch`] elements, uninitialised.
    Scratch,
}

/// Elements of a region: a run of neighbouring ones, or several such runs at equal distances. Never empty in a
/// schedule.
///
/// The unit is one element of the region's datatype, as MPI counts and displaces them. Elements of the scratch memory
/// are those of the output, or those of the input where MPI gives a rank no output (gather, on all ranks but the root).
/// Where each peer has a datatype of its own (alltoallw), element `i` stands for all that belongs to peer `i`, in the
/// scratch memory too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Which buffer.
    pub region: Region,
    /// Number of runs, at least 1; 1 where elements are reduced.
    pub times: u32,
    /// The first element, counted from the buffer's address. Negative only where the caller's displacements are.
    pub offset: isize,
    /// Number of elements per run.
    pub count: usize,
    /// From the first element of a run to that of the next one; negative if that lies before it. 0 for a single run.
    pub stride: isize,
}

impl Span {
    /// Neighbouring elements.
    pub(super) fn run(region: Region, offset: isize, count: usize) -> Self {
        Self {
            region,
            times: 1,
            offset,
            count,
            stride: 0,
        }
    }

    /// Number of elements in all.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.times as usize * self.count
    }

    /// The runs one by one.
    pub fn runs(&self) -> impl Iterator<Item = Self> + use<> {
        let span = *self;
        (0..span.times as isize).map(move |index| Self::run(span.region, span.offset + index * span.stride, span.count))
    }

    /// This span with another run after its last element or, if that is as long, at the distance of the others.
    fn then(self, run: Self) -> Option<Self> {
        let stride = run.offset - self.offset - (self.times as isize - 1) * self.stride;
        match self {
            _ if self.region != run.region || run.times > 1 => None,
            Self { times: 1, count, .. } if stride == count as isize => Some(Self {
                count: count + run.count,
                ..self
            }),
            Self { times, count, .. } if count == run.count && (times == 1 || stride == self.stride) => Some(Self {
                times: times.checked_add(1)?,
                stride,
                ..self
            }),
            _ => None,
        }
    }
}

/// One step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Begin to send a message of these elements, one span after the other; of none if there are no spans.
    Send {
        /// The receiver's rank; never the own one.
        to: usize,
        /// The elements to gather.
        spans: &'a [Span],
    },
    /// Begin to receive the next message of that rank, which has exactly these elements.
    Receive {
        /// The sender's rank; never the own one.
        from: usize,
        /// The places to scatter to.
        spans: &'a [Span],
    },
    /// `into[i] = from[i] ⊕ into[i]`, the order of MPI's user functions (`invec`, `inoutvec`; MPI 4.1, 6.9.5).
    Reduce {
        /// The left operand.
        from: Span,
        /// The right operand, and the result.
        into: Span,
    },
    /// `into = from`, element by element in the sense of datatypes: the counts differ if the datatypes do, and the runs
    /// may.
    Copy {
        /// The bytes to read.
        from: Span,
        /// The bytes to write.
        into: Span,
    },
}

/// The part of one rank in a collective: rounds of [`Step`]s.
///
/// To run it: start the steps of a round in their order. Messages are started and not waited for; copies and reductions
/// are done at once. When all messages of the round are complete, go on with the next round. Messages from one rank to
/// another match in the order in which they were started, whatever round they are in, and their lengths agree.
///
/// Steps may rely on nothing more: as long as a message is not complete, no step writes what it sends or touches what
/// it receives; and no send need be complete before its receive is started (no buffering is assumed).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// All steps, round after round.
    records: Vec<Record>,
    /// The spans of all steps, step after step.
    spans: Vec<Span>,
    /// For each round the end of its steps in `records`.
    rounds: Vec<usize>,
    scratch: usize,
}

/// A step in storage: small, because rings and exchanges have as many as there are ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    kind: Kind,
    /// The peer's rank, if there is one.
    peer: u32,
    /// The end of the step's spans in `Schedule::spans`.
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Send,
    Receive,
    Reduce,
    Copy,
}

/// A rank with which a [`Schedule`] exchanges messages, and when: for opening connections ahead and closing them again
/// (the optics paper, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its rank.
    pub rank: usize,
    /// The first round with a message to or from it.
    pub first: usize,
    /// The last such round.
    pub last: usize,
    /// Messages to it.
    pub sends: usize,
    /// Messages from it.
    pub receives: usize,
}

impl Schedule {
    /// The same among some ranks of a larger number: `ranks[i]` stands for rank `i`.
    pub(in crate::mpi) fn among(mut self, ranks: &[u32]) -> Self {
        for record in &mut self.records {
            if let Kind::Send | Kind::Receive = record.kind {
                record.peer = ranks[record.peer as usize];
            }
        }
        self
    }

    /// Number of elements of scratch memory to provide.
    #[must_use]
    pub fn scratch(&self) -> usize {
        self.scratch
    }

    /// Number of rounds.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// The steps of a round in the order in which to start them; none beyond the last round.
    pub fn round(&self, round: usize) -> impl Iterator<Item = Step<'_>> {
        let end = self.rounds.get(round).copied().unwrap_or(0);
        let begin = round.checked_sub(1).and_then(|before| self.rounds.get(before));
        (begin.copied().unwrap_or(0)..end).map(|index| self.step(index))
    }

    /// All steps, round after round.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        (0..self.records.len()).map(|index| self.step(index))
    }

    /// Number of steps.
    pub(in crate::mpi) fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether elements are reduced: then the scratch memory needs the layout of the datatype, because operations read
    /// it; otherwise elements may lie there packed.
    #[must_use]
    pub fn reduces(&self) -> bool {
        self.records.iter().any(|record| record.kind == Kind::Reduce)
    }

    /// The ranks with which messages are exchanged, in the order of first use.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        let mut peers = Vec::<Peer>::new();
        let mut index = BTreeMap::new();
        for round in 0..self.rounds() {
            for step in self.round(round) {
                let (rank, sends) = match step {
                    Step::Send { to, .. } => (to, 1),
                    Step::Receive { from, .. } => (from, 0),
                    Step::Reduce { .. } | Step::Copy { .. } => continue,
                };
                let at = *index.entry(rank).or_insert(peers.len());
                if at == peers.len() {
                    peers.push(Peer {
                        rank,
                        first: round,
                        last: round,
                        sends: 0,
                        receives: 0,
                    });
                }
                let peer = &mut peers[at];
                peer.last = round;
                peer.sends += sends;
                peer.receives += 1 - sends;
            }
        }
        peers
    }

    fn step(&self, index: usize) -> Step<'_> {
        let record = self.records[index];
        let begin = index.checked_sub(1).map_or(0, |before| self.records[before].end);
        let spans = &self.spans[begin..record.end];
        let peer = record.peer as usize;
        match record.kind {
            Kind::Send => Step::Send { to: peer, spans },
            Kind::Receive => Step::Receive { from: peer, spans },
            Kind::Reduce => Step::Reduce {
                from: spans[0],
                into: spans[1],
            },
            Kind::Copy => Step::Copy {
                from: spans[0],
                into: spans[1],
            },
        }
    }
}

/// Writes a [`Schedule`] step by step. Spans without elements are left out, at both sides of a message alike.
#[derive(Debug, Default)]
pub(super) struct Builder {
    schedule: Schedule,
}

impl Builder {
    pub(super) fn send(&mut self, to: usize, spans: impl IntoIterator<Item = Span>) {
        self.message(Kind::Send, to, spans);
    }

    pub(super) fn receive(&mut self, from: usize, spans: impl IntoIterator<Item = Span>) {
        self.message(Kind::Receive, from, spans);
    }

    /// Sends a message without elements.
    pub(super) fn signal(&mut self, to: usize) {
        self.push(Kind::Send, to);
    }

    /// Receives a message without elements.
    pub(super) fn await_signal(&mut self, from: usize) {
        self.push(Kind::Receive, from);
    }

    /// Copies a run; joins it with the copies before it, if sources and destinations are at regular distances.
    pub(super) fn copy(&mut self, from: Span, into: Span) {
        if from.count == 0 || into.count == 0 || from == into {
            return;
        }
        let Schedule {
            records, spans, rounds, ..
        } = &mut self.schedule;
        let in_round = records.len() > rounds.last().copied().unwrap_or(0);
        // Between different regions no copy can read what another one has written.
        if in_round
            && from.region != into.region
            && let Some(Record { kind: Kind::Copy, .. }) = records.last()
            && let [.., before, place] = &mut spans[..]
            && let (Some(longer), Some(farther)) = (before.then(from), place.then(into))
        {
            (*before, *place) = (longer, farther);
            return;
        }
        spans.extend([from, into]);
        self.push(Kind::Copy, 0);
    }

    pub(super) fn reduce(&mut self, from: Span, into: Span) {
        debug_assert_eq!(from.count, into.count);
        if from.count > 0 {
            self.schedule.spans.extend([from, into]);
            self.push(Kind::Reduce, 0);
        }
    }

    /// Ends the round, unless nothing is in it.
    pub(super) fn end_round(&mut self) {
        let end = self.schedule.records.len();
        if end > self.schedule.rounds.last().copied().unwrap_or(0) {
            self.schedule.rounds.push(end);
        }
    }

    /// New scratch memory.
    pub(super) fn scratch(&mut self, count: usize) -> Buffer {
        let base = self.schedule.scratch as isize;
        self.schedule.scratch += count;
        Buffer {
            region: Region::Scratch,
            base,
        }
    }

    pub(super) fn finish(mut self) -> Schedule {
        self.end_round();
        self.schedule
    }

    fn message(&mut self, kind: Kind, peer: usize, spans: impl IntoIterator<Item = Span>) {
        let all = &mut self.schedule.spans;
        let begin = all.len();
        for span in spans.into_iter().filter(|span| span.count > 0) {
            if let Some(last) = all[begin..].last_mut()
                && let Some(longer) = last.then(span)
            {
                *last = longer;
            } else {
                all.push(span);
            }
        }
        if all.len() > begin {
            self.push(kind, peer);
        }
    }

    fn push(&mut self, kind: Kind, peer: usize) {
        self.schedule.records.push(Record {
            kind,
            peer: peer as u32,
            end: self.schedule.spans.len(),
        });
    }
}

/// A vector of elements in a region, of which only a part need be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    pub(super) region: Region,
    /// The offset of element 0.
    pub(super) base: isize,
}

impl Buffer {
    pub(super) const INPUT: Self = Self {
        region: Region::Input,
        base: 0,
    };
    pub(super) const OUTPUT: Self = Self {
        region: Region::Output,
        base: 0,
    };

    /// The operand of a reduction: MPI has it in the output if the call is "in place".
    pub(super) fn source(in_place: bool) -> Self {
        if in_place { Self::OUTPUT } else { Self::INPUT }
    }

    pub(super) fn span(self, elements: Range<usize>) -> Span {
        Span::run(self.region, self.base + elements.start as isize, elements.len())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let region = match self.region {
            Region::Input => "input",
            Region::Output => "output",
            Region::Scratch => "scratch",
        };
        write!(f, "{region}[{}..{}]", self.offset, self.offset + self.count as isize)?;
        match self.times {
            1 => Ok(()),
            times => write!(f, " and {} more at distances of {}", times - 1, self.stride),
        }
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, spans: &[Span]| {
            for (index, span) in spans.iter().enumerate() {
                write!(f, "{}{span}", if index == 0 { " " } else { " + " })?;
            }
            if spans.is_empty() {
                f.write_str(" nothing")
            } else {
                Ok(())
            }
        };
        match self {
            Self::Send { to, spans } => {
                write!(f, "send to {to}:")?;
                list(f, spans)
            }
            Self::Receive { from, spans } => {
                write!(f, "receive from {from}:")?;
                list(f, spans)
            }
            Self::Reduce { from, into } => write!(f, "reduce {into} = {from} ⊕ {into}"),
            Self::Copy { from, into } => write!(f, "copy {into} = {from}"),
        }
    }
}

/// One line per round and one per step.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} rounds, {} elements of scratch memory",
            self.rounds(),
            self.scratch
        )?;
        for round in 0..self.rounds() {
            writeln!(f, "round {round}")?;
            for step in self.round(round) {
                writeln!(f, "    {step}")?;
            }
        }
        Ok(())
    }
}
