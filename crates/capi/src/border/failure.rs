//! Why a function has failed.

use core::fmt;

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
    /// An argument is wrong by itself.
    Argument {
        /// The class.
        class: ErrorClass,
        /// Its name.
        argument: &'static str,
    },
    /// For a reason that needs no more than a sentence.
    Text(ErrorClass, &'static str),
    /// The statuses of several requests say how each has ended.
    InStatus,
    /// The error handler has been told of it, as this code.
    Told(i32),
    /// A callback of the program has returned this code.
    Code(i32),
    /// A detail for an error of this class.
    Detail(ErrorClass, Detail),
}

impl Failure {
    /// A failure with a sentence.
    #[must_use]
    pub const fn text(class: ErrorClass, text: &'static str) -> Self {
        Self::Text(class, text)
    }

    /// An argument has this value, and should be in this range.
    #[must_use]
    pub const fn value(class: ErrorClass, argument: &'static str, value: i64, min: i64, max: i64) -> Self {
        Self::Detail(
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
        Self::Text(ErrorClass::UnsupportedOperation, text)
    }

    /// Its class; that of a code is known by the table of codes.
    pub(crate) const fn class(&self) -> ErrorClass {
        match self {
            Self::Engine(error) => error.class(),
            Self::Argument { class, .. } | Self::Text(class, _) | Self::Detail(class, _) => *class,
            Self::InStatus => ErrorClass::InStatus,
            Self::Code(_) | Self::Told(_) => ErrorClass::Other,
        }
    }

    /// As a sentence, with the name of the function.
    pub(crate) fn describe(&self, function: &'static str, out: &mut dyn fmt::Write) -> fmt::Result {
        let class = self.class();
        match self {
            Self::Engine(error) => write!(out, "{error}"),
            Self::Argument { argument, .. } => {
                let error = Error::new(class, function);
                write!(out, "{error}: argument {argument}")
            }
            Self::Text(_, text) => write!(out, "{}", Error::new(class, function).with_detail(Detail::Text(text))),
            Self::Detail(_, detail) => write!(out, "{}", Error::new(class, function).with_detail(*detail)),
            Self::InStatus => write!(out, "{}", Error::new(class, function)),
            Self::Code(code) | Self::Told(code) => write!(out, "{function}: a callback has returned error code {code}"),
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
        Self::Detail(class, Detail::None)
    }
}

impl From<DatatypeError> for Failure {
    fn from(error: DatatypeError) -> Self {
        Self::Detail(error.class(), Detail::Datatype(error))
    }
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Self {
        Self::Detail(error.class(), Detail::Operation(error))
    }
}

impl From<GroupError> for Failure {
    fn from(error: GroupError) -> Self {
        Self::Detail(error.class(), Detail::Group(error))
    }
}

impl From<TopologyError> for Failure {
    fn from(error: TopologyError) -> Self {
        Self::Detail(error.class(), Detail::Topology(error))
    }
}
