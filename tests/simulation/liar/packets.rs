//! The liar's knowledge of its session, and the packets that it makes: right, nearly right, or absurd.

use std::collections::BTreeMap;

use hikyaku::wire::{
    Base, Credit, Features, Flags, Fragment, Kind, Open, Packet, Placement, Record, Seq, Timestamp, Token,
};

use crate::{attack::packet, harness::Prng};

/// Kinds of packets that a liar sends, by their places in [`Mixture`].
const KINDS: usize = 18;

/// How often each kind is drawn, and how often a packet is spoiled, per mille.
#[derive(Debug)]
pub(super) struct Mixture {
    weights: [u64; KINDS],
    pub(super) spoiled: u32,
}

impl Mixture {
    /// Many kinds never: so that some runs get far with the others.
    pub(super) fn draw(rng: &mut Prng) -> Self {
        let mut weights = [0; KINDS];
        let sparse = rng.pick(&[0, 500, 900]);
        for weight in &mut weights {
            if !rng.chance(sparse) {
                *weight = rng.skewed(100);
            }
        }
        // Resets, goodbyes, challenges and openings end a session that is wanted alive.
        let ends = rng.chance(300);
        for weight in &mut weights[14..] {
            *weight = u64::from(ends && rng.chance(500));
        }
        weights[rng.below(14) as usize] += 1;
        Self {
            weights,
            spoiled: rng.pick(&[0, 5, 50, 300]),
        }
    }

    pub(super) fn has_fragments(&self) -> bool {
        self.weights[5] + self.weights[11] > 0
    }

    fn pick(&self, rng: &mut Prng) -> usize {
        let mut at = rng.below(self.weights.iter().sum());
        for (kind, weight) in self.weights.iter().enumerate() {
            if at < *weight {
                return kind;
            }
            at -= weight;
        }
        0
    }
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The liar's next number.
    next: Seq,
    /// The next one of the honest process.
    expected: Seq,
}

/// A region that was granted to the liar.
#[derive(Clone, Copy, Debug)]
struct Grant {
    region: u32,
    key: u32,
    until: u64,
    limit: u64,
    placed: u64,
}

/// A message that the liar sends piece by piece.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    message: Seq,
    total: u32,
    at: u32,
}

#[derive(Debug)]
pub(super) struct Liar {
    pub(super) mixture: Mixture,
    checksum: bool,
    /// The last packet of its own that was in the session.
    base: Option<Base>,
    /// The tokens by which the honest process knows its sessions.
    theirs: Token,
    flows: BTreeMap<u8, Flow>,
    message: Seq,
    /// The same in the name of another.
    borrowed: u32,
    ids: u32,
    grants: Vec<Grant>,
    /// Sends of the honest process: ids and lengths.
    requests: Vec<(u32, u64)>,
    probe: u32,
    stamp: u32,
    pieces: Option<Pieces>,
}

/// Bytes of a message of the rendezvous protocol (`messaging/tagged/control.rs`).
fn control(op: u8, id: u32, words: &[u64]) -> Vec<u8> {
    let mut bytes = vec![op, 0, 0, 0];
    bytes.extend_from_slice(&id.to_be_bytes());
    words
        .iter()
        .for_each(|word| bytes.extend_from_slice(&word.to_be_bytes()));
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |word| u64::from_be_bytes(*word))
}

/// Numbers about which mistakes are made.
fn odd(rng: &mut Prng, near: u64) -> u64 {
    match rng.below(6) {
        0 => 0,
        1 => near.wrapping_add(1),
        2 => near.wrapping_sub(1),
        3 => rng.pick(&[u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 32, u32::MAX.into()]),
        4 => near.wrapping_add(rng.skewed(1 << 20)),
        _ => rng.next(),
    }
}

impl Liar {
    pub(super) fn new(mixture: Mixture, checksum: bool) -> Self {
        Self {
            mixture,
            checksum,
            base: None,
            theirs: Token::NONE,
            flows: BTreeMap::new(),
            message: Seq(0),
            borrowed: 0,
            ids: 0,
            grants: Vec::new(),
            requests: Vec::new(),
            probe: 0,
            stamp: 0,
            pieces: None,
        }
    }

    /// It has a session.
    pub(super) fn is_in(&self) -> bool {
        self.base.is_some()
    }

    /// Its session is over.
    pub(super) fn forget(&mut self) {
        let mixture = std::mem::replace(
            &mut self.mixture,
            Mixture {
                weights: [1; KINDS],
                spoiled: 0,
            },
        );
        *self = Self::new(mixture, self.checksum);
    }

