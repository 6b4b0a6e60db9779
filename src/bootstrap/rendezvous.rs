//! Joining over TCP: the server of `hikyaku run`, or, where no launcher has one, that of rank 0.

use std::{
    net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    Exchange, JobKey, Launcher,
    channel::connect,
    deadline::Deadline,
    environment::{Environment, names},
    error::{BootstrapError, Cause},
    identity::Identity,
    news::{CONTINUE, News},
    pmi::{self, Pmi},
    server::{ListenerEvent, ListenerLimit, Outcome, Store, WireUpListener},
};
use crate::helper;

type Joined = (Box<dyn Exchange>, Identity);

/// First of the ports at which rank 0 of a Slurm job without PMI listens, and their number: below the ports that Linux
/// allocates itself (32768 and up).
const SLURM_PORTS: (u16, u16) = (15_000, 15_000);

/// Time between two attempts to connect; it doubles each time the server closes the connection.
const SHORT: Duration = Duration::from_millis(20);
/// Most connections that may be closed without an answer: 2.5 s in all.
const RETRIES: u32 = 7;

/// Joins the job of `hikyaku run`.
pub(super) fn join_run(environment: &Environment, timeout: Duration) -> Result<Joined, BootstrapError> {
    let launcher = Launcher::Hikyaku;
    let fail = |cause| BootstrapError::new(launcher, "the environment", cause);
    let number = |name| environment.require::<u32>(name, "a number").map_err(fail);
    let mut identity = Identity::new(launcher, number(names::RANK)?, number(names::SIZE)?)?;
    identity.local = Some((number(names::LOCAL_RANK)?, number(names::LOCAL_SIZE)?));
    identity.app = number(names::APP)?;
    identity.job_key = Some(
        environment
            .require::<JobKey>(names::JOB_KEY, "32 hexadecimal digits")
            .map_err(fail)?,
    );
    let address: String = environment.require(names::RUN_ADDRESS, "host:port").map_err(fail)?;
    let ticket: String = environment
        .require(names::RUN_TICKET, "what hikyaku run has set")
        .map_err(fail)?;
    let connect = || {
        connect(&address, timeout)
            .map_err(|cause| BootstrapError::new(launcher, format!("connecting to the launcher at {address}"), cause))
    };
    // The launcher numbers processes through all worlds of a job.
    let first: u32 = environment.parse(names::FIRST, "a number").map_err(fail)?.unwrap_or(0);
    let process = first.saturating_add(identity.rank);
    let pmi = enter(launcher, &connect, &ticket, process, timeout)?.with_rank(identity.rank);
    let goes_on = environment.get(names::ON_FAILURE) == Some(CONTINUE);
    let news = goes_on.then_some(News {
        address,
        ticket,
        rank: process,
        timeout,
    });
    Ok((Box::new(pmi.with_news(news)), identity))
}

/// A meeting point, and this process's place in the job.
struct Meeting {
    /// Address of rank 0: `host:port`.
    address: String,
    ticket: String,
    identity: Identity,
}

/// Joins without a launcher: rank 0 listens, the others connect.
pub(super) fn join(launcher: Launcher, environment: &Environment, timeout: Duration) -> Result<Joined, BootstrapError> {
    let meeting = match launcher {
        Launcher::Slurm => slurm(environment),
        Launcher::Torch => torch(environment),
        _ => told(environment),
    };
    let meeting = meeting.map_err(|cause| BootstrapError::new(launcher, "the environment", cause))?;
    let identity = meeting.identity;
    let identity = Identity {
        local: identity.local,
        ..Identity::new(launcher, identity.rank, identity.size)?
    };
    if identity.rank == 0 {
        Ok((Box::new(Host::start(launcher, &meeting, timeout)?), identity))
    } else {
        let connect = || {
            connect_patiently(&meeting.address, timeout).map_err(|cause| {
                BootstrapError::new(launcher, format!("connecting to rank 0 at {}", meeting.address), cause)
            })
        };
        let pmi = enter(launcher, &connect, &meeting.ticket, identity.rank, timeout)?;
        Ok((Box::new(pmi), identity))
    }
}

