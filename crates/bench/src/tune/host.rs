//! `tune --sim`: the simulated host on which messages take as long as on a real one.
//!
//! How often a message's time has what a packet, a byte or the way costs in it depends on the packets that it becomes,
//! and on which of them are handled at the same time at both ends. The protocol knows that, so the simulator is asked, with
//! each of the costs a little changed. The time is linear in them as long as nothing else changes: a few rounds of that find
//! the costs that suit the measured times best.

use std::{error::Error, time::Duration};

use hikyaku::sim::{Cpu, Network, Simulation};
use mpi::traits::*;
use serde::Serialize;

use crate::{
    failure::Failure,
    report::{digits, median},
};

/// Bytes of IP and UDP before a datagram.
const HEADERS: usize = 28;
/// Ping-pongs of each size before those that count, in which sessions open and windows grow; and those.
const PING_PONGS: (usize, usize) = (3, 3);
/// Rounds of the fit: costs change no more after three or four.
const ROUNDS: usize = 6;
/// How often [`fit`] simulates each of the sizes, at most: as it is, and with a little more of each cost.
pub(crate) const SIMULATIONS: usize = STARTS * ROUNDS * 5;
/// Where it begins.
const STARTS: usize = 3;
/// Times to weigh the sizes anew within a round.
const WEIGHINGS: usize = 30;
/// An error as large as this, relative to what was measured, counts as its square; larger ones count less.
const USUAL_ERROR: f64 = 0.02;
/// How much an error of what is only likely counts beside one of a time.
const LIKELY: f64 = 0.2;
/// The part that must be left of a cost's equation for it to be told from the others.
const DEPENDENT: f64 = 1e-9;

/// The costs of packets, in the terms of `hikyaku sim`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Host {
    /// CPU time for a packet sent, ns.
    pub send_ns: f64,
    /// For one received.
    pub receive_ns: f64,
    /// For each byte, both ways.
    pub byte_ns: f64,
    /// From one process to the other in which no core works on it, ns.
    pub delay_ns: f64,
}

/// Costs that are looked for: of a packet at either end, how much more it takes to send one, of a byte at either end, and
/// of the way. That a ping-pong is as slow as the slower end does not tell which one that is; where both are on one host
/// the kernel hands packets over in the sender's call.
type Costs = [f64; 4];
/// Changes of costs that are large enough for it not to matter that times are whole nanoseconds.
const STEPS: Costs = [20.0, 20.0, 0.01, 20.0];

impl Host {
    /// The command that simulates hosts like this one, on the wires that there are by default.
    pub(crate) fn command(&self, mtu: u32) -> String {
        // There are two of them on the way.
        let wire = Network::default().delay.as_nanos() as f64;
        format!(
            "hikyaku sim scale --cpu-packet {},{} --cpu-byte {} --delay {:.0} --mtu {mtu}",
            self.send_ns,
            self.receive_ns,
            self.byte_ns,
            wire + self.delay_ns / 2.0
        )
    }

    fn of([packet, more, byte_ns, delay_ns]: Costs) -> Self {
        Self {
            send_ns: packet + more,
            receive_ns: packet,
            byte_ns,
            delay_ns,
        }
    }
}

/// How messages become packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packets {
    /// Bytes of the largest datagram.
    pub datagram: usize,
    /// Bytes of the largest message that is sent without asking.
    pub eager_limit: usize,
}

impl Packets {
    /// Bytes of an IP packet, for the simulator.
    pub(crate) fn mtu(&self) -> u32 {
        (self.datagram + HEADERS).min(65_535) as u32
    }
}

/// One-way time of a message of so many bytes between two processes of one host, µs.
pub(crate) fn one_way(packets: &Packets, host: &Host, bytes: usize) -> Result<f64, Failure> {
    let mut simulation = Simulation::new(2, 1);
    simulation.network = Network {
        // No wire lies between them.
        per_host: 2,
        local_delay: Duration::from_nanos(host.delay_ns.round() as u64),
        mtu: packets.mtu(),
        ..Network::default()
    };
    simulation.cpu = Cpu {
        send: host.send_ns,
        receive: host.receive_ns,
        byte: host.byte_ns,
        ..Cpu::default()
    };
    simulation.options.eager_limit = packets.eager_limit as u32;
    let program = move || -> Result<Vec<f64>, Box<dyn Error>> {
        let universe = mpi::initialize()?;
        let world = universe.world();
        let other = world.process_at_rank(1 - world.rank());
        let (own, mut theirs) = (vec![7_u8; bytes], vec![0_u8; bytes]);
        let mut times = Vec::new();
        for _ in 0..PING_PONGS.0 + PING_PONGS.1 {
            let begun = mpi::time();
            if world.rank() == 0 {
                other.send(&own[..])?;
                other.receive_into(&mut theirs[..])?;
            } else {
                other.receive_into(&mut theirs[..])?;
                other.send(&own[..])?;
            }
            times.push((mpi::time() - begun) * 1e6);
        }
        Ok(times.split_off(PING_PONGS.0))
    };
    let outcome = simulation.run(move |_| program().map_err(|error| error.to_string()));
    let outcome = outcome.map_err(|error| Failure::run(error.to_string()))?;
    let times = outcome.results.into_iter().next().unwrap_or_else(|| Ok(Vec::new()));
    let times = times.map_err(Failure::run)?;
    Ok(median(&times).unwrap_or_default() / 2.0)
}

