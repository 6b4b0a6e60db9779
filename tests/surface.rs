//! The surface of `Transport`: who may share it, time limits, descriptors, and messages of one peer.
#![cfg(all(feature = "udp", feature = "loopback", target_os = "linux"))]

use std::{io, os::fd::AsFd, thread, time::Duration};

use hikyaku::{
    Config, PeerId,
    backends::BindOptions,
    reliability::{Path, RailState},
    transport::{
        BackendError, BuildError, Builder, Event, FlushError, Guard, Incoming, Message, NoDescriptor, SharedTransport,
        Transport, WaitError,
    },
};
use rustix::event::{PollFd, PollFlags, poll};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(20);

/// Values that several threads may use, or that one thread may hand to another.
mod threads {
    use super::*;
    use hikyaku::{
        Stats,
        backends::{Backend, BackendStats, BindError},
        messaging::Messenger,
        progress::Driver,
        reliability::{Endpoint, LostMessages},
        wire::Header,
    };

    const fn can_move<T: Send>() {}
    const fn can_share<T: Send + Sync>() {}

    const _: () = {
        can_move::<Transport>();
        can_move::<Driver>();
        can_move::<Messenger>();
        can_move::<Endpoint>();
        can_move::<Box<dyn Backend>>();
        can_move::<Message<'static>>();
        can_move::<Incoming<'static>>();
        can_share::<SharedTransport>();
        can_share::<Builder>();
        can_share::<Config>();
        can_share::<PeerId>();
        can_share::<Event>();
        can_share::<Header>();
        can_share::<(Stats, BackendStats, LostMessages)>();
        can_share::<(BuildError, BindError, BackendError, WaitError, FlushError, NoDescriptor)>();
    };

    #[cfg(feature = "mpi")]
    const _: () = {
        use hikyaku::mpi::engine::{Communicator, Engine};
        can_share::<Engine>();
        can_share::<Communicator>();
    };

    #[cfg(feature = "tokio")]
    const _: () = can_move::<hikyaku::transport::AsyncTransport>();
}

fn end(processor: u32, config: &Config) -> Transport {
    let builder = Transport::builder().processor(processor).config(config.clone());
    builder.bind_udp("127.0.0.1:0").unwrap()
}

fn introduce(a: (&mut Transport, u32), b: (&mut Transport, u32)) -> (PeerId, PeerId) {
    let to_b = a.0.add_peer(b.0.local_addr(), b.1).unwrap();
    let to_a = b.0.add_peer(a.0.local_addr(), a.1).unwrap();
    (to_b, to_a)
}

/// A hub, and two others that know it: ((hub, its peers), (first, its peer), (second, its peer)).
#[expect(clippy::type_complexity, reason = "each with what it calls the others")]
fn star(config: &Config) -> ((Transport, [PeerId; 2]), [(Transport, PeerId); 2]) {
    let (mut hub, mut first, mut second) = (end(1, config), end(2, config), end(3, config));
    let (to_first, from_first) = introduce((&mut hub, 1), (&mut first, 2));
    let (to_second, from_second) = introduce((&mut hub, 1), (&mut second, 3));
    (
        (hub, [to_first, to_second]),
        [(first, from_first), (second, from_second)],
    )
}

#[test]
fn a_message_of_one_peer_does_not_wait_for_those_of_others() {
    let ((mut hub, [first, second]), [(mut a, to_hub), (mut b, also_to_hub)]) = star(&Config::default());
    for number in 0..100_u8 {
        a.send(to_hub, &[number; 50]).unwrap();
    }
    a.send(to_hub, &vec![100; 3_000]).unwrap();
    while hub.progress().unwrap() < 101 {
        a.progress().unwrap();
    }
    b.send(also_to_hub, b"first answer").unwrap();
    b.send(also_to_hub, b"second answer").unwrap();
    b.progress().unwrap();
    let message = hub.receive_from(second, LONG).unwrap();
    assert_eq!(
        (message.peer(), message.source(), message.data()),
        (second, 3, &b"first answer"[..])
    );
    assert_eq!(hub.ready(), 101);
    b.progress().unwrap();
    assert_eq!(hub.receive_from(second, LONG).unwrap().data(), b"second answer");
    // One that is set aside can be chosen, too, and the others keep their order.
    assert_eq!(hub.receive_from(first, LONG).unwrap().data(), [0; 50]);
    for number in 1..100_u8 {
        let message = hub.receive(LONG).unwrap();
        assert_eq!((message.peer(), message.source()), (first, 2));
        assert_eq!(message.data(), [number; 50]);
    }
    assert_eq!(hub.try_receive().unwrap().unwrap().into_vec(), [100; 3_000]);
    let nothing = hub.receive_from(first, SHORT);
    assert!(matches!(nothing, Err(WaitError::TimedOut(SHORT))), "{nothing:?}");
    assert_eq!(hub.ready(), 0);
}

