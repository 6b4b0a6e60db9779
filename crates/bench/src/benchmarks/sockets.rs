//! How many sockets a job needs: opened for real, counted in `/proc/self/fd`.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
};

use hikyaku::{
    Config,
    backends::udp::{UdpBackend, UdpOptions},
    transport::Transport,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::{
    failure::{Failure, While},
    report::{Group, Table},
};

/// Processors of the DSE paper's example (section 1).
pub(crate) const PROCESSORS: usize = 60;
/// Any port of this machine's loopback.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Sockets of one way to connect all processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// Name of the way.
    pub name: &'static str,
    /// Socket ends in all.
    pub sockets: usize,
}

/// Opens each way in turn.
pub(crate) fn count_all() -> Result<Vec<Count>, Failure> {
    raise_limit();
    let count = |name, sockets: io::Result<usize>| {
        sockets
            .or_fail(&format!("opening the sockets of {name}"))
            .map(|sockets| Count { name, sockets })
    };
    Ok(vec![
        count("hikyaku/udp", counted(|| transports(PROCESSORS, false)))?,
        count("hikyaku/udp, two ports each", counted(|| transports(PROCESSORS, true)))?,
        count("tcp full mesh", counted(|| mesh(PROCESSORS)))?,
    ])
}

/// The open descriptors that `open` adds.
fn counted<T>(open: impl FnOnce() -> io::Result<T>) -> io::Result<usize> {
    let descriptors = || fs::read_dir("/proc/self/fd").map(Iterator::count);
    let before = descriptors()?;
    let sockets = open()?;
    let after = descriptors()?;
    drop(sockets);
    Ok(after - before)
}

/// A transport for each processor; `two_ports`: as in the DSE paper, one port to send and one to receive.
fn transports(processors: usize, two_ports: bool) -> io::Result<Vec<Transport>> {
    let options = UdpOptions {
        separate_send_socket: two_ports,
        ..UdpOptions::default()
    };
    (0..processors)
        .map(|processor| {
            let backend = UdpBackend::bind_with(ANY, &options)?;
            let builder = Transport::builder().config(Config::dse()).processor(processor as u32);
            builder
                .backend(Box::new(backend))
                .map_err(|error| io::Error::other(error.to_string()))
        })
        .collect()
}

/// A connection for each pair; both ends are here.
fn mesh(processors: usize) -> io::Result<Vec<TcpStream>> {
    let listener = TcpListener::bind(ANY)?;
    let address = listener.local_addr()?;
    let mut ends = Vec::new();
    for _ in 0..processors * (processors - 1) / 2 {
        ends.push(TcpStream::connect(address)?);
        ends.push(listener.accept()?.0);
    }
    Ok(ends)
}

/// Asks for as many descriptors as the system allows.
fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// The counts as a table.
pub(crate) fn table(counts: &[Count]) -> Table {
    let title = format!("sockets of a job of {PROCESSORS} processors, opened in one process and counted");
    let mut table = Table::new(vec![title], vec![Group::new("", &["way", "sockets"])]);
    for count in counts {
        table.row(vec![count.name.into(), count.sockets.to_string()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_processors() {
        // Other tests of this process open descriptors too, so only lower bounds of what is opened here are certain.
        raise_limit();
        assert_eq!(transports(PROCESSORS, true).unwrap().len(), 60);
        assert_eq!(mesh(PROCESSORS).unwrap().len(), 3540);
    }
}
