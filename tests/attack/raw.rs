//! The attacker's means: packets with any source address, ICMP errors, a listener on the wire, a
//! network namespace and a CPU of his own.
#![expect(
    unsafe_code,
    reason = "raw sockets, namespaces and affinity have no safe interface in `std`"
)]

use std::{
    fs, io, mem,
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

/// Packets given to the kernel by one call.
const BATCH: usize = 32;
/// Bytes of the largest packet of an attacker, IP header included.
const ROOM: usize = 1_536;
const IP: usize = 20;
const UDP: usize = 8;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn socket(domain: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = check(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel has just given it to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// This thread, and those that it starts, leave the machine's network for an empty one, with a loopback interface that
/// is up and where all of 127.0.0.0/8 lives. It goes away with the process.
///
/// # Errors
/// Not root.
pub(crate) fn enter_own_network() -> io::Result<()> {
    // SAFETY: takes no pointers; sockets that are open already stay in their network.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    let fd = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // SAFETY: all bytes zero is an `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the request names an interface and has flags, as SIOCSIFFLAGS wants it.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCSIFFLAGS, &request) })?;
    Ok(())
}

/// This thread runs on that CPU from now on, if there is one.
pub(crate) fn pin(cpu: usize) {
    // SAFETY: all bytes zero is an empty set, the CPU is within it, and its size is told.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu % 1_024, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Names this thread to [`cpu_time`].
pub(crate) fn thread_id() -> i32 {
    // SAFETY: takes no pointers.
    unsafe { libc::gettid() }
}

/// Time that a thread of this process has had a CPU: on a machine that others use too, the time in which it could work.
pub(crate) fn cpu_time(thread: i32) -> Duration {
    // As `pthread_getcpuclockid` makes it: the scheduler's clock (2) of a thread (4).
    let clock = (!thread << 3) | 6;
    // SAFETY: all bytes zero is a time.
    let mut time: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: `time` may be written.
    check(unsafe { libc::clock_gettime(clock, &mut time) }).expect("the thread lives");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Bytes of memory that the process has resident.
pub(crate) fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * 4_096
}

/// Datagrams that the kernel threw away at the sockets bound to these addresses: their buffer was full, or a filter
/// said so.
pub(crate) fn kernel_drops(addresses: &[SocketAddrV4]) -> u64 {
    // Of this thread: the process itself may be in another network.
    let text = fs::read_to_string("/proc/thread-self/net/udp").unwrap_or_default();
    let names: Vec<String> = addresses.iter().map(proc_name).collect();
    text.lines()
        .filter(|line| {
            line.split_whitespace()
                .nth(1)
                .is_some_and(|local| names.iter().any(|name| name == local))
        })
        .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok())
        .sum()
}

/// As `/proc/net/udp` writes it.
fn proc_name(address: &SocketAddrV4) -> String {
    let ip = u32::from_ne_bytes(address.ip().octets());
    format!("{ip:08X}:{:04X}", address.port())
}

#[expect(clippy::disallowed_methods, reason = "attacks take place in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lets time pass, as an attacker does who waits what comes back.
#[expect(clippy::disallowed_methods, reason = "attacks take place in real time")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Sends packets with whatever addresses they shall have.
pub(crate) struct Sender {
    fd: OwnedFd,
    /// `BATCH` × `ROOM` bytes.
    room: Vec<u8>,
    /// Length and destination of those that wait.
    waiting: Vec<(usize, Ipv4Addr)>,
    /// Bytes of UDP payload and packets so far.
    pub(crate) packets: u64,
    pub(crate) payload: u64,
}

impl Sender {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            fd: socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW)?,
            room: vec![0; BATCH * ROOM],
            waiting: Vec::with_capacity(BATCH),
            packets: 0,
            payload: 0,
        })
    }

    /// A UDP datagram.
    pub(crate) fn udp(&mut self, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) {
        let slot = self.begin(*from.ip(), *to.ip(), libc::IPPROTO_UDP, UDP + payload.len());
        slot[IP..IP + UDP].copy_from_slice(&udp_header(from, to, payload.len()));
        slot[IP + UDP..].copy_from_slice(payload);
        self.payload += payload.len() as u64;
        self.end();
    }

    /// An ICMP error of this type and code from `reporter`, about a datagram that went from `victim` to `peer` and
    /// began with `quote` (nothing beyond its UDP header if that is empty). `rest` is the second word of the error.
    pub(crate) fn icmp(
        &mut self,
        reporter: Ipv4Addr,
        error: Icmp,
        victim: SocketAddrV4,
        peer: SocketAddrV4,
        quote: &[u8],
    ) {
        let len = 8 + IP + UDP + quote.len();
        let slot = self.begin(reporter, *victim.ip(), libc::IPPROTO_ICMP, len);
        let body = &mut slot[IP..];
        body[..8].copy_from_slice(&[error.kind, error.code, 0, 0, 0, 0, 0, 0]);
        body[4..8].copy_from_slice(&error.rest.to_be_bytes());
        body[8..8 + IP].copy_from_slice(&ip_header(
            *victim.ip(),
            *peer.ip(),
            libc::IPPROTO_UDP,
            UDP + quote.len(),
        ));
        // (As the real one would be: with DF.)
        body[14] = 0x40;
        body[8 + IP..8 + IP + UDP].copy_from_slice(&udp_header(victim, peer, quote.len().max(64)));
        body[8 + IP + UDP..].copy_from_slice(quote);
        let sum = internet_checksum(body).to_be_bytes();
        body[2..4].copy_from_slice(&sum);
        self.end();
    }

    fn begin(&mut self, from: Ipv4Addr, to: Ipv4Addr, protocol: libc::c_int, len: usize) -> &mut [u8] {
        if self.waiting.len() == BATCH {
            self.flush();
        }
        let at = self.waiting.len() * ROOM;
        let len = IP + len;
        assert!(len <= ROOM, "{len} bytes");
        self.waiting.push((len, to));
        let slot = &mut self.room[at..at + len];
        slot[..IP].copy_from_slice(&ip_header(from, to, protocol, len - IP));
        slot
    }

    fn end(&mut self) {
        self.packets += 1;
    }

    /// Everything that waits goes out.
    pub(crate) fn flush(&mut self) {
        // SAFETY: all bytes zero is a value of each of these types.
        let (mut names, mut slices, mut headers): (
            [libc::sockaddr_in; BATCH],
            [libc::iovec; BATCH],
            [libc::mmsghdr; BATCH],
        ) = unsafe { mem::zeroed() };
        let count = self.waiting.len();
        for (index, &(len, to)) in self.waiting.iter().enumerate() {
            names[index].sin_family = libc::AF_INET as libc::sa_family_t;
            names[index].sin_addr.s_addr = u32::from_ne_bytes(to.octets());
            slices[index].iov_base = self.room[index * ROOM..].as_mut_ptr().cast();
            slices[index].iov_len = len;
            let header = &mut headers[index].msg_hdr;
            header.msg_name = (&raw mut names[index]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            header.msg_iov = &raw mut slices[index];
            header.msg_iovlen = 1;
        }
        let mut done = 0;
        while done < count {
            // SAFETY: the headers from `done` to `count` point to names and slices that live until the end of this
            // function, and those to our room.
            let sent = unsafe {
                libc::sendmmsg(
                    self.fd.as_raw_fd(),
                    headers[done..].as_mut_ptr(),
                    (count - done) as libc::c_uint,
                    0,
                )
            };
            // What the kernel will not send (no room, an error of an earlier one) is passed over.
            done += usize::try_from(sent).unwrap_or(1).max(1);
        }
        self.waiting.clear();
    }
}

