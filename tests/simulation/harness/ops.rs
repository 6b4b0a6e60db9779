//! Operations on a pair of nodes, read from any bytes: what a fuzzer drives.

use std::time::Duration;

use hikyaku::{Config, Recovery, WindowMode};

use super::{
    App, Job, NodeOptions, World,
    node::{RAILS, on_rail},
};

/// One step. Made from bytes by [`read`], so that every input means something.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Send {
        from: usize,
        job: Job,
    },
    Run(Duration),
    Lose {
        per_mille: u32,
    },
    Disorder {
        duplicate: u32,
        reorder: u32,
        hold_back: u64,
    },
    Corrupt {
        per_mille: u32,
    },
    Cut {
        from: usize,
    },
    Heal,
    /// Not the first.
    AddRail {
        node: usize,
        rail: u8,
    },
    CutRail {
        node: usize,
        rail: u8,
    },
    Stall {
        node: usize,
        time: Duration,
    },
    Hold {
        node: usize,
        hold: bool,
    },
    RequestAcks {
        node: usize,
    },
    Watch {
        node: usize,
        on: bool,
    },
    Close {
        node: usize,
    },
    Restart {
        node: usize,
    },
    ShrinkPath {
        mtu: usize,
    },
    /// Replays the n-th datagram from the end of what was sent.
    Replay {
        back: usize,
        flip: Option<(usize, u8)>,
        rail: u8,
    },
    /// Bytes out of nowhere.
    Inject {
        node: usize,
        rail: u8,
        bytes: Vec<u8>,
    },
}

/// Reads bytes front to back; zeros after the end.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    pub(super) fn half(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// A length or time: 4 bits of magnitude, 4 bits of value.
    pub(super) fn magnitude(&mut self) -> u64 {
        let byte = u64::from(self.byte());
        (byte & 15) << (byte >> 4)
    }

    /// As many bytes as the next one says, if there are so many.
    pub(super) fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }

    fn op(&mut self) -> Op {
        let code = self.byte();
        let node = usize::from(code >> 7);
        // Of the operations that know rails; zero stands for the first one, which is what other inputs mean.
        let drawn = code & 64 == 64;
        match code & 31 {
            0..=9 => {
                let job = Job::new(self.magnitude() as usize % 100_000);
                let flags = self.byte();
                Op::Send {
                    from: node,
                    job: Job {
                        shared: flags & 1 == 1,
                        channel: flags >> 6,
                        tag: (flags & 2 == 2).then_some(u64::from(flags) << 40),
                        immediate: (flags & 12 == 12).then_some(u64::from(flags)),
                        ..job
                    },
                }
            }
            10..=15 => Op::Run(Duration::from_micros(self.magnitude())),
            16 => Op::Lose {
                per_mille: u32::from(self.byte()),
            },
            17 => Op::Disorder {
                duplicate: u32::from(self.byte()),
                reorder: u32::from(self.byte()),
                hold_back: self.magnitude() * 1_000,
            },
            18 => Op::Corrupt {
                per_mille: u32::from(self.byte()) / 2,
            },
            19 if drawn => Op::CutRail {
                node,
                rail: self.byte() % (RAILS + 1),
            },
            19 => Op::Cut { from: node },
            20 if drawn => Op::AddRail {
                node,
                rail: 1 + self.byte() % RAILS,
            },
            20 | 21 => Op::Heal,
            22 => Op::Stall {
                node,
                time: Duration::from_micros(self.magnitude()),
            },
            23 => Op::Hold {
                node,
                hold: code & 32 == 32,
            },
            24 => Op::RequestAcks { node },
            25 => Op::Watch {
                node,
                on: code & 32 == 32,
            },
            26 => Op::Close { node },
            27 => Op::Restart { node },
            28 => Op::ShrinkPath {
                mtu: 1_472 + usize::from(self.half()),
            },
            29 | 30 => Op::Replay {
                back: usize::from(self.byte()),
                flip: (code & 32 == 32).then(|| (usize::from(self.half()), self.byte())),
                rail: if drawn { self.byte() % (RAILS + 1) } else { 0 },
            },
            _ => Op::Inject {
                node,
                rail: if drawn { self.byte() % (RAILS + 1) } else { 0 },
                bytes: self.bytes().to_vec(),
            },
        }
    }

    pub(super) fn config(&mut self) -> Config {
        let mut config = if self.byte() & 7 == 0 {
            Config::dse()
        } else {
            Config::default()
        };
        let flags = self.byte();
        config.checksum = true;
        config.timestamps = flags & 1 == 0;
        config.bundle &= flags & 2 == 0;
        if flags & 4 == 4 {
            config.recovery = Recovery::GoBackN;
        }
        if flags & 8 == 8 {
            config.window_mode = WindowMode::BurstThenWait;
        }
        if flags & 16 == 16 {
            config.window_packets = 1 + u16::from(self.byte());
        }
        if flags & 32 == 32 {
            config.unexpected_bytes = 64 << 10;
        }
        if flags & 64 == 64 {
            config.send_queue_bytes = 4 << 10;
            config.send_queue_messages = 3;
        }
        config
    }
}

