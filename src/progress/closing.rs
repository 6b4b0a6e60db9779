//! How a driver closes the sessions with all peers, and writes its counters at the end.

use std::{
    fmt::{Display, Write as _},
    io, process,
    time::Duration,
};

use super::{Acks, Driver, report::Report};
use crate::{
    error::DropReason,
    reliability::{MAX_RAILS, PeerId, RailStats},
};

impl Driver {
    /// Begins to say goodbye to every peer. Returns the number of sessions that [have ended](Self::ended) once every
    /// peer has heard the goodbye.
    pub(crate) fn close_all(&mut self) -> u64 {
        let layer = self.messenger.layer();
        let peers = || (0..layer.peers() as u32).map(PeerId);
        let open: Vec<PeerId> = peers().filter(|&peer| layer.down(peer).is_none()).collect();
        let done = self.ended + open.len() as u64;
        for peer in open {
            self.close(peer);
        }
        self.request_acks();
        done
    }

    /// Number of sessions that have ended.
    #[cfg(feature = "tokio")]
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// Waits, not longer than `linger`, until `ends` sessions have ended. Returns the number of sessions that have not.
    pub(crate) fn wait_ended(&mut self, ends: u64, linger: Option<Duration>) -> io::Result<u64> {
        let ended = self.run(linger, Acks::Now, |driver| driver.ended >= ends);
        // This sends the answer to a goodbye that arrived last.
        self.transmit_now();
        ended.map(|_| ends.saturating_sub(self.ended))
    }

    /// From now on, [`write_report`](Self::write_report) has something to do.
    pub(crate) fn set_report(&mut self, mut report: Report) {
        report.begun = self.read_clock();
        self.report = Some(report);
    }

    /// Writes the counters if a variable asks for them: once, when nothing more is sent. `more` are those of the
    /// layer above, if it has any.
    pub(crate) fn write_report(&mut self, more: Option<(&str, &[(&'static str, u64)])>) {
        let Some(mut report) = self.report.take() else { return };
        let nanos = self.read_clock().nanos_since(report.begun);
        let stats = self.messenger.layer().stats();
        let mut line = format!(
            r#"{{"processor":{},"pid":{},"backend":"{}","address":"{}","seconds":{:.6}"#,
            report.processor,
            process::id(),
            self.backend.name(),
            self.backend.local_addr(),
            nanos as f64 / 1e9,
        );
        object(&mut line, "stats", stats.fields());
        let dropped = stats.dropped.iter().map(|(reason, count)| (name_of(reason), count));
        object(&mut line, "dropped", dropped);
        object(&mut line, "backend_stats", self.backend.stats().fields());
        self.report_rails(&mut line);
        if let Some((name, fields)) = more {
            object(&mut line, name, fields.iter().copied());
        }
        line.push_str("}\n");
        if let Err(error) = report.write(&line) {
            // There is no caller left to return it to, and a file that silently ends short would be worse.
            eprintln!("hikyaku: HIKYAKU_STATS: {error}");
        }
    }
}

impl Driver {
    /// Adds the counters of each port and of each rail, if there are several.
    fn report_rails(&self, line: &mut String) {
        let ports = self.backend.ports();
        // (What the ports of a poller count is not of this process alone.)
        if !ports.is_empty() && !self.capabilities.layered {
            let all = ports.iter().map(|port| {
                let mut text = format!(r#"{{"address":"{}""#, port.local_addr());
                object(&mut text, "stats", port.stats().fields());
                text + "}"
            });
            list(line, "ports", all);
        }
        let layer = self.messenger.layer();
        let mut all = Vec::new();
        for peer in (0..layer.peers() as u32).map(PeerId) {
            let rails = (0..MAX_RAILS as u8).filter_map(|rail| Some((rail, layer.rail_stats(peer, rail)?)));
            let rails: Vec<(u8, RailStats)> = rails.collect();
            // A peer with one path has nothing of its own to say, and one with which there was no session nothing at all.
            if rails.len() < 2 || rails.iter().all(|(_, stats)| stats.round_trip.is_zero()) {
                continue;
            }
            let processor = layer.processor(peer).unwrap_or(0);
            all.extend(rails.into_iter().map(|(rail, stats)| {
                let path = stats.path;
                let mut text = format!(
                    r#"{{"peer":{processor},"rail":{rail},"port":{},"address":"{}""#,
                    path.port, path.address
                );
                object(&mut text, "stats", rail_fields(&stats));
                text + "}"
            }));
        }
        if !all.is_empty() {
            list(line, "rails", all.into_iter());
        }
    }
}

/// The counters of a rail, by name.
fn rail_fields(stats: &RailStats) -> [(&'static str, u64); 4] {
    [
        ("round_trip_ns", stats.round_trip.as_nanos() as u64),
        ("max_datagram", stats.max_datagram.into()),
        ("bytes_sent", stats.bytes_sent),
        ("failures", stats.failures),
    ]
}

/// `WrongSession` as `wrong_session`.
fn name_of(reason: DropReason) -> String {
    let mut name = String::new();
    for letter in format!("{reason:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// Adds a member that is a list of objects.
fn list(line: &mut String, name: &str, objects: impl Iterator<Item = String>) {
    let objects: Vec<String> = objects.collect();
    let _ = write!(line, r#","{name}":[{}]"#, objects.join(","));
}

/// Adds a member that is an object of counters. Names are words of this software: nothing is escaped.
fn object<N: Display>(line: &mut String, name: &str, fields: impl IntoIterator<Item = (N, u64)>) {
    let _ = write!(line, r#","{name}":{{"#);
    let mut between = "";
    for (name, count) in fields {
        let _ = write!(line, r#"{between}"{name}":{count}"#);
        between = ",";
    }
    line.push('}');
}
