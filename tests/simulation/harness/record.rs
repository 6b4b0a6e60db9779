//! Writes down what happens, to be looked at: all packets for Wireshark, and what nodes are told as text.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    net::SocketAddr,
    path::Path,
};

use hikyaku::{backends::pcapng, reliability::Event, time::Instant};

pub(crate) struct Record {
    packets: pcapng::Writer<BufWriter<File>>,
    events: BufWriter<File>,
}

impl Record {
    pub(crate) fn create(directory: &Path) -> io::Result<Self> {
        let create = |name| Ok::<_, io::Error>(BufWriter::new(File::create(directory.join(name))?));
        Ok(Self {
            packets: pcapng::Writer::new(create("packets.pcapng")?)?,
            events: create("timeline.txt")?,
        })
    }

    pub(crate) fn packet(&mut self, now: Instant, from: SocketAddr, to: SocketAddr, bytes: &[u8], copies: usize) {
        let note = match copies {
            0 => Some("lost"),
            1 => None,
            _ => Some("comes more than once"),
        };
        if let Err(error) = self.packets.datagram(now, from, to, bytes, note) {
            panic!("writing packets: {error}");
        }
    }

    pub(crate) fn event(&mut self, now: Instant, node: usize, event: Event) {
        if let Err(error) = writeln!(self.events, "{now:?} node {node}: {event:?}") {
            panic!("writing the timeline: {error}");
        }
    }
}
