//! The Wireshark dissector says about every vector what this implementation says. Needs `tshark`.
#![cfg(feature = "std")]

#[path = "support/vectors.rs"]
mod vectors;

use std::{
    collections::BTreeMap,
    fs::File,
    io::BufWriter,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

use hikyaku::{
    backends::pcapng::Writer,
    time::Instant,
    wire::{Packet, pretty::Pretty},
};
use vectors::Vector;

const PORT: u16 = 4810;
/// One that nothing else in Wireshark claims.
const OTHER_PORT: u16 = 47_999;

/// The fields that vectors name, without "hikyaku.".
const FIELDS: &[&str] = &[
    "version",
    "kind",
    "channel",
    "flags",
    "source",
    "destination",
    "session",
    "sequence",
    "acknowledgement",
    "payload_len",
    "reply_queue",
    "message",
    "match",
    "immediate",
    "fragment.offset",
    "fragment.total",
    "placement.landing",
    "placement.offset",
    "timestamp.value",
    "timestamp.echo",
    "credit.limit",
    "credit.window",
    "checksum",
    "checksum.status",
    "open.epoch",
    "open.token",
    "open.features",
    "open.limit",
    "open.window",
    "open.ack_delay",
    "open.max_datagram",
    "open.port",
    "sack.words",
    "sack.word",
    "record.len",
    "record.flags",
    "record.match",
    "record.data",
    "payload",
];
const BASE_FIELDS: usize = 12;

/// Says so once and gives `false` if there is no tshark.
fn has_tshark() -> bool {
    let found = Command::new("tshark").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: tshark is not installed");
    }
    found
}

/// The vectors that make a datagram, in a capture of its own for every test.
fn capture(test: &str, port: u16) -> (Vec<Vector>, PathBuf) {
    let mut vectors = vectors::all();
    // Wireshark does not call dissectors for nothing.
    vectors.retain(|vector| !vector.octets.is_empty());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.pcapng"));
    let mut writer = Writer::new(BufWriter::new(File::create(&path).unwrap())).unwrap();
    let source = SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000));
    let destination = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    for vector in &vectors {
        writer
            .datagram(
                Instant::ZERO,
                source,
                destination,
                &vector.octets,
                Some(&vector.name),
            )
            .unwrap();
    }
    writer.flush().unwrap();
    (vectors, path)
}

/// What tshark prints, line by line.
fn tshark(capture: &Path, args: &[&str]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/hikyaku.lua");
    let output = Command::new("tshark")
        // Neither preferences nor plugins of the user.
        .env(
            "WIRESHARK_CONFIG_DIR",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/wireshark"),
        )
        .arg("-n")
        .arg("-X")
        .arg(format!("lua_script:{}", script.display()))
        .arg("-r")
        .arg(capture)
        .args(args)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !errors.contains("Lua"),
        "{errors}"
    );
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(str::to_owned).collect()
}

