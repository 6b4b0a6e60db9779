//! Building a transport.

use std::{
    fmt::{self, Debug},
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    sync::Arc,
};

use super::{
    Transport, descriptor,
    environment::{Routes, Settings, refuse_stats},
    error::BuildError,
    resolve::resolve,
};
#[cfg(all(feature = "poller", target_os = "linux"))]
use crate::poller::{self, Path};
#[cfg(all(feature = "shm", target_os = "linux"))]
use crate::{
    backends::shm,
    routes::{MemoryBackend, Routed},
};
use crate::{
    backends::{self, Backend, BindError, BindOptions},
    config::{Config, ConfigError},
    environment::Environment,
    events::event,
    messaging::Messenger,
    progress::{Driver, Report, WaitPolicy, random, random_key},
    reliability::{Endpoint, Layer, Limits},
    wire::ANY_PROCESSOR,
};

/// Makes a packet layer by the settings, the limits of the backend, and the numbers of the processors.
type Make = dyn Fn(Config, Limits, &[u32]) -> Result<Layer, ConfigError> + Send + Sync;

/// Makes the packet layer of a transport.
#[derive(Clone)]
pub(super) struct MakeLayer(Arc<Make>);

impl Debug for MakeLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeLayer")
    }
}

/// Settings of a new [`Transport`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `bind` or `backend`"]
pub struct Builder {
    config: Config,
    processors: Vec<u32>,
    wait: WaitPolicy,
    options: BindOptions,
    layer: Option<MakeLayer>,
    environment: Option<Environment>,
    routes: Routes,
    /// Where the environment wants counters to be written at the end.
    stats: Option<PathBuf>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            config: Config::default(),
            processors: vec![0],
            wait: WaitPolicy::default(),
            options: BindOptions::default(),
            layer: None,
            environment: None,
            routes: Routes::Network,
            stats: None,
        }
    }

    /// Settings of the protocol. Default: [`Config::default`].
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Number of this transport's processor, below [`ANY_PROCESSOR`]. Default 0.
    pub fn processor(self, processor: u32) -> Self {
        self.processors(&[processor])
    }

    /// Numbers of this transport's processors, if it has several. The first is the source of messages that name no
    /// other.
    pub fn processors(mut self, processors: &[u32]) -> Self {
        self.processors = processors.to_vec();
        self
    }

    /// Changes settings of the protocol.
    #[cfg(feature = "mpi")]
    pub(crate) fn change(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// How to wait. Default: spin a little, then sleep.
    pub fn wait(mut self, policy: WaitPolicy) -> Self {
        self.wait = policy;
        self
    }

    /// Options for the backend that [`bind`](Self::bind) opens.
    pub fn bind_options(mut self, options: BindOptions) -> Self {
        self.options = options;
        self
    }

    /// Makes the packet layer from an endpoint and the limits of the backend, for example a
    /// [`Beside`](crate::reliability::Beside). Default: the endpoint.
    pub fn layer<L: Into<Layer>>(mut self, make: impl Fn(Endpoint, Limits) -> L + Send + Sync + 'static) -> Self {
        self.layer = Some(MakeLayer(Arc::new(move |config, limits, _| {
            Ok(make(endpoint(config, limits)?, limits).into())
        })));
        self
    }

    /// Makes the packet layer of a process behind a poller, for a backend that is, or wraps, the
    /// [`PollerBackend`](crate::poller::PollerBackend) or [`Joined`](crate::poller::Joined) from which `path` comes.
    #[cfg(all(feature = "poller", target_os = "linux"))]
    pub fn behind_poller(mut self, path: Path) -> Self {
        self.layer = Some(MakeLayer(Arc::new(move |config, limits, processors| {
            path.layer(config, limits, processors)
        })));
        self
    }

    /// How processes of one host reach each other, if they are those of a job: see
    /// [`Engine::bind`](crate::mpi::engine::Engine::bind). Default: [`Routes::Network`].
    #[cfg(feature = "mpi")]
    pub fn routes(mut self, routes: Routes) -> Self {
        self.routes = routes;
        self
    }

    /// Lets environment variables override all other settings: those of the parts `Transport` and `Protocol` in
    /// [`VARIABLES`](crate::environment::VARIABLES). [`Environment::of_process`] has read them; an unknown variable
    /// whose name begins with `HIKYAKU_` is an error of [`bind`](Self::bind) or [`backend`](Self::backend).
    pub fn environment(self) -> Self {
        self.environment_of(Environment::of_process())
    }

    /// The same with these variables. Backends take theirs from [`BindOptions::environment`].
    pub fn environment_of(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Returns the name of the backend that [`bind`](Self::bind) would open: `name`, unless the environment names
    /// another.
    ///
    /// # Errors
    /// A variable of the environment has no valid value.
    pub fn backend_name(&self, name: &str) -> Result<String, BuildError> {
        let settings = self.clone().read_environment()?;
        Ok(settings.backend.unwrap_or_else(|| name.to_owned()))
    }

    /// Opens the backend called `name` ([`backends::available`] lists them) at `address`; port 0 takes a free port.
    ///
    /// # Errors
    /// A setting is out of its range, a variable of the environment has no valid value, the address cannot be resolved
    /// or bound, or this build has no such backend.
    pub fn bind(self, name: &str, address: impl ToSocketAddrs + Debug) -> Result<Transport, BuildError> {
        let processors = self.processors.clone();
        Ok(Transport::new(self.bind_driver(name, address)?, &processors))
    }

    /// Opens a UDP socket at `address`; port 0 takes a free port. Unlike [`bind`](Self::bind), the backend is the one
    /// named here even if the environment names another.
    ///
    /// # Errors
    /// See [`bind`](Self::bind); without the feature `udp`, and on other systems than Linux, always.
    pub fn bind_udp(self, address: impl ToSocketAddrs + Debug) -> Result<Transport, BuildError> {
        self.bind_only("udp", address)
    }

    /// Opens the backend for threads of one process, at a free address
    /// ([`local_addr`](Transport::local_addr)). The environment cannot change that.
    ///
    /// # Errors
    /// See [`bind`](Self::bind); without the feature `loopback`, always.
    pub fn bind_loopback(self) -> Result<Transport, BuildError> {
        self.bind_only("loopback", SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Opens the DPDK device called `device` (`memif:socket=/tmp/s,role=server`, `af_packet:iface=eth1`; see the guide
    /// `docs/dpdk.md`) at `address`. The environment cannot change that.
    ///
    /// # Errors
    /// See [`bind`](Self::bind); without the feature `dpdk`, always.
    pub fn bind_dpdk(mut self, device: &str, address: impl ToSocketAddrs + Debug) -> Result<Transport, BuildError> {
        self.options.device = Some(device.to_owned());
        self.bind_only("dpdk", address)
    }

    /// Opens memory between the processes of one host under this name, by which others find it
    /// (`backends::shm::address`); an empty name takes a random one that is free
    /// ([`local_addr`](Transport::local_addr)). The environment cannot change that.
    ///
    /// # Errors
    /// See [`bind`](Self::bind): the name is taken. Without the feature `shm`, and on other systems than Linux, always.
    pub fn bind_shm(self, name: &str) -> Result<Transport, BuildError> {
        self.bind_only("shm", shm_address(name))
    }

    fn bind_only(mut self, name: &str, address: impl ToSocketAddrs + Debug) -> Result<Transport, BuildError> {
        self.read_environment()?;
        self.config.validate()?;
        let address = resolve(&address, |_| true)?;
        let processors = self.processors.clone();
        #[cfg(all(feature = "shm", target_os = "linux"))]
        if name == shm::NAME {
            return Ok(Transport::new(self.memory_driver(address)?, &processors));
        }
        let backend = backends::bind(name, address, &self.options)?;
        Ok(Transport::new(self.driver(backend)?, &processors))
    }

    /// Makes the driver that [`bind`](Self::bind) puts into a transport.
    pub(crate) fn bind_driver(mut self, name: &str, address: impl ToSocketAddrs + Debug) -> Result<Driver, BuildError> {
        let settings = self.read_environment()?;
        let name = settings.backend.as_deref().unwrap_or(name);
        self.config.validate()?;
        let address = resolve(&address, |_| true)?;
        #[cfg(all(feature = "poller", target_os = "linux"))]
        if name == poller::NAME {
            let (backend, path) = poller::open(address, &self.options)?;
            return self.behind_poller(path).driver(backend);
        }
        #[cfg(all(feature = "shm", target_os = "linux"))]
        if name == shm::NAME {
            return self.memory_driver(address);
        }
        let backend = backends::bind(name, address, &self.options)?;
        self.routed_driver(backend)
    }

    /// Memory alone.
    #[cfg(all(feature = "shm", target_os = "linux"))]
    fn memory_driver(mut self, address: SocketAddr) -> Result<Driver, BuildError> {
        let backend = MemoryBackend::bind(address).map_err(|source| BindError::Io {
            name: shm::NAME,
            addr: address,
            source,
        })?;
        let make = backend.layer();
        self.layer = Some(MakeLayer(Arc::new(move |config, _, _| {
            Ok(Box::new(make(config)?).into())
        })));
        let watched = backend.watched();
        let driver = self.driver(Box::new(backend))?;
        watched.clear();
        Ok(driver)
    }

    /// Puts memory beside a backend of the network, if that is asked for.
    #[cfg(all(feature = "shm", target_os = "linux"))]
    fn routed_driver(mut self, backend: Box<dyn Backend>) -> Result<Driver, BuildError> {
        if self.routes == Routes::Network {
            return self.driver(backend);
        }
        let (name, addr) = (backend.name(), backend.local_addr());
        let routed = Routed::new(backend, self.options.place.process, self.routes == Routes::Memory);
        let routed = routed.map_err(|source| BindError::Io { name, addr, source })?;
        let make = routed.layer();
        self.layer = Some(MakeLayer(Arc::new(move |config, limits, _| {
            Ok(Box::new(make(endpoint(config.clone(), limits)?, config)?).into())
        })));
        self.driver(Box::new(routed))
    }

    #[cfg(not(all(feature = "shm", target_os = "linux")))]
    fn routed_driver(self, backend: Box<dyn Backend>) -> Result<Driver, BuildError> {
        match self.routes {
            Routes::Network | Routes::Auto => self.driver(backend),
            Routes::Memory => Err(BindError::Disabled {
                name: "memory",
                feature: "shm",
            }
            .into()),
        }
    }

    /// Makes the driver that [`backend`](Self::backend) puts into a transport.
    pub(crate) fn driver_on(mut self, backend: Box<dyn Backend>) -> Result<Driver, BuildError> {
        self.read_environment()?;
        self.driver(backend)
    }

    /// Uses a backend that is open already.
    ///
    /// # Errors
    /// A setting is out of its range, a variable of the environment has no valid value, or the backend needs a packet
    /// layer that the builder has not been given ([`layer`](Self::layer), `behind_poller`).
    pub fn backend(self, backend: Box<dyn Backend>) -> Result<Transport, BuildError> {
        let processors = self.processors.clone();
        Ok(Transport::new(self.driver_on(backend)?, &processors))
    }

    fn read_environment(&mut self) -> Result<Settings, BuildError> {
        let Some(environment) = &self.environment else {
            return Ok(Settings::default());
        };
        let settings = Settings::read(environment, &mut self.config)?;
        self.wait = settings.wait.unwrap_or(self.wait);
        self.stats.clone_from(&settings.stats);
        Ok(settings)
    }

    fn driver(self, backend: Box<dyn Backend>) -> Result<Driver, BuildError> {
        if self.processors.is_empty() {
            return Err(BuildError::NoProcessor);
        }
        if self.processors.contains(&ANY_PROCESSOR) {
            return Err(BuildError::ReservedProcessor);
        }
        if backend.capabilities().layered && self.layer.is_none() {
            return Err(BuildError::Layered(backend.name()));
        }
        let messenger = messenger(self.config, &*backend, &self.processors, self.layer.as_ref())?;
        event!(
            INFO, processor = self.processors[0], backend = backend.name(), address = %backend.local_addr(),
            "transport opened"
        );
        if backend.descriptors().is_empty() {
            let opened = descriptor::prepare();
            opened.map_err(|source| BindError::Io {
                name: backend.name(),
                addr: backend.local_addr(),
                source,
            })?;
        }
        let mut driver = Driver::new(messenger, backend, self.wait);
        if let Some(path) = &self.stats {
            let report = Report::open(path, self.processors[0]);
            driver.set_report(report.map_err(|error| refuse_stats(path, &error))?);
        }
        Ok(driver)
    }
}

/// The address of a name.
#[cfg(all(feature = "shm", target_os = "linux"))]
fn shm_address(name: &str) -> SocketAddr {
    match name {
        "" => SocketAddr::from(([127, 0, 0, 1], 0)),
        _ => shm::address(name),
    }
}

/// There are none in this build.
#[cfg(not(all(feature = "shm", target_os = "linux")))]
fn shm_address(_name: &str) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl Transport {
    /// Begins to build a transport.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A new messenger on `backend` takes the place of what there was. Its peers are gone.
    pub(super) fn start_anew_on(&mut self, backend: Box<dyn Backend>) {
        let config = self.driver.messenger().layer().config().clone();
        if let Ok(messenger) = messenger(config, &*backend, &self.processors, None) {
            self.driver.replace(messenger, backend);
        }
    }
}

fn messenger(
    config: Config,
    backend: &dyn Backend,
    processors: &[u32],
    layer: Option<&MakeLayer>,
) -> Result<Messenger, ConfigError> {
    let limits = Limits::from(&backend.capabilities());
    let layer = match layer {
        Some(MakeLayer(make)) => make(config, limits, processors)?,
        None => endpoint(config, limits)?.into(),
    };
    let mut messenger = Messenger::new(layer, processors);
    messenger.seed_keys(random());
    Ok(messenger)
}

fn endpoint(config: Config, limits: Limits) -> Result<Endpoint, ConfigError> {
    Endpoint::new(config, limits, random(), random_key())
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::{
        messaging::{Access, SendOptions},
        reliability::{Burst, Payload},
        time::Instant,
        wire::Packet,
    };

    fn own_messenger() -> Messenger {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let backend = backends::bind("loopback", address, &BindOptions::default()).unwrap();
        messenger(Config::default(), &*backend, &[0], None).unwrap()
    }

    /// Secrets differ from one transport to the next: the keys of regions, and so those of tables.
    #[test]
    fn each_transport_has_keys_of_its_own() {
        let key = || {
            let memory = Box::new(vec![0; 8]);
            own_messenger().register(Access::Lasting, memory).unwrap().key
        };
        // 2^-64 is the chance that three are alike.
        let keys = [key(), key(), key()];
        assert!(keys[0] != keys[1] || keys[1] != keys[2], "{keys:?}");
    }

    /// The same for what opens a session: the epoch, and the token, whose secret comes from the key that cookies come from.
    #[test]
    fn each_transport_has_an_epoch_and_tokens_of_its_own() {
        let opening = || {
            let mut messenger = own_messenger();
            let peer = messenger.add_peer(SocketAddr::from(([127, 0, 0, 1], 9)), 1).unwrap();
            let options = SendOptions::default();
            let sent = messenger.send(Instant::ZERO, peer, &options, Payload::Copy(b"x"));
            assert!(sent.is_ok(), "{sent:?}");
            let (mut burst, mut bytes) = (Burst::default(), Vec::new());
            assert!(messenger.poll_transmit(Instant::ZERO, &mut burst));
            messenger.gather(&burst, |piece| bytes.extend_from_slice(piece));
            let open = Packet::new_checked(&bytes[..]).unwrap().open().unwrap();
            (open.epoch, open.token.secret)
        };
        let (first, second) = (opening(), opening());
        assert!(first.0 != second.0 && first.1 != second.1, "{first:?} {second:?}");
    }
}
