#![expect(unsafe_code, reason = "MPI's engine takes pointers")]
//! A rank of a job: what it does in each round, and the stop-watch.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use hikyaku::{
    backends::{
        Backend, BindOptions, bind,
        udp::{UdpBackend, UdpOptions},
    },
    environment::Environment,
    mpi::{
        collectives::{Algorithm, Call, Collective},
        datatype::{Datatype, Kind},
        engine::{
            Buffers, Communicator, Engine, Mode, Operands, Options, Region, Request, Target, Unconnected, Window,
            for_job,
        },
        error::Error,
        operation::{Operation, Predefined},
    },
    transport::{Routes, Transport, WaitPolicy},
};

use crate::{
    machine::{clock, pin},
    ranks::{
        pages::Pages,
        work::{MEMORY, Place, Task, Work},
    },
    transports::{
        settings::{Offer, Report},
        sizes::pattern,
    },
};

const TAG: i32 = 1;
/// Of the byte that answers a window of messages.
const ANSWER: i32 = 2;
/// The rank that rank 0 writes to and reads from.
const TARGET: i32 = 1;
/// The byte that fills a buffer before anything is received into it.
const NOTHING: u8 = 0xa5;

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Ranks per core; crowded ones are not bound to any.
fn sharing(place: &Place) -> f64 {
    if place.crowded {
        f64::from(place.size) / pin::places().len().max(1) as f64
    } else {
        1.0
    }
}

/// The settings of an MPI program, environment included, but for what was asked for.
pub(crate) fn options(place: &Place) -> io::Result<Options> {
    let (_, mut options) = for_job(place.size, sharing(place), true);
    if !place.crowded {
        options.wait = WaitPolicy::Spin;
    }
    options.environment(&Environment::of_process()).map_err(failed)?;
    if let Some(wait) = place.wait {
        options.wait = wait.policy();
    }
    if let Some(ahead) = place.connect_ahead {
        options.connect_ahead = ahead;
        // Every rank needs a session with every other.
        options.policy.force(Collective::Alltoall, Algorithm::Pairwise);
    }
    Ok(options)
}

fn backend(place: &Place, at: SocketAddr) -> io::Result<Box<dyn Backend>> {
    if place.backend == "udp" && !place.offload {
        let mut options = UdpOptions::default();
        (options.max_datagram, options.gso) = (place.datagram, false);
        return Ok(Box::new(UdpBackend::bind_with(at, &options)?));
    }
    let mut options = BindOptions::default();
    options.max_datagram = place.datagram;
    bind(&place.backend, at, &options).map_err(failed)
}

/// A rank that does not know the others yet.
pub(crate) struct Lonely {
    unconnected: Unconnected,
    place: Place,
}

impl Lonely {
    /// Opens the network.
    pub(crate) fn open(place: &Place, local: IpAddr, rank: u32) -> io::Result<Self> {
        let (config, _) = for_job(place.size, sharing(place), true);
        let at = SocketAddr::new(local, 0);
        let builder = Transport::builder().config(config).environment();
        let unconnected = if place.backend == MEMORY {
            let mut options = BindOptions::default();
            options.place.process = rank;
            let builder = builder.bind_options(options).routes(Routes::Memory);
            Engine::bind(builder, "udp", at, rank)
        } else {
            Engine::on(builder, backend(place, at)?, rank)
        };
        let unconnected = unconnected.map_err(failed)?;
        Ok(Self {
            unconnected,
            place: place.clone(),
        })
    }

    /// Where it is.
    pub(crate) fn offer(&mut self) -> Offer {
        Offer {
            addresses: vec![self.unconnected.local_addr()],
            extra: self.unconnected.link_address(),
        }
    }

    /// Gets to know the others, all of which do the same.
    pub(crate) fn connect(mut self, offers: &[Offer]) -> io::Result<Rank> {
        let options = options(&self.place)?;
        let addresses: Vec<SocketAddr> = offers.iter().flat_map(|offer| &offer.addresses).copied().collect();
        let own = self.unconnected.local_addr();
        for (offer, &address) in offers.iter().zip(&addresses).filter(|(_, address)| **address != own) {
            self.unconnected.introduce(address, &offer.extra)?;
        }
        let met = self.unconnected.meet()?;
        if self.place.backend == MEMORY && met.memory + 1 != offers.len() {
            return Err(io::Error::other("a rank cannot be reached through memory"));
        }
        let limits = (options.eager_limit, options.cma_limit);
        let engine: Arc<Engine> = self.unconnected.connect(&addresses, options).map_err(failed)?;
        Ok(Rank {
            world: Communicator::world(&engine),
            byte: Datatype::predefined(Kind::Byte),
            float: Datatype::predefined(Kind::F32),
            sum: Operation::predefined(Predefined::Sum),
            own: Pages::default(),
            theirs: Pages::default(),
            requests: Vec::new(),
            window: None,
            threads: self.place.threads,
            limits,
        })
    }
}

