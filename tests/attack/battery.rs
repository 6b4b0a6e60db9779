//! The attacks, and what is asked after each.

use std::{
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    time::{Duration, Instant},
};

use hikyaku::{
    Contact,
    transport::Transport,
    wire::{Kind, Packet, Token},
};

use crate::{
    forge::{FORMS, Forger, Form, guess},
    honest::{Pair, Report, Setup, Task, chance},
    raw::{self, Icmp, Sender},
};

/// Datagrams a second of attacks that want every guess looked at.
const RATE: u64 = 200_000;
/// The pair goes on for so long after an attack, so that timers can show what it has done.
const AFTERWARDS: Duration = Duration::from_millis(200);
/// Bytes that the process may have grown by, more than what a setting allows the attacked side to keep: buffers of
/// receives that were larger than ever before, and what the allocator keeps.
const SLACK: u64 = 16 << 20;

/// Where the attacker lives when he does not lie about it.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 66, 6, 6);

/// Peers that one who accepts strangers has room for.
const STRANGERS: u32 = 10_000;

/// One of 100,000 addresses that are nobody's.
pub(crate) fn stranger(number: u64) -> SocketAddrV4 {
    let host = (127 << 24) | 0x80_0000 | ((number as u32 % 100_000) << 2);
    SocketAddrV4::new(Ipv4Addr::from(host), 1_024 + (number % 60_000) as u16)
}

/// An honest stranger asks `server` for an echo. The error says why there was none.
fn newcomer(server: SocketAddrV4) -> Result<(), String> {
    let transport = Transport::builder().processor(7).bind("udp", "127.2.0.1:0");
    let mut transport = transport.map_err(|error| error.to_string())?;
    let peer = transport
        .add_peer(server.into(), 0)
        .map_err(|error| error.to_string())?;
    transport
        .send(peer, b"is anybody there?")
        .map_err(|error| error.to_string())?;
    match transport.receive(Some(Duration::from_secs(8))) {
        Ok(message) if message.data() == b"is anybody there?" => Ok(()),
        Ok(message) => Err(format!("another answer: {} bytes", message.data().len())),
        Err(error) => Err(format!("no answer: {error}; {:?}", transport.next_event())),
    }
}

/// How long the battery takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// Seconds.
    Short,
    /// Minutes.
    Long,
}

impl Length {
    /// One of two numbers.
    pub(crate) fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

/// One who sends what he likes.
pub(crate) struct Attacker {
    pub(crate) sender: Sender,
    pub(crate) forger: Forger,
    /// Of his own, for answers.
    pub(crate) socket: UdpSocket,
    pub(crate) own: SocketAddrV4,
    /// Addresses of the two honest ends.
    pub(crate) ends: [SocketAddrV4; 2],
    begun: Instant,
    paced: u64,
    /// Bytes and packets that have come to his own socket, and what of it looks like the pair's data.
    pub(crate) answers: u64,
    pub(crate) stolen: u64,
    /// Acknowledgements that have come to him.
    pub(crate) acknowledgements: u64,
}

impl Attacker {
    pub(crate) fn new(ends: [SocketAddrV4; 2]) -> Self {
        let socket = UdpSocket::bind((ATTACKER, 0)).expect("the loopback network is ours");
        socket.set_nonblocking(true).expect("a socket can do that");
        let port = socket.local_addr().expect("it is bound").port();
        Self {
            sender: Sender::new().expect("root may have a raw socket"),
            forger: Forger::new(),
            socket,
            own: SocketAddrV4::new(ATTACKER, port),
            ends,
            begun: raw::now(),
            paced: 0,
            answers: 0,
            stolen: 0,
            acknowledgements: 0,
        }
    }

    /// Waits until the next packet is due at `rate` a second.
    pub(crate) fn pace(&mut self, rate: u64) {
        if self.paced == 0 {
            self.begun = raw::now();
        }
        self.paced += 1;
        if self.paced.is_multiple_of(32) {
            let due = Duration::from_nanos(self.paced * 1_000_000_000 / rate);
            self.listen();
            while self.begun.elapsed() < due {
                std::hint::spin_loop();
            }
        }
    }

    /// A new count for [`pace`](Self::pace).
    pub(crate) fn rest(&mut self) {
        self.sender.flush();
        self.paced = 0;
    }

    /// Where packet `number` comes from: the attacker's own address, or the other honest end's.
    fn source(&self, number: u64, victim: usize) -> SocketAddrV4 {
        if number.is_multiple_of(2) {
            self.own
        } else {
            self.ends[1 - victim]
        }
    }

    /// Sends a forged packet to an end, from his own address or, for odd numbers, from that of the other end.
    pub(crate) fn forged(&mut self, form: Form, token: Token, number: u64) {
        let victim = (number / 2 % 2) as usize;
        let from = self.source(number, victim);
        let packet = self.forger.packet(form, token, victim, number as u32 / 4);
        self.sender.udp(from, self.ends[victim], packet);
    }

