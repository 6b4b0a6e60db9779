//! A job of MPI ranks on this machine, and rounds in which its operations take turns.

use crate::{
    failure::{Failure, While},
    harness::{
        rounds::Measured,
        session::{Ends, Session},
        setup::{announce, check_backend, environment},
    },
    machine::{
        busy::Contention,
        environment::{Environment, datagram_of, interface_mtu},
        pin,
    },
    options::{Level, Turns, World},
    ranks::{
        rank::{self, Rank},
        work::{Place, Task, Work},
    },
    report::{Progress, Row, median, percentile, ratio},
    transports::settings::{self, Kind, Operation, Preset, Report, Settings, Wait},
};

/// Rounds if nothing is said: fewer say little on a shared machine.
const ROUNDS: u32 = 20;

/// The job.
pub(crate) struct Job {
    session: Session,
    rank: Rank,
    /// Where and how.
    pub environment: Environment,
    /// Rounds.
    pub rounds: usize,
    /// Ranks.
    pub np: usize,
    /// The name of the operation, for tables and JSON.
    pub transport: String,
    crowded: bool,
    /// The transport that [`open_transport`](Self::open_transport) has opened.
    link: Option<usize>,
    settings: Settings,
}

/// One round of one work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Round {
    /// Time of an operation: the mean over iterations of the mean over ranks, ns.
    pub avg: f64,
    /// The same of the slowest rank.
    pub max: f64,
    /// The median over iterations of the mean over ranks, ns.
    pub p50: f64,
}

/// All rounds of one work.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// The operation.
    pub work: Work,
    /// Rounds in order.
    pub rounds: Vec<Round>,
    /// Means over ranks of all iterations, ns.
    pub samples: Vec<u64>,
}

impl Series {
    /// Median over rounds, µs.
    pub(crate) fn micros(&self, figure: impl Fn(&Round) -> f64) -> Option<f64> {
        median(&self.rounds.iter().map(|round| figure(round) / 1e3).collect::<Vec<_>>())
    }

    /// 99th percentile over all iterations, µs.
    pub(crate) fn p99(&self) -> Option<f64> {
        percentile(&self.samples, 99.0).map(|nanos| nanos as f64 / 1e3)
    }

    /// 10^6 bytes per second, if so many messages are an operation.
    pub(crate) fn mb_per_s(&self, messages: usize) -> Option<f64> {
        let bytes = (self.work.size * messages) as f64;
        median(
            &self
                .rounds
                .iter()
                .map(|round| bytes * 1e3 / round.avg)
                .collect::<Vec<_>>(),
        )
    }

    /// Median of the rounds' ratios of time.
    pub(crate) fn ratio(&self, other: &Self) -> Option<f64> {
        let times = |series: &Self| series.rounds.iter().map(|round| Some(round.p50)).collect::<Vec<_>>();
        ratio(&times(self), &times(other))
    }
}

/// How many ranks, if nothing is said, or if nothing else can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranks {
    /// Any number.
    Default(u32),
    /// This number.
    Exactly(u32),
}

/// How a job is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// Packets to one rank may go to the kernel together.
    pub offload: bool,
    /// Collectives open their sessions ahead; nothing: as set.
    pub connect_ahead: Option<bool>,
    /// It says nothing on standard error.
    pub is_quiet: bool,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            offload: true,
            connect_ahead: None,
            is_quiet: false,
        }
    }
}

impl Job {
    /// Starts the ranks.
    pub(crate) fn start(options: &Turns, np: u32) -> Result<Self, Failure> {
        Self::start_with(options, np, Start::default())
    }

