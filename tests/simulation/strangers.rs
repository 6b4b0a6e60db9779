//! An endpoint that accepts strangers, with little room, and more of them than there is room for.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use hikyaku::{
    PeerError,
    reliability::{Event, PeerId},
    wire::{Base, Kind, Packet},
};

use crate::{
    attack::{open_packet, packet, stranger},
    exactly_once::{any_job, config},
    harness::{Link, NodeOptions, Prng, World, draw::duration, note, scenario},
};

/// The endpoint that accepts strangers, and one that it knows.
const SERVER: usize = 0;
const HONEST: usize = 1;
/// All that has been begun has ended after this time: openings, and peers that are gone.
const SETTLED: Duration = Duration::from_secs(30);
/// A peer that has left names no other for this long.
const REST: Duration = Duration::from_secs(70);
/// So long all is quiet.
const QUIET: Duration = Duration::from_secs(60);
const MAX_LEN: u64 = 5_000;

/// The behaviour of a stranger that is a process after its first message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Idles,
    Talks,
    Closes,
    Vanishes,
}

/// An address from which an opening has come, and no more of a process.
struct Forged {
    opening: Vec<u8>,
    /// It says its opening again as the challenge asks, and is never heard again.
    echoes: bool,
    has_echoed: bool,
    /// Bytes from it and to it before it has echoed.
    sent: usize,
    got: usize,
}

struct Flood {
    world: World,
    rng: Prng,
    forged: BTreeMap<SocketAddr, Forged>,
    callers: Vec<(usize, Way)>,
    closed: BTreeSet<usize>,
    /// Sessions in which strangers have shown that they hear the server, and how many of its events have been looked at.
    confirmed: BTreeSet<(PeerId, u32)>,
    seen: usize,
}

impl Flood {
    fn new(seed: u64) -> Self {
        let mut rng = Prng::new(seed ^ 0x57a9);
        let options = NodeOptions {
            config: config(|config| {
                config.accept_strangers = true;
                config.max_peers = rng.between(2, 12) as u32;
                config.death_timeout = Duration::from_millis(rng.pick(&[500, 1_000, 4_000]));
                config.keepalive = Duration::from_millis(rng.pick(&[200, 1_000, 20_000]));
                config.challenges_per_second = rng.pick(&[200, 2_000]);
                config.path_mtu_discovery = rng.chance(500);
            }),
            bare: rng.chance(300),
            slack: rng.pick(&[0, 0, 1_000_000]),
            ..NodeOptions::default()
        };
        note(format!("{options:?}"));
        let mut world = World::new(seed);
        world.min_len = 8;
        world.model.ignore_strangers();
        world.outside = Some(Vec::new());
        world.add(options);
        world.add(NodeOptions::default());
        world.connect(SERVER, HONEST);
        world.network.usual = Link {
            delay: rng.skewed(2_000_000),
            loss: rng.pick(&[0, 0, 10, 50]),
            duplicate: rng.pick(&[0, 0, 50]),
            jitter: rng.skewed(1_000_000),
            ..Link::default()
        };
        note(format!("{:?}", world.network.usual));
        Self {
            world,
            rng,
            forged: BTreeMap::new(),
            callers: Vec::new(),
            closed: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            seen: 0,
        }
    }

    /// An opening comes from an address where no process is, or one comes again.
    fn forge(&mut self) {
        let again = self.rng.chance(100) && !self.forged.is_empty();
        let last = self.forged.len() as u32;
        let number = if again {
            self.rng.below(last.into()) as u32
        } else {
            last
        };
        let (rng, address) = (&mut self.rng, stranger(number));
        let forged = self.forged.entry(address).or_insert_with(|| Forged {
            opening: open_packet(rng),
            echoes: rng.chance(500),
            has_echoed: false,
            sent: 0,
            got: 0,
        });
        if !forged.has_echoed {
            forged.sent += forged.opening.len();
            self.world.inject(SERVER, address, forged.opening.clone());
        }
    }

    /// A process that the server does not know calls it.
    fn call(&mut self, way: Way) -> usize {
        let caller = self.world.add(NodeOptions::default());
        self.world.introduce(caller, SERVER);
        self.world.send(caller, SERVER, any_job(&mut self.rng, MAX_LEN));
        self.callers.push((caller, way));
        caller
    }

