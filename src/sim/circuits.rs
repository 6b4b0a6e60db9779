//! The circuits of a simulated network: which are set up, which message gets a port next, and the packets that wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    faults::Trouble,
    node::{Doing, Node},
    optics::{Available, Change, Optics, OpticsStats, Unconnected},
    queue::{Event, Queue},
    wires::Wires,
};
use crate::{
    mpi::engine::{ConnectionPlan, simulated::Wish},
    prng::Prng,
    reliability::PeerId,
    time::nanos,
};

/// Two hosts, the lower number first.
type Pair = (u32, u32);

fn pair(one: u32, other: u32) -> Pair {
    (one.min(other), one.max(other))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down,
    /// It is being set up, and will be ready at this time.
    SettingUp(u64),
    Up,
}

#[derive(Debug)]
struct Circuit {
    state: State,
    /// When it entered this state, or was last used.
    since: u64,
    /// Whether collectives at both ends have planned it.
    planned: bool,
    /// Packets that wait for it, and their bytes.
    held: VecDeque<u32>,
    bytes: u32,
    /// Position of the oldest of them among all waiting packets.
    place: u64,
    /// Since when the oldest of them waits, or a message without a packet does; `u64::MAX`: none waits.
    wanted: u64,
    /// Whether an alarm is set for the end of its timeout.
    watched: bool,
}

impl Circuit {
    fn new(now: u64) -> Self {
        Self {
            state: State::Down,
            since: now,
            planned: false,
            held: VecDeque::new(),
            bytes: 0,
            place: 0,
            wanted: u64::MAX,
            watched: false,
        }
    }
}

#[derive(Debug)]
struct Host {
    ports: u32,
    /// Peers with circuits that are up or being set up.
    circuits: BTreeSet<u32>,
    /// Peers that its collectives want now, oldest first; twice if two collectives do.
    planned: Vec<u32>,
    /// Peers for or from which packets wait.
    held: BTreeSet<u32>,
    /// It sets up no circuit before this time.
    free_at: u64,
}

impl Host {
    /// Whether its collectives want a circuit to `peer`, and it has enough ports for that.
    fn plans(&self, peer: u32) -> bool {
        let mut distinct = Vec::new();
        for planned in &self.planned {
            if distinct.len() == self.ports as usize {
                return false;
            }
            if *planned == peer {
                return true;
            }
            if !distinct.contains(planned) {
                distinct.push(*planned);
            }
        }
        false
    }

    /// Number of ports that its collectives wait to use.
    fn reserved(&self) -> usize {
        let waiting: BTreeSet<_> = self
            .planned
            .iter()
            .filter(|peer| !self.circuits.contains(peer))
            .collect();
        waiting.len().min(self.ports as usize)
    }
}

/// How urgently a circuit is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// Collectives at both ends have planned it.
    Planned,
    /// A message is there to be sent.
    Demanded,
    /// A message has waited so long that idle circuits must give way.
    Starved,
}

/// A message that a collective expects waits this many times longer before it counts as starved.
const PLANNED_TIMEOUT: u64 = 50;

/// An event to look at later.
#[derive(Clone, Copy, Debug)]
enum Alarm {
    Ready(Pair),
    Timeout(Pair),
    Free(u32),
    Change(usize),
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Circuits {
    optics: Optics,
    hosts: Vec<Host>,
    circuits: BTreeMap<Pair, Circuit>,
    alarms: BTreeMap<(u64, u64), Alarm>,
    alarm: u64,
    /// Number of circuits that are up or being set up, and its limit.
    total: u32,
    wavelengths: u32,
    /// Pairs that have found no wavelength, in their order.
    dark: VecDeque<Pair>,
    /// Hosts whose collectives have released all circuits.
    freed: VecDeque<u32>,
    /// Packets whose circuits have just been set up, by position, and how many had to wait.
    going: Vec<(u64, u32)>,
    waited: u64,
    /// Whether a message waits for a circuit that may never be.
    pub(super) doubt: bool,
    rng: Prng,
    pub(super) stats: OpticsStats,
}

/// The state that decisions about circuits depend on and change.
pub(super) struct Surroundings<'a> {
    pub(super) queue: &'a mut Queue,
    pub(super) wires: &'a mut Wires,
    pub(super) nodes: &'a mut [Box<Node>],
    pub(super) trouble: &'a mut Trouble,
}

