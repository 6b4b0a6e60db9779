//! This library as one of the things that are compared.

use std::{io, net::IpAddr};

use super::{
    link::{Hub, Spoke},
    settings::{Offer, Preset, Settings},
};

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
