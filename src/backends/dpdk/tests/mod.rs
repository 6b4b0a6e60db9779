//! Tests of the backend on a ring device, which returns every frame sent to it: any frame that a wire could bring.

mod sharing;
mod single;
mod steering;

use std::{io::IoSlice, net::Ipv4Addr};

use super::{
    ethernet::{IPV4, Mac, complement, sum},
    frame::{Template, UdpChecksum},
    *,
};

/// Bytes before the payload of a datagram.
const HEADERS: usize = ETHERNET + IPV4 + 8;

const US: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)), 4000);
const OTHER: Host = Host {
    mac: [2, 0, 0, 0, 0, 9],
    addr: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 9)), 5000),
};

fn options(device: &str) -> DpdkOptions {
    DpdkOptions {
        memory: Memory::NoHuge,
        descriptors: Some(64),
        link_timeout: Duration::ZERO,
        ..DpdkOptions::new(Device::parse(device).unwrap())
    }
}

/// Starts DPDK as the first port of a process does.
pub(super) fn start() {
    eal::start(&options("ring")).unwrap();
}

/// A backend on a ring, after it has received the frame that opening has sent.
fn ring() -> DpdkBackend {
    let mut backend = DpdkBackend::bind(US, &options("ring")).unwrap();
    assert_eq!(backend.receive(Instant::ZERO, 1).unwrap(), 0);
    backend
}

/// Puts `frame` into the ring as if it came from a wire.
fn inject(backend: &mut DpdkBackend, frame: &[u8]) {
    let mut one = Burst::new();
    assert!(backend.port.shared.pools.send.take(1, frame.len(), &mut one));
    one.for_each(|_, packet| packet.data_mut().copy_from_slice(frame));
    assert_eq!(backend.queues[0].send(&mut one), 1);
}

/// A datagram of `OTHER` to `backend`.
fn datagram(backend: &DpdkBackend, payload: &[u8], checksum: UdpChecksum) -> Vec<u8> {
    let mut frame = vec![0; HEADERS];
    frame.extend_from_slice(payload);
    let template = Template::new(&OTHER, backend.mac(), backend.host.addr.ip());
    let ports = [OTHER.addr.port(), backend.host.addr.port()];
    template.headers(frame.len(), ports, checksum).write(&mut frame, 1);
    frame
}

fn transmit(backend: &mut DpdkBackend, to: SocketAddr, segment_size: usize, slices: &[&[u8]]) -> Sent {
    let slices: Vec<_> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
    let transmit = Transmit {
        destination: to,
        port: 0,
        segment_size,
        len: slices.iter().map(|slice| slice.len()).sum(),
        slices: &slices,
        dont_fragment: true,
        token: 0,
    };
    backend.transmit(Instant::ZERO, &transmit).unwrap()
}

/// The answer that tells `backend` the Ethernet address of `OTHER`.
fn reply_of_other(backend: &DpdkBackend) -> Vec<u8> {
    let question = Notice {
        is_request: true,
        sender: backend.host.addr.ip(),
        sender_mac: Some(backend.mac()),
        target: OTHER.addr.ip(),
    };
    discovery::answer(OTHER.mac, OTHER.addr.ip(), &question, backend.mac()).unwrap()
}

/// Drops a backend, and checks that all buffers are back in their pools.
fn end(backend: DpdkBackend) {
    let pools = backend.pools();
    drop(backend);
    assert_eq!((pools.receive().in_use, pools.send().in_use), (0, 0), "{pools:?}");
}

