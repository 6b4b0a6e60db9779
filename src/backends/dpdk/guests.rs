//! Queues of a port for other processes, which share DPDK's memory with the one that has opened the port (DPDK's primary
//! and secondary processes): at the process that has opened it.
//!
//! Each such process has a place. Its queues receive into a pool of its own, and it sends from another one, so that what a
//! killed process has held is missing nowhere else.

use std::{fs, io, sync::Arc};

use super::{
    DpdkError, DpdkOptions, eal,
    options::{Device, Memory},
    sys::{BURST, Pool},
};

/// Places of a memif, if no number is given. Each pair of places takes a queue, with memory for its packets.
const OF_MEMIF: u16 = 2;
/// Queues of a ring, in each direction.
const OF_RING: u16 = 16;
/// The most queues of a memif.
const MOST_QUEUES: u16 = 255;
/// The most places: each process has its number among DPDK's threads, of which there are 128.
pub(super) const MOST: u16 = 64;
/// Packets of a pool beside those in queues: under way, handed up, and in DPDK's cache.
const SPARE: u32 = 8 * BURST as u32;

/// Where queue *n* of the port leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wiring {
    /// To queue *n* of another process's port, and this end has the server's role.
    Server,
    /// The same, with the client's role.
    Client,
    /// To queue *n* of the port itself.
    Ring,
    /// To a network: the port at the other end steers what comes.
    Card,
}

const WIRINGS: [Wiring; 4] = [Wiring::Server, Wiring::Client, Wiring::Ring, Wiring::Card];

/// How a place is made ready for another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Alone: its packets never come to another place.
    Each,
    /// All of them at once.
    Together,
    /// Not at all: the card may still use its packets.
    Never,
}

/// Queues for `places` processes here, and as many at the other end: one for each pair of them, as a queue has one sender
/// and one receiver. On a card, one for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wires {
    pub(crate) wiring: Wiring,
    /// The first of the queues.
    pub(crate) first: u16,
    pub(crate) places: u16,
}

impl Wires {
    /// Bytes of [`bytes`](Self::bytes).
    pub(super) const LEN: usize = 5;

    /// The number of queues.
    pub(super) fn queues(&self) -> u16 {
        match self.wiring {
            Wiring::Server | Wiring::Client | Wiring::Ring => self.places * self.places,
            Wiring::Card => self.places,
        }
    }

    pub(super) fn renewal(&self) -> Renewal {
        match self.wiring {
            Wiring::Server | Wiring::Client => Renewal::Each,
            Wiring::Ring => Renewal::Together,
            Wiring::Card => Renewal::Never,
        }
    }

    /// A queue of a memif is there only if the other end has one with its number. If it has none, DPDK's server receives
    /// from that queue what is in the first one: packets that somebody else reads, while others are written over them.
    pub(super) fn is_of_memif(&self) -> bool {
        matches!(self.wiring, Wiring::Server | Wiring::Client)
    }

    fn queue(&self, a: u16, b: u16) -> u16 {
        self.first + a * self.places + b
    }

    /// The queues by which the process with the place `own` sends to that with the place `other`, and receives from it.
    pub(super) fn lane(&self, own: u16, other: u16) -> [u16; 2] {
        let (there, back) = (self.queue(own, other), self.queue(other, own));
        match self.wiring {
            Wiring::Server => [there, there],
            Wiring::Client => [back, back],
            Wiring::Ring => [there, back],
            Wiring::Card => [self.first + own; 2],
        }
    }

    /// The queues of a process with the place `own`, to send and to receive.
    pub(super) fn lanes(&self, own: u16) -> Vec<[u16; 2]> {
        let others = match self.wiring {
            Wiring::Server | Wiring::Client | Wiring::Ring => self.places,
            Wiring::Card => 1,
        };
        (0..others).map(|other| self.lane(own, other)).collect()
    }

    /// The place of the process that receives from the queue at `index` among these.
    fn receiver(&self, index: u16) -> u16 {
        match self.wiring {
            Wiring::Server => index / self.places,
            Wiring::Client | Wiring::Ring => index % self.places,
            Wiring::Card => index,
        }
    }

    /// The queues at the other end fit these.
    pub(super) fn fits(&self, other: &Self) -> bool {
        if self.wiring == Wiring::Card {
            return other.wiring == Wiring::Card;
        }
        let opposite = match self.wiring {
            Wiring::Server => Wiring::Client,
            Wiring::Client => Wiring::Server,
            same => same,
        };
        *other
            == Self {
                wiring: opposite,
                ..*self
            }
    }

