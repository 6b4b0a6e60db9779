//! News of the backend's ports.

use super::Endpoint;

impl Endpoint {
    /// A port of the backend takes datagrams of that size at most, bytes; the limits of the endpoint are those of the port
    /// that takes the largest.
    pub fn limit_port(&mut self, port: u8, max_datagram: usize) {
        let most = u16::try_from(max_datagram).unwrap_or(u16::MAX);
        let known = &mut self.ports.make(port).max_datagram;
        let shrunk = most < *known;
        *known = most;
        if !shrunk {
            return;
        }
        for peer in 0..self.peers.len() as u32 {
            let rails = self.rails.all(peer).len().max(1) as u8;
            for rail in 0..rails {
                let mtu = if rail == 0 {
                    self.peers[peer as usize].mtu
                } else {
                    self.rails.mtu(peer, rail)
                };
                if self.own_path(peer, rail).port == port && mtu > most {
                    self.set_mtu((peer, rail), most, false);
                }
            }
        }
    }

    /// A port of the backend is full, or is not any more. Flows of rails that leave by a full one wait, and others go on.
    pub fn hold_port(&mut self, port: u8, is_full: bool) {
        let port = self.ports.make(port);
        port.is_full = is_full;
        if is_full {
            return;
        }
        for index in core::mem::take(&mut port.waiting) {
            self.mark_ready(index);
        }
    }
}
