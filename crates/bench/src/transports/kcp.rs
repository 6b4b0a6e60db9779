//! KCP over UDP: a reliable protocol core of about this kind, with its fast settings, in message mode: it keeps the
//! borders of messages, as hikyaku does. (A message larger than KCP takes goes as several, one after the other.)
//!
//! Its output is collected and sent in batches by segmentation offload.

use std::{
    cell::RefCell,
    io::{self, Write},
    net::{IpAddr, SocketAddr, UdpSocket},
    rc::Rc,
};

use kcp::Kcp;
use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use rustix::net::{recvfrom, sendto};

use crate::{
    machine::clock,
    transports::{
        link::{Hub, Spoke},
        segments::{MAX_BATCH, open_socket},
        settings::{Offer, Settings, Wait},
        sizes::{Messages, Sizes},
        wait::Attempt,
    },
};

/// Bytes in flight, as for bare UDP.
const IN_FLIGHT: usize = 292_000;
/// The largest part of a message that is handed to KCP at once.
const CHUNK: usize = 32 * 1024;
/// Most segments in flight; each message takes at least one.
const MOST_SEGMENTS: usize = 1024;
/// Receive calls before acknowledgements go out.
const BURST: usize = 32;

/// Packets that KCP wants sent, one after the other.
#[derive(Clone, Default)]
struct Outbox(Rc<RefCell<(Vec<u8>, Vec<usize>)>>);

