//! Checks any bytes. The fuzz targets call these functions, too.

use hikyaku::wire::{Error, Header, MAX_HEADER_LEN, Packet, Record, Records, checksum, pretty::Pretty};

/// Bytes that are a packet say the same when they are read and written again.
pub(crate) fn header(bytes: &[u8]) {
    let Ok(packet) = Packet::new_checked(bytes) else {
        return;
    };
    let header = Header::parse(&packet);
    assert_eq!(header.len(), packet.header_len());
    assert!(header.len() <= MAX_HEADER_LEN);
    let mut again = vec![0xa5; bytes.len()];
    let len = header.emit(packet.payload().len() as u16, &mut again);
    assert_eq!(len, header.len());
    again[len..].copy_from_slice(packet.payload());
    assert_eq!(again, bytes);
}

/// Nothing that looks at bytes panics, and all that look agree about them.
pub(crate) fn packet(bytes: &[u8]) {
    let line = Pretty(bytes).to_string();
    assert!(!line.contains('\n'));
    records(Records::new(bytes), bytes);
    match Packet::new_checked(bytes) {
        Ok(packet) => valid(bytes, &packet, &line),
        Err(error) => {
            assert_eq!(line, format!("malformed, {} bytes: {error}", bytes.len()));
            if let Error::Truncated { need, have } = error {
                assert!(have == bytes.len() && have < need);
            }
        }
    }
}

fn valid(bytes: &[u8], packet: &Packet<&[u8]>, line: &str) {
    assert_eq!(packet.header_len() + packet.payload().len(), bytes.len());
    assert_eq!(packet.into_payload(), packet.payload());
    assert!(packet.kind().is_sequenced() || packet.records().next().is_none());
    let bundle = packet.records();
    if bundle.clone().next().is_some() {
        assert_eq!(records(bundle, packet.payload()), packet.payload().len());
    }
    let right = checksum::verify(packet, bytes);
    assert_eq!(line.ends_with(" bad crc"), !right);
    let mut filled = bytes.to_vec();
    checksum::fill(&mut filled);
    assert_eq!(filled == bytes, right);
    let packet = Packet::new_checked(&filled[..]).expect("only the checksum has changed");
    assert!(checksum::verify(&packet, &filled));
    let Some(at) = packet.checksum_offset() else {
        return;
    };
    let (head, tail) = filled.split_at(packet.header_len());
    let pieces = tail.chunks(7);
    assert_eq!(Some(checksum::compute(head, at, pieces)), packet.checksum());
}

/// Writes the records that can be read again; they are what `bytes` begin with. Gives their length.
fn records(records: Records<'_>, bytes: &[u8]) -> usize {
    let mut again = vec![0xa5; bytes.len()];
    let mut at = 0;
    for record in records {
        let len = record.emit(&mut again[at..]);
        assert_eq!(len, record.len());
        assert_eq!(Record::split(&again[at..at + len]), Ok((record, &[][..])));
        at += len;
    }
    assert_eq!(again[..at], bytes[..at]);
    at
}
