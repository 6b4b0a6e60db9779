//! Writes the packets that belong to no flow.

use super::{
    Endpoint,
    control::{Control, MAX_CONTROL, Refusal},
};
use crate::{
    reliability::{
        Path,
        burst::Burst,
        flow::window_of,
        packet_builder::{Body, Written, finish, finish_extensions, open_of},
        sealing::Sealing,
    },
    wire::{self, Base, Builder, Kind, Open, Seq, Token},
};

impl Endpoint {
    pub(super) fn push_control(&mut self, control: Control) {
        if self.control.len() < MAX_CONTROL {
            self.control.push_back(control);
        } else {
            self.stats.answers_dropped += 1;
        }
    }

    pub(super) fn control_base(&self, kind: Kind, session: Token, destination: u32, message: u32) -> Base {
        Base {
            kind,
            channel: 0,
            source: self.processor,
            destination,
            session,
            sequence: Seq(0),
            acknowledgement: Seq(0),
            rail: 0,
            message: Seq(message),
        }
    }

    /// A packet of control.
    pub(super) fn write_control(&mut self, control: Control, burst: &mut Burst) {
        match control {
            Control::Reset { to, session, refused } => {
                burst.begin(to);
                self.stats.resets_sent += 1;
                let (message, features) = match refused {
                    None => (0, 0),
                    Some(Refusal::Features(features)) => (1, features.bits()),
                    Some(Refusal::NoRoom) => (2, 0),
                };
                let base = Base {
                    sequence: Seq(features),
                    ..self.control_base(Kind::Reset, session, wire::ANY_PROCESSOR, message)
                };
                self.write_plain(&base, true, None, 0, burst);
            }
            Control::Challenge { to, session, cookie } => {
                burst.begin(to);
                let window = window_of(&self.limits, &self.config, 1);
                let open = open_of(
                    &self.config,
                    &self.limits,
                    self.epoch,
                    cookie,
                    window,
                    self.format.is_sealed(),
                );
                let base = self.control_base(Kind::Challenge, session, wire::ANY_PROCESSOR, 0);
                self.write_plain(&base, true, Some(&open), 0, burst);
            }
            Control::ProbeAck { peer, to, rail, number } => {
                self.write_probing(Kind::ProbeAck, peer, to, (rail, number), burst);
            }
            Control::RailProbe { peer, rail, number } => {
                let to = self.own_path(peer, rail);
                self.write_probing(Kind::Probe, peer, to, (rail, number), burst);
            }
            Control::LastAck {
                to,
                session,
                key,
                sequence,
                acknowledgement,
                checksum,
            } => {
                burst.begin(to);
                let base = Base {
                    channel: key.channel(),
                    rail: key.rail(),
                    sequence,
                    acknowledgement,
                    ..self.control_base(Kind::Ack, session, wire::ANY_PROCESSOR, 0)
                };
                self.write_plain(&base, checksum, None, 0, burst);
            }
        }
    }

    fn write_probing(&mut self, kind: Kind, peer: u32, to: Path, (rail, number): (u8, u32), burst: &mut Burst) {
        burst.begin(to);
        let p = &self.peers[peer as usize];
        let checksum = p.checksums();
        let base = Base {
            rail,
            ..self.control_base(kind, p.remote_token(), p.processor, number)
        };
        self.write_plain(&base, checksum, None, 0, burst);
    }

    /// A packet without a flow's extensions, padded with zeros to `size` bytes.
    pub(super) fn write_plain(
        &mut self,
        base: &Base,
        checksum: bool,
        open: Option<&Open>,
        size: usize,
        burst: &mut Burst,
    ) {
        let is_of_session = !matches!(base.kind, Kind::Reset | Kind::Challenge);
        let sealing = self.sealing.as_deref_mut().filter(|_| is_of_session);
        let mut header = Builder::new(burst.header(), base);
        finish_extensions(&mut header, None, None, checksum, open);
        let overhead = header.header_len() + if sealing.is_some() { Sealing::LEN } else { 0 };
        let body = match size.saturating_sub(overhead) {
            0 => Body::Empty,
            padding => Body::Zeros(padding),
        };
        let written = Written::of(header, body.len());
        finish(burst, written, body, sealing);
        self.stats.packets_sent += 1;
    }
}