#[test]
fn what_is_no_datagram_for_us_is_counted_and_its_buffer_comes_back() {
    let mut backend = ring();
    let good = datagram(&backend, b"payload", UdpChecksum::Software);
    let changed = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    let mut frames = vec![
        good[..20].to_vec(),
        changed(12, 0x81),
        changed(12, 0x86),
        changed(5, 0x77),
    ];
    // These changes make the checksums wrong, so the frames are counted as damaged.
    frames.extend([changed(HEADERS, b'P'), changed(ETHERNET + 6, 0x20)]);
    frames.extend([good[..HEADERS + 3].to_vec(), vec![0; 60]]);
    for frame in &frames {
        inject(&mut backend, frame);
    }
    let empty = datagram(&backend, b"", UdpChecksum::Absent);
    inject(&mut backend, &empty);
    inject(&mut backend, &good);
    assert_eq!(backend.receive(Instant::ZERO, 4).unwrap(), 1);
    assert_eq!(backend.received(0).data.to_vec(), b"payload");
    assert_eq!(backend.received(0).source, OTHER.addr);
    assert_eq!(backend.receive(Instant::ZERO, 4).unwrap(), 0);
    let stats = backend.dpdk_stats();
    let counted = (
        stats.malformed,
        stats.vlan,
        // The ring's own address is all zeros, and so is the destination of the last frame.
        stats.other_protocol,
        stats.not_ours,
        stats.bad_checksum,
    );
    assert_eq!(counted, (2, 1, 2, 1, 2), "{stats:?}");
    assert_eq!(backend.stats().datagrams_received, 1);
    end(backend);
}

/// Frames of both versions of IP. Each has exactly one defect, which its counter must count.
#[test]
fn each_layer_has_its_counter() {
    for [ip, other] in [["10.77.0.1", "10.77.0.9"], ["fd77::1", "fd77::9"]] {
        let mut backend = DpdkBackend::bind(SocketAddr::new(ip.parse().unwrap(), 4000), &options("ring")).unwrap();
        assert_eq!(backend.receive(Instant::ZERO, 1).unwrap(), 0);
        let other = Host {
            addr: SocketAddr::new(other.parse().unwrap(), 5000),
            ..OTHER
        };
        let us = backend.host;
        let frame = |to: SocketAddr| {
            let mut frame = vec![0; other.headers()];
            frame.extend_from_slice(b"payload");
            let template = Template::new(&other, us.mac, to.ip());
            let headers = template.headers(frame.len(), [5000, to.port()], UdpChecksum::Software);
            headers.write(&mut frame, 1);
            frame
        };
        let good = frame(us.addr);
        let other_port = frame(SocketAddr::new(us.addr.ip(), 4001));
        let other_host = frame(other.addr);
        let mut fragment = good.clone();
        let mut short = good.clone();
        if us.addr.is_ipv4() {
            fragment[ETHERNET + 6] = 0x20;
            // The checksum is corrected: it is not the defect.
            fragment[ETHERNET + 10..ETHERNET + 12].fill(0);
            let sum = complement(sum(&fragment[ETHERNET..ETHERNET + IPV4]));
            fragment[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum);
        } else {
            fragment[ETHERNET + 6] = 44;
        }
        short.truncate(good.len() - 1);
        let mut damaged = good.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let mut tagged = good.clone();
        tagged[12..14].copy_from_slice(&[0x88, 0xa8]);
        for frame in [&other_port, &other_host, &fragment, &short, &damaged, &tagged, &good] {
            inject(&mut backend, frame);
        }
        assert_eq!(backend.receive(Instant::ZERO, 9).unwrap(), 1);
        assert_eq!(backend.received(0).data.to_vec(), b"payload");
        let stats = backend.dpdk_stats();
        let counted = (
            stats.not_ours,
            stats.fragments,
            stats.malformed,
            stats.bad_checksum,
            stats.vlan,
        );
        assert_eq!(counted, (2, 1, 1, 1, 1), "{stats:?}");
        end(backend);
    }
}

/// A frame in several buffers is larger than this end accepts.
#[test]
fn frames_that_fill_more_than_one_buffer_are_counted() {
    let mut backend = ring();
    let frame = datagram(&backend, &[1; 3000], UdpChecksum::Absent);
    let attached = Attached::new();
    attached.scope(|scope| {
        let mut one = Burst::new();
        let pool = Arc::clone(&backend.port.shared.pools.send);
        assert!(pool.take(1, 1000, &mut one));
        one.for_each(|_, packet| {
            packet.data_mut().copy_from_slice(&frame[..1000]);
            assert!(scope.attach(packet, &pool, Span::new(&frame[1000..])));
        });
        assert_eq!(backend.queues[0].send(&mut one), 1);
        assert_eq!(backend.receive(Instant::ZERO, 1).unwrap(), 0);
    });
    assert_eq!(backend.dpdk_stats().oversized, 1);
    end(backend);
}

