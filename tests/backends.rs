//! One list of checks for every backend.
//!
//! Nothing here sleeps to let something happen: what is expected is awaited.
#![cfg(feature = "loopback")]

use std::{io, io::IoSlice, net::SocketAddr, time::Duration};

use hikyaku::{
    backends::{
        Backend, Notice, Sent, Transmit, Unreachable, Wake,
        loopback::{LoopbackBackend, LoopbackOptions},
    },
    time::Instant,
};

const NOW: Instant = Instant::ZERO;
/// So long that only a hang reaches it.
const LONG: Duration = Duration::from_secs(60);

/// How to make the backend under test.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    host: &'static str,
    bind: fn(SocketAddr, max_datagram: Option<usize>) -> io::Result<Box<dyn Backend>>,
}

impl Kind {
    fn any(self) -> SocketAddr {
        SocketAddr::new(self.host.parse().unwrap(), 0)
    }

    fn make(self) -> Box<dyn Backend> {
        (self.bind)(self.any(), None).unwrap()
    }

    /// The same at an IPv4 address where no other test is, for tests that give up a port and want it again.
    fn alone(self, host: &'static str) -> Option<Self> {
        (self.host != "::1").then_some(Self { host, ..self })
    }

    fn pair(self) -> (Box<dyn Backend>, Box<dyn Backend>) {
        (self.make(), self.make())
    }
}

const LOOPBACK: Kind = Kind {
    name: "loopback",
    host: "127.0.0.1",
    bind: |addr, max_datagram| {
        let mut options = LoopbackOptions::default();
        options.max_datagram = max_datagram.unwrap_or(options.max_datagram);
        Ok(Box::new(LoopbackBackend::bind_with(addr, options)?))
    },
};

#[cfg(all(feature = "udp", target_os = "linux"))]
mod udp {
    use hikyaku::backends::udp::{Gro, UdpBackend, UdpOptions};

    use super::*;

    pub(super) fn bind(addr: SocketAddr, max: Option<usize>, gso: bool, gro: Gro) -> io::Result<Box<dyn Backend>> {
        let options = UdpOptions {
            max_datagram: max,
            gso,
            gro,
            ..UdpOptions::default()
        };
        Ok(Box::new(UdpBackend::bind_with(addr, &options)?))
    }

    pub(super) const V4: Kind = Kind {
        name: "udp v4",
        host: "127.0.0.1",
        bind: |addr, max| bind(addr, max, true, Gro::Adaptive),
    };
    pub(super) const V6: Kind = Kind {
        name: "udp v6",
        host: "::1",
        bind: |addr, max| bind(addr, max, true, Gro::Adaptive),
    };
    pub(super) const NO_OFFLOAD: Kind = Kind {
        name: "udp without GSO and GRO",
        host: "127.0.0.1",
        bind: |addr, max| bind(addr, max, false, Gro::Off),
    };
    pub(super) const GRO: Kind = Kind {
        name: "udp with GRO",
        host: "127.0.0.1",
        bind: |addr, max| bind(addr, max, true, Gro::On),
    };

    pub(super) fn kinds() -> Vec<Kind> {
        let mut kinds = vec![V4, NO_OFFLOAD, GRO];
        if std::net::UdpSocket::bind("[::1]:0").is_ok() {
            kinds.push(V6);
        } else {
            eprintln!("skipped: no IPv6 on this machine");
        }
        kinds
    }
}

fn each(check: fn(Kind)) {
    #[cfg_attr(
        not(all(feature = "udp", target_os = "linux")),
        expect(unused_mut, reason = "there are no others")
    )]
    let mut kinds = vec![LOOPBACK];
    #[cfg(all(feature = "udp", target_os = "linux"))]
    kinds.extend(udp::kinds());
    for kind in kinds {
        eprintln!("-- {}", kind.name);
        check(kind);
    }
}

