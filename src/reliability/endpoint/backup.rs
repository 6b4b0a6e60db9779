//! Backup rails, which stand in for others.
//!
//! Each port of this side may reach each address of the peer, and all paths of one port share its wire. So a rail is a
//! *backup* if its port and its address both belong to rails that were added before. While other rails that are no
//! backups are up by that port and to that address, it would give nothing: it *rests*, which means that it is not asked, and
//! that no new data goes there if it has been up. Else it is a rail like any other. Backups are called when one of the
//! other rails falls, or gives no answer for a while; so between hosts whose cables are as one expects, none costs anything.

use super::Endpoint;
use crate::reliability::{Path, RailState};

/// After so many probes without an answer of a rail, its backups are asked, too.
pub(super) const PATIENCE: u32 = 5;

impl Endpoint {
    /// A rail that is added now by that path is a backup.
    pub(super) fn would_be_backup(&self, peer: u32, path: Path) -> bool {
        let of_others = |is_same: &dyn Fn(Path) -> bool| {
            let further = self.rails.all(peer).iter().skip(1).filter_map(|rail| rail.path);
            is_same(self.first_path(peer)) || further.into_iter().any(is_same)
        };
        of_others(&|other| other.port == path.port) && of_others(&|other| other.address == path.address)
    }

    /// Rails have come up or fallen, or there is a new one: backups rest, or stand in.
    pub(super) fn relieve_backups(&mut self, peer: u32) {
        for number in 1..self.rails.all(peer).len() as u8 {
            let rests = self.is_covered(peer, number);
            let Some(rail) = self.rails.get_mut(peer, number) else {
                return;
            };
            let wakes = rail.rests && !rests && rail.state == RailState::Up;
            rail.rests = rests;
            if wakes {
                // It may have died meanwhile.
                self.prove(peer, number);
            }
        }
    }

    /// The rail is a backup, and others that are none and are up leave by its port and lead to its address.
    fn is_covered(&self, peer: u32, number: u8) -> bool {
        let Some(path) = { self.rails.get(peer, number) }
            .filter(|rail| rail.is_backup)
            .and_then(|rail| rail.path)
        else {
            return false;
        };
        let all = (0..).zip(self.rails.all(peer));
        let up = all.filter(|(_, rail)| !rail.is_backup && rail.state == RailState::Up);
        let (mut by_port, mut by_address) = (false, false);
        for other in up.map(|(other, _)| self.own_path(peer, other)) {
            by_port |= other.port == path.port;
            by_address |= other.address == path.address;
        }
        by_port && by_address
    }

    /// A rail gives no answer: the backups that may stand in for it are asked, unless they are being asked already.
    pub(super) fn call_backups(&mut self, peer: u32) {
        for number in 1..self.rails.all(peer).len() as u8 {
            let is_called = { self.rails.get(peer, number) }
                .is_some_and(|rail| rail.is_backup && !rail.rests && rail.state != RailState::Up && rail.tries == 0);
            if is_called {
                self.prove(peer, number);
            }
        }
    }
}