/// A message set aside holds its credit: its sender is stopped, and goes on when the message is received.
#[test]
fn messages_that_are_set_aside_are_bounded() {
    const LIMIT: u32 = 64 << 10;
    let config = Config {
        unexpected_bytes: LIMIT,
        ..Config::default()
    };
    let ((mut hub, [first, second]), [(mut a, to_hub), (mut b, also_to_hub)]) = star(&config);
    let sending = thread::spawn(move || {
        for number in 0..1_000_u32 {
            a.send_blocking(to_hub, &number.to_le_bytes().repeat(100)).unwrap();
        }
        a.close(LONG).unwrap();
    });
    // Until the sender can send no more, the hub waits for the other.
    let nothing = hub.receive_from(second, Duration::from_millis(300));
    assert!(matches!(nothing, Err(WaitError::TimedOut(_))), "{nothing:?}");
    let aside = hub.ready();
    assert!((50..=LIMIT as usize / 400).contains(&aside), "{aside}");
    b.send(also_to_hub, b"answer").unwrap();
    assert_eq!(hub.receive_from(second, LONG).unwrap().data(), b"answer");
    for number in 0..1_000_u32 {
        let message = hub.receive(LONG).unwrap();
        assert_eq!(
            (message.peer(), message.data()),
            (first, &number.to_le_bytes().repeat(100)[..])
        );
    }
    while !matches!(hub.wait_event(LONG).unwrap(), Event::PeerClosed { .. }) {}
    sending.join().unwrap();
}

#[test]
fn a_message_too_large_to_set_aside_is_in_the_way() {
    let config = Config {
        unexpected_bytes: 64 << 10,
        ..Config::default()
    };
    let ((mut hub, [first, second]), [(mut a, to_hub), (mut b, also_to_hub)]) = star(&config);
    let sending = thread::spawn(move || {
        a.send_blocking(to_hub, &vec![1; 1 << 20]).unwrap();
        a
    });
    let in_the_way = hub.receive_from(second, LONG).unwrap_err();
    assert!(
        matches!(in_the_way, WaitError::InTheWay(peer) if peer == first),
        "{in_the_way}"
    );
    assert_eq!(hub.receive(LONG).unwrap().len(), 1 << 20);
    b.send(also_to_hub, b"answer").unwrap();
    assert_eq!(hub.receive_from(second, LONG).unwrap().data(), b"answer");
    drop(sending.join().unwrap());
}

#[test]
fn a_wait_whose_time_is_over_is_an_error_of_one_name() {
    let (mut a, mut b) = (end(1, &Config::default()), end(2, &Config::default()));
    let (to_b, _) = introduce((&mut a, 1), (&mut b, 2));
    for limit in [Duration::ZERO, SHORT] {
        let errors = [
            a.receive(limit).map(drop).unwrap_err(),
            a.receive_from(to_b, limit).map(drop).unwrap_err(),
            a.wait_event(limit).map(drop).unwrap_err(),
            a.wait_any(limit).map(drop).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, WaitError::TimedOut(time) if time == limit), "{error}");
            assert_eq!(error.to_string(), format!("nothing arrived in {limit:?}"));
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);
        }
    }
    assert!(a.try_receive().unwrap().is_none() && a.next_event().is_none());
    a.send(to_b, b"x").unwrap();
    let error = a.flush(SHORT).unwrap_err();
    assert!(
        matches!(
            error,
            FlushError::TimedOut {
                timeout: SHORT,
                peers: 1
            }
        ),
        "{error}"
    );
    // Without a limit: as an `Option`, too.
    let answering = thread::spawn(move || {
        b.receive(None).unwrap();
        b.flush(Some(LONG)).unwrap();
        b
    });
    a.flush(None).unwrap();
    drop(answering.join().unwrap());
}

fn is_readable(transport: &Transport, timeout: Duration) -> bool {
    let mut descriptors = [PollFd::new(transport, PollFlags::IN)];
    poll(&mut descriptors, Some(&timeout.try_into().unwrap())).unwrap() > 0
}

#[test]
fn the_descriptor_is_readable_when_something_has_come() {
    let (mut a, mut b) = (end(1, &Config::default()), end(2, &Config::default()));
    let (to_b, _) = introduce((&mut a, 1), (&mut b, 2));
    assert!(!is_readable(&b, Duration::ZERO));
    a.send(to_b, b"x").unwrap();
    assert!(is_readable(&b, LONG));
    assert_eq!(b.progress().unwrap(), 1);
    assert_eq!(b.try_receive().unwrap().unwrap().data(), b"x");
    assert_eq!(b.progress().unwrap(), 0);
    assert!(!is_readable(&b, Duration::ZERO));
}