fn send(from: &mut dyn Backend, to: SocketAddr, segment_size: usize, parts: &[&[u8]]) -> Sent {
    let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let len = parts.iter().map(|part| part.len()).sum();
    let transmit = Transmit {
        destination: to,
        port: 0,
        segment_size,
        len,
        slices: &slices,
        dont_fragment: true,
        token: 0,
    };
    from.transmit(NOW, &transmit).unwrap()
}

/// Receives `count` datagrams, waiting for them.
fn receive(at: &mut dyn Backend, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut got = Vec::new();
    while got.len() < count {
        let filled = at.receive(NOW, 64).unwrap();
        for index in 0..filled {
            let received = at.received(index);
            got.extend(
                received
                    .data
                    .to_vec()
                    .chunks(received.stride)
                    .map(|datagram| (received.source, datagram.to_vec())),
            );
        }
        if filled == 0 {
            assert_eq!(
                at.wait(Some(LONG)).unwrap(),
                Wake::Readable,
                "{} of {count} came",
                got.len()
            );
        }
    }
    got
}

/// Bytes that tell their place.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[test]
fn a_lone_datagram_arrives_with_its_source() {
    each(|kind| {
        let (mut a, mut b) = kind.pair();
        for len in [1, 2, 40, 1472, 2048, 2049, 9000] {
            let data = pattern(len);
            assert_eq!(send(&mut a, b.local_addr(), len, &[&data]), Sent::All);
            assert_eq!(receive(&mut b, 1), [(a.local_addr(), data)]);
        }
        assert_eq!(b.receive(NOW, 64).unwrap(), 0);
        assert_eq!((a.stats().datagrams_sent, b.stats().datagrams_received), (7, 7));
        assert_eq!(a.stats().bytes_sent, b.stats().bytes_received);
    });
}

#[test]
fn the_largest_datagram_arrives_and_a_larger_is_dropped() {
    each(|kind| {
        let (mut a, mut b) = kind.pair();
        let max = a.capabilities().max_datagram;
        let data = pattern(max + 1);
        assert_eq!(send(&mut a, b.local_addr(), max + 1, &[&data]), Sent::Dropped);
        assert_eq!(send(&mut a, b.local_addr(), max, &[&data[..max]]), Sent::All);
        assert_eq!(receive(&mut b, 1), [(a.local_addr(), data[..max].to_vec())]);
        assert_eq!(a.stats().dropped, 1);
    });
}

#[test]
fn a_smaller_mtu_can_be_played() {
    each(|kind| {
        let mut a = (kind.bind)(kind.any(), Some(1472)).unwrap();
        let mut b = kind.make();
        assert_eq!(a.capabilities().max_datagram, 1472);
        assert_eq!(send(&mut a, b.local_addr(), 1473, &[&[7; 1473]]), Sent::Dropped);
        assert_eq!(send(&mut a, b.local_addr(), 1472, &[&[7; 2000]]), Sent::All);
        let lens: Vec<usize> = receive(&mut b, 2).iter().map(|(_, data)| data.len()).collect();
        assert_eq!(lens, [1472, 528]);
    });
}

#[test]
fn gathered_slices_become_datagrams_with_borders_of_their_own() {
    each(|kind| {
        let (mut a, mut b) = kind.pair();
        let data = pattern(10_000);
        // Slice borders before, on and after datagram borders; an empty slice; a short last datagram.
        let parts = [
            &data[..40],
            &data[40..1000],
            &[],
            &data[1000..1001],
            &data[1001..9999],
            &data[9999..],
        ];
        assert_eq!(send(&mut a, b.local_addr(), 1000, &parts), Sent::All);
        assert_eq!(send(&mut a, b.local_addr(), 3000, &parts), Sent::All);
        let expected: Vec<_> = data
            .chunks(1000)
            .chain(data.chunks(3000))
            .map(|part| (a.local_addr(), part.to_vec()))
            .collect();
        assert_eq!(receive(&mut b, expected.len()), expected);
    });
}