    /// The same, in a special way.
    pub(crate) fn start_with(options: &Turns, np: u32, start: Start) -> Result<Self, Failure> {
        check(options)?;
        let ends = match options.backend.as_str() {
            "loopback" => Ends::Threads,
            _ => Ends::Processes,
        };
        let cores = pin::places().len().max(1);
        let crowded = np as usize > cores;
        let mut session = Session::start(&ends, np as usize - 1, !crowded)?;
        let mtu = match options.mtu {
            Some(mtu) => mtu as usize,
            None => interface_mtu(session.local()).unwrap_or(1500),
        };
        let datagram = datagram_of(mtu, session.local());
        let place = Place {
            backend: options.backend.clone(),
            size: np,
            datagram: options.mtu.map(|_| datagram),
            wait: options.wait,
            crowded,
            threads: ends == Ends::Threads,
            offload: start.offload,
            connect_ahead: start.connect_ahead,
        };
        let rank = session.job(&place)?;
        let wait = rank::options(&place).or_fail("settings")?.wait;
        let wait = [Wait::Spin, Wait::Block, Wait::Yield]
            .into_iter()
            .find(|one| one.policy() == wait)
            .unwrap_or(Wait::Adaptive);
        let rounds = options.rounds.unwrap_or(ROUNDS) as usize;
        let environment = environment(&session, &ends, (mtu, datagram), wait.name(), rounds);
        if crowded && !start.is_quiet {
            eprintln!(
                "hikyaku bench: {np} {} share {cores} CPUs: times show that too (wait: {})",
                ends.name(),
                wait.name()
            );
        }
        if !start.is_quiet {
            announce(&session, &ends);
        }
        let settings = Settings {
            wait,
            datagram,
            datagram_forced: options.mtu.is_some(),
            link: 0,
            spoke: 0,
            threads: ends == Ends::Threads,
            capture: None,
            devices: None,
            wire: None,
        };
        Ok(Self {
            session,
            rank,
            environment,
            rounds,
            np: np as usize,
            transport: format!("hikyaku/{}", options.backend),
            crowded,
            link: None,
            settings,
        })
    }

    /// Opens transports between the first two processes, beside the ranks.
    pub(crate) fn open_transport(&mut self, backend: &str) -> Result<(), Failure> {
        let kind = Kind::Hikyaku {
            backend: backend.to_owned(),
            preset: Preset::Default,
        };
        self.link = Some(self.session.open(&kind, &self.settings)?);
        Ok(())
    }

    /// As [`mean`](Self::mean), of messages of these transports.
    pub(crate) fn mean_of_transport(&mut self, work: &Work) -> Result<f64, Failure> {
        let operation = match work.task {
            Task::PingPong => Operation::PingPong,
            _ => Operation::Stream,
        };
        let job = settings::Job {
            operation,
            size: work.size,
            mix: None,
            warmup: work.warmup,
            count: work.count,
            window: work.window,
            spokes: 1,
            whole: true,
        };
        let link = self.link.ok_or_else(|| Failure::run("no transport is open"))?;
        let outcome = self.session.run(link, &job)?;
        let wall = outcome.reports.first().map_or(0, |report| report.wall);
        Ok(wall as f64 / (work.count * messages(work)) as f64)
    }

    /// Does each work once per round, in rotated order. `names`: for progress.
    pub(crate) fn interleave(&mut self, works: &[(String, Work)], progress: &mut Progress) -> Measured<Vec<Series>> {
        let mut all: Vec<Series> = works
            .iter()
            .map(|(_, work)| Series {
                work: work.clone(),
                rounds: Vec::with_capacity(self.rounds),
                samples: Vec::new(),
            })
            .collect();
        for round in 0..self.rounds {
            for step in 0..works.len() {
                let index = (step + round) % works.len();
                let (name, work) = &works[index];
                progress.step(name, work.size);
                let reports = match self.session.perform(&mut self.rank, work) {
                    Ok(reports) => reports,
                    Err(failure) => return (all, Err(failure)),
                };
                let means = means(&reports);
                all[index].rounds.extend(figures(&reports, &means));
                all[index].samples.extend(means);
            }
        }
        (all, Ok(()))
    }

