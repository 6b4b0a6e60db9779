//! Messages by way of the poller, placements from rank to rank.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hikyaku::{
    Config,
    backends::{
        Backend, BackendStats, Neighbours, Sent, Transmit,
        udp::{UdpBackend, UdpOptions},
    },
    forward_backend,
    mpi::{
        engine::{Communicator, Engine},
        error::ErrorClass,
    },
    poller::{Joined, Path},
    time::Instant,
};

use super::{
    exchange::LONG,
    messages::{all_to_all, receive, send},
    support::{connect, options, pattern, processes_on},
};

/// A backend that another part of the test can watch and change.
#[derive(Default)]
struct Watched {
    stats: Mutex<BackendStats>,
    /// Transmitted packets are lost.
    cut: AtomicBool,
}

struct Watching<B> {
    inner: B,
    watched: Arc<Watched>,
}

impl<B: Backend> Backend for Watching<B> {
    forward_backend!(self => self.inner; name, capabilities, local_addr, received, wait, stats, poll_notices, as_fd,
        descriptors, next_deadline, neighbours);

    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        if self.watched.cut.load(Ordering::Relaxed) {
            return Ok(Sent::All);
        }
        let sent = self.inner.transmit(now, transmit)?;
        *self.watched.stats.lock().unwrap() = self.inner.stats();
        Ok(sent)
    }

    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        let received = self.inner.receive(now, budget)?;
        if received > 0 {
            *self.watched.stats.lock().unwrap() = self.inner.stats();
        }
        Ok(received)
    }
}

/// The datagrams that each rank's backends have carried: both together, and its own.
#[derive(Clone, Default)]
struct Pair {
    both: Arc<Watched>,
    own: Arc<Watched>,
}

impl Pair {
    fn open(&self) -> (Box<dyn Backend>, Path) {
        let udp = UdpBackend::bind_with("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let own = Watching {
            inner: udp,
            watched: Arc::clone(&self.own),
        };
        let joined = Joined::new(connect(), Box::new(own));
        let path = joined.path();
        let both = Watching {
            inner: joined,
            watched: Arc::clone(&self.both),
        };
        (Box::new(both), path)
    }

    /// Bytes sent by way of the poller, and by the rank itself.
    fn sent(&self) -> (u64, u64) {
        let own = self.own.stats.lock().unwrap().bytes_sent;
        (self.both.stats.lock().unwrap().bytes_sent - own, own)
    }
}

/// Runs `program` as each of two ranks, which need not end well.
fn job(death: Duration, program: impl Fn(Communicator, &Pair) + Sync) -> [Pair; 2] {
    let pairs = [Pair::default(), Pair::default()];
    let config = Config {
        death_timeout: death,
        ..Config::default()
    };
    processes_on(
        2,
        &options(),
        &config,
        |process| pairs[process as usize].open(),
        |world| {
            let pair = &pairs[world.rank() as usize];
            program(world, pair);
        },
    );
    pairs
}

fn finalize(world: &Communicator) {
    world.barrier().unwrap();
    Engine::finalize(world.engine(), Duration::from_secs(2)).unwrap();
}

#[test]
fn large_messages_do_not_go_through_the_poller() {
    const SIZES: [usize; 8] = [10, 0, 2_000, 60_000, 200_000, 1 << 20, 4 << 20, 3];
    let total: u64 = SIZES.iter().map(|&len| len as u64).sum();
    let pairs = job(LONG, |world, _| {
        for _ in 0..3 {
            all_to_all(&world, &SIZES);
        }
        finalize(&world);
    });
    for pair in pairs {
        let (poller, own) = pair.sent();
        // Each sends all to the other three times; what is smaller than the eager limit is a small part.
        assert!(own > 3 * (total - 70_000), "{own} of {total}");
        assert!(poller < 500_000 && poller > 3 * 2_000, "{poller}");
    }
}

#[test]
fn small_messages_do_not_go_past_the_poller() {
    let pairs = job(LONG, |world, _| {
        for _ in 0..50 {
            all_to_all(&world, &[10, 0, 1_000]);
        }
        finalize(&world);
    });
    for pair in pairs {
        let (poller, own) = pair.sent();
        assert_eq!(own, 0);
        assert!(poller > 50 * 1_000, "{poller}");
    }
}

#[test]
fn who_can_not_be_reached_past_the_poller_is_an_error() {
    let open = || {
        let udp = UdpBackend::bind_with("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        Joined::new(connect(), Box::new(udp))
    };
    let (mut ours, theirs) = (open(), open());
    let address = theirs.local_addr();
    let link = theirs.link_address();
    ours.introduce(address, &link).unwrap();
    // Nothing, the Ethernet address of a card, half of it, and a place in another kind of network.
    let other_family = [&[link[0], 6, 1, 1][..], &[0; 16]].concat();
    for (wrong, why) in [
        (&[][..], "HIKYAKU_POLLER_BULK is for all"),
        (&[4, 6, 4, 6, 4, 6], "HIKYAKU_POLLER_BULK is for all"),
        (&link[..5], "HIKYAKU_POLLER_BULK is for all"),
        (&other_family, "another family of addresses"),
    ] {
        let error = ours.introduce(address, wrong).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(&address.to_string()), "{error}");
    }
}

#[test]
fn a_rank_that_is_gone_ends_what_waits_for_it() {
    job(LONG, |world, _| {
        let mut data = pattern(4 << 20, 1);
        if world.rank() == 1 {
            receive(&world, &mut data, 0, 1).unwrap();
            // By then all is acknowledged.
            receive(&world, &mut [0], 0, 4).unwrap();
            // Without a goodbye.
            return;
        }
        send(&world, &data, 1, 1).unwrap();
        send(&world, &[1], 1, 4).unwrap();
        let error = send(&world, &data, 1, 2).unwrap_err();
        assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
        let error = receive(&world, &mut data, 1, 3).unwrap_err();
        assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
    });
}

#[test]
fn placements_that_do_not_arrive_end_both_sides() {
    job(Duration::from_secs(1), |world, pair| {
        let mut data = pattern(4 << 20, 1);
        let error = if world.rank() == 1 {
            receive(&world, &mut data, 0, 1).unwrap();
            receive(&world, &mut data, 0, 2).unwrap_err()
        } else {
            send(&world, &data, 1, 1).unwrap();
            pair.own.cut.store(true, Ordering::Relaxed);
            send(&world, &data, 1, 2).unwrap_err()
        };
        assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
    });
}
