//! From options to open transports.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::{
    failure::Failure,
    harness::{
        rounds::{Entry, Measured, Series, interleave},
        session::{Ends, Session},
    },
    machine::{
        busy::Contention,
        environment::{Environment, datagram_of, interface_mtu},
        pin,
        wire::Wire,
    },
    options::{Common, Level, Opponent},
    report::{Row, Running},
    transports::{
        device,
        settings::{Job, Kind, Operation, Preset, Settings, Wait},
    },
};

/// Rounds if nothing is said: fewer say little on a shared machine.
const ROUNDS: u32 = 20;
/// MTU of wires that this run makes, if none is given.
const ETHERNET: usize = 1500;
/// Port of `--listen` and `--connect` if none is given.
const PORT: u16 = 7475;

/// Everything that a benchmark needs.
pub(crate) struct Setup {
    /// Workers and transports.
    pub session: Session,
    /// The transports, in the order of the table's columns.
    pub entries: Vec<Entry>,
    /// Where and how.
    pub environment: Environment,
    /// Rounds.
    pub rounds: usize,
    crowded: bool,
    /// Dropped after the session.
    _wire: Option<Wire>,
}

/// The transports to compare, from the options: this library, then the others.
pub(crate) fn kinds(common: &Common, batched_tcp: bool) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = common.level.iter().map(|level| ours(common, *level)).collect();
    for opponent in &common.vs {
        match opponent {
            Opponent::Tcp => {
                kinds.push(Kind::Tcp);
                if batched_tcp {
                    kinds.push(Kind::TcpBatched);
                }
            }
            Opponent::Udp => kinds.push(Kind::Udp),
            Opponent::Memif => kinds.extend([false, true].map(|copies| Kind::Memif { copies })),
            Opponent::Kcp => kinds.push(Kind::Kcp),
            Opponent::Quinn => kinds.push(Kind::Quinn),
        }
    }
    let mut unique = Vec::new();
    for kind in kinds {
        if !unique.contains(&kind) {
            unique.push(kind);
        }
    }
    unique
}

fn ours(common: &Common, level: Level) -> Kind {
    let backend = common.backend.clone();
    match level {
        Level::Transport => Kind::Hikyaku {
            backend,
            preset: common.config,
        },
        Level::Mpi => Kind::Mpi { backend, way: None },
    }
}

/// Refuses what this build or this benchmark cannot do.
pub(crate) fn check(common: &Common, fixed_np: Option<u32>) -> Result<(), Failure> {
    check_backend(&common.backend)?;
    device::check(common, fixed_np)?;
    if common.level.contains(&Level::Mpi) && fixed_np.is_none() {
        return Err(Failure::usage(
            "--level mpi: latency, bandwidth and rate have it, and collectives; this benchmark has the transport only",
        ));
    }
    if let (Some(np), Some(fixed)) = (common.np, fixed_np)
        && np != fixed
    {
        return Err(Failure::usage(format!(
            "--np {np}: this benchmark has exactly {fixed} processes"
        )));
    }
    if !cfg!(feature = "peers")
        && common
            .vs
            .iter()
            .any(|one| matches!(one, Opponent::Kcp | Opponent::Quinn))
    {
        return Err(Failure::usage(
            "--vs kcp and quinn need a build with `--features peers`",
        ));
    }
    if common.backend == "loopback" && common.connect.is_some() {
        return Err(Failure::usage(
            "--backend loopback stays inside one process; --connect needs udp",
        ));
    }
    Ok(())
}

/// Refuses backends that this build does not have.
pub(crate) fn check_backend(name: &str) -> Result<(), Failure> {
    match name {
        "udp" | "loopback" => Ok(()),
        "dpdk" if cfg!(feature = "dpdk") => Ok(()),
        "shm" if cfg!(feature = "shm") => Ok(()),
        "shm" => Err(Failure::usage(
            "this build has no backend `shm` (build with `--features shm`)",
        )),
        "dpdk" => Err(Failure::usage(
            "this build has no backend `dpdk` (build with `--features dpdk`)",
        )),
        other => Err(Failure::usage(format!(
            "there is no backend `{other}`; there are: udp, loopback{}{}",
            if cfg!(feature = "shm") { ", shm" } else { "" },
            if cfg!(feature = "dpdk") { ", dpdk" } else { "" }
        ))),
    }
}