    /// There are more ranks than cores.
    pub(crate) const fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Does one round of operations that are timed as a whole. Returns nanoseconds of a message one way, of a message of a
    /// window, or of an operation of all ranks: of that, the mean over ranks.
    pub(crate) fn mean(&mut self, work: &Work) -> Result<f64, Failure> {
        let reports = self.session.perform(&mut self.rank, work)?;
        let timed = match work.task.collective() {
            Some(_) => &reports[..],
            None => &reports[..1],
        };
        let walls: u64 = timed.iter().map(|report| report.wall).sum();
        Ok(walls as f64 / (timed.len() * work.count * messages(work)) as f64)
    }

    /// How busy the machine was.
    pub(crate) fn contention(&self) -> Contention {
        match self.crowded {
            // Its own ranks share the cores, which was said.
            true => Contention::new(),
            false => self.session.contention(),
        }
    }

    /// The algorithm that a collective is done with.
    pub(crate) fn algorithm(&self, work: &Work) -> Option<String> {
        self.rank.algorithm(work).map(|algorithm| algorithm.to_string())
    }

    /// See [`Rank::crossed`].
    pub(crate) fn crossed(&self) -> u64 {
        self.rank.crossed()
    }

    /// The common part of all rows.
    pub(crate) fn row(&self, series: &Series) -> Row {
        Row {
            transport: self.transport.clone(),
            level: Some("mpi"),
            np: Some(self.np),
            size: Some(series.work.size),
            p50_us: series.micros(|round| round.p50),
            p99_us: series.p99(),
            ..Row::default()
        }
    }
}

/// Messages of an operation, one after the other.
const fn messages(work: &Work) -> usize {
    match work.task {
        Task::PingPong => 2,
        _ => work.window,
    }
}

fn check(options: &Turns) -> Result<(), Failure> {
    check_backend(&options.backend)?;
    if options.backend == "dpdk" {
        return Err(Failure::usage(
            "--backend dpdk: latency, bandwidth and rate have it; ranks of a job do not yet",
        ));
    }
    Ok(())
}

/// How many ranks there are to be.
pub(crate) fn number(options: &World, ranks: Ranks) -> Result<u32, Failure> {
    if options.level != Level::Mpi {
        return Err(Failure::usage("--level transport: only MPI has this operation"));
    }
    match (options.np, ranks) {
        (Some(np), Ranks::Exactly(fixed)) if np != fixed => Err(Failure::usage(format!(
            "--np {np}: this benchmark has exactly {fixed} processes"
        ))),
        (Some(np), _) | (None, Ranks::Default(np) | Ranks::Exactly(np)) => Ok(np),
    }
}

/// The mean over ranks of each iteration's time.
fn means(reports: &[Report]) -> Vec<u64> {
    let timed: Vec<&Report> = reports.iter().filter(|report| !report.samples.is_empty()).collect();
    let count = timed.iter().map(|report| report.samples.len()).min().unwrap_or(0);
    (0..count)
        .map(|index| timed.iter().map(|report| report.samples[index]).sum::<u64>() / timed.len() as u64)
        .collect()
}

fn figures(reports: &[Report], means: &[u64]) -> Option<Round> {
    let mean = |samples: &[u64]| samples.iter().sum::<u64>() as f64 / samples.len() as f64;
    let timed = reports.iter().filter(|report| !report.samples.is_empty());
    Some(Round {
        avg: mean(means),
        max: timed.map(|report| mean(&report.samples)).reduce(f64::max)?,
        p50: percentile(means, 50.0)? as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_reduced_over_ranks_and_iterations() {
        let of = |samples: &[u64]| Report {
            samples: samples.to_vec(),
            ..Report::default()
        };
        // The last one took no part.
        let reports = [of(&[10, 20, 60]), of(&[30, 40, 80]), of(&[])];
        let means = means(&reports);
        assert_eq!(means, [20, 30, 70]);
        let round = figures(&reports, &means).unwrap();
        assert_eq!((round.avg, round.max, round.p50), (40.0, 50.0, 30.0));
        assert_eq!(figures(&[of(&[])], &[]), None);
    }
}
