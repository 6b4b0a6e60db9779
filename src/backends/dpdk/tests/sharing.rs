//! Tests of several backends on one port: over both ends of a memif in this process, and on devices that only report
//! queues.

use std::{
    env,
    path::PathBuf,
    process,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
};

use super::{
    super::sys::{Port, Setup},
    *,
};

fn socket() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    env::temp_dir().join(format!("hikyaku-sharing-{}-{number}", process::id()))
}

/// Both ends of a link, the client first: the client can send before the server has received.
fn link(queues: u16, own_queues: u16) -> [DpdkPort; 2] {
    link_of(1500, queues, own_queues)
}

fn link_of(mtu: u16, queues: u16, own_queues: u16) -> [DpdkPort; 2] {
    let socket = socket();
    let [server, client] = ["server", "client"].map(|role| {
        let device = format!("memif:socket={},role={role}", socket.display());
        DpdkPort::open(&DpdkOptions {
            queues,
            own_queues,
            link_timeout: Duration::from_secs(5),
            mtu: Some(mtu),
            ..options(&device)
        })
        .unwrap_or_else(|error| panic!("{error}"))
    });
    // The server is told of its client a little later.
    while !(server.is_up() && client.is_up()) {
        thread::yield_now();
    }
    [client, server]
}

pub(super) fn at(end: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1 + end)), port)
}

/// A backend that knows the Ethernet address of the port at the other end.
fn backend(ports: &[DpdkPort; 2], end: u8, port: u16, queues: u16) -> DpdkBackend {
    let mut backend = ports[usize::from(end)].bind(at(end, port), queues).unwrap();
    backend.add_neighbour(at(1 - end, 0).ip(), ports[usize::from(1 - end)].mac());
    backend
}

fn all_back(ports: [DpdkPort; 2]) {
    let pools = ports.each_ref().map(DpdkPort::pools);
    drop(ports);
    for pools in pools {
        assert_eq!((pools.receive().in_use, pools.send().in_use), (0, 0), "{pools:?}");
    }
}

/// The second end is closed while DPDK's own thread is told that the first one is gone.
#[test]
fn both_ends_of_a_memif_close_one_after_the_other() {
    for round in 0..40 {
        let [client, server] = link(1, 0);
        let pools = [client.pools(), server.pools()];
        let (first, second) = if round % 2 == 0 {
            (client, server)
        } else {
            (server, client)
        };
        drop(first);
        drop(second);
        for pools in pools {
            assert_eq!((pools.receive().in_use, pools.send().in_use), (0, 0), "{pools:?}");
        }
    }
}

/// A server's socket exists before the server is started. A client cannot tell that from a server with another id.
#[test]
fn a_memif_client_that_is_refused_tries_again() {
    let socket = socket();
    let end = |role: &str, id: u32| options(&format!("memif:socket={},role={role},id={id}", socket.display()));
    let other = DpdkPort::open(&end("server", 1)).unwrap();
    let error = DpdkPort::open(&end("client", 0)).unwrap_err().to_string();
    assert!(
        error.contains("joining the other end") && error.contains("same id"),
        "{error}"
    );

    let (client, mtu, descriptors) = (end("client", 0), 1500, 64);
    let (device, arguments) = client.device.words(sys::unique(), mtu, descriptors, 1);
    let [receive, send] = [(); 2].map(|()| Pool::new(255, 2048).unwrap());
    let setup = Setup {
        device: &device,
        arguments: Some(&arguments),
        mtu,
        descriptors,
        queues: 1,
        burst: BURST,
        spread: 1,
        offload: false,
        segments: false,
        joins: true,
        receive,
        send,
        guests: Vec::new(),
    };
    let mut server = None;
    let opened = Port::open(&setup, &mut || {
        server.get_or_insert_with(|| DpdkPort::open(&end("server", 0)).unwrap());
        true
    });
    assert!(opened.unwrap().port.is_up());
    assert!(!other.is_up() && server.is_some());
}

/// Receives everything that has arrived.
pub(super) fn drain(backend: &mut DpdkBackend) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut empty = 0;
    while empty < 50 {
        let count = backend.receive(Instant::ZERO, BURST).unwrap();
        empty = if count > 0 { 0 } else { empty + 1 };
        all.extend((0..count).map(|index| backend.received(index).data.to_vec()));
    }
    all
}