/// Takes all free buffers of a pool.
fn take_all(pool: &Pool) -> Vec<Burst> {
    let mut all = Vec::new();
    loop {
        let mut burst = Burst::new();
        if !pool.take(1, 100, &mut burst) {
            return all;
        }
        all.push(burst);
    }
}

/// A sender without buffers gets [`Sent::Busy`], and can send again when the pool has buffers again.
#[test]
fn an_exhausted_pool_is_busy_until_buffers_come_back() {
    let mut backend = ring();
    introduce(&mut backend);
    let mut all = take_all(&backend.port.shared.pools.send);
    let busy = backend.stats().busy;
    assert_eq!(transmit(&mut backend, OTHER.addr, 4, &[b"more"]), Sent::Busy);
    assert_eq!(backend.stats().busy, busy + 1);
    // Receiving has a pool of its own. Answers that cannot be sent are lost.
    let question = discovery::ask(&OTHER, US.ip());
    assert_eq!(backend.receive(Instant::ZERO, 1).unwrap(), 0);
    all.pop();
    inject(&mut backend, &question);
    assert_eq!(backend.receive(Instant::ZERO, 1).unwrap(), 0);
    assert_eq!(backend.dpdk_stats().neighbours_answered, 1);
    drop(all);
    assert_eq!(transmit(&mut backend, OTHER.addr, 4, &[b"more"]), Sent::All);
    while backend.stage() {
        backend.staged.clear();
    }
    end(backend);
}

#[test]
fn datagrams_wait_for_the_address_and_go_when_it_is_told() {
    let mut backend = ring();
    let to = OTHER.addr;
    // The slices and the datagrams have different boundaries.
    let slices: [&[u8]; 4] = [&[1; 150], &[], &[2; 40], &[3; 60]];
    assert_eq!(transmit(&mut backend, to, 100, &slices), Sent::All);
    assert_eq!(backend.dpdk_stats().neighbours_asked, 1);
    let asked = one_frame(&mut backend);
    assert_eq!(asked[12..14], [8, 6]);
    // More datagrams than may wait.
    for _ in 0..PARKED {
        assert_eq!(transmit(&mut backend, to, 10, &[&[4; 10]]), Sent::All);
    }
    assert_eq!(backend.dpdk_stats().unresolved, 3);
    assert_eq!(backend.dpdk_stats().neighbours_asked, 1);
    let reply = reply_of_other(&backend);
    inject(&mut backend, &reply);
    look_at_next(&mut backend);
    for _ in 0..PARKED {
        let frame = one_frame(&mut backend);
        assert_eq!((frame[..6].to_vec(), frame.len()), (OTHER.mac.to_vec(), HEADERS + 10));
    }
    // The address is known now.
    assert_eq!(transmit(&mut backend, to, 100, &slices), Sent::All);
    let all: Vec<u8> = slices.concat();
    for datagram in all.chunks(100) {
        let frame = one_frame(&mut backend);
        assert_eq!(&frame[HEADERS..], datagram);
    }
    end(backend);
}

/// Reads the next frame as receiving does, and no further frame: receiving would also find the frames sent in answer.
fn look_at_next(backend: &mut DpdkBackend) {
    if backend.staged.is_empty() {
        backend.stage();
    }
    assert!(backend.look(Instant::ZERO), "a frame");
}

/// The next frame on the ring.
fn one_frame(backend: &mut DpdkBackend) -> Vec<u8> {
    if backend.staged.is_empty() {
        backend.stage();
    }
    backend.staged.pop().expect("a frame").data().to_vec()
}

/// Makes the address of `OTHER` known to `backend`.
fn introduce(backend: &mut DpdkBackend) {
    let mac: Mac = OTHER.mac;
    assert_eq!(transmit(backend, OTHER.addr, 1, &[b"?"]), Sent::All);
    let reply = reply_of_other(backend);
    inject(backend, &reply);
    // The first frame is the request, the second the answer.
    look_at_next(backend);
    look_at_next(backend);
    assert_eq!(one_frame(backend)[..6], mac);
}