impl Surroundings<'_> {
    /// Whether `from` has unacknowledged messages for `to`, or awaits a sign of life.
    fn is_busy(&self, from: u32, to: u32) -> bool {
        let node = &self.nodes[from as usize];
        let Some(peer) = node.core.peers.get(to) else {
            return false;
        };
        let layer = node.messenger.layer();
        let asks = || self.trouble.watch && layer.as_endpoint().is_some_and(|here| here.is_asking(peer));
        let crashed = matches!(node.doing, Doing::Crashed { .. });
        !crashed && (!layer.is_idle(peer) || asks())
    }

    fn either_is_busy(&self, (one, other): Pair) -> bool {
        self.is_busy(one, other) || self.is_busy(other, one)
    }

    fn depart(&mut self, now: u64, packet: u32, ends: (u32, u32)) {
        self.trouble.depart(self.queue, self.wires, now, packet, ends);
    }
}

impl Circuits {
    /// Whether two hosts can never have a circuit unless ports or wavelengths change.
    fn is_hopeless(&self, (one, other): Pair) -> bool {
        let dark = |host: u32| self.hosts[host as usize].ports == 0;
        self.wavelengths == 0 || dark(one) || dark(other)
    }

    /// Whether everything in flight, or not acknowledged, waits for circuits that can never be.
    pub(super) fn is_stuck(&self, around: &Surroundings<'_>) -> bool {
        let vain = |alarm: &Alarm| matches!(alarm, Alarm::Timeout(pair) if self.is_hopeless(*pair));
        let held: usize = self.circuits.values().map(|circuit| circuit.held.len()).sum();
        if !self.alarms.values().all(vain) || around.wires.under_way() != held {
            return false;
        }
        let stuck = |host: u32, node: &Node| {
            let layer = node.messenger.layer();
            let mut busy = (0..layer.peers() as u32)
                .map(PeerId)
                .filter(|peer| !layer.is_idle(*peer));
            busy.all(|peer| {
                let other = layer.processor(peer);
                other.is_some_and(|other| self.is_hopeless(pair(host, other)))
            })
        };
        let crashed = |node: &Node| matches!(node.doing, Doing::Crashed { .. });
        (0..)
            .zip(around.nodes.iter())
            .all(|(host, node)| crashed(node) || stuck(host, node))
    }

    pub(super) fn new(optics: Optics, queue: &mut Queue, nodes: &mut [Box<Node>], seed: u64) -> Self {
        let host = Host {
            ports: optics.ports,
            circuits: BTreeSet::new(),
            planned: Vec::new(),
            held: BTreeSet::new(),
            free_at: 0,
        };
        let empty = || Host {
            circuits: BTreeSet::new(),
            planned: Vec::new(),
            held: BTreeSet::new(),
            ..host
        };
        let mut circuits = Self {
            hosts: nodes.iter().map(|_| empty()).collect(),
            circuits: BTreeMap::new(),
            alarms: BTreeMap::new(),
            alarm: 0,
            total: 0,
            wavelengths: optics.wavelengths.unwrap_or(u32::MAX),
            dark: VecDeque::new(),
            freed: VecDeque::new(),
            going: Vec::new(),
            waited: 0,
            doubt: false,
            rng: Prng::new(seed),
            stats: OpticsStats::default(),
            optics,
        };
        for index in 0..circuits.optics.changes.len() {
            let at = nanos(circuits.optics.changes[index].at);
            circuits.set_alarm(queue, at, Alarm::Change(index));
        }
        for (host, node) in nodes.iter_mut().enumerate() {
            circuits.tell_ports(host, node);
        }
        circuits
    }

    /// Tells a host's collectives how many ports to plan with.
    pub(super) fn tell_ports(&self, host: usize, node: &mut Node) {
        let Some(planning) = self.optics.planning(self.hosts[host].ports) else {
            return;
        };
        match node.core.links_mut() {
            ConnectionPlan::Planned(before, _) => *before = planning,
            links => *links = planning.into(),
        }
    }