#[test]
fn whoever_finds_a_datagram_hands_it_to_whom_it_is_for() {
    let ports = link(2, 1);
    let mut asks = [backend(&ports, 0, 1, 1), backend(&ports, 0, 2, 1)];
    let mut answers = [backend(&ports, 1, 1, 1), backend(&ports, 1, 2, 1)];
    assert_eq!(ports[0].free_queues(), [0, 1]);
    assert_eq!(answers[0].steering(), Steering::Software);
    // Crosswise, so that each datagram lies in the queue of the other backend.
    for (from, to) in [(0, 2_u16), (1, 1)] {
        assert_eq!(transmit(&mut asks[from], at(1, to), 4, &[&[to as u8; 4]]), Sent::All);
    }
    assert_eq!(drain(&mut answers[0]), [[1; 4]]);
    let found = answers[1].dpdk_stats().handed_over;
    assert_eq!(drain(&mut answers[1]), [[2; 4]]);
    assert_eq!(
        answers[0].dpdk_stats().handed_over,
        0,
        "it looked into all queues itself"
    );
    assert_eq!(found, 1);
    // A reply to the port that the datagram came from, over an own queue.
    assert!(asks.iter_mut().all(|asks| drain(asks).is_empty()));
    let mut own = ports[1].bind_own(at(1, 9)).unwrap();
    own.add_neighbour(at(0, 0).ip(), ports[0].mac());
    assert_eq!(transmit(&mut own, at(0, 1), 4, &[b"back"]), Sent::All);
    assert_eq!(drain(&mut asks[0]), [b"back"]);
    assert_eq!(asks[0].dpdk_stats().not_ours, 0);
    // A datagram to an address that no backend has.
    assert_eq!(transmit(&mut own, at(0, 3), 4, &[b"lost"]), Sent::All);
    assert!(drain(&mut asks[1]).is_empty());
    assert_eq!(asks[1].dpdk_stats().not_ours, 1);
    drop((own, asks, answers));
    all_back(ports);
}

#[test]
fn a_flood_to_one_takes_nothing_from_the_others() {
    let ports = link(2, 0);
    let mut sender = backend(&ports, 0, 1, 2);
    let flooded = backend(&ports, 1, 1, 1);
    let mut other = backend(&ports, 1, 2, 1);
    let share = ports[1].shared.share();
    let mut got = 0;
    for number in 0..20 * share {
        while transmit(&mut sender, at(1, 1), 100, &[&[0; 100]]) == Sent::Busy {
            got += drain(&mut other).len();
        }
        if number % share == 0 {
            while transmit(&mut sender, at(1, 2), 4, &[b"mine"]) == Sent::Busy {
                got += drain(&mut other).len();
            }
        }
        if number % 16 == 0 {
            got += drain(&mut other).len();
        }
    }
    got += drain(&mut other).len();
    assert_eq!(got, 20, "each has arrived, although its queues were flooded");
    let stats = flooded.dpdk_stats();
    assert_eq!(stats.handed_over, share as u64);
    assert_eq!(stats.overflows, (19 * share) as u64);
    drop((sender, flooded, other));
    all_back(ports);
}

/// Packets without a buffer wait in the ring. Sending has buffers of its own.
#[test]
fn an_exhausted_pool_for_receiving_stops_nothing_else() {
    let ports = link(1, 0);
    let mut sender = backend(&ports, 0, 1, 1);
    let mut receiver = backend(&ports, 1, 1, 1);
    // A client must receive once before its server can send.
    assert!(drain(&mut sender).is_empty());
    let all = take_all(&ports[1].shared.pools.receive);
    for _ in 0..10 {
        assert_eq!(transmit(&mut sender, at(1, 1), 4, &[b"here"]), Sent::All);
    }
    assert!(drain(&mut receiver).is_empty());
    assert_eq!(transmit(&mut receiver, at(0, 1), 4, &[b"back"]), Sent::All);
    assert_eq!(drain(&mut sender), [b"back"]);
    drop(all);
    assert_eq!(drain(&mut receiver), [b"here"; 10]);
    drop((sender, receiver));
    all_back(ports);
}

