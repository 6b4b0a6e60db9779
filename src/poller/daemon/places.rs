//! Which processes have queues of the port for their large messages.

use std::net::SocketAddr;

use super::{NOBODY, Poller, Reason, STEERED, place::Place};
use crate::{
    backends::dpdk::{self, Renewal},
    poller::hello::{Hello, Queues, Wish},
    time::Instant,
};

impl Poller {
    /// The answer to a process's wish for queues, and its place.
    ///
    /// # Errors
    /// It does not run without, and cannot have them.
    pub(super) fn grant(&mut self, now: Instant, hello: &Hello) -> Result<(Queues, Option<usize>), String> {
        if hello.wish == Wish::No {
            return Ok((Queues::Unasked, None));
        }
        let found = self.find_place(now, &hello.dpdk).and_then(|place| {
            let udp_port = self.steer(now, place)?;
            Ok((place, self.net.first().port().guest(place as u16, udp_port)))
        });
        match found {
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
                self.unsteer(place);
            }
        }
        let port = self.net.first().port();
        let (renewal, count) = (port.renewal(), self.places.len());
        let all_free = self.places.iter().all(|place| place.holder.is_none());
        let renew = |places| port.renew(places).map_err(|error| error.to_string());
        if renewal == Renewal::Together && all_free && self.places.iter().any(|place| place.worn) {
            renew(0..count as u16)?;
            self.places.iter_mut().for_each(|place| place.worn = false);
        }
        let free = |place: &Place| place.holder.is_none() && (renewal == Renewal::Each || !place.worn);
        let Some(found) = self.places.iter().position(free) else {
            let some_free = self.places.iter().any(|place| place.holder.is_none());
            return Err(match renewal {
                Renewal::Together if some_free => {
                    "a killed process has kept packets of the queues that are free: they \
                                                   can be had again when all processes with queues have ended"
                        .to_owned()
                }
                Renewal::Never if some_free => {
                    "killed processes have kept packets of the queues that are free: they can \
                                                be had again when the poller starts anew"
                        .to_owned()
                }
                _ => format!(
                    "all queues for processes are taken: {count} processes have some (hikyaku poller --bulk-queues)"
                ),
            });
        };
        if renewal == Renewal::Each {
            renew(found as u16..found as u16 + 1)?;
            self.places[found].worn = false;
        }
        Ok(found)
    }

    /// Has the port steer datagrams to a place, if they come there in no other way; gives their UDP port, else 0.
    fn steer(&mut self, now: Instant, place: usize) -> Result<u16, String> {
        if !self.net.first().port().must_steer() {
            return Ok(0);
        }
        let udp_port = self.choose_port(now, 0)?;
        let addr = SocketAddr::new(self.options.address, udp_port);
        let steered = self.net.first().port().steer(addr, place as u16);
        let steered = steered.map_err(|error| format!("its port steers no datagrams to queues: {error}"))?;
        self.ports[usize::from(udp_port)] = STEERED;
        self.places[place].steered = Some((udp_port, steered));
        Ok(udp_port)
    }

    fn unsteer(&mut self, place: usize) {
        if let Some((udp_port, _)) = self.places[place].steered.take() {
            self.ports[usize::from(udp_port)] = NOBODY;
        }
    }

    /// The process at `index` has the place from now on.
    pub(super) fn occupy(&mut self, place: Option<usize>, index: usize) {
        if let Some(place) = place {
            self.places[place].holder = Some(index);
        }
    }

    /// The process at `index` has ended.
    pub(super) fn vacate(&mut self, index: usize, reason: Reason) {
        for place in 0..self.places.len() {
            if self.places[place].holder == Some(index) {
                self.places[place].release(reason == Reason::Left);
                self.unsteer(place);
            }
        }
    }
}
