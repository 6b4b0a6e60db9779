#![expect(
    unsafe_code,
    reason = "messages without data are sent from and received into no memory"
)]
//! Worlds that are joined in the middle of a job: the processes that spawn, and those that are spawned (MPI 11.8).
//!
//! Processes are numbered through all worlds of a job. The spawning processes agree on a context, one of them has the
//! others started and learns their addresses, and all add them as peers; then they let them go on. The spawned processes
//! know the context, the group and the addresses of those that have spawned them before they exchange anything.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{
    fmt::Write as _,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    ops::Range,
    ptr,
};

use super::{Communicator, Engine, Entry, Mode, class::Class};
use crate::{
    bootstrap::MAX_PROCESSES,
    mpi::{
        Rank,
        collectives::Model,
        datatype::{Datatype, Kind},
        error::{Detail, Error, ErrorClass},
        group::Group,
        operation::Predefined,
    },
    reliability::{Path, PeerId},
};

const CALL: &str = "MPI_Comm_spawn";

/// Numbers by which an address is agreed on: both halves of an IPv6 address, which may hold an IPv4 one, and the port.
const ADDRESS: usize = 3;
/// Is in the number of the port if the address is a spare one.
const SPARE: i64 = 1 << 16;
/// Numbers by which a link address is agreed on: its length, and its at most 64 bytes.
const LINK: usize = 9;

/// The processes that spawn others, as those are told.
#[derive(Clone, Debug)]
pub(in crate::mpi) struct Parents {
    /// The context in which both worlds talk.
    context: u32,
    /// The rank that has had the others started.
    root: Rank,
    /// By which algorithms are chosen, so that both worlds choose the same ones.
    pub(in crate::mpi) model: Model,
    group: Group,
}

/// The processes that were spawned.
#[derive(Debug, Default)]
pub(in crate::mpi) struct Started {
    /// The number of the first one.
    pub(in crate::mpi) first: u32,
    /// The addresses of each, by which it is reached, and the link address of its backend.
    pub(in crate::mpi) processes: Vec<(Addresses, Vec<u8>)>,
}

/// Where a process is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::mpi) struct Addresses {
    /// By all others.
    pub(in crate::mpi) usual: Vec<SocketAddr>,
    /// By those that have no address of the family of these.
    pub(in crate::mpi) spare: Option<SocketAddr>,
}

impl Addresses {
    /// The usual ones, and then the spare one.
    pub(in crate::mpi) fn all(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.usual.iter().copied().chain(self.spare)
    }
}

impl Parents {
    /// A word without blanks that says it all.
    fn to_word(&self) -> String {
        let Model {
            alpha,
            beta,
            gamma,
            sharing,
            ..
        } = self.model;
        let mut word = String::new();
        let _ = write!(word, "{}/{}/{alpha}/{beta}/{gamma}/{sharing}/", self.context, self.root);
        let mut runs: Vec<Range<u32>> = Vec::new();
        for process in self.group.processes() {
            match runs.last_mut() {
                Some(run) if run.end == process => run.end += 1,
                _ => runs.push(process..process + 1),
            }
        }
        for (index, run) in runs.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(word, "{comma}{}-{}", run.start, run.end - 1);
        }
        word
    }

    /// Reads the word; `None`: it is not of this form.
    pub(in crate::mpi) fn of_word(word: &str) -> Option<Self> {
        let [context, root, alpha, beta, gamma, sharing, runs] =
            <[&str; 7]>::try_from(word.split('/').collect::<Vec<_>>()).ok()?;
        let mut processes = Vec::new();
        for run in runs.split(',') {
            let (first, last) = run.split_once('-')?;
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= MAX_PROCESSES || processes.len() >= MAX_PROCESSES as usize {
                return None;
            }
            processes.extend(first..=last);
        }
        let group = Group::of_processes(&processes).ok()?;
        let root = root.parse().ok().filter(|root| (0..group.size()).contains(root))?;
        Some(Self {
            context: context.parse().ok()?,
            root,
            model: Model {
                alpha: alpha.parse().ok()?,
                beta: beta.parse().ok()?,
                gamma: gamma.parse().ok()?,
                sharing: sharing.parse().ok()?,
                ..Model::default()
            },
            group,
        })
    }

    /// The processes.
    pub(in crate::mpi) fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.group.processes()
    }
}

