//! Bare UDP: the wall that a protocol over datagrams runs towards. Nothing is sent again; a round with a loss is void.
//!
//! Ping-pongs use an unconnected socket, one `sendto` and one `recvfrom` a message; messages larger than a datagram
//! and streams use a second socket with segmentation and receive offload, paced by a window in flight.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
};

use rustix::net::{recvfrom, sendto};

use crate::transports::{
    link::{Hub, Spoke},
    segments::{Assembly, HEADER, Layout, MAX_BATCH, Sender, header, open_socket, parse_header},
    settings::{Offer, Settings, Wait},
    sizes::{Messages, Sizes},
    timeout::timed_out,
    wait::Attempt,
};

/// Bytes in flight from all spokes together: enough to keep both ends busy, little enough for any socket buffer.
const IN_FLIGHT: usize = 292_000;
/// The buffer of a receive call.
const RECEIVE: usize = 64 * 1024;

/// The two sockets of an end.
struct Sockets {
    plain: UdpSocket,
    bulk: UdpSocket,
    wait: Wait,
    datagram: usize,
    /// Larger messages go as several datagrams.
    plain_limit: usize,
    /// The layout that segmentation offload is set to.
    layout: Option<Layout>,
}

impl Sockets {
    fn open(settings: &Settings, local: IpAddr) -> io::Result<Self> {
        let any = SocketAddr::new(local, 0);
        let (plain, bulk) = (open_socket(any, false)?, open_socket(any, true)?);
        let plain_limit = if settings.datagram_forced {
            settings.datagram
        } else {
            MAX_BATCH
        };
        Ok(Self {
            plain,
            bulk,
            wait: settings.wait,
            datagram: settings.datagram,
            plain_limit,
            layout: None,
        })
    }

    fn offer(&self) -> io::Result<Offer> {
        Ok(Offer {
            addresses: vec![self.plain.local_addr()?, self.bulk.local_addr()?],
            extra: Vec::new(),
        })
    }

    /// How messages of this size travel; switches offload when the size changes.
    fn layout(&mut self, size: usize) -> Layout {
        match self.layout {
            Some(layout) if layout.message == size => layout,
            _ => {
                let mut layout = Layout::new(size, self.datagram);
                layout.prepare(&self.bulk);
                *self.layout.insert(layout)
            }
        }
    }

    fn send_plain(&self, to: SocketAddr, message: &[u8]) -> io::Result<()> {
        self.wait
            .until(|attempt| sendto(&self.plain, message, attempt.send(), &to))
            .map(drop)
    }

    fn receive_from(&self, socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.wait.until(|attempt| receive_once(socket, buffer, attempt))
    }

    /// Sends one message as datagrams, without acknowledgements.
    fn send_segments(&mut self, sender: &mut Sender, to: SocketAddr, message: &[u8], run: u32) -> io::Result<()> {
        let layout = self.layout(message.len());
        let mut next = 0;
        while next < layout.datagrams(1) {
            next += sender.send_batch((&self.bulk, to, self.wait), &layout, message, run, (next, 1))?;
        }
        Ok(())
    }

    /// Empties both sockets.
    fn drain(&self, buffer: &mut [u8]) {
        for socket in [&self.plain, &self.bulk] {
            while receive_once(socket, buffer, Attempt::Now).is_ok() {}
        }
    }
}

fn receive_once(socket: &UdpSocket, buffer: &mut [u8], attempt: Attempt) -> rustix::io::Result<(usize, SocketAddr)> {
    let (_, got, from) = recvfrom(socket, buffer, attempt.receive())?;
    let from = from
        .and_then(|from| from.try_into().ok())
        .ok_or(rustix::io::Errno::AFNOSUPPORT)?;
    Ok((got, from))
}

/// One spoke as the hub sees it.
struct Lane {
    plain: SocketAddr,
    bulk: SocketAddr,
    assembly: Assembly,
    /// Datagrams since the last acknowledgement.
    unacknowledged: usize,
}