    /// A packet that it has sent while it was honest.
    pub(super) fn learn_own(&mut self, bytes: &[u8]) {
        let Ok(packet) = Packet::new_checked(bytes) else {
            return;
        };
        let base = packet.base();
        let in_session = base.session.index != 0 && base.session.index != Token::COOKIE;
        if base.kind == Kind::Data && packet.placement().is_none() {
            let messages = (packet.records().count() as u32).max(1);
            let next = base.message.plus(messages);
            if next.after(self.message) {
                self.message = next;
            }
        }
        let flow = self.flows.entry(base.channel).or_insert(Flow {
            next: base.sequence,
            expected: base.acknowledgement,
        });
        if base.kind.is_sequenced() && !base.sequence.before(flow.next) {
            flow.next = base.sequence.plus(1);
        }
        if in_session && matches!(base.kind, Kind::Data | Kind::Ack) {
            self.base = Some(Base {
                kind: Kind::Data,
                ..base
            });
        }
    }

    /// A packet of the honest process.
    pub(super) fn learn(&mut self, bytes: &[u8]) {
        let Ok(packet) = Packet::new_checked(bytes) else {
            return;
        };
        let base = packet.base();
        self.theirs = base.session;
        match base.kind {
            Kind::Probe => self.probe = base.message.0,
            Kind::Data | Kind::Ack | Kind::Goodbye | Kind::Return => {
                let flow = self.flows.entry(base.channel).or_insert(Flow {
                    next: base.acknowledgement,
                    expected: base.sequence,
                });
                flow.next = base.acknowledgement;
                if base.kind.is_sequenced() && !base.sequence.before(flow.expected) {
                    flow.expected = base.sequence.plus(1);
                }
            }
            _ => {}
        }
        if let Some(stamp) = packet.timestamp() {
            self.stamp = stamp.value;
        }
        if base.kind != Kind::Data || packet.placement().is_some() {
            return;
        }
        if packet.records().next().is_some() {
            packet.records().for_each(|record| self.learn_message(record.data));
        } else if packet.fragment().is_none() {
            self.learn_message(packet.payload());
        }
    }

    fn learn_message(&mut self, data: &[u8]) {
        match (data.first(), data.len()) {
            (Some(1), 24) => self.requests.push(((word(data, 0)) as u32, word(data, 16))),
            (Some(2), 32) => {
                let both = word(data, 8);
                let (region, key) = ((both >> 32) as u32, both as u32);
                let (until, limit) = (word(data, 16), word(data, 24));
                match self
                    .grants
                    .iter_mut()
                    .find(|grant| (grant.region, grant.key) == (region, key))
                {
                    Some(grant) => grant.until = until,
                    None => self.grants.push(Grant {
                        region,
                        key,
                        until,
                        limit,
                        placed: 0,
                    }),
                }
            }
            _ => {}
        }
        self.requests.truncate(64);
        if self.grants.len() > 64 {
            self.grants.remove(0);
        }
    }

    /// A packet that says that all has come so far: a peer that does no more than that is alive.
    pub(super) fn acknowledge(&self, channel: u8) -> Option<Vec<u8>> {
        let flow = self.flows.get(&channel)?;
        let base = Base {
            kind: Kind::Ack,
            channel,
            sequence: flow.next,
            acknowledgement: flow.expected,
            ..self.base?
        };
        Some(packet(&base, &[], |builder| {
            if self.checksum {
                builder.checksum();
            }
        }))
    }

    pub(super) fn channels(&self) -> Vec<u8> {
        self.flows.keys().copied().collect()
    }

    fn flow(&mut self, rng: &mut Prng, channel: u8) -> Flow {
        let seq = Seq(rng.next() as u32);
        *self.flows.entry(channel).or_insert(Flow {
            next: seq,
            expected: seq,
        })
    }

