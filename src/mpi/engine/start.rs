//! Creating an engine: bind a socket, let the other processes know its address, connect.

use std::{
    fmt::{self, Debug},
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
};

use super::{Engine, Options};
use crate::{
    backends::{Backend, Met},
    config::Config,
    error::AddPeerError,
    events::event,
    progress::{Driver, WaitPolicy},
    reliability::Path,
    transport::{BuildError, Builder},
};

/// A process that has an address and does not know the others yet.
#[derive(Debug)]
pub struct Unconnected {
    driver: Driver,
    process: u32,
    /// For each rail the process to which it leads, and where it goes.
    rails: Vec<(u32, Path)>,
    /// For some processes the port by which the first rail leaves.
    first_ports: Vec<(u32, u8)>,
}

/// Why the processes of a job could not be connected.
#[non_exhaustive]
pub enum ConnectError {
    /// The number of this process is not less than the number of addresses.
    Process {
        /// Number of this process.
        process: u32,
        /// Number of addresses.
        size: usize,
    },
    /// The driver refused to add a process as a peer.
    Peer {
        /// Its number.
        process: u32,
        /// Its address.
        address: SocketAddr,
        /// Why it was refused.
        source: AddPeerError,
    },
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { process, size } => {
                write!(
                    f,
                    "connecting the job: this is process {process}, and there are {size} addresses"
                )
            }
            Self::Peer {
                process,
                address,
                source,
            } => write!(f, "connecting the job: process {process} at {address}: {source}"),
        }
    }
}

crate::debug_as_display!(ConnectError);

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Process { .. } => None,
            Self::Peer { source, .. } => Some(source),
        }
    }
}

impl Engine {
    /// Opens the backend called `name` at `address` for process `process`. The wait policy is not taken from `builder`
    /// but from the [`Options`] given to [`connect`](Unconnected::connect).
    ///
    /// # Errors
    /// See [`Builder::bind`].
    pub fn bind(
        builder: Builder,
        name: &str,
        address: impl ToSocketAddrs + Debug,
        process: u32,
    ) -> Result<Unconnected, BuildError> {
        let driver = builder
            .processor(process)
            .wait(WaitPolicy::Spin)
            .change(for_a_job)
            .bind_driver(name, address)?;
        Ok(Unconnected {
            driver,
            process,
            rails: Vec::new(),
            first_ports: Vec::new(),
        })
    }

    /// As [`bind`](Self::bind), with a backend that is already open.
    ///
    /// # Errors
    /// See [`Builder::backend`].
    pub fn on(builder: Builder, backend: Box<dyn Backend>, process: u32) -> Result<Unconnected, BuildError> {
        let driver = builder
            .processor(process)
            .wait(WaitPolicy::Spin)
            .change(for_a_job)
            .driver_on(backend)?;
        Ok(Unconnected {
            driver,
            process,
            rails: Vec::new(),
            first_ports: Vec::new(),
        })
    }
}

/// All processes listen before they learn each other's addresses, and one that is lost stays lost.
fn for_a_job(config: &mut Config) {
    config.late_peers = false;
    config.reconnect = false;
}

