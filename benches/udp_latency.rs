//! One-way latency of the UDP backend against bare system calls.
//!
//! Two processes on one machine, pinned to cores 0 and 1, ping-pong one datagram over the loopback interface, both
//! spinning. The variants take turns in short rounds; a row is the median over rounds, its ratio the median of the
//! rounds' ratios to the first variant.
//!
//! `cargo bench --bench udp_latency -- [size]`
#![expect(unsafe_code, reason = "the bare system calls are what is measured")]

use std::{
    io::{BufRead, BufReader, IoSlice, Write},
    mem,
    net::{SocketAddr, UdpSocket},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    process::{Command, Stdio},
    ptr,
    time::Instant as Clock,
};

use hikyaku::{
    backends::{
        Backend, Transmit,
        udp::{Gro, UdpBackend, UdpOptions},
    },
    time::Instant,
};

const ROUNDS: usize = 31;
const PINGS: usize = 4000;
/// Bytes of a protocol header, sent from a place of its own.
const HEADER: usize = 40;

const VARIANTS: [&str; 11] = [
    "sendto/recvfrom",
    "sendmsg/recvfrom",
    "sendto/recvmsg",
    "sendto/recvmsg+GRO",
    "sendmsg(2 iov)/recvfrom",
    "copy+sendto/recvfrom",
    "backend, 1 slice",
    "backend, 2 slices",
    "backend, GRO on",
    "backend, 2 segments",
    "backend, 2 segments, GRO on",
];

enum End {
    Bare { socket: UdpSocket, variant: usize },
    Backend { backend: Box<UdpBackend>, variant: usize },
}

impl End {
    fn new(variant: usize) -> Self {
        let addr: SocketAddr = "127.0.0.1:0".parse().unwrap();
        if variant < 6 {
            let socket = UdpSocket::bind(addr).unwrap();
            socket.set_nonblocking(true).unwrap();
            if variant == 3 {
                let on: libc::c_int = 1;
                // SAFETY: `on` outlives the call.
                let result = unsafe {
                    libc::setsockopt(
                        socket.as_raw_fd(),
                        libc::SOL_UDP,
                        libc::UDP_GRO,
                        (&raw const on).cast(),
                        4,
                    )
                };
                assert_eq!(result, 0);
            }
            return Self::Bare { socket, variant };
        }
        let gro = if variant == 8 || variant == 10 {
            Gro::On
        } else {
            Gro::Adaptive
        };
        let options = UdpOptions {
            gro,
            ..UdpOptions::default()
        };
        Self::Backend {
            backend: Box::new(UdpBackend::bind_with(addr, &options).unwrap()),
            variant,
        }
    }

    fn addr(&self) -> SocketAddr {
        match self {
            Self::Bare { socket, .. } => socket.local_addr().unwrap(),
            Self::Backend { backend, .. } => backend.local_addr(),
        }
    }

    #[inline]
    fn send(&mut self, to: SocketAddr, data: &[u8], scratch: &mut Vec<u8>) {
        let (header, payload) = data.split_at(HEADER);
        match self {
            Self::Bare { socket, variant } => {
                let raw = raw_addr(to);
                match variant {
                    1 | 4 => {
                        let one = [IoSlice::new(data)];
                        let two = [IoSlice::new(header), IoSlice::new(payload)];
                        let slices: &[IoSlice<'_>] = if *variant == 1 { &one } else { &two };
                        // SAFETY: a msghdr of zeros is valid; all it points to outlives the call.
                        let sent = unsafe {
                            let mut message: libc::msghdr = mem::zeroed();
                            message.msg_name = (&raw const raw).cast_mut().cast();
                            message.msg_namelen = 16;
                            message.msg_iov = slices.as_ptr().cast_mut().cast();
                            message.msg_iovlen = slices.len() as _;
                            libc::sendmsg(socket.as_raw_fd(), &message, 0)
                        };
                        assert_eq!(sent as usize, data.len());
                    }
                    _ => {
                        let data = if *variant == 5 {
                            scratch.clear();
                            scratch.extend_from_slice(header);
                            scratch.extend_from_slice(payload);
                            scratch
                        } else {
                            data
                        };
                        // SAFETY: data and address outlive the call.
                        let sent = unsafe {
                            libc::sendto(
                                socket.as_raw_fd(),
                                data.as_ptr().cast(),
                                data.len(),
                                0,
                                (&raw const raw).cast(),
                                16,
                            )
                        };
                        assert_eq!(sent as usize, data.len());
                    }
                }
            }
            Self::Backend { backend, variant } => {
                let one = [IoSlice::new(data)];
                let two = [IoSlice::new(header), IoSlice::new(payload)];
                let segment_size = if *variant >= 9 {
                    data.len().div_ceil(2)
                } else {
                    data.len()
                };
                let transmit = Transmit {
                    destination: to,
                    port: 0,
                    segment_size,
                    len: data.len(),
                    slices: if *variant == 7 { &two } else { &one },
                    dont_fragment: true,
                    token: 0,
                };
                backend.transmit(Instant::ZERO, &transmit).unwrap();
            }
        }
    }

    /// Spins until `len` bytes have come; gives the first byte of the last datagram and its source.
    #[inline]
    fn receive(&mut self, len: usize, buffer: &mut [u8]) -> (u8, SocketAddr) {
        let mut got = 0;
        loop {
            match self {
                Self::Bare { socket, variant } => {
                    // SAFETY: zeros are a sockaddr_in and a msghdr; all pointers outlive the calls.
                    let (n, from) = unsafe {
                        let mut from: libc::sockaddr_in = mem::zeroed();
                        let mut from_len: libc::socklen_t = 16;
                        let n = if *variant == 2 || *variant == 3 {
                            let mut control = [0_u64; 16];
                            let mut iov = libc::iovec {
                                iov_base: buffer.as_mut_ptr().cast(),
                                iov_len: buffer.len(),
                            };
                            let mut message: libc::msghdr = mem::zeroed();
                            message.msg_name = (&raw mut from).cast();
                            message.msg_namelen = 16;
                            message.msg_iov = &raw mut iov;
                            message.msg_iovlen = 1;
                            message.msg_control = control.as_mut_ptr().cast();
                            message.msg_controllen = 128;
                            libc::recvmsg(socket.as_raw_fd(), &mut message, 0)
                        } else {
                            libc::recvfrom(
                                socket.as_raw_fd(),
                                buffer.as_mut_ptr().cast(),
                                buffer.len(),
                                0,
                                (&raw mut from).cast(),
                                &mut from_len,
                            )
                        };
                        (n, from)
                    };
                    if n > 0 {
                        let ip = std::net::Ipv4Addr::from(from.sin_addr.s_addr.to_ne_bytes());
                        return (buffer[0], SocketAddr::from((ip, u16::from_be(from.sin_port))));
                    }
                }
                Self::Backend { backend, .. } => {
                    for index in 0..backend.receive(Instant::ZERO, 64).unwrap() {
                        let received = backend.received(index);
                        got += received.data.len();
                        let first = received.data.own().map_or(0, |data| data[0]);
                        if got >= len || first == b'q' {
                            return (first, received.source);
                        }
                    }
                }
            }
        }
    }
}

fn raw_addr(addr: SocketAddr) -> libc::sockaddr_in {
    let SocketAddr::V4(addr) = addr else { unreachable!() };
    libc::sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: addr.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(addr.ip().octets()),
        },
        sin_zero: [0; 8],
    }
}

