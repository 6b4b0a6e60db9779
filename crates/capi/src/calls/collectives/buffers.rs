//! Buffers of collectives: elements of one datatype, or blocks each of its own.

use hikyaku::mpi::{collectives::Blocks, datatype, engine::Region, error::ErrorClass};

use crate::{
    border::{Buffer, Counts, Failure},
    calls::point_to_point::elements,
    objects::{Datatype, Held, Type},
};

/// Elements of a datatype at an address.
pub(super) struct Side {
    pub(super) base: Buffer,
    pub(super) datatype: Held<Datatype>,
}

impl Side {
    pub(super) fn new(base: Buffer, datatype: Type) -> Result<Self, Failure> {
        let datatype = datatype.get()?;
        datatype.for_message()?;
        Ok(Self { base, datatype })
    }

    pub(super) fn region(&self) -> Region<'_> {
        Region::Plain(self.base.0, self.datatype())
    }

    pub(super) fn datatype(&self) -> &datatype::Datatype {
        &self.datatype.datatype
    }

    /// A number of elements; 0 if they have no bytes.
    pub(super) fn count(&self, count: i64) -> Result<usize, Failure> {
        let count = elements("count", count)? as usize;
        if self.datatype().size() == 0 || count == 0 {
            return Ok(0);
        }
        if self.base.0.is_null() && self.datatype().kind().is_some() {
            return Err(Failure::text(ErrorClass::Buffer, "the buffer is a null pointer"));
        }
        Ok(count)
    }

    /// Blocks of these lengths at these places.
    pub(super) fn blocks(&self, counts: Counts, displs: Counts, len: usize) -> Result<Lists, Failure> {
        let counts: Result<_, _> = counts.list(len)?.into_iter().map(|count| self.count(count)).collect();
        let displacements = displs.list(len)?.into_iter().map(|place| place as isize).collect();
        Ok(Lists {
            counts: counts?,
            displacements,
        })
    }
}

/// Lengths and places of blocks.
pub(super) struct Lists {
    pub(super) counts: Vec<usize>,
    displacements: Vec<isize>,
}

impl Lists {
    pub(super) fn blocks(&self) -> Blocks<'_> {
        Blocks::Uneven {
            counts: &self.counts,
            displacements: &self.displacements,
        }
    }
}

/// The buffer to send, unless it is in place.
pub(super) fn sending(sendbuf: Buffer, sendtype: Type) -> Result<Option<Side>, Failure> {
    (!sendbuf.is_in_place())
        .then(|| Side::new(sendbuf, sendtype))
        .transpose()
}

/// A number of elements; 0 if they have no bytes.
fn elements_of(count: i64, has_data: bool) -> Result<u64, Failure> {
    Ok(if has_data { elements("count", count)? } else { 0 })
}

/// Blocks of datatypes of their own: each is one element.
pub(super) struct Each {
    base: Buffer,
    elements: Vec<(i64, u64, datatype::Datatype)>,
    pub(super) lists: Lists,
}

impl Each {
    pub(super) fn new(
        base: Buffer,
        counts: &[i64],
        places: &[i64],
        types: impl Iterator<Item = Type>,
    ) -> Result<Self, Failure> {
        let mut elements = Vec::with_capacity(counts.len());
        for ((count, place), named) in counts.iter().zip(places).zip(types) {
            let side = Side::new(base, named)?;
            // A null pointer is `MPI_BOTTOM`: then the places are addresses.
            let has_data = side.datatype().size() > 0;
            let count = elements_of(*count, has_data)?;
            elements.push((*place, count, side.datatype().clone()));
        }
        let has_data = |one: &(i64, u64, datatype::Datatype)| usize::from(one.1 > 0);
        let lists = Lists {
            counts: elements.iter().map(has_data).collect(),
            displacements: (0..counts.len() as isize).collect(),
        };
        Ok(Self { base, elements, lists })
    }

    pub(super) fn both(&self) -> (Region<'_>, Blocks<'_>) {
        (Region::Each(self.base.0, &self.elements), self.lists.blocks())
    }
}