    fn set_alarm(&mut self, queue: &mut Queue, at: u64, alarm: Alarm) {
        self.alarms.insert((at, self.alarm), alarm);
        self.alarm += 1;
        queue.push(at, Event::Optics);
    }

    fn circuit(&mut self, pair: Pair, now: u64) -> &mut Circuit {
        self.circuits.entry(pair).or_insert_with(|| Circuit::new(now))
    }

    fn state(&self, pair: Pair) -> State {
        self.circuits.get(&pair).map_or(State::Down, |circuit| circuit.state)
    }

    /// Whether a packet may arrive: its circuit has not been cut.
    pub(super) fn carries(&self, from: u32, to: u32) -> bool {
        self.state(pair(from, to)) == State::Up
    }

    /// `from` sends a packet: it goes, waits or is lost.
    pub(super) fn send(&mut self, around: &mut Surroundings<'_>, now: u64, packet: u32, (from, to): Pair) {
        let pair = pair(from, to);
        let bytes = around.wires.get(packet).data.len() as u32;
        if let Some(circuit) = self.circuits.get_mut(&pair)
            && circuit.state == State::Up
        {
            circuit.since = now;
            return around.depart(now, packet, (from, to));
        }
        // A host without messages to deliver only repeats an acknowledgement or a grant: that can wait for the next
        // circuit.
        if !around.is_busy(from, to) {
            return self.lose(around, now, packet, (from, to));
        }
        let most = match self.optics.unconnected {
            Unconnected::Hold(most) => most,
            Unconnected::Drop => 0,
        };
        let waited = self.waited;
        let circuit = self.circuit(pair, now);
        circuit.wanted = circuit.wanted.min(now);
        if circuit.held.is_empty() {
            circuit.place = waited;
        }
        if circuit.bytes.saturating_add(bytes) <= most {
            circuit.bytes += bytes;
            circuit.held.push_back(packet);
            let waiting = around.wires.get(packet);
            (waiting.source, waiting.destination) = (from, to);
            self.stats.held += 1;
            self.waited += 1;
        } else {
            self.lose(around, now, packet, (from, to));
        }
        self.hosts[from as usize].held.insert(to);
        self.hosts[to as usize].held.insert(from);
        self.watch(around.queue, pair, now);
    }

    /// A packet is lost, since it has no circuit.
    fn lose(&mut self, around: &mut Surroundings<'_>, now: u64, packet: u32, ends: (u32, u32)) {
        self.stats.dropped += 1;
        let Surroundings { wires, trouble, .. } = around;
        trouble.lose(wires, now, packet, ends, "lost: no circuit");
    }

    /// The same for packets that have waited for one.
    fn lose_all(&mut self, around: &mut Surroundings<'_>, now: u64, packets: VecDeque<u32>) {
        for packet in packets {
            let waiting = around.wires.get(packet);
            let ends = (waiting.source, waiting.destination);
            self.lose(around, now, packet, ends);
        }
    }

    /// Sets an alarm for the end of a pair's timeout.
    fn watch(&mut self, queue: &mut Queue, pair: Pair, now: u64) {
        let timeout = self.optics.timeout();
        let circuit = self.circuit(pair, now);
        if !circuit.watched {
            circuit.watched = true;
            self.set_alarm(queue, now + timeout, Alarm::Timeout(pair));
        }
    }

    /// Something has happened at a host at `now`: takes its wishes, tears circuits down and sets them up.
    pub(super) fn settle(&mut self, around: &mut Surroundings<'_>, host: u32, now: u64) {
        while let Some(wish) = around.nodes[host as usize].core.poll_wish() {
            let own = &mut self.hosts[host as usize];
            match wish {
                Wish::Connect(peer) => {
                    own.planned.push(peer);
                    let both = self.hosts[peer as usize].plans(host);
                    if let Some(circuit) = self.circuits.get_mut(&pair(host, peer)) {
                        circuit.planned |= both;
                    }
                }
                Wish::Release(peer) => {
                    if let Some(index) = own.planned.iter().position(|planned| *planned == peer) {
                        own.planned.remove(index);
                        self.release(around, host, peer, now);
                    }
                }
                Wish::End => {
                    let at = now + self.optics.release.as_nanos() as u64;
                    own.free_at = at;
                    self.set_alarm(around.queue, at, Alarm::Free(host));
                }
            }
        }
        self.tear_down(around, host, now);
        self.consider(around, host, now);
    }

