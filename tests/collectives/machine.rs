//! Runs the schedules of all ranks, in an order that chance chooses among all that are legal.

use std::collections::{BTreeMap, VecDeque};

use hikyaku::{
    internals::prng::Prng,
    mpi::collectives::{Region, Schedule, Span, Step},
};

/// The unit of data. An element of a datatype is a few of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Atom {
    /// Which place of the vector, or of whose block.
    pub(crate) key: u64,
    /// The ranks whose operands were reduced, in this order.
    pub(crate) ranks: Vec<usize>,
}

/// The cells that may be touched; `None` is not initialised.
pub(crate) type Memory = BTreeMap<isize, Option<Atom>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) input: Memory,
    pub(crate) output: Memory,
    /// Atoms of an element of the input, and of the output and the scratch memory.
    pub(crate) units: (usize, usize),
}

pub(crate) struct Machine<'a> {
    schedules: &'a [Schedule],
    ranks: Vec<Rank>,
    /// Of each pair (from, to): what was started and does not match yet.
    sends: BTreeMap<(usize, usize), VecDeque<Sent>>,
    receives: BTreeMap<(usize, usize), VecDeque<Vec<Cell>>>,
    prng: Prng,
    /// May sends complete before the receive has been started?
    buffered: bool,
}

type Cell = (Region, isize);

enum Sent {
    /// Still in the sender's memory.
    There(Vec<Cell>),
    Buffered(Vec<Atom>),
}

struct Rank {
    process: Process,
    scratch: Memory,
    round: usize,
    /// Steps of the round that have been started.
    started: usize,
    /// Messages of the round that are not complete.
    open: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Step(usize),
    Buffer(usize, usize),
    Transfer(usize, usize),
}

impl<'a> Machine<'a> {
    pub(crate) fn new(schedules: &'a [Schedule], processes: &[Process], seed: u64) -> Self {
        let ranks = schedules.iter().zip(processes).map(|(schedule, process)| Rank {
            process: process.clone(),
            scratch: (0..(schedule.scratch() * process.units.1) as isize)
                .map(|at| (at, None))
                .collect(),
            round: 0,
            started: 0,
            open: 0,
        });
        Self {
            schedules,
            ranks: ranks.collect(),
            sends: BTreeMap::new(),
            receives: BTreeMap::new(),
            prng: Prng::new(seed),
            buffered: seed.is_multiple_of(2),
        }
    }

    /// Runs to the end and gives the outputs.
    pub(crate) fn run(mut self) -> Vec<Memory> {
        let mut actions: Vec<Action> = (0..self.ranks.len()).map(Action::Step).collect();
        while !actions.is_empty() {
            let chosen = self.prng.below(actions.len() as u64) as usize;
            let action = actions.swap_remove(chosen);
            self.act(action, &mut actions);
        }
        for (index, rank) in self.ranks.iter().enumerate() {
            assert_eq!(
                rank.round,
                self.schedules[index].rounds(),
                "rank {index} waits for ever:\n{}",
                self.schedules[index]
            );
        }
        assert!(self.sends.values().all(VecDeque::is_empty), "a message is not received");
        self.ranks.into_iter().map(|rank| rank.process.output).collect()
    }

    /// Does what is possible, and notes what becomes possible.
    fn act(&mut self, action: Action, actions: &mut Vec<Action>) {
        match action {
            Action::Step(index) => self.step(index, actions),
            Action::Buffer(from, to) => {
                let first = self.sends.get_mut(&(from, to)).unwrap().iter_mut();
                let Some(sent) = first.into_iter().find(|sent| matches!(sent, Sent::There(_))) else {
                    return;
                };
                let Sent::There(cells) = sent else { unreachable!() };
                *sent = Sent::Buffered(self.ranks[from].read(cells));
                self.complete(from, actions);
            }
            Action::Transfer(from, to) => {
                let sent = self.sends.get_mut(&(from, to)).unwrap().pop_front().unwrap();
                let cells = self.receives.get_mut(&(from, to)).unwrap().pop_front().unwrap();
                let atoms = match sent {
                    Sent::Buffered(atoms) => atoms,
                    Sent::There(cells) => {
                        let atoms = self.ranks[from].read(&cells);
                        self.complete(from, actions);
                        atoms
                    }
                };
                assert_eq!(atoms.len(), cells.len(), "length of a message from {from} to {to}");
                self.ranks[to].write(&cells, atoms);
                self.complete(to, actions);
            }
        }
    }

