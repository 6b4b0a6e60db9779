//! Two drivers over the loopback backend.

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;

use super::*;
use crate::{
    backends::{BindOptions, Sent, Transmit, bind},
    config::Config,
    forward_backend,
    reliability::Endpoint,
};

/// A backend that is busy or loses a burst every now and then, and keeps references for a while.
struct Stubborn {
    inner: Box<dyn Backend>,
    calls: u32,
    reclaims: u32,
    kept: Vec<u64>,
    /// References given out and taken back.
    count: Arc<Mutex<(u32, u32)>>,
}

impl Backend for Stubborn {
    forward_backend!(self => self.inner; local_addr, receive, received, wait, stats);

    fn name(&self) -> &'static str {
        "stubborn"
    }
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.holds_references = true;
        capabilities
    }
    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Ok(Sent::Busy);
        }
        if self.calls.is_multiple_of(11) {
            return Ok(Sent::Dropped);
        }
        let sent = self.inner.transmit(now, transmit)?;
        if sent == Sent::All && transmit.token != 0 {
            self.count.lock().unwrap().0 += 1;
            self.kept.push(transmit.token);
        }
        Ok(sent)
    }
    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.reclaims += 1;
        if self.reclaims.is_multiple_of(4) {
            self.count.lock().unwrap().1 += self.kept.len() as u32;
            self.kept.drain(..).map(Notice::Released).for_each(each);
        }
    }
}

/// A backend that loses everything sent while `loses` is set.
struct Lossy {
    inner: Box<dyn Backend>,
    loses: Arc<AtomicBool>,
}

impl Backend for Lossy {
    forward_backend!(self => self.inner; capabilities, local_addr, receive, received, wait, stats);

    fn name(&self) -> &'static str {
        "lossy"
    }
    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        if self.loses.load(Ordering::Relaxed) {
            return Ok(Sent::All);
        }
        self.inner.transmit(now, transmit)
    }
}

fn loopback() -> Box<dyn Backend> {
    bind("loopback", "127.0.0.1:0".parse().unwrap(), &BindOptions::default()).unwrap()
}

fn driver(processor: u32, backend: Box<dyn Backend>) -> Driver {
    let limits = Limits::from(&backend.capabilities());
    let seed = u64::from(processor);
    let endpoint = Endpoint::new(Config::default(), limits, seed, seed.into()).unwrap();
    Driver::new(Messenger::new(endpoint, &[processor]), backend, WaitPolicy::Spin)
}

fn pair(backend: Box<dyn Backend>) -> (Driver, PeerId, Driver, PeerId) {
    let (mut a, mut b) = (driver(1, backend), driver(2, loopback()));
    let to_b = a.add_peer(b.local_addr(), 2).unwrap();
    let to_a = b.add_peer(a.local_addr(), 1).unwrap();
    (a, to_b, b, to_a)
}

#[test]
fn replies_carry_the_acknowledgements() {
    let (mut a, to_b, mut b, to_a) = pair(loopback());
    let plain = SendOptions::default();
    for _ in 0..1_000 {
        a.send(to_b, &plain, Payload::Copy(b"ping")).unwrap();
        assert!(b.wait_ready(None).unwrap());
        assert_eq!(b.receive().unwrap().data(), b"ping");
        b.send(to_a, &plain, Payload::Copy(b"pong")).unwrap();
        assert!(a.wait_ready(None).unwrap());
        assert_eq!(a.receive().unwrap().data(), b"pong");
    }
    let alone = |driver: &Driver| driver.messenger().layer().stats().acks_alone;
    // On a busy machine a delayed acknowledgement may fall due in between.
    assert!(
        alone(&a) + alone(&b) < 200,
        "{} and {} acknowledgements alone",
        alone(&a),
        alone(&b)
    );
}

#[test]
fn bursts_share_datagrams() {
    let (mut a, to_b, mut b, _) = pair(loopback());
    let mut received = 0_u32;
    for i in 0..10_000_u32 {
        a.send(to_b, &SendOptions::default(), Payload::Copy(&i.to_le_bytes()))
            .unwrap();
        if i % 1_000 == 999 {
            a.progress(Acks::Now).unwrap();
            while b.progress(Acks::Later).unwrap() > 0 {
                while let Some(message) = b.receive() {
                    assert_eq!(message.data(), received.to_le_bytes());
                    received += 1;
                }
            }
        }
    }
    while received < 10_000 {
        a.progress(Acks::Now).unwrap();
        b.progress(Acks::Later).unwrap();
        while let Some(message) = b.receive() {
            assert_eq!(message.data(), received.to_le_bytes());
            received += 1;
        }
    }
    let sent = a.backend_stats().datagrams_sent;
    assert!(sent < 1_000, "{sent} datagrams for 10,000 messages");
}

