//! The layout of values in memory: datatypes, and buffers of them.
//!
//! [`Equivalence`] gives the MPI datatype of a Rust type. A [`Buffer`] is a number of elements of a datatype at an
//! address: a value, an array, a slice, a vector, or a [`View`] of memory with a chosen datatype.
//!
//! ```
//! use mpi::{datatype::{UserDatatype, View}, traits::*};
//!
//! #[derive(Equivalence, Clone, Copy, Debug, Default, PartialEq)]
//! struct Particle { place: [f64; 3], charge: (i8, bool) }
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let myself = world.this_process();
//! let sent = Particle { place: [1.0, 2.0, 3.0], charge: (-1, true) };
//! myself.send(&sent).unwrap();
//! let (received, _) = myself.receive::<Particle>().unwrap();
//! assert_eq!(received, sent);
//!
//! // Every second number.
//! let numbers = [1, 2, 3, 4, 5, 6];
//! let odd = UserDatatype::vector(3, 1, 2, &i32::equivalent_datatype());
//! // SAFETY: three numbers, each two after the other, are within six.
//! let view = unsafe { View::with_count_and_datatype(&numbers[..], 1, &odd) };
//! myself.send(&view).unwrap();
//! assert_eq!(myself.receive_vec::<i32>().unwrap().0, [1, 3, 5]);
//! ```

mod buffer;
mod check;
mod dynamic;
mod equivalence;
mod field;
mod handle;
mod partition;
mod place;
mod user;
mod validator;
mod view;

pub use self::place::{Buffers, BuffersMut};
pub use self::{
    buffer::{AsDatatype, Buffer, BufferMut, Collection, Pointer, PointerMut},
    check::Check,
    dynamic::{DynBuffer, DynBufferMut},
    equivalence::Equivalence,
    handle::{Datatype, UncommittedDatatype},
    partition::{Partition, PartitionMut, Partitioned, PartitionedBuffer, PartitionedBufferMut},
    user::{DatatypeRef, SystemDatatype, UncommittedDatatypeRef, UncommittedUserDatatype, UserDatatype},
    view::{MutView, View},
};
pub(crate) use self::{
    place::{Blocks, Place, Places, bytes},
    validator::Validator,
};

/// The engine's datatype, on which all datatypes of this crate stand.
pub use hikyaku::mpi::datatype::Datatype as RawDatatype;

use crate::Address;

/// All traits.
pub mod traits {
    pub use super::{
        AsDatatype, Buffer, BufferMut, Collection, Datatype, Equivalence, Partitioned, PartitionedBuffer,
        PartitionedBufferMut, Pointer, PointerMut, UncommittedDatatype,
    };
}

/// Items for the code that the derive macro generates.
#[doc(hidden)]
pub mod internal {
    pub use super::{
        check::{Check, Part, is_valid, make_valid},
        field::{Field, structure},
    };
}

/// The address of a value; [`UserDatatype::structured`] takes differences of addresses (`MPI_Get_address`).
///
/// ```
/// let pair = [1_u16, 2];
/// assert_eq!(mpi::datatype::address_of(&pair[1]) - mpi::datatype::address_of(&pair[0]), 2);
/// ```
#[must_use]
pub fn address_of<T>(x: &T) -> Address {
    (&raw const *x).addr() as Address
}
