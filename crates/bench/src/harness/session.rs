//! The driver's side: starts or finds the workers, opens every transport once, runs rounds.

use std::{
    env,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command as Process, Stdio},
    time::Duration,
};

use crate::{
    failure::{Failure, While},
    harness::{
        control::{Answer, Channel, Command, Hello},
        worker,
    },
    machine::{
        busy::{self, Contention},
        clock, interrupt, pin, wire,
    },
    ranks::{
        rank::{Lonely, Rank},
        work::{Place, Work},
    },
    transports::{
        link::{self, Hub},
        open::open_hub,
        settings::{Job, Kind, Report, Settings},
        timeout::{LIMIT, TIMEOUT, Watch},
    },
};

/// A worker that says nothing for so long after the hub has done its part is given up; longer than any transport's own
/// timeout.
const SILENCE: Duration = LIMIT.saturating_add(Duration::from_secs(15));
/// The same after the hub has failed: the round is over anyway.
const LAST_WORDS: Duration = TIMEOUT.saturating_add(Duration::from_secs(1));

/// How the workers come to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Processes that the driver starts on this machine.
    Processes,
    /// Threads of the driver: for backends that live inside one process.
    Threads,
    /// Processes that the driver starts in this network namespace, at the other end of a wire.
    Wired(String),
    /// One process that listens on another host.
    Host(Vec<SocketAddr>),
}

impl Ends {
    /// Name for tables.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Processes | Self::Wired(_) => "processes",
            Self::Threads => "threads",
            Self::Host(_) => "hosts",
        }
    }
}

/// A worker's process, killed and waited for when it is dropped.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It has been told to go, or something has failed: either way it must not stay.
        let timeout = clock::now() + 500_000_000;
        while clock::now() < timeout {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            clock::pause(Duration::from_millis(2));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A worker as the driver sees it.
pub(super) struct Worker {
    // Field order is drop order: the channel closes first, which sends the process away.
    channel: Channel,
    hello: Hello,
    cpu: Option<usize>,
    process: Option<Guard>,
}

impl Worker {
    /// Sends a command.
    pub(super) fn ask(&mut self, command: &Command) -> Result<(), Failure> {
        let result = self.channel.send(command);
        result.map_err(|error| self.died(&error))
    }

    /// Waits for the answer to one.
    pub(super) fn answer(&mut self) -> Result<Answer, Failure> {
        match self.channel.receive::<Answer>() {
            Ok(Answer::Failed { message }) => Err(Failure::run(format!("worker {}: {message}", self.hello.process))),
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.died(&error)),
        }
    }

    fn died(&mut self, error: &io::Error) -> Failure {
        let process = self.hello.process;
        clock::pause(Duration::from_millis(50));
        match self
            .process
            .as_mut()
            .and_then(|guard| guard.0.try_wait().ok().flatten())
        {
            Some(status) => Failure::run(format!("worker process {process} has died ({status})")),
            None => Failure::run(format!("lost the worker (process {process}): {error}")),
        }
    }
}

/// One round of one transport.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// The results of each spoke.
    pub reports: Vec<Report>,
    /// CPU time of the hub, warm-up included.
    pub hub_cpu: u64,
    /// Wall time of the hub, warm-up included.
    pub hub_wall: u64,
}

impl Outcome {
    /// Something was lost; the figures mean nothing.
    pub(crate) fn lost(&self) -> bool {
        self.reports.iter().any(|report| report.lost)
    }
}

/// Workers with every transport open.
pub(crate) struct Session {
    workers: Vec<Worker>,
    hubs: Vec<(Kind, Box<dyn Hub>)>,
    local: IpAddr,
    threads: bool,
    cpu: Option<usize>,
    contention: Contention,
}

impl Session {
    /// Brings up `count` workers; `pinned`: each on a CPU of its own, as far as there are enough.
    pub(crate) fn start(ends: &Ends, count: usize, pinned: bool) -> Result<Self, Failure> {
        let places = if pinned { pin::places() } else { Vec::new() };
        let mut workers = match ends {
            Ends::Host(addresses) => vec![connect(addresses)?],
            _ => start_local(count, ends)?,
        };
        let cpu = places
            .first()
            .filter(|_| places.len() > 1)
            .and_then(|&cpu| pin::pin(cpu));
        let local = workers[0]
            .channel
            .stream()
            .local_addr()
            .or_fail("control connection")?
            .ip();
        for (index, worker) in workers.iter_mut().enumerate() {
            // Another host chooses itself (`pin::answering`); here the driver sits on the first place, and the workers share the others.
            let others = places.len().max(2) - 1;
            let elsewhere = matches!(ends, Ends::Host(_)) || places.len() < 2;
            let cpu = (!elsewhere).then(|| places[1 + index % others]);
            worker.channel.limit(Some(SILENCE)).or_fail("control connection")?;
            if !pinned {
                continue;
            }
            worker.ask(&Command::Pin { cpu })?;
            if let Answer::Pinned { cpu } = worker.answer()? {
                worker.cpu = cpu;
            }
        }
        Ok(Self {
            workers,
            hubs: Vec::new(),
            local,
            threads: *ends == Ends::Threads,
            cpu,
            contention: Contention::default(),
        })
    }

