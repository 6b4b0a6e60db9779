//! Faults of a simulation: packets that are lost, duplicated, corrupted or late, hosts that pause, processes that crash
//! and restart.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufWriter},
    path::Path,
    time::Duration,
};

use super::{
    network::RangeError,
    node::address_on,
    queue::{Event, Queue},
    wires::{Packet, Wires},
};
use crate::{
    backends::pcapng,
    prng::Prng,
    time::{Instant, nanos},
};

/// Random faults of packets, whichever way they take. Each share is from 0 to 1 of all packets; default: 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairment {
    /// Share of packets that are lost.
    pub loss: f64,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Share of packets in which one to three bits change. Only with
    /// [`Config::checksum`](crate::config::Config::checksum) is that sure to be found; without it, programs may get
    /// wrong bytes, or wait for ever.
    pub corrupt: f64,
    /// Share of packets that are truncated.
    pub truncate: f64,
    /// Share of packets that leave late, so that others overtake them.
    pub late: f64,
    /// Longest delay of a late packet. Up to 10 s.
    pub hold: Duration,
}

/// A fault of the network or of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Packets sent after this fault are lost, duplicated, corrupted, truncated or delayed as the impairment says.
    Impair(Impairment),
    /// No packet passes between these processes and all others.
    Isolate(Vec<u32>),
    /// No packet passes from the first process to the second.
    Cut(u32, u32),
    /// No packet passes on this rail ([`Network::rails`](super::Network::rails)) from the first process to the second.
    CutRail(u32, u32, u8),
    /// Ends all isolation and cuts.
    Join,
    /// The host of a process stops for this time, at most a day: neither program nor protocol runs.
    Pause(u32, Duration),
    /// A process ends, whatever it is doing. Packets that it has sent are still under way.
    Crash {
        /// The process that crashes.
        process: u32,
        /// On: its host answers later packets with an ICMP port unreachable. Off: the host is silent.
        refuse: bool,
    },
    /// A crashed process starts again from the beginning, without any memory of its earlier run. The others have lost
    /// it all the same: to them it is a stranger. With [`Faults::watch`] they tell it so, and its calls fail; without
    /// it, the process waits for them. A process that has not crashed goes on unchanged.
    Restart(u32),
}

/// All faults of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Random faults from the beginning.
    pub impairment: Impairment,
    /// Faults and their times, in any order.
    pub plan: Vec<(Duration, Fault)>,
    /// Processes that others wait for are watched, and their silence is noticed
    /// ([`Config::keepalive`](crate::Config::keepalive)). The keepalives go on while any process waits, so a deadlock
    /// ends only at the time limit, which must then be set. Default off.
    pub watch: bool,
}

/// Counts the effects of [`Faults`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct FaultStats {
    /// Packets lost at random.
    pub lost: u64,
    /// Packets between processes that were cut off from each other.
    pub cut: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets that were corrupted or truncated.
    pub spoilt: u64,
    /// Packets that left late.
    pub late: u64,
    /// Packets that arrived for a crashed process.
    pub refused: u64,
    /// Processes that crashed.
    pub crashes: u64,
}

