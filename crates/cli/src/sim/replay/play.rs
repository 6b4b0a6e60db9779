#![expect(
    unsafe_code,
    reason = "the engine takes pointers; all are to memory that is kept until its operation has ended"
)]
//! Does again what a rank has done.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hikyaku::{
    mpi::{
        collectives::{Blocks, Call, Counts, displacements},
        datatype::{Datatype, Kind},
        engine::{Buffers, Communicator, Engine, Mode, PROC_NULL, Region, Request},
        operation::{Operation, Predefined},
    },
    sim,
};

use super::program::{Collective, Lengths, Making, Step, Vector};

/// Memory of messages.
type Octets = Vec<u64>;

/// A rank in the middle of its program.
struct Player<'a> {
    communicators: BTreeMap<u32, Communicator>,
    engine: &'a Arc<Engine>,
    /// What goes on, and its memory.
    running: BTreeMap<u64, (Request, [Octets; 2])>,
    byte: Datatype,
}

/// Plays all steps, with computing that takes `scale` times as long. Gives when it was over, ns.
pub(crate) fn play(engine: &Arc<Engine>, steps: &[Step], scale: f64) -> Result<u64, String> {
    let mut player = Player {
        communicators: BTreeMap::from([(0, Communicator::world(engine)), (1, Communicator::own(engine))]),
        engine,
        running: BTreeMap::new(),
        byte: Datatype::predefined(Kind::Byte),
    };
    let played = steps.iter().try_for_each(|step| player.step(step, scale));
    let played = played.and_then(|()| player.end_all());
    // What has not ended, after an error, may still be written to.
    std::mem::forget(std::mem::take(&mut player.running));
    played.map(|()| engine.now().as_nanos())
}

/// A trace may say anything: what there is no memory for is an error of the rank, and not the end of the process.
fn memory(octets: u64) -> Result<Octets, String> {
    let words = usize::try_from(octets.div_ceil(8)).unwrap_or(usize::MAX);
    let room = Octets::new().try_reserve_exact(words);
    room.map_err(|_| format!("there is no memory for {octets} octets"))?;
    Ok(vec![0; words])
}