    /// Looks at what has come back.
    pub(crate) fn listen(&mut self) {
        let mut buffer = [0; 65_536];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            self.answers += len as u64;
            match Packet::new_checked(&buffer[..len]).map(|packet| packet.kind()) {
                Ok(Kind::Data) => self.stolen += 1,
                Ok(Kind::Ack) => self.acknowledgements += 1,
                _ => {}
            }
        }
    }
}

/// The limits within which an attack counts as harmless.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// Bytes that the process may grow by.
    pub(crate) memory: u64,
    /// Sessions that strangers may have opened.
    pub(crate) strangers: u64,
    /// Sessions of the pair that begin meanwhile, at each end.
    pub(crate) begun: u64,
    /// Packets are dropped without being looked at, or none of them is a datagram for the endpoint.
    pub(crate) uncounted: bool,
}

impl Default for Allowed {
    fn default() -> Self {
        Self {
            memory: SLACK,
            strangers: 0,
            begun: 0,
            uncounted: false,
        }
    }
}

/// All attacks, and their results.
pub(crate) struct Battery {
    length: Length,
    only: Option<String>,
    /// Names of the attacks that have done harm.
    pub(crate) failed: Vec<String>,
}

impl Battery {
    pub(crate) fn new(length: Length) -> Self {
        Self {
            length,
            only: std::env::var("ATTACK_ONLY").ok(),
            failed: Vec::new(),
        }
    }

    /// Whether the attack `name` is one of those that were asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }

    /// Begins a table of results.
    pub(crate) fn table(&self, heading: &str, columns: &[&str]) {
        println!("table\t{heading}\t{}\tverdict", columns.join("\t"));
    }

    /// Prints a row of the table.
    pub(crate) fn row(&mut self, name: &str, cells: &[String], trouble: &[String]) {
        let verdict = if trouble.is_empty() {
            "ok".to_owned()
        } else {
            format!("FAILED: {}", trouble.join("; "))
        };
        println!("row\t{name}\t{}\t{verdict}", cells.join("\t"));
        if !trouble.is_empty() {
            self.failed.push(name.to_owned());
        }
    }

    /// Everything.
    pub(crate) fn run(&mut self) {
        let columns = [
            "attack",
            "sent",
            "dropped",
            "in kernel",
            "answers B",
            "memory KB",
            "messages",
        ];
        self.table(
            "attacks on a pair that talks; messages: of the pair, meanwhile",
            &columns,
        );
        for form in FORMS {
            self.guesses(form);
        }
        self.many_guesses(1 << self.length.pick(17, 20));
        if self.length == Length::Long {
            self.many_guesses(1 << 24);
        }
        for form in [Form::Open, Form::OpenAck, Form::Challenge, Form::Data] {
            self.first_contact(form);
        }
        for form in [Form::Open, Form::OpenAck, Form::Goodbye] {
            self.before_the_peer(form);
        }
        self.noise(self.length.pick(1 << 15, 1 << 20));
        self.icmp();
        self.openings();
        crate::replay::run(self);
        crate::rails::run(self);
        crate::amplify::run(self, self.length);
    }

    /// One kind of packet with 4,096 guesses, from both addresses to both ends.
    fn guesses(&mut self, form: Form) {
        let name = format!("4,096 guesses: {form:?}");
        self.attack(&name, &Setup::default(), Allowed::default(), |attacker| {
            for number in 0..4 * 4_096 {
                attacker.pace(RATE);
                attacker.forged(form, guess(number / 4), number);
            }
        });
    }

    /// All kinds in turns.
    fn many_guesses(&mut self, count: u64) {
        let name = format!("2^{} guesses: all kinds", count.ilog2());
        self.attack(&name, &Setup::default(), Allowed::default(), |attacker| {
            for number in 0..count {
                attacker.pace(RATE);
                let form = FORMS[(number / 4 % FORMS.len() as u64) as usize];
                attacker.forged(form, guess(number / 4 / FORMS.len() as u64), number);
            }
        });
    }

    /// Packets that know no session, from both addresses.
    fn first_contact(&mut self, form: Form) {
        let name = format!("{form:?} of no session");
        self.attack(&name, &Setup::default(), Allowed::default(), |attacker| {
            for number in 0..4 * 4_096 {
                attacker.pace(RATE);
                attacker.forged(form, Token::NONE, number);
            }
        });
    }

