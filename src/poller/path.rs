//! The packet layer of a process behind a poller.

use std::{io, net::SocketAddr, sync::Arc};

use super::{
    DualPath, Joined, PollerBackend, ProxyEndpoint,
    backend::NAME,
    joined::{Own, Reached, own_backend},
};
use crate::{
    backends::{Backend, BindError, BindOptions},
    config::{Config, ConfigError},
    progress::{random, random_key},
    reliability::{Endpoint, Layer, Limits},
};

/// How packets go from a process to its peers: by way of its poller, or also directly. It makes the packet layer that fits
/// a [`PollerBackend`] or a [`Joined`].
#[derive(Clone, Debug)]
pub struct Path {
    /// The limits of the link to the poller.
    link: Limits,
    /// Placements go directly.
    is_dual: bool,
    /// The peers to which they do, if not to all.
    straight: Option<Arc<Reached>>,
}

impl Path {
    /// Makes the packet layer. `limits`: those of the backend.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn layer(&self, config: Config, limits: Limits, processors: &[u32]) -> Result<Layer, ConfigError> {
        if !self.is_dual {
            return Ok(Box::new(ProxyEndpoint::new(config, self.link, processors)?).into());
        }
        // Sessions begin as they do by way of the poller.
        let own = Config {
            reconnect: false,
            ..config.clone()
        };
        let endpoint = Endpoint::new(own, limits, random(), random_key())?;
        let proxy = ProxyEndpoint::new(config, self.link, processors)?;
        let mut path = DualPath::new(proxy, endpoint);
        if let Some(peers) = &self.straight {
            path = path.straight_to(peers.clone());
        }
        Ok(Box::new(path).into())
    }
}

impl PollerBackend {
    /// The path by this backend alone.
    #[must_use]
    pub fn path(&self) -> Path {
        Path {
            link: Limits::from(&self.capabilities()),
            is_dual: false,
            straight: None,
        }
    }
}

impl Joined {
    /// The path by both backends.
    #[must_use]
    pub fn path(&self) -> Path {
        Path {
            is_dual: true,
            straight: self.reached(),
            ..self.link().path()
        }
    }
}

/// Connects to the poller that the environment names. If the environment names a backend for placements, too, this is
/// opened at the IP address of `addr`.
///
/// # Errors
/// One of the two cannot be opened, or our own backend has no address that peers can reach.
pub(crate) fn open(addr: SocketAddr, options: &BindOptions) -> Result<(Box<dyn Backend>, Path), BindError> {
    let failed = |source| BindError::Io {
        name: NAME,
        addr,
        source,
    };
    let link = PollerBackend::from_environment(&options.environment, addr.port())
        .map_err(|error| failed(io::Error::from(error)))?;
    Ok(match own_backend(&link, addr, options).map_err(failed)? {
        None => {
            let path = link.path();
            (Box::new(link), path)
        }
        Some(own) => {
            let joined = match own {
                Own::Backend(own) => Joined::new(link, own),
                Own::OfPort(own) => Joined::of_port(link, own),
            };
            let path = joined.path();
            (Box::new(joined), path)
        }
    })
}