#[test]
fn the_largest_burst_arrives_whole() {
    each(|kind| {
        let (mut a, mut b) = kind.pair();
        let can = a.capabilities();
        for segment_size in [1, 100, can.max_batch / 2, can.max_batch / 3 + 1] {
            let len = (segment_size * can.max_segments).min(can.max_batch);
            let data = pattern(len);
            assert_eq!(
                send(&mut a, b.local_addr(), segment_size, &[&data]),
                Sent::All,
                "{segment_size}"
            );
            let got: Vec<u8> = receive(&mut b, len.div_ceil(segment_size))
                .into_iter()
                .flat_map(|(_, data)| data)
                .collect();
            assert!(got == data, "{segment_size} x {}", can.max_segments);
        }
        assert_eq!(a.stats().segmentation_refused, 0);
    });
}

#[test]
fn bulk_arrives_in_order_with_every_border() {
    each(|kind| {
        let (mut a, mut b) = kind.pair();
        // Changes between single datagrams and bursts, so that receive offload goes on and off meanwhile.
        for round in 0..40_usize {
            let segments = if round % 20 < 10 { 32 } else { 1 };
            let mut expected = Vec::new();
            for burst in 0..8 {
                let data = pattern(segments * 500 - burst);
                assert_eq!(send(&mut a, b.local_addr(), 500, &[&data]), Sent::All);
                expected.extend(data.chunks(500).map(|part| (a.local_addr(), part.to_vec())));
            }
            assert!(receive(&mut b, expected.len()) == expected, "round {round}");
            assert_eq!(b.receive(NOW, 1).unwrap(), 0);
            if segments == 1 {
                for _ in 0..30 {
                    send(&mut a, b.local_addr(), 1, &[b"x"]);
                    assert_eq!(receive(&mut b, 1).len(), 1);
                    assert_eq!(b.receive(NOW, 1).unwrap(), 0);
                }
            }
        }
    });
}

#[test]
fn budget_bounds_a_receive() {
    each(|kind| {
        let (mut a, mut b) = kind.pair();
        for at in 0..20 {
            send(&mut a, b.local_addr(), 1, &[&[at]]);
        }
        assert_eq!(b.receive(NOW, 0).unwrap(), 0);
        for _ in 0..4 {
            assert!(b.receive(NOW, 2).unwrap() <= 2);
        }
    });
}

#[test]
fn data_can_be_changed_in_place() {
    each(|kind| {
        let (mut a, mut b) = kind.pair();
        send(&mut a, b.local_addr(), 4, &[b"abcd"]);
        while b.receive(NOW, 1).unwrap() == 0 {
            b.wait(Some(LONG)).unwrap();
        }
        b.received(0).data.own().unwrap().reverse();
        assert_eq!(b.received(0).data.to_vec(), b"dcba");
    });
}

#[test]
fn wait_times_out_and_wakes() {
    each(|kind| {
        let (mut a, mut b) = kind.pair();
        assert_eq!(b.wait(Some(Duration::ZERO)).unwrap(), Wake::TimedOut);
        assert_eq!(b.wait(Some(Duration::from_millis(1))).unwrap(), Wake::TimedOut);
        let to = b.local_addr();
        // Something already there.
        send(&mut a, to, 1, &[b"x"]);
        assert_eq!(b.wait(None).unwrap(), Wake::Readable);
        assert_eq!(receive(&mut b, 1).len(), 1);
        // Something from another thread, many times, so that each order of sending and falling asleep occurs.
        let back = a.local_addr();
        let echo = std::thread::spawn(move || {
            for _ in 0..300 {
                receive(&mut b, 1);
                send(&mut b, back, 1, &[b"y"]);
            }
        });
        for _ in 0..300 {
            send(&mut a, to, 1, &[b"x"]);
            while a.receive(NOW, 1).unwrap() == 0 {
                a.wait(None).unwrap();
            }
        }
        echo.join().unwrap();
    });
}

