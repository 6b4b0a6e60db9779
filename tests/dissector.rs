//! The Wireshark dissector says about every vector what this implementation says. Needs `tshark`.
#![cfg(feature = "std")]

#[path = "support/vectors.rs"]
mod vectors;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Write},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::Once,
};

use hikyaku::{
    backends::pcapng::Writer,
    time::Instant,
    wire::{Flags, Kind, Packet, checksum, pretty::Pretty},
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
    "session.index",
    "session.secret",
    "sequence",
    "acknowledgement",
    "payload_len",
    "rail",
    "message",
    "match",
    "immediate",
    "fragment.offset",
    "fragment.total",
    "placement.region",
    "placement.offset",
    "timestamp.value",
    "timestamp.echo",
    "credit.limit",
    "credit.window",
    "checksum",
    "checksum.status",
    "open.epoch",
    "open.token.index",
    "open.features",
    "open.token.secret",
    "open.limit",
    "open.window",
    "open.ack_delay",
    "open.max_datagram",
    "open.port",
    "sack.words",
    "sack.word",
    "seal.number",
    "seal.tag",
    "record.len",
    "record.flags",
    "record.match",
    "record.data",
    "payload",
];
const BASE_FIELDS: usize = 13;

/// Whether a tool of Wireshark is there; says so when it is not, past the test harness, which would swallow it.
fn has(tool: &str) -> bool {
    static SAID: Once = Once::new();
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        SAID.call_once(|| {
            let _ = writeln!(io::stderr(), "tests/dissector.rs skipped: {tool} is not installed");
        });
    }
    found
}

/// The vectors that make a datagram, in a capture of its own for every test.
fn capture(test: &str, port: u16) -> (Vec<Vector>, PathBuf) {
    let mut vectors = vectors::all();
    // Wireshark does not call dissectors for nothing.
    vectors.retain(|vector| !vector.bytes.is_empty());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.pcapng"));
    let mut writer = Writer::new(BufWriter::new(File::create(&path).unwrap())).unwrap();
    let source = SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000));
    let destination = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    for vector in &vectors {
        writer
            .datagram(Instant::ZERO, source, destination, &vector.bytes, Some(&vector.name))
            .unwrap();
    }
    writer.flush().unwrap();
    (vectors, path)
}

/// The output of tshark, line by line.
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
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(str::to_owned).collect()
}

/// The fields that tshark prints, frame by frame.
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
    if !has("tshark") {
        return;
    }
    let (vectors, capture) = capture("every_field", PORT);
    let names: Vec<String> = FIELDS.iter().map(|name| format!("hikyaku.{name}")).collect();
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
        match Packet::new_checked(&vector.bytes[..]) {
            Ok(packet) => {
                let mut expected: BTreeMap<String, String> = BTreeMap::new();
                for (name, value) in vectors::fields(&vector.bytes, &packet) {
                    assert!(FIELDS.contains(&&*name), "{name} is not compared");
                    expected
                        .entry(name)
                        .and_modify(|values| *values = format!("{values},{value}"))
                        .or_insert(value);
                }
                let expected: BTreeMap<&str, &str> = expected.iter().map(|(name, value)| (&**name, &**value)).collect();
                assert_eq!(shown, expected, "{}", vector.name);
            }
            // What is wrong is shown as far as it goes.
            Err(_) if shown.contains_key("channel") => {
                for (name, value) in &vector.fields[..BASE_FIELDS] {
                    assert_eq!(shown.get(&**name), Some(&&**value), "{}: {name}", vector.name);
                }
            }
            Err(_) => {}
        }
    }
}

#[test]
fn line_like_the_pretty_printer() {
    if !has("tshark") {
        return;
    }
    let (vectors, capture) = capture("line", PORT);
    let expected: Vec<String> = vectors.iter().map(|vector| Pretty(&vector.bytes).to_string()).collect();
    let columns = tshark(&capture, &["-o", r#"gui.column.format:"Info","%i""#]);
    assert_eq!(columns, expected);
}

#[test]
fn expert_information() {
    if !has("tshark") {
        return;
    }
    let (vectors, capture) = capture("expert", PORT);
    let fields = [
        "hikyaku.summary",
        "hikyaku.malformed",
        "hikyaku.checksum.bad",
        "hikyaku.reset",
        "hikyaku.refused",
        "hikyaku.no_room",
        "hikyaku.returned",
        "hikyaku.nack",
        // Mistakes of the dissector itself.
        "_ws.lua.error",
        "_ws.short",
    ];
    let frames = tshark_fields(&capture, &[], &fields);
    assert_eq!(frames.len(), vectors.len());
    for (frame, vector) in frames.iter().zip(&vectors) {
        assert_eq!(frame[0], Pretty(&vector.bytes).to_string());
        let shown: Vec<bool> = frame[1..].iter().map(|value| !value.is_empty()).collect();
        let packet = Packet::new_checked(&vector.bytes[..]).ok();
        let is = |what: fn(&Packet<&[u8]>) -> bool| packet.as_ref().is_some_and(what);
        let expected = [
            packet.is_none(),
            packet.is_some_and(|packet| !checksum::verify(&packet, &vector.bytes)),
            is(|packet| packet.kind() == Kind::Reset && packet.base().message.0 == 0),
            is(|packet| packet.kind() == Kind::Reset && packet.base().message.0 == 1),
            is(|packet| packet.kind() == Kind::Reset && packet.base().message.0 == 2),
            is(|packet| packet.kind() == Kind::Return),
            is(|packet| packet.flags().contains(Flags::NACK)),
            false,
            false,
        ];
        assert_eq!(shown, expected, "{}: {fields:?}", vector.name);
    }
}

/// Captures often keep only the first bytes of each packet.
#[test]
fn cut_short_by_the_capture() {
    if !has("tshark") || !has("editcap") {
        return;
    }
    let (vectors, whole) = capture("cut_short", PORT);
    for kept in [1, 44, 68] {
        let cut = whole.with_extension(format!("{kept}.pcapng"));
        let headers = 28;
        let made = Command::new("editcap")
            .args(["-s", &(headers + kept).to_string()])
            .args([&whole, &cut])
            .status();
        assert!(made.unwrap().success());
        let frames = tshark_fields(&cut, &[], &["hikyaku.summary", "_ws.lua.error"]);
        for (frame, vector) in frames.iter().zip(&vectors) {
            let name = &vector.name;
            let line = Pretty(&vector.bytes).to_string();
            // Nor is what depends on the rest shown: the checksum's correctness and the records.
            let known = |line: &str| {
                line.trim_end_matches(" bad crc")
                    .split(" records")
                    .next()
                    .map(str::to_owned)
            };
            let not_captured = format!("header not captured, {kept} bytes of {}", vector.bytes.len());
            // The contents of a bundle that is not there cannot be found wrong.
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
    if !has("tshark") {
        return;
    }
    let (vectors, capture) = capture("other_ports", OTHER_PORT);
    let seen = |args: &[&str]| -> Vec<bool> {
        let summaries = tshark_fields(&capture, args, &["hikyaku.summary"]);
        summaries.concat().iter().map(|summary| !summary.is_empty()).collect()
    };
    let valid: Vec<bool> = vectors.iter().map(|vector| vector.error.is_none()).collect();
    assert_eq!(seen(&[]), valid, "by their looks");
    let port = format!("hikyaku.port:{OTHER_PORT}");
    assert_eq!(
        seen(&["-o", &port]),
        vec![true; vectors.len()],
        "by the port that is set"
    );
}
