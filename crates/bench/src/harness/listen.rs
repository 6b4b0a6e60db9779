//! The answering host of a measurement between two hosts.

use std::{io::ErrorKind, net::TcpListener};

use crate::{
    failure::{Failure, While},
    harness::{setup::resolve, worker},
};

/// Waits for one driver and serves it.
pub(crate) fn run(address: &str) -> Result<(), Failure> {
    let addresses = resolve(address)?;
    let listener = TcpListener::bind(&addresses[..]).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => Failure::usage(format!("--listen {address}: the port is in use; choose another")),
        _ => Failure::usage(format!("--listen {address}: {error}")),
    })?;
    let local = listener.local_addr().or_fail("--listen")?;
    eprintln!("hikyaku bench: listening on {local}; start the same benchmark elsewhere with --connect");
    let (stream, from) = listener.accept().or_fail("--listen")?;
    eprintln!("hikyaku bench: {from} drives");
    worker::run(stream, "")
}