    /// One of those that have called does what it is there for.
    fn act(&mut self) {
        if self.callers.is_empty() {
            return;
        }
        let (caller, way) = self.rng.pick(&self.callers);
        if !self.lives(caller) {
            return;
        }
        match way {
            Way::Idles => {}
            Way::Talks => {
                self.world.send(caller, SERVER, any_job(&mut self.rng, MAX_LEN));
                if self.is_known(caller) && self.rng.chance(500) {
                    self.world.send(SERVER, caller, any_job(&mut self.rng, MAX_LEN));
                }
            }
            Way::Closes => self.close(caller),
            Way::Vanishes => self.world.crash(caller),
        }
    }

    fn close(&mut self, caller: usize) {
        let (now, server) = (self.world.now, self.server_of(caller));
        self.world.nodes[caller].stack_mut().close(now, server);
        self.world.touch(caller);
        self.closed.insert(caller);
    }

    /// How the server is made.
    fn options(&self) -> &NodeOptions {
        &self.world.nodes[SERVER].options
    }

    fn server_of(&self, caller: usize) -> PeerId {
        self.world.nodes[caller].peer_of[&SERVER]
    }

    fn lives(&self, caller: usize) -> bool {
        self.world.nodes[caller].stack.is_some() && !self.closed.contains(&caller)
    }

    fn has_place(&self, address: SocketAddr) -> bool {
        let server = self.world.nodes[SERVER].endpoint();
        server.peer_by_address(address).is_some()
    }

    /// The server can send to it.
    fn is_known(&self, caller: usize) -> bool {
        let node = &self.world.nodes[SERVER];
        let peer = node.endpoint().peer_by_address(self.world.nodes[caller].address);
        peer.is_some() && peer == node.peer_of.get(&caller).copied()
    }

    fn run_for(&mut self, time: Duration) {
        self.world.run_for(time);
        self.answer();
        self.watch_events();
    }

    /// Addresses answer challenges, or do not. None gets much more than it has sent before it has answered.
    fn answer(&mut self) {
        let outside = self.world.outside.replace(Vec::new());
        for (to, bytes) in outside.unwrap_or_default() {
            let Some(forged) = self.forged.get_mut(&to) else {
                panic!("{} bytes to {to}, which has sent nothing", bytes.len());
            };
            if forged.has_echoed {
                continue;
            }
            forged.got += bytes.len();
            let (got, sent) = (forged.got, forged.sent);
            assert!(got <= 3 * sent, "{got} bytes to {to} for {sent}");
            let cookie = Packet::new_checked(&bytes[..])
                .ok()
                .filter(|answer| answer.kind() == Kind::Challenge)
                .and_then(|answer| answer.open());
            if let (true, Some(cookie)) = (forged.echoes, cookie) {
                forged.has_echoed = true;
                let again = say_again(&forged.opening, cookie.token);
                self.world.inject(SERVER, to, again);
            }
        }
    }

    /// No stranger that lives and has shown that it hears the server loses its place.
    fn watch_events(&mut self) {
        let node = &self.world.nodes[SERVER];
        for &(at, event) in &node.events[self.seen..] {
            match event {
                Event::Up { peer, session } => {
                    self.confirmed.insert((peer, session));
                }
                Event::Down {
                    peer,
                    session,
                    error: error @ (PeerError::NoRoom | PeerError::TimedOut { .. }),
                    ..
                } if self.confirmed.contains(&(peer, session)) => {
                    let lives = node.node_of(peer).filter(|&caller| self.lives(caller));
                    assert_eq!(lives, None, "lost at {at:?}: {error:?}");
                }
                _ => {}
            }
        }
        self.seen = node.events.len();
    }

    /// Addresses and processes call, while two that know each other talk.
    fn wave(&mut self) {
        for _ in 0..self.rng.between(200, 600) {
            match self.rng.below(100) {
                0..70 => self.forge(),
                70..75 => {
                    let ways = [
                        Way::Idles,
                        Way::Idles,
                        Way::Talks,
                        Way::Closes,
                        Way::Vanishes,
                        Way::Vanishes,
                    ];
                    let way = self.rng.pick(&ways);
                    self.call(way);
                }
                75..85 => self.act(),
                toward => {
                    let (from, to) = if toward < 92 {
                        (HONEST, SERVER)
                    } else {
                        (SERVER, HONEST)
                    };
                    self.world.send(from, to, any_job(&mut self.rng, MAX_LEN));
                }
            }
            let time = if self.rng.chance(10) { 2_000_000_000 } else { 4_000_000 };
            let time = duration(&mut self.rng, time);
            self.run_for(time);
            self.check_places();
        }
    }

