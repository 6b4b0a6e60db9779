//! Othello: a search of the game tree, in which all get their work from rank 0.
//!
//! From the opening position on, each move is the best one by a search with alpha-beta pruning. Rank 0 divides each search
//! into the answers to the possible moves; a rank that has nothing to do asks for one, with the value of its last one, and
//! rank 0 answers in the order of the questions, with the bounds that are known by then. Alone, rank 0 does all of them.
//!
//! Which positions are searched depends on who is fast; move and value do not, and rank 0 compares them with those of a
//! search in one process. This is one of the programs with which the UDP protocol of DSE was measured: small messages
//! between processor 0 and everybody else.

use mpi::{Error, Rank, topology::SimpleCommunicator, traits::*};

const FULL: i32 = 1_000_000;
const LEFT_FILE: u64 = 0x0101_0101_0101_0101;
const CORNERS: u64 = 0x8100_0000_0000_0081;

/// Discs of the player who moves and of the other one: bit 8 r + f is row r, file f.
#[derive(Clone, Copy, Equivalence)]
struct Position {
    own: u64,
    other: u64,
}

fn shift(discs: u64, direction: usize) -> u64 {
    let (not_left, not_right) = (!LEFT_FILE, !(LEFT_FILE << 7));
    match direction {
        0 => discs << 8,
        1 => discs >> 8,
        2 => (discs << 1) & not_left,
        3 => (discs >> 1) & not_right,
        4 => (discs << 9) & not_left,
        5 => (discs >> 9) & not_right,
        6 => (discs << 7) & not_right,
        _ => (discs >> 7) & not_left,
    }
}

impl Position {
    const OPENING: Self = Self {
        own: 1 << 28 | 1 << 35,
        other: 1 << 27 | 1 << 36,
    };

    fn pass(self) -> Self {
        Self {
            own: self.other,
            other: self.own,
        }
    }

    fn moves(self) -> u64 {
        let empty = !(self.own | self.other);
        (0..8).fold(0, |moves, direction| {
            let mut line = shift(self.own, direction) & self.other;
            for _ in 0..5 {
                line |= shift(line, direction) & self.other;
            }
            moves | shift(line, direction) & empty
        })
    }

    /// The position after a disc was put on a square: the other one's turn.
    fn play(self, square: u32) -> Self {
        let mut turned = 0;
        for direction in 0..8 {
            let (mut line, mut next) = (0, shift(1 << square, direction));
            while next & self.other != 0 {
                line |= next;
                next = shift(next, direction);
            }
            if next & self.own != 0 {
                turned |= line;
            }
        }
        Self {
            own: self.other & !turned,
            other: self.own | turned | 1 << square,
        }
    }

    /// The positions that can follow, in the order of squares: one if there is only to pass, none if the game is over.
    fn following(self) -> Vec<Self> {
        let moves = self.moves();
        if moves == 0 {
            let pass = self.pass();
            return if pass.moves() == 0 { Vec::new() } else { vec![pass] };
        }
        squares(moves).map(|square| self.play(square)).collect()
    }

    /// The value of a position for the player to move, without looking ahead.
    fn estimate(self) -> i32 {
        let difference = |a: u64, b: u64| a.count_ones() as i32 - b.count_ones() as i32;
        10 * difference(self.moves(), self.pass().moves())
            + 50 * difference(self.own & CORNERS, self.other & CORNERS)
            + difference(self.own, self.other)
    }

    fn final_value(self) -> i32 {
        1_000 * (self.own.count_ones() as i32 - self.other.count_ones() as i32)
    }
}

fn squares(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let square = (set != 0).then(|| set.trailing_zeros());
        set &= set.wrapping_sub(1);
        square
    })
}

fn name(square: u32) -> String {
    format!("{}{}", char::from(b'a' + (square % 8) as u8), square / 8 + 1)
}

/// Alpha-beta: the value of a position for the player who moves if it is within the bounds, else one that is as far
/// out.
fn search(position: Position, depth: u32, mut low: i32, high: i32, seen: &mut u64) -> i32 {
    *seen += 1;
    if depth == 0 {
        return position.estimate();
    }
    let following = position.following();
    if following.is_empty() {
        return position.final_value();
    }
    let mut best = -FULL;
    for next in following {
        best = best.max(-search(next, depth - 1, -high, -low, seen));
        low = low.max(best);
        if low >= high {
            break;
        }
    }
    best
}

/// The best move (the first of several) and its value, in one process.
fn best_alone(position: Position, depth: u32, seen: &mut u64) -> (u32, i32) {
    let mut best = (u32::MAX, -FULL);
    for square in squares(position.moves()) {
        let value = -search(position.play(square), depth - 1, -FULL, -best.1, seen);
        if value > best.1 {
            best = (square, value);
        }
    }
    best
}

/// An answer to a move, to be searched for the player that made the move. Depth 0: there is no more work.
#[derive(Clone, Copy, Equivalence)]
struct Task {
    /// Which move, and which answer to it.
    index: [u32; 2],
    position: Position,
    depth: u32,
    low: i32,
    high: i32,
}

#[derive(Clone, Copy, Equivalence)]
struct Done {
    /// Of the task; [`NOTHING`] in a rank's first request.
    index: [u32; 2],
    value: i32,
    seen: u64,
}

const NOTHING: u32 = u32::MAX;
const OVER: Task = Task {
    index: [NOTHING; 2],
    position: Position::OPENING,
    depth: 0,
    low: 0,
    high: 0,
};

impl Task {
    fn run(self) -> Done {
        let mut seen = 0;
        let value = search(self.position, self.depth, self.low, self.high, &mut seen);
        Done {
            index: self.index,
            value,
            seen,
        }
    }
}

