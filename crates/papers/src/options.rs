//! Options that experiments share, and what they say of the network.

use std::time::Duration;

use clap::Args;
use hikyaku::{
    mpi::collectives::Levels,
    sim::{Cpu, Network, Simulation},
};
use hikyaku_bench::{failure::Failure, report::Output};

/// Options of those that bring their own network.
#[derive(Clone, Debug, Args)]
pub(crate) struct Basics {
    /// Everything left to chance follows from this
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// The output.
    #[command(flatten)]
    pub output: Output,
}

/// Options of those on an ordinary network.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Bits per second of each wire
    #[arg(long, default_value_t = 10e9, value_name = "BITS")]
    pub bandwidth: f64,
    /// Bytes of an IP packet
    #[arg(long, default_value_t = 1_500, value_name = "N", value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub mtu: u32,
    /// Bytes that wait before each wire
    #[arg(long, default_value_t = 512 << 10, value_name = "N")]
    pub queue: u32,
    /// The part of packets that is lost on each wire, from 0 to 1; there are two from a host to another
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    pub loss: f64,
    /// Nanoseconds from one end of a wire to the other; there are two from a host to another on the same switch
    #[arg(long, default_value_t = 500, value_name = "NS", value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub delay: u64,
    /// Nanoseconds that a core takes to send or receive a packet, or SEND,RECEIVE (`hikyaku tune --sim`)
    #[arg(long, default_value = "300", value_name = "NS", value_parser = per_packet)]
    pub cpu_packet: PerPacket,
    /// The same for each byte
    #[arg(long, alias = "cpu-octet", default_value_t = 0.05, value_name = "NS")]
    pub cpu_byte: f64,
    /// Everything left to chance follows from this
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
}

/// Options of those whose ranks may share hosts.
#[derive(Clone, Debug, Args)]
pub(crate) struct Hosts {
    /// Ranks of each host, which reach each other through memory
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub per_host: u32,
    /// How collectives of ranks that share hosts go
    #[arg(long, value_enum, default_value = "leaders", value_name = "WAY")]
    levels: Way,
}

/// Within hosts and between them, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    /// As if each rank had a host of its own
    Off,
    /// One rank of each host talks with other hosts, wherever that can be
    Leaders,
    /// Each rank of a host talks with other hosts for its share, wherever that can be
    Shares,
}

impl Hosts {
    /// Puts the ranks of a job on hosts.
    pub(crate) fn apply(&self, simulation: &mut Simulation) {
        simulation.network.per_host = self.per_host;
        simulation.shared_memory = self.per_host > 1;
        simulation.options.policy.levels = match self.levels {
            Way::Off => Levels::Off,
            Way::Leaders => Levels::Leaders,
            Way::Shares => Levels::Shares,
        };
    }
}

/// Time of a core, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PerPacket {
    send: f64,
    receive: f64,
}

fn per_packet(text: &str) -> Result<PerPacket, String> {
    let number = |text: &str| {
        text.trim()
            .parse::<f64>()
            .map_err(|_| "write 300, or 400,200 (sent, received)")
    };
    let (send, receive) = text.split_once(',').unwrap_or((text, text));
    Ok(PerPacket {
        send: number(send)?,
        receive: number(receive)?,
    })
}

impl Basics {
    /// The note on a figure that says where it comes from.
    pub(crate) fn note(&self, network: &str) -> String {
        format!("simulated: {network}, seed {}", self.seed)
    }
}

impl Common {
    /// The job that they describe.
    pub(crate) fn job(&self, processes: u32) -> Result<Simulation, Failure> {
        let mut simulation = Simulation::new(processes, self.seed);
        simulation.network = self.network()?;
        simulation.cpu = Cpu {
            send: self.cpu_packet.send,
            receive: self.cpu_packet.receive,
            byte: self.cpu_byte,
            ..Cpu::default()
        };
        let valid = simulation.cpu.validate();
        valid.map_err(|error| Failure::usage(format!("--cpu-packet, --cpu-byte: {error}")))?;
        Ok(simulation)
    }

    /// The same for figures.
    pub(crate) fn note(&self) -> String {
        format!(
            "simulated: {} Gb/s, MTU {}, {} ns per wire, seed {}",
            self.bandwidth / 1e9,
            self.mtu,
            self.delay,
            self.seed
        )
    }

    /// The network that they describe.
    pub(crate) fn network(&self) -> Result<Network, Failure> {
        let network = Network {
            bandwidth: self.bandwidth,
            delay: Duration::from_nanos(self.delay),
            mtu: self.mtu,
            queue: self.queue,
            loss: self.loss,
            ..Network::default()
        };
        network.validate().map_err(|error| Failure::usage(error.to_string()))?;
        Ok(network)
    }
}
