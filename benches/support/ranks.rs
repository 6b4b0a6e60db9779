//! Two ranks of an MPI job in one thread, over the loopback backend.
#![expect(unsafe_code, reason = "MPI's engine takes pointers")]

use std::sync::Arc;

use hikyaku::{
    backends::{
        Backend as _,
        loopback::{LoopbackBackend, LoopbackOptions},
    },
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Engine, Mode, Options, Unconnected},
    },
    reliability::MemoryLayer,
    ring::Exchange,
    transport::{Builder, Transport},
};

const TAG: i32 = 1;

/// Each with what it receives.
pub(crate) struct Ranks(pub(crate) [(Communicator, Box<[u8; 8]>); 2]);

impl Ranks {
    /// A job in which everything has happened that happens once; each rank has an endpoint.
    pub(crate) fn over_endpoints() -> Self {
        Self::over(Transport::builder)
    }

    /// The same over the packet layer that only hands bytes over.
    pub(crate) fn in_memory() -> Self {
        let exchange = Exchange::default();
        Self::over(|| {
            let exchange = exchange.clone();
            Transport::builder().layer(move |endpoint, limits| {
                let layer = MemoryLayer::new(endpoint.config().clone(), limits, 1);
                Box::new(layer.expect("valid settings").with_rings(exchange.clone()))
            })
        })
    }

    fn over(builder: impl Fn() -> Builder) -> Self {
        let ends = [0, 1].map(|process| {
            let address = "127.0.0.1:0".parse().expect("an address");
            let options = LoopbackOptions {
                busy_when_full: true,
                ..LoopbackOptions::default()
            };
            let backend = Box::new(LoopbackBackend::bind_with(address, options).expect("a free address"));
            let address = backend.local_addr();
            let end = Engine::on(builder(), backend, process).expect("valid settings");
            (end, address)
        });
        let addresses = ends.each_ref().map(|(_, address)| *address);
        let connect = |end: Unconnected| -> Arc<Engine> {
            let options = Options {
                helper: None,
                ..Options::default()
            };
            end.connect(&addresses, options).expect("two ranks")
        };
        let mut ranks = Self(ends.map(|(end, _)| (Communicator::world(&connect(end)), Box::new([0; 8]))));
        for _ in 0..8 {
            ranks.ping_pong();
        }
        ranks
    }

    /// A message there and one back. Gives the bytes that came.
    pub(crate) fn ping_pong(&mut self) -> u64 {
        self.exchange(0) + self.exchange(1)
    }

    /// The same by blocking calls.
    pub(crate) fn blocking_ping_pong(&mut self) -> u64 {
        self.pass_on(0) + self.pass_on(1)
    }

    /// A message from this rank to the other one, which is there when it is received.
    fn pass_on(&mut self, from: usize) -> u64 {
        let to = 1 - from;
        let byte = Datatype::predefined(Kind::Byte);
        let target = self.0[to].1.as_mut_ptr();
        let (sender, receiver) = (&self.0[from].0, &self.0[to].0);
        let data = [7_u8; 8];
        // SAFETY: `data` lives longer than the call.
        unsafe { sender.send(Mode::Standard, data.as_ptr(), 8, &byte, to as i32, TAG) }.expect("a send");
        // SAFETY: `target` has 8 bytes that nothing else touches.
        let received = unsafe { receiver.receive(target, 8, &byte, from as i32, TAG) };
        received.expect("the message fits").len
    }

    /// A message from this rank to the other one.
    fn exchange(&mut self, from: usize) -> u64 {
        let to = 1 - from;
        let byte = Datatype::predefined(Kind::Byte);
        let target = self.0[to].1.as_mut_ptr();
        let (sender, receiver) = (&self.0[from].0, &self.0[to].0);
        let data = [7_u8; 8];
        // SAFETY: `target` has 8 bytes that nothing else touches before the request has ended; see below.
        let mut received = unsafe { receiver.ireceive(target, 8, &byte, from as i32, TAG) }.expect("a receive");
        // SAFETY: `data` lives until the request has ended; see below.
        let sent = unsafe { sender.isend(Mode::Standard, data.as_ptr(), 8, &byte, to as i32, TAG) }.expect("a send");
        sent.wait().expect("a small message is sent at once");
        loop {
            if let Some(status) = received.test().expect("the message fits") {
                return status.len;
            }
        }
    }
}
