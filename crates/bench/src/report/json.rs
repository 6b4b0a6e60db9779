//! Results for programs: one JSON object.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::machine::environment::Environment;

/// One line of results. What a benchmark does not measure is left out.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    /// Name of the transport.
    pub transport: String,
    /// `transport`, later `mpi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<&'static str>,
    /// The part of the benchmark, where it has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<&'static str>,
    /// The operation, where a benchmark has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<&'static str>,
    /// Bytes of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<usize>,
    /// Seed of the sizes, where they are drawn from a mix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Percent of them in each class of the mix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<[f64; 5]>,
    /// Ranks of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub np: Option<usize>,
    /// Network interfaces used at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rails: Option<usize>,
    /// How a collective was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// It was told to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced: Option<bool>,
    /// How far the cores were from each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<&'static str>,
    /// Time of a cache line between them, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_line_ns: Option<f64>,
    /// Rounds of this row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<usize>,
    /// Time of an operation, mean over ranks and iterations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg_us: Option<f64>,
    /// The same of the slowest rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_us: Option<f64>,
    /// Sending processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub senders: Option<usize>,
    /// Priority of the receiver, as against that of a process that computes on its CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<&'static str>,
    /// Nice values of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<[i32; 2]>,
    /// Median one-way time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// 99th percentile; of rounds: the longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// The shortest of all rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_us: Option<f64>,
    /// 10^6 bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mb_per_s: Option<f64>,
    /// Messages per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_s: Option<f64>,
    /// Wall time of the whole experiment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<f64>,
    /// CPU time per message, both ends together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_message: Option<f64>,
    /// CPU time per message of the sending side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_cpu_us_per_message: Option<f64>,
    /// CPU time per message of the receiving side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_cpu_us_per_message: Option<f64>,
    /// Nanoseconds per message (protocol core alone).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_message: Option<f64>,
    /// Nanoseconds per packet (protocol core alone).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_packet: Option<f64>,
    /// Nanoseconds per byte that is copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_byte: Option<f64>,
    /// Processors of the job (socket counts).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<usize>,
    /// Sockets in the process, counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<usize>,
    /// Peers of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peers: Option<usize>,
    /// Heap bytes per peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_peer: Option<f64>,
    /// Rounds in which something was lost; they count for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_rounds: Option<usize>,
    /// How often a rail was cut in each round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuts: Option<usize>,
    /// After a rail was cut, seconds until the others carried what they can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_s: Option<f64>,
    /// After it came back, seconds until all did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_s: Option<f64>,
    /// This row against others: median of the rounds' ratios.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ratio: BTreeMap<String, f64>,
}

/// The object.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Document {
    /// Name of the benchmark.
    pub benchmark: &'static str,
    /// Results.
    pub rows: Vec<Row>,
    /// What the paper has, where it can be compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paper: Vec<Row>,
    /// Where and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// On a busy machine: the part of the time for which an end waited for a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_busy: Option<f64>,
    /// Why rows are missing, and the last one has fewer rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Document {
    /// Without rows.
    pub(crate) const fn new(benchmark: &'static str, environment: Option<Environment>) -> Self {
        Self {
            benchmark,
            rows: Vec::new(),
            paper: Vec::new(),
            environment,
            machine_busy: None,
            failure: None,
        }
    }
}

/// Rounds a setting that was measured to what a measurement can tell: four significant digits. Results are not rounded.
pub(crate) fn digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits() {
        assert_eq!(digits(1234.567), 1235.0);
        assert_eq!(digits(0.012_345), 0.012_35);
        assert_eq!(digits(0.0), 0.0);
        assert_eq!(digits(3_987_654.0), 3_988_000.0);
    }

    #[test]
    fn rows_have_the_names_of_the_contract() {
        let row = Row {
            transport: "hikyaku/udp".into(),
            level: Some("transport"),
            size: Some(2048),
            p50_us: Some(2.5),
            p99_us: Some(4.0),
            ratio: BTreeMap::from([("tcp".into(), 0.5)]),
            ..Row::default()
        };
        let mut document = Document::new("latency", None);
        document.rows.push(row);
        let expected = serde_json::json!({"benchmark": "latency", "rows": [{
            "transport": "hikyaku/udp", "level": "transport", "size": 2048, "p50_us": 2.5, "p99_us": 4.0,
            "ratio": {"tcp": 0.5}}]});
        assert_eq!(serde_json::to_value(document).unwrap(), expected);
    }
}
