//! This library as one of the things that are compared.

use std::{any::Any, io, net::IpAddr};

use super::{
    core::{Sample, Variant},
    link::{Hub, Spoke},
    settings::{Offer, Preset, Settings},
};
use crate::failure::Failure;

/// Whether this build has the transport.
pub(crate) const AVAILABLE: bool = false;

/// The answering end.
pub(crate) fn open_hub(
    backend: &str,
    _preset: Preset,
    _settings: &Settings,
    _local: IpAddr,
) -> io::Result<Box<dyn Hub>> {
    Err(missing(backend))
}

/// The asking end.
pub(crate) fn open_spoke(
    backend: &str,
    _preset: Preset,
    _settings: &Settings,
    _local: IpAddr,
    _hub: &Offer,
) -> io::Result<Box<dyn Spoke>> {
    Err(missing(backend))
}

fn missing(backend: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("this build has no transport over `{backend}`"),
    )
}

/// Sends `messages` messages between two endpoints in this thread and takes the time.
pub(crate) fn core_round(_variant: Variant, _size: usize, _messages: usize) -> Result<Sample, Failure> {
    Err(Failure::usage("bench core: this build has no protocol core to drive"))
}

/// An endpoint that knows `peers` peers and has nothing to do.
pub(crate) fn endpoint_with_peers(_peers: u32) -> Result<Box<dyn Any>, Failure> {
    Err(Failure::usage("bench peers: this build has no endpoint to fill"))
}
