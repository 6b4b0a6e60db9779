//! Two processes' ends in one process: what they say to each other, and what a broken one can do.

use std::{
    collections::VecDeque,
    io::IoSlice,
    net::SocketAddr,
    os::{fd::AsFd, unix::net::UnixStream},
    thread,
    time::Duration,
};

use super::{
    backend::Routed,
    entrance::{Entrance, Failed, Meeting},
    identity::Identity,
    pair::{LAYOUT, LONGEST, Pair},
};
use crate::{
    backends::{self, Backend, BindOptions, Data, Neighbours, Notice, Sent, Transmit, Wake},
    prng::Prng,
    ring::LONG,
    shm::{Access, Segment, handshake},
    time::Instant,
};

const SOON: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_secs(20);

/// Both sides of a memory.
fn both() -> (Pair, Pair) {
    let (maker, fd) = Pair::create().unwrap();
    (maker, Pair::take(&fd).unwrap())
}

fn pattern(rng: &mut Prng, len: usize) -> Vec<u8> {
    let first = rng.below(256) as usize;
    (0..len).map(|i| (first + i * 7 + i / 251) as u8).collect()
}

/// Packets of all lengths come whole and in order, through small rings and large ones, and through a ring that was given
/// back.
#[test]
fn a_direction_is_a_queue() {
    let (mut maker, mut guest) = both();
    let mut rng = Prng::new(5);
    let mut queue = VecDeque::new();
    let mut into = [0; LONGEST];
    let (mut refused, mut largest) = (0, false);
    for step in 0..20_000 {
        if step % 1_000 == 0 {
            while let Some(len) = guest.inward.next(&mut into).unwrap() {
                assert_eq!(queue.pop_front().as_deref(), Some(&into[..len]));
            }
            guest.inward.release();
            for _ in 0..3 {
                maker.outward.rest().unwrap();
                assert_eq!(guest.inward.next(&mut into), Ok(None));
                guest.inward.release();
            }
            assert!(!maker.outward.is_large(), "it has gone back");
        }
        // Long stretches in which one of the two is faster.
        if rng.chance(if step / 300 % 2 == 0 { 0.8 } else { 0.3 }) {
            let len = if rng.chance(0.5) {
                rng.below(300)
            } else {
                rng.below(LONGEST as u64 + 1)
            };
            let data = pattern(&mut rng, len as usize);
            let (head, tail) = data.split_at(data.len() / 3);
            let slices = [IoSlice::new(head), IoSlice::new(tail)];
            if maker.outward.push(&slices, data.len()).unwrap().is_sent {
                queue.push_back(data);
            } else {
                refused += 1;
            }
            largest |= maker.outward.is_large();
        } else {
            let next = guest.inward.next(&mut into).unwrap().map(|len| into[..len].to_vec());
            assert_eq!(next, queue.pop_front());
            guest.inward.release();
        }
    }
    assert!(largest);
    assert_eq!(refused, 0, "the largest ring holds what one side is ahead of the other");
}

/// A ring that nobody reads says so, and goes on when somebody does.
#[test]
fn a_full_ring_refuses_packets() {
    let (mut maker, mut guest) = both();
    let data = vec![3; LONGEST];
    let mut sent = 0;
    while maker.outward.push(&[IoSlice::new(&data)], data.len()).unwrap().is_sent {
        sent += 1;
    }
    assert!((100..200).contains(&sent), "{sent} packets of 16 KB in 2 MB");
    let mut into = [0; LONGEST];
    for _ in 0..sent {
        assert_eq!(guest.inward.next(&mut into), Ok(Some(LONGEST)));
    }
    guest.inward.release();
    assert!(maker.outward.push(&[IoSlice::new(&data)], data.len()).unwrap().is_sent);
}

/// Whatever the other process writes, and wherever: nothing panics, nothing is read or written outside, and what comes out
/// has a length that there is.
#[test]
fn a_process_that_scribbles_does_no_harm() {
    let mut corrupt = 0;
    for seed in 0..300 {
        let mut rng = Prng::new(seed);
        let (mut maker, fd) = Pair::create().unwrap();
        let len = rustix::fs::fstat(&fd).unwrap().st_size as usize;
        let memory = Segment::map(fd.as_fd(), len, Access::Write).unwrap();
        let mut guest = Pair::take(&fd).unwrap();
        let (mut into, mut room) = ([0; LONGEST], vec![0; LONG]);
        for _ in 0..200 {
            let data = pattern(&mut rng, 700);
            let sent = maker.outward.push(&[IoSlice::new(&data)], data.len()).is_ok()
                && guest.outward.push(&[IoSlice::new(&data)], data.len()).is_ok();
            maker
                .short
                .0
                .push(1, 2, &data[..data.len().min(rng.below(100) as usize)]);
            guest.short.0.push(1, 2, &data);
            // The controls, the rings of short messages, the smallest rings; seldom something else.
            let within = if rng.chance(0.9) { 16 << 10 } else { len as u64 };
            let at = (rng.below(within) as usize & !3).min(len - 8);
            let value = match rng.below(3) {
                0 => rng.below(u64::MAX),
                1 => rng.below(4_096),
                _ => u64::from(u32::MAX) << (rng.below(2) * 32),
            };
            memory.write(at, &value.to_le_bytes());
            let taken = guest.inward.next(&mut into).and_then(|_| {
                guest.inward.release();
                maker.inward.next(&mut into)
            });
            maker.inward.release();
            for consumer in [&mut maker.short.1, &mut guest.short.1] {
                if let Some(short) = consumer.front() {
                    assert!(short.len() <= LONG, "else it would not fit");
                    short.copy_to(&mut room);
                    short.take();
                }
            }
            let rested = maker.outward.rest().is_ok() && guest.inward.arm().is_ok();
            if !sent || taken.is_err() || !rested {
                corrupt += 1;
                break;
            }
        }
    }
    assert!(corrupt > 100, "{corrupt} of 300 are found out");
}