fn pin(core: usize) {
    // SAFETY: a set of zeros is empty; CPU_SET stays inside for cores this small.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), ptr::from_ref(&set));
    }
}

/// The other process: for each line "variant size" on standard input, answers with its port and echoes until told.
fn echo() {
    pin(1);
    let (mut scratch, mut buffer) = (Vec::new(), vec![0; 65536]);
    let mut ends: Vec<End> = (0..VARIANTS.len()).map(End::new).collect();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut words = line.split(' ').map(|word| word.parse::<usize>().unwrap());
        let (variant, size) = (words.next().unwrap(), words.next().unwrap());
        let end = &mut ends[variant];
        println!("{}", end.addr());
        let answer = vec![b'a'; size];
        loop {
            let (first, source) = end.receive(size, &mut buffer);
            if first == b'q' {
                break;
            }
            end.send(source, &answer, &mut scratch);
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]
fn main() {
    if std::env::args().any(|arg| arg == "--echo") {
        return echo();
    }
    let size = std::env::args()
        .skip(1)
        .find_map(|arg| arg.parse::<usize>().ok())
        .unwrap_or(8)
        + HEADER;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("--echo")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    pin(0);
    let mut commands = child.stdin.take().unwrap();
    // Unbuffered would do too; a line is all there ever is.
    // SAFETY: the descriptor is the child's standard output, given up here.
    let answers = unsafe { OwnedFd::from_raw_fd(std::os::fd::IntoRawFd::into_raw_fd(child.stdout.take().unwrap())) };
    let mut answers = BufReader::new(std::fs::File::from(answers)).lines();

    let (mut scratch, mut buffer) = (Vec::new(), vec![0; 65536]);
    let mut ends: Vec<End> = (0..VARIANTS.len()).map(End::new).collect();
    let mut rows = vec![Vec::new(); VARIANTS.len()];
    let data = vec![b'p'; size];
    let mut quit = data.clone();
    quit[0] = b'q';
    for round in 0..ROUNDS {
        for (variant, end) in ends.iter_mut().enumerate() {
            writeln!(commands, "{variant} {size}").unwrap();
            let peer: SocketAddr = answers.next().unwrap().unwrap().parse().unwrap();
            let mut start = Clock::now();
            for ping in 0..PINGS {
                if ping == PINGS / 4 {
                    start = Clock::now();
                }
                end.send(peer, &data, &mut scratch);
                end.receive(size, &mut buffer);
            }
            let nanos = start.elapsed().as_nanos() as f64 / (PINGS - PINGS / 4) as f64 / 2.0;
            end.send(peer, &quit, &mut scratch);
            if round > 0 {
                rows[variant].push(nanos);
            }
        }
    }
    drop(commands);
    child.wait().unwrap();
    println!("{size} bytes, {ROUNDS} rounds of {PINGS}");
    let base = rows[0].clone();
    for (name, row) in VARIANTS.iter().zip(&mut rows) {
        let mut ratios: Vec<f64> = row.iter().zip(&base).map(|(a, b)| a / b).collect();
        println!(
            "{name:30} {:8.0} ns one way   {:.3} x",
            median(row),
            median(&mut ratios)
        );
    }
}
