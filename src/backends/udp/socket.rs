//! Sockets: how they are made, their options, and the MTU behind them.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
};

use socket2::{Domain, Protocol, Socket, Type};

use super::sys::{self, Interface};

/// Use of generic receive offload, by which the kernel hands over several datagrams of one source at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gro {
    /// Never.
    Off,
    /// While there is bulk: a single datagram costs a few per cent more with GRO on.
    #[default]
    Adaptive,
    /// Always.
    On,
}

/// Settings of a [`UdpBackend`](super::UdpBackend).
#[derive(Clone, Debug)]
pub struct UdpOptions {
    /// Bytes asked for the kernel's receive buffer, 1 to 2^30. The kernel may give less (`net.core.rmem_max`) unless
    /// the process has CAP_NET_ADMIN; [`Capabilities::receive_buffer`](crate::backends::Capabilities::receive_buffer)
    /// has the size that it gave. Default 4 MiB.
    pub receive_buffer: usize,
    /// Bytes asked for the kernel's send buffer, 1 to 2^30. Default 4 MiB.
    pub send_buffer: usize,
    /// Send bursts by segmentation offload where the kernel can. Default true.
    pub gso: bool,
    /// Receive bursts by receive offload where the kernel can. Default [`Gro::Adaptive`].
    pub gro: Gro,
    /// Largest datagram, bytes of UDP payload, instead of the size that the interface takes: to act as if the loopback
    /// interface had a smaller MTU (1472 for Ethernet's 1500). Values above the interface's size are lowered to it.
    pub max_datagram: Option<usize>,
    /// Send from a second socket with a port of its own, so that one socket only sends and one only receives. Datagrams
    /// then come from a port at which this backend does not receive. Default false.
    pub separate_send_socket: bool,
    /// Send by the interface that has the socket's address, whatever the routes say, as each of several ports must:
    /// routes know the network that two interfaces share by one of them only. Peers that only another interface reaches
    /// cannot be reached then. Default false.
    pub own_interface: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            receive_buffer: 4 << 20,
            send_buffer: 4 << 20,
            gso: true,
            gro: Gro::default(),
            max_datagram: None,
            separate_send_socket: false,
            own_interface: false,
        }
    }
}

/// Bytes of IP and UDP header.
pub(super) fn headers(addr: SocketAddr) -> usize {
    if addr.is_ipv4() { 20 + 8 } else { 40 + 8 }
}

/// Largest UDP payload that one datagram, or one burst by segmentation offload, can have.
pub(super) fn largest_payload(addr: SocketAddr) -> usize {
    // IPv4 counts its own header in its 16-bit length. IPv6 does not, but the kernel's path for bursts does.
    usize::from(u16::MAX) - headers(addr)
}

/// A bound, non-blocking socket.
#[derive(Debug)]
pub(super) struct UdpSocket {
    socket: Socket,
    local: SocketAddr,
    /// It keeps to the interface that has its address.
    has_interface: bool,
}