fn identity(process: u32, name: u64) -> Identity {
    Identity::own(process, name).unwrap()
}

/// Lets processes with these numbers meet, each in a thread of its own.
fn meeting(numbers: &[u32], name: u64) -> Vec<Vec<Meeting>> {
    let identities: Vec<_> = numbers.iter().map(|n| identity(*n, name + u64::from(*n))).collect();
    let entrances: Vec<_> = identities.iter().map(|own| Entrance::open(*own).unwrap()).collect();
    thread::scope(|scope| {
        let threads: Vec<_> = entrances
            .into_iter()
            .map(|entrance| {
                let others: Vec<_> = identities
                    .iter()
                    .filter(|other| *other != entrance.own())
                    .copied()
                    .collect();
                scope.spawn(move || entrance.meet(&others, LATE))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn unique() -> u64 {
    crate::progress::random()
}

#[test]
fn all_meet_all_and_get_the_same_memory() {
    let mut met = meeting(&[4, 0, 9, 2], unique());
    for a in 0..4 {
        for b in a + 1..4 {
            // Each leaves itself out of the others.
            let text = [a as u8, b as u8];
            let (there, back) = (if b > a { b - 1 } else { b }, if a > b { a - 1 } else { a });
            let (pair, _) = met[a][there].as_mut().unwrap();
            assert!(pair.outward.push(&[IoSlice::new(&text)], 2).unwrap().is_sent);
            let mut into = [0; LONGEST];
            let (pair, _) = met[b][back].as_mut().unwrap();
            assert_eq!(pair.inward.next(&mut into), Ok(Some(2)));
            assert_eq!(into[..2], text);
        }
    }
}

#[test]
fn a_process_that_does_not_come_is_given_up() {
    let name = unique();
    let entrance = Entrance::open(identity(0, name)).unwrap();
    let met = entrance.meet(&[identity(1, name + 1)], SOON);
    assert!(matches!(met[..], [Err(Failed::Absent(SOON))]), "{met:?}");
    // The lower one is called, and has no entrance.
    let entrance = Entrance::open(identity(1, name)).unwrap();
    let met = entrance.meet(&[identity(0, name + 1)], SOON);
    assert!(matches!(met[..], [Err(Failed::Here("connecting", _))]), "{met:?}");
}

/// A caller that has no memory to offer, one of another release, and noise.
#[test]
fn a_caller_without_memory_is_refused() {
    use std::{io::Write, os::linux::net::SocketAddrExt};

    for (layout, says, why) in [
        (LAYOUT, "no descriptors left", "no descriptors left"),
        (LAYOUT + 1, "", "release"),
    ] {
        let name = unique();
        let entrance = Entrance::open(identity(0, name)).unwrap();
        let path = format!("hikyaku-{name:016x}");
        let address = std::os::unix::net::SocketAddr::from_abstract_name(path).unwrap();
        let mut noise = UnixStream::connect_addr(&address).unwrap();
        noise.write_all(&[7; handshake::LEN]).unwrap();
        let socket = UnixStream::connect_addr(&address).unwrap();
        let mut hello = handshake::message();
        handshake::Version::ours(layout).put(&mut hello);
        hello[12] = 1;
        handshake::put_text(&mut hello, 64, says);
        handshake::send(&socket, &hello, &[]).unwrap();
        let met = entrance.meet(&[identity(1, name + 1)], LATE);
        let [Err(failed)] = &met[..] else { panic!("{met:?}") };
        assert!(failed.to_string().contains(why), "{failed}");
        let (answer, _) = handshake::receive(&socket).unwrap();
        assert_eq!(answer[8], 0);
        assert!(handshake::text(&answer, 16).contains(why));
    }
}

fn network() -> Box<dyn Backend> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    backends::bind("udp", address, &BindOptions::default()).unwrap()
}

/// Two that have met.
fn two() -> [Routed; 2] {
    let [mut a, mut b] = [0, 1].map(|process| Routed::new(network(), process, true).unwrap());
    let (of_a, of_b) = ((a.local_addr(), a.link_address()), (b.local_addr(), b.link_address()));
    a.introduce(of_b.0, &of_b.1).unwrap();
    b.introduce(of_a.0, &of_a.1).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| b.meet().unwrap());
        assert_eq!(a.meet().unwrap().memory, 1);
        assert_eq!(other.join().unwrap().memory, 1);
    });
    [a, b]
}

fn transmit(from: &mut Routed, to: SocketAddr, data: &[u8]) -> Sent {
    let transmit = Transmit {
        destination: to,
        segment_size: data.len(),
        len: data.len(),
        slices: &[IoSlice::new(data)],
        dont_fragment: true,
        token: 0,
    };
    from.transmit(Instant::ZERO, &transmit).unwrap()
}

/// What has come, after at most some passes.
fn receive(at: &mut Routed) -> Option<(SocketAddr, Vec<u8>)> {
    for pass in 0..3_000 {
        let count = at.receive(Instant::ZERO, 4).unwrap();
        if count > 0 {
            assert_eq!(count, 1, "pass {pass}");
            let received = at.received(0);
            let Data::Own(data) = received.data else {
                panic!("a copy")
            };
            return Some((received.source, data.to_vec()));
        }
    }
    None
}

#[test]
fn packets_go_through_memory_and_from_others_over_the_network() {
    let [mut a, mut b] = two();
    let (to_a, to_b) = (a.local_addr(), b.local_addr());
    assert_eq!(transmit(&mut a, to_b, b"there"), Sent::All);
    assert_eq!(receive(&mut b), Some((to_a, b"there".to_vec())));
    let mut other = Routed::new(network(), 2, false).unwrap();
    assert_eq!(transmit(&mut other, to_b, b"far"), Sent::All);
    b.wait(Some(LATE)).unwrap();
    assert_eq!(receive(&mut b), Some((other.local_addr(), b"far".to_vec())));
    assert_eq!(receive(&mut a), None);
}

#[test]
fn a_process_that_sleeps_is_woken_and_only_then() {
    let [mut a, mut b] = two();
    let (to_a, to_b) = (a.local_addr(), b.local_addr());
    thread::scope(|scope| {
        let sleeper = scope.spawn(move || {
            for turn in 0..100_u8 {
                let (_, data) = loop {
                    if let Some(received) = receive(&mut b) {
                        break received;
                    }
                    assert_eq!(b.wait(Some(LATE)).unwrap(), Wake::Readable);
                };
                assert_eq!(data, [turn]);
                assert_eq!(transmit(&mut b, to_a, &[turn]), Sent::All);
            }
            b
        });
        for turn in 0..100 {
            assert_eq!(transmit(&mut a, to_b, &[turn]), Sent::All);
            while receive(&mut a).is_none() {
                a.wait(Some(LATE)).unwrap();
            }
        }
        let mut b = sleeper.join().unwrap();
        let calls = a.stats().transmit_calls;
        assert_eq!(transmit(&mut a, to_b, b"x"), Sent::All);
        assert_eq!(a.stats().transmit_calls, calls, "it does not sleep");
        assert_eq!(b.wait(Some(LATE)).unwrap(), Wake::Readable);
    });
}

/// What a process has sent before its end is received, and then its end.
#[test]
fn the_end_of_a_process_is_noticed() {
    let [a, mut b] = two();
    let to_a = a.local_addr();
    let mut a = a;
    let to_b = b.local_addr();
    assert_eq!(transmit(&mut a, to_b, b"last"), Sent::All);
    drop(a);
    while b.wait(Some(LATE)).unwrap() == Wake::TimedOut {}
    assert_eq!(receive(&mut b), Some((to_a, b"last".to_vec())));
    assert_eq!(receive(&mut b), None);
    let mut refused = Vec::new();
    b.poll_notices(&mut |notice| {
        if let Notice::Unreachable(unreachable) = notice {
            refused.push(unreachable.address);
        }
    });
    assert_eq!(refused, [to_a]);
    assert_eq!(transmit(&mut b, to_a, b"too late"), Sent::Dropped);
}

#[test]
fn who_shares_no_host_uses_the_network() {
    let mut own = Routed::new(network(), 0, false).unwrap();
    let there = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut bytes = own.link_address();
    // Another process of another user: an obstacle. Then one of another host, and one that says nothing: none.
    bytes[1] = 1;
    bytes[5] ^= 1;
    own.introduce(there, &bytes).unwrap();
    bytes[9] ^= 1;
    own.introduce(there, &bytes).unwrap();
    own.introduce(there, &[]).unwrap();
    let met = own.meet().unwrap();
    assert_eq!(met.memory, 0);
    assert!(met.obstacle.unwrap().contains("belongs to the user"));
    let mut forced = Routed::new(network(), 0, true).unwrap();
    bytes[9] ^= 1;
    let identity = forced.link_address();
    bytes[9..33].copy_from_slice(&identity[9..33]);
    forced.introduce(there, &bytes).unwrap();
    assert!(forced.meet().is_err());
}
