//! The system calls of the UDP backend: everything here that is `unsafe`, behind safe functions.
#![expect(
    unsafe_code,
    reason = "sendmsg and recvmsg with control messages have no safe wrapper that takes gather lists"
)]

use std::{
    ffi::CStr,
    io::{self, IoSlice},
    mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
    time::Duration,
};

use libc::{c_int, c_void, socklen_t};

/// A socket address as the kernel wants it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union RawAddr {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl RawAddr {
    /// Nothing yet; for the kernel to fill in.
    pub(super) const fn empty() -> Self {
        // SAFETY: all bytes zero is a value of each member (they are integers and arrays of integers).
        unsafe { mem::zeroed() }
    }

    /// The same address for the kernel.
    pub(super) fn new(addr: SocketAddr) -> Self {
        let mut raw = Self::empty();
        match addr {
            SocketAddr::V4(v4) => {
                raw.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                }
            }
            SocketAddr::V6(v6) => {
                raw.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                }
            }
        }
        raw
    }

    fn len(&self) -> socklen_t {
        let len = if self.is_v6() {
            size_of::<libc::sockaddr_in6>()
        } else {
            size_of::<libc::sockaddr_in>()
        };
        len as socklen_t
    }

    fn is_v6(&self) -> bool {
        // SAFETY: every constructor initialises all bytes, and the family comes first in both.
        c_int::from(unsafe { self.family }) == libc::AF_INET6
    }

    /// The address in Rust's form; `None` if the kernel filled in no IP address.
    pub(super) fn get(&self) -> Option<SocketAddr> {
        // SAFETY: every constructor initialises all bytes, each pattern of bytes is valid, and the family says
        // which member it is.
        unsafe {
            match c_int::from(self.family) {
                libc::AF_INET => {
                    let ip = Ipv4Addr::from(self.v4.sin_addr.s_addr.to_ne_bytes());
                    Some(SocketAddrV4::new(ip, u16::from_be(self.v4.sin_port)).into())
                }
                libc::AF_INET6 => {
                    let ip = Ipv6Addr::from(self.v6.sin6_addr.s6_addr);
                    let port = u16::from_be(self.v6.sin6_port);
                    Some(SocketAddrV6::new(ip, port, self.v6.sin6_flowinfo, self.v6.sin6_scope_id).into())
                }
                _ => None,
            }
        }
    }
}

/// Turns the result of a system call into an error or a number of bytes.
fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Makes a system call that moves datagrams.
///
/// The wrappers of libc are cancellation points: in a process of several threads each turns asynchronous cancellation
/// on and off again, by locked instructions (0.1 µs of a one-way time of 3.4). `syscall` is none, and no call here
/// sleeps.
macro_rules! call {
    ($number:ident, $fd:expr $(, $argument:expr)* $(,)?) => {
        check(libc::syscall(libc::$number, libc::c_long::from($fd.as_raw_fd()) $(, $argument)*) as isize)
    };
}

/// Sends one contiguous datagram: the cheapest call there is.
pub(super) fn send_to(fd: BorrowedFd<'_>, to: &RawAddr, data: &[u8]) -> io::Result<usize> {
    // SAFETY: `data` and `to` are valid for their lengths during the call.
    unsafe {
        let flags = libc::c_long::from(libc::MSG_DONTWAIT);
        let (to, len) = (ptr::from_ref(to), libc::c_long::from(to.len()));
        call!(SYS_sendto, fd, data.as_ptr(), data.len(), flags, to, len)
    }
}

/// Room for control messages, aligned as `cmsghdr` wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Sends a gather list; with `segment`, as datagrams of that many bytes each (`UDP_SEGMENT`).
pub(super) fn send_gather(
    fd: BorrowedFd<'_>,
    to: &RawAddr,
    slices: &[IoSlice<'_>],
    segment: Option<u16>,
) -> io::Result<usize> {
    let mut control = Control([0; 64]);
    // SAFETY: all bytes zero is a `msghdr`.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = ptr::from_ref(to).cast_mut().cast();
    message.msg_namelen = to.len();
    // `IoSlice` has the layout of `iovec` by its documentation.
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len();
    if let Some(segment) = segment {
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: pure arithmetic, and the room of 64 bytes is more than the 24 that a u16 takes.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as _;
        // SAFETY: `msg_control` and `msg_controllen` describe room enough for one header with a u16, so the first
        // header exists and its data may be written; it is aligned by `Control`.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_UDP;
            (*header).cmsg_type = libc::UDP_SEGMENT;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
            libc::CMSG_DATA(header).cast::<u16>().write_unaligned(segment);
        }
    }
    // SAFETY: everything `message` points to outlives the call, and sendmsg only reads it.
    unsafe {
        call!(
            SYS_sendmsg,
            fd,
            &raw const message,
            libc::c_long::from(libc::MSG_DONTWAIT)
        )
    }
}

