//! Addresses of names.

use std::{
    fmt::Debug,
    net::{SocketAddr, ToSocketAddrs},
};

use super::error::ResolveError;

/// Returns the first address of `name` that `fits`.
pub(super) fn resolve<A: ToSocketAddrs + Debug>(
    name: &A,
    fits: impl Fn(&SocketAddr) -> bool,
) -> Result<SocketAddr, ResolveError> {
    let failed = |source| ResolveError {
        name: format!("{name:?}"),
        source,
    };
    let mut addresses = name.to_socket_addrs().map_err(|error| failed(Some(error)))?;
    addresses.find(fits).ok_or_else(|| failed(None))
}