impl UdpSocket {
    pub(super) fn bind(addr: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        if addr.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        set_buffer(
            socket.as_fd(),
            libc::SO_RCVBUFFORCE,
            libc::SO_RCVBUF,
            options.receive_buffer,
        )?;
        set_buffer(
            socket.as_fd(),
            libc::SO_SNDBUFFORCE,
            libc::SO_SNDBUF,
            options.send_buffer,
        )?;
        socket.bind(&addr.into())?;
        let local = socket
            .local_addr()?
            .as_socket()
            .ok_or(io::ErrorKind::AddrNotAvailable)?;
        let this = Self {
            socket,
            local,
            has_interface: options.own_interface,
        };
        this.set_dont_fragment(true)?;
        // So that a "port unreachable" error names the peer.
        let (level, name) = if addr.is_ipv4() {
            (libc::SOL_IP, libc::IP_RECVERR)
        } else {
            (libc::SOL_IPV6, libc::IPV6_RECVERR)
        };
        sys::set_option(this.fd(), level, name, 1)?;
        if options.own_interface {
            this.keep_to_own_interface()?;
        }
        Ok(this)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Looks for the interface that has the local address now, if the socket keeps to it: an interface that was removed and
    /// made again is another one.
    #[cold]
    pub(super) fn find_own_interface(&self) {
        if self.has_interface {
            // If there is none, nothing can be sent, and the next failure leads here again.
            let _ = self.keep_to_own_interface();
        }
    }

    /// Sends by the interface that has the local address. (`SO_BINDTODEVICE` would also refuse what comes to this address
    /// by another interface, as it does where a host answers for all its addresses on each.)
    fn keep_to_own_interface(&self) -> io::Result<()> {
        let interfaces = sys::interfaces(self.fd())?;
        let owner = owner(&interfaces, self.local.ip()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let (level, name) = if self.local.is_ipv4() {
            (libc::SOL_IP, libc::IP_UNICAST_IF)
        } else {
            (libc::SOL_IPV6, libc::IPV6_UNICAST_IF)
        };
        sys::set_option(self.fd(), level, name, owner.index.to_be().cast_signed())
    }

    /// Forbids or allows fragmentation.
    pub(super) fn set_dont_fragment(&self, forbid: bool) -> io::Result<()> {
        // "Probe": set the DF bit, and do not use the kernel's cached path MTU. The protocol finds its own.
        if self.local.is_ipv4() {
            let value = if forbid {
                libc::IP_PMTUDISC_PROBE
            } else {
                libc::IP_PMTUDISC_DONT
            };
            sys::set_option(self.fd(), libc::SOL_IP, libc::IP_MTU_DISCOVER, value)
        } else {
            let value = if forbid {
                libc::IPV6_PMTUDISC_PROBE
            } else {
                libc::IPV6_PMTUDISC_DONT
            };
            sys::set_option(self.fd(), libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, value)
        }
    }

    /// Turns receive offload on or off.
    pub(super) fn set_gro(&self, on: bool) -> io::Result<()> {
        sys::set_option(self.fd(), libc::SOL_UDP, libc::UDP_GRO, on.into())
    }

    /// Returns whether the kernel knows segmentation offload.
    pub(super) fn knows_gso(&self) -> bool {
        sys::get_option(self.fd(), libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
    }

    /// Bytes of the receive buffer that the kernel gave.
    pub(super) fn receive_buffer(&self) -> usize {
        // The kernel reports twice the size asked for: its own bookkeeping comes out of the same account.
        let doubled = sys::get_option(self.fd(), libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
        usize::try_from(doubled).unwrap_or(0) / 2
    }

    /// Largest UDP payload that the interface behind the local address takes without fragmentation.
    pub(super) fn interface_payload(&self) -> usize {
        let mtu = interface_mtu(self.fd(), self.local.ip()).unwrap_or(1500);
        mtu.saturating_sub(headers(self.local))
            .clamp(1, largest_payload(self.local))
    }
}

fn set_buffer(fd: BorrowedFd<'_>, force: i32, polite: i32, size: usize) -> io::Result<()> {
    let size = size.clamp(1, 1 << 30) as libc::c_int;
    sys::set_option(fd, libc::SOL_SOCKET, force, size).or_else(|_| sys::set_option(fd, libc::SOL_SOCKET, polite, size))
}

/// MTU of the interface that owns `ip`; for a wildcard, the smallest MTU of the interfaces that are not loopback.
fn interface_mtu(fd: BorrowedFd<'_>, ip: IpAddr) -> Option<usize> {
    let interfaces = sys::interfaces(fd).ok()?;
    if ip.is_unspecified() {
        let up = || interfaces.iter().filter(|interface| interface.up);
        let out = up()
            .filter(|interface| !interface.loopback)
            .map(|interface| interface.mtu)
            .min();
        return out.or_else(|| up().map(|interface| interface.mtu).min());
    }
    owner(&interfaces, ip).map(|interface| interface.mtu)
}

/// The interface that is up and has this address.
fn owner(interfaces: &[Interface], ip: IpAddr) -> Option<&Interface> {
    let up = || interfaces.iter().filter(|interface| interface.up);
    // All of 127.0.0.0/8 is local, though only one address is listed.
    let network = || {
        up().find(|interface| {
            interface
                .mask
                .is_some_and(|mask| same_network(interface.addr, ip, mask))
        })
    };
    up().find(|interface| interface.addr == ip).or_else(network)
}

/// Returns whether `ip` is in one network with another of these addresses of this host, so that the routes use one
/// interface for both.
pub(super) fn is_shared(ip: IpAddr, others: &[IpAddr]) -> bool {
    let probe = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP));
    let Ok(interfaces) = probe.and_then(|socket| sys::interfaces(socket.as_fd())) else {
        return false;
    };
    let mask = owner(&interfaces, ip).and_then(|interface| interface.mask);
    mask.is_some_and(|mask| others.iter().any(|&other| same_network(ip, other, mask)))
}

fn same_network(a: IpAddr, b: IpAddr, mask: IpAddr) -> bool {
    match (a, b, mask) {
        (IpAddr::V4(a), IpAddr::V4(b), IpAddr::V4(mask)) => (a.to_bits() ^ b.to_bits()) & mask.to_bits() == 0,
        (IpAddr::V6(a), IpAddr::V6(b), IpAddr::V6(mask)) => (a.to_bits() ^ b.to_bits()) & mask.to_bits() == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(same_network(ip("127.0.0.1"), ip("127.3.2.1"), ip("255.0.0.0")));
        assert!(!same_network(ip("127.0.0.1"), ip("128.0.0.1"), ip("255.0.0.0")));
        assert!(!same_network(ip("::1"), ip("127.0.0.1"), ip("255.0.0.0")));
    }

    #[test]
    fn any_loopback_address_has_the_loopback_interface() {
        let socket = UdpSocket::bind("127.0.0.2:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let lo = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        assert_eq!(socket.interface_payload(), lo.interface_payload());
    }
}