impl Player<'_> {
    fn step(&mut self, step: &Step, scale: f64) -> Result<(), String> {
        match step {
            Step::Compute(nanos) => {
                let time = Duration::from_nanos((*nanos as f64 * scale).round() as u64);
                sim::compute(time).map_err(|error| error.to_string())
            }
            Step::Send {
                context,
                to,
                tag,
                octets,
                synchronous,
                request,
            } => {
                let mode = if *synchronous {
                    Mode::Synchronous
                } else {
                    Mode::Standard
                };
                let data = memory(*octets)?;
                let comm = self.communicator(*context)?;
                if request.is_none() {
                    // SAFETY: it is borrowed until it has ended.
                    let sent = unsafe { comm.send(mode, data.as_ptr().cast(), *octets, &self.byte, *to, *tag) };
                    return sent.map_err(|error| error.to_string());
                }
                // SAFETY: `data` is kept until it has ended.
                let begun = unsafe { comm.isend(mode, data.as_ptr().cast(), *octets, &self.byte, *to, *tag) };
                self.begun(begun, [data, Octets::new()], *request)
            }
            Step::Receive {
                context,
                from,
                tag,
                room,
                request,
            } => {
                let mut data = memory(if *from == PROC_NULL { 0 } else { *room })?;
                let comm = self.communicator(*context)?;
                if request.is_none() {
                    // SAFETY: as above.
                    let got = unsafe { comm.receive(data.as_mut_ptr().cast(), *room, &self.byte, *from, *tag) };
                    return got.map(|_| ()).map_err(|error| error.to_string());
                }
                // SAFETY: as above.
                let begun = unsafe { comm.ireceive(data.as_mut_ptr().cast(), *room, &self.byte, *from, *tag) };
                self.begun(begun, [data, Octets::new()], *request)
            }
            Step::Wait(requests) => requests.iter().try_for_each(|number| self.end(*number)),
            Step::Collective {
                name,
                context,
                what,
                request,
            } => self.collective(name, *context, what, *request),
            Step::Make { context, how, made } => self.make(*context, how, made.as_ref()),
        }
    }

    fn communicator(&self, context: u32) -> Result<Communicator, String> {
        let known = self.communicators.get(&context);
        known
            .cloned()
            .ok_or_else(|| format!("there is no communicator {context}: no call before has made it"))
    }

    /// Waits, unless it goes on under a number.
    fn begun(
        &mut self,
        begun: Result<Request, hikyaku::mpi::error::Error>,
        memory: [Octets; 2],
        number: Option<u64>,
    ) -> Result<(), String> {
        let request = begun.map_err(|error| error.to_string())?;
        let number = number.unwrap_or(0);
        self.running.insert(number, (request, memory));
        if number == 0 { self.end(0) } else { Ok(()) }
    }

    fn end(&mut self, number: u64) -> Result<(), String> {
        let Some((request, _)) = self.running.get_mut(&number) else {
            return Ok(());
        };
        let ended = request.wait_mut().map_err(|error| error.to_string());
        if ended.is_ok() {
            self.running.remove(&number);
        }
        ended.map(|_| ())
    }

    fn end_all(&mut self) -> Result<(), String> {
        while let Some(number) = self.running.keys().next().copied() {
            self.end(number)?;
        }
        Ok(())
    }

    fn make(&mut self, context: u32, how: &Making, made: Option<&(u32, Vec<u32>)>) -> Result<(), String> {
        let comm = self.communicator(context)?;
        let group = |ranks: &[i32]| comm.group().incl(ranks).map_err(|error| error.to_string());
        let new = match how {
            Making::Duplicate => comm.duplicate().map(Some),
            Making::Group { ranks, tag: None } => comm.create(&group(ranks)?),
            Making::Group { ranks, tag: Some(tag) } => comm.create_group(&group(ranks)?, *tag),
            Making::Split => {
                let members = made.map_or(&[][..], |(_, group)| group);
                let own = members.iter().position(|process| *process == self.engine.process());
                comm.split(members.first().map(|first| *first as i32), own.unwrap_or(0) as i32)
            }
        };
        let new = new.map_err(|error| error.to_string())?;
        if let (Some((context, members)), Some(new)) = (made, new) {
            if !new.group().processes().eq(members.iter().copied()) {
                return Err(format!(
                    "communicator {context} has other processes here: traces do not go together"
                ));
            }
            self.communicators.insert(*context, new);
        }
        Ok(())
    }

    fn collective(
        &mut self,
        name: &'static str,
        context: u32,
        what: &Collective,
        request: Option<u64>,
    ) -> Result<(), String> {
        let comm = self.communicator(context)?;
        let (rank, size) = (comm.rank() as usize, comm.size() as usize);
        let (mut counts, mut places) = ([vec![], vec![]], [vec![], vec![]]);
        let mut blocks = |side: usize, lengths: &Lengths, many: usize| match lengths {
            Lengths::Even(count) => Ok((Some(*count), count * many)),
            Lengths::Each(each) if each.len() == many => {
                counts[side] = each.clone();
                places[side] = displacements(each);
                Ok((None, each.iter().sum()))
            }
            Lengths::Each(each) => Err(format!("{} blocks were given, {many} were expected", each.len())),
        };
        // Octets of input and output; even blocks of either.
        let (mut input, mut output, mut even) = (0, 0, [Some(0); 2]);
        let mut element = 1;
        let mut reduced = |vector: &Vector| {
            element = vector.element;
            vector.octets()
        };
        match what {
            Collective::Barrier => {}
            Collective::Bcast { octets, .. } => output = *octets,
            Collective::Gather {
                root,
                own,
                blocks: lengths,
            } => {
                input = *own;
                match (rank == *root, lengths) {
                    (true, lengths) => (even[1], output) = blocks(1, lengths, size)?,
                    (false, Lengths::Even(_)) => even[1] = Some(*own),
                    (false, Lengths::Each(_)) => even[1] = None,
                }
            }
            Collective::Scatter {
                root,
                own,
                blocks: lengths,
            } => {
                output = *own;
                match (rank == *root, lengths) {
                    (true, lengths) => (even[0], input) = blocks(0, lengths, size)?,
                    (false, Lengths::Even(_)) => even[0] = Some(*own),
                    (false, Lengths::Each(_)) => even[0] = None,
                }
            }
            Collective::Allgather { own, blocks: lengths } => {
                input = *own;
                (even[1], output) = blocks(1, lengths, size)?;
            }
            Collective::Alltoall { sent, received } => {
                (even[0], input) = blocks(0, sent, size)?;
                (even[1], output) = blocks(1, received, size)?;
            }
            Collective::Reduce { vector, .. } | Collective::Allreduce(vector) | Collective::Scan { vector, .. } => {
                input = reduced(vector);
                output = input;
            }
            Collective::ReduceScatter {
                vector,
                blocks: lengths,
            } => {
                input = reduced(vector);
                let (_, total) = blocks(1, lengths, size)?;
                output = total;
            }
            Collective::NeighborAllgather {
                own, received, sources, ..
            } => {
                input = *own;
                (even[1], output) = blocks(1, received, sources.len())?;
            }
            Collective::NeighborAlltoall {
                sent,
                received,
                sources,
                destinations,
            } => {
                (even[0], input) = blocks(0, sent, destinations.len())?;
                (even[1], output) = blocks(1, received, sources.len())?;
            }
        }
        let ranks =
            |ranks: &[i32]| -> Vec<Option<usize>> { ranks.iter().map(|rank| usize::try_from(*rank).ok()).collect() };
        let (sources, destinations) = match what {
            Collective::NeighborAllgather {
                sources, destinations, ..
            }
            | Collective::NeighborAlltoall {
                sources, destinations, ..
            } => (ranks(sources), ranks(destinations)),
            _ => (Vec::new(), Vec::new()),
        };
        let side = |side: usize| match even[side] {
            Some(count) => Blocks::Even { count },
            None => Blocks::Uneven {
                counts: &counts[side],
                displacements: &places[side],
            },
        };
        let in_place = false;
        let each;
        let call = match what {
            Collective::Barrier => Call::Barrier,
            Collective::Bcast { root, octets } => Call::Bcast {
                root: *root,
                count: *octets,
            },
            Collective::Gather { root, own, .. } => Call::Gather {
                root: *root,
                input: *own,
                output: side(1),
                in_place,
            },
            Collective::Scatter { root, own, .. } => Call::Scatter {
                root: *root,
                input: side(0),
                output: *own,
                in_place,
            },
            Collective::Allgather { own, .. } => Call::Allgather {
                input: *own,
                output: side(1),
                in_place,
            },
            Collective::Alltoall { .. } => Call::Alltoall {
                input: side(0),
                output: side(1),
                in_place,
            },
            Collective::Reduce { root, vector } => Call::Reduce {
                root: *root,
                count: vector.count,
                commutative: vector.commutative,
                in_place,
            },
            Collective::Allreduce(vector) => Call::Allreduce {
                count: vector.count,
                commutative: vector.commutative,
                in_place,
            },
            Collective::ReduceScatter { vector, blocks } => {
                let of = |octets: usize| octets / vector.element;
                each = match blocks {
                    Lengths::Even(_) => Vec::new(),
                    Lengths::Each(octets) => octets.iter().map(|octets| of(*octets)).collect(),
                };
                Call::ReduceScatter {
                    counts: match blocks {
                        Lengths::Even(octets) => Counts::Even(of(*octets)),
                        Lengths::Each(_) => Counts::Each(&each),
                    },
                    commutative: vector.commutative,
                    in_place,
                }
            }
            Collective::Scan { vector, exclusive } => Call::Scan {
                count: vector.count,
                exclusive: *exclusive,
                in_place,
            },
            Collective::NeighborAllgather { own, .. } => Call::NeighborAllgather {
                sources: &sources,
                destinations: &destinations,
                input: *own,
                output: side(1),
            },
            Collective::NeighborAlltoall { .. } => Call::NeighborAlltoall {
                sources: &sources,
                destinations: &destinations,
                input: side(0),
                output: side(1),
            },
        };
        let datatype = Datatype::predefined(match element {
            2 => Kind::U16,
            4 => Kind::U32,
            8 => Kind::U64,
            _ => Kind::U8,
        });
        let (mut from, mut into) = (memory(input as u64)?, memory(output as u64)?);
        let region = |memory: &mut Octets| Region::Plain(memory.as_mut_ptr().cast(), &datatype);
        let buffers = Buffers {
            input: if input > 0 { region(&mut from) } else { Region::None },
            output: if output > 0 || matches!(call, Call::Bcast { .. }) {
                region(&mut into)
            } else {
                Region::None
            },
        };
        let sum = Operation::predefined(Predefined::Sum);
        // SAFETY: both are kept until it has ended, and are as long as the call says.
        let begun = unsafe { comm.collective(name, &call, &buffers, Some(&sum), None) };
        self.begun(begun, [from, into], request)
    }
}