#[test]
fn many_senders_reach_one_receiver() {
    each(|kind| {
        let mut hub = kind.make();
        let to = hub.local_addr();
        let senders: Vec<_> = (0..4_u8)
            .map(|id| {
                let mut sender = kind.make();
                std::thread::spawn(move || {
                    for at in 0..100_u8 {
                        assert_eq!(send(&mut sender, to, 2, &[&[id, at]]), Sent::All);
                    }
                    // Kept until all is done, so that nobody else gets its address.
                    sender
                })
            })
            .collect();
        let got = receive(&mut hub, 400);
        let senders: Vec<_> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        for (id, sender) in senders.iter().enumerate() {
            let addr = sender.local_addr();
            let from: Vec<u8> = got
                .iter()
                .filter(|(source, _)| *source == addr)
                .map(|(_, data)| data[1])
                .collect();
            assert_eq!(from, (0..100).collect::<Vec<u8>>(), "sender {id}");
        }
    });
}

#[test]
fn an_address_is_taken_until_its_backend_is_dropped() {
    each(|kind| {
        let Some(kind) = kind.alone("127.0.7.1") else {
            return;
        };
        let a = kind.make();
        let addr = a.local_addr();
        assert_ne!(addr.port(), 0);
        assert_eq!((kind.bind)(addr, None).err().unwrap().kind(), io::ErrorKind::AddrInUse);
        drop(a);
        assert_eq!((kind.bind)(addr, None).unwrap().local_addr(), addr);
    });
}

#[test]
fn a_vanished_peer_is_reported_and_others_still_work() {
    each(|kind| {
        let Some(kind) = kind.alone("127.0.7.2") else {
            return;
        };
        let (mut a, mut b) = kind.pair();
        let gone = kind.make();
        let addr = gone.local_addr();
        send(&mut a, addr, 1, &[b"x"]);
        drop(gone);
        for _ in 0..3 {
            assert_ne!(send(&mut a, addr, 1, &[b"x"]), Sent::Busy);
            // The refusal is waiting now; it must not hit the next datagram to another.
            assert_eq!(send(&mut a, b.local_addr(), 1, &[b"y"]), Sent::All);
        }
        assert_eq!(receive(&mut b, 3).len(), 3);
        let reported = loop {
            assert_eq!(a.receive(NOW, 64).unwrap(), 0);
            let mut reported = None;
            a.poll_notices(&mut |notice| match notice {
                Notice::Unreachable(Unreachable { address, quoted }) => reported = Some((address, quoted.to_vec())),
                Notice::Released(_) => panic!("{notice:?}"),
            });
            if let Some(reported) = reported {
                break reported;
            }
            assert_eq!(a.wait(Some(LONG)).unwrap(), Wake::Readable);
        };
        assert_eq!(reported, (addr, b"x".to_vec()), "where, and what was sent there");
        // It comes back at the same address.
        let mut again = (kind.bind)(addr, None).unwrap();
        assert_eq!(send(&mut a, addr, 1, &[b"z"]), Sent::All);
        assert_eq!(receive(&mut again, 1), [(a.local_addr(), b"z".to_vec())]);
    });
}

#[test]
fn loopback_drops_or_says_busy_when_the_receiver_is_behind() {
    for busy_when_full in [false, true] {
        let options = LoopbackOptions {
            busy_when_full,
            ..LoopbackOptions::default()
        };
        let mut a = LoopbackBackend::bind_with(LOOPBACK.any(), options).unwrap();
        let mut b = LOOPBACK.make();
        let to = b.local_addr();
        let taken = (0..).take_while(|_| send(&mut a, to, 1, &[b"x"]) == Sent::All).count();
        assert!((64..100_000).contains(&taken), "{taken}");
        let after = send(&mut a, to, 1, &[b"x"]);
        let stats = a.stats();
        if busy_when_full {
            assert_eq!((after, stats.busy, stats.dropped), (Sent::Busy, 2, 0));
        } else {
            assert_eq!((after, stats.busy, stats.dropped), (Sent::Dropped, 0, 2));
        }
        assert_eq!(receive(&mut b, taken).len(), taken);
        assert_eq!(b.receive(NOW, 1).unwrap(), 0);
        assert_eq!(send(&mut a, to, 1, &[b"x"]), Sent::All);
    }
}

