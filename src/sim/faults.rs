//! What goes wrong: packets that are lost, doubled, spoilt or late, hosts that stop for a while, processes that crash and
//! come back.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufWriter},
    path::Path,
    time::Duration,
};

use super::{
    network::RangeError,
    queue::{Event, Queue},
    wires::{Packet, Wires},
    world::address_of,
};
use crate::{
    backends::pcapng,
    prng::Prng,
    time::{Instant, nanos},
};

/// What becomes of packets by chance, whatever way they take. Parts of all packets are from 0 to 1; default: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairment {
    /// The part that is lost.
    pub loss: f64,
    /// The part that comes twice.
    pub duplicate: f64,
    /// The part of which one to three bits change. Only with [`Config::checksum`](crate::config::Config::checksum) is that
    /// sure to be found; without, programs may get wrong octets, or wait for ever.
    pub corrupt: f64,
    /// The part that is cut off somewhere.
    pub truncate: f64,
    /// The part that leaves later than it should, so that others overtake it.
    pub late: f64,
    /// By how much at most. Up to 10 s.
    pub hold: Duration,
}

/// Something that happens to the network or a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// From now on this becomes of packets.
    Impair(Impairment),
    /// Nothing passes between these processes and all others.
    Isolate(Vec<u32>),
    /// Nothing passes from the first to the second.
    Cut(u32, u32),
    /// All ways are open again.
    Join,
    /// The host of a process does nothing for so long, at most a day: neither program nor protocol.
    Pause(u32, Duration),
    /// A process ends in the middle of whatever it does. What has gone out is under way.
    Crash {
        /// Which.
        process: u32,
        /// Its host says that nobody listens (ICMP port unreachable) to who sends to it; else it is silent.
        refuse: bool,
    },
    /// A process that has crashed starts again from the beginning, and knows nothing of what was before. Others have lost
    /// it all the same: to them it is a stranger. With [`Faults::watch`] it hears that from them, and its calls fail;
    /// without, it waits for them. One that has not crashed goes on as it is.
    Restart(u32),
}

/// All that goes wrong in a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// What becomes of packets from the beginning.
    pub impairment: Impairment,
    /// What happens when, in any order.
    pub plan: Vec<(Duration, Fault)>,
    /// The silence of processes that others wait for is noticed ([`Config::keepalive`](crate::Config::keepalive)). As long
    /// as somebody waits something happens then, so a deadlock ends at the time limit, which must be there. Default off.
    pub watch: bool,
}

/// What [`Faults`] have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultStats {
    /// Packets lost by chance.
    pub lost: u64,
    /// Packets between those who were cut off from each other.
    pub cut: u64,
    /// Packets that came twice.
    pub duplicated: u64,
    /// Packets that were changed or cut off.
    pub spoilt: u64,
    /// Packets that left late.
    pub late: u64,
    /// Packets to who had crashed.
    pub refused: u64,
    /// Processes that have crashed.
    pub crashes: u64,
}

impl Impairment {
    fn validate(&self) -> Result<(), RangeError> {
        const CHANCE: &str = "from 0 to 1";
        let checks = [
            ((0.0..=1.0).contains(&self.loss), "loss", CHANCE),
            ((0.0..=1.0).contains(&self.duplicate), "duplicate", CHANCE),
            ((0.0..=1.0).contains(&self.corrupt), "corrupt", CHANCE),
            ((0.0..=1.0).contains(&self.truncate), "truncate", CHANCE),
            ((0.0..=1.0).contains(&self.late), "late", CHANCE),
            (self.hold <= Duration::from_secs(10), "hold", "at most 10 s"),
        ];
        RangeError::first(&checks)
    }
}

impl Faults {
    const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

    /// Checks every range, for so many processes.
    ///
    /// # Errors
    /// The first that is out of its range.
    pub fn validate(&self, processes: u32) -> Result<(), RangeError> {
        self.impairment.validate()?;
        self.plan.iter().try_for_each(|(_, fault)| {
            let known = match fault {
                Fault::Impair(impairment) => return impairment.validate(),
                Fault::Join => true,
                Fault::Isolate(processes_) => processes_.iter().all(|process| *process < processes),
                Fault::Cut(from, to) => *from < processes && *to < processes,
                Fault::Pause(process, time) => *process < processes && *time <= Self::LONGEST_PAUSE,
                Fault::Crash { process, .. } | Fault::Restart(process) => *process < processes,
            };
            RangeError::first(&[(
                known,
                "plan",
                "of processes that there are, with pauses of a day at most",
            )])
        })
    }
}

/// Faults as they go on, and who writes down what leaves.
pub(super) struct Trouble {
    impairment: Impairment,
    isolated: BTreeSet<u32>,
    cut: BTreeSet<(u32, u32)>,
    rng: Prng,
    /// Nothing of all this is wanted: the usual case costs a branch.
    quiet: bool,
    pub(super) watch: bool,
    pub(super) stats: FaultStats,
    capture: Option<pcapng::Writer<BufWriter<File>>>,
    /// Why the capture has ended early, if it has.
    pub(super) capture_error: Option<io::Error>,
}

