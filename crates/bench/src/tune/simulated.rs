//! `tune --sim`: a simulated host that is as fast as this one, and how well it agrees.

use serde::Serialize;

use crate::{
    failure::Failure,
    options::Turns,
    ranks::world::{Job, Start},
    report::{Group, Progress, Table, number, size},
    tune::{
        host::{self, Host, Packets},
        ping_pong::{one_way, work},
    },
};

/// The costs of packets on a simulated host that is as fast as this one.
#[derive(Debug, Serialize)]
pub(super) struct Simulated {
    #[serde(flatten)]
    host: Host,
    /// Bytes of its IP packets: costs are for these.
    mtu: u32,
    /// The command that simulates hosts like this one.
    command: String,
    rows: Vec<Row>,
}

/// One-way time of a message as it was measured and as it is simulated, µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Row {
    size: usize,
    measured_us: f64,
    simulated_us: f64,
    /// Simulated to measured.
    ratio: f64,
}

/// Measures messages whose packets go one by one, as those of simulated hosts do, fits a host to that, and simulates it.
pub(super) fn fitted(turns: &Turns, sizes: &[usize], eager_limit: usize) -> Result<Simulated, Failure> {
    let mut job = Job::start_with(
        turns,
        2,
        Start {
            offload: false,
            ..Start::default()
        },
    )?;
    let mut progress = Progress::new(turns.output.progress, sizes.len() * job.rounds);
    // All sizes take turns, so that a change of the machine's speed changes all of them.
    let works = sizes.iter().map(|&size| {
        (
            "one by one".to_owned(),
            work(turns, size, Some(eager_limit as u32), None),
        )
    });
    let (series, outcome) = job.interleave(&works.collect::<Vec<_>>(), &mut progress);
    outcome?;
    let times: Vec<(usize, f64)> = series
        .iter()
        .filter_map(|series| Some((series.work.size, one_way(series)?)))
        .collect();
    drop(progress);
    let packets = Packets {
        datagram: job.environment.datagram,
        eager_limit,
    };
    // Its ranks have nothing more to do, and the simulator needs a core.
    drop(job);
    let mut progress = Progress::new(turns.output.progress, times.len() * host::SIMULATIONS);
    let host = host::fit(&times, |host, size| {
        progress.step("fitting", size);
        host::one_way(&packets, host, size)
    })?;
    drop(progress);
    let row = |&(size, measured): &(usize, f64)| {
        host::one_way(&packets, &host, size).map(|simulated| Row {
            size,
            measured_us: measured,
            simulated_us: simulated,
            ratio: simulated / measured,
        })
    };
    Ok(Simulated {
        mtu: packets.mtu(),
        command: host.command(packets.mtu()),
        rows: times.iter().map(row).collect::<Result<_, _>>()?,
        host,
    })
}

impl Simulated {
    /// For people.
    pub(super) fn text(&self) -> String {
        let Host {
            send_ns,
            receive_ns,
            byte_ns,
            delay_ns,
        } = self.host;
        let comments = vec![
            format!(
                "a simulated host, packets of up to {} B: sending one {send_ns} ns, receiving one {receive_ns} ns",
                self.mtu
            ),
            format!("each byte {byte_ns} ns at either end, and {delay_ns} ns in which neither is busy"),
            "one-way time of a message whose packets go one by one, µs; ratio: simulated / measured".to_owned(),
        ];
        let mut table = Table::new(
            comments,
            vec![Group::new("", &["Size", "measured", "simulated", "ratio"])],
        );
        for row in &self.rows {
            let numbers = [row.measured_us, row.simulated_us, row.ratio].map(|value| number(Some(value)));
            table.row([vec![size::text(row.size)], numbers.to_vec()].concat());
        }
        format!(
            "{}# hosts like this one on Ethernet of 10 Gb/s:\n# {}\n",
            table.render(),
            self.command
        )
    }
}
