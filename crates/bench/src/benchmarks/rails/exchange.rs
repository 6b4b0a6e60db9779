//! A node of a grid swaps messages with all its neighbours at once, on all rails and in both directions, until it is killed.
//! It says how much came a second.
#![expect(unsafe_code, reason = "the engine sends from and receives into memory of the caller")]

use std::{
    collections::BTreeMap,
    io, mem,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hikyaku::{
    PeerId,
    backends::Backend,
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Array, Arriving, Communicator, Mode, Request},
        job::Job,
    },
    transport::{Event, Incoming},
};

use super::{
    mpi::environment,
    node::{End, LIMIT, Meter, WINDOW, Way},
    sockets::{Flood, failed},
};

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
        let nodes = self.under_way();
        // A receive and a send for each, one beside the other.
        let mut buffers = vec![vec![0_u8; self.size]; 2 * nodes.len()];
        let begin = |index: usize, buffer: &mut Vec<u8>| {
            let (node, start, len) = (nodes[index / 2], buffer.as_mut_ptr(), self.size as u64);
            // SAFETY: the buffers stay until this process is killed, and nothing looks at one before its request has
            // been waited for.
            let request = unsafe {
                match index % 2 {
                    0 => world.ireceive(start, len, &byte, node, ID),
                    _ => world.isend(Mode::Standard, start, len, &byte, node, ID),
                }
            };
            request.map(Some).map_err(failed)
        };
        let mut requests = Vec::new();
        for (index, buffer) in buffers.iter_mut().enumerate() {
            requests.push(begin(index, buffer)?);
        }
        while let Some((index, ended)) = Request::wait_any(&mut requests) {
            ended.map_err(failed)?;
            let buffer = &mut buffers[index];
            if index % 2 == 0 {
                memory.copy_from_slice(buffer);
                meter.add(self.size)?;
            } else {
                buffer.copy_from_slice(&memory);
            }
            requests[index] = begin(index, buffer)?;
        }
        Ok(())
    }

    /// Arrays are filled in place and used where they have come.
    fn swap_arrays(&self) -> io::Result<()> {
        let job = Job::join(&environment(self)).map_err(failed)?;
        println!("ready");
        let world = Communicator::world(job.engine());
        let mut meter = Meter::new(self);
        let nodes = self.under_way();
        let receive = |node| world.ireceive_array(self.size, node, ID).map_err(failed);
        let send = |node, array: &Array| world.send_array(array, node, ID).map_err(failed);
        let arrays: Vec<Array> = nodes.iter().map(|_| world.array(self.size)).collect();
        let mut arriving = nodes.iter().map(|&node| receive(node)).collect::<Result<Vec<_>, _>>()?;
        let sends = nodes.iter().zip(&arrays).map(|(&node, array)| send(node, array));
        let mut sends = sends.collect::<Result<Vec<_>, _>>()?;
        while let Some(index) = Request::wait_ready(arriving.iter().map(Arriving::request).chain(&sends)) {
            if let Some(arrived) = arriving.get_mut(index) {
                let arrived = mem::replace(arrived, receive(nodes[index])?);
                let (array, _) = arrived.wait().map_err(failed)?;
                meter.add(array.len())?;
            } else {
                let index = index - nodes.len();
                let sent = mem::replace(&mut sends[index], send(nodes[index], &arrays[index])?);
                sent.wait().map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The neighbour with which each message under way is swapped.
    fn under_way(&self) -> Vec<i32> {
        let all = self.neighbours().into_iter().flat_map(|node| [node as i32; WINDOW]);
        all.collect()
    }
}