impl Setup {
    /// Does these jobs, one after the other, over all transports for which `takes` holds, and adds what `show` makes of
    /// each to what is `running`.
    pub(crate) fn measure(
        &mut self,
        jobs: &[Job],
        running: &mut Running<'_>,
        takes: impl Fn(&Entry, &Job) -> bool,
        show: impl Fn(&[Entry], &Job, &[Series]) -> (Vec<String>, Vec<Row>),
    ) -> Measured<Vec<(Job, Vec<Series>)>> {
        let mut results = Vec::new();
        for job in jobs {
            let able: Vec<Entry> = self.entries.iter().filter(|entry| takes(entry, job)).cloned().collect();
            let (all, outcome) = interleave(&mut self.session, &able, job, self.rounds, &mut running.progress);
            let mut shown = Ok(());
            if outcome.is_ok() || all.iter().any(|series| !series.samples.is_empty()) {
                let (cells, rows) = show(&self.entries, job, &all);
                shown = running.add(cells, rows);
                results.push((*job, all));
            }
            if let Err(failure) = outcome.and(shown) {
                return (results, Err(failure));
            }
        }
        (results, Ok(()))
    }

    /// Steps of [`Running`] for so many jobs.
    pub(crate) const fn steps(&self, jobs: usize) -> usize {
        jobs * self.rounds * self.entries.len()
    }

    /// How busy the machine was.
    pub(crate) const fn contention(&self) -> Contention {
        match self.crowded {
            // Its own ends share the cores, which was said.
            true => Contention::new(),
            false => self.session.contention(),
        }
    }

    /// Starts workers and opens transports. `spokes`: workers; `shared`: they may share cores.
    pub(crate) fn new(common: &Common, kinds: &[Kind], spokes: usize) -> Result<Self, Failure> {
        let devices = device::of(common)?;
        let mut wire = None;
        if devices.as_ref().is_some_and(device::is_wired) {
            let links: Vec<usize> = (0..kinds.len()).filter(|&link| kinds[link].is_over("dpdk")).collect();
            let links: Vec<usize> = links.into_iter().map(device::wire_of).collect();
            wire = Some(Wire::new(&links, common.mtu.map_or(ETHERNET, |mtu| mtu as usize))?);
        }
        let ends = match (&common.connect, &wire) {
            (Some(address), _) => Ends::Host(resolve(address)?),
            (None, Some(wire)) => {
                wire.enter()?;
                Ends::Wired(wire.namespace(1))
            }
            (None, None) if common.backend == "loopback" => Ends::Threads,
            (None, None) => Ends::Processes,
        };
        let cores = pin::places().len().max(1);
        let crowded = spokes + 1 > cores && !matches!(ends, Ends::Host(_));
        let wait = common.wait.unwrap_or(if crowded { Wait::Adaptive } else { Wait::Spin });
        if crowded {
            eprintln!(
                "hikyaku bench: {} {} share {cores} CPUs: times show that too (wait: {})",
                spokes + 1,
                ends.name(),
                wait.name()
            );
        }
        let mut session = Session::start(&ends, spokes, true)?;
        let mtu = match (common.mtu, &devices) {
            (Some(mtu), _) => mtu as usize,
            (None, _) if wire.is_some() => ETHERNET,
            (None, Some(devices)) => device::mtu(devices)?,
            (None, None) => interface_mtu(session.local()).unwrap_or(1500),
        };
        let settings = Settings {
            wait,
            datagram: datagram_of(mtu, session.local()),
            datagram_forced: common.mtu.is_some(),
            link: 0,
            spoke: 0,
            threads: ends == Ends::Threads,
            capture: common.capture.as_ref().map(|file| file.display().to_string()),
            devices,
            wire: wire.as_ref().map(|wire| wire.namespace(1)),
        };
        let mut entries = Vec::new();
        for kind in kinds {
            let link = session.open(kind, &settings)?;
            entries.push(Entry {
                link,
                name: kind.name(),
                ours: kind.is_ours(),
            });
        }
        if entries.is_empty() {
            return Err(Failure::usage("nothing to measure"));
        }
        if settings.devices.is_some() {
            touch(&mut session, &entries)?;
        }
        let rounds = common.rounds.unwrap_or(ROUNDS) as usize;
        let sizes = (mtu, settings.datagram);
        let environment = environment(&session, &ends, sizes, wait.name(), rounds);
        announce(&session, &ends);
        Ok(Self {
            session,
            entries,
            environment,
            rounds,
            crowded,
            _wire: wire,
        })
    }
}

