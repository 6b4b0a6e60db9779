//! Packets that belong to no flow: resets, challenges, probes and their answers.

use core::net::SocketAddr;

use super::{
    burst::Burst,
    endpoint::Endpoint,
    peer::successor,
    transmit::{finish_extensions, open_of, window_of},
};
use crate::wire::{self, Base, Builder, Features, Kind, Open, Seq, checksum::Crc32c};

/// Packets of control that wait to be sent; more are forgotten (their cause will come again).
pub(super) const MAX_CONTROL: usize = 256;

/// A packet that belongs to no flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Control {
    /// "I do not know this session", or "I refuse it because of these features".
    Reset {
        to: SocketAddr,
        session: u32,
        quoted: u32,
        refused: Features,
    },
    /// "Echo this token, then I believe that you live there."
    Challenge { peer: u32, to: SocketAddr, session: u32 },
    /// A path MTU probe has arrived.
    ProbeAck { peer: u32, number: u32 },
    /// The goodbye has arrived; the session is gone already.
    LastAck {
        to: SocketAddr,
        session: u32,
        channel: u8,
        sequence: Seq,
        acknowledgement: Seq,
        checksum: bool,
    },
}

impl Endpoint {
    pub(super) fn control_base(&self, kind: Kind, session: u32, destination: u32, message: u32) -> Base {
        Base {
            kind,
            channel: 0,
            source: self.processor,
            destination,
            session,
            sequence: Seq(0),
            acknowledgement: Seq(0),
            reply_queue: 0,
            message: Seq(message),
        }
    }

    /// A packet of control.
    pub(super) fn write_control(&mut self, control: Control, burst: &mut Burst) {
        match control {
            Control::Reset {
                to,
                session,
                quoted,
                refused,
            } => {
                burst.begin(to);
                self.stats.resets_sent += 1;
                let base = Base {
                    sequence: Seq(refused.bits()),
                    ..self.control_base(Kind::Reset, session, wire::ANY_PROCESSOR, quoted)
                };
                self.write_plain(&base, true, None, 0, burst);
            }
            Control::Challenge { peer, to, session } => {
                burst.begin(to);
                let p = &self.peers[peer as usize];
                let window = window_of(&self.limits, &self.config, 1);
                // If the old session has ended in the meantime, its successor's token is ours already.
                let token = if p.remote_token == 0 {
                    p.local_token
                } else {
                    successor(p.local_token)
                };
                let open = open_of(&self.config, &self.limits, self.epoch, token, window);
                let base = self.control_base(Kind::Challenge, session, p.processor, 0);
                self.write_plain(&base, true, Some(&open), 0, burst);
            }
            Control::ProbeAck { peer, number } => {
                let p = &self.peers[peer as usize];
                burst.begin(p.address);
                let checksum = p.checksums(&self.config);
                let base = self.control_base(Kind::ProbeAck, p.remote_token, p.processor, number);
                self.write_plain(&base, checksum, None, 0, burst);
            }
            Control::LastAck {
                to,
                session,
                channel,
                sequence,
                acknowledgement,
                checksum,
            } => {
                burst.begin(to);
                let base = Base {
                    channel,
                    sequence,
                    acknowledgement,
                    ..self.control_base(Kind::Ack, session, wire::ANY_PROCESSOR, 0)
                };
                self.write_plain(&base, checksum, None, 0, burst);
            }
        }
    }

    /// A packet without a flow's extensions, padded with zeros to `size` octets.
    pub(super) fn write_plain(
        &mut self,
        base: &Base,
        checksum: bool,
        open: Option<&Open>,
        size: usize,
        burst: &mut Burst,
    ) {
        let start = burst.position();
        let mut header = Builder::new(burst.header(), base);
        let checksum = finish_extensions(&mut header, None, None, checksum, open);
        let header_len = header.header_len();
        let padding = size.saturating_sub(header_len);
        header.finish(padding as u16);
        if let Some(at) = checksum {
            let mut crc = Crc32c::new().update(burst.arena(start, start + header_len));
            let mut left = padding;
            while left > 0 {
                let zeros = &[0; 256][..left.min(256)];
                crc = crc.update(zeros);
                left -= zeros.len();
            }
            burst.patch(start + at, crc.finish().to_be_bytes());
        }
        if padding > 0 {
            burst.push_padding(header_len, padding)
        } else {
            burst.push_inline(header_len, &[])
        }
        self.stats.packets_sent += 1;
    }
}
