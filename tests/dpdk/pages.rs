//! The Rust of `docs/dpdk.md`, compiled. `tests/documents.rs` sees to it that what the page shows is here.
#![expect(dead_code, reason = "compiled, not run")]

use std::error::Error;

use hikyaku::{
    backends::dpdk::{Device, DpdkBackend, DpdkOptions, DpdkPort},
    transport::Transport,
};

fn one_queue() -> Result<Transport, Box<dyn Error>> {
    let options = DpdkOptions::new(Device::parse("af_packet:iface=eth1")?);
    let backend = DpdkBackend::bind("10.0.0.7:4000".parse()?, &options)?;
    let transport = Transport::builder().processor(1).backend(Box::new(backend))?;
    Ok(transport)
}

fn several_queues(options: DpdkOptions) -> Result<(DpdkBackend, DpdkBackend), Box<dyn Error>> {
    let port = DpdkPort::open(&options)?;
    let eager = port.bind("10.0.0.7:4000".parse()?, 2)?;
    let bulk = port.bind_own("10.0.0.7:4001".parse()?)?;
    Ok((eager, bulk))
}
