//! Operations of other processes on the windows of this one.

use alloc::{collections::VecDeque, vec, vec::Vec};

use bytes::Bytes;

use super::{
    Rma,
    lock::Asked,
    memory::Memory,
    message::{Message, Request, Run, Runs, Status},
    net::{LIMIT, Net},
    window::{Serving, WindowState},
};
use crate::{
    error::SendError,
    mpi::{
        datatype::{Datatype, Kind},
        operation::{Operation, Predefined},
    },
};

impl Rma {
    pub(super) fn handle_request(&mut self, net: &mut Net<'_>, process: u32, id: u32, name: u64, request: Request<'_>) {
        if net.is_deaf(process) {
            self.stats.refused += 1;
            return;
        }
        let mut old = Vec::new();
        let window = self.windows.get_mut(&name);
        let Some(window) = window.filter(|window| window.group.rank_of(process).is_some()) else {
            self.answer(net, process, id, &request, Status::Window, &old);
            return;
        };
        let status = match request {
            Request::Accumulate {
                kind,
                operation,
                fetch,
                runs,
                operand,
            } => {
                let status = accumulate(&mut window.memory, kind, operation, runs, operand, &mut old);
                if !fetch {
                    old.clear();
                }
                status
            }
            Request::Swap { kind, runs, operands } => swap(&mut window.memory, kind, runs, operands, &mut old),
            Request::Get { runs, region } => {
                let theirs = self.serving.iter().filter(|serving| serving.process == process);
                if theirs.count() >= LIMIT {
                    Status::Refused
                } else if !fits(&window.memory, runs) {
                    Status::Range
                } else {
                    self.serving.push_back(Serving {
                        process,
                        window: name,
                        region,
                        pieces: pieces(&window.memory, runs),
                    });
                    self.serve(net);
                    Status::Done
                }
            }
            Request::Lock { exclusive } => {
                let asked = Asked { process, id, exclusive };
                // (One that is lost would never give it back.)
                if net.lost(process).is_none() && window.lock.ask(asked) {
                    Status::Done
                } else {
                    Status::Refused
                }
            }
            Request::Unlock if window.lock.release(process) => Status::Done,
            Request::Unlock => Status::Refused,
            Request::Post => count(window, process, true),
            Request::Complete => count(window, process, false),
        };
        self.answer(net, process, id, &request, status, &old);
        if matches!(request, Request::Lock { .. } | Request::Unlock) {
            self.grant_lock(net, name);
        }
    }

    /// Answers a request, if its origin waits for an answer.
    fn answer(&mut self, net: &mut Net<'_>, process: u32, id: u32, request: &Request<'_>, status: Status, data: &[u8]) {
        let done = status == Status::Done;
        if done {
            self.stats.served += 1;
        } else {
            self.stats.refused += 1;
        }
        let answered = match request {
            Request::Accumulate { .. } | Request::Swap { .. } => true,
            // The data are the answer to a get; a lock is granted when its turn has come.
            Request::Get { .. } | Request::Lock { .. } => !done,
            Request::Unlock | Request::Post | Request::Complete => false,
        };
        if answered {
            net.send(process, &Message::Answer { id, status, data });
        }
    }

    /// Grants the lock to the processes whose turn it is.
    pub(super) fn grant_lock(&mut self, net: &mut Net<'_>, name: u64) {
        let Some(window) = self.windows.get_mut(&name) else {
            return;
        };
        for Asked { process, id, .. } in window.lock.grant() {
            let answer = Message::Answer {
                id,
                status: Status::Done,
                data: &[],
            };
            net.send(process, &answer);
        }
    }

    /// These processes are about to share the word of the window's lock: from now on they take it by themselves. The place
    /// of each is its number in the list.
    pub(in crate::mpi::engine) fn admit_to_lock(&mut self, net: &Net<'_>, name: u64, processes: &[u32]) {
        let Some(window) = self.windows.get_mut(&name) else {
            return;
        };
        window.lock.admit(processes.iter().copied());
        for process in processes.iter().filter(|process| net.lost(**process).is_some()) {
            window.lock.forget(*process);
        }
    }