    /// The same from the peer's address before the peer has called, in a job.
    fn before_the_peer(&mut self, form: Form) {
        let name = format!("{form:?} before the peer, in a job");
        if !self.wants(&name) {
            return;
        }
        let mut setup = Setup {
            late: true,
            ..Setup::default()
        };
        let contact = Contact::of_job(&u128::from(chance()).to_be_bytes());
        setup.configs.iter_mut().for_each(|config| config.contact = contact);
        let pair = Pair::start(&setup);
        let mut attacker = Attacker::new(pair.addresses);
        let allowed = Allowed {
            begun: 1,
            ..Allowed::default()
        };
        self.attack_pair(&name, &pair, &mut attacker, allowed, |attacker| {
            let [victim, peer] = attacker.ends;
            for number in 0..4_096 {
                attacker.pace(RATE);
                let token = Token {
                    index: 0,
                    secret: guess(number).secret,
                };
                let packet = attacker.forger.packet(form, token, 0, 0);
                attacker.sender.udp(peer, victim, packet);
            }
            attacker.rest();
            pair.complete();
        });
    }

    fn noise(&mut self, count: u64) {
        self.attack("random bytes", &Setup::default(), Allowed::default(), |attacker| {
            for number in 0..count {
                attacker.pace(RATE);
                let victim = (number / 2 % 2) as usize;
                let from = attacker.source(number, victim);
                attacker
                    .sender
                    .udp(from, attacker.ends[victim], attacker.forger.noise());
            }
        });
    }

    /// ICMP errors about packets between the two, from a router that nobody knows and from the peer's own host.
    fn icmp(&mut self) {
        let error = |kind, code, rest| Icmp { kind, code, rest };
        let errors = [
            ("port unreachable", error(3, 3, 0)),
            ("host unreachable", error(3, 1, 0)),
            ("protocol unreachable", error(3, 2, 0)),
            ("administratively prohibited", error(3, 13, 0)),
            ("frag needed, 68", error(3, 4, 68)),
            ("frag needed, 1,280", error(3, 4, 1_280)),
            ("time exceeded", error(11, 0, 0)),
        ];
        let allowed = Allowed {
            uncounted: true,
            ..Allowed::default()
        };
        let count: u64 = self.length.pick(400, 4_000);
        for (what, error) in errors {
            for full in [false, true] {
                let quote = if full { "with a guessed packet" } else { "8 bytes" };
                let name = format!("icmp {what}, {quote}");
                self.attack(&name, &Setup::default(), allowed, |attacker| {
                    for number in 0..count {
                        attacker.pace(RATE / 20);
                        let victim = (number / 2 % 2) as usize;
                        let (from, to) = (attacker.ends[victim], attacker.ends[1 - victim]);
                        let reporter = if number.is_multiple_of(2) {
                            Ipv4Addr::new(127, 9, 9, 9)
                        } else {
                            *to.ip()
                        };
                        let packet = attacker
                            .forger
                            .packet(Form::Data, guess(number), 1 - victim, number as u32);
                        let packet = if full { packet } else { &[] };
                        attacker.sender.icmp(reporter, error, from, to, packet);
                    }
                });
            }
        }
    }

    /// Openings from 100,000 addresses, to one that accepts strangers and one that does not.
    fn openings(&mut self) {
        let count = self.length.pick(20_000, 100_000);
        let mut opened = Setup::default();
        opened.configs[0].accept_strangers = true;
        opened.configs[0].max_peers = STRANGERS;
        opened.echo = true;
        let strangers = Allowed {
            strangers: u64::MAX,
            // A peer has at most an active block and an answer in flight.
            memory: SLACK + u64::from(STRANGERS) * (16 << 10),
            uncounted: true,
            ..Allowed::default()
        };
        for (name, setup, allowed) in [
            ("openings from many addresses", Setup::default(), Allowed::default()),
            ("the same, strangers accepted", opened, strangers),
        ] {
            for form in [Form::Open, Form::OpenAck] {
                let name = format!("{name}: {form:?}");
                if !self.wants(&name) {
                    continue;
                }
                let pair = Pair::start(&setup);
                let mut attacker = Attacker::new(pair.addresses);
                self.attack_pair(&name, &pair, &mut attacker, allowed, |attacker| {
                    for number in 0..count {
                        attacker.pace(RATE / 2);
                        let packet = attacker.forger.packet(form, Token::NONE, 0, 0);
                        attacker.sender.udp(stranger(number), attacker.ends[0], packet);
                    }
                });
                if setup.echo {
                    let trouble: Vec<String> = newcomer(pair.addresses[0]).err().into_iter().collect();
                    self.row("    an honest stranger after them", &[], &trouble);
                }
            }
        }
    }

    /// Attacks a pair that talks, and looks what has become of it.
    pub(crate) fn attack(&mut self, name: &str, setup: &Setup, allowed: Allowed, act: impl FnOnce(&mut Attacker)) {
        if !self.wants(name) {
            return;
        }
        let pair = Pair::start(setup);
        let mut attacker = Attacker::new(pair.addresses);
        self.attack_pair(name, &pair, &mut attacker, allowed, act);
    }

