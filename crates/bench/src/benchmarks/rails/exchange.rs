//! A node of a grid swaps messages with all its neighbours at once, on all rails and in both directions, until it is killed.
//! It says how much came a second.
#![expect(unsafe_code, reason = "the engine sends from and receives into memory of the caller")]

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hikyaku::{
    PeerId,
    backends::Backend,
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Array, Communicator, Mode, Request},
        job::Job,
    },
    transport::{Event, Incoming},
};

use super::{
    mpi::environment,
    node::{End, LIMIT, Meter, Way},
    sockets::{Flood, failed},
};

/// Messages under way to a neighbour at once.
const WINDOW: usize = 4;
/// A sender all of whose sockets are full waits so long at most for what comes.
const NAP: Duration = Duration::from_micros(100);
/// Id of the arrays, and tag of the messages.
const ID: i32 = 1;

/// Extents of a grid of eight nodes. A ring of two has one neighbour, not two.
const fn grid(dimensions: usize) -> [usize; 3] {
    match dimensions {
        1 => [8, 1, 1],
        2 => [4, 2, 1],
        _ => [2, 2, 2],
    }
}

impl End {
    /// Each once, whatever the direction.
    fn neighbours(&self) -> Vec<usize> {
        let sides = grid(self.dimensions);
        let strides = [sides[1] * sides[2], sides[2], 1];
        let mut all = Vec::new();
        for (side, stride) in sides.into_iter().zip(strides) {
            let at = self.number / stride % side;
            for to in [(at + 1) % side, (at + side - 1) % side] {
                let node = self.number - at * stride + to * stride;
                if node != self.number && !all.contains(&node) {
                    all.push(node);
                }
            }
        }
        all
    }

    /// Plays a node of the grid.
    pub(super) fn swap(&self, way: Way) -> io::Result<()> {
        match way {
            Way::Udp => self.swap_datagrams(),
            Way::Transport => self.swap_messages(),
            Way::Mpi => self.swap_copies(),
            Way::Arrays => self.swap_arrays(),
        }
    }

    fn swap_datagrams(&self) -> io::Result<()> {
        let mut sockets = Flood::bind(&self.addresses(self.number))?;
        let neighbours = self.neighbours();
        let mut turns = vec![0; self.rails];
        let mut meter = Meter::new(self);
        let begun = Instant::now();
        println!("ready");
        while begun.elapsed() < LIMIT {
            let mut is_full = true;
            for (port, turn) in (0..).zip(&mut turns) {
                let to = self.addresses(neighbours[*turn % neighbours.len()])[usize::from(port)];
                if sockets.send(port, to)? {
                    *turn += 1;
                    is_full = false;
                }
            }
            if is_full {
                sockets.backend.wait(Some(NAP))?;
            }
            loop {
                let bytes = sockets.take()?;
                if bytes == 0 {
                    break;
                }
                meter.add(bytes)?;
            }
        }
        Ok(())
    }

    fn swap_messages(&self) -> io::Result<()> {
        let (mut transport, peers) = self.transport_to(&self.neighbours())?;
        let mut peers: BTreeMap<PeerId, usize> = peers.into_iter().map(|peer| (peer, WINDOW)).collect();
        println!("ready");
        let message = Bytes::from(vec![0xa5; self.size]);
        let mut meter = Meter::new(self);
        loop {
            for (&peer, free) in &mut peers {
                while *free > 0 {
                    transport.send_bytes(peer, message.clone()).map_err(failed)?;
                    *free -= 1;
                }
            }
            match transport.wait_any(Some(LIMIT)).map_err(failed)? {
                Incoming::Message(message) => {
                    let bytes = message.len();
                    meter.add(bytes)?;
                }
                Incoming::Event(Event::Sent { peer, .. }) => *peers.entry(peer).or_default() += 1,
                Incoming::Event(_) => {}
            }
        }
    }

    /// Each message is copied out of the program's memory before it is sent, and into it when it has come.
    fn swap_copies(&self) -> io::Result<()> {
        let job = Job::join(&environment(self)).map_err(failed)?;
        println!("ready");
        let world = Communicator::world(job.engine());
        let byte = Datatype::predefined(Kind::Byte);
        let mut memory = vec![0xa5_u8; self.size];
        let mut meter = Meter::new(self);
        let neighbours = self.neighbours();
        let mut links: Vec<Link> = { neighbours.iter() }
            .map(|&node| Link::new(node as i32, self.size))
            .collect();
        for number in 0.. {
            for link in &mut links {
                let (out, into) = &mut link.buffers[number % WINDOW];
                if link.requests.len() == WINDOW
                    && let Some((receive, send)) = link.requests.pop_front()
                {
                    receive.wait().map_err(failed)?;
                    memory.copy_from_slice(into);
                    send.wait().map_err(failed)?;
                    meter.add(self.size)?;
                }
                out.copy_from_slice(&memory);
                let len = self.size as u64;
                // SAFETY: the buffers stay until this process is killed, and nothing looks at them before the requests
                // have been waited for above.
                let requests = unsafe {
                    let receive = world.ireceive(into.as_mut_ptr(), len, &byte, link.node, ID);
                    let send = world.isend(Mode::Standard, out.as_mut_ptr(), len, &byte, link.node, ID);
                    (receive.map_err(failed)?, send.map_err(failed)?)
                };
                link.requests.push_back(requests);
            }
        }
        Ok(())
    }

    /// Arrays are filled in place and used where they have come.
    fn swap_arrays(&self) -> io::Result<()> {
        let job = Job::join(&environment(self)).map_err(failed)?;
        println!("ready");
        let world = Communicator::world(job.engine());
        let arrays: Vec<Array> = (0..WINDOW).map(|_| world.array(self.size)).collect();
        let mut meter = Meter::new(self);
        let neighbours = self.neighbours();
        for array in &arrays {
            for &node in &neighbours {
                world.send_array(array, node as i32, ID).map_err(failed)?;
            }
        }
        for number in 0.. {
            for &node in &neighbours {
                let (array, _) = world.receive_array(node as i32, ID).map_err(failed)?;
                meter.add(array.len())?;
                world
                    .send_array(&arrays[number % WINDOW], node as i32, ID)
                    .map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// What is under way with a neighbour.
struct Link {
    node: i32,
    /// To send from and to receive into.
    buffers: Vec<(Vec<u8>, Vec<u8>)>,
    requests: VecDeque<(Request, Request)>,
}

impl Link {
    fn new(node: i32, size: usize) -> Self {
        Self {
            node,
            buffers: (0..WINDOW).map(|_| (vec![0; size], vec![0; size])).collect(),
            requests: VecDeque::new(),
        }
    }
}