    /// Places requested data, as far as there is room.
    pub(super) fn serve(&mut self, net: &mut Net<'_>) {
        self.serving.retain_mut(|serving| {
            while let Some((offset, piece)) = serving.pieces.front() {
                match net.place(serving.process, serving.region, *offset, piece.clone()) {
                    Ok(_) => serving.pieces.pop_front(),
                    Err(SendError::WouldBlock(_)) => return true,
                    Err(_) => return false,
                };
            }
            false
        });
    }
}

/// Counts a post or completion of the process. (An honest process sends one of each per epoch.)
fn count(window: &mut WindowState, process: u32, post: bool) -> Status {
    let counts = if post {
        &mut window.posted
    } else {
        &mut window.completed
    };
    let count = counts.entry(process).or_default();
    *count = count.saturating_add(1);
    Status::Done
}

fn fits(memory: &Memory, runs: Runs<'_>) -> bool {
    runs.iter().all(|run| memory.has(run))
}

/// The data of the runs: long ones by reference, short ones packed together.
fn pieces(memory: &Memory, runs: Runs<'_>) -> VecDeque<(u64, Bytes)> {
    let mut pieces = VecDeque::new();
    let mut packed = Vec::new();
    let mut at = 0;
    let mut push = |bytes: Bytes| {
        let len = bytes.len() as u64;
        if len > 0 {
            pieces.push_back((at, bytes));
        }
        at += len;
    };
    for run in runs.iter() {
        match memory.lend(run) {
            Some(lent) => {
                push(core::mem::take(&mut packed).into());
                push(lent);
            }
            None => memory.read(run, &mut packed),
        }
    }
    push(packed.into());
    pieces
}

/// Writes bytes to the runs, one after the other.
fn write(memory: &mut Memory, runs: Runs<'_>, mut bytes: &[u8]) {
    for run in runs.iter() {
        let (here, rest) = bytes.split_at(bytes.len().min(run.len as usize));
        memory.write(run, here);
        bytes = rest;
    }
}

/// Combines the elements in the runs with `operand`. Leaves the old values in `old`.
fn accumulate(
    memory: &mut Memory,
    kind: Kind,
    operation: Predefined,
    runs: Runs<'_>,
    operand: &[u8],
    old: &mut Vec<u8>,
) -> Status {
    if !fits(memory, runs) {
        return Status::Range;
    }
    for run in runs.iter() {
        memory.read(run, old);
    }
    match operation {
        Predefined::NoOp => {}
        Predefined::Replace => write(memory, runs, operand),
        _ => match combine(kind, operation, operand, old) {
            Some(new) => write(memory, runs, &new),
            None => return Status::Refused,
        },
    }
    Status::Done
}

/// `operand ∘ old`, all packed.
fn combine(kind: Kind, operation: Predefined, operand: &[u8], old: &[u8]) -> Option<Vec<u8>> {
    let datatype = Datatype::predefined(kind);
    let operation = Operation::predefined(operation);
    let count = old.len() as u64 / kind.size();
    if kind.extent() == kind.size() {
        let mut new = old.to_vec();
        operation.apply(&datatype, operand, &mut new, count).ok()?;
        return Some(new);
    }
    // Pairs have padding in memory, but not in messages.
    let [mut input, mut inout] = [(); 2].map(|()| vec![0; (count * kind.extent()) as usize]);
    datatype.unpack(&mut input, 0, count, 0, operand).ok()?;
    datatype.unpack(&mut inout, 0, count, 0, old).ok()?;
    operation.apply(&datatype, &input, &mut inout, count).ok()?;
    let mut new = vec![0; old.len()];
    datatype.pack(&inout, 0, count, 0, &mut new).ok()?;
    Some(new)
}

fn swap(memory: &mut Memory, kind: Kind, runs: Runs<'_>, operands: &[u8], old: &mut Vec<u8>) -> Status {
    let Some(run) = runs.iter().next().filter(|run: &Run| memory.has(*run)) else {
        return Status::Range;
    };
    memory.read(run, old);
    let (expected, new) = operands.split_at(kind.size() as usize);
    if old == expected {
        memory.write(run, new);
    }
    Status::Done
}