    /// The same to a pair that is there already.
    pub(crate) fn attack_pair(
        &mut self,
        name: &str,
        pair: &Pair,
        attacker: &mut Attacker,
        allowed: Allowed,
        act: impl FnOnce(&mut Attacker),
    ) {
        eprintln!("{name}");
        let before = pair.report();
        let memory = raw::resident();
        let drops = raw::kernel_drops(&pair.addresses);
        act(attacker);
        attacker.rest();
        let end = raw::now() + AFTERWARDS;
        let mut peak = memory;
        while raw::now() < end {
            attacker.listen();
            peak = peak.max(raw::resident());
            raw::pause(Duration::from_millis(5));
        }
        let going = pair.report();
        let after = pair.settle();
        pair.assign(Task::Talk);
        let grown = peak.saturating_sub(memory);
        let in_kernel = raw::kernel_drops(&pair.addresses) - drops;
        let mut trouble = harm(&before, &going, &after, allowed);
        if going.messages < before.messages + 100 {
            trouble.push("the pair hardly talked".to_owned());
        }
        if attacker.stolen > 0 {
            trouble.push(format!("{} packets of data went to the attacker", attacker.stolen));
        }
        if grown > allowed.memory {
            trouble.push(format!(
                "{} KB of memory, more than {}",
                grown >> 10,
                allowed.memory >> 10
            ));
        }
        let counted = after.dropped() - before.dropped();
        // A few are between the counters when these are read.
        if !allowed.uncounted && counted + in_kernel + 64 < attacker.sender.packets {
            trouble.push("not every forged packet is counted as dropped".to_owned());
        }
        let cells = [
            attacker.sender.packets,
            counted,
            in_kernel,
            attacker.answers,
            grown >> 10,
            after.messages - before.messages,
        ];
        self.row(name, &cells.map(|cell| cell.to_string()), &trouble);
    }
}

/// The damage of an attack.
fn harm(before: &Report, going: &Report, after: &Report, allowed: Allowed) -> Vec<String> {
    let mut trouble = after.trouble.clone();
    if !after.complete {
        trouble.push("messages do not arrive".to_owned());
    }
    for side in 0..2 {
        let rails = after.rails()[side];
        if rails > before.rails()[side] {
            trouble.push(format!("side {side} has {rails} rails beside the first"));
        }
        // Right after the attack as well: a rail that has fallen may be proven again before all messages have arrived.
        let had = before.working[side];
        let has = going.working[side].min(after.working[side]);
        if had > 1 && has < had {
            trouble.push(format!("side {side} has {has} rails that work, of {had} before"));
        }
        let (before, after) = (&before.sides[side], &after.sides[side]);
        // It may have come back before anybody looked.
        let fallen = after.rails_down - before.rails_down;
        if fallen > 0 {
            trouble.push(format!("rails of side {side} have fallen {fallen} times"));
        }
        let opened = after.sessions_opened - before.sessions_opened;
        if opened > allowed.begun && allowed.strangers == 0 {
            trouble.push(format!("side {side} has opened {opened} sessions"));
        }
        let lost = after.peers_lost - before.peers_lost;
        if lost > 0 && allowed.strangers == 0 {
            trouble.push(format!("side {side} has lost its peer {lost} times"));
        }
    }
    trouble
}

/// A rail that has fallen is harm, right after the attack or at the end, and also if it has come back before; where there
/// was one path, nothing can fall.
#[test]
fn a_rail_that_falls_is_harm() {
    let with = |working| Report {
        working,
        complete: true,
        ..Report::default()
    };
    let found = |before, going, after| harm(&with(before), &with(going), &with(after), Allowed::default());
    assert_eq!(found([2, 2], [2, 2], [2, 2]), [""; 0]);
    assert_eq!(found([0, 1], [1, 1], [1, 1]), [""; 0]);
    for (going, after) in [([2, 1], [2, 2]), ([2, 2], [2, 1]), ([2, 1], [2, 1])] {
        assert_eq!(
            found([2, 2], going, after),
            ["side 1 has 1 rails that work, of 2 before"]
        );
    }
    assert_eq!(
        found([2, 2], [0, 2], [2, 2]),
        ["side 0 has 0 rails that work, of 2 before"]
    );
    // Twice, and it has been proven again as often.
    let mut after = with([2, 2]);
    (after.sides[1].rails_up, after.sides[1].rails_down) = (2, 2);
    let found = harm(&with([2, 2]), &with([2, 2]), &after, Allowed::default());
    assert_eq!(found, ["rails of side 1 have fallen 2 times"]);
    // Before the attack.
    assert_eq!(harm(&after, &after, &after, Allowed::default()), [""; 0]);
}