/// Receives one datagram. The cheapest call there is; not for sockets on which `UDP_GRO` is on.
pub(super) fn receive_from(fd: BorrowedFd<'_>, buffer: &mut [u8], from: &mut RawAddr) -> io::Result<usize> {
    let mut len = size_of::<RawAddr>() as socklen_t;
    // SAFETY: `buffer` and `from` may be written for their lengths during the call; any bytes make a `RawAddr`.
    unsafe {
        let flags = libc::c_long::from(libc::MSG_DONTWAIT);
        let (from, room) = (ptr::from_mut(from), &raw mut len);
        call!(SYS_recvfrom, fd, buffer.as_mut_ptr(), buffer.len(), flags, from, room)
    }
}

/// Receives one datagram or, with `UDP_GRO` on, several of equal size back to back. Returns the bytes in all, and the
/// bytes per datagram if there are several.
pub(super) fn receive_coalesced(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    from: &mut RawAddr,
) -> io::Result<(usize, Option<usize>)> {
    let mut stride = None;
    let len = receive_message(fd, buffer, from, libc::MSG_DONTWAIT, |level, kind, data| {
        if level == libc::SOL_UDP && kind == libc::UDP_GRO && data.len() >= size_of::<c_int>() {
            // The kernel's documentation says u16 and its code writes an int.
            let size = c_int::from_ne_bytes(data[..4].try_into().expect("four bytes"));
            stride = usize::try_from(size).ok().filter(|&size| size > 0);
        }
    })?;
    Ok((len, stride))
}

/// One entry of the socket's error queue.
#[derive(Debug)]
pub(super) struct QueuedError {
    /// The destination of the datagram that caused it.
    destination: Option<SocketAddr>,
    /// The error, as an errno.
    errno: i32,
    /// An ICMP message reported it, not this host.
    from_network: bool,
    /// Bytes that the message quotes of the datagram's payload, as far as there was room for them.
    pub(super) quoted: usize,
}

impl QueuedError {
    /// The address at which no process listens, if the entry says so. (The address of the sender of the ICMP message
    /// would prove nothing: a host that can forge the rest can forge that as well.)
    pub(super) fn refused(&self) -> Option<SocketAddr> {
        self.destination
            .filter(|_| self.from_network && self.errno == libc::ECONNREFUSED)
    }
}

/// Takes the oldest entry off the socket's error queue, and copies the bytes that it quotes into `quote`;
/// [`io::ErrorKind::WouldBlock`] if the queue is empty.
pub(super) fn receive_error(fd: BorrowedFd<'_>, quote: &mut [u8]) -> io::Result<QueuedError> {
    let mut from = RawAddr::empty();
    let (mut errno, mut origin) = (0, 0);
    let quoted = receive_message(
        fd,
        quote,
        &mut from,
        libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE,
        |level, kind, data| {
            let ours = (level == libc::SOL_IP && kind == libc::IP_RECVERR)
                || (level == libc::SOL_IPV6 && kind == libc::IPV6_RECVERR);
            // `struct sock_extended_err` starts with the errno as a u32 and the origin as a byte.
            if ours && data.len() >= 5 {
                errno = i32::from_ne_bytes(data[..4].try_into().expect("four bytes"));
                origin = data[4];
            }
        },
    )?;
    Ok(QueuedError {
        destination: from.get(),
        errno,
        from_network: matches!(origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6),
        quoted,
    })
}

/// Calls recvmsg, and shows each control message to `control_message` as (level, type, bytes).
fn receive_message(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    from: &mut RawAddr,
    flags: c_int,
    mut control_message: impl FnMut(c_int, c_int, &[u8]),
) -> io::Result<usize> {
    /// Enough for an extended error with an IPv6 offender; a truncated control message does no harm, but is of no use.
    #[repr(C, align(8))]
    struct Room(mem::MaybeUninit<[u8; 128]>);
    let mut room = Room(mem::MaybeUninit::uninit());
    let mut iov = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all bytes zero is a `msghdr`.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = ptr::from_mut(from).cast();
    message.msg_namelen = size_of::<RawAddr>() as socklen_t;
    message.msg_iov = &mut iov;
    message.msg_iovlen = 1;
    message.msg_control = room.0.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Room>();
    // SAFETY: all that `message` points to may be written for the lengths given and outlives the call; any bytes
    // make a `RawAddr`.
    let len = unsafe { call!(SYS_recvmsg, fd, &raw mut message, libc::c_long::from(flags)) }?;
    // SAFETY: the kernel has set `msg_controllen` to what it has written, and the CMSG macros stay inside that.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while let Some(found) = header.as_ref() {
            let data = libc::CMSG_DATA(found);
            let len = found.cmsg_len.saturating_sub(data.offset_from(header.cast()) as usize);
            control_message(found.cmsg_level, found.cmsg_type, std::slice::from_raw_parts(data, len));
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    Ok(len)
}

