//! Why a reduction is not possible.

use super::predefined::Predefined;
use crate::mpi::{
    class::ErrorClass,
    datatype::{Datatype, DatatypeError, Kind},
};

/// Why a reduction is not possible.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationError {
    /// The operation is not defined for this kind (MPI 6.9.2).
    Kind {
        /// The operation.
        operation: Predefined,
        /// The kind of its operands.
        kind: Kind,
    },
    /// A predefined operation takes only predefined datatypes.
    Derived {
        /// The operation.
        operation: Predefined,
    },
    /// An operand's memory is too short for the elements.
    Memory(DatatypeError),
}

impl OperationError {
    /// Its MPI class.
    #[must_use]
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Kind { .. } | Self::Derived { .. } => ErrorClass::Op,
            Self::Memory(error) => error.class(),
        }
    }
}

impl core::fmt::Display for OperationError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Kind { operation, kind } => write!(f, "{operation} is not defined for {kind}"),
            Self::Derived { operation } => write!(
                f,
                "{operation} takes only predefined datatypes; for others, define an operation"
            ),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

crate::debug_as_display!(OperationError);

impl core::error::Error for OperationError {}

impl Predefined {
    /// The kind of `datatype`, if this operation is defined for it.
    pub(super) fn kind_of(self, datatype: &Datatype) -> Result<Kind, OperationError> {
        let operation = self;
        match datatype.kind() {
            Some(kind) if self.is_defined_for(kind) => Ok(kind),
            Some(kind) => Err(OperationError::Kind { operation, kind }),
            None => Err(OperationError::Derived { operation }),
        }
    }
}