impl Trouble {
    /// Writes all packets to `capture`, if wished.
    pub(super) fn new(faults: &Faults, capture: Option<&Path>, seed: u64) -> io::Result<Self> {
        let capture = capture.map(|path| pcapng::Writer::new(BufWriter::new(File::create(path)?)));
        let capture = capture.transpose()?;
        Ok(Self {
            impairment: faults.impairment,
            isolated: BTreeSet::new(),
            cut: BTreeSet::new(),
            rng: Prng::new(seed),
            quiet: *faults == Faults::default() && capture.is_none(),
            watch: faults.watch,
            stats: FaultStats::default(),
            capture,
            capture_error: None,
        })
    }

    /// What changes for the network.
    pub(super) fn change(&mut self, fault: &Fault) {
        match fault {
            Fault::Impair(impairment) => self.impairment = *impairment,
            Fault::Isolate(processes) => self.isolated = processes.iter().copied().collect(),
            Fault::Cut(from, to) => drop(self.cut.insert((*from, *to))),
            Fault::Join => {
                self.isolated.clear();
                self.cut.clear();
            }
            Fault::Pause(..) | Fault::Crash { .. } | Fault::Restart(_) => {}
        }
    }

    /// A packet leaves its host at `now`, ns.
    pub(super) fn depart(
        &mut self,
        queue: &mut Queue,
        wires: &mut Wires,
        now: u64,
        packet: u32,
        (source, destination): (u32, u32),
    ) {
        if self.quiet {
            return wires.send(queue, now, packet, source, destination);
        }
        if let Some(why) = self.loss(source, destination) {
            return self.lose(wires, now, packet, (source, destination), why);
        }
        let original = wires.get(packet);
        (original.source, original.destination) = (source, destination);
        if self.rng.chance(self.impairment.duplicate) {
            self.stats.duplicated += 1;
            let copy = wires.copy(packet);
            self.depart_once(queue, wires, now, copy, "copy ");
        }
        self.depart_once(queue, wires, now, packet, "");
    }

    /// A packet does not leave its host.
    pub(super) fn lose(&mut self, wires: &mut Wires, now: u64, packet: u32, ends: (u32, u32), why: &str) {
        let lost = wires.get(packet);
        (lost.source, lost.destination) = ends;
        self.record(now, wires, packet, why);
        wires.drop_packet(packet);
    }

    fn depart_once(&mut self, queue: &mut Queue, wires: &mut Wires, now: u64, packet: u32, note: &str) {
        let spoilt = self.spoil(&mut wires.get(packet).data);
        let late = self.hold();
        if self.capture.is_some() {
            let spoilt = if spoilt { "spoilt " } else { "" };
            let late = if late > 0 {
                format!("late by {late} ns")
            } else {
                String::new()
            };
            self.record(now, wires, packet, &format!("{note}{spoilt}{late}"));
        }
        if late > 0 {
            return queue.push(now + late, Event::Depart(packet));
        }
        let &mut Packet {
            source, destination, ..
        } = wires.get(packet);
        wires.send(queue, now, packet, source, destination);
    }

    /// Why a packet is lost, if it is.
    fn loss(&mut self, from: u32, to: u32) -> Option<&'static str> {
        if self.isolated.contains(&from) != self.isolated.contains(&to) || self.cut.contains(&(from, to)) {
            self.stats.cut += 1;
            return Some("lost: cut off");
        }
        let lost = self.rng.chance(self.impairment.loss);
        self.stats.lost += u64::from(lost);
        lost.then_some("lost by chance")
    }

    /// How much later than it should a packet leaves, ns.
    fn hold(&mut self) -> u64 {
        if !self.rng.chance(self.impairment.late) {
            return 0;
        }
        self.stats.late += 1;
        self.rng.below(nanos(self.impairment.hold) + 1)
    }

    /// Spoils a packet, perhaps. Gives whether it did.
    fn spoil(&mut self, data: &mut Vec<u8>) -> bool {
        let mut spoilt = false;
        if self.rng.chance(self.impairment.truncate) {
            data.truncate(self.rng.below(data.len() as u64) as usize);
            spoilt = true;
        }
        if self.rng.chance(self.impairment.corrupt) && !data.is_empty() {
            for _ in 0..=self.rng.below(3) {
                // Half of the time in the header, where it hurts.
                let within = if self.rng.chance(0.5) {
                    data.len().min(64)
                } else {
                    data.len()
                };
                data[self.rng.below(within as u64) as usize] ^= 1 << self.rng.below(8);
            }
            spoilt = true;
        }
        self.stats.spoilt += u64::from(spoilt);
        spoilt
    }

    /// Writes down a packet that leaves. After an error nothing is written any more.
    fn record(&mut self, now: u64, wires: &mut Wires, packet: u32, note: &str) {
        let Some(capture) = &mut self.capture else { return };
        let p = wires.get(packet);
        let (from, to) = (address_of(p.source), address_of(p.destination));
        let note = (!note.is_empty()).then_some(note.trim_end());
        let written = capture.datagram(Instant::from_nanos(now), from, to, &p.data, note);
        self.check(written);
    }

    /// Hands what was written on to the file.
    pub(super) fn flush(&mut self) {
        if let Some(capture) = &mut self.capture {
            let flushed = capture.flush();
            self.check(flushed);
        }
    }

    /// An error ends the capture, and is told at the end.
    fn check(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.capture = None;
            self.capture_error = Some(error);
        }
    }
}