#[test]
fn a_full_port_is_busy_and_a_stuck_one_loses() {
    let mut backend = ring();
    introduce(&mut backend);
    let to = OTHER.addr;
    let mut results = Vec::new();
    for _ in 0..100_000 {
        results.push(transmit(&mut backend, to, 1000, &[&[7; 1000]]));
        if results.last() == Some(&Sent::Busy) {
            break;
        }
    }
    let taken = results.len() - 1;
    assert!(taken > 0 && results[..taken].iter().all(|sent| *sent == Sent::All));
    let later = Instant::from_nanos(STUCK);
    let slices = [IoSlice::new(b"more")];
    let more = Transmit {
        destination: to,
        port: 0,
        segment_size: 4,
        len: 4,
        slices: &slices,
        dont_fragment: true,
        token: 0,
    };
    // Either buffers or room in the queue are lacking, and both come back.
    let sent = backend.transmit(later, &more).unwrap();
    assert!(sent == Sent::Dropped || sent == Sent::Busy, "{sent:?}");
    while backend.stage() {
        backend.staged.clear();
    }
    assert_eq!(backend.transmit(later, &more).unwrap(), Sent::All);
    // A ring keeps the frames that were not received, even when it is closed.
    assert_eq!(one_frame(&mut backend).len(), HEADERS + 4);
    end(backend);
}

#[test]
fn what_can_not_be_sent_is_dropped() {
    let mut backend = ring();
    introduce(&mut backend);
    let to = OTHER.addr;
    let most = backend.capabilities().max_datagram;
    assert_eq!(most, 16_000 - OTHER.overhead());
    let large = vec![1; most + 1];
    assert_eq!(transmit(&mut backend, to, most + 1, &[&large]), Sent::Dropped);
    assert_eq!(transmit(&mut backend, to, 1, &[&[0; BURST + 1]]), Sent::Dropped);
    assert_eq!(
        transmit(&mut backend, "[::1]:9".parse().unwrap(), 4, &[&[0; 4]]),
        Sent::Dropped
    );
    assert_eq!(transmit(&mut backend, to, most, &[&large[1..]]), Sent::All);
    assert_eq!(one_frame(&mut backend).len(), HEADERS + most);
    assert_eq!((backend.stats().dropped, backend.stats().datagrams_sent), (3, 2));
    end(backend);
}

#[test]
fn wrong_devices_and_addresses_are_errors_that_help() {
    let failure = |device: &str| DpdkBackend::bind(US, &options(device)).err().unwrap();
    let error = failure("net_pigeon0");
    assert!(matches!(error, DpdkError::Device { .. }), "{error}");
    let error = failure("af_packet:iface=no-such-iface");
    assert!(error.to_string().contains("root"), "{error}");
    let error = failure("memif:socket=/tmp/hikyaku-no-such-socket,role=client");
    assert!(matches!(error, DpdkError::Port { doing: "starting", .. }), "{error}");
    assert!(error.to_string().contains("server"), "{error}");
    let error = failure("port:0000:99:00.0");
    assert!(error.to_string().contains("0000:99:00.0"), "{error}");
    let error = DpdkBackend::bind(
        US,
        &DpdkOptions {
            memory_mb: 64,
            ..options("ring")
        },
    )
    .err()
    .unwrap();
    assert!(matches!(error, DpdkError::Started { .. }), "{error}");
    for addr in ["224.0.0.1:1", "255.255.255.255:1", "[fe80::1]:1"] {
        let error = DpdkBackend::bind(addr.parse().unwrap(), &options("ring"))
            .err()
            .unwrap();
        assert!(matches!(error, DpdkError::Address { .. }), "{error}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
    }
    let huge = DpdkOptions {
        descriptors: Some(16_384),
        mtu: Some(16_000),
        ..options("ring")
    };
    let error = DpdkBackend::bind(US, &huge).err().unwrap();
    assert!(matches!(error, DpdkError::Pool { .. }), "{error}");
    // None of the failed calls has left anything behind.
    end(ring());
}