/// Sends enough over devices that all of their memory is there: without hugepages the first message through each buffer
/// pays for its pages.
fn touch(session: &mut Session, entries: &[Entry]) -> Result<(), Failure> {
    let job = Job {
        operation: Operation::PingPong,
        size: 1 << 20,
        mix: None,
        warmup: 0,
        count: 40,
        window: 1,
        spokes: 1,
        whole: false,
    };
    for entry in entries
        .iter()
        .filter(|entry| entry.name.contains("dpdk") || entry.name.contains("memif"))
    {
        session.run(entry.link, &job)?;
    }
    Ok(())
}

/// The kinds of `bench dse`.
pub(crate) fn dse_kinds(common: &Common) -> Vec<Kind> {
    let ours = |preset| Kind::Hikyaku {
        backend: common.backend.clone(),
        preset,
    };
    vec![
        ours(Preset::Dse),
        ours(Preset::Default),
        Kind::TcpPlain,
        Kind::Tcp,
        Kind::TcpBatched,
    ]
}

/// Where and how; of `mtu` and `datagram`, bytes.
pub(crate) fn environment(
    session: &Session,
    ends: &Ends,
    (mtu, datagram): (usize, usize),
    wait: &'static str,
    rounds: usize,
) -> Environment {
    let (here, there) = (crate::harness::control::Hello::ours(""), session.other());
    let both = |here: String, there: &str| {
        if here == there {
            here
        } else {
            format!("{here} and {there}")
        }
    };
    Environment {
        cpu: both(here.cpu, &there.cpu),
        kernel: both(here.kernel, &there.kernel),
        mtu,
        datagram,
        wait,
        pinning: session.pinning(),
        ends: ends.name(),
        rounds,
    }
}

/// Says on standard error who runs where.
pub(crate) fn announce(session: &Session, ends: &Ends) {
    let place = |cpu: Option<usize>| cpu.map_or_else(|| "not pinned".into(), |cpu| format!("on CPU {cpu}"));
    let parts: Vec<String> = session
        .processes()
        .iter()
        .zip(session.pinning())
        .enumerate()
        .map(|(index, (process, cpu))| {
            let role = if index == 0 { "driver" } else { "worker" };
            match ends {
                Ends::Threads => format!("{role} thread {}", place(cpu)),
                _ => format!("{role} process {process} {}", place(cpu)),
            }
        })
        .collect();
    eprintln!("hikyaku bench: {}", parts.join(", "));
}

/// Finds the addresses of `host`, `host:port` or `[v6]:port`.
pub(crate) fn resolve(text: &str) -> Result<Vec<SocketAddr>, Failure> {
    let with_port = text.rsplit_once(':').is_some_and(|(host, port)| {
        !port.is_empty()
            && port.bytes().all(|digit| digit.is_ascii_digit())
            && (!host.contains(':') || host.ends_with(']'))
    });
    let found = if with_port {
        text.to_socket_addrs()
    } else {
        (text.trim_start_matches('[').trim_end_matches(']'), PORT).to_socket_addrs()
    };
    match found.map(Iterator::collect::<Vec<_>>) {
        Ok(addresses) if !addresses.is_empty() => Ok(addresses),
        Ok(_) => Err(Failure::usage(format!("`{text}` has no address"))),
        Err(error) => Err(Failure::usage(format!("cannot resolve `{text}`: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let first = |text| resolve(text).unwrap()[0].to_string();
        assert_eq!(first("127.0.0.1:99"), "127.0.0.1:99");
        assert_eq!(first("127.0.0.1"), "127.0.0.1:7475");
        assert_eq!(first("[::1]:99"), "[::1]:99");
        assert_eq!(first("::1"), "[::1]:7475");
        assert_eq!(resolve("no such host").unwrap_err().code(), 2);
        assert_eq!(resolve("127.0.0.1:70000").unwrap_err().code(), 2);
    }
}
