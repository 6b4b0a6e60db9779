//! Kernel TCP: the transport that everybody has. Two forms have `TCP_NODELAY`; the third is as programs used it before
//! that was common ([`Form::Plain`]).

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{recv, send},
};

use crate::transports::{
    link::{Hub, Spoke},
    settings::{Offer, Settings, Wait},
    sizes::{Messages, Sizes},
    timeout::{TIMEOUT, timed_out, until_timeout},
    wait::{Attempt, limit_stream},
};

/// Bytes collected before a write of `tcp/batched`, and of a read of small messages.
const BATCH: usize = 64 * 1024;

/// How messages become calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One write a message, with `TCP_NODELAY`. Its receiver knows how long messages are.
    Single,
    /// Small messages are collected into writes of 64 KB.
    Batched,
    /// One write a message, of a header with its length and the message, without `TCP_NODELAY`, so small ones wait for
    /// acknowledgements and share segments. The receiver makes two calls a message, for the header and for the rest: as
    /// the DSE paper (section 3.3) describes it.
    Plain,
}

/// Bytes of the header of [`Form::Plain`].
const HEADER: usize = 8;

/// Puts a message with its header into `buffer`.
fn frame(buffer: &mut Vec<u8>, message: &[u8]) {
    buffer.clear();
    buffer.extend((message.len() as u64).to_le_bytes());
    buffer.extend(message);
}

/// Receives a message with its header, in two calls if the bytes are there.
fn receive_framed(wait: Wait, stream: &TcpStream, message: &mut Vec<u8>) -> io::Result<()> {
    let mut header = [0; HEADER];
    receive_all(wait, stream, &mut header)?;
    message.resize(u64::from_le_bytes(header) as usize, 0);
    receive_all(wait, stream, message)
}

/// Why a round of it that is not over is no lost round.
const LOSSLESS: &str = "TCP loses nothing, so the other end has stopped, or the machine is too busy";

/// Sends all of `data`.
fn send_all(wait: Wait, stream: &TcpStream, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        let sent = until_timeout("tcp", || wait.until(|attempt| send(stream, data, attempt.send())))?;
        data = &data[sent..];
    }
    Ok(())
}

/// Receives some bytes, at least one.
fn receive_some(wait: Wait, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut once = |attempt: Attempt| recv(stream, &mut *buffer, attempt.receive()).map(|got| got.0);
    match until_timeout("tcp", || wait.until(&mut once))? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        got => Ok(got),
    }
}

/// Receives until `buffer` is full.
fn receive_all(wait: Wait, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        filled += receive_some(wait, stream, &mut buffer[filled..])?;
    }
    Ok(())
}

/// One connection as the hub sees it.
struct Lane {
    stream: TcpStream,
    /// The message that is being put together, how much of it is there, and how many have been before.
    message: Vec<u8>,
    filled: usize,
    complete: usize,
    /// Messages since the last reply.
    run: usize,
}

impl Lane {
    /// A message is complete: makes room for the next one, whose length is known.
    #[inline]
    fn next(&mut self, sizes: &Sizes) {
        self.filled = 0;
        self.complete += 1;
        self.message.resize(sizes.at(self.complete), 0);
    }
}

/// The answering end.
pub(crate) struct TcpHub {
    listener: TcpListener,
    lanes: Vec<Lane>,
    wait: Wait,
    plain: bool,
    batch: Vec<u8>,
}

impl TcpHub {
    /// Listens on a port that the system chooses.
    pub(crate) fn open(settings: &Settings, local: IpAddr, form: Form) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::new(local, 0))?;
        Ok(Self {
            listener,
            lanes: Vec::new(),
            wait: settings.wait,
            plain: form == Form::Plain,
            batch: vec![0; BATCH],
        })
    }

    fn prepare(&mut self, sizes: &Sizes, spokes: usize) {
        for lane in &mut self.lanes[..spokes] {
            lane.message.resize(sizes.at(0), 0);
            (lane.filled, lane.complete, lane.run) = (0, 0, 0);
        }
    }

    /// Waits until one of several connections has data: one non-blocking call, or sleeps in `poll`.
    fn next_ready(&self, spokes: usize, after: usize) -> io::Result<usize> {
        let mut fds: Vec<_> = self.lanes[..spokes]
            .iter()
            .map(|lane| PollFd::new(&lane.stream, PollFlags::IN))
            .collect();
        let mut once = |attempt| {
            let limit = match attempt {
                Attempt::Now => Timespec::default(),
                Attempt::Sleep => Timespec {
                    tv_sec: TIMEOUT.as_secs() as i64,
                    tv_nsec: 0,
                },
            };
            if poll(&mut fds, Some(&limit))? == 0 {
                return Err(Errno::AGAIN);
            }
            let ready = |index: &usize| !fds[*index].revents().is_empty();
            (0..spokes)
                .map(|step| (after + step) % spokes)
                .find(ready)
                .ok_or(Errno::AGAIN)
        };
        until_timeout("tcp", || self.wait.until(&mut once))
    }

    /// Receives whatever is there from one connection; gives the number of messages that this completed.
    fn receive(&mut self, index: usize, sizes: &Sizes) -> io::Result<usize> {
        let (lane, wait) = (&mut self.lanes[index], self.wait);
        if self.plain {
            receive_framed(wait, &lane.stream, &mut lane.message)?;
            return Ok(1);
        }
        if lane.message.len() >= BATCH {
            lane.filled += receive_some(wait, &lane.stream, &mut lane.message[lane.filled..])?;
            if lane.filled < lane.message.len() {
                return Ok(0);
            }
            lane.next(sizes);
            return Ok(1);
        }
        let got = receive_some(wait, &lane.stream, &mut self.batch)?;
        let (mut rest, mut complete) = (&self.batch[..got], 0);
        while !rest.is_empty() {
            let part = rest.len().min(lane.message.len() - lane.filled);
            lane.message[lane.filled..lane.filled + part].copy_from_slice(&rest[..part]);
            lane.filled += part;
            rest = &rest[part..];
            if lane.filled == lane.message.len() {
                lane.next(sizes);
                complete += 1;
            }
        }
        Ok(complete)
    }
}

