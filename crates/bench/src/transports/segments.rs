//! A message as equal-sized datagrams: sent in batches by segmentation offload, put together by position.
//!
//! Each datagram carries the number of its run and its index in eight bytes, so what is lost or left over is noticed.

use std::{
    io::{self, IoSlice},
    net::{SocketAddr, UdpSocket},
};

use nix::sys::socket::{
    setsockopt,
    sockopt::{RcvBuf, RcvBufForce, SndBuf, UdpGroSegment, UdpGsoSegment},
};
use rustix::net::{SendAncillaryBuffer, sendmsg_addr};

use crate::transports::{settings::Wait, timeout::timed_out, wait::limit_socket};

/// Bytes in front of each datagram's payload.
pub(crate) const HEADER: usize = 8;
/// Most bytes in one batch: what a UDP datagram over IPv4 may have.
pub(crate) const MAX_BATCH: usize = 65_507;
/// Most datagrams in one batch that every kernel with segmentation offload takes.
const MAX_SEGMENTS: usize = 64;
/// Up to this payload datagrams are copied together: gathering so little costs more than it saves.
const COPY_UP_TO: usize = 256;
/// Socket buffers asked for; the system may give less.
const SOCKET_BUFFER: usize = 8 << 20;

/// Opens a socket with large buffers and the time limit.
pub(crate) fn open_socket(address: SocketAddr, receive_offload: bool) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    limit_socket(&socket)?;
    // Refusals are no harm: the window in flight fits what every system gives by default.
    let _ = setsockopt(&socket, SndBuf, &SOCKET_BUFFER);
    let _ = setsockopt(&socket, RcvBuf, &SOCKET_BUFFER);
    let _ = setsockopt(&socket, RcvBufForce, &SOCKET_BUFFER);
    if receive_offload {
        let _ = setsockopt(&socket, UdpGroSegment, &true);
    }
    Ok(socket)
}

/// How a message of one size becomes datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of a message.
    pub message: usize,
    /// Bytes of it in a datagram.
    pub payload: usize,
    /// Datagrams in a batch.
    pub batch: usize,
}

impl Layout {
    /// One message per datagram if it fits, else datagrams as large as `datagram` allows, filled without regard to
    /// where one message ends and the next begins.
    pub(crate) fn new(message: usize, datagram: usize) -> Self {
        let payload = message.min(datagram - HEADER);
        let batch = (MAX_BATCH / (payload + HEADER)).clamp(1, MAX_SEGMENTS);
        Self {
            message,
            payload,
            batch,
        }
    }

    /// Datagrams that `messages` messages need.
    pub(crate) const fn datagrams(&self, messages: usize) -> usize {
        (self.message * messages).div_ceil(self.payload)
    }

    /// Switches segmentation offload of the socket to this layout; without it, batches are of one.
    pub(crate) fn prepare(&mut self, socket: &UdpSocket) {
        let segment = i32::try_from(self.payload + HEADER).unwrap_or(0);
        if setsockopt(socket, UdpGsoSegment, &segment).is_err() {
            self.batch = 1;
        }
    }
}

/// Sends batches.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    headers: Vec<[u8; HEADER]>,
    copied: Vec<u8>,
}

impl Sender {
    /// Sends datagrams `first..` of run `run`, at most a batch of the `total` that the run has; gives how many.
    pub(crate) fn send_batch(
        &mut self,
        (socket, to, wait): (&UdpSocket, SocketAddr, Wait),
        layout: &Layout,
        message: &[u8],
        run: u32,
        (first, messages): (usize, usize),
    ) -> io::Result<usize> {
        let end = (first + layout.batch).min(layout.datagrams(messages));
        let last_byte = layout.message * messages;
        self.headers.clear();
        self.headers.extend((first..end).map(|index| header(run, index as u32)));
        self.copied.clear();
        let mut slices = Vec::with_capacity(3 * (end - first));
        for (index, header) in (first..end).zip(&self.headers) {
            let from = index * layout.payload;
            let length = layout.payload.min(last_byte - from);
            let start = from % layout.message;
            let head = &message[start..(start + length).min(message.len())];
            let tail = &message[..length - head.len()];
            if layout.payload <= COPY_UP_TO {
                self.copied.extend_from_slice(header);
                self.copied.extend_from_slice(head);
                self.copied.extend_from_slice(tail);
            } else {
                slices.extend([IoSlice::new(header), IoSlice::new(head), IoSlice::new(tail)]);
            }
        }
        if layout.payload <= COPY_UP_TO {
            slices.push(IoSlice::new(&self.copied));
        }
        wait.until(|attempt| {
            sendmsg_addr(
                socket,
                &to,
                &slices,
                &mut SendAncillaryBuffer::default(),
                attempt.send(),
            )
        })?;
        Ok(end - first)
    }
}