/// A time that was measured, and by what it is simulated: so much anyway, and so often each of the costs.
#[derive(Clone, Copy, Debug)]
struct Equation {
    measured: f64,
    constant: f64,
    slopes: Costs,
}

impl Equation {
    /// How far it is off, relative to what was measured.
    fn error(&self, costs: &Costs) -> f64 {
        let sum: f64 = self.slopes.iter().zip(costs).map(|(slope, cost)| slope * cost).sum();
        (self.constant + sum) / self.measured - 1.0
    }

    /// The assumptions where the times do not tell: sending takes as long as receiving, and only cores take time.
    fn likely(times: &[(usize, f64)]) -> [Self; 2] {
        let lone = times.iter().map(|(_, micros)| micros * 1e3).fold(f64::MAX, f64::min);
        let measured = lone / LIKELY;
        [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]].map(|slopes| Self {
            measured,
            constant: measured,
            slopes,
        })
    }

    /// The linear equation that holds near `costs`, ns.
    fn near(
        costs: &Costs,
        measured: f64,
        mut simulated: impl FnMut(&Costs) -> Result<f64, Failure>,
    ) -> Result<Self, Failure> {
        let now = simulated(costs)?;
        let mut equation = Self {
            measured,
            constant: now,
            slopes: [0.0; 4],
        };
        for (index, slope) in equation.slopes.iter_mut().enumerate() {
            let mut more = *costs;
            more[index] += (costs[index] * 0.02).max(STEPS[index]);
            *slope = (simulated(&more)? - now) / (more[index] - costs[index]);
            equation.constant -= *slope * costs[index];
        }
        Ok(equation)
    }
}

/// Finds costs, none of them negative, that suit the measured times (bytes, µs) best, by what `simulated` gives, µs. Times
/// that are not positive are passed over.
pub(crate) fn fit(
    times: &[(usize, f64)],
    mut simulated: impl FnMut(&Host, usize) -> Result<f64, Failure>,
) -> Result<Host, Failure> {
    let valid = |(_, micros): &&(usize, f64)| micros.is_finite() && *micros > 0.0;
    let times: Vec<(usize, f64)> = times.iter().filter(valid).copied().collect();
    let (mut best, mut least) = ([0.0; 4], f64::INFINITY);
    for start in starts(&times) {
        let mut costs = start;
        for _ in 0..ROUNDS {
            let equations = times.iter().map(|&(bytes, micros)| {
                let time = |costs: &Costs| simulated(&Host::of(*costs), bytes).map(|micros| micros * 1e3);
                Equation::near(&costs, micros * 1e3, time)
            });
            let mut equations: Vec<Equation> = equations.collect::<Result<_, _>>()?;
            equations.extend(Equation::likely(&times));
            // At the place itself they are exact.
            let off = equations.iter().map(|equation| equation.error(&costs).abs()).sum();
            if off < least {
                (best, least) = (costs, off);
            }
            costs = solve(&equations);
        }
    }
    let Host {
        send_ns,
        receive_ns,
        byte_ns,
        delay_ns,
    } = Host::of(best);
    Ok(Host {
        send_ns: digits(send_ns),
        receive_ns: digits(receive_ns),
        byte_ns: digits(byte_ns),
        delay_ns: digits(delay_ns),
    })
}

/// Where to begin: what takes longest decides what counts where packets come one after the other.
fn starts(times: &[(usize, f64)]) -> Vec<Costs> {
    let (Some(&(_, least)), Some(&(bytes, most))) = (
        times.iter().min_by(|one, other| one.1.total_cmp(&other.1)),
        times.iter().max_by_key(|(bytes, _)| *bytes),
    ) else {
        return Vec::new();
    };
    let (lone, byte) = (least * 1e3, most * 1e3 / bytes.max(1) as f64);
    let parts: [[f64; 3]; STARTS] = [[0.25, 0.5, 0.0], [0.5, 0.0, 0.0], [0.1, 0.1, 0.8]];
    parts
        .map(|[packet, more, delay]| [lone * packet, lone * more, byte / 2.0, lone * delay])
        .to_vec()
}

