//! Why a function has failed.

use hikyaku::mpi::{
    datatype::DatatypeError,
    error::{Detail, Error, ErrorClass},
    group::GroupError,
    operation::OperationError,
    topology::TopologyError,
};

/// Why a function has failed. The border adds its name.
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// The engine says so.
    Engine(Error),
    /// An error of this class, found here.
    Here(ErrorClass, Detail),
    /// The error handler has been told of it, as this code.
    Told(i32),
    /// A callback of the program has returned this code.
    Code(i32),
}

impl Failure {
    /// A failure with a sentence.
    #[must_use]
    pub const fn text(class: ErrorClass, text: &'static str) -> Self {
        Self::Here(class, Detail::Text(text))
    }

    /// An argument has this value, and should be in this range.
    #[must_use]
    pub const fn value(class: ErrorClass, argument: &'static str, value: i64, min: i64, max: i64) -> Self {
        Self::Here(
            class,
            Detail::Value {
                argument,
                value,
                min,
                max,
            },
        )
    }

    /// The function is not there yet.
    #[must_use]
    pub const fn unsupported(text: &'static str) -> Self {
        Self::text(ErrorClass::UnsupportedOperation, text)
    }

    /// As an error of this function, unless there is a code already.
    ///
    /// # Errors
    /// The code.
    pub(crate) fn error(&self, function: &'static str) -> Result<Error, i32> {
        match self {
            Self::Engine(error) => Ok(*error),
            Self::Here(class, detail) => Ok(Error::new(*class, function).with_detail(*detail)),
            Self::Told(code) | Self::Code(code) => Err(*code),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<ErrorClass> for Failure {
    fn from(class: ErrorClass) -> Self {
        Self::Here(class, Detail::None)
    }
}

impl From<DatatypeError> for Failure {
    fn from(error: DatatypeError) -> Self {
        Self::Here(error.class(), Detail::Datatype(error))
    }
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Self {
        Self::Here(error.class(), Detail::Operation(error))
    }
}

impl From<GroupError> for Failure {
    fn from(error: GroupError) -> Self {
        Self::Here(error.class(), Detail::Group(error))
    }
}

impl From<TopologyError> for Failure {
    fn from(error: TopologyError) -> Self {
        Self::Here(error.class(), Detail::Topology(error))
    }
}