impl Communicator {
    /// Has other processes started by the rank `root`, whose `start` is given a word for them and says the number of the
    /// first one and how each is reached, and makes the communicator between them and the ranks of this one. `pair` says
    /// by which port of this process it reaches which address of another one, beside the first. Collective.
    ///
    /// # Errors
    /// A process is lost, or the communicator is revoked; at `root`, the error of `start`, and at the others one of class
    /// [`Spawn`](ErrorClass::Spawn).
    pub(in crate::mpi) fn spawn_with<E: From<Error>>(
        &self,
        root: Rank,
        start: impl FnOnce(&str) -> Result<Started, E>,
        pair: &dyn Fn(&Addresses) -> Vec<Path>,
    ) -> Result<Self, E> {
        let span = self.enter(|| Entry::named(CALL).with_peer(root));
        let made = self.spawn_quietly(root, start, pair);
        // The profile knows errors of MPI only.
        let _ = span.make(match &made {
            Ok(made) => Ok(made.clone()),
            Err(_) => Err(self.not_started()),
        });
        made
    }

    fn spawn_quietly<E: From<Error>>(
        &self,
        root: Rank,
        start: impl FnOnce(&str) -> Result<Started, E>,
        pair: &dyn Fn(&Addresses) -> Vec<Path>,
    ) -> Result<Self, E> {
        if self.group().process(root).is_none() {
            return Err(self.locate(Error::rank(CALL, root, self.size())).into());
        }
        let context = self.new_context(CALL)?;
        let mut started = Ok(Started::default());
        if self.rank() == root {
            let parents = Parents {
                context,
                root,
                model: self.engine().policy.model,
                group: self.group().clone(),
            };
            started = start(&parents.to_word());
        }
        let nobody = Started::default();
        let known = started.as_ref().unwrap_or(&nobody);
        let each = known
            .processes
            .iter()
            .map(|(addresses, _)| addresses.all().count())
            .max();
        let head = [known.first as usize, known.processes.len(), each.unwrap_or(0)];
        let mut head = head.map(|number| number as i64);
        self.agree(CALL, &mut head, Predefined::Sum)?;
        let [first, count, each] = head.map(|number| u32::try_from(number).unwrap_or(0));
        let length = ADDRESS * each as usize + LINK;
        let mut numbers = Vec::with_capacity(length * count as usize);
        for (addresses, link) in &known.processes {
            numbers.extend(numbers_of_link(link));
            numbers.extend(numbers_of_all(addresses));
            numbers.resize(numbers.len().next_multiple_of(length), 0);
        }
        numbers.resize(length * count as usize, 0);
        started?;
        if count == 0 || each == 0 {
            return Err(self.not_started().into());
        }
        self.agree(CALL, &mut numbers, Predefined::Sum)?;
        let processes = numbers.chunks_exact(length).map(|of_process| {
            let (link, addresses) = of_process.split_at(LINK);
            (all_of_numbers(addresses), link_of(link))
        });
        let processes: Vec<(Addresses, Vec<u8>)> = processes.collect();
        let mut refused = [i64::from(!self.engine().admit(first, &processes, pair))];
        self.agree(CALL, &mut refused, Predefined::Sum)?;
        if refused[0] > 0 {
            let detail = Detail::Text("a process could not add the others as peers");
            return Err(self
                .locate(Error::new(ErrorClass::Spawn, CALL).with_detail(detail))
                .into());
        }
        let children: Vec<u32> = (first..first + count).collect();
        let children = Group::of_processes(&children).map_err(|error| self.locate(Error::group(CALL, error)))?;
        let inter = Self::between(self.engine(), context, self.group().clone(), children);
        let inter = inter.ok_or_else(|| self.broken(CALL))?;
        if self.rank() == root {
            // All have added them by now.
            inter.send_nothing(0)?;
        }
        Ok(inter)
    }

