//! Two processes' ends in one process: what they say to each other, and what a broken one can do.

use std::{
    collections::VecDeque, io::IoSlice, net::SocketAddr, ops::Range, os::fd::AsFd, ptr::NonNull, sync::Arc, thread,
    time::Duration,
};

#[cfg(feature = "mpi")]
mod lying;

use super::{
    backend::Routed,
    claim::Claim,
    pair::{LONGEST, Pair},
    streams::{Lender, Streams},
};
use crate::{
    backends::{self, Backend, BindOptions, Data, Neighbours, Notice, Sent, Transmit, Wake},
    prng::Prng,
    reliability::Obstacle,
    ring::{LONG, Meet, Owner, Side},
    shm::{Access, Segment, without_call, without_shared_memory},
    time::Instant,
};

const LATE: Duration = Duration::from_secs(20);

/// Both sides of a memory.
fn both() -> (Pair, Pair) {
    let (maker, fd) = Pair::create(&Arc::default(), 0).unwrap();
    (maker, Pair::take(&fd, &Arc::default(), 0).unwrap())
}

/// A process shares the large rings of its host with the others, and has one at least.
#[test]
fn streams_have_their_share() {
    let streams = Arc::<Streams>::default();
    let (memory, _) = Segment::create("test", 4096, Access::Write).unwrap();
    let memory = Arc::new(memory);
    let claim = Arc::new(Claim::new(Arc::clone(&memory), (0, 0)));
    let lenders = |count: usize| Vec::from_iter((0..count).map(|_| Lender::new(&memory, &claim, &streams)));
    let served = |lenders: &[Lender]| lenders.iter().filter(|lender| lender.lend(true)).count();
    for (rings, share) in [(7, 7), (31, 2), (255, 1)] {
        let lenders = lenders(rings);
        assert!(lenders[0].lend(false) && streams.have_grown());
        assert_eq!(served(&lenders), share, "{rings} rings");
        lenders
            .iter()
            .for_each(|lender| lender.take_back(NonNull::new(memory.base()).unwrap(), 0));
        assert!(!streams.have_grown());
        assert_eq!(served(&lenders[rings - 1..]), 1);
    }
    assert!(!streams.have_grown(), "those that end give all back");
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
            let len = if rng.chance(0.7) {
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

/// A ring that nobody reads says so, and goes on when somebody does. Where the caches are small, it is full sooner.
#[test]
fn a_full_ring_refuses_packets() {
    for (cache, packets) in [(64 << 20, 50..100), (16 << 20, 50..100), (8 << 20, 12..20), (0, 12..20)] {
        refuses_after(Streams::with_cache(Some(cache)), packets);
    }
}

fn refuses_after(streams: Streams, packets: Range<usize>) {
    let (mut maker, fd) = Pair::create(&Arc::new(streams), 0).unwrap();
    let mut guest = Pair::take(&fd, &Arc::default(), 0).unwrap();
    let data = vec![3; LONGEST];
    let mut sent = 0;
    while maker.outward.push(&[IoSlice::new(&data)], data.len()).unwrap().is_sent {
        sent += 1;
    }
    assert!(packets.contains(&sent), "{sent} packets of 32 KB, not {packets:?}");
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
        let (mut maker, fd) = Pair::create(&Arc::default(), 0).unwrap();
        let len = rustix::fs::fstat(&fd).unwrap().st_size as usize;
        let memory = Segment::map(fd.as_fd(), len, Access::Write).unwrap();
        let mut guest = Pair::take(&fd, &Arc::default(), 0).unwrap();
        let side = |processor| Side {
            processor,
            session: 1,
            epoch: 0,
        };
        maker.short.claim.take(side(0), side(1));
        guest.short.claim.take(side(1), side(0));
        let (mut into, mut room) = ([0; LONGEST], vec![0; LONG]);
        for _ in 0..200 {
            let data = pattern(&mut rng, 700);
            let sent = maker.outward.push(&[IoSlice::new(&data)], data.len()).is_ok()
                && guest.outward.push(&[IoSlice::new(&data)], data.len()).is_ok();
            let some = data.len().min(rng.below(100) as usize);
            maker.short.rings.0.push(1, 2, &data[..some]);
            guest.short.rings.0.push(1, 2, &data);
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
            for consumer in [&mut maker.short.rings.1, &mut guest.short.rings.1] {
                if let Some(short) = consumer.front() {
                    assert!(short.len() <= LONG, "else it would not fit");
                    short.copy_to(&mut room);
                    short.take();
                }
            }
            maker.short.rings.0.rest();
            let rested = maker.outward.rest().is_ok() && guest.inward.arm().is_ok();
            if !sent || taken.is_err() || !rested {
                corrupt += 1;
                break;
            }
        }
    }
    assert!(corrupt > 100, "{corrupt} of 300 are found out");
}

/// The flags of the mapping of this process that begins there (`VmFlags` of proc(5)).
fn flags_of(base: *const u8) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let head = format!("{:x}-", base.addr());
    let mapping = maps.lines().skip_while(|line| !line.starts_with(&head));
    let flags = mapping.filter_map(|line| line.strip_prefix("VmFlags:")).next().unwrap();
    flags.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn memory_is_left_out_of_dumps_and_children() {
    let (maker, guest) = both();
    for pair in [&maker, &guest] {
        let flags = flags_of(pair.base());
        for flag in ["dd", "dc"] {
            assert!(flags.iter().any(|has| has == flag), "no {flag} in {flags:?}");
        }
    }
}

fn network() -> Box<dyn Backend> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    backends::bind("udp", address, &BindOptions::default()).unwrap()
}