    /// How busy the machine was in all rounds so far.
    pub(crate) const fn contention(&self) -> Contention {
        self.contention
    }

    /// Our address towards the workers.
    pub(crate) const fn local(&self) -> IpAddr {
        self.local
    }

    /// CPUs of the driver and the workers.
    pub(crate) fn pinning(&self) -> Vec<Option<usize>> {
        std::iter::once(self.cpu)
            .chain(self.workers.iter().map(|worker| worker.cpu))
            .collect()
    }

    /// Processes of the driver and the workers.
    pub(crate) fn processes(&self) -> Vec<u32> {
        std::iter::once(std::process::id())
            .chain(self.workers.iter().map(|worker| worker.hello.process))
            .collect()
    }

    /// The identity of the other end.
    pub(crate) fn other(&self) -> &Hello {
        &self.workers[0].hello
    }

    /// Opens a transport between the driver and the first `settings.spokes` workers; gives its number.
    pub(crate) fn open(&mut self, kind: &Kind, settings: &Settings) -> Result<usize, Failure> {
        let what = format!("opening {}", kind.name());
        let link = self.hubs.len();
        let settings = &Settings {
            link: link as u32,
            ..settings.clone()
        };
        let mut hub = open_hub(kind, settings, self.local).or_fail(&what)?;
        let offer = hub.offer().or_fail(&what)?;
        for (spoke, worker) in (0..).zip(&mut self.workers) {
            worker.ask(&Command::Open {
                kind: kind.clone(),
                settings: Settings {
                    spoke,
                    ..settings.clone()
                },
                hub: offer.clone(),
            })?;
            let Answer::Opened { offer } = worker.answer()? else {
                return Err(confused());
            };
            hub.join(&offer).or_fail(&what)?;
            worker.ask(&Command::Ready { link })?;
            let joined = hub.joined();
            worker.answer()?;
            joined.or_fail(&what)?;
        }
        self.hubs.push((kind.clone(), hub));
        Ok(link)
    }

    /// Does one round over transport `link`.
    pub(crate) fn run(&mut self, link: usize, job: &Job) -> Result<Outcome, Failure> {
        not_interrupted()?;
        let sizes = job.sizes();
        let workers = &mut self.workers[..job.spokes];
        let connections = workers.iter().map(|worker| worker.channel.stream());
        let watch = Watch::new(connections, true).or_fail("control connection")?;
        for worker in workers.iter_mut() {
            worker.ask(&Command::Run { link, job: *job })?;
        }
        let (kind, hub) = &mut self.hubs[link];
        let waited = busy::waited();
        let (start, cpu) = (clock::now(), clock::cpu_time(self.threads));
        let served = link::serve(hub.as_mut(), job, &sizes);
        let hub_cpu = clock::cpu_time(self.threads) - cpu;
        let mut outcome = Outcome {
            reports: Vec::new(),
            hub_cpu,
            hub_wall: clock::now() - start,
        };
        let waited = busy::waited().saturating_sub(waited);
        let served = served.and_then(|()| hub.settle());
        drop(watch);
        if served.is_err() {
            not_interrupted()?;
        }
        if matches!(&served, Err(error) if error.kind() != ErrorKind::TimedOut) {
            for worker in workers.iter() {
                worker.channel.limit(Some(LAST_WORDS)).or_fail("control connection")?;
            }
        }
        // A worker's own story first: that its process has died says more than that nothing came.
        for worker in workers.iter_mut() {
            let answer = worker.answer().map_err(|failure| match &served {
                Err(error) if error.kind() != ErrorKind::TimedOut => {
                    Failure::run(format!("{}: {error}; {failure}", kind.name()))
                }
                _ => failure,
            });
            let Answer::Done { report } = answer? else {
                return Err(confused());
            };
            outcome.reports.push(report);
        }
        let of_workers = outcome.reports.iter().map(|report| report.waited);
        self.contention.add(of_workers.fold(waited, u64::max), outcome.hub_wall);
        match served {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::TimedOut => outcome.reports[0].lost = true,
            Err(error) => return Err(Failure::run(format!("{}: {error}", kind.name()))),
        }
        if outcome.lost() {
            for worker in workers {
                worker.ask(&Command::Drain { link })?;
                worker.answer()?;
            }
            hub.drain().or_fail(&kind.name())?;
        }
        Ok(outcome)
    }