/// A move and what is known about it.
struct Move {
    square: u32,
    /// The positions after each answer.
    answers: Vec<Position>,
    given: usize,
    ended: usize,
    /// The least value of the answers so far. Not exact if it is below what was the best then: the move is refuted.
    value: i32,
}

/// The search that rank 0 hands out.
struct Work {
    moves: Vec<Move>,
    depth: u32,
    seen: u64,
}

impl Work {
    /// A search of at least two half-moves.
    fn new(position: Position, depth: u32) -> Self {
        let moves = squares(position.moves()).map(|square| {
            let after = position.play(square);
            let answers = after.following();
            // A move that ends the game has one answer: none.
            let value = if answers.is_empty() { -after.final_value() } else { FULL };
            Move {
                square,
                answers,
                given: 0,
                ended: 0,
                value,
            }
        });
        Self {
            moves: moves.collect(),
            depth,
            seen: 0,
        }
    }

    /// The value of the best move of which all is known.
    fn best(&self) -> i32 {
        let known = self.moves.iter().filter(|it| it.ended == it.answers.len());
        known.map(|it| it.value).max().unwrap_or(-FULL)
    }

    /// The next task. The lower bound is one less than the best value, so that a move that is as good and comes before
    /// it is found to be so.
    fn next(&mut self) -> Option<Task> {
        let low = (self.best() - 1).max(-FULL);
        for (index, it) in self.moves.iter_mut().enumerate() {
            if it.value > low && it.given < it.answers.len() {
                it.given += 1;
                return Some(Task {
                    index: [index as u32, it.given as u32 - 1],
                    position: it.answers[it.given - 1],
                    depth: self.depth - 2,
                    low,
                    high: it.value,
                });
            }
        }
        None
    }

    fn handle_done(&mut self, done: Done) {
        if done.index[0] != NOTHING {
            let it = &mut self.moves[done.index[0] as usize];
            it.value = it.value.min(done.value);
            it.ended += 1;
            self.seen += done.seen;
        }
    }

    /// The best move, the first of several, and its value.
    fn result(&self) -> (u32, i32) {
        let first = (u32::MAX, -FULL);
        let better = |best: (u32, i32), it: &Move| if it.value > best.1 { (it.square, it.value) } else { best };
        self.moves.iter().fold(first, better)
    }
}

/// Rank 0: one search with the help of all others.
fn hand_out(world: &SimpleCommunicator, work: &mut Work, searched: &dyn Fn(u64)) -> Result<(), Error> {
    let mut busy = 0;
    let mut idle: Vec<Rank> = Vec::new();
    if world.size() == 1 {
        while let Some(task) = work.next() {
            let done = task.run();
            searched(done.seen);
            work.handle_done(done);
        }
        return Ok(());
    }
    // All ranks ask for work when a search begins.
    let mut unheard = world.size() - 1;
    loop {
        while let Some(rank) = idle.pop() {
            let Some(task) = work.next() else {
                idle.push(rank);
                break;
            };
            world.process_at_rank(rank).send(&task)?;
            busy += 1;
        }
        if busy == 0 && unheard == 0 {
            break;
        }
        let (done, status) = world.any_process().receive::<Done>()?;
        if done.index[0] == NOTHING {
            unheard -= 1;
        } else {
            busy -= 1;
        }
        work.handle_done(done);
        idle.push(status.source_rank());
    }
    for rank in 1..world.size() {
        world.process_at_rank(rank).send(&OVER)?;
    }
    Ok(())
}

/// The others: work until there is no more.
fn help(world: &SimpleCommunicator, searched: &dyn Fn(u64)) -> Result<(), Error> {
    let server = world.process_at_rank(0);
    let mut done = Done {
        index: [NOTHING; 2],
        value: 0,
        seen: 0,
    };
    loop {
        server.send(&done)?;
        let (task, _) = server.receive::<Task>()?;
        if task.depth == 0 && task.index[0] == NOTHING {
            return Ok(());
        }
        done = task.run();
        searched(done.seen);
    }
}

/// The result of a game, at rank 0.
#[derive(Default)]
pub struct Game {
    /// The moves.
    pub moves: String,
    /// The value of the last one.
    pub value: i32,
    /// Positions looked at by all ranks.
    pub seen: u64,
    /// Seconds that took.
    pub together: f64,
    /// Positions looked at by one process.
    pub seen_alone: u64,
    /// Seconds that took.
    pub alone: f64,
}

/// Plays `moves` moves, each after a search of `depth` half-moves. `searched` is told of each search at this rank: how many
/// positions it has looked at.
pub fn play(world: &SimpleCommunicator, depth: u32, moves: u32, searched: &dyn Fn(u64)) -> Result<Game, Error> {
    let mut position = Position::OPENING;
    let mut game = Game::default();
    for _ in 0..moves {
        if position.moves() == 0 {
            position = position.pass();
            if position.moves() == 0 {
                break;
            }
        }
        let mut best = (0, 0);
        if world.rank() == 0 {
            let start = mpi::time();
            let mut work = Work::new(position, depth);
            hand_out(world, &mut work, searched)?;
            best = work.result();
            game.seen += work.seen;
            game.together += mpi::time() - start;

            let start = mpi::time();
            let expected = best_alone(position, depth, &mut game.seen_alone);
            game.alone += mpi::time() - start;
            assert_eq!(best, expected, "the best move and its value after{}", game.moves);
            game.value = best.1;
            game.moves = format!("{} {}", game.moves, name(best.0));
        } else {
            help(world, searched)?;
        }
        world.process_at_rank(0).broadcast_into(&mut best.0)?;
        position = position.play(best.0);
    }
    Ok(game)
}
