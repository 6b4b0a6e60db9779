//! Goodput over a veth pair between two namespaces, without loss and with it: `hikyaku bench bandwidth`.
//!
//! Each pair of runs is one without and one with loss, in alternating order, so that the ratio of a pair is of the same
//! minute of a shared machine. Loss is a rule of nftables at each end's input. It sees what the driver hands up, and a
//! burst that the sender's kernel has not split (GSO, TSO) crosses a veth pair as one packet: one drop would be up to
//! 64 KB. So both ends split before they send and do not coalesce before the rule; 1 % is of single datagrams.

use std::{
    io::{BufRead, BufReader},
    process::{self, Child, Command, Stdio},
};

use crate::shell::{self, Cmd};

const PAIRS: usize = 10;
const PERCENT: f64 = 1.0;
const TRANSPORTS: [&str; 2] = ["hikyaku/udp", "tcp"];
/// Of one run of the benchmark; it takes about two.
const LIMIT_S: u32 = 60;
const SPLIT: &str = "tx-udp-segmentation off tso off gso off gro off";

/// `args`: `--format json`, or nothing.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let json = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--format", "json"] => true,
        _ => return Err("the only option is --format json".to_owned()),
    };
    let obstacle = if shell::is_root() {
        shell::missing(&["ip", "nft", "ethtool", "taskset"])
    } else {
        Some("needs root".to_owned())
    };
    if let Some(why) = obstacle {
        eprintln!("skipped: {why}");
        return Ok(());
    }
    quietly(Cmd::parse("cargo build --quiet --release -p hikyaku-cli"))?;
    let network = Network::new()?;
    // Of each transport: goodput without and with loss, MB/s, one of each per pair.
    let mut pairs: [Vec<[f64; 2]>; 2] = Default::default();
    for number in 0..PAIRS {
        let mut both = [[0.0; 2]; 2];
        // Who goes first changes, lest one has the warmer machine.
        for lossy in [number % 2 == 1, number % 2 == 0] {
            network.lose(lossy)?;
            let speeds = network.bandwidth()?;
            for (transport, speed) in speeds.into_iter().enumerate() {
                both[transport][usize::from(lossy)] = speed;
            }
        }
        for (all, pair) in pairs.iter_mut().zip(both) {
            all.push(pair);
        }
        eprintln!("pair {} of {PAIRS}", number + 1);
    }
    drop(network);
    print(&pairs, json);
    Ok(())
}

fn print(pairs: &[Vec<[f64; 2]>; 2], json: bool) {
    let rows = TRANSPORTS.iter().zip(pairs).map(|(name, pairs)| {
        let column = |figure: fn(&[f64; 2]) -> f64| median(pairs.iter().map(figure).collect());
        let ratio = column(|pair| pair[1] / pair[0]);
        (name, column(|pair| pair[0]), column(|pair| pair[1]), ratio)
    });
    if json {
        let rows: Vec<String> = rows
            .map(|(name, without, with, ratio)| {
                format!(
                    "{{\"transport\":\"{name}\",\"size\":1048576,\"mb_per_s\":{without:.1},\
                     \"mb_per_s_with_loss\":{with:.1},\"ratio\":{ratio:.3}}}"
                )
            })
            .collect();
        println!(
            "{{\"benchmark\":\"veth-goodput\",\"mtu\":1500,\"loss_percent\":{PERCENT},\"pairs\":{PAIRS},\
             \"segmentation_offload\":false,\"rows\":[{}]}}",
            rows.join(",")
        );
        return;
    }
    println!("# 1 MB messages over a veth pair, MTU 1500, offloads off so that each datagram is lost by itself");
    println!("# {PAIRS} pairs of runs; loss is {PERCENT} % both ways; ratio: median of the pairs' ratios");
    println!("{:12} {:>10} {:>12} {:>6}", "", "MB/s", "with loss", "ratio");
    for (name, without, with, ratio) in rows {
        println!("{name:12} {without:10.1} {with:12.1} {ratio:6.2}");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        (values[middle - 1] + values[middle]) / 2.0
    } else {
        values[middle]
    }
}

/// Two namespaces and the pair between them; removed when dropped.
struct Network {
    names: [String; 2],
}