    /// Makes the driver and all workers ranks of a job; the driver is rank 0.
    pub(crate) fn job(&mut self, place: &Place) -> Result<Rank, Failure> {
        let what = "opening a job";
        let mut own = Lonely::open(place, self.local, 0).or_fail(what)?;
        let mut offers = vec![own.offer()];
        for (rank, worker) in (1..).zip(&mut self.workers) {
            let place = place.clone();
            worker.ask(&Command::Rank { rank, place })?;
            let Answer::Opened { offer } = worker.answer()? else {
                return Err(confused());
            };
            offers.push(offer);
        }
        for worker in &mut self.workers {
            let offers = offers.clone();
            worker.ask(&Command::Connect { offers })?;
        }
        // They wait for each other.
        let rank = own.connect(&offers).or_fail(what);
        for worker in &mut self.workers {
            worker.answer()?;
        }
        rank
    }

    /// Does one round of a job; gives what each rank has seen.
    pub(crate) fn perform(&mut self, rank: &mut Rank, work: &Work) -> Result<Vec<Report>, Failure> {
        not_interrupted()?;
        for worker in &mut self.workers {
            worker.ask(&Command::Perform { work: work.clone() })?;
        }
        let (start, waited) = (clock::now(), busy::waited());
        let own = rank.perform(work);
        let (wall, waited) = (clock::now() - start, busy::waited().saturating_sub(waited));
        let mut reports = Vec::new();
        // A worker's own story first: that its process has died says more than that it is lost.
        for worker in &mut self.workers {
            let Answer::Done { report } = worker.answer()? else {
                return Err(confused());
            };
            reports.push(report);
        }
        let of_workers = reports.iter().map(|report| report.waited);
        self.contention.add(of_workers.fold(waited, u64::max), wall);
        reports.insert(0, own.or_fail(work.task.name())?);
        Ok(reports)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.channel.send(&Command::Bye);
        }
    }
}

/// Ctrl-C ends a measurement between two rounds, and where nothing comes.
pub(crate) fn not_interrupted() -> Result<(), Failure> {
    match interrupt::pressed() {
        false => Ok(()),
        true => Err(Failure::Interrupted),
    }
}

/// The failure for an answer to another question.
pub(super) fn confused() -> Failure {
    Failure::run("the worker gave an answer that does not fit the question")
}

/// Connects to a worker that listens on another host.
fn connect(addresses: &[SocketAddr]) -> Result<Worker, Failure> {
    let mut last = String::from("no address");
    for address in addresses {
        match TcpStream::connect_timeout(address, Duration::from_secs(5)) {
            Ok(stream) => {
                let mut channel = Channel::new(stream).or_fail("control connection")?;
                let hello = channel.greet("")?;
                return Ok(Worker {
                    channel,
                    hello,
                    cpu: None,
                    process: None,
                });
            }
            Err(error) => last = format!("{address}: {error}"),
        }
    }
    Err(Failure::usage(format!(
        "cannot connect to {last} (is `hikyaku bench … --listen` running there?)"
    )))
}

/// Starts workers on this machine and waits until all have reported.
pub(super) fn start_local(count: usize, ends: &Ends) -> Result<Vec<Worker>, Failure> {
    let listener = match ends {
        Ends::Wired(_) => TcpListener::bind((wire::address(0), 0)),
        _ => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)),
    };
    let listener = listener.or_fail("control socket")?;
    listener.set_nonblocking(true).or_fail("control socket")?;
    let address = listener.local_addr().or_fail("control socket")?;
    (0..count)
        .map(|index| start_one(&listener, address, index, ends))
        .collect()
}

fn start_one(listener: &TcpListener, address: SocketAddr, index: usize, ends: &Ends) -> Result<Worker, Failure> {
    let key = format!("{}-{index}-{:x}", std::process::id(), clock::now());
    let mut process = None;
    if *ends == Ends::Threads {
        let key = key.clone();
        let body = move || TcpStream::connect(address).map(|stream| worker::run(stream, &key));
        std::thread::Builder::new()
            .name("worker".into())
            .spawn(body)
            .or_fail("starting a worker")?;
    } else {
        let program = env::current_exe().or_fail("finding this program")?;
        let mut command = match ends {
            Ends::Wired(namespace) => {
                let mut command = Process::new("ip");
                command.args(["netns", "exec", namespace]).arg(program);
                command
            }
            _ => Process::new(program),
        };
        command.arg("bench-worker").arg(address.to_string()).arg(&key);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        process = Some(Guard(command.spawn().or_fail("starting a worker")?));
    }
    let limit = clock::now() + 10_000_000_000;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).or_fail("control socket")?;
                let mut channel = Channel::new(stream).or_fail("control socket")?;
                // A stranger on this port is sent away; the worker is still to come.
                if let Ok(hello) = channel.greet("")
                    && hello.key == key
                {
                    return Ok(Worker {
                        channel,
                        hello,
                        cpu: None,
                        process,
                    });
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => clock::pause(Duration::from_millis(1)),
            Err(error) => return Err(Failure::run(format!("control socket: {error}"))),
        }
        if let Some(status) = process.as_mut().and_then(|guard| guard.0.try_wait().ok().flatten()) {
            return Err(Failure::run(format!("a worker died before it reported ({status})")));
        }
        if clock::now() > limit {
            return Err(Failure::run("a worker has not reported within 10 s"));
        }
    }
}