/// The operations that these bytes mean, after a configuration, and how many rails both have from the start.
fn read(bytes: &[u8]) -> (NodeOptions, u8, Vec<Op>) {
    let mut reader = Reader(bytes);
    let config = reader.config();
    let flags = reader.byte();
    let mut options = NodeOptions {
        config,
        bare: flags & 1 == 1,
        ..NodeOptions::default()
    };
    options.limits.holds_references = flags & 2 == 2;
    options.hold = 1_000_000;
    options.limits.max_datagram = if flags & 4 == 4 { 8_972 } else { 1_472 };
    options.limits.max_segments = if flags & 8 == 8 { 1 } else { 64 };
    let mut ops = Vec::new();
    while !reader.0.is_empty() && ops.len() < 1_000 {
        ops.push(reader.op());
    }
    (options, flags >> 4 & 3, ops)
}

/// Whether the session must survive all that happens: nobody closed, restarted or replayed across that.
struct Run {
    world: World,
    lasting: bool,
}

impl Run {
    fn apply(&mut self, op: Op) {
        let world = &mut self.world;
        let now = world.now;
        match op {
            Op::Send { from, job } => world.send(from, 1 - from, job),
            Op::Run(time) => world.run_for(time),
            Op::Lose { per_mille } => world.network.usual.loss = per_mille,
            Op::Disorder {
                duplicate,
                reorder,
                hold_back,
            } => {
                let link = &mut world.network.usual;
                (link.duplicate, link.reorder, link.hold_back) = (duplicate, reorder, hold_back);
            }
            Op::Corrupt { per_mille } => world.network.usual.corrupt = per_mille,
            Op::Cut { from } => world.network.cut_one_way(from, 1 - from),
            Op::Heal => world.network.heal(),
            Op::AddRail { node, rail } => world.add_rail(node, 1 - node, rail),
            Op::CutRail { node, rail } => _ = world.network.dead_rails.insert((node, rail)),
            Op::Stall { node, time } => world.stall(node, time),
            Op::Hold { node, hold } => {
                world.nodes[node].options.app = if hold { App::Hold } else { App::Take };
                world.touch(node);
            }
            Op::RequestAcks { node } => {
                world.nodes[node].stack_mut().request_acks(now);
                world.touch(node);
            }
            Op::Watch { node, on } => {
                let peer = world.nodes[node].peer_of[&(1 - node)];
                world.nodes[node].stack_mut().watch(now, peer, on);
                world.touch(node);
            }
            Op::Close { node } => {
                self.lasting = false;
                let peer = world.nodes[node].peer_of[&(1 - node)];
                world.nodes[node].stack_mut().close(now, peer);
                world.touch(node);
            }
            Op::Restart { node } => {
                self.lasting = false;
                world.crash(node);
                world.restart(node);
                // An old first flight can be replayed to a new receiver; nobody can tell without a key.
                world.lose_in_flight();
                if let Some(tap) = &mut world.tap {
                    tap.clear();
                }
            }
            Op::ShrinkPath { mtu } => world.network.usual.mtu = mtu,
            Op::Replay { back, flip, rail } => self.replay(back, flip, rail),
            Op::Inject { node, rail, bytes } => {
                let from = on_rail(world.nodes[1 - node].address, rail);
                world.inject(node, from, bytes);
            }
        }
    }

    fn replay(&mut self, back: usize, flip: Option<(usize, u8)>, rail: u8) {
        let Some(tap) = &self.world.tap else {
            return;
        };
        let Some(captured) = tap.len().checked_sub(1 + back).map(|at| tap[at].clone()) else {
            return;
        };
        let mut bytes = captured.bytes;
        if let Some((at, bits)) = flip {
            let at = at % bytes.len();
            bytes[at] ^= bits;
        }
        let from = on_rail(self.world.nodes[captured.from].address, rail);
        self.world.inject(captured.to, from, bytes);
    }
}

/// Runs what the bytes mean, heals the network, and checks that everything ends well. Panics if not. Returns how often rails of
/// both were proven, and found dead, by the processes that are there at the end.
pub(crate) fn run(bytes: &[u8]) -> [u64; 2] {
    let (options, rails, ops) = read(bytes);
    let seed = bytes.iter().fold(bytes.len() as u64, |seed, byte| {
        seed.wrapping_mul(257) ^ u64::from(*byte)
    });
    let mut run = Run {
        world: World::pair(seed, &options),
        lasting: true,
    };
    run.world.tap = Some(Vec::new());
    run.world.min_len = 8;
    for (node, rail) in [0, 1]
        .into_iter()
        .flat_map(|node| (1..=rails).map(move |rail| (node, rail)))
    {
        run.world.add_rail(node, 1 - node, rail);
    }
    for op in ops {
        run.apply(op);
    }
    let mut world = run.world;
    world.network.heal();
    for node in 0..2 {
        world.nodes[node].options.app = App::Take;
        let peer = world.nodes[node].peer_of[&(1 - node)];
        let now = world.now;
        world.nodes[node].stack_mut().watch(now, peer, false);
        world.touch(node);
    }
    world.finish(Duration::from_secs(120));
    if run.lasting {
        assert_eq!(world.downs(0), []);
        assert_eq!(world.downs(1), []);
    }
    let stats = [0, 1].map(|node: usize| world.nodes[node].endpoint().stats());
    [
        stats.iter().map(|stats| stats.rails_up).sum(),
        stats.iter().map(|stats| stats.rails_down).sum(),
    ]
}