/// Costs, none of them negative, with which the errors are least: their squares, but of large ones their sizes, so that one
/// size that was measured wrong does not decide.
fn solve(equations: &[Equation]) -> Costs {
    let mut weights = vec![1.0; equations.len()];
    let mut costs = [0.0; 4];
    for _ in 0..WEIGHINGS {
        costs = least_squares(equations, &weights);
        for (weight, equation) in weights.iter_mut().zip(equations) {
            *weight = 1.0 / equation.error(&costs).abs().max(USUAL_ERROR);
        }
    }
    costs
}

/// The same for squares with weights. Any of the costs may be zero: all cases are tried, those with fewer costs first,
/// since what few explain is not given to more.
fn least_squares(equations: &[Equation], weights: &[f64]) -> Costs {
    let off = |costs: &Costs| -> f64 {
        let squares = equations.iter().zip(weights);
        let squares = squares.map(|(equation, weight)| weight * equation.error(costs).powi(2));
        squares.sum()
    };
    let (mut best, mut least) = ([0.0; 4], off(&[0.0; 4]));
    let mut cases: Vec<u32> = (1..16).collect();
    cases.sort_by_key(|case| case.count_ones());
    for case in cases {
        let Some(costs) = normal(equations, weights, |index| case >> index & 1 == 1) else {
            continue;
        };
        let found = off(&costs);
        if costs.iter().all(|cost| *cost >= 0.0) && found < least * (1.0 - 1e-9) {
            (best, least) = (costs, found);
        }
    }
    best
}