/// Pieces of all sizes, in bursts of all sizes, over a device that copies packets within the sending call.
#[test]
fn large_payload_is_sent_from_where_it_lies() {
    let ports = link_of(9000, 1, 0);
    let mut sender = backend(&ports, 0, 1, 1);
    let mut receiver = backend(&ports, 1, 1, 1);
    assert!(sender.attached.is_some());
    let bytes: Vec<u8> = (0..30_000_u32).map(|i| (i % 251) as u8).collect();
    let in_use = ports[0].pools().send().in_use;
    for segment in [2047, 2048, 4000, 8972] {
        for (head, middle) in [(0, 0), (40, 0), (40, 2000), (3, 5), (29_000, 10), (2048, 1)] {
            let (head, rest) = bytes.split_at(head);
            let (middle, rest) = rest.split_at(middle);
            assert_eq!(
                transmit(&mut sender, at(1, 1), segment, &[head, middle, &[], rest]),
                Sent::All
            );
            let got = drain(&mut receiver);
            let expected: Vec<&[u8]> = bytes.chunks(segment).collect();
            assert!(got == expected, "{segment} {} {}", head.len(), middle.len());
            assert_eq!(ports[0].pools().send().in_use, in_use);
        }
    }
    // A datagram that waits for its neighbour's Ethernet address is a copy.
    let stranger = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 99)), 1);
    assert_eq!(transmit(&mut sender, stranger, 8000, &[&bytes[..8000]]), Sent::All);
    // When the other end is gone, the buffers of packets that cannot be sent are given back.
    drop(receiver);
    let pools = ports.each_ref().map(DpdkPort::pools);
    let [client, server] = ports;
    drop(server);
    while client.is_up() {
        thread::yield_now();
    }
    for _ in 0..1000 {
        assert_ne!(transmit(&mut sender, at(1, 1), 8000, &[&bytes]), Sent::All);
    }
    drop((sender, client));
    for pools in pools {
        assert_eq!((pools.receive().in_use, pools.send().in_use), (0, 0), "{pools:?}");
    }
}

/// Prints the cost of a datagram that is copied, and of one that is sent by reference.
#[test]
#[ignore = "measures"]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn what_sending_from_where_it_lies_saves() {
    const ROUNDS: u32 = 2_000;
    let ports = link_of(9000, 1, 0);
    let mut sender = backend(&ports, 0, 1, 1);
    let mut receiver = backend(&ports, 1, 1, 1);
    let bytes = vec![7; BURST * 8972];
    let mut spent = |sender: &mut DpdkBackend, size: usize| {
        let mut spent = Duration::ZERO;
        for _ in 0..ROUNDS {
            let begin = std::time::Instant::now();
            assert_eq!(transmit(sender, at(1, 1), size, &[&bytes[..size * BURST]]), Sent::All);
            spent += begin.elapsed();
            let mut got = 0;
            while got < BURST {
                got += receiver.receive(Instant::ZERO, BURST).unwrap();
            }
        }
        spent.as_nanos() as f64 / f64::from(ROUNDS) / BURST as f64
    };
    println!("bytes  copied  attached (ns a datagram, bursts of {BURST})");
    for size in [1024, 1430, 2048, 4096, 8192, 8972] {
        let mut best = [f64::MAX; 2];
        for _ in 0..10 {
            let attached = sender.attached.take();
            best[0] = best[0].min(spent(&mut sender, size));
            sender.attached = attached;
            best[1] = best[1].min(spent(&mut sender, size));
        }
        println!("{size:6}  {:6.0}  {:8.0}", best[0], best[1]);
    }
}

#[test]
fn one_answers_for_all_and_all_hear_the_answer() {
    let ports = link(2, 0);
    let mut asks = ports[0].bind(at(0, 1), 2).unwrap();
    let six: SocketAddr = "[fd77::2]:7".parse().unwrap();
    // The first of the two does not receive; the second does, and has another address.
    let mut answers = [ports[1].bind(at(1, 1), 1).unwrap(), ports[1].bind(six, 1).unwrap()];
    drain(&mut answers[1]);
    drain(&mut asks);
    assert_eq!(transmit(&mut asks, at(1, 1), 4, &[b"wait"]), Sent::All);
    drain(&mut answers[1]);
    assert_eq!(answers[1].dpdk_stats().neighbours_answered, 1);
    // The answer releases the datagram that has waited.
    assert!(drain(&mut asks).is_empty());
    drain(&mut answers[1]);
    assert_eq!(answers[0].dpdk_stats().handed_over, 1);
    assert_eq!(drain(&mut answers[0]), [b"wait"]);
    // The backend requests the sender's Ethernet address only when it sends to it.
    assert_eq!(transmit(&mut answers[0], at(0, 1), 4, &[b"back"]), Sent::All);
    assert!(drain(&mut asks).is_empty());
    // The other backend finds the answer.
    drain(&mut answers[1]);
    assert!(drain(&mut answers[0]).is_empty());
    assert_eq!(drain(&mut asks), [b"back"]);
    drop((asks, answers));
    all_back(ports);
}