/// What tshark prints of fields, frame by frame.
fn tshark_fields(capture: &Path, args: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
    let mut args = args.to_vec();
    args.extend([
        "-T",
        "fields",
        "-E",
        "separator=/t",
        "-E",
        "occurrence=a",
        "-E",
        "aggregator=,",
    ]);
    for field in fields {
        args.extend(["-e", field]);
    }
    tshark(capture, &args)
        .iter()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

#[test]
fn every_field_of_every_vector() {
    if !has_tshark() {
        return;
    }
    let (vectors, capture) = capture("every_field", PORT);
    let names: Vec<String> = FIELDS
        .iter()
        .map(|name| format!("hikyaku.{name}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let frames = tshark_fields(&capture, &[], &names);
    assert_eq!(frames.len(), vectors.len());
    for (frame, vector) in frames.iter().zip(&vectors) {
        let shown: BTreeMap<&str, &str> = FIELDS
            .iter()
            .copied()
            .zip(frame.iter().map(String::as_str))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        match Packet::new_checked(&vector.octets[..]) {
            Ok(packet) => {
                let mut expected: BTreeMap<String, String> = BTreeMap::new();
                for (name, value) in vectors::fields(&vector.octets, &packet) {
                    assert!(FIELDS.contains(&&*name), "{name} is not compared");
                    expected
                        .entry(name)
                        .and_modify(|values| *values = format!("{values},{value}"))
                        .or_insert(value);
                }
                let expected: BTreeMap<&str, &str> = expected
                    .iter()
                    .map(|(name, value)| (&**name, &**value))
                    .collect();
                assert_eq!(shown, expected, "{}", vector.name);
            }
            // What is wrong is shown as far as it goes.
            Err(_) if shown.contains_key("channel") => {
                for (name, value) in &vector.fields[..BASE_FIELDS] {
                    assert_eq!(
                        shown.get(&**name),
                        Some(&&**value),
                        "{}: {name}",
                        vector.name
                    );
                }
            }
            Err(_) => {}
        }
    }
}

#[test]
fn line_like_the_pretty_printer() {
    if !has_tshark() {
        return;
    }
    let (vectors, capture) = capture("line", PORT);
    let expected: Vec<String> = vectors
        .iter()
        .map(|vector| Pretty(&vector.octets).to_string())
        .collect();
    let summaries = tshark_fields(&capture, &[], &["hikyaku.summary"]);
    assert_eq!(summaries.concat(), expected);
    let columns = tshark(&capture, &["-o", r#"gui.column.format:"Info","%i""#]);
    assert_eq!(columns, expected);
}

#[test]
fn expert_information() {
    if !has_tshark() {
        return;
    }
    let (vectors, capture) = capture("expert", PORT);
    for (filter, expected) in [
        (
            "hikyaku.malformed",
            &(|vector: &Vector| vector.error.is_some()) as &dyn Fn(&Vector) -> bool,
        ),
        ("hikyaku.checksum.bad", &|vector| {
            vector.name == "data-checksum-wrong"
        }),
        ("hikyaku.reset", &|vector| {
            vector.error.is_none() && vector.name.starts_with("reset")
        }),
        ("hikyaku.nack", &|vector| {
            vector.error.is_none() && Pretty(&vector.octets).to_string().contains(" nack ")
        }),
        // Mistakes of the dissector itself.
        (
            "_ws.lua.error || _ws.short || (_ws.malformed && !hikyaku.malformed)",
            &|_| false,
        ),
    ] {
        let frames = tshark_fields(&capture, &["-Y", filter], &["frame.number"]).concat();
        let expected: Vec<String> = vectors
            .iter()
            .enumerate()
            .filter(|(_, vector)| expected(vector))
            .map(|(i, _)| (i + 1).to_string())
            .collect();
        assert_eq!(frames, expected, "{filter}");
    }
}

/// Captures often keep only the first octets of each packet.
#[test]
fn cut_short_by_the_capture() {
    if !has_tshark() {
        return;
    }
    let (vectors, whole) = capture("cut_short", PORT);
    for kept in [1, 36, 40, 60] {
        let cut = whole.with_extension(format!("{kept}.pcapng"));
        let headers = 28;
        let made = Command::new("editcap")
            .arg("-s")
            .arg((headers + kept).to_string())
            .args([&whole, &cut])
            .status();
        if made.is_err() {
            eprintln!("skipped: editcap is not installed");
            return;
        }
        let frames = tshark_fields(&cut, &[], &["hikyaku.summary", "_ws.lua.error"]);
        for (frame, vector) in frames.iter().zip(&vectors) {
            let name = &vector.name;
            let line = Pretty(&vector.octets).to_string();
            // Nor is what depends on the rest shown: the checksum's correctness and the records.
            let known = |line: &str| {
                line.trim_end_matches(" bad crc")
                    .split(" records")
                    .next()
                    .map(str::to_owned)
            };
            let not_captured = format!(
                "header not captured, {kept} octets of {}",
                vector.octets.len()
            );
            // The contents of a bundle that is not there can not be found wrong.
            let unknown = vector.error.as_deref() == Some("Bundle");
            let summary = &frame[0];
            assert!(
                unknown || known(summary) == known(&line) || *summary == not_captured,
                "{name}: {summary}"
            );
            assert_eq!(frame[1], "", "{name}");
        }
        assert_eq!(frames.len(), vectors.len());
    }
}

#[test]
fn other_ports() {
    if !has_tshark() {
        return;
    }
    let (vectors, capture) = capture("other_ports", OTHER_PORT);
    let seen = |args: &[&str]| -> Vec<bool> {
        let summaries = tshark_fields(&capture, args, &["hikyaku.summary"]);
        summaries
            .concat()
            .iter()
            .map(|summary| !summary.is_empty())
            .collect()
    };
    let valid: Vec<bool> = vectors
        .iter()
        .map(|vector| vector.error.is_none())
        .collect();
    assert_eq!(seen(&[]), valid, "by their looks");
    let port = format!("hikyaku.port:{OTHER_PORT}");
    assert_eq!(
        seen(&["-o", &port]),
        vec![true; vectors.len()],
        "by the port that is set"
    );
}
