//! Two endpoints by hand: no socket, no clock, no thread. What one polls out is handed in to the other, 25 µs later,
//! except every seventh datagram, which is lost. Prints what happens, in virtual time.
//!
//! ```sh
//! cargo run --example sans_io
//! ```

use std::{collections::VecDeque, net::SocketAddr};

use hikyaku::{
    Config, PeerId,
    messaging::{Messenger, SendOptions},
    reliability::{Burst, Endpoint, Limits, Payload},
    time::Instant,
};

/// Time on the way, ns.
const DELAY: u64 = 25_000;
const MESSAGES: u32 = 8;

struct Node {
    name: &'static str,
    address: SocketAddr,
    messenger: Messenger,
    peer: PeerId,
}

/// A datagram on the way.
struct Flying {
    arrives: Instant,
    from: SocketAddr,
    bytes: Vec<u8>,
}

fn node(name: &'static str, processor: u32, port: u16, other: (u32, u16)) -> Result<Node, Box<dyn std::error::Error>> {
    let limits = Limits {
        max_datagram: 1_472,
        max_segments: 1,
        max_batch: 1_472,
        receive_buffer: 1 << 20,
        holds_references: false,
        ack_bytes: usize::MAX,
        receive_port: 0,
    };
    // To be drawn at random, the key from a source of which nobody else knows what it gives; fixed here, so that each run is the same.
    let (epoch, key) = (u64::from(processor), 0x5eed + u128::from(processor));
    let endpoint = Endpoint::new(Config::default(), limits, epoch, key)?;
    let mut messenger = Messenger::new(endpoint, &[processor]);
    let peer = messenger.add_peer(SocketAddr::from(([127, 0, 0, 1], other.1)), other.0)?;
    Ok(Node {
        name,
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        messenger,
        peer,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut nodes = [node("alice", 1, 1_001, (2, 1_002))?, node("bob", 2, 1_002, (1, 1_001))?];
    let mut now = Instant::ZERO;
    let mut flying: VecDeque<Flying> = VecDeque::new();
    let mut burst = Burst::default();
    let (mut datagrams, mut received) = (0, 0);

    // 1. Commands.
    for number in 0..MESSAGES {
        let text = format!("message {number} ").repeat(1 + 150 * (number as usize % 3));
        let Node { messenger, peer, .. } = &mut nodes[0];
        messenger.send(now, *peer, &SendOptions::default(), Payload::Copy(text.as_bytes()))?;
    }
    while received < MESSAGES || !nodes[0].messenger.layer().all_idle() {
        for node in &mut nodes {
            // 2. Transmit until there is nothing more.
            while node.messenger.poll_transmit(now, &mut burst) {
                let mut bytes = Vec::new();
                node.messenger.gather(&burst, |slice| bytes.extend_from_slice(slice));
                datagrams += 1;
                let fate = if datagrams % 7 == 0 { "lost" } else { "" };
                println!("{now:?} {:5} sends {:4} bytes {fate}", node.name, bytes.len());
                if fate.is_empty() {
                    let (arrives, from) = (now.plus_nanos(DELAY), node.address);
                    flying.push_back(Flying { arrives, from, bytes });
                }
            }
            // 3. Events until there are none.
            while let Some(event) = node.messenger.poll_event() {
                println!("{now:?} {:5} {event:?}", node.name);
            }
        }
        // 4. Time goes on to what comes first: a datagram, or a deadline.
        let deadlines = nodes.iter().filter_map(|node| node.messenger.poll_timeout());
        let arrival = flying.front().map(|datagram| datagram.arrives);
        now = deadlines
            .chain(arrival)
            .min()
            .ok_or("nothing will ever happen")?
            .max(now);
        // 5. Datagrams are handed in before deadlines.
        while flying.front().is_some_and(|datagram| datagram.arrives <= now) {
            let Some(mut datagram) = flying.pop_front() else { break };
            let to = nodes.iter_mut().find(|node| node.address != datagram.from);
            let to = to.ok_or("there are two")?;
            let len = datagram.bytes.len();
            to.messenger
                .handle_datagrams(now, datagram.from, &mut datagram.bytes, len);
        }
        for node in &mut nodes {
            node.messenger.handle_timeout(now);
            // 6. Messages until there are none.
            while let Some(message) = node.messenger.receive() {
                let head = String::from_utf8_lossy(&message[..9]).into_owned();
                println!("{now:?} {:5} gets {head:?} ({} bytes)", node.name, message.len());
                received += 1;
            }
        }
    }
    let stats = nodes[0].messenger.layer().stats();
    println!("{datagrams} datagrams, {} of them sent again", stats.resends);
    Ok(())
}
