#![expect(unsafe_code, reason = "MPI's engine takes pointers")]
//! MPI's sends and receives as one of the things that are compared.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use ::hikyaku::{
    environment::Environment,
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Engine, Mode, Options, Request, Unconnected},
        error::Error,
    },
    transport::Transport,
};

use crate::{
    machine::clock,
    transports::{
        link::{Hub, Spoke},
        settings::{Offer, Settings, Wait, Way},
        sizes::{Messages, Sizes},
    },
};

/// Nanoseconds after which everything that came last has been acknowledged.
const ACKNOWLEDGE: u64 = 2_000_000;
/// Bytes of receives that are posted at once, at most.
const POSTED: usize = 8 << 20;
/// The rank that answers.
const HUB: i32 = 0;
const TAG: i32 = 1;

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

fn open(backend: &str, settings: &Settings, local: IpAddr, process: u32) -> io::Result<Unconnected> {
    let bound = crate::transports::hikyaku::open_backend(backend, settings, local, process)?;
    Engine::on(Transport::builder(), bound, process).map_err(failed)
}

fn connect(end: Unconnected, addresses: &[SocketAddr], wait: Wait, way: Option<Way>) -> io::Result<Rank> {
    let mut options = Options::default();
    options.environment(&Environment::of_process()).map_err(failed)?;
    options.wait = wait.policy();
    options.eager_limit = way.map_or(options.eager_limit, Way::eager_limit);
    let engine: Arc<Engine> = end.connect(addresses, options).map_err(failed)?;
    Ok(Rank {
        world: Communicator::world(&engine),
        byte: Datatype::predefined(Kind::Byte),
        memory: Vec::new(),
    })
}