/// The answering end.
pub(crate) struct UdpHub {
    sockets: Sockets,
    lanes: Vec<Lane>,
    sender: Sender,
    buffer: Vec<u8>,
}

impl UdpHub {
    /// Binds the sockets to ports that the system chooses.
    pub(crate) fn open(settings: &Settings, local: IpAddr) -> io::Result<Self> {
        let sockets = Sockets::open(settings, local)?;
        Ok(Self {
            sockets,
            lanes: Vec::new(),
            sender: Sender::default(),
            buffer: vec![0; RECEIVE],
        })
    }

    fn lane(&self, from: SocketAddr) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.bulk == from)
    }

    fn prepare(&mut self, layout: &Layout) {
        for lane in &mut self.lanes {
            lane.assembly.prepare(layout);
            lane.unacknowledged = 0;
        }
    }

    fn echo_segments(&mut self, size: usize, count: usize) -> io::Result<()> {
        let layout = self.sockets.layout(size);
        let whole = layout.datagrams(1);
        self.prepare(&layout);
        let mut echoed = 0;
        while echoed < count {
            let (got, from) = self.sockets.receive_from(&self.sockets.bulk, &mut self.buffer)?;
            let Some(index) = self.lane(from) else { continue };
            let lane = &mut self.lanes[index];
            lane.assembly.place(&layout, &self.buffer[..got], whole)?;
            if lane.assembly.received == whole {
                let (message, run) = (&lane.assembly.message, lane.assembly.run);
                self.sockets.send_segments(&mut self.sender, lane.bulk, message, run)?;
                lane.assembly.received = 0;
                echoed += 1;
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, index: usize) -> io::Result<()> {
        let lane = &mut self.lanes[index];
        lane.unacknowledged = 0;
        let ack = header(lane.assembly.run, lane.assembly.received as u32);
        self.sockets
            .wait
            .until(|attempt| sendto(&self.sockets.bulk, &ack, attempt.send(), &lane.bulk))
            .map(drop)
    }
}

impl Hub for UdpHub {
    fn offer(&self) -> io::Result<Offer> {
        self.sockets.offer()
    }

    fn join(&mut self, spoke: &Offer) -> io::Result<()> {
        let [plain, bulk] = spoke.addresses[..] else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.lanes.push(Lane {
            plain,
            bulk,
            assembly: Assembly::default(),
            unacknowledged: 0,
        });
        Ok(())
    }

    fn echo(&mut self, sizes: &Sizes, count: usize, _spokes: usize) -> io::Result<()> {
        let size = sizes.same()?;
        if size > self.sockets.plain_limit {
            return self.echo_segments(size, count);
        }
        let mut echoed = 0;
        while echoed < count {
            let (got, from) = self.sockets.receive_from(&self.sockets.plain, &mut self.buffer)?;
            if got == size && self.lanes.iter().any(|lane| lane.plain == from) {
                self.sockets.send_plain(from, &self.buffer[..got])?;
                echoed += 1;
            }
        }
        Ok(())
    }

    fn sink(&mut self, sizes: &Sizes, window: usize, count: usize, spokes: usize) -> io::Result<()> {
        let size = sizes.same()?;
        let layout = self.sockets.layout(size);
        let (whole, quota) = (layout.datagrams(window), budget(&layout, spokes) / 2);
        self.prepare(&layout);
        let mut left = count / window;
        while left > 0 {
            // The first call may wait; then takes what is there, and acknowledges once for the whole burst.
            let mut first = true;
            loop {
                let got = if first {
                    self.sockets.receive_from(&self.sockets.bulk, &mut self.buffer)?
                } else {
                    match receive_once(&self.sockets.bulk, &mut self.buffer, Attempt::Now) {
                        Ok(got) => got,
                        Err(_) => break,
                    }
                };
                first = false;
                let Some(index) = self.lane(got.1) else { continue };
                let lane = &mut self.lanes[index];
                let before = if lane.assembly.received == whole {
                    0
                } else {
                    lane.assembly.received
                };
                lane.assembly.place(&layout, &self.buffer[..got.0], whole)?;
                lane.unacknowledged += lane.assembly.received.saturating_sub(before);
                let complete = lane.assembly.received == whole;
                if complete {
                    left -= 1;
                }
                if complete || lane.unacknowledged >= quota {
                    self.acknowledge(index)?;
                    break;
                }
            }
            for index in 0..spokes {
                if self.lanes[index].unacknowledged > 0 {
                    self.acknowledge(index)?;
                }
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> io::Result<()> {
        self.sockets.drain(&mut self.buffer);
        Ok(())
    }
}

/// Datagrams that one of `spokes` spokes may have in flight.
fn budget(layout: &Layout, spokes: usize) -> usize {
    (IN_FLIGHT / spokes / layout.payload).clamp(2, 1024 / spokes.min(512))
}

/// The asking end.
pub(crate) struct UdpSpoke {
    sockets: Sockets,
    hub_plain: SocketAddr,
    hub_bulk: SocketAddr,
    sender: Sender,
    run: u32,
    echo: Assembly,
    buffer: Vec<u8>,
}

impl UdpSpoke {
    /// Binds the sockets to ports that the system chooses.
    pub(crate) fn open(settings: &Settings, local: IpAddr, hub: &Offer) -> io::Result<Self> {
        let [hub_plain, hub_bulk] = hub.addresses[..] else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        Ok(Self {
            sockets: Sockets::open(settings, local)?,
            hub_plain,
            hub_bulk,
            sender: Sender::default(),
            run: 0,
            echo: Assembly::default(),
            buffer: vec![0; RECEIVE],
        })
    }

    fn ping_segments(&mut self, message: &[u8], seen: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.run = self.run.wrapping_add(1);
        let layout = self.sockets.layout(message.len());
        let whole = layout.datagrams(1);
        self.echo.prepare(&layout);
        self.sockets
            .send_segments(&mut self.sender, self.hub_bulk, message, self.run)?;
        while self.echo.received < whole {
            let (got, _) = self.sockets.receive_from(&self.sockets.bulk, &mut self.buffer)?;
            self.echo.place(&layout, &self.buffer[..got], whole)?;
        }
        seen(&self.echo.message);
        Ok(())
    }
}

impl Spoke for UdpSpoke {
    fn offer(&self) -> io::Result<Offer> {
        self.sockets.offer()
    }

    fn ping(&mut self, message: &[u8], seen: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        if message.len() > self.sockets.plain_limit {
            return self.ping_segments(message, seen);
        }
        self.sockets.send_plain(self.hub_plain, message)?;
        let (got, _) = self.sockets.receive_from(&self.sockets.plain, &mut self.buffer)?;
        seen(&self.buffer[..got]);
        Ok(())
    }

    fn stream(&mut self, messages: &Messages, window: usize, spokes: usize) -> io::Result<()> {
        let message = messages.same()?;
        self.run = self.run.wrapping_add(1);
        let layout = self.sockets.layout(message.len());
        let (total, limit) = (layout.datagrams(window), budget(&layout, spokes));
        let wanted = layout.batch.min(limit);
        let (mut next, mut acknowledged) = (0, 0);
        while acknowledged < total {
            let room = limit.saturating_sub(next - acknowledged);
            if next < total && room >= wanted.min(total - next) {
                let to = (&self.sockets.bulk, self.hub_bulk, self.sockets.wait);
                let batch = Layout {
                    batch: wanted,
                    ..layout
                };
                next += self.sender.send_batch(to, &batch, message, self.run, (next, window))?;
                continue;
            }
            let (got, _) = self.sockets.receive_from(&self.sockets.bulk, &mut self.buffer)?;
            // Receive offload may have joined several; the last one says it all.
            match self.buffer[..got].chunks(HEADER).next_back().and_then(parse_header) {
                Some((run, count)) if run == self.run => acknowledged = acknowledged.max(count as usize),
                Some(_) => {}
                None => return Err(timed_out("not an acknowledgement")),
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> io::Result<()> {
        self.sockets.drain(&mut self.buffer);
        Ok(())
    }
}