    /// A host's collective does not need a circuit any more, and its messages are acknowledged; only later ones are not.
    fn release(&mut self, around: &mut Surroundings<'_>, host: u32, peer: u32, now: u64) {
        let pair = pair(host, peer);
        if !self.optics.keep && self.state(pair) == State::Up && !around.is_busy(peer, host) {
            self.stats.torn_down += 1;
            self.end(pair, now);
            self.consider(around, peer, now);
        }
    }

    /// Tears down the circuits that a host's collectives do not need any more.
    fn tear_down(&mut self, around: &mut Surroundings<'_>, host: u32, now: u64) {
        if self.optics.keep {
            return;
        }
        let over = |peer: &u32| {
            let pair = pair(host, *peer);
            let wanted = self.is_planned(pair);
            let circuit = &self.circuits[&pair];
            circuit.state == State::Up && circuit.planned && !wanted && !around.either_is_busy(pair)
        };
        let over: Vec<u32> = self.hosts[host as usize]
            .circuits
            .iter()
            .copied()
            .filter(over)
            .collect();
        for peer in over {
            if self.state(pair(host, peer)) != State::Up {
                // It has given way to another circuit meanwhile.
                continue;
            }
            self.stats.torn_down += 1;
            self.end(pair(host, peer), now);
            self.consider(around, peer, now);
        }
    }

    /// Removes a circuit; its port and wavelength are free.
    fn end(&mut self, pair: Pair, now: u64) {
        for (host, peer) in [pair, (pair.1, pair.0)] {
            self.hosts[host as usize].circuits.remove(&peer);
        }
        self.total -= 1;
        let circuit = self.circuit(pair, now);
        (circuit.state, circuit.since, circuit.planned) = (State::Down, now, false);
        if circuit.wanted == u64::MAX {
            let watched = circuit.watched;
            if !watched {
                self.circuits.remove(&pair);
            }
        }
    }

    /// Sets up the circuits that a host wants and can have.
    fn consider(&mut self, around: &mut Surroundings<'_>, host: u32, now: u64) {
        let own = &self.hosts[host as usize];
        let mut peers: Vec<u32> = Vec::new();
        for peer in own.planned.iter().chain(&own.held) {
            if !own.circuits.contains(peer) && !peers.contains(peer) {
                peers.push(*peer);
            }
        }
        for peer in peers {
            self.try_pair(around, pair(host, peer), now);
        }
        while self.total < self.wavelengths
            && let Some(dark) = self.dark.pop_front()
        {
            self.try_pair(around, dark, now);
        }
    }

    /// Whether collectives at both ends want it now.
    fn is_planned(&self, (one, other): Pair) -> bool {
        self.hosts[one as usize].plans(other) && self.hosts[other as usize].plans(one)
    }

    fn want(&self, around: &Surroundings<'_>, pair: Pair, now: u64) -> Option<Want> {
        let (one, other) = pair;
        let planned = self.is_planned(pair);
        let wanted = self.circuits.get(&pair).map_or(u64::MAX, |circuit| circuit.wanted);
        let later = |from: u32, to: u32| around.nodes[from as usize].core.will_connect(to);
        let expected = later(one, other) || later(other, one);
        // A message in a plan gets its turn; plans that do not match are rare.
        let timeout = self.optics.timeout() * if expected { PLANNED_TIMEOUT } else { 1 };
        if wanted.saturating_add(timeout) <= now {
            Some(Want::Starved)
        } else if planned {
            Some(Want::Planned)
        } else {
            (wanted < u64::MAX && !expected).then_some(Want::Demanded)
        }
    }