/// The eight bytes in front of a datagram; also an acknowledgement, with the count instead of the index.
pub(crate) fn header(run: u32, index: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&run.to_be_bytes());
    header[4..].copy_from_slice(&index.to_be_bytes());
    header
}

/// Reads what [`header`] wrote.
pub(crate) fn parse_header(datagram: &[u8]) -> Option<(u32, u32)> {
    let (run, rest) = datagram.split_first_chunk::<4>()?;
    let index = rest.first_chunk::<4>()?;
    Some((u32::from_be_bytes(*run), u32::from_be_bytes(*index)))
}

/// Puts a run's datagrams together.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// The message, each byte in its place.
    pub message: Vec<u8>,
    /// The run that is being received.
    pub run: u32,
    /// Datagrams of it that are here.
    pub received: usize,
}

impl Assembly {
    /// Places all datagrams of one receive call.
    ///
    /// # Errors
    /// `TimedOut` if a datagram of the previous run is missing.
    pub(crate) fn place(&mut self, layout: &Layout, data: &[u8], run_datagrams: usize) -> io::Result<()> {
        for datagram in data.chunks(layout.payload + HEADER) {
            let Some((run, index)) = parse_header(datagram) else {
                continue;
            };
            if run != self.run {
                if self.received != 0 && self.received != run_datagrams {
                    return Err(timed_out("a datagram was lost"));
                }
                (self.run, self.received) = (run, 0);
            }
            let payload = &datagram[HEADER..];
            let start = (index as usize * layout.payload) % layout.message;
            let head = payload.len().min(layout.message - start);
            self.message[start..start + head].copy_from_slice(&payload[..head]);
            self.message[..payload.len() - head].copy_from_slice(&payload[head..]);
            self.received += 1;
        }
        Ok(())
    }

    /// Makes ready for messages of this layout.
    pub(crate) fn prepare(&mut self, layout: &Layout) {
        self.message.resize(layout.message, 0);
        self.received = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transports::sizes::pattern;

    /// Bytes that a sender would put on the wire for datagram `index`.
    fn datagram(layout: &Layout, message: &[u8], index: usize, messages: usize) -> Vec<u8> {
        let from = index * layout.payload;
        let to = (from + layout.payload).min(message.len() * messages);
        let mut data = header(7, index as u32).to_vec();
        data.extend((from..to).map(|at| message[at % message.len()]));
        data
    }

    #[test]
    fn layouts_fit_a_datagram_and_a_batch() {
        let small = Layout::new(64, 1472);
        assert_eq!((small.payload, small.batch, small.datagrams(100)), (64, 64, 100));
        let large = Layout::new(65_536, 1472);
        assert_eq!((large.payload, large.batch), (1464, 44));
        assert_eq!(large.datagrams(1), 45);
        assert_eq!(Layout::new(1 << 20, 65_507).batch, 1);
    }

    #[test]
    fn assembly_places_every_byte_whatever_the_order() {
        let layout = Layout::new(5000, 1472);
        let message = pattern(5000);
        let mut assembly = Assembly::default();
        assembly.prepare(&layout);
        let total = layout.datagrams(3);
        for index in (0..total).rev() {
            assembly
                .place(&layout, &datagram(&layout, &message, index, 3), total)
                .unwrap();
        }
        assert_eq!(assembly.received, total);
        assert_eq!(assembly.message, message);
    }

    #[test]
    fn a_gap_is_noticed_at_the_next_run() {
        let layout = Layout::new(5000, 1472);
        let mut assembly = Assembly::default();
        assembly.prepare(&layout);
        assembly
            .place(&layout, &datagram(&layout, &pattern(5000), 0, 1), 4)
            .unwrap();
        let mut next = datagram(&layout, &pattern(5000), 0, 1);
        next[3] = 8;
        assert_eq!(
            assembly.place(&layout, &next, 4).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
    }
}