#[test]
fn backends_of_one_port_on_threads_of_their_own() {
    const COUNT: u32 = 5_000;
    let ports = link(3, 0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 1..=3_u16 {
            let (ports, done) = (&ports, &done);
            scope.spawn(move || {
                let mut echo = backend(ports, 1, number, 1);
                while !done.load(Ordering::Acquire) {
                    for index in 0..echo.receive(Instant::ZERO, BURST).unwrap() {
                        let (source, data) = (echo.received(index).source, echo.received(index).data.to_vec());
                        // A sender that has sent its request twice may be gone before the second answer.
                        while transmit(&mut echo, source, data.len(), &[&data]) == Sent::Busy
                            && !done.load(Ordering::Acquire)
                        {
                            thread::yield_now();
                        }
                    }
                    thread::yield_now();
                }
            });
        }
        let asking: Vec<_> = (1..=3_u16)
            .map(|number| {
                let ports = &ports;
                scope.spawn(move || {
                    let mut asks = backend(ports, 0, number, 1);
                    let mut next = 0_u32;
                    while next < COUNT {
                        let to = at(1, 1 + (number + next as u16) % 3);
                        while transmit(&mut asks, to, 4, &[&next.to_be_bytes()]) == Sent::Busy {}
                        // One request at a time, so nothing overflows. A request to a backend that does not exist yet
                        // is repeated.
                        let mut looks = 0;
                        while asks.receive(Instant::ZERO, 1).unwrap() == 0 && looks < 100_000 {
                            looks += 1;
                            thread::yield_now();
                        }
                        if looks < 100_000 {
                            let data = asks.received(0).data.to_vec();
                            assert!(data <= next.to_be_bytes().to_vec());
                            next += u32::from(data == next.to_be_bytes());
                        }
                    }
                })
            })
            .collect();
        let results: Vec<_> = asking.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Release);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    });
    all_back(ports);
}

#[test]
fn addresses_and_queues_are_given_out_once_and_come_back() {
    let ports = link(2, 0);
    let first = ports[0].bind(at(0, 1), 1).unwrap();
    let error = ports[0].bind(at(0, 1), 1).unwrap_err();
    assert!(matches!(error, DpdkError::AddressTaken { .. }), "{error}");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::AddrInUse);
    let error = ports[0].bind(at(0, 2), 2).unwrap_err();
    assert!(
        matches!(error, DpdkError::NoQueue { wanted: 2, left: 1, .. }),
        "{error}"
    );
    assert!(matches!(
        ports[0].bind_own(at(0, 2)),
        Err(DpdkError::NoQueue { left: 0, .. })
    ));
    let error = ports[0].bind("0.0.0.0:0".parse().unwrap(), 1).unwrap_err();
    assert!(matches!(error, DpdkError::Address { .. }), "{error}");
    let [any, another] = [at(0, 0), at(0, 0)].map(|addr| ports[0].bind(addr, 1).map(|one| one.local_addr()));
    assert!(any.unwrap().port() >= 49_152 && another.unwrap().port() >= 49_152);
    drop(first);
    assert_eq!(ports[0].free_queues(), [2, 0]);
    let both = ports[0].bind(at(0, 1), 2).unwrap();
    assert_eq!(both.capabilities().receive_buffer, 2 * 64 * (1500 - 28));
    drop(both);
    all_back(ports);
    let more = DpdkOptions {
        queues: 17,
        mtu: Some(1500),
        ..options("ring")
    };
    let error = DpdkPort::open(&more).unwrap_err();
    assert!(matches!(error, DpdkError::Queues { wanted: 17, .. }), "{error}");
    assert!(error.to_string().contains("HIKYAKU_DPDK_QUEUES"), "{error}");
}

/// `net_null` reports that it hashes, and keeps its table.
#[test]
fn hashes_choose_among_the_eager_queues() {
    let null = |queues, own_queues| {
        DpdkPort::open(&DpdkOptions {
            queues,
            own_queues,
            mtu: Some(1500),
            ..options("net_null,no-rx=1")
        })
        .unwrap()
    };
    let port = null(2, 2);
    assert!(port.hashes());
    assert_eq!((port.queues(), port.free_queues()), (4, [2, 2]));
    let table = port.spread();
    assert!(!table.is_empty() && table.iter().all(|queue| *queue < 2), "{table:?}");
    assert!(table.contains(&0) && table.contains(&1), "{table:?}");
    let pools = port.pools();
    drop(port);
    assert_eq!(pools.receive().in_use, 0);
    let port = null(1, 0);
    assert!(!port.hashes() && port.spread().is_empty());
}