    pub(super) fn bytes(&self) -> [u8; Self::LEN] {
        let kind = WIRINGS.iter().position(|wiring| *wiring == self.wiring);
        let [[a, b], [c, d]] = [self.first, self.places].map(u16::to_le_bytes);
        [kind.unwrap_or_default() as u8, a, b, c, d]
    }

    pub(super) fn read([kind, a, b, c, d]: [u8; Self::LEN]) -> Option<Self> {
        let [first, places] = [[a, b], [c, d]].map(u16::from_le_bytes);
        Some(Self {
            wiring: *WIRINGS.get(usize::from(kind))?,
            first,
            places: (1..=MOST).contains(&places).then_some(places)?,
        })
    }
}

/// The wiring of a device, or the reason why a queue of it cannot be another process's.
fn wiring(device: &Device) -> Result<Wiring, &'static str> {
    if device.is_ring() {
        Ok(Wiring::Ring)
    } else if !device.is_virtual() {
        Ok(Wiring::Card)
    } else if !device.copies_when_sent() {
        Err("of this driver, another process cannot poll a queue (only of memif, with copies, of ring, and of cards)")
    } else if device.needs_other_end() {
        Ok(Wiring::Client)
    } else {
        Ok(Wiring::Server)
    }
}

/// The queues for processes at `places` places, if there are any.
pub(super) fn wires(options: &DpdkOptions, places: u16) -> Result<Option<Wires>, DpdkError> {
    if places == 0 {
        return Ok(None);
    }
    require(options, places)?;
    Ok(wiring(&options.device).ok().map(|wiring| Wires {
        wiring,
        first: options.queues.max(1) + options.own_queues,
        places,
    }))
}

/// Queues of the port for the processes at `places` places, and DPDK's memory for it.
///
/// # Errors
/// The device, or the memory, does not allow them.
pub(crate) fn require(options: &DpdkOptions, places: u16) -> Result<Memory, DpdkError> {
    let refused = |why: String| DpdkError::Device {
        device: options.device.to_string(),
        source: io::Error::new(io::ErrorKind::Unsupported, why),
    };
    let wiring = wiring(&options.device).map_err(|why| refused(why.to_owned()))?;
    let most = most(options, wiring);
    if places > most {
        return Err(refused(format!("it has queues for {most} processes at most")));
    }
    in_files(options).map_err(refused)
}

/// Memory that other processes can map.
fn in_files(options: &DpdkOptions) -> Result<Memory, String> {
    let why = match options.memory {
        Memory::Hugepages => return Ok(Memory::Hugepages),
        Memory::Auto if mounts().next().is_some() => return Ok(Memory::Hugepages),
        Memory::Auto => "none is mounted".to_owned(),
        other => format!("the memory is {other}"),
    };
    Err(format!(
        "queues for other processes need HIKYAKU_DPDK_MEMORY=hugepages and a mounted hugetlbfs: {why}"
    ))
}

/// The places that a port offers if it is not told a number, and DPDK's memory for them; or the reason why there are none.
pub(crate) fn offer(options: &DpdkOptions) -> Result<(u16, Memory), String> {
    offer_of(options, eal::free_hugepages())
}

fn offer_of(options: &DpdkOptions, free: u64) -> Result<(u16, Memory), String> {
    let wiring = wiring(&options.device)?;
    let places = most(options, wiring).min(match wiring {
        Wiring::Server | Wiring::Client => OF_MEMIF,
        Wiring::Ring => MOST,
        Wiring::Card => {
            return Err("a card gives processes queues only if --bulk-queues says how many".to_owned());
        }
    });
    if places == 0 {
        return Err("its port has too few queues".to_owned());
    }
    let memory = in_files(options)?;
    // Without queues for others, `auto` does without hugepages.
    if options.memory == Memory::Auto && free < u64::from(options.memory_mb) << 20 {
        return Err(format!("fewer than {} MB of hugepages are free", options.memory_mb));
    }
    Ok((places, memory))
}

/// The most places.
fn most(options: &DpdkOptions, wiring: Wiring) -> u16 {
    let queues = match wiring {
        Wiring::Server | Wiring::Client => MOST_QUEUES,
        Wiring::Ring => OF_RING,
        Wiring::Card => return MOST,
    };
    let left = queues.saturating_sub(options.queues.max(1) + options.own_queues);
    left.isqrt().min(MOST)
}

/// The folders with hugepages.
pub(super) fn mounts() -> impl Iterator<Item = String> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let folders: Vec<_> = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let folder = words.next()?;
            (words.next() == Some("hugetlbfs")).then(|| folder.to_owned())
        })
        .collect();
    folders.into_iter()
}