/// Solves the normal equations for the costs that are `free`; the others are zero. `None`: there is no single solution.
fn normal(equations: &[Equation], weights: &[f64], free: impl Fn(usize) -> bool) -> Option<Costs> {
    // A row for each cost, and its right side behind.
    let mut rows = [[0.0; 5]; 4];
    for (equation, weight) in equations.iter().zip(weights) {
        let [a, b, c, d] = equation.slopes.map(|slope| slope / equation.measured);
        let y = 1.0 - equation.constant / equation.measured;
        for (row, left) in rows.iter_mut().zip([a, b, c, d]) {
            for (cell, right) in row.iter_mut().zip([a, b, c, d, y]) {
                *cell += weight * left * right;
            }
        }
    }
    let diagonal: [f64; 4] = std::array::from_fn(|index| rows[index][index]);
    for (index, row) in rows.iter_mut().enumerate().filter(|(index, _)| !free(*index)) {
        *row = [0.0; 5];
        row[index] = 1.0;
    }
    // Gauss and Jordan. What is positive definite needs no exchange of rows; where little is left, rows depend on others.
    for index in 0..4 {
        let pivot = rows[index][index];
        let enough = if free(index) { diagonal[index] * DEPENDENT } else { 0.0 };
        if pivot.is_nan() || pivot <= enough {
            return None;
        }
        rows[index] = rows[index].map(|cell| cell / pivot);
        let own = rows[index];
        for (_, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != index) {
            let factor = row[index];
            for (cell, own) in row.iter_mut().zip(own) {
                *cell -= factor * own;
            }
        }
    }
    Some(rows.map(|row| row[4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 10] = [8, 300, 700, 1_400, 4_000, 9_000, 20_000, 70_000, 300_000, 1_000_000];

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 0.05 * expected
    }

    /// Messages of so many packets that overlap, by hand, µs.
    fn pipeline(host: &Host, bytes: usize) -> f64 {
        let (packets, last) = (bytes.div_ceil(1_400).max(1), bytes.min(1_400) as f64);
        let (send, receive) = (
            host.send_ns + host.byte_ns * last,
            host.receive_ns + host.byte_ns * last,
        );
        (send + receive + (packets - 1) as f64 * send.max(receive) + host.delay_ns) / 1e3
    }

    fn found(host: &Host, change: impl Fn(usize, f64) -> f64) -> Host {
        let times = SIZES.map(|bytes| (bytes, change(bytes, pipeline(host, bytes))));
        fit(&times, |host, bytes| Ok(pipeline(host, bytes))).unwrap()
    }

    fn host(send_ns: f64, receive_ns: f64, byte_ns: f64, delay_ns: f64) -> Host {
        Host {
            send_ns,
            receive_ns,
            byte_ns,
            delay_ns,
        }
    }

    /// It is as fast at all sizes, and works as much for a small packet.
    fn is(found: &Host, expected: &Host) {
        for bytes in SIZES {
            let (found_time, time) = (pipeline(found, bytes), pipeline(expected, bytes));
            assert!(near(found_time, time), "{bytes}: {found_time}, not {time}; {found:?}");
        }
        let work = |host: &Host| host.send_ns + host.receive_ns;
        assert!(
            (work(found) - work(expected)).abs() <= 0.1 * work(expected).max(200.0),
            "{found:?}"
        );
    }

    #[test]
    fn costs_are_found_in_times_that_follow_from_them() {
        for expected in [
            host(1_500.0, 1_500.0, 0.1, 0.0),
            host(3_000.0, 800.0, 0.1, 0.0),
            host(2_000.0, 2_000.0, 0.3, 20_000.0),
            host(0.0, 0.0, 0.5, 0.0),
        ] {
            is(&found(&expected, |_, time| time), &expected);
        }
    }

    #[test]
    fn sizes_that_were_measured_wrong_do_not_decide() {
        let expected = host(2_000.0, 1_000.0, 0.2, 0.0);
        // Packets were lost; and another process had the core.
        let spoilt = |bytes, time| match bytes {
            1_000_000 => time * 4.0,
            1_400 => time * 1.5,
            _ => time,
        };
        is(&found(&expected, spoilt), &expected);
    }

    #[test]
    fn what_does_not_tell_enough_gives_costs_all_the_same() {
        let of = |times: &[(usize, f64)]| fit(times, |host, bytes| Ok(pipeline(host, bytes))).unwrap();
        let nothing = host(0.0, 0.0, 0.0, 0.0);
        assert_eq!(of(&[]), nothing);
        assert_eq!(
            of(&[(8, 0.0), (16, f64::NAN), (32, -1.0), (64, f64::INFINITY)]),
            nothing
        );
        for times in [
            // One size; the same twice; times that fall; no bytes; sizes that differ by nothing that counts.
            &[(8, 4.0)][..],
            &[(1_400, 4.0), (1_400, 4.0)],
            &[(8, 9.0), (1_000, 5.0), (1_400, 3.0)],
            &[(0, 4.0), (1_400, 4.0)],
            &[(8, 1e-3), (1_000_000, 1e9)],
        ] {
            let found = of(times);
            let costs = [found.send_ns, found.receive_ns, found.byte_ns, found.delay_ns];
            assert!(
                costs.iter().all(|cost| cost.is_finite() && *cost >= 0.0),
                "{times:?}: {found:?}"
            );
        }
        // What is alone is shared evenly.
        let lone = of(&[(8, 4.0)]);
        assert!(
            near(lone.send_ns + lone.receive_ns, 4_000.0) && lone.send_ns == lone.receive_ns,
            "{lone:?}"
        );
        // That a time cannot be simulated is told.
        assert!(fit(&[(8, 4.0)], |_, _| Err(Failure::run("no"))).is_err());
    }

    /// The simulator as the machine that is measured: with the packets of Ethernet and of the loopback interface.
    #[test]
    fn a_simulated_host_is_found_again() {
        for (datagram, eager_limit) in [(1_472, 64 << 10), (65_507, 64 << 10)] {
            let packets = Packets { datagram, eager_limit };
            let expected = host(1_800.0, 1_800.0, 0.15, 0.0);
            let time = |host: &Host, bytes| one_way(&packets, host, bytes);
            let sizes = [8, 1_000, 1_400, 8_000, 30_000, 100_000];
            let times = sizes.map(|bytes| (bytes, time(&expected, bytes).unwrap()));
            let found = fit(&times, time).unwrap();
            for (bytes, measured) in times {
                let ratio = time(&found, bytes).unwrap() / measured;
                assert!((0.97..1.03).contains(&ratio), "{bytes}: {ratio}, {found:?}");
            }
            assert!(near(found.send_ns + found.receive_ns, 3_600.0), "{found:?}");
        }
    }

    /// Two packets of 1,472 bytes, by hand: the second one is sent while the first one is received.
    #[test]
    fn packets_overlap() {
        let packets = Packets {
            datagram: 1_472,
            eager_limit: 64 << 10,
        };
        let time = |host: &Host, bytes| one_way(&packets, host, bytes).unwrap();
        for (bytes, micros) in [(8, 1.75), (2_000, 2.75)] {
            let found = time(&host(1_000.0, 500.0, 0.0, 250.0), bytes);
            assert!((found - micros).abs() < 1e-6, "{bytes}: {found}");
        }
    }
}