#[cfg(all(feature = "udp", target_os = "linux"))]
#[test]
fn udp_drops_what_is_for_the_other_family() {
    let mut a = udp::V4.make();
    assert_eq!(send(&mut a, "[::1]:9".parse().unwrap(), 1, &[b"x"]), Sent::Dropped);
}

#[cfg(all(feature = "udp", target_os = "linux"))]
#[test]
fn udp_fragments_when_allowed() {
    use std::os::fd::AsFd as _;
    let mut a = (udp::V4.bind)(udp::V4.any(), Some(1000)).unwrap();
    let mut b = udp::V4.make();
    let data = pattern(5000);
    let slices = [IoSlice::new(&data)];
    let mut transmit = Transmit {
        destination: b.local_addr(),
        port: 0,
        segment_size: 2000,
        len: 5000,
        slices: &slices,
        dont_fragment: true,
        token: 0,
    };
    assert_eq!(a.transmit(NOW, &transmit).unwrap(), Sent::Dropped);
    transmit.dont_fragment = false;
    assert_eq!(a.transmit(NOW, &transmit).unwrap(), Sent::All);
    let got = receive(&mut b, 3);
    assert_eq!(
        got.iter().map(|(_, data)| data.len()).collect::<Vec<_>>(),
        [2000, 2000, 1000]
    );
    assert!(a.as_fd().unwrap().as_fd().try_clone_to_owned().is_ok());
}

#[cfg(all(feature = "udp", target_os = "linux"))]
#[test]
fn udp_can_send_from_a_port_of_its_own() {
    use hikyaku::backends::udp::{UdpBackend, UdpOptions};
    let options = UdpOptions {
        separate_send_socket: true,
        ..UdpOptions::default()
    };
    let mut a = UdpBackend::bind_with(udp::V4.any(), &options).unwrap();
    let mut b = udp::V4.make();
    assert_ne!(a.send_addr(), a.local_addr());
    assert_eq!(send(&mut a, b.local_addr(), 1, &[b"x"]), Sent::All);
    assert_eq!(receive(&mut b, 1)[0].0, a.send_addr());
    assert_eq!(send(&mut b, a.local_addr(), 1, &[b"y"]), Sent::All);
    assert_eq!(receive(&mut a, 1), [(b.local_addr(), b"y".to_vec())]);
}

#[cfg(all(feature = "udp", target_os = "linux"))]
#[test]
fn udp_ignores_empty_datagrams() {
    let mut a = udp::V4.make();
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(&[], a.local_addr()).unwrap();
    stranger.send_to(b"x", a.local_addr()).unwrap();
    assert_eq!(receive(&mut a, 1), [(stranger.local_addr().unwrap(), b"x".to_vec())]);
}

#[cfg(all(feature = "udp", target_os = "linux"))]
#[test]
fn udp_says_what_buffer_the_kernel_gave() {
    use hikyaku::backends::udp::{UdpBackend, UdpOptions};
    let with = |receive_buffer| {
        let options = UdpOptions {
            receive_buffer,
            ..UdpOptions::default()
        };
        UdpBackend::bind_with(udp::V4.any(), &options)
            .unwrap()
            .capabilities()
            .receive_buffer
    };
    assert_eq!(with(64 << 10), 64 << 10);
    assert!(with(4 << 20) >= 64 << 10);
}
