//! `hikyaku info`, run as people do: the inventory, where values come from, and what it says of mistakes.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hikyaku");

fn info(line: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("info").args(line.split_whitespace()).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HIKYAKU_")) {
        command.env_remove(name);
    }
    let variables = variables.iter().copied();
    command.envs(variables).output().expect("the command starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(line: &str, variables: &[(&str, &str)]) -> Value {
    let output = info(&format!("{line} --format json"), variables);
    assert!(output.status.success(), "{}", err(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Value and origin of a setting.
fn setting<'a>(document: &'a Value, name: &str) -> (&'a str, &'a str) {
    let all = document["settings"].as_array().expect("settings");
    let row = all.iter().find(|row| row["name"] == name).expect(name);
    (
        row["value"].as_str().expect("a value"),
        row["from"].as_str().expect("an origin"),
    )
}

#[test]
fn every_setting_has_a_value_and_an_origin() {
    let document = json("", &[]);
    assert_eq!(document["tool"], "info");
    assert_eq!(document["build"]["version"], env!("CARGO_PKG_VERSION"));
    let backends = document["build"]["backends"].as_array().expect("backends");
    assert!(backends.contains(&"udp".into()), "{document}");
    assert!(document["machine"]["cores"].as_u64() > Some(0), "{document}");
    assert_eq!(document["machine"]["local"]["address"], "127.0.0.1");
    assert!(
        document["machine"]["udp"]["receive_buffer"].as_u64() > Some(0),
        "{document}"
    );
    let all = document["settings"].as_array().expect("settings");
    for part in ["transport", "protocol", "dpdk", "poller", "mpi", "algorithms", "job"] {
        assert!(all.iter().any(|row| row["part"] == part), "{part}: {document}");
    }
    for row in all {
        assert!(!row["value"].as_str().expect("a value").is_empty(), "{row}");
        assert!(
            ["default", "job"].contains(&row["from"].as_str().expect("an origin")),
            "{row}"
        );
    }
    assert_eq!(setting(&document, "HIKYAKU_ACK_DELAY"), ("200us", "default"));
    assert_eq!(setting(&document, "HIKYAKU_WINDOW_BYTES"), ("1M", "default"));
    assert_eq!(setting(&document, "HIKYAKU_EAGER_LIMIT"), ("128K", "default"));
    assert_eq!(setting(&document, "HIKYAKU_ALLREDUCE"), ("auto", "default"));
    assert_eq!(setting(&document, "HIKYAKU_ROUTES"), ("auto", "default"));
    assert_eq!(document["machine"]["ranks_here"], "through memory");
    let copied = document["machine"]["copied_here"].as_str().expect("who copies");
    assert!(
        copied == "by the kernel" || copied.starts_with("by both ranks: "),
        "{copied}"
    );
    // Launchers and tests have set nothing.
    assert!(
        all.iter().all(|row| row["part"] != "rank" && row["part"] != "tests"),
        "{document}"
    );
}

#[test]
fn values_come_from_the_environment_and_from_the_job() {
    let set = [
        ("HIKYAKU_ACK_DELAY", "1500us"),
        ("HIKYAKU_WAIT", "block"),
        ("HIKYAKU_ALLREDUCE", "ring"),
        ("HIKYAKU_IFACE", "127.0.0.1"),
        ("HIKYAKU_JOB_KEY", "0123456789abcdef0123456789abcdef"),
    ];
    let document = json("-n 4096", &set);
    assert_eq!(setting(&document, "HIKYAKU_ACK_DELAY"), ("1.5ms", "environment"));
    assert_eq!(setting(&document, "HIKYAKU_WAIT"), ("block", "environment"));
    assert_eq!(setting(&document, "HIKYAKU_ALLREDUCE"), ("ring", "environment"));
    assert_eq!(setting(&document, "HIKYAKU_JOB_KEY"), ("(secret)", "environment"));
    assert_eq!(setting(&document, "HIKYAKU_UNEXPECTED_BYTES"), ("64K", "job"));
    assert_eq!(document["machine"]["remote"]["why"], "HIKYAKU_IFACE=127.0.0.1");
}

#[test]
fn tables_are_aligned_by_part() {
    let output = info("", &[]);
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    for title in ["build", "machine", "transport", "protocol", "mpi", "algorithms", "job"] {
        assert!(text.lines().any(|line| line == title), "{title}: {text}");
    }
    let protocol = text.lines().skip_while(|line| *line != "protocol").skip(1);
    let protocol: Vec<&str> = protocol.take_while(|line| !line.is_empty()).collect();
    assert_eq!(protocol.len(), 34, "{text}");
    let place = protocol[0].find("default").expect("an origin");
    assert!(
        protocol.iter().all(|line| line[place..].starts_with("default")),
        "{text}"
    );
    let detail = out(&info("rto", &[]));
    assert!(
        detail.contains("HIKYAKU_MIN_RTO (protocol): smallest retransmission time-out"),
        "{detail}"
    );
    assert!(
        detail.contains("takes  a time, 10us to 10s") && !detail.contains("HIKYAKU_WAIT"),
        "{detail}"
    );
}

/// The interfaces of this host, all of which are named. (A host that has loopback only shows its one row.)
#[test]
fn further_addresses_have_rows_of_their_own() {
    let document = json("", &[]);
    let mut named: Vec<(&str, &str)> = Vec::new();
    for interface in document["machine"]["interfaces"].as_array().expect("interfaces") {
        let [name, address] = ["name", "address"].map(|key| interface[key].as_str().expect(key));
        // An interface has one address; IPv4 if it has one. A seventh interface does not count.
        if !address.contains(':') && named.len() < 6 && named.iter().all(|(other, _)| *other != name) {
            named.push((name, address));
        }
    }
    let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
    let setting = names.join(",");
    let text = out(&info("", &[("HIKYAKU_IFACE", &setting)]));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for first in ["address, ranks here only", "address, several hosts"] {
        let at = lines.iter().position(|line| line.starts_with(first)).expect(&text);
        for (index, (name, address)) in named.iter().enumerate() {
            let is_first = index == 0;
            let begin = if is_first {
                first.to_owned()
            } else {
                format!("and {name} ")
            };
            let line = lines[at + index];
            assert!(
                line.starts_with(&begin) && line.contains(&format!(" {address}: HIKYAKU_IFACE={name}")),
                "{name}: {line}\n{text}"
            );
        }
        assert!(!lines[at + named.len()].starts_with("and "), "{text}");
    }
}

#[test]
fn all_mistakes_are_named() {
    let wrong = [
        ("HIKYAKU_ACK_DELEY", "1ms"),
        ("HIKYAKU_MIN_RTO", "soon"),
        ("HIKYAKU_KEEPALIVE", "2h"),
        ("HIKYAKU_BACKEND", "pigeon"),
        ("HIKYAKU_BCAST", "rings"),
        ("HIKYAKU_IFACE", "nowhere0"),
    ];
    let output = info("", &wrong);
    let said = err(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("did you mean HIKYAKU_ACK_DELAY?"), "{said}");
    for (name, value) in &wrong[1..] {
        assert!(said.contains(&format!("{name}={value}")), "{name}: {said}");
    }
    // The inventory is printed all the same.
    assert!(out(&output).contains("HIKYAKU_ACK_BYTES"), "{}", out(&output));
    let range = info("", &[("HIKYAKU_WINDOW_BYTES", "1G")]);
    assert_eq!(range.status.code(), Some(2));
    assert!(err(&range).contains("window_bytes"), "{}", err(&range));
    let nothing = info("carrier_pigeon", &[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(err(&nothing).contains("carrier_pigeon"), "{}", err(&nothing));
}

#[test]
fn its_help_teaches() {
    let help = out(&info("--help", &[]));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in [
        "Examples:",
        "environment",
        "job",
        "kernel",
        "--format",
        "hikyaku doctor",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
}