fn address(offer: &Offer) -> io::Result<SocketAddr> {
    match offer.addresses[..] {
        [address] => Ok(address),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// One of two ranks.
struct Rank {
    world: Communicator,
    byte: Datatype,
    memory: Vec<u8>,
}

impl Rank {
    fn send(&self, data: &[u8], to: i32) -> io::Result<()> {
        let (start, len) = (data.as_ptr(), data.len() as u64);
        // SAFETY: `data` is borrowed until the call returns.
        unsafe { self.world.send(Mode::Standard, start, len, &self.byte, to, TAG) }.map_err(failed)
    }

    fn receive(&mut self, size: usize, from: i32) -> io::Result<&[u8]> {
        if self.memory.len() < size {
            self.memory.resize(size, 0);
        }
        let start = self.memory.as_mut_ptr();
        // SAFETY: `memory` has `size` bytes and is borrowed until the call returns.
        let status = unsafe { self.world.receive(start, size as u64, &self.byte, from, TAG) }.map_err(failed)?;
        Ok(&self.memory[..status.len as usize])
    }

    /// Receives `count` messages; as many receives as fit are posted ahead.
    fn receive_many(&mut self, size: usize, count: usize, from: i32) -> io::Result<()> {
        let posted = (POSTED / size.max(1)).clamp(1, 1024);
        let needed = posted.min(count) * size;
        if self.memory.len() < needed {
            self.memory.resize(needed, 0);
        }
        let mut left = count;
        while left > 0 {
            let now = left.min(posted);
            let requests: Result<Vec<Request>, Error> = (0..now)
                .map(|index| {
                    let start = self.memory[index * size..].as_mut_ptr();
                    // SAFETY: each has `size` bytes of `memory` for itself, which is not touched before all have ended.
                    unsafe { self.world.ireceive(start, size as u64, &self.byte, from, TAG) }
                })
                .collect();
            wait_all(requests.map_err(failed)?)?;
            left -= now;
        }
        Ok(())
    }

    fn settle(&self) -> io::Result<()> {
        let until = clock::now() + ACKNOWLEDGE;
        while clock::now() < until {
            self.world.engine().progress().map_err(failed)?;
        }
        Ok(())
    }
}

fn wait_all(mut requests: Vec<Request>) -> io::Result<()> {
    // All are waited for, whatever happens: their memory is in use.
    let mut failure = None;
    Request::wait_all(&mut requests, |ended| {
        if let Err(error) = ended {
            failure.get_or_insert(error);
        }
    });
    failure.map_or(Ok(()), |error| Err(failed(error)))
}

/// The answering end.
struct MpiHub {
    unconnected: Option<Unconnected>,
    rank: Option<Rank>,
    address: SocketAddr,
    wait: Wait,
    way: Option<Way>,
}

/// Opens the answering end.
pub(crate) fn open_hub(
    backend: &str,
    way: Option<Way>,
    settings: &Settings,
    local: IpAddr,
) -> io::Result<Box<dyn Hub>> {
    let unconnected = open(backend, settings, local, HUB as u32)?;
    Ok(Box::new(MpiHub {
        address: unconnected.local_addr(),
        unconnected: Some(unconnected),
        rank: None,
        wait: settings.wait,
        way,
    }))
}

impl MpiHub {
    fn rank(&mut self) -> io::Result<&mut Rank> {
        self.rank.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Hub for MpiHub {
    fn offer(&self) -> io::Result<Offer> {
        Ok(Offer {
            addresses: vec![self.address],
            extra: Vec::new(),
        })
    }

    fn join(&mut self, spoke: &Offer) -> io::Result<()> {
        let Some(unconnected) = self.unconnected.take() else {
            return Err(failed("at level mpi there are two ranks"));
        };
        let addresses = [self.address, address(spoke)?];
        self.rank = Some(connect(unconnected, &addresses, self.wait, self.way)?);
        Ok(())
    }

    fn echo(&mut self, sizes: &Sizes, count: usize, _spokes: usize) -> io::Result<()> {
        let size = sizes.same()?;
        let rank = self.rank()?;
        for _ in 0..count {
            rank.receive(size, HUB + 1)?;
            rank.send(&rank.memory[..size], HUB + 1)?;
        }
        Ok(())
    }

    fn sink(&mut self, sizes: &Sizes, window: usize, count: usize, _spokes: usize) -> io::Result<()> {
        let size = sizes.same()?;
        let rank = self.rank()?;
        for _ in 0..count / window {
            rank.receive_many(size, window, HUB + 1)?;
            rank.send(&[1], HUB + 1)?;
        }
        Ok(())
    }

    fn settle(&mut self) -> io::Result<()> {
        self.rank()?.settle()
    }
}

/// The asking end.
struct MpiSpoke {
    rank: Rank,
    address: SocketAddr,
}

/// Opens the asking end.
pub(crate) fn open_spoke(
    backend: &str,
    way: Option<Way>,
    settings: &Settings,
    local: IpAddr,
    hub: &Offer,
) -> io::Result<Box<dyn Spoke>> {
    let unconnected = open(backend, settings, local, HUB as u32 + 1)?;
    let ours = unconnected.local_addr();
    let rank = connect(unconnected, &[address(hub)?, ours], settings.wait, way)?;
    Ok(Box::new(MpiSpoke { rank, address: ours }))
}

impl Spoke for MpiSpoke {
    fn offer(&self) -> io::Result<Offer> {
        Ok(Offer {
            addresses: vec![self.address],
            extra: Vec::new(),
        })
    }

    fn ping(&mut self, message: &[u8], seen: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.rank.send(message, HUB)?;
        seen(self.rank.receive(message.len(), HUB)?);
        Ok(())
    }

    fn stream(&mut self, messages: &Messages, window: usize, _spokes: usize) -> io::Result<()> {
        let message = messages.same()?;
        let (start, len) = (message.as_ptr(), message.len() as u64);
        let world = &self.rank.world;
        let requests: Result<Vec<Request>, Error> = (0..window)
            // SAFETY: `message` is borrowed until all have been waited for.
            .map(|_| unsafe { world.isend(Mode::Standard, start, len, &self.rank.byte, HUB, TAG) })
            .collect();
        wait_all(requests.map_err(failed)?)?;
        self.rank.receive(1, HUB).map(drop)
    }

    fn settle(&mut self) -> io::Result<()> {
        self.rank.settle()
    }
}
