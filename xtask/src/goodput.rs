//! Goodput over a veth pair between two namespaces, without loss and with it: `hikyaku bench bandwidth`.
//!
//! Runs without and with loss take turns, so that a ratio is of the same minute of a shared machine. Loss is a rule of nftables at each end's input. A rule costs CPU time for each
//! datagram whether it drops any or not (a tenth of the goodput here), so the run without loss has one too, which never
//! drops: what is compared is loss, not the firewall. A third run without any rule shows that cost. The rule sees what
//! the driver hands up, and a burst that the sender's kernel has not split (GSO, TSO) crosses a veth pair as one packet: one drop would be up to
//! 64 KB. So both ends split before they send and do not coalesce before the rule; 1 % is of single datagrams.

use std::{
    io::{BufRead, BufReader},
    process::{self, Child, Command, Stdio},
};

use crate::shell::{self, Cmd};

const TURNS: usize = 10;
const PERCENT: f64 = 1.0;
/// The treatment of incoming datagrams: no rule; a rule that drops none; the same rule dropping 1 %.
const RULES: [Option<&str>; 3] = [
    None,
    Some("numgen random mod 100 > 99 drop"),
    Some("numgen random mod 100 < 1 drop"),
];
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
    // Of each transport: goodput in each of `RULES`, MB/s, once per turn.
    let mut turns: [Vec<[f64; 3]>; 2] = Default::default();
    for number in 0..TURNS {
        let mut turn = [[0.0; 3]; 2];
        for step in 0..RULES.len() {
            // Who goes first changes, lest one has the warmer machine.
            let which = (number + step) % RULES.len();
            network.rule(RULES[which])?;
            let speeds = network.bandwidth()?;
            for (transport, speed) in speeds.into_iter().enumerate() {
                turn[transport][which] = speed;
            }
        }
        for (all, turn) in turns.iter_mut().zip(turn) {
            all.push(turn);
        }
        eprintln!("turn {} of {TURNS}", number + 1);
    }
    drop(network);
    print(&turns, json);
    Ok(())
}

fn print(turns: &[Vec<[f64; 3]>; 2], json: bool) {
    let rows = TRANSPORTS.iter().zip(turns).map(|(name, turns)| {
        let column = |figure: fn(&[f64; 3]) -> f64| median(turns.iter().map(figure).collect());
        let speeds = [column(|turn| turn[0]), column(|turn| turn[1]), column(|turn| turn[2])];
        (
            name,
            speeds,
            column(|turn| turn[2] / turn[1]),
            column(|turn| turn[2] / turn[0]),
        )
    });
    if json {
        let rows: Vec<String> = rows
            .map(|(name, [bare, without, with], ratio, to_bare)| {
                format!(
                    "{{\"transport\":\"{name}\",\"size\":1048576,\"mb_per_s_without_rule\":{bare:.1},\
                     \"mb_per_s\":{without:.1},\"mb_per_s_with_loss\":{with:.1},\"ratio\":{ratio:.3},\
                     \"ratio_to_no_rule\":{to_bare:.3}}}"
                )
            })
            .collect();
        println!(
            "{{\"benchmark\":\"veth-goodput\",\"mtu\":1500,\"loss_percent\":{PERCENT},\"turns\":{TURNS},\
             \"segmentation_offload\":false,\"rows\":[{}]}}",
            rows.join(",")
        );
        return;
    }
    println!("# 1 MB messages over a veth pair, MTU 1500, offloads off so that each datagram is lost by itself");
    println!("# MB/s; no loss: with a rule that drops nothing; loss: the same rule drops {PERCENT} % both ways");
    println!("# {TURNS} turns; ratio: loss to no loss, and to no rule at all; medians of the turns' ratios");
    println!(
        "{:12} {:>8} {:>8} {:>8} {:>6} {:>10}",
        "", "no rule", "no loss", "loss", "ratio", "to no rule"
    );
    for (name, [bare, without, with], ratio, to_bare) in rows {
        println!("{name:12} {bare:8.1} {without:8.1} {with:8.1} {ratio:6.2} {to_bare:10.2}");
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

    /// Both ends' input gets this rule and no other.
    fn rule(&self, rule: Option<&str>) -> Result<(), String> {
        for name in &self.names {
            let nft = |rule: &str| quietly(Cmd::parse(&format!("ip netns exec {name} nft")).args([rule]));
            nft("flush ruleset")?;
            if let Some(rule) = rule {
                nft("add table inet loss")?;
                nft("add chain inet loss input { type filter hook input priority 0; }")?;
                nft(&format!("add rule inet loss input {rule}"))?;
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
    fn median_of_turns() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