#[test]
fn a_backend_without_a_descriptor_says_so_and_is_polled() {
    let transport = Transport::bind_loopback().unwrap();
    let error = transport.descriptor().unwrap_err();
    assert!(
        error.to_string().starts_with("the backend loopback has no descriptor"),
        "{error}"
    );
    for _ in 0..3 {
        assert!(is_readable(&transport, Duration::ZERO));
    }
    assert!(transport.as_fd().try_clone_to_owned().is_ok());
}

#[test]
fn constructors_by_type_open_what_they_name() {
    let transport = Transport::bind_udp("127.0.0.1:0").unwrap();
    assert_eq!((transport.backend_name(), transport.processor()), ("udp", 0));
    let error = Transport::bind_udp(transport.local_addr()).unwrap_err();
    assert!(error.to_string().contains("another process has this port"), "{error}");
    let transport = Transport::builder().processor(7).bind_loopback().unwrap();
    assert_eq!((transport.backend_name(), transport.processor()), ("loopback", 7));
    let error = Transport::builder()
        .processor(hikyaku::wire::ANY_PROCESSOR)
        .bind_loopback();
    assert!(matches!(error, Err(BuildError::ReservedProcessor)), "{error:?}");
    #[cfg(not(feature = "dpdk"))]
    {
        let error = Transport::builder().bind_dpdk("memif:role=server", "10.0.0.1:0");
        let error = error.unwrap_err();
        assert!(error.to_string().contains("it takes the feature \"dpdk\""), "{error}");
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[test]
fn a_guard_is_a_transport() {
    let shared = Transport::bind_loopback().unwrap().with_progress_thread(SHORT);
    let guard: Guard<'_> = shared.lock().unwrap();
    assert_eq!(guard.backend_name(), "loopback");
    drop(guard);
    shared.close(SHORT).unwrap();
}

/// Each port has its address, which peers need, and its counters; each rail has a state.
#[test]
fn ports_and_rails_can_be_looked_at() {
    let open = |processor| {
        let mut options = BindOptions::default();
        options.ports = vec!["127.0.0.1:0".parse().unwrap()];
        let builder = Transport::builder().processor(processor).bind_options(options);
        builder.bind_udp("127.0.0.1:0").unwrap()
    };
    let (mut a, mut b) = (open(1), open(2));
    let address = |transport: &Transport, port| transport.port_stats(port).map(|(address, _)| address);
    assert_eq!(address(&a, 0), Some(a.local_addr()));
    assert_eq!(address(&a, 2), None);
    let add = |transport: &mut Transport, other: &Transport, processor| {
        let peer = transport.add_peer(other.local_addr(), processor).unwrap();
        let second = Path::new(address(other, 1).unwrap(), 1);
        assert_eq!(transport.add_rail(peer, second), Ok(1));
        peer
    };
    let (to_b, to_a) = (add(&mut a, &b, 2), add(&mut b, &a, 1));
    assert_eq!(a.rail_stats(to_b, 1).unwrap().state, RailState::Unproven);
    assert!(a.rail_stats(to_b, 2).is_none());
    let helper = thread::spawn(move || {
        let message = b.receive(LONG).unwrap().into_vec();
        b.send_blocking(to_a, &message).unwrap();
        while b.rail_stats(to_a, 1).unwrap().state != RailState::Up {
            b.wait_event(LONG).unwrap();
        }
        b.send_blocking(to_a, b"up").unwrap();
        b.close(LONG).unwrap();
    });
    a.send(to_b, b"hello").unwrap();
    assert_eq!(a.receive(LONG).unwrap().data(), b"hello");
    loop {
        match a.wait_event(LONG).unwrap() {
            Event::RailUp { peer, rail } => {
                assert_eq!((peer, rail), (to_b, 1));
                break;
            }
            Event::PeerDown { error, .. } => panic!("{error}"),
            _ => {}
        }
    }
    assert_eq!(a.receive(LONG).unwrap().data(), b"up");
    let rail = a.rail_stats(to_b, 1).unwrap();
    assert_eq!((rail.state, rail.path.port, rail.failures), (RailState::Up, 1, 0));
    assert!(!rail.round_trip.is_zero());
    for port in [0, 1] {
        let (_, stats) = a.port_stats(port).unwrap();
        assert!(stats.datagrams_sent > 0 && stats.datagrams_received > 0, "{stats}");
    }
    a.close(LONG).unwrap();
    helper.join().unwrap();
}