/// Returns whether the receive queue holds anything. Takes nothing out.
pub(super) fn has_data(fd: BorrowedFd<'_>) -> bool {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the length is zero, so no byte is written.
    unsafe { libc::recv(fd.as_raw_fd(), ptr::null_mut(), 0, flags) >= 0 }
}

/// The states of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    /// There may be something to receive.
    pub(super) readable: bool,
    /// There is something in the error queue.
    pub(super) error: bool,
}

/// Sleeps until the socket is readable or has an error, a signal arrives, or the time has passed (`None`: no limit).
pub(super) fn poll(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<Ready> {
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `poll` may be written, `timeout` is null or points to a timespec, a null mask leaves signals alone.
    let count = unsafe { libc::ppoll(&mut poll, 1, timeout, ptr::null()) };
    if count < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        poll.revents = 0;
    }
    if poll.revents & libc::POLLNVAL != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    Ok(Ready {
        readable: poll.revents & libc::POLLIN != 0,
        error: poll.revents & libc::POLLERR != 0,
    })
}

/// Sets an integer option.
pub(super) fn set_option(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let len = size_of::<c_int>() as socklen_t;
    // SAFETY: `value` is valid for `len` bytes during the call.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), len) };
    check(result as isize).map(drop)
}

/// Gets an integer option.
pub(super) fn get_option(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: `value` may be written for `len` bytes during the call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            ptr::from_mut(&mut value).cast::<c_void>(),
            &mut len,
        )
    };
    check(result as isize).map(|_| value)
}

/// One address of a network interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    /// The address.
    pub(super) addr: IpAddr,
    /// The bits of the address that are the network.
    pub(super) mask: Option<IpAddr>,
    /// Set if it is up.
    pub(super) up: bool,
    /// Set if it is a loopback interface.
    pub(super) loopback: bool,
    /// Its MTU, bytes, IP header included.
    pub(super) mtu: usize,
    /// Its number.
    pub(super) index: u32,
}

/// All addresses of all interfaces whose MTU can be asked for with the socket `fd`.
pub(super) fn interfaces(fd: BorrowedFd<'_>) -> io::Result<Vec<Interface>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `first` may be written.
    check(unsafe { libc::getifaddrs(&mut first) } as isize)?;
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the list is well formed and lives until freeifaddrs.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: address and mask are null or point to a sockaddr of the family that they carry.
        let (addr, mask) = unsafe { (ip_of(entry.ifa_addr), ip_of(entry.ifa_netmask)) };
        // SAFETY: the name is a C string that belongs to the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        let mtu = mtu_of(fd, name);
        if let (Some(addr), Ok(mtu)) = (addr, mtu) {
            let flag = |flag: c_int| entry.ifa_flags & flag as libc::c_uint != 0;
            found.push(Interface {
                addr,
                mask,
                up: flag(libc::IFF_UP),
                loopback: flag(libc::IFF_LOOPBACK),
                mtu,
                // SAFETY: the name is a C string. (0 for an interface that has just gone.)
                index: unsafe { libc::if_nametoindex(name.as_ptr()) },
            });
        }
    }
    // SAFETY: the list came from getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The IP address in a sockaddr.
///
/// # Safety
/// `addr` is null or points to a sockaddr as large as its family says.
unsafe fn ip_of(addr: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as promised by the caller.
    match c_int::from(unsafe { addr.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one.
            let v4 = unsafe { addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is one.
            let v6 = unsafe { addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

fn mtu_of(fd: BorrowedFd<'_>, name: &CStr) -> io::Result<usize> {
    // SAFETY: all bytes zero is an `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, &from) in request.ifr_name.iter_mut().zip(name.to_bytes().iter().take(room)) {
        *to = from as libc::c_char;
    }
    // SAFETY: SIOCGIFMTU reads the name, which ends with a zero, and writes the MTU into the union.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFMTU, &mut request) } as isize)?;
    // SAFETY: the call has just written this member.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for text in ["127.0.0.1:1", "255.254.253.252:65535", "[::1]:4791", "[fe80::1:2%7]:9"] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddr::new(addr).get(), Some(addr));
        }
        assert_eq!(RawAddr::empty().get(), None);
    }
}
