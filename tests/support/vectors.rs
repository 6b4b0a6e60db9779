//! Reads `tests/vectors`, and says about any packet what they say about theirs.

use std::{fs, path::Path};

use hikyaku::wire::{Flags, Header, Packet, RECORD_LEN, VERSION, checksum};

/// A named value of a packet, printed.
pub(crate) type Field = (String, String);

/// One file.
#[derive(Debug)]
pub(crate) struct Vector {
    /// File name without extension.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// The meanings of the lines, from first to last.
    pub(crate) fields: Vec<Field>,
    /// Why it is not a packet, if it is none.
    pub(crate) error: Option<String>,
}

/// All vectors, by name.
pub(crate) fn all() -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut vectors: Vec<Vector> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "hex"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            read(name, &fs::read_to_string(&path).unwrap())
        })
        .collect();
    assert!(!vectors.is_empty());
    vectors.sort_by(|a, b| a.name.cmp(&b.name));
    vectors
}

fn read(name: String, text: &str) -> Vector {
    let mut vector = Vector {
        name,
        bytes: Vec::new(),
        fields: Vec::new(),
        error: None,
    };
    for line in text.lines() {
        let content = line.split_once('#').map_or(line, |(content, _)| content);
        if let Some(error) = content.strip_prefix("error = ") {
            vector.error = Some(error.trim().to_owned());
            continue;
        }
        let mut parts = content.split(';');
        let digits: String = parts.next().unwrap().split_whitespace().collect();
        vector.bytes.extend(bytes(&digits));
        for field in parts.map(str::trim).filter(|field| !field.is_empty()) {
            let (name, value) = field
                .split_once(" = ")
                .unwrap_or_else(|| panic!("{}: {line}", vector.name));
            vector.fields.push((name.to_owned(), value.to_owned()));
        }
    }
    vector
}

fn bytes(digits: &str) -> Vec<u8> {
    assert_eq!(digits.len() % 2, 0, "{digits}");
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The fields of a packet, in the order of its bytes.
pub(crate) fn fields(bytes: &[u8], packet: &Packet<&[u8]>) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut add = |name: &str, value: String| fields.push((name.to_owned(), value));
    let header = Header::parse(packet);
    let base = header.base;
    add("version", VERSION.to_string());
    add("kind", (base.kind as u8).to_string());
    add("channel", base.channel.to_string());
    add("flags", format!("{:#06x}", packet.flags()));
    add("source", base.source.to_string());
    add("destination", base.destination.to_string());
    add("session.index", base.session.index.to_string());
    add("session.secret", format!("{:#018x}", base.session.secret));
    add("sequence", base.sequence.to_string());
    add("acknowledgement", base.acknowledgement.to_string());
    add("payload_len", packet.payload().len().to_string());
    add("rail", base.rail.to_string());
    add("message", base.message.to_string());
    if let Some(bits) = header.match_bits {
        add("match", format!("{bits:#018x}"));
    }
    if let Some(data) = header.immediate {
        add("immediate", format!("{data:#018x}"));
    }
    if let Some(fragment) = header.fragment {
        add("fragment.offset", fragment.offset.to_string());
        add("fragment.total", fragment.total.to_string());
    }
    if let Some(placement) = header.placement {
        add("placement.region", placement.region.to_string());
        add("placement.offset", placement.offset.to_string());
    }
    if let Some(timestamp) = header.timestamp {
        add("timestamp.value", timestamp.value.to_string());
        add("timestamp.echo", timestamp.echo.to_string());
    }
    if let Some(credit) = header.credit {
        add("credit.limit", credit.limit.to_string());
        add("credit.window", credit.window.to_string());
    }
    if let Some(crc) = header.checksum {
        add("checksum", format!("{crc:#010x}"));
        let right = checksum::verify(packet, bytes);
        add("checksum.status", u8::from(right).to_string());
    }
    if let Some(open) = header.open {
        add("open.epoch", format!("{:#018x}", open.epoch));
        add("open.token.index", open.token.index.to_string());
        add("open.features", format!("{:#010x}", open.features));
        add("open.token.secret", format!("{:#018x}", open.token.secret));
        add("open.limit", open.credit.limit.to_string());
        add("open.window", open.credit.window.to_string());
        add("open.ack_delay", open.ack_delay.to_string());
        add("open.max_datagram", open.max_datagram.to_string());
        add("open.port", open.port.to_string());
    }
    if !header.sack.is_empty() {
        add("sack.words", header.sack.len().to_string());
    }
    for word in &*header.sack {
        add("sack.word", format!("{word:#018x}"));
    }
    if let Some(seal) = header.seal {
        add("seal.number", seal.number.to_string());
        add("seal.tag", digits(&seal.tag));
    }
    for record in packet.records() {
        add("record.len", record.data.len().to_string());
        let flags = record.len() - record.data.len() > RECORD_LEN;
        add("record.flags", format!("{:#06x}", u16::from(flags)));
        if let Some(bits) = record.match_bits {
            add("record.match", format!("{bits:#018x}"));
        }
        if !record.data.is_empty() {
            add("record.data", digits(record.data));
        }
    }
    let opaque = !packet.flags().contains(Flags::BUNDLE) || packet.flags().contains(Flags::SEAL);
    if opaque && !packet.payload().is_empty() {
        add("payload", digits(packet.payload()));
    }
    fields
}
