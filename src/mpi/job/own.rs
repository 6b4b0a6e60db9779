//! How the addresses of this process are paired with those of others.

use std::{
    net::{IpAddr, SocketAddr},
    vec,
    vec::Vec,
};

use crate::{
    bootstrap::address::{Chosen, Why, pairs},
    mpi::engine::{Addresses, Unconnected},
    reliability::{MAX_RAILS, Path},
};

/// The addresses of this process's ports, as they are paired with those of others.
#[derive(Debug)]
pub(super) struct Own {
    /// Those of the kernel.
    chosen: Vec<Chosen>,
    ports: Vec<SocketAddr>,
}

impl Own {
    pub(super) fn new(chosen: Vec<Chosen>, bound: &Unconnected) -> Self {
        Self {
            chosen,
            ports: bound.ports().collect(),
        }
    }

    /// What the others are told.
    pub(super) fn addresses(&self) -> Addresses {
        let (usual, spare) = self.ports.split_at(self.usual());
        Addresses {
            usual: usual.to_vec(),
            spare: spare.first().copied(),
        }
    }

    /// The number of ports without the spare one, which is the last.
    fn usual(&self) -> usize {
        let has_spare = self.chosen.last().is_some_and(|last| last.why == Why::OtherFamily);
        self.ports.len() - usize::from(has_spare)
    }

    /// By which port to reach which of the addresses of a process; the first path is its first rail. Spare addresses are
    /// left alone if others are of one family. No path: none are.
    pub(super) fn paths(&self, theirs: &Addresses) -> Vec<Path> {
        let is_of_one = |(port, at): (&SocketAddr, &SocketAddr)| port.is_ipv4() == at.is_ipv4();
        let usual = &self.ports[..self.usual()];
        let is_enough = { usual.iter() }.any(|port| theirs.usual.iter().any(|at| is_of_one((port, at))));
        let (ports, theirs) = match is_enough {
            true => (usual, theirs.usual.clone()),
            false => (&*self.ports, theirs.all().collect()),
        };
        let is_own = |address: &SocketAddr| self.ports.iter().any(|own| own.ip() == address.ip());
        let pairs = match self.chosen.get(..ports.len()) {
            Some(chosen) if !chosen.is_empty() => {
                let addresses: Vec<IpAddr> = theirs.iter().map(SocketAddr::ip).collect();
                let mut pairs = pairs(chosen, &addresses, MAX_RAILS);
                // (The first ones are paired in any case.)
                pairs.retain(|&(port, at)| is_of_one((&ports[port], &theirs[at])));
                pairs
            }
            // A process of the same poller, whose ports carry nothing between the two.
            _ if theirs.iter().any(is_own) => vec![(0, 0)],
            // The addresses are not the kernel's: all processes have the same ports, in one order.
            _ => (0..ports.len().min(theirs.len())).map(|port| (port, port)).collect(),
        };
        { pairs.into_iter() }
            .map(|(port, at)| Path::new(theirs[at], port as u8))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process with these addresses, of which the last is a spare one if it has a tilde before it.
    fn own(texts: &[&str]) -> Own {
        let of = |text: &&str| {
            let (address, prefix) = text.trim_start_matches('~').split_once('/').unwrap();
            Chosen {
                address: address.parse().unwrap(),
                interface: "eth0".into(),
                prefix: prefix.parse().unwrap(),
                why: if text.starts_with('~') {
                    Why::OtherFamily
                } else {
                    Why::Further
                },
            }
        };
        let chosen: Vec<Chosen> = texts.iter().map(of).collect();
        Own {
            ports: chosen.iter().map(|chosen| SocketAddr::new(chosen.address, 7)).collect(),
            chosen,
        }
    }

    /// By which port to which address.
    fn paths(one: &[&str], other: &[&str]) -> Vec<(u8, IpAddr)> {
        let paths = own(one).paths(&own(other).addresses());
        paths.iter().map(|path| (path.port, path.address.ip())).collect()
    }

    fn at(port: u8, address: &str) -> (u8, IpAddr) {
        (port, address.parse().unwrap())
    }

    #[test]
    fn spare_addresses_are_for_those_that_have_no_other() {
        let (dual, other) = (["10.0.0.1/24", "~fd00::1/64"], ["10.0.0.2/24", "~fd00::2/64"]);
        let (v4, v6) = (["10.0.0.3/24"], ["fd00::4/64"]);
        // Between two that have both, and one that has the usual family, nothing is added.
        assert_eq!(paths(&dual, &other), [at(0, "10.0.0.2")]);
        assert_eq!(paths(&dual, &v4), [at(0, "10.0.0.3")]);
        assert_eq!(paths(&v4, &dual), [at(0, "10.0.0.1")]);
        // The first rail is one that can work.
        assert_eq!(paths(&dual, &v6), [at(1, "fd00::4")]);
        assert_eq!(paths(&v6, &dual), [at(0, "fd00::1")]);
        assert_eq!(paths(&v4, &v6), []);
        // Also where both have several, in another order.
        let several = ["10.0.0.1/24", "10.1.0.1/24", "~fd00::1/64"];
        assert_eq!(paths(&several, &["fd01::2/64", "fd00::2/64"]), [at(2, "fd00::2")]);
        assert_eq!(paths(&several, &["fd00::2/64", "10.1.0.2/24"]), [at(1, "10.1.0.2")]);
    }

    #[test]
    fn a_first_address_of_another_family_is_no_first_rail() {
        let (one, other) = (["10.0.0.1/24", "fd00::1/64"], ["fd00::2/64", "10.0.0.2/24"]);
        assert_eq!(paths(&one, &other), [at(0, "10.0.0.2"), at(1, "fd00::2")]);
        assert_eq!(paths(&other, &one), [at(0, "fd00::1"), at(1, "10.0.0.1")]);
    }

    /// The ports of a poller are those of all its processes.
    #[test]
    fn ports_that_are_not_the_kernels_are_paired_in_their_order() {
        let mut behind = own(&["10.0.0.1/24", "10.1.0.1/24"]);
        behind.chosen.clear();
        let to = |theirs: &[&str]| behind.paths(&own(theirs).addresses()).len();
        assert_eq!([to(&["10.0.0.2/24", "10.1.0.2/24"]), to(&["10.0.0.2/24"])], [2, 1]);
        assert_eq!(to(&["10.0.0.1/24", "10.1.0.1/24"]), 1);
    }
}
