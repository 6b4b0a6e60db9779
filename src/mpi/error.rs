//! Errors that name the failed call, and their class (MPI 9.4).

use core::num::NonZero;

use super::{
    Rank,
    datatype::{DatatypeError, Kind, Signature},
    group::GroupError,
    operation::OperationError,
    topology::TopologyError,
};
pub use super::{
    call_description::{CallDescription, Mismatch},
    class::ErrorClass,
};

/// An error of an MPI call. Making one neither allocates nor formats. `Debug` prints it as a sentence, too, since that
/// is what a program prints whose `main` returns it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Error {
    class: ErrorClass,
    call: &'static str,
    peer: Option<Rank>,
    // These are plus one: so they take no more room.
    communicator: Option<NonZero<u32>>,
    /// The rank of this process.
    own: Option<NonZero<u32>>,
    /// That of the message.
    tag: Option<NonZero<u32>>,
    detail: Detail,
}

/// Details of an error beyond its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// Nothing.
    None,
    /// The cause, or a remedy.
    Text(&'static str),
    /// The name of an argument that is wrong by itself.
    Argument(&'static str),
    /// A rank that the communicator does not have.
    Rank {
        /// The rank as given.
        rank: Rank,
        /// Number of ranks of the communicator.
        size: Rank,
    },
    /// An argument out of range.
    Value {
        /// Name of the argument.
        argument: &'static str,
        /// Its value.
        value: i64,
        /// The least allowed value.
        min: i64,
        /// The greatest allowed value.
        max: i64,
    },
    /// A message that is longer than the receive buffer, or a message of a collective that is shorter than expected.
    Truncated {
        /// Bytes of the message.
        sent: u64,
        /// Bytes of the receive buffer, or expected bytes.
        room: u64,
    },
    /// A message whose types differ from those of the receive.
    Types {
        /// Signature of the message.
        sent: Signature,
        /// Signature of the receive buffer.
        expected: Signature,
    },
    /// Ranks have called collectives that do not match.
    Mismatch(Mismatch),
    /// A callback of the program has given this code.
    Code(i32),
    /// The error of a datatype.
    Datatype(DatatypeError),
    /// The error of a reduction.
    Operation(OperationError),
    /// The error of a group.
    Group(GroupError),
    /// The error of a topology.
    Topology(TopologyError),
}

impl Error {
    /// An error of `class` in the MPI function `call`.
    #[must_use]
    pub const fn new(class: ErrorClass, call: &'static str) -> Self {
        Self {
            class,
            call,
            peer: None,
            communicator: None,
            own: None,
            tag: None,
            detail: Detail::None,
        }
    }

    /// With the rank of the other side.
    #[must_use]
    pub const fn with_peer(self, peer: Rank) -> Self {
        Self {
            peer: Some(peer),
            ..self
        }
    }

    /// With the tag of the message.
    #[must_use]
    pub const fn with_tag(self, tag: i32) -> Self {
        Self {
            tag: plus_one(tag as u32),
            ..self
        }
    }

    /// With the context id of the communicator.
    #[must_use]
    pub const fn on_communicator(self, context: u32) -> Self {
        Self {
            communicator: plus_one(context),
            ..self
        }
    }

    /// With the rank of the process that it happened to.
    #[must_use]
    pub const fn at_rank(self, rank: Rank) -> Self {
        Self {
            own: plus_one(rank as u32),
            ..self
        }
    }

    /// With a detail.
    #[must_use]
    pub const fn with_detail(self, detail: Detail) -> Self {
        Self { detail, ..self }
    }

    /// `rank` is not one of the `size` ranks of the communicator.
    #[must_use]
    pub const fn rank(call: &'static str, rank: Rank, size: Rank) -> Self {
        Self::new(ErrorClass::Rank, call).with_detail(Detail::Rank { rank, size })
    }

    /// A message of `sent` bytes has arrived for a receive buffer of `room` bytes.
    #[must_use]
    pub const fn truncated(call: &'static str, sent: u64, room: u64) -> Self {
        Self::new(ErrorClass::Truncate, call).with_detail(Detail::Truncated { sent, room })
    }

    /// A datatype is wrong, or used wrongly.
    #[must_use]
    pub const fn datatype(call: &'static str, error: DatatypeError) -> Self {
        Self::new(error.class(), call).with_detail(Detail::Datatype(error))
    }

    /// A reduction is wrong.
    #[must_use]
    pub const fn operation(call: &'static str, error: OperationError) -> Self {
        Self::new(error.class(), call).with_detail(Detail::Operation(error))
    }

    /// A group cannot be made.
    #[must_use]
    pub const fn group(call: &'static str, error: GroupError) -> Self {
        Self::new(error.class(), call).with_detail(Detail::Group(error))
    }

    /// A topology cannot be made, or does not have what was asked for.
    #[must_use]
    pub const fn topology(call: &'static str, error: TopologyError) -> Self {
        Self::new(error.class(), call).with_detail(Detail::Topology(error))
    }

    /// Its MPI class.
    #[must_use]
    pub const fn class(&self) -> ErrorClass {
        self.class
    }

    /// The MPI function that has failed.
    #[must_use]
    pub const fn call(&self) -> &'static str {
        self.call
    }

    /// The rank of the other side, if there is one.
    #[must_use]
    pub const fn peer(&self) -> Option<Rank> {
        self.peer
    }

    /// The tag of the message, if there is one.
    #[must_use]
    pub const fn tag(&self) -> Option<i32> {
        match minus_one(self.tag) {
            Some(tag) => Some(tag as i32),
            None => None,
        }
    }

    /// The context id of the communicator, if there is one.
    #[must_use]
    pub const fn communicator(&self) -> Option<u32> {
        minus_one(self.communicator)
    }

    /// Details beyond the class.
    #[must_use]
    pub const fn detail(&self) -> &Detail {
        &self.detail
    }
}