/// Two that may meet.
fn two() -> [Routed; 2] {
    let mut both = [0, 1].map(|process| Routed::new(network(), process, true).unwrap());
    let [a, b] = both.each_mut();
    let (of_a, of_b) = ((a.local_addr(), a.link_address()), (b.local_addr(), b.link_address()));
    a.introduce(of_b.0, &of_b.1).unwrap();
    b.introduce(of_a.0, &of_a.1).unwrap();
    assert_eq!((a.meet().unwrap().memory, b.meet().unwrap().memory), (1, 1));
    both
}

/// Processes of this host, all of which may meet.
fn all(count: u32) -> Vec<Routed> {
    let mut all: Vec<_> = (0..count)
        .map(|process| Routed::new(network(), process, true).unwrap())
        .collect();
    let links: Vec<_> = all
        .iter_mut()
        .map(|one| (one.local_addr(), one.link_address()))
        .collect();
    for (index, one) in all.iter_mut().enumerate() {
        for (address, link) in links
            .iter()
            .enumerate()
            .filter(|other| other.0 != index)
            .map(|other| other.1)
        {
            one.introduce(*address, link).unwrap();
        }
        assert_eq!(one.meet().unwrap().memory, count as usize - 1);
    }
    all
}

fn transmit(from: &mut Routed, to: SocketAddr, data: &[u8]) -> Sent {
    let transmit = Transmit {
        destination: to,
        port: 0,
        segment_size: data.len(),
        len: data.len(),
        slices: &[IoSlice::new(data)],
        dont_fragment: true,
        token: 0,
    };
    from.transmit(Instant::ZERO, &transmit).unwrap()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Nothing is made for a pair that is silent, and nothing but memory for one that talks.
#[test]
fn memory_is_made_when_a_pair_first_talks() {
    let mut all = all(20);
    let addresses: Vec<_> = all.iter().map(Backend::local_addr).collect();
    // (Other tests open and close some meanwhile.)
    let before = descriptors();
    for one in &mut all {
        let own = one.local_addr();
        for &to in addresses.iter().filter(|to| **to != own) {
            assert_eq!(transmit(one, to, b"each to each"), Sent::All);
        }
    }
    for one in &mut all {
        let mut received = 0;
        while received < 19 {
            received += one.receive(Instant::ZERO, 4).unwrap();
        }
        assert_eq!(one.links.len(), 19, "a memory for each pair");
    }
    let new = descriptors().saturating_sub(before);
    assert!(new < 100, "{new} more descriptors for {} pairs", 20 * 19 / 2);
}

/// Then there are two memories: each direction of packets stays with one, and both sides take the same rings.
#[test]
fn both_may_call_at_the_same_moment() {
    let [mut a, mut b] = two();
    let (to_a, to_b) = (a.local_addr(), b.local_addr());
    let Some(door) = &a.door else { panic!("no door") };
    // The call of one is under way when the other one calls.
    let other = a.host[&to_b];
    let (pair, _) = door.call(other.number(), 7).unwrap().unwrap();
    a.join(to_b, &other, pair, 7).unwrap();
    let door = b.door.take().unwrap();
    let (pair, _) = door.call(b.host[&to_a].number(), 8).unwrap().unwrap();
    let other = b.host[&to_a];
    b.join(to_a, &other, pair, 8).unwrap();
    b.door = Some(door);
    for turn in 0..30_u8 {
        assert_eq!(transmit(&mut a, to_b, &[turn]), Sent::All);
        assert_eq!(transmit(&mut b, to_a, &[turn]), Sent::All);
        assert_eq!(receive(&mut a), Some((to_b, vec![turn])));
        assert_eq!(receive(&mut b), Some((to_a, vec![turn])));
    }
    let side = |processor| Side {
        processor,
        session: 1,
        epoch: 0,
    };
    let (mut to_b, mut of_b) = a.near.meet(to_b, side(0), side(1)).unwrap();
    assert!(!to_b.push(1, 2, b"early"), "nobody reads it yet");
    let (mut to_a, mut of_a) = b.near.meet(to_a, side(1), side(0)).unwrap();
    assert!(to_b.push(1, 2, b"short") && to_a.push(3, 4, b"SHORT"));
    let mut room = [0; 5];
    for (ring, text) in [(&mut of_b, b"SHORT"), (&mut of_a, b"short")] {
        let front = ring.front().unwrap();
        front.copy_to(&mut room);
        assert_eq!(&room, text);
    }
}

/// A process that was spawned may call before the launcher has told of it: what it has sent is there when it is introduced.
#[test]
fn a_process_may_call_before_it_is_introduced() {
    let mut a = Routed::new(network(), 0, true).unwrap();
    let mut b = Routed::new(network(), 1, true).unwrap();
    let (to_a, to_b) = (a.local_addr(), b.local_addr());
    b.introduce(to_a, &a.link_address()).unwrap();
    assert_eq!(transmit(&mut b, to_a, b"early"), Sent::All);
    assert_eq!(receive(&mut a), None, "nobody knows who that is");
    a.introduce(to_b, &b.link_address()).unwrap();
    assert_eq!(receive(&mut a), Some((to_b, b"early".to_vec())));
    assert_eq!(transmit(&mut a, to_b, b"back"), Sent::All);
    assert_eq!((receive(&mut b), a.links.len()), (Some((to_a, b"back".to_vec())), 1));
}

/// The memory of a process that has ended is not that of the next one at its address.
#[test]
fn a_process_may_have_the_address_of_one_that_has_ended() {
    let [mut a, mut b] = two();
    let (to_a, to_b) = (a.local_addr(), b.local_addr());
    for talks in [true, false] {
        if talks {
            assert_eq!(transmit(&mut b, to_a, b"first"), Sent::All);
            assert_eq!(receive(&mut a), Some((to_b, b"first".to_vec())));
        }
        // (The one at the address is another one now, in all but its socket of the network.)
        let mut next = Routed::new(network(), 2, true).unwrap();
        next.introduce(to_a, &a.link_address()).unwrap();
        a.introduce(to_b, &next.link_address()).unwrap();
        assert_eq!(transmit(&mut a, to_b, b"next"), Sent::All);
        assert_eq!(receive(&mut next), Some((to_a, b"next".to_vec())));
        assert_eq!(transmit(&mut next, to_a, b"back"), Sent::All);
        assert_eq!(receive(&mut a), Some((to_b, b"back".to_vec())));
        b = next;
    }
}

/// A process that cannot map the memory says so; one that knows no secret cannot say it for another.
#[test]
fn memory_that_is_not_taken_ends_the_way_to_it() {
    let [mut a, b] = two();
    let (to_b, own) = (b.local_addr(), a.own.unwrap().number());
    assert_eq!(transmit(&mut a, to_b, b"lost"), Sent::All);
    let other = all(1).remove(0);
    other.links.sockets.refuse(own, 5, Obstacle::Memory);
    a.attend(Some(LATE)).unwrap();
    assert_eq!(transmit(&mut a, to_b, b"lost"), Sent::All, "it is a guess");
    // The secret is in the hello that lies at the door.
    let mut door = b.door.unwrap();
    let caller = door.answer(&b.links.sockets).remove(0);
    assert_eq!((caller.name, caller.pair.is_ok()), (own, true));
    other.links.sockets.refuse(own, caller.secret, Obstacle::Memory);
    a.attend(Some(LATE)).unwrap();
    assert_eq!(transmit(&mut a, to_b, b"lost"), Sent::Dropped);
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

/// The addresses to which there is no way.
fn refused(at: &mut Routed) -> Vec<SocketAddr> {
    let mut refused = Vec::new();
    at.poll_notices(&mut |notice| {
        if let Notice::Unreachable(unreachable) = notice {
            refused.push(unreachable.address);
        }
    });
    refused
}

/// What a process has sent before its end is received, and then its end.
#[test]
fn the_end_of_a_process_is_noticed() {
    let [mut a, mut b] = two();
    let (to_a, to_b) = (a.local_addr(), b.local_addr());
    assert_eq!(transmit(&mut a, to_b, b"first"), Sent::All);
    assert_eq!(receive(&mut b), Some((to_a, b"first".to_vec())));
    assert_eq!(transmit(&mut a, to_b, b"last"), Sent::All);
    drop(a);
    // It is noticed when something is sent, but not each time.
    assert_eq!(transmit(&mut b, to_a, b"nobody reads it"), Sent::All);
    let data = b"nor this";
    let late = Transmit {
        destination: to_a,
        port: 0,
        segment_size: data.len(),
        len: data.len(),
        slices: &[IoSlice::new(data)],
        dont_fragment: true,
        token: 0,
    };
    let now = Instant::ZERO + Duration::from_millis(100);
    assert_eq!(b.transmit(now, &late).unwrap(), Sent::Dropped);
    assert_eq!(refused(&mut b), [], "not before all is read");
    assert_eq!(receive(&mut b), Some((to_a, b"last".to_vec())));
    assert_eq!(receive(&mut b), None);
    assert_eq!(refused(&mut b), [to_a]);
    assert_eq!(transmit(&mut b, to_a, b"too late"), Sent::Dropped);
}

/// One that spoils the memory is refused once, and then left alone.
#[test]
fn a_process_that_scribbles_is_broken_off_once() {
    let [mut a, mut b] = two();
    let (to_a, to_b) = (a.local_addr(), b.local_addr());
    assert_eq!(transmit(&mut a, to_b, b"first"), Sent::All);
    assert_eq!(receive(&mut b), Some((to_a, b"first".to_vec())));
    a.links.scribble(0);
    let mut told = Vec::new();
    for second in 1..5 {
        b.receive(Instant::ZERO + Duration::from_secs(second), 4).unwrap();
        told.extend(refused(&mut b));
    }
    assert_eq!((told, b.links.stats().dropped), (vec![to_a], 1));
}

/// Also if nothing was ever sent to it, and if nothing more fits.
#[test]
fn the_end_of_a_process_that_does_not_listen_is_noticed() {
    let [mut a, b] = two();
    let to_b = b.local_addr();
    drop(b);
    assert_eq!(transmit(&mut a, to_b, b"nobody is there"), Sent::Dropped);
    assert_eq!(refused(&mut a), [to_b]);
    let [mut a, b] = two();
    let to_b = b.local_addr();
    let data = vec![3; LONGEST];
    while a.near.gate(to_b).unwrap().is_open() {
        assert_eq!(transmit(&mut a, to_b, &data), Sent::All);
    }
    drop(b);
    let now = Instant::ZERO + Duration::from_secs(2);
    a.receive(now, 4).unwrap();
    a.receive(now, 4).unwrap();
    assert_eq!(refused(&mut a), [to_b]);
    assert!(a.near.gate(to_b).unwrap().is_open());
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

/// A process that may make no shared memory says why, once for all of its host; the others say nothing.
#[test]
fn where_there_is_no_memory_the_network_takes_over() {
    let forced = without_shared_memory(|| Routed::new(network(), 0, true).map(drop));
    assert_eq!(forced.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    let mut all: Vec<_> = (0..4)
        .map(|process| {
            let open = move || Routed::new(network(), process, false).unwrap();
            if process % 2 == 0 {
                open()
            } else {
                without_shared_memory(open)
            }
        })
        .collect();
    let links: Vec<_> = all
        .iter_mut()
        .map(|one| (one.local_addr(), one.link_address()))
        .collect();
    let mut told = Vec::new();
    for (index, one) in all.iter_mut().enumerate() {
        for (address, link) in links
            .iter()
            .enumerate()
            .filter(|other| other.0 != index)
            .map(|other| other.1)
        {
            one.introduce(*address, link).unwrap();
        }
        let met = one.meet().unwrap();
        assert_eq!(met.memory, if index % 2 == 0 { 1 } else { 0 });
        told.push(met.obstacle);
    }
    let [Some(first), Some(second), None, None] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(
        first.starts_with("process 1: it can have no memory in common"),
        "{first}"
    );
    assert!(
        second.starts_with("process 1 can have none: Operation not permitted"),
        "{second}"
    );
    // They reach each other all the same.
    let to = all[1].local_addr();
    for from in [0, 3] {
        assert_eq!(transmit(&mut all[from], to, b"far"), Sent::All);
        all[1].wait(Some(LATE)).unwrap();
        assert_eq!(receive(&mut all[1]), Some((links[from].0, b"far".to_vec())));
    }
}

/// Nor is there any where processes may not connect to each other, or pass memory on.
#[test]
fn a_process_that_may_not_call_uses_the_network() {
    for call in [libc::SYS_connect, libc::SYS_sendmsg] {
        let (forced, free) = (network(), network());
        let forced = without_call(call, || Routed::new(forced, 0, true).map(drop));
        assert_eq!(forced.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
        let mut own = without_call(call, || Routed::new(free, 0, false)).unwrap();
        let mut other = Routed::new(network(), 1, false).unwrap();
        let address = own.local_addr();
        own.introduce(other.local_addr(), &other.link_address()).unwrap();
        other.introduce(address, &own.link_address()).unwrap();
        let met = [&mut own, &mut other].map(|one| one.meet().unwrap());
        assert_eq!(met.each_ref().map(|met| met.memory), [0, 0]);
        let obstacle = met[0].obstacle.as_deref().unwrap();
        assert!(
            obstacle.starts_with("process 0 can have none: Operation not permitted"),
            "{obstacle}"
        );
        assert_eq!(met[1].obstacle, None, "one line");
        assert_eq!(transmit(&mut other, address, b"far"), Sent::All);
        own.wait(Some(LATE)).unwrap();
        assert_eq!(receive(&mut own), Some((other.local_addr(), b"far".to_vec())));
    }
}

/// A process that may no longer call loses the peer, which it had not called yet, and nothing else.
#[test]
fn a_call_that_is_forbidden_later_ends_one_session() {
    let [mut a, b] = two();
    let to_b = b.local_addr();
    let sent = without_call(libc::SYS_connect, || transmit(&mut a, to_b, b"lost"));
    assert_eq!((sent, refused(&mut a)), (Sent::Dropped, vec![to_b]));
    assert_eq!(a.receive(Instant::ZERO, 4).unwrap(), 0);
}

/// A process that is waited for, but was never sent anything: there is no memory, and its end, and that it leaves, are
/// noticed all the same.
#[test]
fn who_waits_for_a_process_needs_no_memory() {
    let [mut a, mut b] = two();
    let to_b = b.local_addr();
    let gate = a.near.gate(to_b).unwrap();
    let mut now = Instant::ZERO;
    let mut look = |a: &mut Routed| {
        gate.ask();
        now += Duration::from_millis(100);
        a.receive(now, 4).unwrap();
        (gate.is_wanted(), refused(a))
    };
    assert_eq!(look(&mut a), (false, vec![]));
    b.leave();
    assert_eq!(look(&mut a), (true, vec![]), "it has something to say");
    drop(b);
    assert_eq!(look(&mut a), (true, vec![to_b]));
    assert_eq!(a.links.len(), 0, "no memory");
}

/// Time in which a process reads nothing of what there is for it counts, but not time in which this one did not look.
#[test]
fn who_does_not_read_is_silent() {
    let [mut a, mut b] = two();
    let to_b = b.local_addr();
    let gate = a.near.gate(to_b).unwrap();
    let data = [7; 100];
    let mut now = Instant::ZERO;
    let mut send = |a: &mut Routed, millis| {
        now += Duration::from_millis(millis);
        let transmit = Transmit {
            destination: to_b,
            port: 0,
            segment_size: data.len(),
            len: data.len(),
            slices: &[IoSlice::new(&data)],
            dont_fragment: true,
            token: 0,
        };
        assert_eq!(a.transmit(now, &transmit).unwrap(), Sent::All);
        gate.silence()
    };
    send(&mut a, 100);
    let first = send(&mut a, 100);
    assert_eq!(send(&mut a, 100) - first, Duration::from_millis(100));
    // In between this process was stopped.
    assert_eq!(send(&mut a, 60_000) - first, Duration::from_millis(300));
    while b.receive(Instant::ZERO, 8).unwrap() == 0 {}
    // (What was read is given back at the next look.)
    b.receive(Instant::ZERO, 8).unwrap();
    assert_eq!(send(&mut a, 100), Duration::ZERO);
}

/// Also if nothing more can be sent to it.
#[test]
fn who_does_not_read_is_silent_when_its_memory_is_full() {
    let [mut a, b] = two();
    let to_b = b.local_addr();
    let gate = a.near.gate(to_b).unwrap();
    let data = vec![3; LONGEST];
    while gate.is_open() {
        assert_eq!(transmit(&mut a, to_b, &data), Sent::All);
    }
    for turn in 1..70_u32 {
        a.receive(Instant::ZERO + turn * Duration::from_millis(100), 4).unwrap();
        assert!(!gate.is_open(), "there is no room for what comes next");
    }
    assert!(gate.silence() > Duration::from_secs(4), "{:?}", gate.silence());
    drop(b);
}