impl Unconnected {
    /// Name of the backend that carries the datagrams; the environment may have chosen another one than the program
    /// asked for.
    #[must_use]
    pub fn backend_name(&self) -> &'static str {
        self.driver.backend().name()
    }

    /// Address at which the other processes reach this one.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.driver.local_addr()
    }

    /// The addresses of the backend's ports, in the order of their numbers.
    pub(crate) fn ports(&self) -> impl Iterator<Item = SocketAddr> {
        let ports = self.driver.backend().ports();
        let lone = ports.is_empty().then(|| self.local_addr());
        lone.into_iter().chain(ports.iter().map(|port| port.local_addr()))
    }

    /// Process `process` may also be reached from the backend's port `port` at `address`. Data goes there once the process
    /// has answered.
    pub fn add_rail(&mut self, process: u32, port: u8, address: SocketAddr) {
        self.rails.push((process, Path::new(address, port)));
    }

    /// The address of process `process` is reached from the backend's port `port`, instead of the first.
    pub(in crate::mpi) fn leave_by(&mut self, process: u32, port: u8) {
        self.first_ports.push((process, port));
    }

    /// Returns the bytes that the other processes must know besides the address; often none. See
    /// [`Neighbours::link_address`](crate::backends::Neighbours::link_address).
    #[must_use]
    pub fn link_address(&mut self) -> Vec<u8> {
        let neighbours = self.driver.neighbours();
        neighbours.map_or_else(Vec::new, |neighbours| neighbours.link_address())
    }

    /// Passes on the [`link_address`](Self::link_address) of the process at `address`, so that the backend need not ask
    /// the network for it.
    ///
    /// # Errors
    /// The process cannot be reached with that link address. See
    /// [`Neighbours::introduce`](crate::backends::Neighbours::introduce).
    pub fn introduce(&mut self, address: SocketAddr, link: &[u8]) -> io::Result<()> {
        match self.driver.neighbours() {
            Some(neighbours) => neighbours.introduce(address, link),
            None => Ok(()),
        }
    }

    /// All processes have been [introduced](Self::introduce): says which are reached through memory ([`Options::routes`],
    /// given to the builder).
    ///
    /// # Errors
    /// [`Routes::Memory`](crate::transport::Routes::Memory), and a process of this host cannot be reached so.
    pub fn meet(&mut self) -> io::Result<Met> {
        match self.driver.neighbours() {
            Some(neighbours) => neighbours.meet(),
            None => Ok(Met::default()),
        }
    }

    /// Connects the processes of a job: `addresses[i]` is the address of process `i`. All of them must be open by then:
    /// if a process does not listen at its address yet, it is taken for lost.
    ///
    /// # Errors
    /// The number of this process is beyond `addresses`, or two processes have the same address.
    pub fn connect(self, addresses: &[SocketAddr], options: Options) -> Result<Arc<Engine>, ConnectError> {
        self.connect_from(0, addresses, &[], options)
    }

    /// As [`connect`](Self::connect), for a world whose first process has the number `first` in the job, and whose
    /// processes talk to `others` of the job, too.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub(in crate::mpi) fn connect_from(
        mut self,
        first: u32,
        addresses: &[SocketAddr],
        others: &[(u32, SocketAddr)],
        options: Options,
    ) -> Result<Arc<Engine>, ConnectError> {
        let process = self.process;
        let size = addresses.len();
        let world = first..first.saturating_add(size as u32);
        if !world.contains(&process) {
            return Err(ConnectError::Process { process, size });
        }
        let own = (first..).zip(addresses.iter().copied());
        let others = own.chain(others.iter().copied());
        let mut peers = vec![None; world.end as usize];
        for (other, address) in others.filter(|(other, _)| *other != process) {
            let added = self.driver.add_peer(address, other);
            let peer = added.map_err(|source| ConnectError::Peer {
                process: other,
                address,
                source,
            })?;
            if other as usize >= peers.len() {
                peers.resize(other as usize + 1, None);
            }
            peers[other as usize] = Some(peer);
        }
        for (process, port) in self.first_ports {
            if let Some(&Some(peer)) = peers.get(process as usize) {
                self.driver.leave_by(peer, port);
            }
        }
        let mut _added = 0_u32;
        for (process, path) in self.rails {
            let Some(&Some(peer)) = peers.get(process as usize) else {
                continue;
            };
            match self.driver.add_rail(peer, path) {
                Ok(_rail) => {
                    _added += 1;
                    event!(DEBUG, process, rail = _rail, address = %path.address, port = path.port, "rail added");
                }
                // Without it, the path to the first address is there all the same.
                Err(_error) => {
                    event!(DEBUG, process, address = %path.address, port = path.port, error = %_error, "no rail");
                }
            }
        }
        event!(
            INFO,
            rank = process - first,
            ports = self.driver.backend().ports().len().max(1),
            rails = _added,
            "rails added"
        );
        Ok(Arc::new(Engine::native(self.driver, process, world, peers, options)))
    }
}