/// Type, code and second word of an ICMP error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Icmp {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    pub(crate) rest: u32,
}

fn ip_header(from: Ipv4Addr, to: Ipv4Addr, protocol: libc::c_int, len: usize) -> [u8; IP] {
    let mut header = [0; IP];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&((IP + len) as u16).to_be_bytes());
    header[8] = 64;
    header[9] = protocol as u8;
    header[12..16].copy_from_slice(&from.octets());
    header[16..].copy_from_slice(&to.octets());
    header
}

/// Without a checksum, which IPv4 allows.
fn udp_header(from: SocketAddrV4, to: SocketAddrV4, len: usize) -> [u8; UDP] {
    let mut header = [0; UDP];
    header[..2].copy_from_slice(&from.port().to_be_bytes());
    header[2..4].copy_from_slice(&to.port().to_be_bytes());
    header[4..6].copy_from_slice(&((UDP + len) as u16).to_be_bytes());
    header
}

fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Sees every datagram on the loopback interface, as one on the path would: only for what an attacker has recorded.
pub(crate) struct Tap(OwnedFd);

/// A datagram from the wire.
pub(crate) struct Seen {
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    pub(crate) payload: Vec<u8>,
}

impl Tap {
    pub(crate) fn new() -> io::Result<Self> {
        let protocol = (libc::ETH_P_IP as u16).to_be();
        let fd = socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, protocol.into())?;
        let size: libc::c_int = 64 << 20;
        // SAFETY: the option is an int, and its size is told.
        check(unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                (&raw const size).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        })?;
        Ok(Self(fd))
    }

    /// The next UDP datagram that was seen, if there is one.
    pub(crate) fn next(&self) -> Option<Seen> {
        let mut packet = vec![0_u8; 65_536];
        loop {
            // SAFETY: all bytes zero is an address.
            let mut link: libc::sockaddr_ll = unsafe { mem::zeroed() };
            let mut link_len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            // SAFETY: packet and address may be written for the lengths that are told.
            let len = unsafe {
                libc::recvfrom(
                    self.0.as_raw_fd(),
                    packet.as_mut_ptr().cast(),
                    packet.len(),
                    0,
                    (&raw mut link).cast(),
                    &mut link_len,
                )
            };
            let len = usize::try_from(len).ok()?;
            // On this interface each is seen on its way out and in.
            if link.sll_pkttype == libc::PACKET_OUTGOING {
                continue;
            }
            if let Some(seen) = udp_of(&packet[..len]) {
                return Some(seen);
            }
        }
    }
}

fn udp_of(packet: &[u8]) -> Option<Seen> {
    if packet.len() < IP + UDP || packet[0] != 0x45 || packet[9] != libc::IPPROTO_UDP as u8 {
        return None;
    }
    let ip = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).expect("four bytes"));
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    Some(Seen {
        from: SocketAddrV4::new(ip(12), port(IP)),
        to: SocketAddrV4::new(ip(16), port(IP + 2)),
        payload: packet[IP + UDP..].to_vec(),
    })
}

#[test]
fn packets_are_what_they_should_be() {
    let from: SocketAddrV4 = "127.1.0.1:1000".parse().unwrap();
    let to: SocketAddrV4 = "127.1.0.2:2000".parse().unwrap();
    let mut packet = ip_header(*from.ip(), *to.ip(), libc::IPPROTO_UDP, UDP + 3).to_vec();
    packet.extend(udp_header(from, to, 3));
    packet.extend(b"abc");
    let seen = udp_of(&packet).unwrap();
    assert_eq!((seen.from, seen.to, &seen.payload[..]), (from, to, &b"abc"[..]));
    // The example of RFC 1071.
    assert_eq!(
        !internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
        0xddf2
    );
    assert_eq!(proc_name(&"127.0.0.1:53".parse().unwrap()), "0100007F:0035");
}