/// A driver that finds messages at every poll still resends lost ones.
#[test]
fn deadlines_come_under_steady_load() {
    let loses = Arc::new(AtomicBool::new(false));
    let inner = loopback();
    let lossy = Lossy {
        inner,
        loses: Arc::clone(&loses),
    };
    let (mut a, to_b, mut b, to_a) = pair(Box::new(lossy));
    let plain = SendOptions::default();
    let look = |a: &mut Driver, b: &mut Driver| {
        b.send(to_a, &plain, Payload::Copy(b"load")).unwrap();
        b.progress(Acks::Now).unwrap();
        assert!(a.progress(Acks::Later).unwrap() > 0, "there is always something");
        while a.receive().is_some() {}
        b.receive().is_some()
    };
    look(&mut a, &mut b);
    loses.store(true, Ordering::Relaxed);
    a.send(to_b, &plain, Payload::Copy(b"lost")).unwrap();
    loses.store(false, Ordering::Relaxed);
    let begun = Clock::new();
    while !look(&mut a, &mut b) {
        assert!(
            begun.now() < Instant::ZERO + Duration::from_secs(60),
            "it was never sent again"
        );
    }
}

/// A backend with a datagram of nobody's at each of the next polls.
struct Load {
    inner: Box<dyn Backend>,
    left: u32,
    datagram: [u8; 3],
}

impl Backend for Load {
    forward_backend!(self => self.inner; capabilities, local_addr, transmit, wait, stats);

    fn name(&self) -> &'static str {
        "load"
    }
    fn receive(&mut self, _: Instant, _: usize) -> io::Result<usize> {
        let any = self.left > 0;
        self.left -= u32::from(any);
        Ok(any.into())
    }
    fn received(&mut self, _: usize) -> Received<'_> {
        Received {
            source: self.inner.local_addr(),
            port: 0,
            stride: self.datagram.len(),
            data: Data::Own(&mut self.datagram),
        }
    }
}

/// A layer that has asked to be called is called when its time has come, also if that is noticed under load, and nothing
/// comes after that.
#[test]
fn a_layer_that_asks_is_called() {
    const MOST: Duration = Duration::from_secs(60);
    for left in 1..=3 * BUSY_PASSES {
        let mut driver = driver(
            1,
            Box::new(Load {
                inner: loopback(),
                left,
                datagram: [0xff; 3],
            }),
        );
        let mut asked = None;
        let is_called = driver.run(Some(MOST), Acks::Later, |driver| {
            let (messenger, now) = driver.parts();
            match asked {
                None => messenger.wake_at(*asked.insert(now)),
                // (Its time has come when there is nothing to wait for any more.)
                Some(asked) if messenger.poll_timeout().is_none() => return now < asked + MOST / 2,
                Some(_) => {}
            }
            false
        });
        assert!(is_called.unwrap(), "{left} datagrams");
    }
}

/// A message that is not taken at once is still the same later, when its receive buffer has been reused.
#[test]
fn messages_outlive_the_buffers_that_they_came_in() {
    let (mut a, to_b, mut b, to_a) = pair(loopback());
    let plain = SendOptions::default();
    let message = |round: usize, len: usize| vec![round as u8; len];
    let mut stayed = 0;
    for round in 0..300 {
        let len = [3, 100, 1_000, 5_000, 9_000][round % 5];
        a.send(to_b, &plain, Payload::Copy(&message(round, len))).unwrap();
        assert!(b.wait_ready(None).unwrap());
        stayed += u32::from(b.messenger().is_in_place());
        let more = round % 3;
        for later in 1..=more {
            a.send(to_b, &plain, Payload::Copy(&message(round + later, len)))
                .unwrap();
            let acks = if round % 2 == 0 { Acks::Now } else { Acks::Later };
            while b.ready() <= later {
                a.progress(Acks::Now).unwrap();
                b.progress(acks).unwrap();
            }
        }
        for later in 0..=more {
            assert!(b.receive().unwrap().data() == message(round + later, len), "{round}");
        }
        assert!(b.receive().is_none());
        b.send(to_a, &plain, Payload::Copy(b"next")).unwrap();
        assert!(a.wait_ready(None).unwrap() && a.receive().is_some());
    }
    assert!(stayed > 100, "{stayed} messages were not copied");
}

#[test]
fn more_holds_back() {
    let (mut a, to_b, _b, _) = pair(loopback());
    let more = SendOptions {
        more: true,
        ..SendOptions::default()
    };
    a.send(to_b, &more, Payload::Copy(b"a")).unwrap();
    assert_eq!(a.backend_stats().datagrams_sent, 0);
    a.send(to_b, &SendOptions::default(), Payload::Copy(b"b")).unwrap();
    assert_eq!(a.backend_stats().datagrams_sent, 1);
}