    /// The next packet: of a kind that the mixture says, right but for what it spoils. `bits` are those that somebody may
    /// wait for, `processors` are all.
    pub(super) fn draw(&mut self, rng: &mut Prng, bits: u64, processors: &[u32]) -> Option<Vec<u8>> {
        let kind = self.mixture.pick(rng);
        let any = rng.next();
        let channel = match kind {
            3 | 4 => 1,
            13 => rng.pick(&[0, 1, 2, 7, 255, any as u8]),
            _ => 0,
        };
        let flow = self.flow(rng, channel);
        let mut base = Base {
            channel,
            sequence: flow.next,
            acknowledgement: flow.expected,
            message: self.message,
            ..self.base?
        };
        let mut fragment = None;
        let mut placement = None;
        let mut match_bits = None;
        let mut records = false;
        let mut open = None;
        let mut sack = Vec::new();
        let mut immediate = None;
        let mut payload = Vec::new();
        let mut messages = 1;
        let filler = |rng: &mut Prng, max: u64| vec![0x5a; rng.skewed(max) as usize - 1];
        match kind {
            0 => {
                match_bits = Some(bits);
                payload = filler(rng, 1_400);
                if rng.chance(self.mixture.spoiled) {
                    // In another's name, which has a row of numbers of its own.
                    base.source = processors[1];
                    base.message = Seq(self.borrowed);
                    self.borrowed += 1;
                    messages = 0;
                }
            }
            1 => {
                self.ids = self.ids.wrapping_add(rng.pick(&[0, 1, 1, 1]));
                let len = rng.pick(&[0, 1, 5_000, 100_000, 1 << 20, 8 << 20, 1 << 40, u64::MAX]);
                payload = control(1, self.ids, &[bits, len]);
            }
            2 => {
                let (id, len) = match self.requests.len() {
                    0 => (rng.below(4) as u32, 1_000),
                    some => self.requests[rng.below(some as u64) as usize],
                };
                let limit = if rng.chance(800) { len } else { odd(rng, len) };
                let until = rng.pick(&[limit, limit / 2, len, 0]);
                payload = control(2, id, &[rng.next(), until, limit]);
            }
            3 | 4 => {
                let some = self.grants.len() as u64;
                if some == 0 {
                    return self.acknowledge(0);
                }
                let grant = &mut self.grants[rng.below(some) as usize];
                if rng.chance(self.mixture.spoiled / 2) {
                    // All of it, granted or not, or all again.
                    if rng.chance(500) {
                        grant.until = grant.limit;
                    } else {
                        grant.placed = 0;
                    }
                }
                let left = grant.until.saturating_sub(grant.placed);
                let len = left.min(rng.skewed(1_400));
                let mut at = grant.placed;
                grant.placed += len;
                payload = vec![0x5a; len as usize];
                if rng.chance(self.mixture.spoiled) {
                    // Beyond what was granted, beyond the end, or twice.
                    let near = rng.pick(&[grant.until, grant.limit, grant.placed, 0]);
                    let wrong = odd(rng, near);
                    at = rng.pick(&[near, near.wrapping_sub(len), wrong, at / 2]);
                    payload = filler(rng, 1_400);
                }
                placement = Some(Placement {
                    region: grant.region,
                    offset: at,
                });
                base.message = Seq(grant.key);
                messages = 0;
            }
            5 => {
                let total = rng.pick(&[2_000, 5_000, 60_000, 1 << 20, 1 << 30, u32::MAX]);
                let pieces = self.pieces.get_or_insert(Pieces {
                    message: self.message,
                    total,
                    at: 0,
                });
                payload = vec![0x5a; (pieces.total - pieces.at).min(1_000) as usize];
                (base.message, match_bits) = (pieces.message, Some(bits));
                fragment = Some(Fragment {
                    offset: pieces.at,
                    total: pieces.total,
                });
                pieces.at += payload.len() as u32;
                messages = u32::from(pieces.at == payload.len() as u32);
                if pieces.at == pieces.total || rng.chance(50) {
                    self.pieces = None;
                }
            }
            6 => {
                records = true;
                messages = rng.skewed(60) as u32;
                for _ in 0..messages {
                    let record = Record {
                        match_bits: rng.chance(800).then_some(bits),
                        data: &[7; 20][..rng.below(20) as usize],
                    };
                    let at = payload.len();
                    payload.resize(at + record.len(), 0);
                    record.emit(&mut payload[at..]);
                }
            }
            7 => payload = [control(3, rng.below(20) as u32, &[]), filler(rng, 200)].concat(),
            8 => {
                base.kind = Kind::Ack;
                base.acknowledgement = flow.expected.minus(rng.below(4) as u32);
            }
            9 => {
                (base.kind, base.message) = (Kind::Probe, Seq(rng.next() as u32));
                payload = filler(rng, 1_400);
            }
            10 => {
                base.kind = Kind::ProbeAck;
                base.message = Seq(self.probe.wrapping_add(rng.pick(&[0, 0, 1])));
            }
            11 => {
                // Scattered: messages that have no beginning, or wait for others.
                base.message = self.message.plus(rng.skewed(1 << 29) as u32);
                let total = rng.skewed(1 << 30) as u32 + 1;
                fragment = rng.chance(700).then(|| Fragment {
                    offset: rng.below(u64::from(total)) as u32,
                    total,
                });
                payload = vec![3];
                messages = 0;
            }
            12 => {
                base.kind = Kind::Return;
                base.message = Seq(rng.skewed(1_000) as u32);
                immediate = rng.chance(500).then(|| rng.next());
            }
            13 => payload = filler(rng, 200),
            14 => {
                base.kind = Kind::Reset;
                base.session = rng.pick(&[base.session, self.theirs, Token::NONE]);
                base.message = Seq(rng.below(2) as u32);
                base.sequence = Seq(rng.pick(&[0, 0, any as u32]));
            }
            15 => base.kind = Kind::Goodbye,
            16 => base.kind = rng.pick(&[Kind::Challenge, Kind::Settle, Kind::Settled]),
            _ => base.session = rng.pick(&[base.session, Token::NONE]),
        }
        if kind >= 16 {
            open = Some(Open {
                epoch: rng.next() | 1,
                token: if rng.chance(500) {
                    self.theirs
                } else {
                    Token {
                        index: rng.pick(&[1, 2, Token::COOKIE]),
                        secret: rng.next(),
                    }
                },
                features: Features::from_bits_retain(rng.pick(&[0, 1, any as u32])),
                credit: Credit {
                    limit: rng.next() as u32,
                    window: rng.next() as u32,
                },
                ack_delay: rng.next() as u32,
                max_datagram: rng.next() as u16,
                port: rng.pick(&[0, any as u16]),
            });
        }
        let sequenced = base.kind.is_sequenced();
        if rng.chance(self.mixture.spoiled) {
            Self::spoil(rng, &mut base, processors);
            if let Some(fragment) = &mut fragment {
                fragment.total = fragment.total.max(payload.len() as u32 + 1);
                fragment.offset = (odd(rng, fragment.offset.into()) as u32).min(fragment.total - payload.len() as u32);
            }
            if let Some(placement) = &mut placement {
                match rng.below(3) {
                    0 => placement.region = rng.pick(&[0, 1, placement.region ^ 1, any as u32]),
                    1 => placement.offset = odd(rng, placement.offset),
                    _ => {}
                }
            }
            sack = (0..rng.between(0, 16))
                .map(|_| rng.pick(&[0, 1, u64::MAX, any]))
                .collect();
            if base.kind == Kind::Data && !records && rng.chance(300) {
                // Bytes that are nearly what they should be.
                for _ in 0..rng.skewed(4) {
                    let at = rng.skewed(payload.len() as u64 + 1) as usize - 1;
                    if let Some(byte) = payload.get_mut(at) {
                        *byte = rng.next() as u8;
                    }
                }
            }
        } else if sequenced {
            if let Some(flow) = self.flows.get_mut(&channel) {
                flow.next = flow.next.plus(1);
            }
            if base.kind == Kind::Data {
                self.message = self.message.plus(messages);
            }
        }
        let in_flow = sequenced || base.kind == Kind::Ack;
        let credit = (in_flow && rng.chance(100)).then(|| Credit {
            limit: rng.pick(&[0, 100_000, 1 << 30, u32::MAX, any as u32]),
            window: rng.pick(&[0, 1, 60_000, u32::MAX]),
        });
        let stamp = (in_flow && rng.chance(200)).then(|| Timestamp {
            value: rng.next() as u32,
            echo: rng.pick(&[0, self.stamp, any as u32]),
        });
        let mut marks = if records { Flags::BUNDLE } else { Flags::empty() };
        if rng.chance(100) {
            marks |= Flags::ACK_REQUEST;
        }
        if rng.chance(30) {
            marks |= Flags::NACK;
        }
        let checksum = (self.checksum || open.is_some()) && base.kind != Kind::Reset;
        let mut bytes = packet(&base, &payload, |builder| {
            builder.set(marks);
            match_bits.inspect(|bits| _ = builder.match_bits(*bits));
            immediate.inspect(|data| _ = builder.immediate(*data));
            fragment.inspect(|fragment| _ = builder.fragment(*fragment));
            placement.inspect(|placement| _ = builder.placement(*placement));
            stamp.inspect(|stamp| _ = builder.timestamp(*stamp));
            credit.inspect(|credit| _ = builder.credit(*credit));
            if checksum {
                builder.checksum();
            }
            open.inspect(|open| _ = builder.open(open));
            if !sack.is_empty() {
                builder.sack(&sack);
            }
        });
        if rng.chance(self.mixture.spoiled / 5) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        Some(bytes)
    }

    fn spoil(rng: &mut Prng, base: &mut Base, processors: &[u32]) {
        let any = rng.next() as u32;
        let near = |rng: &mut Prng, seq: Seq| match rng.below(3) {
            0 => Seq(rng.next() as u32),
            1 => seq.plus(rng.skewed(4_000) as u32).minus(2_000),
            _ => seq.plus(rng.pick(&[u32::MAX, 1, 2, 1 << 31, 1 << 29])),
        };
        for _ in 0..rng.skewed(3) {
            match rng.below(9) {
                0 => base.sequence = near(rng, base.sequence),
                1 => base.acknowledgement = near(rng, base.acknowledgement),
                2 => base.message = near(rng, base.message),
                3 => base.channel = rng.next() as u8,
                4 | 5 => base.source = rng.pick(processors),
                6 => base.destination = rng.pick(&[processors[0], processors[1], u32::MAX, any]),
                7 => base.session.secret ^= rng.pick(&[0, 1]),
                _ => base.session.index = rng.pick(&[0, 1, 2, 3, 4, u32::MAX]),
            }
        }
    }
}