    /// Sets up the circuit of a pair that wants one, if there are ports and a wavelength.
    fn try_pair(&mut self, around: &mut Surroundings<'_>, pair: Pair, now: u64) {
        let free = |host: u32| self.hosts[host as usize].free_at <= now;
        if self.state(pair) != State::Down || !free(pair.0) || !free(pair.1) {
            return;
        }
        let Some(want) = self.want(around, pair, now) else {
            return;
        };
        let mut displaced: Vec<Pair> = Vec::new();
        for host in [pair.0, pair.1] {
            let own = &self.hosts[host as usize];
            let ports = own.ports as usize;
            let reserved = if want == Want::Demanded { own.reserved() } else { 0 };
            if ports == 0 {
                return;
            }
            if own.circuits.len() + reserved >= ports {
                let ends = own.circuits.iter().map(|peer| self::pair(host, *peer));
                let Some(idle) = self.idle(around, ends, want, now) else {
                    return;
                };
                displaced.push(idle);
            }
        }
        if self.total >= self.wavelengths && displaced.is_empty() {
            let all = self.hosts.iter().zip(0..).flat_map(|(own, host)| {
                own.circuits
                    .iter()
                    .filter(move |peer| **peer > host)
                    .map(move |peer| (host, *peer))
            });
            let Some(idle) = self.idle(around, all, want, now) else {
                if !self.dark.contains(&pair) {
                    self.dark.push_back(pair);
                }
                return;
            };
            displaced.push(idle);
        }
        displaced.dedup();
        for idle in &displaced {
            let needed = self.is_planned(*idle);
            self.stats.displaced += u64::from(needed);
            self.stats.torn_down += u64::from(!needed);
            self.end(*idle, now);
        }
        self.set_up(around.queue, pair, now);
        for (one, other) in displaced {
            self.consider(around, one, now);
            self.consider(around, other, now);
        }
    }

    /// The circuit that has been idle for longest among those that may give way. A starved message may also take one whose
    /// end waits for a time-out and has sent nothing for long: round-trip times include waits for circuits, so that may be
    /// seconds.
    fn idle(&self, around: &Surroundings<'_>, pairs: impl Iterator<Item = Pair>, want: Want, now: u64) -> Option<Pair> {
        let gives_way = |pair: &Pair| {
            let circuit = &self.circuits[pair];
            let long = circuit.since + self.optics.timeout() <= now;
            let done = !around.either_is_busy(*pair) && !self.is_planned(*pair);
            circuit.state == State::Up && (done || want == Want::Starved && long)
        };
        let order = |pair: &Pair| (around.either_is_busy(*pair), self.circuits[pair].since);
        pairs.filter(gives_way).min_by_key(order)
    }

    /// The time of the next set-up, ns.
    fn setup_time(&mut self) -> u64 {
        let [setup, spread] = [self.optics.setup, self.optics.spread].map(|time| time.as_nanos() as u64);
        match spread {
            0 => setup,
            spread => setup - spread + self.rng.next_u64() % (2 * spread + 1),
        }
    }

    fn set_up(&mut self, queue: &mut Queue, pair: Pair, now: u64) {
        for (host, peer) in [pair, (pair.1, pair.0)] {
            self.hosts[host as usize].circuits.insert(peer);
        }
        let planned = self.is_planned(pair);
        self.total += 1;
        self.stats.set_up += 1;
        self.stats.most = self.stats.most.max(self.total);
        let ready = now + self.setup_time();
        let circuit = self.circuit(pair, now);
        (circuit.state, circuit.since, circuit.planned) = (State::SettingUp(ready), now, planned);
        self.set_alarm(queue, ready, Alarm::Ready(pair));
    }