/// A rank.
pub(crate) struct Rank {
    world: Communicator,
    byte: Datatype,
    float: Datatype,
    sum: Operation,
    /// The data to send.
    own: Pages,
    /// The buffer to receive into.
    theirs: Pages,
    /// Of a window of messages.
    requests: Vec<Request>,
    /// The memory that others write to and read from.
    window: Option<Window>,
    threads: bool,
    /// Up to which sizes messages are sent without asking, and not copied by the kernel.
    limits: (u32, Option<u32>),
}

impl Rank {
    /// Copies between its memory and that of others that it has had the kernel make.
    pub(crate) fn crossed(&self) -> u64 {
        self.world.engine().stats().crossed
    }

    /// The algorithm that is taken.
    pub(crate) fn algorithm(&self, work: &Work) -> Option<Algorithm> {
        let collective = work.task.collective()?;
        let call = self.call(work)?;
        let Some(name) = &work.algorithm else {
            return Some(self.world.choose(&call, &self.buffers(work)));
        };
        // A chain is cut into as many segments as are the cheapest.
        let mut policy = Options::default().policy;
        policy.force(collective, collective.algorithm(name)?);
        let blocks = if work.task == Task::Alltoall { self.ranks() } else { 1 };
        Some(policy.choose(collective, self.ranks(), work.size * blocks, true))
    }

    fn ranks(&self) -> usize {
        self.world.size() as usize
    }

    /// The other one of two.
    fn other(&self) -> i32 {
        1 - self.world.rank()
    }

