#![expect(
    unsafe_code,
    reason = "the engine takes pointers; all are to memory that is kept until its operation has ended"
)]
//! Collectives, begun or planned.

use hikyaku::mpi::{
    collectives::{Blocks, Call, Partners, ROOT, Role, displacements},
    datatype::{Datatype, Kind as Element},
    engine::{Buffers, Communicator, Region},
    operation::{Operation, Predefined},
};

use super::player::{Bytes, Persistent, Player, memory};
use crate::replay::program::{Collective, How, Lengths};

/// A buffer of a collective: its bytes, and the elements of each block or of the only one.
struct Side {
    bytes: usize,
    counts: Lengths,
    places: Vec<isize>,
}

impl Side {
    fn single(bytes: usize, count: usize) -> Self {
        Self {
            bytes,
            counts: Lengths::Even(count),
            places: Vec::new(),
        }
    }

    /// So many blocks of elements of `element` bytes.
    fn blocks(lengths: &Lengths, number: usize, element: usize) -> Result<Self, String> {
        match lengths {
            Lengths::Even(bytes) => Ok(Self::single(bytes * number, bytes / element)),
            Lengths::Each(each) if each.len() == number => {
                let counts: Vec<usize> = each.iter().map(|bytes| bytes / element).collect();
                Ok(Self {
                    bytes: each.iter().sum(),
                    places: displacements(&counts),
                    counts: Lengths::Each(counts),
                })
            }
            Lengths::Each(each) => Err(format!("{} blocks were given, {number} were expected", each.len())),
        }
    }

    /// The buffer of this role in `what`: `number` blocks, unless another rank has them.
    fn of(role: Role, what: &Collective, lengths: &Lengths, number: Option<usize>) -> Result<Self, String> {
        match (role, number) {
            (Role::None, _) | (Role::Blocks, None) => Ok(Self::single(0, 0)),
            (Role::Packed | Role::Block, _) => Ok(Self::single(what.own, what.own)),
            (Role::Vector, _) => Ok(Self::single(what.vector.bytes(), what.vector.count)),
            (Role::Blocks, Some(number)) => Self::blocks(lengths, number, 1),
            (Role::Divided, number) => {
                let all = Self::blocks(&what.received, number.unwrap_or(0), what.vector.element)?;
                // Of even blocks it is one block that is told.
                let bytes = match what.received {
                    Lengths::Even(bytes) => bytes,
                    Lengths::Each(_) => all.bytes,
                };
                match what.vector.bytes() {
                    told if told == bytes => Ok(all),
                    told => Err(format!("{bytes} bytes in blocks of a vector of {told}")),
                }
            }
        }
    }

    fn sizes(&self) -> Blocks<'_> {
        match &self.counts {
            Lengths::Even(count) => (*count).into(),
            Lengths::Each(counts) => Blocks::Uneven {
                counts,
                displacements: &self.places,
            },
        }
    }
}

/// The buffers of a collective of this communicator, to send and to receive.
fn sides(comm: &Communicator, what: &Collective) -> Result<[Side; 2], String> {
    let here = if comm.is_inter() { ROOT } else { comm.rank() as usize };
    let has_blocks = what.root.is_none_or(|root| root == here);
    let (input, output) = (what.kind.input(), what.kind.output());
    let number = |role, neighbours: &[i32]| match (role, what.kind.partners()) {
        (Role::Divided, _) => Some(comm.size() as usize),
        (_, Partners::Neighbours) => Some(neighbours.len()),
        // Blocks are of the other group, if there are two.
        _ => has_blocks.then(|| comm.remote_size().unwrap_or_else(|| comm.size()) as usize),
    };
    let mut sent = Side::of(input, what, &what.sent, number(input, &what.destinations))?;
    if input == Role::Packed && !(comm.is_inter() && has_blocks) {
        // What is sent is in the output, but for a root that faces another group.
        sent.bytes = 0;
    }
    Ok([
        sent,
        Side::of(output, what, &what.received, number(output, &what.sources))?,
    ])
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
        let vector = what.vector;
        let [sent, received] = sides(&comm, what)?;
        let ranks = |ranks: &[i32]| -> Vec<_> { ranks.iter().map(|rank| usize::try_from(*rank).ok()).collect() };
        let (sources, destinations) = (&ranks(&what.sources), &ranks(&what.destinations));
        let call = Call::of(what.kind)
            .with_root(what.root.unwrap_or(0))
            .with_input(sent.sizes())
            .with_output(received.sizes())
            .with_neighbours(sources, destinations)
            .with_crossed(what.crossed)
            .with_commutative(vector.commutative || !what.kind.reduces());
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
            output: if output > 0 || what.kind.output() == Role::Packed {
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
