//! The job of this process.

use std::{
    fmt, fs,
    net::{IpAddr, SocketAddr},
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

use nix::unistd::{SysconfVar, sysconf};
use rustix::system::uname;

use super::{
    Exchange, JobKey, Launcher, MAX_KEY, MAX_VALUE,
    address::{self, Choice, Wish},
    environment::{Environment, names},
    error::{BootstrapError, Cause},
    exchange::{Home, Names, Origin, Program},
    failures::Failures,
    identity::Identity,
    interfaces::interfaces,
};
#[cfg(feature = "tracing")]
use crate::events::event;

/// Keys of this room begin with a dot, which keys of callers must not.
const HOST: &str = ".host";
const JOB_KEY: &str = ".key";

/// The job of this process: numbers, and a store that its processes share.
///
/// A process that joined must [`finalize`](Self::finalize) before it exits; otherwise the launcher takes it for dead
/// and ends the job. Dropping a `World` does not finalize.
pub struct World {
    launcher: Launcher,
    exchange: Mutex<Box<dyn Exchange>>,
    /// The number of the first process of this world in the job.
    first: u32,
    spawned_by: Option<String>,
    /// The processes that have spawned this world are on this host, too, as all of the job are then.
    spawned_here: bool,
    rank: u32,
    size: u32,
    local_rank: u32,
    local_size: u32,
    app: u32,
    job_key: JobKey,
    known_as: Option<IpAddr>,
    interface: Option<String>,
    port_base: u16,
}

impl World {
    pub(super) fn new(
        launcher: Launcher,
        mut exchange: Box<dyn Exchange>,
        identity: Identity,
        environment: &Environment,
    ) -> Result<Self, BootstrapError> {
        let fail = |cause| BootstrapError::new(launcher, "the environment", cause);
        let port_base = environment.parse(names::PORT_BASE, "a port, 0 to 65535");
        let known_as = environment.parse(names::HOST_ADDRESS, "an IP address");
        let given = environment.parse(names::JOB_KEY, "32 hexadecimal digits");
        let job_key = identity.job_key.or(given.map_err(fail)?);
        let first: Option<u32> = environment.parse(names::FIRST, "a number").map_err(fail)?;
        let (local, job_key) = agree(launcher, exchange.as_mut(), &identity, job_key)?;
        let known_as: Option<IpAddr> = known_as.map_err(fail)?;
        let told = spawned_by(launcher, environment).map(|by| Origin {
            first: first.unwrap_or(0),
            by,
            on_one_host: known_as.is_none(),
        });
        let origin = exchange.origin().or(told);
        Ok(Self {
            launcher,
            exchange: Mutex::new(exchange),
            first: origin.as_ref().map_or(0, |origin| origin.first),
            spawned_here: origin.as_ref().is_none_or(|origin| origin.on_one_host),
            spawned_by: origin.map(|origin| origin.by),
            rank: identity.rank,
            size: identity.size,
            local_rank: local.0,
            local_size: local.1,
            app: identity.app,
            job_key,
            known_as,
            interface: environment.get(names::IFACE).map(str::to_owned),
            port_base: port_base.map_err(fail)?.unwrap_or(0),
        })
    }

    /// How this process was started.
    #[must_use]
    pub const fn launcher(&self) -> Launcher {
        self.launcher
    }

    /// The number of this world's first process in the job: 0, unless processes of the job have
    /// [spawned](Self::spawn) it.
    #[must_use]
    pub const fn first_process(&self) -> u32 {
        self.first
    }

    /// What the processes that have [spawned](Self::spawn) this world tell it; `None`: it was not spawned.
    #[must_use]
    pub fn spawned_by(&self) -> Option<&str> {
        self.spawned_by.as_deref()
    }

    /// The number of this process, from 0.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of processes.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The number of this process among those on this host, from 0.
    #[must_use]
    pub const fn local_rank(&self) -> u32 {
        self.local_rank
    }

    /// Number of processes of the job on this host.
    #[must_use]
    pub const fn local_size(&self) -> u32 {
        self.local_size
    }

    /// The number of this process's program in the job, from 0 (MPI's `MPI_APPNUM`).
    #[must_use]
    pub const fn app_number(&self) -> u32 {
        self.app
    }

    /// The key that only the processes of this job share.
    #[must_use]
    pub const fn job_key(&self) -> &JobKey {
        &self.job_key
    }

    /// Processes of the job per core of this host. If it is more than 1, a process that waits should yield.
    #[must_use]
    pub fn sharing(&self) -> f64 {
        let processors = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
        f64::from(self.local_size) / processors.unwrap_or(1).max(1) as f64
    }

    /// The address of this host that the process should bind and publish: the first one that `HIKYAKU_IFACE` chooses,
    /// which is a list of names of interfaces, addresses of this host, and networks in CIDR notation that contain one
    /// of its addresses. Without it: loopback if all ranks are on this host, else the address by which the launcher
    /// knows this host, else the source address of the default route.
    ///
    /// # Errors
    /// An item of `HIKYAKU_IFACE` fits no interface; the error lists the interfaces.
    pub fn address(&self) -> Result<IpAddr, BootstrapError> {
        Ok(self.choose()?.chosen[0].address)
    }

    /// [`address`](Self::address), and those of further interfaces by which other hosts can be reached: the others that
    /// `HIKYAKU_IFACE` names, or else all interfaces that are up, unless all ranks are on this host. Not among them are
    /// loopback, bridges between containers or virtual machines, members of bonds and bridges, tunnels, devices that lead
    /// nowhere, and what another one's device carries. If all are of one family, one of the other may come last, for
    /// processes that have no other in common with this one.
    ///
    /// # Errors
    /// As `address`.
    pub(crate) fn choose(&self) -> Result<Choice, BootstrapError> {
        let wish = Wish {
            interface: self.interface.as_deref(),
            // A spawned world also talks to processes on other hosts, if the job has some.
            all_local: self.local_size == self.size && self.spawned_here,
            known_as: self.known_as,
        };
        let choice = address::choose(&wish, &interfaces(), address::default_route)
            .map_err(|error| BootstrapError::new(self.launcher, "choosing an address", error))?;
        #[cfg(feature = "tracing")]
        for chosen in &choice.chosen {
            event!(
                INFO, rank = self.rank, interface = chosen.interface, address = %chosen.address, why = %chosen.why,
                "address chosen"
            );
        }
        #[cfg(feature = "tracing")]
        for (interface, why) in &choice.left_out {
            match self.interface {
                // Who has named it will miss it.
                Some(_) => event!(WARN, rank = self.rank, interface, %why, "an item of HIKYAKU_IFACE is not used"),
                None => event!(DEBUG, rank = self.rank, interface, %why, "interface left out"),
            }
        }
        Ok(choice)
    }

    /// [`address`](Self::address) with the port `HIKYAKU_PORT_BASE` + local rank, or port 0 (any) if that is not set.
    ///
    /// # Errors
    /// As `address`; or the port is above 65,535.
    pub fn bind_address(&self) -> Result<SocketAddr, BootstrapError> {
        Ok(SocketAddr::new(self.address()?, self.port()?))
    }

    /// The port of [`bind_address`](Self::bind_address), at all addresses of this process.
    ///
    /// # Errors
    /// It would be above 65,535.
    pub(crate) fn port(&self) -> Result<u16, BootstrapError> {
        address::port(self.port_base, self.local_rank).ok_or_else(|| {
            let (base, local_rank) = (self.port_base, self.local_rank);
            let cause = Cause::Argument(format!(
                "{}={base} leaves no port for local rank {local_rank}",
                names::PORT_BASE
            ));
            BootstrapError::new(self.launcher, "choosing a port", cause)
        })
    }

    /// Puts a value that the other processes can get after the next [`fence`](Self::fence). Each key can be put once.
    ///
    /// Keys have 1 to [`MAX_KEY`] letters, digits, `-`, `_` or `.`, and do not begin with a dot; values have up to
    /// [`MAX_VALUE`] bytes.
    ///
    /// # Errors
    /// Key or value are out of range, or the launcher refuses them.
    pub fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if key.is_empty() || key.len() > MAX_KEY || key.starts_with('.') || !key.chars().all(allowed) {
            return Err(self.argument(format!("'{}' is no key", key.escape_default())));
        }
        if value.len() > MAX_VALUE {
            let (length, key) = (value.len(), key.escape_default());
            return Err(self.argument(format!(
                "the value of '{key}' has {length} bytes, more than {MAX_VALUE}"
            )));
        }
        self.exchange_mut().put(key, value)
    }

    /// Waits until all processes are here. Values that were put before can be got afterwards.
    ///
    /// # Errors
    /// A process does not come within the time-out, or the launcher ends.
    pub fn fence(&mut self) -> Result<(), BootstrapError> {
        self.exchange_mut().fence()
    }

    /// The value that `rank` has put under `key` before the last fence.
    ///
    /// # Errors
    /// [`Cause::NoSuchKey`] if it has put nothing; [`Cause::Argument`] if there is no such rank.
    pub fn get(&mut self, rank: u32, key: &str) -> Result<Vec<u8>, BootstrapError> {
        if rank >= self.size {
            return Err(self.argument(format!("there is no rank {rank} in a job of {}", self.size)));
        }
        get(self.launcher, self.exchange_mut(), rank, key)
    }

    /// The values of all ranks under `key`, in rank order.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_all(&mut self, key: &str) -> Result<Vec<Vec<u8>>, BootstrapError> {
        let size = self.size;
        let all = self.exchange_mut().get_all(size, key)?;
        let value = |(rank, value): (u32, Option<Vec<u8>>)| value.ok_or_else(|| no_such_key(self.launcher, rank, key));
        (0..).zip(all).map(value).collect()
    }

    /// Whether the job goes on when a rank fails (`hikyaku run --on-failure continue`): fences are complete without it,
    /// and all but the first one have no time-out.
    #[must_use]
    pub fn goes_on_after_failures(&self) -> bool {
        self.lock().news().is_some()
    }

    /// The ranks that fail while this process runs, beginning with those that have failed before; `None` if the job
    /// ends with the first failure. Can be called once.
    ///
    /// # Errors
    /// The launcher cannot be reached.
    pub fn failures(&self) -> Result<Option<Failures>, BootstrapError> {
        let news = self.lock().news().cloned();
        news.as_ref().map(Failures::listen).transpose()
    }

    /// Starts `programs` as a world of their own (MPI 11.8), and waits until its processes have met in a
    /// [`fence`](Self::fence). Gives the number of the first of them in the job; the others follow. They are told `by`
    /// ([`spawned_by`](Self::spawned_by)), a word without blanks.
    ///
    /// # Errors
    /// The launcher cannot do it (`hikyaku run` and those of PMI and PMIx can); it refuses, or a program cannot be started;
    /// the processes do not come within the time-out.
    pub fn spawn(&self, programs: &[Program], by: &str) -> Result<u32, BootstrapError> {
        let doing = "spawning processes";
        let none = programs.is_empty() || programs.iter().any(|program| program.command.is_empty());
        if none || programs.iter().any(|program| program.processes == 0) {
            let cause = Cause::Argument("there is no program, or one with no word or no process".into());
            return Err(BootstrapError::new(self.launcher, doing, cause));
        }
        let mut exchange = self.lock();
        let Some(spawner) = exchange.spawner() else {
            return Err(self.cannot_spawn(doing));
        };
        let home = Home {
            address: self.address()?,
            job_key: self.job_key,
            on_one_host: self.local_size == self.size && self.spawned_here,
        };
        spawner.spawn(programs, by, &home)
    }

    /// The value that a process of any world of the job has put under `key` before the last fence of its world.
    ///
    /// # Errors
    /// There is none, or the launcher cannot spawn processes.
    pub fn get_of(&self, process: u32, key: &str) -> Result<Vec<u8>, BootstrapError> {
        match self.lock().spawner() {
            Some(spawner) => spawner.get_of(process, key),
            None => Err(self.cannot_spawn("asking for a process of another world")),
        }
    }

    /// Lets all processes of the job find `text` under a name, which no other text has (`MPI_Publish_name`). Each has 1 to
    /// [`MAX_VALUE`] bytes.
    ///
    /// # Errors
    /// The name is taken; there are too many; a length is out of range; or the launcher is not `hikyaku run`.
    pub fn publish(&self, name: &str, text: &str) -> Result<(), BootstrapError> {
        if [name, text]
            .iter()
            .any(|text| text.is_empty() || text.len() > MAX_VALUE)
        {
            return Err(self.argument(format!("a name and its text have 1 to {MAX_VALUE} bytes")));
        }
        self.with_names("publishing a name", |names| names.publish(name, text))
    }

    /// The text that a process of the job has [published](Self::publish) under this name (`MPI_Lookup_name`).
    ///
    /// # Errors
    /// There is none, or the launcher is not `hikyaku run`.
    pub fn look_up(&self, name: &str) -> Result<String, BootstrapError> {
        self.with_names("looking up a name", |names| names.look_up(name))
    }

    /// From now on no text is found under this name (`MPI_Unpublish_name`).
    ///
    /// # Errors
    /// There was none, or the launcher is not `hikyaku run`.
    pub fn unpublish(&self, name: &str) -> Result<(), BootstrapError> {
        self.with_names("withdrawing a name", |names| names.unpublish(name))
    }

    fn with_names<R>(
        &self,
        doing: &str,
        ask: impl FnOnce(&mut dyn Names) -> Result<R, BootstrapError>,
    ) -> Result<R, BootstrapError> {
        match self.lock().names() {
            Some(names) => ask(names),
            None => {
                let cause = Cause::Argument("only jobs that `hikyaku run` has started can publish names".into());
                Err(BootstrapError::new(self.launcher, doing, cause))
            }
        }
    }

    fn cannot_spawn(&self, doing: &str) -> BootstrapError {
        let cause = Cause::Argument(
            "this launcher cannot start more processes: `hikyaku run` can, and those of PMI and PMIx".into(),
        );
        BootstrapError::new(self.launcher, doing, cause)
    }

    fn exchange_mut(&mut self) -> &mut dyn Exchange {
        let exchange = self.exchange.get_mut();
        exchange.unwrap_or_else(PoisonError::into_inner).as_mut()
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Exchange>> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the whole job: tells the launcher, which ends the other processes, and exits with `code` (0 to 255).
    pub fn abort(mut self, code: u8, message: &str) -> ! {
        self.exchange_mut().abort(code, message);
        process::exit(i32::from(code))
    }

    /// Says goodbye to the launcher: from now on this process may exit without ending the job.
    ///
    /// # Errors
    /// The launcher does not answer.
    pub fn finalize(mut self) -> Result<(), BootstrapError> {
        self.exchange_mut().finalize()
    }

    fn argument(&self, what: String) -> BootstrapError {
        BootstrapError::new(self.launcher, "the store of keys and values", Cause::Argument(what))
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("launcher", &self.launcher)
            .field("rank", &self.rank)
            .field("size", &self.size)
            .field("local_rank", &self.local_rank)
            .field("local_size", &self.local_size)
            .finish_non_exhaustive()
    }
}

