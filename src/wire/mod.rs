//! Octets ↔ headers.

mod builder;
pub mod checksum;
mod header;
mod packet;
mod record;
mod seq;

pub use builder::Builder;
pub use header::{
    ANY_PROCESSOR, BASE_LEN, Base, Credit, Flags, Fragment, Kind, MAX_HEADER_LEN, MAX_SACK_WORDS, Open, Placement,
    Timestamp, VERSION,
};
pub use packet::{Error, Packet};
pub use record::{RECORD_LEN, Record, Records};
pub use seq::Seq;