/// The meeting point that the user has set. In a pod of an indexed job of Kubernetes, its index is the rank.
fn told(environment: &Environment) -> Result<Meeting, Cause> {
    let number = |name| environment.require::<u32>(name, "a number");
    Ok(Meeting {
        address: environment.require(names::RENDEZVOUS, "host:port of rank 0")?,
        // Without a key, any process that reaches the port can take part until all ranks are there.
        ticket: environment.get(names::JOB_KEY).unwrap_or("open").to_owned(),
        identity: Identity {
            rank: match environment.parse::<u32>("JOB_COMPLETION_INDEX", "a number")? {
                Some(index) if environment.get(names::RANK).is_none() => index,
                _ => number(names::RANK)?,
            },
            size: number(names::SIZE)?,
            local: pmi::local(environment),
            app: 0,
            job_key: None,
        },
    })
}

/// The meeting point of PyTorch's processes, but for the port: at theirs they have a server of their own.
fn torch(environment: &Environment) -> Result<Meeting, Cause> {
    let number = |name| environment.require::<u32>(name, "a number");
    let host: String = environment.require("MASTER_ADDR", "the host of rank 0")?;
    let port = match environment.parse::<u16>(names::PORT_BASE, "a port, 0 to 65535")? {
        Some(port) if port != 0 => port,
        _ => {
            let theirs: u16 = environment.require("MASTER_PORT", "a port, 1 to 65534")?;
            theirs.checked_add(1).ok_or_else(|| Cause::Variable {
                name: "MASTER_PORT".to_owned(),
                value: environment.get("MASTER_PORT").map(str::to_owned),
                expected: "a port, 1 to 65534",
            })?
        }
    };
    let ticket = environment
        .get(names::JOB_KEY)
        .or_else(|| environment.get("TORCHELASTIC_RUN_ID"));
    let local = [
        environment.parse("LOCAL_RANK", "a number")?,
        environment.parse("LOCAL_WORLD_SIZE", "a number")?,
    ];
    Ok(Meeting {
        address: format!("{host}:{port}"),
        ticket: ticket.unwrap_or("open").to_owned(),
        identity: Identity {
            rank: number("RANK")?,
            size: number("WORLD_SIZE")?,
            local: local[0].zip(local[1]),
            app: 0,
            job_key: None,
        },
    })
}

/// A meeting point derived from the variables that Slurm sets for each task.
fn slurm(environment: &Environment) -> Result<Meeting, Cause> {
    let number = |name| environment.require::<u32>(name, "a number");
    let nodes: String = environment.require("SLURM_STEP_NODELIST", "a list of nodes")?;
    let (job, step) = (number("SLURM_JOB_ID")?, number("SLURM_STEP_ID")?);
    let port = match environment.parse::<u16>(names::PORT_BASE, "a port, 0 to 65535")? {
        Some(port) if port != 0 => port,
        _ => {
            let (first, count) = SLURM_PORTS;
            let number = job.wrapping_mul(31).wrapping_add(step) % u32::from(count);
            first + u16::try_from(number).unwrap_or(0)
        }
    };
    Ok(Meeting {
        address: format!("{}:{port}", first_node(&nodes)),
        ticket: format!("slurm.{job}.{step}"),
        identity: Identity {
            rank: number("SLURM_PROCID")?,
            size: number("SLURM_STEP_NUM_TASKS")?,
            local: pmi::local(environment),
            app: 0,
            job_key: None,
        },
    })
}

/// The first name of a list of nodes as Slurm writes it: `a[07-12,20]-ib,b` begins with `a07-ib`.
fn first_node(list: &str) -> String {
    let mut name = String::new();
    let mut characters = list.chars();
    while let Some(character) = characters.next() {
        match character {
            ',' => break,
            '[' => {
                let inside: String = characters.by_ref().take_while(|c| *c != ']').collect();
                name.extend(inside.chars().take_while(|c| *c != '-' && *c != ','));
            }
            _ => name.push(character),
        }
    }
    name
}

fn enter(
    launcher: Launcher,
    connect: &dyn Fn() -> Result<TcpStream, BootstrapError>,
    ticket: &str,
    rank: u32,
    timeout: Duration,
) -> Result<Pmi, BootstrapError> {
    patiently(launcher, &|| {
        Pmi::join_hikyaku(launcher, connect()?, ticket, rank, timeout)
    })
}