impl Network {
    fn new() -> Result<Self, String> {
        // As the tests name theirs, so that they remove what a killed run left behind.
        let names = ["a", "b"].map(|side| format!("hikyaku-{}-goodput-{side}", process::id()));
        let this = Self { names };
        let [a, b] = &this.names;
        for name in &this.names {
            quietly(Cmd::parse(&format!("ip netns add {name}")))?;
        }
        quietly(Cmd::parse(&format!(
            "ip link add veth0 mtu 1500 netns {a} type veth peer name veth0 mtu 1500 netns {b}"
        )))?;
        for (host, name) in (1..).zip(&this.names) {
            quietly(Cmd::parse(&format!(
                "ip -n {name} address add 10.77.0.{host}/24 dev veth0"
            )))?;
            quietly(Cmd::parse(&format!("ip -n {name} link set lo up")))?;
            quietly(Cmd::parse(&format!("ip -n {name} link set veth0 up")))?;
            quietly(Cmd::parse(&format!("ip netns exec {name} ethtool -K veth0 {SPLIT}")))?;
        }
        Ok(this)
    }

    /// Loss begins or ends, both ways.
    fn lose(&self, lossy: bool) -> Result<(), String> {
        for name in &self.names {
            let nft = |rule: &str| quietly(Cmd::parse(&format!("ip netns exec {name} nft")).args([rule]));
            nft("flush ruleset")?;
            if lossy {
                nft("add table inet loss")?;
                nft("add chain inet loss input { type filter hook input priority 0; }")?;
                nft("add rule inet loss input iifname veth0 meta l4proto { tcp, udp } numgen random mod 100 < 1 drop")?;
            }
        }
        Ok(())
    }

    /// One run; the goodput of each of [`TRANSPORTS`], MB/s.
    fn bandwidth(&self) -> Result<[f64; 2], String> {
        let program = shell::target_dir().join("release/hikyaku");
        let program = program.display();
        let [a, b] = &self.names;
        let last = std::thread::available_parallelism().map_or(0, |count| count.get() - 1);
        let line = format!("netns exec {b} taskset -c {last} {program} bench bandwidth --listen 10.77.0.2:7475");
        let mut listener = Listener::start(&line)?;
        listener.wait_until_ready()?;
        // Both ends take themselves for alone on their host, and would pin themselves to the same CPU.
        let output = Cmd::parse(&format!(
            "ip netns exec {a} taskset -c 0 {program} bench bandwidth --connect 10.77.0.2:7475 --sizes 1M --vs tcp \
             --rounds 1 --iterations 4 --format json"
        ))
        .limit_s(LIMIT_S)
        .output()
        .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = || {
            let error = String::from_utf8_lossy(&output.stderr);
            format!("no goodput: {}\n{text}{error}", output.status)
        };
        let speeds = TRANSPORTS.map(|transport| speed_of(&text, transport));
        match speeds {
            [Some(ours), Some(tcp)] => Ok([ours, tcp]),
            _ => Err(failed()),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Cmd::parse(&format!("ip netns del {name}")).output();
        }
    }
}

/// The answering end; killed when dropped.
struct Listener(Child);

impl Listener {
    fn start(line: &str) -> Result<Self, String> {
        let child = Command::new("ip")
            .args(line.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        child.map(Self).map_err(|error| error.to_string())
    }

    /// It says so in its first line.
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let mut lines = BufReader::new(self.0.stderr.take().expect("piped")).lines();
        let line = lines.next().and_then(Result::ok).unwrap_or_default();
        // What else it says must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        if line.contains("listening") { Ok(()) } else { Err(line) }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `mb_per_s` in the row of `transport`. The benchmark writes one row per transport, its name first.
fn speed_of(json: &str, transport: &str) -> Option<f64> {
    // With its colon: the value of another field is the same word.
    let row = json
        .split("\"transport\":")
        .skip(1)
        .find(|row| row.trim_start().starts_with(&format!("\"{transport}\"")))?;
    let (_, row) = row.split_once("\"mb_per_s\"")?;
    let number = row.trim_start_matches([':', ' ']);
    let end = number.find([',', '}', '\n', ' ']).unwrap_or(number.len());
    number[..end].parse().ok()
}

/// Runs what only configures or builds; the error has what it printed.
fn quietly(command: Cmd) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command}\n{}", String::from_utf8_lossy(&output.stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_the_rows_of_their_transports() {
        let json = "{\"rows\": [{\"transport\": \"hikyaku/udp\", \"level\": \"transport\", \"mb_per_s\": 12.5, \"x\": 1}, \
                    {\"transport\":\"tcp\",\"mb_per_s\":7}]}";
        assert_eq!(speed_of(json, "hikyaku/udp"), Some(12.5));
        assert_eq!(speed_of(json, "tcp"), Some(7.0));
        assert_eq!(speed_of(json, "udp"), None);
    }

    #[test]
    fn median_of_pairs() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