    fn call(&self, work: &Work) -> Option<Call<'static>> {
        let size = work.size;
        Some(match work.task {
            Task::Barrier => Call::of(Collective::Barrier),
            Task::Bcast => Call::of(Collective::Bcast).with_count(size),
            Task::Allreduce => Call::of(Collective::Allreduce).with_count(size / 4),
            Task::Alltoall => Call::of(Collective::Alltoall).with_count(size),
            _ => return None,
        })
    }

    fn buffers(&self, work: &Work) -> Buffers<'_> {
        let (own, theirs) = (self.own.as_ptr().cast_mut(), self.theirs.as_ptr().cast_mut());
        let (input, output) = match work.task {
            Task::Barrier => (Region::None, Region::None),
            Task::Bcast => (Region::None, Region::Plain(theirs, &self.byte)),
            Task::Allreduce => (Region::Plain(own, &self.float), Region::Plain(theirs, &self.float)),
            _ => (Region::Plain(own, &self.byte), Region::Plain(theirs, &self.byte)),
        };
        Buffers { input, output }
    }

    /// Does one round.
    pub(crate) fn perform(&mut self, work: &Work) -> io::Result<Report> {
        self.prepare(work)?;
        let done = if work.whole {
            self.measure_whole(work)
        } else {
            self.measure(work)
        };
        // No rank leaves while others still measure, and windows end together.
        if let Some(window) = self.window.take() {
            window.unlock_all().map_err(failed)?;
            window.free().map_err(failed)?;
        }
        let met = self.world.barrier().map_err(failed);
        done.and_then(|report| met.map(|()| report))
    }

    fn prepare(&mut self, work: &Work) -> io::Result<()> {
        let engine = self.world.engine();
        engine.set_eager_limit(work.eager_limit.unwrap_or(self.limits.0));
        engine.set_cma_limit(work.cma_limit.or(self.limits.1));
        let (size, ranks, rank) = (work.size, self.ranks(), self.world.rank() as usize);
        let room = match work.task {
            Task::Alltoall => size * ranks,
            Task::Bibw => size * work.window,
            _ => size,
        };
        self.theirs.fill(room, NOTHING);
        let own = match work.task {
            Task::Allreduce => 1_f32.to_ne_bytes().repeat(size / 4),
            Task::Alltoall => (0..ranks).flat_map(|to| vec![block(rank, to); size]).collect(),
            _ => pattern(size),
        };
        self.own.hold(&own);
        if work.task == Task::Bcast && rank == 0 {
            self.theirs.copy_from_slice(&self.own);
        }
        if matches!(work.task, Task::Put | Task::Get) {
            let window = Window::allocate(&self.world, size as u64, 1).map_err(failed)?;
            // SAFETY: the window's own memory, of `size` bytes, before the barrier below tells others of it.
            let memory = unsafe { std::slice::from_raw_parts_mut(window.base(), size) };
            memory.fill(NOTHING);
            if work.task == Task::Get {
                memory.copy_from_slice(&self.own);
            }
            self.world.barrier().map_err(failed)?;
            window.lock_all().map_err(failed)?;
            self.window = Some(window);
        }
        Ok(())
    }

    /// The target of puts and gets does nothing.
    fn takes_part(&self, work: &Work) -> bool {
        !matches!(work.task, Task::Put | Task::Get) || self.world.rank() == 0
    }

    /// Takes the time of all operations together. This is what `xtask/peers/within_host.c` does with other MPIs: nothing
    /// stands between two operations, and a collective is not begun together.
    fn measure_whole(&mut self, work: &Work) -> io::Result<Report> {
        let mut report = Report::default();
        self.world.barrier().map_err(failed)?;
        if !self.takes_part(work) {
            return Ok(report);
        }
        let mut start = 0;
        let call = self.call(work);
        for index in 0..work.warmup + work.count {
            if index == work.warmup {
                if work.task.collective().is_some() {
                    self.world.barrier().map_err(failed)?;
                }
                start = clock::now();
            }
            match &call {
                // (The arguments of a collective are made once, as in C.)
                Some(call) => self.begin_collective(work, call, None)?,
                None => self.operate(work, None)?,
            }
            if index == 0 && work.warmup > 0 {
                self.check(work)?;
            }
        }
        report.wall = clock::now() - start;
        Ok(report)
    }

    fn measure(&mut self, work: &Work) -> io::Result<Report> {
        let mut report = Report::default();
        if !self.takes_part(work) {
            return Ok(report);
        }
        let algorithm = self.algorithm(work);
        for index in 0..work.warmup.max(1) {
            self.operate(work, algorithm)?;
            if index == 0 {
                self.check(work)?;
            }
        }
        report.samples.reserve(work.count);
        let in_step = work.task.collective().is_some() && work.task != Task::Barrier;
        let cpu = clock::cpu_time(self.threads);
        let start = clock::now();
        for _ in 0..work.count {
            if in_step {
                self.world.barrier().map_err(failed)?;
            }
            let before = clock::now();
            self.operate(work, algorithm)?;
            report.samples.push(clock::now() - before);
        }
        report.wall = clock::now() - start;
        report.cpu = clock::cpu_time(self.threads) - cpu;
        Ok(report)
    }

    fn operate(&mut self, work: &Work, algorithm: Option<Algorithm>) -> io::Result<()> {
        match work.task {
            Task::PingPong if self.world.rank() == 0 => self.send().and_then(|()| self.receive()),
            Task::PingPong => self.receive().and_then(|()| self.send()),
            Task::Stream if self.world.rank() == 0 => self.send_window(work),
            Task::Stream => self.receive_window(work),
            Task::Bibw => self.both_ways(work),
            Task::Put | Task::Get => self.access(work),
            Task::Barrier | Task::Bcast | Task::Allreduce | Task::Alltoall => self.collective(work, algorithm),
        }
    }

    fn send(&self) -> io::Result<()> {
        let (start, len) = (self.own.as_ptr(), self.own.len() as u64);
        // SAFETY: the memory is borrowed until the call returns.
        unsafe {
            self.world
                .send(Mode::Standard, start, len, &self.byte, self.other(), TAG)
        }
        .map_err(failed)
    }

    fn receive(&mut self) -> io::Result<()> {
        let (start, len) = (self.theirs.as_mut_ptr(), self.theirs.len() as u64);
        // SAFETY: as above.
        let status = unsafe { self.world.receive(start, len, &self.byte, self.other(), TAG) };
        status.map(drop).map_err(failed)
    }

    fn send_window(&mut self, work: &Work) -> io::Result<()> {
        let (start, len, other) = (self.own.as_ptr(), work.size as u64, self.other());
        for _ in 0..work.window {
            // SAFETY: the memory stays until all have been waited for below; only messages that are received write
            // memory, and not this.
            let request = unsafe { self.world.isend(Mode::Standard, start, len, &self.byte, other, TAG) };
            self.requests.push(request.map_err(failed)?);
        }
        self.wait_all()?;
        let mut answer = 0;
        // SAFETY: the byte is borrowed until the call returns.
        let status = unsafe { self.world.receive(&raw mut answer, 1, &self.byte, other, ANSWER) };
        status.map(drop).map_err(failed)
    }

    /// As in the OSU micro-benchmarks, all messages of a window are received into the same memory.
    fn receive_window(&mut self, work: &Work) -> io::Result<()> {
        let (start, len, other) = (self.theirs.as_mut_ptr(), work.size as u64, self.other());
        for _ in 0..work.window {
            // SAFETY: the memory stays until all have been waited for below, and is not looked at before.
            let request = unsafe { self.world.ireceive(start, len, &self.byte, other, TAG) };
            self.requests.push(request.map_err(failed)?);
        }
        self.wait_all()?;
        let answer = 1_u8;
        // SAFETY: the byte is borrowed until the call returns.
        unsafe {
            self.world
                .send(Mode::Standard, &raw const answer, 1, &self.byte, other, ANSWER)
        }
        .map_err(failed)
    }

    fn wait_all(&mut self) -> io::Result<()> {
        // All are waited for, whatever happens: their memory is in use.
        let mut result = Ok(());
        Request::wait_all(&mut self.requests, |ended| {
            result = result.and_then(|()| ended.map(drop))
        });
        self.requests.clear();
        result.map_err(failed)
    }

    fn both_ways(&mut self, work: &Work) -> io::Result<()> {
        let (other, size) = (self.other(), work.size);
        let (start, len) = (self.own.as_ptr(), size as u64);
        let mut requests: Vec<Result<Request, Error>> = Vec::with_capacity(2 * work.window);
        for place in self.theirs.chunks_exact_mut(size) {
            // SAFETY: each has `size` bytes for itself; all are waited for below.
            requests.push(unsafe { self.world.ireceive(place.as_mut_ptr(), len, &self.byte, other, TAG) });
        }
        for _ in 0..work.window {
            // SAFETY: as above; nothing is written there.
            requests.push(unsafe { self.world.isend(Mode::Standard, start, len, &self.byte, other, TAG) });
        }
        let mut result = Ok(());
        for request in requests {
            // All are waited for, whatever happens: their memory is in use.
            let waited = request.and_then(Request::wait).map(drop);
            result = result.and(waited);
        }
        result.map_err(failed)
    }

    fn access(&mut self, work: &Work) -> io::Result<()> {
        let window = self.window.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let target = Target {
            rank: TARGET,
            displacement: 0,
            count: work.size as u64,
            datatype: &self.byte,
        };
        let is_put = work.task == Task::Put;
        let base = if is_put {
            self.own.as_mut_ptr()
        } else {
            self.theirs.as_mut_ptr()
        };
        let operands = Operands {
            base,
            count: work.size as u64,
            datatype: &self.byte,
        };
        for _ in 0..work.window {
            // SAFETY: the memory is not touched before the flush.
            unsafe {
                if is_put {
                    window.put(&operands, &target)
                } else {
                    window.get(&operands, &target)
                }
            }
            .map_err(failed)?;
        }
        window.flush(TARGET).map_err(failed)
    }

    fn collective(&mut self, work: &Work, algorithm: Option<Algorithm>) -> io::Result<()> {
        let call = self.call(work).ok_or(io::ErrorKind::InvalidInput)?;
        self.begin_collective(work, &call, algorithm)
    }

    #[inline]
    fn begin_collective(&self, work: &Work, call: &Call<'_>, algorithm: Option<Algorithm>) -> io::Result<()> {
        let operation = (work.task == Task::Allreduce).then_some(&self.sum);
        // SAFETY: the buffers have the bytes that `call` says and are not touched before the request has ended.
        let request = unsafe {
            self.world
                .collective(work.task.call(), call, &self.buffers(work), operation, algorithm)
        };
        request.and_then(Request::wait).map(drop).map_err(failed)
    }

    /// Has the operation done what it is for?
    fn check(&mut self, work: &Work) -> io::Result<()> {
        let (ranks, rank) = (self.ranks(), self.world.rank() as usize);
        if work.task == Task::Put {
            // Read back what was written.
            let read = Work {
                task: Task::Get,
                window: 1,
                ..work.clone()
            };
            self.access(&read)?;
        }
        let right = match work.task {
            Task::Barrier => true,
            Task::Stream => rank == 0 || *self.theirs == *self.own,
            Task::PingPong | Task::Bibw => self.theirs.chunks(work.size.max(1)).all(|one| *one == *self.own),
            Task::Put | Task::Get | Task::Bcast => *self.theirs == *self.own,
            Task::Allreduce => *self.theirs == (ranks as f32).to_ne_bytes().repeat(work.size / 4),
            Task::Alltoall => (0..ranks)
                .zip(self.theirs.chunks(work.size))
                .all(|(from, bytes)| bytes.iter().all(|&byte| byte == block(from, rank))),
        };
        if right {
            return Ok(());
        }
        let text = format!(
            "{} of {} B: rank {rank} has a wrong result",
            work.task.name(),
            work.size
        );
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }
}

/// The byte that fills the block from one rank to another.
fn block(from: usize, to: usize) -> u8 {
    (from * 16 + to) as u8
}