/// What `hikyaku run` has been told by the processes that spawn this world.
fn spawned_by(launcher: Launcher, environment: &Environment) -> Option<String> {
    let told = environment.get(names::SPAWNED_BY).map(str::to_owned);
    told.filter(|_| launcher == Launcher::Hikyaku)
}

fn get(launcher: Launcher, exchange: &mut dyn Exchange, rank: u32, key: &str) -> Result<Vec<u8>, BootstrapError> {
    exchange.get(rank, key)?.ok_or_else(|| no_such_key(launcher, rank, key))
}

fn no_such_key(launcher: Launcher, rank: u32, key: &str) -> BootstrapError {
    let cause = Cause::NoSuchKey {
        rank,
        key: key.to_owned(),
    };
    BootstrapError::new(launcher, format!("getting '{key}'"), cause)
}

/// Exchanges data that the launcher did not provide: a key from rank 0, and which ranks share a host.
fn agree(
    launcher: Launcher,
    exchange: &mut dyn Exchange,
    identity: &Identity,
    job_key: Option<JobKey>,
) -> Result<((u32, u32), JobKey), BootstrapError> {
    let doing = "agreeing on a job key";
    if let (Some(local), Some(job_key)) = (identity.local, job_key) {
        return Ok((local, job_key));
    }
    if identity.size == 1 {
        let fresh = || JobKey::random().map_err(|error| BootstrapError::new(launcher, doing, error));
        return Ok(((0, 1), job_key.map_or_else(fresh, Ok)?));
    }
    // Each rank puts both, because another one may lack what this one has.
    exchange.put(HOST, &host())?;
    if identity.rank == 0 {
        let key = job_key.map_or_else(JobKey::random, Ok);
        let key = key.map_err(|error| BootstrapError::new(launcher, doing, error))?;
        exchange.put(JOB_KEY, key.bytes())?;
    }
    exchange.fence()?;
    let key = get(launcher, exchange, 0, JOB_KEY)?;
    let Ok(key) = <[u8; 16]>::try_from(key.as_slice()) else {
        let cause = Cause::Refused(format!("a key of {} bytes", key.len()));
        return Err(BootstrapError::new(launcher, doing, cause));
    };
    let local = match identity.local {
        Some(local) => local,
        None => local_of(launcher, exchange, identity)?,
    };
    Ok((local, JobKey::new(key)))
}

/// What only the processes have in common that reach each other by loopback: the name of the host, its boot, and its network.
/// (Two hosts may have one name, and containers on one host are hosts of their own.)
fn host() -> Vec<u8> {
    let mut host = uname().nodename().to_bytes().to_vec();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = fs::read_link("/proc/self/ns/net").unwrap_or_default();
    host.extend(format!(" {} {}", boot.trim(), network.display()).bytes());
    host.truncate(MAX_VALUE);
    host
}

/// Local rank and size from the hosts of all ranks.
fn local_of(
    launcher: Launcher,
    exchange: &mut dyn Exchange,
    identity: &Identity,
) -> Result<(u32, u32), BootstrapError> {
    let here = get(launcher, exchange, identity.rank, HOST)?;
    let (mut rank, mut size) = (0, 0);
    for (other, host) in (0..).zip(exchange.get_all(identity.size, HOST)?) {
        if host.ok_or_else(|| no_such_key(launcher, other, HOST))? == here {
            size += 1;
            rank += u32::from(other < identity.rank);
        }
    }
    Ok((rank, size))
}