/// Connects and says hello. If the connection ends before there is an answer, it may have had to make room for another
/// one, so it is tried again.
pub(super) fn patiently<T>(
    launcher: Launcher,
    hello: &dyn Fn() -> Result<T, BootstrapError>,
) -> Result<T, BootstrapError> {
    let mut wait = SHORT;
    for _ in 0..RETRIES {
        match hello() {
            Err(error) if matches!(error.cause(), Cause::Closed) => pause(wait),
            other => return other,
        }
        wait *= 2;
    }
    let cause = Cause::Refused(format!(
        "nothing: it has closed {RETRIES} connections without a word. Either {} or {} is another job's, or too many \
         connections wait there (the launcher says so)",
        names::RUN_TICKET,
        names::JOB_KEY
    ));
    Err(BootstrapError::new(
        launcher,
        "saying hello to the wire-up server",
        cause,
    ))
}

/// Connects as soon as rank 0 listens.
fn connect_patiently(address: &str, timeout: Duration) -> Result<TcpStream, Cause> {
    let deadline = Deadline::after(timeout);
    loop {
        match connect(address, deadline.remaining()?) {
            Ok(stream) => return Ok(stream),
            Err(cause) if deadline.is_over() => return Err(cause),
            Err(_) => pause(SHORT),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "nothing tells when a process on another host begins to listen, or has room"
)]
fn pause(time: Duration) {
    thread::sleep(time);
}

/// Rank 0: runs the store in a thread, and is one of its clients.
struct Host {
    client: Pmi,
    server: Option<JoinHandle<()>>,
}

impl Host {
    fn start(launcher: Launcher, meeting: &Meeting, timeout: Duration) -> Result<Self, BootstrapError> {
        let (address, size) = (&meeting.address, meeting.identity.size);
        let fail = |cause: Cause| BootstrapError::new(launcher, format!("listening as rank 0 at {address}"), cause);
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let port = port.ok_or_else(|| fail(Cause::Argument("that is not host:port".into())))?;
        // On all addresses: other ranks may resolve the name to another of them.
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
            .map_err(|error| fail(error.into()))?;
        let here = if listener.local_addr().is_ok_and(|address| address.is_ipv6()) {
            SocketAddr::from((Ipv6Addr::LOCALHOST, port))
        } else {
            SocketAddr::from(([127, 0, 0, 1], port))
        };
        let mut wire_up =
            WireUpListener::new(listener, &meeting.ticket, 0..size).map_err(|error| fail(error.into()))?;
        // Before others are admitted, which may use up the descriptors of this process.
        let stream = TcpStream::connect(here).map_err(|error| fail(error.into()))?;
        stream.set_nodelay(true).map_err(|error| fail(error.into()))?;
        let server = helper::spawn("hikyaku rendezvous", move || serve(&mut wire_up, size, timeout))
            .map_err(|error| fail(error.into()))?;
        let client = Pmi::join_hikyaku(launcher, stream, &meeting.ticket, 0, timeout)?;
        Ok(Self {
            client,
            server: Some(server),
        })
    }
}

impl Exchange for Host {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.client.put(key, value)
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        self.client.fence()
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.client.get(rank, key)
    }

    /// Waits until the others have said goodbye, too, or for the time-out.
    fn finalize(&mut self) -> Result<(), BootstrapError> {
        self.client.finalize()?;
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
        Ok(())
    }

    fn abort(&mut self, code: u8, message: &str) {
        self.client.abort(code, message);
    }
}

/// Answers until no rank is left, or, once rank 0 has said goodbye, for `timeout` at most.
fn serve(wire_up: &mut WireUpListener, size: u32, timeout: Duration) {
    let mut store = Store::new(size);
    let mut farewell = None;
    while !store.is_over() && !farewell.as_ref().is_some_and(Deadline::is_over) {
        wait(wire_up);
        for event in wire_up.pump() {
            let outcome = match event {
                ListenerEvent::Joined(rank) => {
                    store.joined(rank);
                    Outcome::default()
                }
                ListenerEvent::Line(rank, line) => store.handle(rank, &line),
                ListenerEvent::Left(rank) => store.left(rank),
                ListenerEvent::Limit(limit @ ListenerLimit::Descriptors { .. }) => {
                    store.give_up(limit.to_string().replace(char::is_whitespace, "_"))
                }
                ListenerEvent::Limit(ListenerLimit::Strangers { .. }) | ListenerEvent::Dropped(_) => Outcome::default(),
            };
            for (rank, line) in outcome.replies {
                wire_up.send(rank, &line);
            }
        }
        if farewell.is_none() && store.has_finalized(0) {
            farewell = Some(Deadline::after(timeout));
        }
    }
}

