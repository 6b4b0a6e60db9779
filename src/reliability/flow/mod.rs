//! A flow: one channel of a session, with its own sequence numbers.
//!
//! [`Flow`] is resident; [`Active`] exists only while something is going on. It has two halves, a [`Sender`] and a
//! [`Receiver`], which know nothing of peers' places, of other flows, and of each other.

mod active;
mod bits;
pub mod congestion;
mod mtu;
mod packet;
mod receiver;
mod resident;
mod rtt;
mod sender;
mod source;
mod window;

pub(crate) use self::source::Sources;
pub(in crate::reliability) use self::{
    active::Active,
    mtu::{BASE_DATAGRAM, Search, Step},
    receiver::Receiver,
    resident::{Flow, FlowKey, first_sequence},
    sender::{BLACK_HOLE, Cause, Filled, Following, Lane, Queueable, Released, Sender, fits_record},
    source::{CopyOf, Freed, NONE, SourceId, Whole},
    window::{Placers, ack_bytes_of, window_of},
};
