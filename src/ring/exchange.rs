//! Rings between threads of one process.

use alloc::{collections::BTreeMap, sync::Arc};
use core::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use super::{Consumer, Meet, Producer, Side, ring};

/// Records of a ring: 8 KB for each direction of each pair.
const LINES: u32 = 128;

/// The ends that wait for their owners: by owner and the other side.
type Waiting = BTreeMap<(Side, Side), (Producer, Consumer)>;

/// Where the two sides of a session within one process find the rings between them: the side that comes first makes them,
/// and leaves the other's ends here. All clones are the same place; processes of different jobs need different ones.
#[derive(Clone, Debug, Default)]
pub struct Exchange(Arc<Mutex<Waiting>>);

impl Meet for Exchange {
    fn meet(&mut self, _: SocketAddr, own: Side, other: Side) -> Option<(Producer, Consumer)> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ends) = waiting.remove(&(own, other)) {
            return Some(ends);
        }
        let (there, back) = (ring(LINES), ring(LINES));
        waiting.insert((other, own), (back.0, there.1));
        Some((there.0, back.1))
    }
}