#[test]
fn busy_backends_and_kept_references() {
    let count = Arc::new(Mutex::new((0, 0)));
    let stubborn = Stubborn {
        inner: loopback(),
        calls: 0,
        reclaims: 0,
        kept: Vec::new(),
        count: Arc::clone(&count),
    };
    let (mut a, to_b, mut b, _) = pair(Box::new(stubborn));
    let data = Bytes::from(vec![7; 300_000]);
    let mut tokens = Vec::new();
    for _ in 0..20 {
        let token = a.send(to_b, &SendOptions::default(), Payload::Shared(data.clone()));
        tokens.push(token.unwrap().unwrap());
    }
    let mut received = 0;
    while received < 20 || !tokens.is_empty() {
        a.progress(Acks::Now).unwrap();
        b.progress(Acks::Later).unwrap();
        while let Some(message) = b.receive() {
            assert!(message.data() == data);
            received += 1;
        }
        while let Some(event) = a.poll_event() {
            if let Event::Sent { token, .. } = event {
                tokens.retain(|&other| other != token);
            }
        }
    }
    assert!(data.is_unique(), "nobody refers to the bytes any more");
    let (out, back) = *count.lock().unwrap();
    assert!(out > 0 && out - back < 10, "{out} out, {back} back");
}

/// A backend that has always received something: useless datagrams. It fails after the given number of polls, which are
/// far more than fit into the time limits.
struct Flooded(Box<dyn Backend>, Vec<u8>, u32);

impl Backend for Flooded {
    forward_backend!(self => self.0; capabilities, local_addr, transmit, wait, stats);

    fn name(&self) -> &'static str {
        "flooded"
    }
    fn receive(&mut self, _: Instant, budget: usize) -> io::Result<usize> {
        let looks = self.2.checked_sub(1);
        self.2 = looks.ok_or_else(|| io::Error::other("the flood is waited out"))?;
        Ok(budget)
    }
    fn received(&mut self, _: usize) -> Received<'_> {
        Received {
            source: SocketAddr::from(([127, 0, 0, 1], 9)),
            port: 0,
            stride: self.1.len(),
            data: self.1.as_mut_slice().into(),
        }
    }
}

#[test]
fn waiting_ends_under_a_flood() {
    let limit = Duration::from_millis(2);
    for policy in [
        WaitPolicy::Spin,
        WaitPolicy::Block,
        WaitPolicy::default(),
        WaitPolicy::RANK,
    ] {
        let (mut a, to_b, ..) = pair(Box::new(Flooded(loopback(), vec![0; 100], 1_000_000)));
        a.policy = policy;
        let start = a.read_clock();
        assert!(!a.wait_ready(Some(limit)).unwrap());
        assert!(!a.run(Some(limit), Acks::Now, |_| false).unwrap());
        assert!(a.read_clock() >= start + 2 * limit, "but not before its time");
        // No peer answers the goodbye.
        a.send(to_b, &SendOptions::default(), Payload::Copy(b"x")).unwrap();
        let ends = a.close_all();
        assert_eq!(a.wait_ended(ends, Some(limit)).unwrap(), 1);
    }
}

#[test]
fn waiting_ends() {
    for policy in [
        WaitPolicy::Spin,
        WaitPolicy::Block,
        WaitPolicy::default(),
        WaitPolicy::RANK,
    ] {
        let (mut a, ..) = pair(loopback());
        a.policy = policy;
        assert!(!a.wait_ready(Some(Duration::ZERO)).unwrap());
        assert!(!a.wait_ready(Some(Duration::from_millis(2))).unwrap());
    }
}

/// A backend that notes when it was first asked to sleep.
struct Sleeper {
    inner: Box<dyn Backend>,
    clock: Clock,
    slept: Arc<OnceLock<Instant>>,
}

impl Backend for Sleeper {
    forward_backend!(self => self.inner; capabilities, local_addr, transmit, receive, received, stats);

    fn name(&self) -> &'static str {
        "sleeper"
    }
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        self.slept.get_or_init(|| self.clock.now());
        self.inner.wait(timeout)
    }
}

#[test]
fn a_driver_spins_and_yields_before_it_sleeps() {
    let (spin, turns) = (Duration::from_millis(1), Duration::from_millis(2));
    let (clock, slept) = (Clock::new(), Arc::default());
    let (mut a, ..) = pair(Box::new(Sleeper {
        inner: loopback(),
        clock,
        slept: Arc::clone(&slept),
    }));
    a.policy = WaitPolicy::Adaptive { spin, turns };
    let start = clock.now();
    let mut limit = spin + turns;
    while slept.get().is_none() {
        // (It may be late to look at the clock.)
        limit *= 2;
        assert!(!a.wait_ready(Some(limit)).unwrap());
    }
    assert!(slept.get().is_some_and(|at| *at >= start + spin + turns));
}