/// A place: all that a process must know to use its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    /// The process that has opened the port.
    pub(crate) process: u32,
    pub(crate) mtu: u16,
    pub(crate) descriptors: u16,
    pub(crate) wires: Wires,
    pub(crate) place: u16,
    /// The UDP port from which the port steers datagrams to these queues; 0: none is needed.
    pub(crate) udp_port: u16,
    /// The port's name.
    pub(crate) device: String,
}

impl Guest {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.process.to_le_bytes().to_vec();
        for number in [self.mtu, self.descriptors, self.place, self.udp_port] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.wires.bytes());
        bytes.extend(self.device.as_bytes());
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (process, rest) = bytes.split_first_chunk()?;
        let (mtu, rest) = rest.split_first_chunk()?;
        let (descriptors, rest) = rest.split_first_chunk()?;
        let (place, rest) = rest.split_first_chunk()?;
        let (udp_port, rest) = rest.split_first_chunk()?;
        let (wires, device) = rest.split_first_chunk()?;
        let wires = Wires::read(*wires)?;
        let place = u16::from_le_bytes(*place);
        (place < wires.places).then(|| Self {
            process: u32::from_le_bytes(*process),
            mtu: u16::from_le_bytes(*mtu),
            descriptors: u16::from_le_bytes(*descriptors),
            wires,
            place,
            udp_port: u16::from_le_bytes(*udp_port),
            device: String::from_utf8_lossy(device).into_owned(),
        })
    }

    /// The settings of a backend with these queues.
    pub(super) fn options(&self) -> Result<DpdkOptions, DpdkError> {
        let device = match self.wires.wiring {
            Wiring::Server | Wiring::Client => "memif:socket=guest",
            Wiring::Ring => "ring",
            Wiring::Card => &format!("port:{}", self.device),
        };
        let mut options = DpdkOptions::new(Device::parse(device)?);
        options.mtu = Some(self.mtu);
        options.descriptors = Some(self.descriptors);
        Ok(options)
    }
}

/// The names of a place's pools: for received packets, and for those to send.
fn names(place: u16) -> [String; 2] {
    ["in", "out"].map(|way| format!("hikyaku-{way}-{place}"))
}

/// Buffers of each pool of a place.
fn buffers(options: &DpdkOptions, places: u16) -> u32 {
    // A memif has packets of its own in its queues.
    let queued = match wiring(&options.device) {
        Ok(Wiring::Ring) => u32::from(options.queue_size()) * u32::from(places),
        Ok(Wiring::Card) => u32::from(options.queue_size()) * 2,
        Ok(Wiring::Server | Wiring::Client) | Err(_) => 0,
    };
    (queued + SPARE).next_power_of_two() - 1
}

/// The queues of all places, at the process that has opened the port.
pub(super) struct Guests {
    pub(super) wires: Wires,
    device: String,
    pools: Vec<[Arc<Pool>; 2]>,
}

impl Guests {
    /// Makes the pools. `device`: the port's name.
    pub(super) fn new(options: &DpdkOptions, device: &str, wires: Wires) -> Result<Self, DpdkError> {
        let places = wires.places;
        let room = options.device.buffer(options.packet_size());
        let count = buffers(options, places);
        let mut pools = Vec::new();
        for place in 0..places {
            let [receive, send] = names(place).map(|name| Pool::named(&name, count, room));
            pools.push([receive?, send?]);
        }
        Ok(Self {
            wires,
            device: device.to_owned(),
            pools,
        })
    }

    /// The pools into which the queues receive, from the first queue.
    pub(super) fn receive(&self) -> impl Iterator<Item = Arc<Pool>> {
        let queues = 0..self.wires.queues();
        queues.map(|index| Arc::clone(&self.pools[usize::from(self.wires.receiver(index))][0]))
    }

    pub(super) fn guest(&self, options: &DpdkOptions, place: u16, udp_port: u16) -> Guest {
        Guest {
            process: std::process::id(),
            mtu: options.packet_size(),
            descriptors: options.queue_size(),
            wires: self.wires,
            place,
            udp_port,
            device: self.device.clone(),
        }
    }

    /// Makes the pools of a place whole again.
    pub(super) fn refill(&self, place: u16) -> Result<(), DpdkError> {
        let pools = &self.pools[usize::from(place)];
        let renewed = pools.iter().try_for_each(|pool| pool.refill());
        renewed.map_err(failed(&self.device, "renewing the packet buffers of a place"))
    }
}