    /// Handles due alarms. Gives a host whose collective has released everything, if there is one; the caller must then
    /// call again.
    pub(super) fn handle(&mut self, around: &mut Surroundings<'_>, now: u64) -> Option<u32> {
        while let Some(entry) = self.alarms.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Alarm::Ready(pair) => self.ready(around, pair, now),
                Alarm::Timeout(pair) => self.look(around, pair, now),
                Alarm::Free(host) => {
                    self.freed.push_back(host);
                    self.consider(around, host, now);
                }
                Alarm::Change(index) => {
                    let Change { to, .. } = self.optics.changes[index];
                    self.change(around, to, now);
                }
            }
        }
        self.go(around, now);
        self.freed.pop_front()
    }

    /// Sends the packets whose circuits are ready now, the longest waiting first: circuits that are ready at the same time
    /// share the wires of their hosts.
    fn go(&mut self, around: &mut Surroundings<'_>, now: u64) {
        self.going.sort_by_key(|(place, _)| *place);
        for (_, packet) in std::mem::take(&mut self.going) {
            let waiting = around.wires.get(packet);
            let ends = (waiting.source, waiting.destination);
            around.depart(now, packet, ends);
        }
    }

    /// A set-up has ended.
    fn ready(&mut self, around: &mut Surroundings<'_>, pair: Pair, now: u64) {
        if self.state(pair) != State::SettingUp(now) {
            // It was cut.
            return;
        }
        let fails = self.optics.failure > 0.0 && self.rng.chance(self.optics.failure);
        if fails {
            self.stats.failed += 1;
            self.end(pair, now);
        } else {
            let circuit = self.circuit(pair, now);
            (circuit.state, circuit.since, circuit.wanted, circuit.bytes) = (State::Up, now, u64::MAX, 0);
            let place = circuit.place;
            let packets = std::mem::take(&mut circuit.held);
            self.going.extend(packets.into_iter().map(|packet| (place, packet)));
            self.hosts[pair.0 as usize].held.remove(&pair.1);
            self.hosts[pair.1 as usize].held.remove(&pair.0);
        }
        for host in [pair.0, pair.1] {
            self.tear_down(around, host, now);
            self.consider(around, host, now);
        }
    }

    /// The timeout of a pair has ended.
    fn look(&mut self, around: &mut Surroundings<'_>, pair: Pair, now: u64) {
        let busy = around.either_is_busy(pair);
        let circuit = self.circuit(pair, now);
        circuit.watched = false;
        if circuit.state == State::Down && !busy {
            // Its sender has given up.
            let held = std::mem::take(&mut circuit.held);
            self.lose_all(around, now, held);
            self.circuits.remove(&pair);
            self.hosts[pair.0 as usize].held.remove(&pair.1);
            self.hosts[pair.1 as usize].held.remove(&pair.0);
            return;
        }
        if circuit.wanted == u64::MAX {
            return;
        }
        self.doubt |= self.is_hopeless(pair);
        self.try_pair(around, pair, now);
        self.watch(around.queue, pair, now);
    }

    fn change(&mut self, around: &mut Surroundings<'_>, to: Available, now: u64) {
        let all = 0..self.hosts.len() as u32;
        let changed = match to {
            Available::Ports(Some(host), _) => host..host + 1,
            Available::Ports(None, _) | Available::Wavelengths(_) => all,
        };
        for host in changed.clone() {
            if let Available::Ports(_, ports) = to {
                self.hosts[host as usize].ports = ports;
                self.tell_ports(host as usize, &mut around.nodes[host as usize]);
            }
            while self.hosts[host as usize].circuits.len() > self.hosts[host as usize].ports as usize {
                let mut ends = self.hosts[host as usize].circuits.iter().map(|peer| pair(host, *peer));
                self.cut(ends.next_back(), now);
            }
        }
        if let Available::Wavelengths(wavelengths) = to {
            self.wavelengths = wavelengths;
            while self.total > self.wavelengths {
                let mut last = self.circuits.iter().rev();
                let cut = last.find(|(_, circuit)| circuit.state != State::Down);
                self.cut(cut.map(|(pair, _)| *pair), now);
            }
        }
        for host in changed {
            self.consider(around, host, now);
        }
    }

    /// A process has crashed: its collectives want no circuits any more, and its packets that wait for a circuit are lost.
    pub(super) fn forget(&mut self, around: &mut Surroundings<'_>, host: u32, now: u64) {
        let own = &mut self.hosts[host as usize];
        (own.planned, own.free_at) = (Vec::new(), 0);
        for peer in own.held.clone() {
            let circuit = self.circuit(pair(host, peer), now);
            let waiting = std::mem::take(&mut circuit.held).into_iter();
            let (lost, kept) = waiting.partition(|packet| around.wires.get(*packet).source == host);
            circuit.held = kept;
            self.lose_all(around, now, lost);
        }
        self.alarms
            .retain(|_, alarm| !matches!(alarm, Alarm::Free(freed) if *freed == host));
        self.tear_down(around, host, now);
        self.consider(around, host, now);
    }

    fn cut(&mut self, pair: Option<Pair>, now: u64) {
        if let Some(pair) = pair {
            self.stats.cut += 1;
            self.end(pair, now);
        }
    }
}