impl Write for Outbox {
    fn write(&mut self, packet: &[u8]) -> io::Result<usize> {
        let mut inner = self.0.borrow_mut();
        inner.0.extend_from_slice(packet);
        inner.1.push(packet.len());
        Ok(packet.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One conversation.
struct Lane {
    to: SocketAddr,
    kcp: Kcp<Outbox>,
    outbox: Outbox,
    mtu: usize,
    /// Bytes of the message that is being put together.
    message: Vec<u8>,
    filled: usize,
    /// Messages since the last reply.
    run: usize,
}

fn wrong(error: kcp::Error) -> io::Error {
    io::Error::other(error.to_string())
}

fn milliseconds() -> u32 {
    (clock::now() / 1_000_000) as u32
}

impl Lane {
    fn new(to: SocketAddr, number: u32, mtu: usize) -> io::Result<Self> {
        let outbox = Outbox::default();
        let mut kcp = Kcp::new(number, outbox.clone());
        kcp.set_mtu(mtu).map_err(wrong)?;
        kcp.set_nodelay(true, 10, 2, true);
        kcp.update(milliseconds()).map_err(wrong)?;
        Ok(Self {
            to,
            kcp,
            outbox,
            mtu,
            message: Vec::new(),
            filled: 0,
            run: 0,
        })
    }

    fn queue(&mut self, message: &[u8]) -> io::Result<()> {
        let header = Kcp::<Outbox>::header_len();
        let payload = self.mtu - header;
        // KCP counts its window in segments, of which small messages fill a packet with several.
        let window = IN_FLIGHT / (header + message.len().min(payload));
        self.kcp
            .set_wndsize(window.clamp(4, MOST_SEGMENTS) as u16, MOST_SEGMENTS as u16);
        if message.is_empty() {
            self.kcp.send(message).map_err(wrong)?;
        }
        for chunk in message.chunks(CHUNK.min(64 * payload)) {
            self.kcp.send(chunk).map_err(wrong)?;
        }
        Ok(())
    }

    /// Lets KCP put out what it has, and sends that.
    fn flush(&mut self, socket: &UdpSocket, wait: Wait) -> io::Result<()> {
        self.kcp.update(milliseconds()).map_err(wrong)?;
        self.kcp.flush().map_err(wrong)?;
        let mut inner = self.outbox.0.borrow_mut();
        let (data, lengths) = &mut *inner;
        let (mut from, mut next) = (0, 0);
        while next < lengths.len() {
            // Full packets and one shorter after them make a batch; anything else goes alone.
            let mut batch = lengths[next];
            let mut full = lengths[next] == self.mtu;
            next += 1;
            while full && next < lengths.len() && batch + lengths[next] <= MAX_BATCH && batch / self.mtu < 63 {
                full = lengths[next] == self.mtu;
                batch += lengths[next];
                next += 1;
            }
            let part = &data[from..from + batch];
            wait.until(|attempt| sendto(socket, part, attempt.send(), &self.to))?;
            from += batch;
        }
        data.clear();
        lengths.clear();
        Ok(())
    }

    /// Moves what has arrived into the message; gives the number of messages that this completed.
    fn collect(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut complete = 0;
        while let Ok(got) = self.kcp.recv(buffer) {
            let Some(place) = self.message.get_mut(self.filled..self.filled + got) else {
                return Err(io::Error::other("KCP has joined messages"));
            };
            place.copy_from_slice(&buffer[..got]);
            self.filled += got;
            if self.filled == self.message.len() {
                self.filled = 0;
                complete += 1;
            }
        }
        Ok(complete)
    }

    fn prepare(&mut self, size: usize) {
        self.message.resize(size, 0);
        (self.filled, self.run) = (0, 0);
    }
}

/// A socket with what reads from it.
struct Port {
    socket: UdpSocket,
    wait: Wait,
    mtu: usize,
    buffer: Vec<u8>,
}

impl Port {
    fn open(settings: &Settings, local: IpAddr) -> io::Result<Self> {
        let socket = open_socket(SocketAddr::new(local, 0), false)?;
        let segment = i32::try_from(settings.datagram).unwrap_or(0);
        setsockopt(&socket, UdpGsoSegment, &segment)?;
        Ok(Self {
            socket,
            wait: settings.wait,
            mtu: settings.datagram,
            buffer: vec![0; 64 * 1024],
        })
    }

    fn offer(&self) -> io::Result<Offer> {
        Ok(Offer {
            addresses: vec![self.socket.local_addr()?],
            extra: Vec::new(),
        })
    }

    /// Receives a burst into the conversations; gives the bits of those that got something.
    fn receive(&mut self, lanes: &mut [Lane]) -> io::Result<()> {
        let once = |buffer: &mut [u8], attempt: Attempt| {
            let (_, got, from) = recvfrom(&self.socket, buffer, attempt.receive())?;
            Ok((got, from.and_then(|from| SocketAddr::try_from(from).ok())))
        };
        for index in 0..BURST {
            let (got, from) = if index == 0 {
                self.wait.until(|attempt| once(&mut self.buffer, attempt))?
            } else {
                match once(&mut self.buffer, Attempt::Now) {
                    Ok(got) => got,
                    Err(_) => break,
                }
            };
            if let Some(lane) = lanes.iter_mut().find(|lane| Some(lane.to) == from) {
                lane.kcp.input(&self.buffer[..got]).map_err(wrong)?;
            }
        }
        Ok(())
    }
}

/// The answering end.
pub(crate) struct KcpHub {
    port: Port,
    lanes: Vec<Lane>,
}

impl KcpHub {
    /// Binds a socket.
    pub(crate) fn open(settings: &Settings, local: IpAddr) -> io::Result<Self> {
        Ok(Self {
            port: Port::open(settings, local)?,
            lanes: Vec::new(),
        })
    }

    /// Receives until `count` messages are complete; `reply` says what goes back for each lot.
    fn answer(
        &mut self,
        size: usize,
        count: usize,
        spokes: usize,
        mut reply: impl FnMut(&mut Lane, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut scratch = vec![0; 64 * 1024];
        for lane in &mut self.lanes {
            lane.prepare(size);
        }
        let (mut received, mut waiting) = (0, false);
        // What exceeds the window can only leave when acknowledgements have come.
        while received < count || waiting {
            self.port.receive(&mut self.lanes)?;
            waiting = false;
            for lane in &mut self.lanes[..spokes] {
                let complete = lane.collect(&mut scratch)?;
                received += complete;
                if complete > 0 {
                    reply(lane, complete)?;
                }
                lane.flush(&self.port.socket, self.port.wait)?;
                waiting |= lane.kcp.wait_snd() > usize::from(lane.kcp.snd_wnd());
            }
        }
        Ok(())
    }
}

impl Hub for KcpHub {
    fn offer(&self) -> io::Result<Offer> {
        self.port.offer()
    }

    fn join(&mut self, spoke: &Offer) -> io::Result<()> {
        let [to] = spoke.addresses[..] else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.lanes.push(Lane::new(to, u32::from(to.port()), self.port.mtu)?);
        Ok(())
    }

    fn echo(&mut self, sizes: &Sizes, count: usize, spokes: usize) -> io::Result<()> {
        let size = sizes.same()?;
        self.answer(size, count, spokes, |lane, complete| {
            for _ in 0..complete {
                let message = std::mem::take(&mut lane.message);
                lane.queue(&message)?;
                lane.message = message;
            }
            Ok(())
        })
    }

    fn sink(&mut self, sizes: &Sizes, window: usize, count: usize, spokes: usize) -> io::Result<()> {
        let size = sizes.same()?;
        self.answer(size, count, spokes, |lane, complete| {
            lane.run += complete;
            if lane.run >= window {
                lane.run -= window;
                lane.queue(&[1])?;
            }
            Ok(())
        })
    }
}

/// The asking end.
pub(crate) struct KcpSpoke {
    port: Port,
    lanes: [Lane; 1],
    scratch: Vec<u8>,
}

impl KcpSpoke {
    /// Binds a socket.
    pub(crate) fn open(settings: &Settings, local: IpAddr, hub: &Offer) -> io::Result<Self> {
        let [to] = hub.addresses[..] else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let port = Port::open(settings, local)?;
        let number = u32::from(port.socket.local_addr()?.port());
        let lanes = [Lane::new(to, number, settings.datagram)?];
        Ok(Self {
            port,
            lanes,
            scratch: vec![0; 64 * 1024],
        })
    }

    /// Sends what is queued and waits for a message of `size` bytes.
    fn exchange(&mut self, size: usize) -> io::Result<()> {
        self.lanes[0].prepare(size);
        loop {
            self.lanes[0].flush(&self.port.socket, self.port.wait)?;
            self.port.receive(&mut self.lanes)?;
            if self.lanes[0].collect(&mut self.scratch)? > 0 {
                return Ok(());
            }
        }
    }
}

impl Spoke for KcpSpoke {
    fn offer(&self) -> io::Result<Offer> {
        self.port.offer()
    }

    fn ping(&mut self, message: &[u8], seen: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.lanes[0].queue(message)?;
        self.exchange(message.len())?;
        seen(&self.lanes[0].message);
        Ok(())
    }

    fn stream(&mut self, messages: &Messages, window: usize, _spokes: usize) -> io::Result<()> {
        let message = messages.same()?;
        let lane = &mut self.lanes[0];
        for _ in 0..window {
            lane.queue(message)?;
        }
        self.exchange(1)
    }
}