const fn plus_one(value: u32) -> Option<NonZero<u32>> {
    NonZero::new(value.wrapping_add(1))
}

const fn minus_one(next: Option<NonZero<u32>>) -> Option<u32> {
    match next {
        Some(next) => Some(next.get() - 1),
        None => None,
    }
}

crate::debug_as_display!(Error);

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.call)?;
        if let Some(peer) = self.peer {
            write!(f, " with rank {peer}")?;
        }
        if let Some(tag) = self.tag() {
            write!(f, ", tag {tag}")?;
        }
        if let Some(context) = self.communicator() {
            write!(f, " on communicator {context}")?;
        }
        if let Some(rank) = minus_one(self.own) {
            write!(f, " at rank {rank}")?;
        }
        write!(f, ": {} [{}]", self.class.description(), self.class.name())?;
        match &self.detail {
            Detail::None => Ok(()),
            Detail::Text(text) => write!(f, ": {text}"),
            Detail::Argument(name) => write!(f, ": argument {name}"),
            Detail::Rank { rank, size } => write!(f, ": rank {rank}, and the communicator has {size} ranks"),
            Detail::Value {
                argument,
                value,
                min,
                max,
            } if min == max => write!(f, ": {argument} is {value}, not {min}"),
            Detail::Value {
                argument,
                value,
                min,
                max,
            } => write!(f, ": {argument} is {value}, not in {min} to {max}"),
            Detail::Truncated { sent, room } if sent < room => {
                write!(
                    f,
                    ": {sent} bytes were sent, {room} are expected: ranks have called the collective differently"
                )
            }
            Detail::Truncated { sent, room } => {
                write!(f, ": {sent} bytes were sent, there is room for {room}")
            }
            Detail::Types { sent, expected } => {
                f.write_str(": ")?;
                elements(f, *sent)?;
                f.write_str(" were sent, the receive is for ")?;
                elements(f, *expected)
            }
            Detail::Mismatch(mismatch) => write!(f, ": {mismatch}"),
            Detail::Code(code) => write!(f, ": a callback has returned {code}"),
            Detail::Datatype(error) => write!(f, ": {error}"),
            Detail::Operation(error) => write!(f, ": {error}"),
            Detail::Group(error) => write!(f, ": {error}"),
            Detail::Topology(error) => write!(f, ": {error}"),
        }
    }
}

fn elements(f: &mut core::fmt::Formatter<'_>, signature: Signature) -> core::fmt::Result {
    let kind = Kind::ALL.iter().find(|kind| signature.is_all(**kind));
    let name = kind.map_or("elements of several kinds", |kind| kind.name());
    write!(f, "{} {name}", signature.count)
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.detail {
            Detail::Datatype(error) => Some(error),
            Detail::Operation(error) => Some(error),
            Detail::Group(error) => Some(error),
            Detail::Topology(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeSet, string::ToString};

    use super::*;

    #[test]
    fn errors_say_what_was_being_done() {
        let error = Error::rank("MPI_Send", 7, 4).on_communicator(3);
        assert_eq!(
            error.to_string(),
            "MPI_Send on communicator 3: rank out of range [MPI_ERR_RANK]: rank 7, and the communicator has 4 ranks"
        );
        let error = Error::truncated("MPI_Recv", 100, 8).with_peer(2).with_tag(5);
        assert_eq!(
            error.to_string(),
            "MPI_Recv with rank 2, tag 5: message longer than its receive, or not as long as a collective needs it \
             [MPI_ERR_TRUNCATE]: \
             100 bytes were sent, there is room for 8"
        );
        let error = Error::new(ErrorClass::Comm, "MPI_Barrier")
            .on_communicator(3)
            .at_rank(1);
        assert!(
            error
                .to_string()
                .starts_with("MPI_Barrier on communicator 3 at rank 1: "),
            "{error}"
        );
    }

    #[test]
    fn the_reason_is_the_source() {
        let reason = DatatypeError::Negative {
            argument: "blocklengths",
            index: Some(3),
            value: -1,
        };
        let error = Error::datatype("MPI_Type_indexed", reason);
        assert_eq!(error.class(), ErrorClass::Count);
        assert!(error.to_string().ends_with("blocklengths[3] is -1, which is negative"));
        assert!(core::error::Error::source(&error).is_some());
    }

    #[test]
    fn class_names_are_mpis_and_different() {
        let names: BTreeSet<_> = ErrorClass::ALL.iter().map(|class| class.name()).collect();
        assert_eq!(names.len(), ErrorClass::ALL.len());
        assert!(
            names
                .iter()
                .all(|name| *name == "MPI_SUCCESS" || name.starts_with("MPI_ERR_"))
        );
    }

    #[test]
    fn results_stay_small() {
        assert!(size_of::<Error>() <= 96, "{} bytes", size_of::<Error>());
    }
}
