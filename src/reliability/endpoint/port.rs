//! The backend's ports, as far as rails depend on them: how large their datagrams can be, and which of them are full.

use alloc::vec::Vec;

/// A port that is not like the others.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(super) struct Port {
    /// Bytes of the largest datagram that it takes.
    pub(super) max_datagram: u16,
    pub(super) is_full: bool,
    /// Flows that wait until it is not.
    pub(super) waiting: Vec<u32>,
}

/// By number; those not here are like the whole.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(super) struct Ports(Vec<Port>);

impl Ports {
    pub(super) fn make(&mut self, port: u8) -> &mut Port {
        let number = usize::from(port);
        while self.0.len() <= number {
            self.0.push(Port {
                max_datagram: u16::MAX,
                is_full: false,
                waiting: Vec::new(),
            });
        }
        &mut self.0[number]
    }

    /// Bytes of the largest datagram that a port takes, if it is fewer than the others take.
    pub(super) fn max_datagram(&self, port: u8) -> u16 {
        self.0.get(usize::from(port)).map_or(u16::MAX, |port| port.max_datagram)
    }

    pub(super) fn is_full(&self, port: u8) -> bool {
        self.0.get(usize::from(port)).is_some_and(|port| port.is_full)
    }

    /// A flow whose path leaves by a port has something to send; `true`: it waits, for the port is full.
    pub(super) fn wait(&mut self, port: u8, flow: u32) -> bool {
        match self.0.get_mut(usize::from(port)) {
            Some(port) if port.is_full => {
                if !port.waiting.contains(&flow) {
                    port.waiting.push(flow);
                }
                true
            }
            _ => false,
        }
    }
}
