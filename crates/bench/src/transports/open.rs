//! Which transport answers to which name.

use std::{io, net::IpAddr};

#[cfg(feature = "dpdk")]
use super::memif;
use super::{
    hikyaku,
    link::{Hub, Spoke},
    mpi, openmpi,
    settings::{Kind, Offer, Settings},
    tcp::{self, Form},
    udp,
};
#[cfg(feature = "peers")]
use super::{kcp, quinn};

/// Opens the answering end of a transport on a local address.
pub(crate) fn open_hub(kind: &Kind, settings: &Settings, local: IpAddr) -> io::Result<Box<dyn Hub>> {
    Ok(match kind {
        Kind::Tcp => Box::new(tcp::TcpHub::open(settings, local, Form::Single)?),
        Kind::TcpBatched => Box::new(tcp::TcpHub::open(settings, local, Form::Batched)?),
        Kind::TcpPlain => Box::new(tcp::TcpHub::open(settings, local, Form::Plain)?),
        Kind::Udp => Box::new(udp::UdpHub::open(settings, local)?),
        Kind::Hikyaku { backend, preset } => hikyaku::open_hub(backend, *preset, settings, local)?,
        Kind::OpenMpi { way, directory } => openmpi::open_hub(*way, directory, settings)?,
        Kind::Mpi { backend, way } => mpi::open_hub(backend, *way, settings, local)?,
        #[cfg(feature = "dpdk")]
        Kind::Memif { copies } => Box::new(memif::Memif::open(settings, 0, *copies)?),
        #[cfg(not(feature = "dpdk"))]
        Kind::Memif { .. } => return Err(missing(kind)),
        #[cfg(feature = "peers")]
        Kind::Kcp => Box::new(kcp::KcpHub::open(settings, local)?),
        #[cfg(feature = "peers")]
        Kind::Quinn => Box::new(quinn::QuinnHub::open(local)?),
        #[cfg(not(feature = "peers"))]
        Kind::Kcp | Kind::Quinn => return Err(missing(kind)),
    })
}

/// Opens the asking end of a transport towards a hub.
pub(crate) fn open_spoke(kind: &Kind, settings: &Settings, local: IpAddr, hub: &Offer) -> io::Result<Box<dyn Spoke>> {
    Ok(match kind {
        Kind::Tcp => Box::new(tcp::TcpSpoke::open(settings, hub, Form::Single)?),
        Kind::TcpBatched => Box::new(tcp::TcpSpoke::open(settings, hub, Form::Batched)?),
        Kind::TcpPlain => Box::new(tcp::TcpSpoke::open(settings, hub, Form::Plain)?),
        Kind::Udp => Box::new(udp::UdpSpoke::open(settings, local, hub)?),
        Kind::Hikyaku { backend, preset } => hikyaku::open_spoke(backend, *preset, settings, local, hub)?,
        Kind::OpenMpi { directory, .. } => openmpi::open_spoke(directory, settings)?,
        Kind::Mpi { backend, way } => mpi::open_spoke(backend, *way, settings, local, hub)?,
        #[cfg(feature = "dpdk")]
        Kind::Memif { copies } => Box::new(memif::Memif::open(settings, 1, *copies)?),
        #[cfg(not(feature = "dpdk"))]
        Kind::Memif { .. } => return Err(missing(kind)),
        #[cfg(feature = "peers")]
        Kind::Kcp => Box::new(kcp::KcpSpoke::open(settings, local, hub)?),
        #[cfg(feature = "peers")]
        Kind::Quinn => Box::new(quinn::QuinnSpoke::open(local, hub)?),
        #[cfg(not(feature = "peers"))]
        Kind::Kcp | Kind::Quinn => return Err(missing(kind)),
    })
}

#[cfg(not(all(feature = "peers", feature = "dpdk")))]
fn missing(kind: &Kind) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("this build does not have {}", kind.name()),
    )
}
