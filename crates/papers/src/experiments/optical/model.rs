//! The formulas of the optics paper (section 3, equations 1 to 8), and a network on which their assumptions hold.

use std::time::Duration;

use hikyaku::{
    Config, Congestion,
    mpi::collectives::Algorithm,
    sim::{Change, Cpu, Handling, Network, Optics, Simulation, Topology},
};

/// α, β and γ, in seconds, and the parameters that the paper does not have.
#[derive(Clone, Debug)]
pub(super) struct Parameters {
    pub(super) alpha: f64,
    pub(super) beta: f64,
    pub(super) gamma: f64,
    pub(super) spread: f64,
    pub(super) wavelengths: Option<u32>,
    pub(super) failure: f64,
    pub(super) changes: Vec<Change>,
    pub(super) seed: u64,
}

/// A way to handle connections, by the contract's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) name: &'static str,
    pub(super) ports: Option<u32>,
    /// `None`: connections are there and cost nothing.
    pub(super) handling: Option<Handling>,
}

impl Mode {
    pub(super) const NAIVE: Self = Self {
        name: "naive",
        ports: None,
        handling: Some(Handling::Naive),
    };
    pub(super) const IDEAL: Self = Self {
        name: "ideal",
        ports: None,
        handling: None,
    };

    pub(super) fn planned(ports: u32) -> Self {
        Self {
            name: "planned",
            ports: Some(ports),
            handling: Some(Handling::Planned),
        }
    }

    pub(super) fn all(ports: &[u32]) -> Vec<Self> {
        let planned = ports.iter().map(|ports| Self::planned(*ports));
        [Self::NAIVE].into_iter().chain(planned).chain([Self::IDEAL]).collect()
    }

    /// How a column or a curve is called.
    pub(super) fn label(&self) -> String {
        self.ports
            .map_or_else(|| self.name.into(), |ports| format!("{ports} ports"))
    }
}

/// The paper's formula for `p` ranks and `n` bytes.
pub(super) fn closed_form(algorithm: Algorithm, p: u32, n: f64, mode: &Mode, parameters: &Parameters) -> f64 {
    let Parameters { alpha, beta, gamma, .. } = *parameters;
    let ports = mode.ports.unwrap_or(1);
    let others = f64::from(p - 1);
    let log = f64::from(p).log2().ceil();
    let share = n / f64::from(p);
    // Time without connections, and how many are set up one after the other: for each message, or for `peers` of them.
    let (transfer, messages, peers) = match algorithm {
        Algorithm::Linear => (others * (alpha + n * beta), others, others),
        Algorithm::Ring => (others * (alpha + share * beta), others, 2.0),
        Algorithm::RecursiveDoubling => (log * alpha + others * share * beta, log, log),
        _ => (log * (alpha + n * beta), log, log),
    };
    match (mode.handling, algorithm) {
        (None, _) => transfer,
        // Even ranks send first, then odd ones.
        (Some(Handling::Naive), Algorithm::Ring) => 2.0 * (transfer + messages * gamma),
        (Some(_), Algorithm::Ring) if ports == 1 => 2.0 * (transfer + messages * gamma),
        (Some(Handling::Naive), _) => transfer + messages * gamma,
        (Some(_), _) => transfer + (peers / f64::from(ports)).ceil() * gamma,
    }
}

/// Puts circuits into a simulation, in place of its switches.
pub(crate) fn circuits(simulation: &mut Simulation, ports: u32, setup: Duration, handling: Handling) {
    simulation.network.topology = Topology::Direct;
    be_patient(&mut simulation.config);
    // A connection ends with the last acknowledgement.
    simulation.config.ack_delay = Duration::from_micros(10);
    simulation.optics = Some(Optics {
        ports,
        setup,
        handling,
        ..Optics::default()
    });
}

/// A packet that waits for a connection, or behind others, is not lost: nothing is sent again meanwhile.
fn be_patient(config: &mut Config) {
    const LONG: Duration = Duration::from_secs(10);
    (config.initial_rto, config.min_rto, config.max_rto) = (LONG, LONG, LONG);
    (config.death_timeout, config.open_timeout) = (100 * LONG, 100 * LONG);
}

/// The assumption of the formulas: a message takes α + nβ of its host, and nothing else takes any time.
pub(super) fn simulation(ranks: u32, mode: &Mode, parameters: &Parameters) -> Simulation {
    let mut simulation = Simulation {
        network: Network {
            topology: Topology::Direct,
            bandwidth: 8.0 / parameters.beta,
            delay: Duration::from_nanos(100),
            gap: Duration::from_secs_f64(parameters.alpha),
            mtu: 65_535,
            framing: 0,
            queue: 1 << 30,
            ..Network::default()
        },
        cpu: Cpu::FREE,
        ..Simulation::new(ranks, parameters.seed)
    };
    let config = &mut simulation.config;
    be_patient(config);
    (config.congestion, config.window_bytes) = (Congestion::Fixed, 64 << 20);
    (config.unexpected_bytes, config.send_queue_bytes) = (1 << 30, 1 << 30);
    // A whole message waits for its connection, not a part of each of several.
    simulation.receive_buffer = 128 << 20;
    // Asking first would be messages of their own.
    simulation.options.eager_limit = hikyaku::mpi::engine::Options::MAX_EAGER_LIMIT;
    if let Some(handling) = mode.handling {
        let gamma = Duration::from_secs_f64(parameters.gamma);
        circuits(&mut simulation, mode.ports.unwrap_or(1), gamma, handling);
    }
    if let Some(optics) = &mut simulation.optics {
        (optics.wavelengths, optics.failure) = (parameters.wavelengths, parameters.failure);
        optics.spread = Duration::from_secs_f64(parameters.spread);
        optics.changes.clone_from(&parameters.changes);
    }
    simulation
}