impl Hub for TcpHub {
    fn offer(&self) -> io::Result<Offer> {
        Ok(Offer {
            addresses: vec![self.listener.local_addr()?],
            extra: Vec::new(),
        })
    }

    fn join(&mut self, spoke: &Offer) -> io::Result<()> {
        // The spoke has connected before it made its offer, so this does not wait for strangers for long.
        loop {
            let (stream, from) = self.listener.accept()?;
            if spoke.addresses.contains(&from) {
                stream.set_nodelay(!self.plain)?;
                limit_stream(&stream)?;
                self.lanes.push(Lane {
                    stream,
                    message: Vec::new(),
                    filled: 0,
                    complete: 0,
                    run: 0,
                });
                return Ok(());
            }
        }
    }

    fn echo(&mut self, sizes: &Sizes, count: usize, spokes: usize) -> io::Result<()> {
        self.prepare(sizes, spokes);
        let mut last = 0;
        for _ in 0..count {
            if spokes > 1 {
                last = self.next_ready(spokes, last + 1)?;
            }
            let lane = &mut self.lanes[last];
            if self.plain {
                receive_framed(self.wait, &lane.stream, &mut lane.message)?;
                frame(&mut self.batch, &lane.message);
                send_all(self.wait, &lane.stream, &self.batch)?;
                continue;
            }
            receive_all(self.wait, &lane.stream, &mut lane.message)?;
            send_all(self.wait, &lane.stream, &lane.message)?;
            lane.next(sizes);
        }
        Ok(())
    }

    fn sink(&mut self, sizes: &Sizes, window: usize, count: usize, spokes: usize) -> io::Result<()> {
        self.prepare(sizes, spokes);
        let (mut received, mut last) = (0, 0);
        while received < count {
            if spokes > 1 {
                last = self.next_ready(spokes, last + 1)?;
            }
            let complete = self.receive(last, sizes)?;
            received += complete;
            let lane = &mut self.lanes[last];
            lane.run += complete;
            if lane.run >= window {
                lane.run -= window;
                send_all(self.wait, &lane.stream, &[1])?;
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> io::Result<()> {
        Err(timed_out(LOSSLESS))
    }
}

/// The asking end.
pub(crate) struct TcpSpoke {
    stream: TcpStream,
    wait: Wait,
    form: Form,
    echo: Vec<u8>,
    batch: Vec<u8>,
}

impl TcpSpoke {
    /// Connects to the hub.
    pub(crate) fn open(settings: &Settings, hub: &Offer, form: Form) -> io::Result<Self> {
        let stream = TcpStream::connect(&hub.addresses[..])?;
        stream.set_nodelay(form != Form::Plain)?;
        limit_stream(&stream)?;
        Ok(Self {
            stream,
            wait: settings.wait,
            form,
            echo: Vec::new(),
            batch: Vec::with_capacity(BATCH),
        })
    }
}

impl Spoke for TcpSpoke {
    fn offer(&self) -> io::Result<Offer> {
        Ok(Offer {
            addresses: vec![self.stream.local_addr()?],
            extra: Vec::new(),
        })
    }

    fn ping(&mut self, message: &[u8], seen: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        if self.form == Form::Plain {
            frame(&mut self.batch, message);
            send_all(self.wait, &self.stream, &self.batch)?;
            receive_framed(self.wait, &self.stream, &mut self.echo)?;
            seen(&self.echo);
            return Ok(());
        }
        self.echo.resize(message.len(), 0);
        send_all(self.wait, &self.stream, message)?;
        receive_all(self.wait, &self.stream, &mut self.echo)?;
        seen(&self.echo);
        Ok(())
    }

    fn stream(&mut self, messages: &Messages, window: usize, _spokes: usize) -> io::Result<()> {
        if self.form == Form::Batched && messages.largest() < BATCH {
            for index in 0..window {
                let message = messages.at(index);
                if self.batch.len() + message.len() > BATCH {
                    send_all(self.wait, &self.stream, &self.batch)?;
                    self.batch.clear();
                }
                self.batch.extend_from_slice(message);
            }
            send_all(self.wait, &self.stream, &self.batch)?;
            self.batch.clear();
        } else {
            for index in 0..window {
                let message = messages.at(index);
                match self.form {
                    Form::Plain => {
                        frame(&mut self.batch, message);
                        send_all(self.wait, &self.stream, &self.batch)?;
                    }
                    Form::Single | Form::Batched => send_all(self.wait, &self.stream, message)?,
                }
            }
        }
        receive_all(self.wait, &self.stream, &mut [0])
    }

    fn drain(&mut self) -> io::Result<()> {
        Err(timed_out(LOSSLESS))
    }
}