    /// There are no more peers than there may be, and the table does not grow beyond what has answered challenges.
    fn check_places(&self) {
        let server = self.world.nodes[SERVER].endpoint();
        let nodes = self.world.nodes.iter().map(|node| node.address);
        let all = nodes.chain(self.forged.keys().copied());
        let peers = all.filter(|&address| self.has_place(address)).count();
        let most = server.config().max_peers as usize;
        assert!(peers <= most, "{peers} peers of {most}");
        let sessions = server.stats().sessions_opened as usize;
        assert!(
            server.peers() <= 1 + sessions,
            "{} places, {sessions} sessions",
            server.peers()
        );
    }

    /// Every process that lives has been let in, or told that it has not.
    fn check_callers(&self) {
        for &(caller, way) in self.callers.iter().filter(|(caller, _)| self.lives(*caller)) {
            let is_up = self.world.nodes[caller].endpoint().is_up(self.server_of(caller));
            let error = self.world.downs(caller).last().map(|down| down.2);
            assert!(
                is_up || error == Some(PeerError::NoRoom),
                "node {caller}, which {way:?}, was told {error:?}"
            );
        }
    }

    /// Strangers that are gone give way in the end, and only those.
    fn late_callers(&mut self) {
        // When one finds no room, the others are asked whether they live, …
        while self.late_call() {}
        let living = self.callers.iter().map(|caller| caller.0);
        let living = living.filter(|&caller| self.lives(caller) && self.is_known(caller));
        let (living, room) = (living.count(), self.options().config.max_peers as usize - 1);
        // … and so there is room for the next one, unless they all do.
        assert_eq!(self.late_call(), living < room, "{living} of {room} places are taken");
        for caller in 0..self.callers.len() {
            let caller = self.callers[caller].0;
            if self.lives(caller) && self.rng.chance(700) {
                self.close(caller);
            }
        }
    }

    /// Another one calls: whether it is let in.
    fn late_call(&mut self) -> bool {
        let caller = self.call(Way::Idles);
        self.run_for(SETTLED);
        self.check_callers();
        self.world.nodes[caller].endpoint().is_up(self.server_of(caller))
    }

    /// When nothing is to be sent, nothing is, but for peers that are watched.
    fn check_quiet(&mut self, watches: bool) {
        self.run_for(SETTLED);
        self.world.tap = Some(Vec::new());
        self.run_for(QUIET);
        let datagrams = self.world.tap.take().unwrap_or_default().len() as u128;
        let keepalive = self.options().config.keepalive;
        let questions = QUIET.as_nanos() / keepalive.as_nanos() + 1;
        let most = if watches { 2 * questions } else { 0 };
        assert!(datagrams <= most, "{datagrams} datagrams in {QUIET:?}, {most} at most");
        assert!(!watches || datagrams > 0, "the watched peer is not asked");
    }
}

/// An opening as it is said again, with the token of a challenge.
fn say_again(opening: &[u8], session: hikyaku::wire::Token) -> Vec<u8> {
    let first = match Packet::new_checked(opening) {
        Ok(first) => first,
        Err(error) => panic!("{error}"),
    };
    let base = Base {
        session,
        ..first.base()
    };
    packet(&base, first.payload(), |builder| {
        builder.checksum();
        if let Some(open) = first.open() {
            builder.open(&open);
        }
    })
}

/// Addresses that never answer, that answer their challenge and vanish, processes that call and are idle, talk, say
/// goodbye or vanish: those that the server knows, and those that were let in, are not harmed, and all ends.
#[test]
fn flood() {
    scenario("strangers::flood", 50, |seed| {
        let mut flood = Flood::new(seed);
        let watches = flood.rng.chance(300);
        if watches {
            let (now, peer) = (flood.world.now, flood.world.nodes[SERVER].peer_of[&HONEST]);
            flood.world.nodes[SERVER].stack_mut().watch(now, peer, true);
        }
        let usual = flood.world.network.usual.clone();
        for _ in 0..flood.rng.between(1, 2) {
            flood.world.network.usual = usual.clone();
            flood.wave();
            flood.world.network.heal();
            flood.run_for(SETTLED);
            flood.check_callers();
            flood.late_callers();
            flood.check_quiet(watches);
            flood.run_for(REST);
        }
        let (now, peer) = (flood.world.now, flood.world.nodes[SERVER].peer_of[&HONEST]);
        flood.world.nodes[SERVER].stack_mut().watch(now, peer, false);
        flood.world.touch(SERVER);
        flood.world.finish(SETTLED);
        assert_eq!(flood.world.downs(HONEST), []);
    });
}
