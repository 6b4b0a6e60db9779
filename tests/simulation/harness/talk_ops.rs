//! Operations on a pair of nodes that match messages, read from any bytes: what a fuzzer drives.

use std::time::Duration;

use super::{NodeOptions, World, ops::Reader, talk::Talk};

/// Beginnings of messages of the protocol itself: a request to send, a grant, an active message.
const CONTROL: [u8; 3] = [1, 2, 3];

/// One step: every byte means something.
fn step(talk: &mut Talk, reader: &mut Reader<'_>) {
    let code = reader.byte();
    let node = usize::from(code >> 7);
    let flags = if code & 64 == 64 { reader.byte() } else { 0 };
    let source = (flags & 1 == 1).then_some(usize::from(flags >> 1 & 1));
    let (bits, ignore) = (u64::from(flags >> 2 & 3), if flags & 16 == 16 { u64::MAX } else { 0 });
    match code & 15 {
        0..=3 => {
            let to = if flags & 32 == 32 { node } else { 1 - node };
            let len = reader.magnitude() as usize % 200_000;
            talk.send(node, to, bits, len, flags & 64 == 64);
        }
        4..=6 => {
            let room = reader.magnitude() as usize % 200_000;
            talk.receive(node, source, bits, ignore, room);
        }
        7 => talk.probe(node, talk.selector(source, bits, ignore)),
        8 => {
            let room = reader.magnitude() as usize % 200_000;
            talk.claim(node, talk.selector(source, bits, ignore), room);
        }
        9 => talk.receive_claimed(node),
        10 => talk.cancel(node, flags.into()),
        11 | 12 => talk.world.run_for(Duration::from_micros(reader.magnitude())),
        13 => {
            let link = &mut talk.world.network.usual;
            link.loss = u32::from(reader.byte());
            (link.duplicate, link.reorder) = (u32::from(flags), u32::from(reader.byte()));
            link.hold_back = reader.magnitude() * 1_000;
        }
        14 => talk.world.network.heal(),
        // Bytes that no honest peer sends, often nearly what one does.
        _ => {
            let mut bytes = reader.bytes().to_vec();
            if let Some(head) = bytes.first_chunk_mut::<4>()
                && flags & 128 == 0
            {
                *head = [CONTROL[usize::from(head[0]) % 3], 0, 0, 0];
            }
            talk.forge(node, 1 - node, &bytes);
        }
    }
}

/// Runs what the bytes mean, heals the network, and checks that everything ends well. Panics if not.
pub(crate) fn run(bytes: &[u8]) {
    let mut reader = Reader(bytes);
    let mut options = NodeOptions {
        config: reader.config(),
        ..NodeOptions::default()
    };
    options.eager_limit = Some(u32::from(reader.half()));
    let seed = bytes.iter().fold(bytes.len() as u64, |seed, byte| {
        seed.wrapping_mul(257) ^ u64::from(*byte)
    });
    let mut talk = Talk::new(World::pair(seed, &options));
    for _ in 0..300 {
        if reader.0.is_empty() {
            break;
        }
        step(&mut talk, &mut reader);
    }
    talk.finish();
}