/// The pools of a place, at the process that has it.
pub(super) fn find_pools(guest: &Guest, options: &DpdkOptions) -> Result<[Arc<Pool>; 2], DpdkError> {
    let room = options.device.buffer(options.packet_size());
    let count = buffers(options, guest.wires.places);
    let found = names(guest.place).map(|name| {
        Pool::find(&name, count, room).map_err(failed(&guest.device, "finding the packet buffers of a place"))
    });
    let [receive, send] = found;
    Ok([receive?, send?])
}

/// The error of a place's packet buffers.
fn failed(device: &str, doing: &'static str) -> impl Fn(io::Error) -> DpdkError {
    move |source| DpdkError::Port {
        device: device.to_owned(),
        doing,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wires_of(wiring: Wiring) -> Wires {
        Wires {
            wiring,
            first: 3,
            places: 4,
        }
    }

    #[test]
    fn both_ends_of_a_pair_have_the_same_queue_and_no_other_pair_has_it() {
        for [here, there] in [[Wiring::Server, Wiring::Client], [Wiring::Ring, Wiring::Ring]] {
            let (here, there) = (wires_of(here), wires_of(there));
            assert!(here.fits(&there) && there.fits(&here));
            let mut seen = Vec::new();
            for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
                let ([to_b, from_b], [to_a, from_a]) = (here.lane(a, b), there.lane(b, a));
                assert_eq!((to_b, from_b), (from_a, to_a));
                assert_eq!(here.receiver(from_b - 3), a);
                assert_eq!(there.receiver(from_a - 3), b);
                seen.push(to_b);
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(3..3 + here.queues()));
        }
        // A card's are not wired.
        let card = wires_of(Wiring::Card);
        let fewer = Wires { places: 2, ..card };
        assert!(card.fits(&fewer) && !card.fits(&wires_of(Wiring::Client)));
        assert!((0..4).all(|place| card.lanes(place) == [[3 + place; 2]] && card.receiver(place) == place));
        assert_eq!(card.queues(), 4);
        assert!(!wires_of(Wiring::Server).fits(&wires_of(Wiring::Server)));
        let fewer = Wires {
            places: 3,
            ..wires_of(Wiring::Client)
        };
        assert!(!wires_of(Wiring::Server).fits(&fewer));
    }

    #[test]
    fn a_place_comes_through() {
        let guest = Guest {
            process: 70_000,
            mtu: 16_000,
            descriptors: 256,
            wires: wires_of(Wiring::Ring),
            place: 3,
            udp_port: 50_000,
            device: "net_memif0".to_owned(),
        };
        let bytes = guest.bytes();
        assert_eq!(Guest::read(&bytes), Some(guest.clone()));
        assert_eq!(Guest::read(&bytes[..12]), None);
        let beyond = Guest { place: 4, ..guest };
        assert_eq!(Guest::read(&beyond.bytes()), None);
    }

    #[test]
    fn a_port_offers_what_its_device_and_its_memory_allow() {
        let offered = |device: &str, memory, free| {
            let mut options = DpdkOptions::new(Device::parse(device).unwrap());
            options.memory = memory;
            offer_of(&options, free)
        };
        assert_eq!(
            offered("memif:socket=/s", Memory::Hugepages, 0),
            Ok((2, Memory::Hugepages))
        );
        assert_eq!(offered("ring", Memory::Hugepages, 0), Ok((3, Memory::Hugepages)));
        for (device, memory, why) in [
            ("memif:socket=/s", Memory::NoHuge, "no-huge"),
            ("memif:socket=/s", Memory::InMemory, "in-memory"),
            ("memif:socket=/s", Memory::Auto, "hugepages"),
            (
                "memif:socket=/s,role=client,zero-copy=yes",
                Memory::Hugepages,
                "another process cannot poll",
            ),
            ("port:0000:03:00.0", Memory::Hugepages, "--bulk-queues says how many"),
            ("af_packet:iface=e", Memory::Hugepages, "another process cannot poll"),
        ] {
            let refused = offered(device, memory, 0).unwrap_err();
            assert!(refused.contains(why), "{device}: {refused}");
        }
    }

    #[test]
    fn more_places_than_queues_are_refused() {
        let mut options = DpdkOptions::new(Device::parse("memif:socket=/s").unwrap());
        options.memory = Memory::Hugepages;
        assert_eq!(require(&options, 15).unwrap(), Memory::Hugepages);
        let refused = require(&options, 16).unwrap_err().to_string();
        assert!(refused.contains("15 processes at most"), "{refused}");
    }
}
