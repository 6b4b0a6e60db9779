//! Which processes have queues of the port for their large messages.

use super::{Poller, Reason};
use crate::{
    backends::dpdk,
    poller::hello::{Hello, Queues, Wish},
    time::Instant,
};

/// A place for a process at the port.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// Index in the poller's `ranks` of its process.
    holder: Option<usize>,
    /// Its last process has ended without a goodbye, and may have kept packets.
    worn: bool,
}

impl Place {
    /// Its process has ended.
    fn release(&mut self, goodbye: bool) {
        *self = Self {
            holder: None,
            worn: self.worn || !goodbye,
        };
    }
}

impl Poller {
    /// The answer to a process's wish for queues, and its place.
    ///
    /// # Errors
    /// It does not run without, and cannot have them.
    pub(super) fn grant(&mut self, now: Instant, hello: &Hello) -> Result<(Queues, Option<usize>), String> {
        if hello.wish == Wish::No {
            return Ok((Queues::Unasked, None));
        }
        let found = self.find_place(now, &hello.dpdk);
        let port = self.net.backend.port();
        match found.map(|place| (place, port.guest(place as u16))) {
            Ok((place, Some(guest))) => {
                self.table.stats.queues_given += 1;
                Ok((Queues::Given(guest.bytes()), Some(place)))
            }
            Ok((_, None)) => Ok((Queues::Denied("there is no such place".to_owned()), None)),
            Err(why) if hello.wish == Wish::Must => Err(why),
            Err(why) => {
                self.table.stats.queues_denied += 1;
                Ok((Queues::Denied(why), None))
            }
        }
    }

    /// A place that is free, made ready for its next process. `version`: of the process's DPDK.
    fn find_place(&mut self, now: Instant, version: &str) -> Result<usize, String> {
        let ours = dpdk::version();
        if version != ours {
            return Err(format!(
                "the process has {version}, and the poller {ours}: they cannot share memory"
            ));
        }
        if let Some(why) = &self.no_places {
            return Err(format!("its port has no queues for processes: {why}"));
        }
        for place in 0..self.places.len() {
            // It may have gone just now.
            if let Some(holder) = self.places[place].holder {
                self.look_at(now, holder);
            }
            if let Some(holder) = self.places[place].holder
                && let Some(Some(rank)) = self.ranks.get(holder)
                && rank.is_away()
            {
                self.places[place].release(rank.has_gone());
            }
        }
        let port = self.net.backend.port();
        let (apart, count) = (port.keeps_places_apart(), self.places.len());
        let all_free = self.places.iter().all(|place| place.holder.is_none());
        let renew = |places| port.renew(places).map_err(|error| error.to_string());
        if !apart && all_free && self.places.iter().any(|place| place.worn) {
            renew(0..count as u16)?;
            self.places.iter_mut().for_each(|place| place.worn = false);
        }
        let free = |place: &Place| place.holder.is_none() && (apart || !place.worn);
        let Some(found) = self.places.iter().position(free) else {
            return Err(if self.places.iter().any(|place| place.holder.is_none()) {
                "a killed process has kept packets of the queues that are free: they can be had again when all processes \
                 with queues have ended"
                    .to_owned()
            } else {
                format!(
                    "all queues for processes are taken: {count} processes have some (hikyaku poller --bulk-queues)"
                )
            });
        };
        if apart {
            renew(found as u16..found as u16 + 1)?;
            self.places[found].worn = false;
        }
        Ok(found)
    }

    /// The process at `index` has the place from now on.
    pub(super) fn seat(&mut self, place: Option<usize>, index: usize) {
        if let Some(place) = place {
            self.places[place].holder = Some(index);
        }
    }

    /// The process at `index` has ended.
    pub(super) fn unseat(&mut self, index: usize, reason: Reason) {
        for place in self.places.iter_mut().filter(|place| place.holder == Some(index)) {
            place.release(reason == Reason::Left);
        }
    }
}