crate::table::display_as_table!(FaultStats {
    lost,
    cut,
    duplicated,
    spoilt,
    late,
    refused,
    crashes,
});

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
    pub(super) fn has_crashes(&self) -> bool {
        let is_crash = |(_, fault): &(Duration, Fault)| matches!(fault, Fault::Crash { .. });
        self.plan.iter().any(is_crash)
    }

    const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

    /// Checks every range, for a job of `processes` processes.
    ///
    /// # Errors
    /// Names the first value that is out of its range.
    pub fn validate(&self, processes: u32) -> Result<(), RangeError> {
        self.impairment.validate()?;
        self.plan.iter().try_for_each(|(_, fault)| {
            let known = match fault {
                Fault::Impair(impairment) => return impairment.validate(),
                Fault::Join => true,
                Fault::Isolate(processes_) => processes_.iter().all(|process| *process < processes),
                Fault::Cut(from, to) | Fault::CutRail(from, to, _) => *from < processes && *to < processes,
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

/// The faults of a running simulation, and the capture of its packets.
pub(super) struct Trouble {
    impairment: Impairment,
    isolated: BTreeSet<u32>,
    cut: BTreeSet<(u32, u32)>,
    cut_rails: BTreeSet<(u32, u32, u8)>,
    rng: Prng,
    /// There are no faults and no capture: the usual case costs one branch.
    quiet: bool,
    pub(super) watch: bool,
    pub(super) stats: FaultStats,
    capture: Option<pcapng::Writer<BufWriter<File>>>,
    /// Why the capture has ended early, if it has.
    pub(super) capture_error: Option<io::Error>,
}

impl Trouble {
    /// Writes all packets to `capture`, if there is one; each rail is an interface there.
    pub(super) fn new(faults: &Faults, capture: Option<&Path>, rails: u32, seed: u64) -> io::Result<Self> {
        let capture = capture.map(|path| {
            let mut writer = pcapng::Writer::new(BufWriter::new(File::create(path)?))?;
            (1..rails).try_for_each(|rail| writer.add_interface(&format!("rail {rail}")))?;
            Ok::<_, io::Error>(writer)
        });
        let capture = capture.transpose()?;
        Ok(Self {
            impairment: faults.impairment,
            isolated: BTreeSet::new(),
            cut: BTreeSet::new(),
            cut_rails: BTreeSet::new(),
            rng: Prng::new(seed),
            quiet: *faults == Faults::default() && capture.is_none(),
            watch: faults.watch,
            stats: FaultStats::default(),
            capture,
            capture_error: None,
        })
    }

    /// Applies a fault of the network.
    pub(super) fn change(&mut self, fault: &Fault) {
        match fault {
            Fault::Impair(impairment) => self.impairment = *impairment,
            Fault::Isolate(processes) => self.isolated = processes.iter().copied().collect(),
            Fault::Cut(from, to) => drop(self.cut.insert((*from, *to))),
            Fault::CutRail(from, to, rail) => drop(self.cut_rails.insert((*from, *to, *rail))),
            Fault::Join => {
                self.isolated.clear();
                self.cut.clear();
                self.cut_rails.clear();
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
        let rail = wires.get(packet).rail;
        if let Some(why) = self.loss(source, destination, rail) {
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

    /// Why a packet is lost, or `None`.
    fn loss(&mut self, from: u32, to: u32, rail: u8) -> Option<&'static str> {
        let is_cut = self.cut.contains(&(from, to)) || self.cut_rails.contains(&(from, to, rail));
        if self.isolated.contains(&from) != self.isolated.contains(&to) || is_cut {
            self.stats.cut += 1;
            return Some("lost: cut off");
        }
        let lost = self.rng.chance(self.impairment.loss);
        self.stats.lost += u64::from(lost);
        lost.then_some("lost by chance")
    }

    /// By how much a packet is late, ns.
    fn hold(&mut self) -> u64 {
        if !self.rng.chance(self.impairment.late) {
            return 0;
        }
        self.stats.late += 1;
        self.rng.below(nanos(self.impairment.hold) + 1)
    }

    /// Perhaps corrupts or truncates a packet, and returns whether it did.
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

    /// Writes a packet that leaves to the capture. After an error nothing is written any more.
    fn record(&mut self, now: u64, wires: &mut Wires, packet: u32, note: &str) {
        let Some(capture) = &mut self.capture else { return };
        let p = wires.get(packet);
        let [from, to] = [p.source, p.destination].map(|process| address_on(process, p.rail));
        let note = (!note.is_empty()).then_some(note.trim_end());
        let written = capture.datagram_on(p.rail.into(), Instant::from_nanos(now), from, to, &p.data, note);
        self.check(written);
    }

    /// Flushes the capture.
    pub(super) fn flush(&mut self) {
        if let Some(capture) = &mut self.capture {
            let flushed = capture.flush();
            self.check(flushed);
        }
    }

    /// An error ends the capture, and is reported at the end.
    fn check(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.capture = None;
            self.capture_error = Some(error);
        }
    }
}
