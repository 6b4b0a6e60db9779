#![expect(
    unsafe_code,
    reason = "the engine takes pointers; all are to memory that is kept until its operation has ended"
)]
//! Collectives, begun or planned.

use hikyaku::mpi::{
    collectives::{Blocks, Call, Counts, ROOT, displacements},
    datatype::{Datatype, Kind},
    engine::{Buffers, Region},
    operation::{Operation, Predefined},
};

use super::{Octets, Persistent, Player, memory};
use crate::replay::program::{Collective, How, Lengths, Vector};

impl Player<'_> {
    pub(super) fn collective(
        &mut self,
        name: &'static str,
        context: u32,
        what: &Collective,
        how: How,
    ) -> Result<(), String> {
        let comm = self.communicator(context)?;
        let (rank, own_size) = (comm.rank() as usize, comm.size() as usize);
        // Blocks are of the other group, if there are two.
        let size = comm.remote_size().map_or(own_size, |size| size as usize);
        let is_root = |root: usize| root == if comm.is_inter() { ROOT } else { rank };
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
            Collective::Bcast { root, octets } => {
                output = *octets;
                if comm.is_inter() && is_root(*root) {
                    input = *octets;
                }
            }
            Collective::Gather {
                root,
                own,
                blocks: lengths,
            } => {
                input = *own;
                match (is_root(*root), lengths) {
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
                match (is_root(*root), lengths) {
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
                // Of even blocks it is one block that is told.
                let told = reduced(vector);
                let (block, total) = blocks(1, lengths, own_size)?;
                if block.unwrap_or(total) != told {
                    return Err(format!(
                        "{} octets in blocks of a vector of {told}",
                        block.unwrap_or(total)
                    ));
                }
                (input, output) = (total, block.unwrap_or(total));
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
        let number = match how {
            How::Planned(number) => {
                // SAFETY: both are kept until it is given up and has ended, and are as long as the call says.
                let planned = unsafe { comm.collective_init(name, &call, &buffers, Some(&sum), None) };
                let planned = planned.map_err(|error| error.to_string())?;
                self.plan(number, Persistent::Collective(planned), [from, into]);
                return Ok(());
            }
            How::Begun(number) => Some(number),
            How::Waited => None,
        };
        // SAFETY: both are kept until it has ended, and are as long as the call says.
        let begun = unsafe { comm.collective(name, &call, &buffers, Some(&sum), None) };
        self.begun(begun, [from, into], number)
    }
}