/// Waits until a connection is ready, or a time-out of the listener is due.
fn wait(wire_up: &WireUpListener) {
    let limit = Duration::from_millis(if wire_up.has_strangers() { 100 } else { 1000 });
    let limit = Timespec::try_from(limit).unwrap_or_default();
    let _ = poll(&mut [PollFd::new(wire_up, PollFlags::IN)], Some(&limit));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::{World, discover};

    #[test]
    fn first_nodes() {
        for (list, first) in [
            ("vm", "vm"),
            ("n1,n2", "n1"),
            ("node[07-12,20]", "node07"),
            ("a[3,5]-ib,b", "a3-ib"),
            ("r[1-2]c[3-4]", "r1c3"),
        ] {
            assert_eq!(first_node(list), first);
        }
    }

    fn world(rank: u32, size: u32, port: u16, more: &[(&str, &str)]) -> Result<World, BootstrapError> {
        let mut variables = vec![
            (names::RENDEZVOUS.to_owned(), format!("127.0.0.1:{port}")),
            (names::RANK.to_owned(), rank.to_string()),
            (names::SIZE.to_owned(), size.to_string()),
        ];
        variables.extend(
            more.iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        discover(&variables.into_iter().collect())
    }

    /// Joins as three processes with these variables; they must see each other.
    fn three_meet(variables: impl Fn(u32) -> Vec<(&'static str, String)>) {
        let join = |rank| {
            let owned = |(name, value): (&str, String)| (name.to_owned(), value);
            let environment: Environment = variables(rank).into_iter().map(owned).collect();
            thread::spawn(move || {
                let mut world = discover(&environment).unwrap();
                assert_eq!((world.rank(), world.size()), (rank, 3));
                world.put("number", &[rank as u8]).unwrap();
                world.fence().unwrap();
                assert_eq!(world.get_all("number").unwrap(), [[0], [1], [2]]);
                world.finalize().unwrap();
            })
        };
        let ranks: Vec<_> = (0..3).rev().map(join).collect();
        ranks.into_iter().for_each(|rank| rank.join().unwrap());
    }

    #[test]
    fn three_meet_as_processes_of_torchrun() {
        let port = free_port();
        three_meet(|rank| {
            vec![
                ("RANK", rank.to_string()),
                ("WORLD_SIZE", "3".to_owned()),
                ("LOCAL_RANK", rank.to_string()),
                ("LOCAL_WORLD_SIZE", "3".to_owned()),
                ("MASTER_ADDR", "localhost".to_owned()),
                ("MASTER_PORT", (port - 1).to_string()),
            ]
        });
    }

    #[test]
    fn three_meet_as_pods_of_an_indexed_job() {
        let port = free_port();
        three_meet(|rank| {
            vec![
                ("JOB_COMPLETION_INDEX", rank.to_string()),
                (names::SIZE, "3".to_owned()),
                (names::RENDEZVOUS, format!("localhost:{port}")),
            ]
        });
    }

    fn free_port() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    }

    #[test]
    fn three_meet_without_a_launcher() {
        let port = free_port();
        let ranks: Vec<_> = (0..3)
            .map(|rank| {
                thread::spawn(move || {
                    let mut world = world(rank, 3, port, &[]).unwrap();
                    assert_eq!((world.local_rank(), world.local_size()), (rank, 3));
                    world.put("number", &[rank as u8]).unwrap();
                    world.fence().unwrap();
                    assert_eq!(world.get_all("number").unwrap(), [[0], [1], [2]]);
                    let key = *world.job_key();
                    world.finalize().unwrap();
                    key
                })
            })
            .collect();
        let keys: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
        assert!(keys.iter().all(|key| *key == keys[0]));
    }

    #[test]
    fn nobody_comes() {
        let port = free_port();
        let error = world(1, 2, port, &[(names::TIMEOUT, "0.2")]).unwrap_err().to_string();
        assert!(error.contains(&format!("rank 0 at 127.0.0.1:{port}")), "{error}");
        let error = world(0, 2, port, &[(names::TIMEOUT, "0.2")]).unwrap_err();
        assert!(matches!(error.cause(), Cause::TimedOut(_)), "{error}");
    }
}
