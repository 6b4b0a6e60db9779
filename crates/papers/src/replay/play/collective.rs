#![expect(
    unsafe_code,
    reason = "the engine takes pointers; all are to memory that is kept until its operation has ended"
)]
//! Collectives, begun or planned.

use hikyaku::mpi::{
    collectives::{Blocks, Call, Collective as Kind, Counts, ROOT, displacements},
    datatype::{Datatype, Kind as Element},
    engine::{Buffers, Region},
    operation::{Operation, Predefined},
};

use super::player::{Bytes, Persistent, Player, memory};
use crate::replay::program::{Collective, How, Lengths};

/// A buffer of a collective.
#[derive(Default)]
struct Side {
    bytes: usize,
    /// Bytes of each block, if blocks are alike.
    even: Option<usize>,
    counts: Vec<usize>,
    places: Vec<isize>,
}

impl Side {
    /// Without blocks.
    fn of(bytes: usize) -> Self {
        Self {
            bytes,
            even: Some(0),
            ..Self::default()
        }
    }

    fn of_blocks(lengths: &Lengths, number: usize) -> Result<Self, String> {
        match lengths {
            Lengths::Even(bytes) => Ok(Self {
                even: Some(*bytes),
                ..Self::of(bytes * number)
            }),
            Lengths::Each(each) if each.len() == number => Ok(Self {
                bytes: each.iter().sum(),
                even: None,
                counts: each.clone(),
                places: displacements(each),
            }),
            Lengths::Each(each) => Err(format!("{} blocks were given, {number} were expected", each.len())),
        }
    }

    /// The root has it; a block has `own` bytes if blocks are alike.
    fn elsewhere(lengths: &Lengths, own: usize) -> Self {
        Self {
            even: matches!(lengths, Lengths::Even(_)).then_some(own),
            ..Self::default()
        }
    }

    fn blocks(&self) -> Blocks<'_> {
        match self.even {
            Some(count) => Blocks::Even { count },
            None => Blocks::Uneven {
                counts: &self.counts,
                displacements: &self.places,
            },
        }
    }
}

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
        let Collective { kind, own, vector, .. } = *what;
        let has_blocks = what
            .root
            .is_none_or(|root| root == if comm.is_inter() { ROOT } else { rank });
        let is_among_neighbours = matches!(kind, Kind::NeighborAllgather | Kind::NeighborAlltoall);
        let number = |neighbours: &[i32]| if is_among_neighbours { neighbours.len() } else { size };
        let (sources, destinations) = (&what.sources, &what.destinations);
        let blocks = |lengths: &Lengths, neighbours: &[i32]| {
            if has_blocks {
                Side::of_blocks(lengths, number(neighbours))
            } else {
                Ok(Side::elsewhere(lengths, own))
            }
        };
        let (sent, received) = match kind {
            Kind::Barrier => (Side::of(0), Side::of(0)),
            Kind::Bcast => {
                let sent = if comm.is_inter() && has_blocks { own } else { 0 };
                (Side::of(sent), Side::of(own))
            }
            Kind::Gather | Kind::Gatherv | Kind::Allgather | Kind::Allgatherv | Kind::NeighborAllgather => {
                (Side::of(own), blocks(&what.received, sources)?)
            }
            Kind::Scatter | Kind::Scatterv => (blocks(&what.sent, destinations)?, Side::of(own)),
            Kind::Alltoall | Kind::Alltoallv | Kind::NeighborAlltoall => {
                (blocks(&what.sent, destinations)?, blocks(&what.received, sources)?)
            }
            Kind::Reduce | Kind::Allreduce | Kind::Scan | Kind::Exscan => {
                (Side::of(vector.bytes()), Side::of(vector.bytes()))
            }
            Kind::ReduceScatter | Kind::ReduceScatterBlock => {
                let all = Side::of_blocks(&what.received, own_size)?;
                // Of even blocks it is one block that is told.
                let (bytes, told) = (all.even.unwrap_or(all.bytes), vector.bytes());
                if bytes != told {
                    return Err(format!("{bytes} bytes in blocks of a vector of {told}"));
                }
                (all, Side::of(bytes))
            }
        };
        let ranks = |ranks: &[i32]| -> Vec<_> { ranks.iter().map(|rank| usize::try_from(*rank).ok()).collect() };
        let (sources, destinations) = (&ranks(sources), &ranks(destinations));
        let root = what.root.unwrap_or(0);
        let element = vector.element.max(1);
        let each: Vec<usize> = sent.counts.iter().map(|bytes| bytes / element).collect();
        let (input, output) = (sent.blocks(), received.blocks());
        let (in_place, count, commutative) = (false, vector.count, vector.commutative);
        let call = match kind {
            Kind::Barrier => Call::Barrier,
            Kind::Bcast => Call::Bcast { root, count: own },
            Kind::Gather | Kind::Gatherv => Call::Gather {
                root,
                input: own,
                output,
                in_place,
            },
            Kind::Scatter | Kind::Scatterv => Call::Scatter {
                root,
                input,
                output: own,
                in_place,
            },
            Kind::Allgather | Kind::Allgatherv => Call::Allgather {
                input: own,
                output,
                in_place,
            },
            Kind::Alltoall | Kind::Alltoallv => Call::Alltoall {
                input,
                output,
                in_place,
            },
            Kind::Reduce => Call::Reduce {
                root,
                count,
                commutative,
                in_place,
            },
            Kind::Allreduce => Call::Allreduce {
                count,
                commutative,
                in_place,
            },
            Kind::ReduceScatter | Kind::ReduceScatterBlock => Call::ReduceScatter {
                counts: sent
                    .even
                    .map_or(Counts::Each(&each), |bytes| Counts::Even(bytes / element)),
                commutative,
                in_place,
            },
            Kind::Scan | Kind::Exscan => Call::Scan {
                count,
                exclusive: kind == Kind::Exscan,
                in_place,
            },
            Kind::NeighborAllgather => Call::NeighborAllgather {
                sources,
                destinations,
                input: own,
                output,
            },
            Kind::NeighborAlltoall => Call::NeighborAlltoall {
                sources,
                destinations,
                input,
                output,
            },
        };
        let (input, output) = (sent.bytes, received.bytes);
        let datatype = Datatype::predefined(match vector.element {
            2 => Element::U16,
            4 => Element::U32,
            8 => Element::U64,
            _ => Element::U8,
        });
        let (mut from, mut into) = (memory(input as u64)?, memory(output as u64)?);
        let region = |memory: &mut Bytes| Region::Plain(memory.as_mut_ptr().cast(), &datatype);
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