    /// The communicator between this world and the processes that have spawned it (`MPI_Comm_get_parent`). Collective
    /// over the world; waits until they are ready.
    pub(in crate::mpi) fn with_parents(engine: &Arc<Engine>, parents: &Parents) -> Result<Self, Error> {
        let world = Self::world(engine);
        let inter = Self::between(engine, parents.context, world.group().clone(), parents.group.clone());
        let inter = inter.ok_or_else(|| world.broken(CALL))?;
        let mut failed = [0];
        let mut ready = Ok(());
        if world.rank() == 0 {
            ready = inter.receive_nothing(parents.root);
            failed = [i64::from(ready.is_err())];
        }
        world.agree(CALL, &mut failed, Predefined::Sum)?;
        ready.map(|()| inter)
    }

    fn between(engine: &Arc<Engine>, context: u32, local: Group, remote: Group) -> Option<Self> {
        Self::with(engine, context, local, Some(remote), (Class::Collective, 0))
    }

    /// Lets a process of the other group go on.
    fn send_nothing(&self, destination: Rank) -> Result<(), Error> {
        let datatype = Datatype::predefined(Kind::U8);
        // SAFETY: no element is read.
        let nothing = unsafe { self.buffer(CALL, ptr::null_mut(), 0, &datatype) }?;
        self.isend_buffer(CALL, Mode::Standard, nothing, destination, 0)?
            .finish()
            .map(drop)
    }

    /// Waits until a process of the other group lets this one go on.
    fn receive_nothing(&self, source: Rank) -> Result<(), Error> {
        let datatype = Datatype::predefined(Kind::U8);
        let message = self.mprobe_quietly(CALL, source, 0)?;
        // SAFETY: no element is written.
        unsafe { Self::imreceive_quietly(CALL, message, ptr::null_mut(), 0, &datatype) }?
            .finish()
            .map(drop)
    }

    fn not_started(&self) -> Error {
        let detail = Detail::Text("the root could not have the processes started, and says why");
        self.locate(Error::new(ErrorClass::Spawn, CALL).with_detail(detail))
    }
}

impl Engine {
    /// Returns whether this process can reach all of these. It knows the processes of its world, those that it has
    /// spawned with others, and those by which it was spawned.
    pub(super) fn knows(&self, processes: &[u32]) -> bool {
        self.read(|core| {
            let mut others = processes.iter().filter(|process| **process != self.process);
            others.all(|process| core.peers.knows(*process))
        })
    }

    /// Adds processes of another world as peers; false: that was refused. They may have the addresses of processes that
    /// were spawned before, and have ended.
    fn admit(&self, first: u32, processes: &[(Addresses, Vec<u8>)], pair: &dyn Fn(&Addresses) -> Vec<Path>) -> bool {
        let mut all = true;
        let paths: Vec<Vec<Path>> = processes.iter().map(|(theirs, _)| pair(theirs)).collect();
        let introduced: Option<Vec<(SocketAddr, &[u8])>> = { paths.iter().zip(processes) }
            .map(|(paths, (_, link))| Some((paths.first()?.address, &link[..])))
            .collect();
        let Some(introduced) = introduced else { return false };
        let reached = self.fabric.introduce(&introduced, &mut |core, messenger, now| {
            let peers: Option<Vec<PeerId>> = (first..)
                .zip(&paths)
                .map(|(process, paths)| {
                    let (first, further) = paths.split_first()?;
                    let peer = messenger.replace_peer(first.address, process).ok()?;
                    if first.port != 0 {
                        messenger.leave_by(peer, first.port);
                    }
                    for &path in further {
                        // (Without it, there is one path all the same.)
                        let _ = messenger.add_rail(now, peer, path);
                    }
                    Some(peer)
                })
                .collect();
            all = peers.is_some_and(|peers| core.peers.admit(first, peers));
        });
        reached && all
    }
}