    fn complete(&mut self, index: usize, actions: &mut Vec<Action>) {
        let rank = &mut self.ranks[index];
        rank.open -= 1;
        // Else there are still steps to start, and that is an action already.
        if rank.open == 0 && rank.started == self.schedules[index].round(rank.round).count() {
            actions.push(Action::Step(index));
        }
    }

    fn step(&mut self, index: usize, actions: &mut Vec<Action>) {
        let rank = &mut self.ranks[index];
        let Some(step) = self.schedules[index].round(rank.round).nth(rank.started) else {
            if rank.open == 0 && rank.round < self.schedules[index].rounds() {
                (rank.round, rank.started) = (rank.round + 1, 0);
                actions.push(Action::Step(index));
            }
            return;
        };
        rank.started += 1;
        match step {
            Step::Send { to, spans } => {
                let cells = rank.cells(spans);
                rank.open += 1;
                self.sends.entry((index, to)).or_default().push_back(Sent::There(cells));
                if self.buffered {
                    actions.push(Action::Buffer(index, to));
                }
                self.matched(index, to, actions, true);
            }
            Step::Receive { from, spans } => {
                let cells = rank.cells(spans);
                rank.open += 1;
                self.receives.entry((from, index)).or_default().push_back(cells);
                self.matched(from, index, actions, false);
            }
            Step::Copy { from, into } => {
                let atoms = rank.read(&rank.cells(&[from]));
                rank.write(&rank.cells(&[into]), atoms);
            }
            Step::Reduce { from, into } => {
                let left = rank.read(&rank.cells(&[from]));
                let right = rank.read(&rank.cells(&[into]));
                let pairs = left.into_iter().zip(right);
                let results = pairs.map(|(left, right)| {
                    assert_eq!(left.key, right.key, "operands of different places");
                    Atom {
                        key: left.key,
                        ranks: [left.ranks, right.ranks].concat(),
                    }
                });
                let results = results.collect();
                rank.write(&rank.cells(&[into]), results);
            }
        }
        actions.push(Action::Step(index));
    }

    /// One more transfer is possible if what was just started has found its other side.
    fn matched(&mut self, from: usize, to: usize, actions: &mut Vec<Action>, is_send: bool) {
        let sends = self.sends.get(&(from, to)).map_or(0, VecDeque::len);
        let receives = self.receives.get(&(from, to)).map_or(0, VecDeque::len);
        if if is_send { sends <= receives } else { receives <= sends } {
            actions.push(Action::Transfer(from, to));
        }
    }
}

impl Rank {
    fn cells(&self, spans: &[Span]) -> Vec<Cell> {
        spans.iter().flat_map(|span| cells(span, self.process.units)).collect()
    }

    fn memory(&mut self, region: Region) -> &mut Memory {
        match region {
            Region::Input => &mut self.process.input,
            Region::Output => &mut self.process.output,
            Region::Scratch => &mut self.scratch,
        }
    }

    fn read(&mut self, cells: &[Cell]) -> Vec<Atom> {
        let read = |(region, at): &Cell| match self.memory(*region).get(at) {
            Some(Some(atom)) => atom.clone(),
            Some(None) => panic!("reads {region:?} at {at}, which is not initialised"),
            None => panic!("reads {region:?} at {at}, which is outside"),
        };
        cells.iter().map(read).collect()
    }

    fn write(&mut self, cells: &[Cell], atoms: Vec<Atom>) {
        assert_eq!(cells.len(), atoms.len(), "a copy changes its length");
        for ((region, at), atom) in cells.iter().zip(atoms) {
            assert_ne!(*region, Region::Input, "writes the input");
            let cell = self.memory(*region).get_mut(at);
            *cell.unwrap_or_else(|| panic!("writes {region:?} at {at}, which is outside")) = Some(atom);
        }
    }
}

pub(crate) fn cells(span: &Span, units: (usize, usize)) -> impl Iterator<Item = Cell> + use<> {
    let unit = if span.region == Region::Input { units.0 } else { units.1 };
    span.runs().flat_map(move |run| {
        let first = run.offset * unit as isize;
        (0..(run.count * unit) as isize).map(move |at| (run.region, first + at))
    })
}
