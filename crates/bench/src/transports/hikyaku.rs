//! This library as one of the things that are compared.

use std::{
    fs::File,
    io::{self, BufWriter},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use ::hikyaku::{
    Config, PeerId, SendError,
    backends::{Backend, BindOptions, Captured, bind},
    transport::{Event, Message, SendBlockingError, Transport, WaitError},
};
use bytes::Bytes;

use crate::{
    machine::clock,
    ranks::work::MEMORY,
    transports::{
        device,
        link::{Hub, Spoke},
        settings::{Offer, Preset, Settings},
        sizes::{Messages, Sizes},
        timeout::{LIMIT, TIMEOUT, timed_out, until_timeout},
    },
};

/// Messages up to this size are copied when they are sent, larger ones referred to.
const COPY: usize = 8 << 10;
/// How long an end stays at it after a round, at most.
const LINGER: Duration = Duration::from_millis(100);
/// Nanoseconds after which every preset has acknowledged what came last: twice the longest delay.
const ACKNOWLEDGE: u64 = 2_000_000;
/// For messages.
const NAME: &str = "hikyaku";
/// Number of the hub's processor.
const HUB: u32 = 0;

/// A transport with what both ends need.
struct End {
    transport: Transport,
    /// The message that is sent, to be referred to.
    outgoing: Bytes,
}

/// Opens a backend as both levels have it.
pub(crate) fn open_backend(
    backend: &str,
    settings: &Settings,
    local: IpAddr,
    processor: u32,
) -> io::Result<Box<dyn Backend>> {
    if let Some(devices) = settings.devices.as_ref().filter(|_| backend == "dpdk") {
        return device::open(devices, settings, processor);
    }
    let mut options = BindOptions::default();
    options.max_datagram = settings.datagram_forced.then_some(settings.datagram);
    bind(backend, SocketAddr::new(local, 0), &options).map_err(|error| io::Error::other(error.to_string()))
}

impl End {
    fn open(backend: &str, preset: Preset, settings: &Settings, local: IpAddr, processor: u32) -> io::Result<Self> {
        let mut config = match preset {
            Preset::Default => Config::default(),
            Preset::Dse => Config::dse(),
        };
        // A busy machine may let an end wait, which is no death.
        config.death_timeout = LIMIT;
        let builder = Transport::builder().config(config).processor(processor);
        let builder = builder.wait(settings.wait.policy());
        let transport = if backend == MEMORY {
            builder.bind_shm("")
        } else {
            let mut bound = open_backend(backend, settings, local, processor)?;
            if let Some(file) = settings.capture.as_ref().filter(|_| processor == HUB) {
                bound = Box::new(Captured::new(bound, BufWriter::new(File::create(file)?))?);
            }
            builder.backend(bound)
        };
        Ok(Self {
            transport: transport.map_err(|error| io::Error::other(error.to_string()))?,
            outgoing: Bytes::new(),
        })
    }

    fn offer(&self) -> Offer {
        Offer {
            addresses: vec![self.transport.local_addr()],
            extra: Vec::new(),
        }
    }

    fn add(&mut self, processor: u32, offer: &Offer) -> io::Result<PeerId> {
        let [address] = offer.addresses[..] else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.transport
            .add_peer(address, processor)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    /// Makes `message` the one that is sent by reference.
    fn load(&mut self, message: &[u8]) {
        if message.len() > COPY && self.outgoing.len() != message.len() {
            self.outgoing = Bytes::copy_from_slice(message);
        }
    }

    /// Sends the message: a copy of it, or the loaded one.
    fn send(&mut self, peer: PeerId, message: &[u8]) -> io::Result<()> {
        if message.len() > COPY {
            return self.send_shared(peer, self.outgoing.clone());
        }
        // Does not wait, so what is sent in a row can share datagrams.
        match self.transport.send(peer, message) {
            Ok(()) => return Ok(()),
            Err(SendError::WouldBlock(_)) => {}
            Err(error) => return Err(io::Error::other(error.to_string())),
        }
        self.transport
            .send_blocking(peer, message)
            .map_err(|error| match error {
                SendBlockingError::Backend(error) => error.into(),
                other => io::Error::other(other.to_string()),
            })
    }

    /// Sends by reference; waits for room.
    fn send_shared(&mut self, peer: PeerId, data: Bytes) -> io::Result<()> {
        loop {
            match self.transport.send_bytes(peer, data.clone()) {
                Ok(_) => return Ok(()),
                Err(SendError::WouldBlock(_) | SendError::EventsWaiting(_)) => {
                    until_timeout(NAME, || match self.transport.wait_event(TIMEOUT) {
                        Ok(event) => check(event),
                        Err(WaitError::TimedOut(_)) => Err(timed_out("room to send")),
                        Err(error) => Err(error.into()),
                    })?;
                }
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        }
    }

    /// Shows the next message to `take`.
    #[inline]
    fn receive<T>(&mut self, mut take: impl FnMut(Message<'_>) -> T) -> io::Result<T> {
        until_timeout(NAME, || match self.transport.receive(TIMEOUT) {
            Ok(message) => Ok(take(message)),
            Err(WaitError::Backend(error)) => Err(error.into()),
            Err(_) => Err(timed_out("a message")),
        })
    }

    /// Takes what there is to tell: nothing, unless a peer was lost.
    fn events(&mut self) -> io::Result<()> {
        while let Some(event) = self.transport.next_event() {
            check(event)?;
        }
        Ok(())
    }

    /// Brings everything to an end that is under way.
    fn settle(&mut self) -> io::Result<()> {
        // A delayed acknowledgement that the other end waits for goes out by its timer. Other senders may share this
        // core and still be at it, so this waits as messages are waited for, and does not spin where that sleeps.
        let until = clock::now() + ACKNOWLEDGE;
        while let left @ 1.. = until.saturating_sub(clock::now()) {
            match self.transport.wait_event(Duration::from_nanos(left)) {
                Ok(event) => check(event)?,
                Err(WaitError::TimedOut(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
        // What is missing after that is an acknowledgement that was lost: no harm.
        let _ = self.transport.flush(LINGER);
        self.events()
    }
}

fn check(event: Event) -> io::Result<()> {
    match event {
        Event::PeerDown { error, .. } => Err(io::Error::other(format!("the peer was lost: {error}"))),
        _ => Ok(()),
    }
}

fn stopped() -> io::Error {
    timed_out("nothing is lost for good here, so the other end has stopped, or the machine is too busy")
}

/// The answering end.
struct HikyakuHub {
    end: End,
    peers: Vec<PeerId>,
    scratch: Vec<u8>,
}

/// Opens the answering end.
pub(crate) fn open_hub(backend: &str, preset: Preset, settings: &Settings, local: IpAddr) -> io::Result<Box<dyn Hub>> {
    let end = End::open(backend, preset, settings, local, HUB)?;
    Ok(Box::new(HikyakuHub {
        end,
        peers: Vec::new(),
        scratch: Vec::new(),
    }))
}

impl Hub for HikyakuHub {
    fn offer(&self) -> io::Result<Offer> {
        Ok(self.end.offer())
    }

    fn join(&mut self, spoke: &Offer) -> io::Result<()> {
        let processor = HUB + 1 + self.peers.len() as u32;
        self.peers.push(self.end.add(processor, spoke)?);
        Ok(())
    }

    fn echo(&mut self, sizes: &Sizes, count: usize, _spokes: usize) -> io::Result<()> {
        self.scratch.clear();
        let small = sizes.largest() <= COPY;
        for _ in 0..count {
            if small {
                let scratch = &mut self.scratch;
                let peer = self.end.receive(|message| {
                    // All of a length are alike, and the answer is the first of them: what comes is looked at where it lies.
                    if scratch.len() != message.data().len() {
                        scratch.clear();
                        scratch.extend_from_slice(message.data());
                    }
                    message.peer()
                })?;
                self.end.send(peer, &self.scratch)?;
            } else {
                let whole = |message: Message<'_>| (message.peer(), Bytes::from(message.into_vec()));
                let (peer, data) = self.end.receive(whole)?;
                self.end.send_shared(peer, data)?;
                self.end.events()?;
            }
        }
        Ok(())
    }

    fn sink(&mut self, sizes: &Sizes, window: usize, count: usize, _spokes: usize) -> io::Result<()> {
        let mut runs = vec![0; self.peers.len()];
        for _ in 0..count {
            let (peer, len) = self.end.receive(|message| (message.peer(), message.data().len()))?;
            let Some(run) = self
                .peers
                .iter()
                .position(|known| *known == peer)
                .map(|index| &mut runs[index])
            else {
                continue;
            };
            if len != sizes.at(*run) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a message has the wrong size",
                ));
            }
            *run += 1;
            if *run == window {
                *run = 0;
                self.end.send(peer, &[1])?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> io::Result<()> {
        self.end.settle()
    }

    fn drain(&mut self) -> io::Result<()> {
        Err(stopped())
    }
}

/// The asking end.
struct HikyakuSpoke {
    end: End,
    hub: PeerId,
}

/// Opens the asking end.
pub(crate) fn open_spoke(
    backend: &str,
    preset: Preset,
    settings: &Settings,
    local: IpAddr,
    hub: &Offer,
) -> io::Result<Box<dyn Spoke>> {
    let mut end = End::open(backend, preset, settings, local, HUB + 1 + settings.spoke)?;
    let hub = end.add(HUB, hub)?;
    Ok(Box::new(HikyakuSpoke { end, hub }))
}

impl Spoke for HikyakuSpoke {
    fn offer(&self) -> io::Result<Offer> {
        Ok(self.end.offer())
    }

    fn ping(&mut self, message: &[u8], seen: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.end.load(message);
        self.end.send(self.hub, message)?;
        self.end.receive(|echo| seen(echo.data()))
    }

    fn stream(&mut self, messages: &Messages, window: usize, _spokes: usize) -> io::Result<()> {
        for index in 0..window {
            let message = messages.at(index);
            self.end.load(message);
            self.end.send(self.hub, message)?;
        }
        self.end.receive(|_| ())?;
        self.end.events()
    }

    fn settle(&mut self) -> io::Result<()> {
        self.end.settle()
    }

    fn drain(&mut self) -> io::Result<()> {
        Err(stopped())
    }
}