fn numbers_of(address: SocketAddr) -> [i64; ADDRESS] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let bits = ip.to_bits();
    [(bits >> 64) as i64, bits as i64, address.port().into()]
}

fn address_of(numbers: &[i64]) -> SocketAddr {
    let bits = u128::from(numbers[0] as u64) << 64 | u128::from(numbers[1] as u64);
    SocketAddr::new(Ipv6Addr::from_bits(bits).to_canonical(), numbers[2] as u16)
}

/// Those of all addresses of a process.
fn numbers_of_all(addresses: &Addresses) -> Vec<i64> {
    let mut numbers: Vec<i64> = addresses.all().flat_map(numbers_of).collect();
    if let Some(port) = numbers.last_mut().filter(|_| addresses.spare.is_some()) {
        *port |= SPARE;
    }
    numbers
}

fn all_of_numbers(numbers: &[i64]) -> Addresses {
    let mut addresses = Addresses::default();
    for numbers in numbers.chunks_exact(ADDRESS) {
        match numbers[2] {
            0 => {}
            port if port & SPARE != 0 => addresses.spare = Some(address_of(numbers)),
            _ => addresses.usual.push(address_of(numbers)),
        }
    }
    addresses
}

fn numbers_of_link(link: &[u8]) -> [i64; LINK] {
    let mut numbers = [0; LINK];
    numbers[0] = link.len() as i64;
    for (number, bytes) in numbers[1..].iter_mut().zip(link.chunks(8)) {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        *number = i64::from_le_bytes(all);
    }
    numbers
}

fn link_of(numbers: &[i64]) -> Vec<u8> {
    let mut link: Vec<u8> = numbers[1..].iter().flat_map(|number| number.to_le_bytes()).collect();
    link.truncate(numbers[0] as usize);
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_told_by_a_word() {
        let parents = Parents {
            context: 77,
            root: 1,
            model: Model {
                alpha: 4e-6,
                sharing: 1.5,
                ..Model::default()
            },
            group: Group::of_processes(&[0, 1, 2, 7, 5]).unwrap(),
        };
        let word = parents.to_word();
        assert!(word.ends_with("/0-2,7-7,5-5") && !word.contains(' '), "{word}");
        let read = Parents::of_word(&word).unwrap();
        assert_eq!((read.to_word(), read.model), (word, parents.model));
        assert!(read.processes().eq([0, 1, 2, 7, 5]));
        for wrong in [
            "",
            "1/0/1/1/1/1",
            "1/9/1/1/1/1/0-1",
            "1/0/1/1/1/1/1-0",
            "1/0/1/1/1/1/0-4000000000",
        ] {
            assert!(Parents::of_word(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_told_by_numbers() {
        for address in ["127.0.0.1:80", "[::1]:65535", "[fe80::ffff:1]:1"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(address_of(&numbers_of(address)), address);
        }
    }

    #[test]
    fn a_spare_address_is_told_from_the_others() {
        let [one, other, spare] = ["10.0.0.1:1", "10.1.0.1:65535", "[fd00::1]:65535"].map(|text| text.parse().unwrap());
        for (usual, spare) in [
            (vec![one], None),
            (vec![one, other], None),
            (vec![one, other], Some(spare)),
        ] {
            let addresses = Addresses { usual, spare };
            let mut numbers = numbers_of_all(&addresses);
            numbers.resize(ADDRESS * 5, 0);
            assert_eq!(all_of_numbers(&numbers), addresses);
        }
    }

    #[test]
    fn links_are_told_by_numbers() {
        for length in [0, 1, 8, 9, 63, 64] {
            let link: Vec<u8> = (0..length).map(|byte| 255 - byte).collect();
            assert_eq!(link_of(&numbers_of_link(&link)), link);
        }
    }
}
