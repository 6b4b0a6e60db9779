//! Sealed packets: every packet of a session is sealed if this side has a sealer. Resets and challenges are not: their
//! sender knows no session. So a reset and a challenge count as little as without seals: only with the right numbers.

use alloc::boxed::Box;
use core::net::SocketAddr;

use super::{
    Endpoint,
    session::{address_of, opening_of},
};
use crate::{
    error::DropReason,
    reliability::{
        Sink,
        packet_builder::Format,
        sealing::{Sealer, Sealing},
    },
    wire::{Features, Flags, Kind, Packet, Token},
};

impl Endpoint {
    /// The same endpoint, which seals every packet that it sends, and drops those of peers that are not sealed or do not
    /// open. Both sides need a sealer with the same secret; a side without one refuses the session. This is the place of
    /// encryption: see `docs/design/sealing.md`.
    ///
    /// Checksums are not used in sealed packets, because the tag of a seal covers all bytes.
    ///
    /// # Panics
    /// If there are peers already.
    #[must_use]
    pub fn with_sealer(mut self, sealer: Box<dyn Sealer>) -> Self {
        assert!(self.peers.is_empty(), "a sealer is set before there are peers");
        self.sealing = Some(Box::new(Sealing::new(sealer, self.epoch)));
        self.format = Format::first(&self.config, true);
        self
    }

    /// Like [`handle_datagrams`](Self::handle_datagrams), for sealed packets.
    #[cold]
    #[inline(never)]
    pub(super) fn handle_sealed(&mut self, source: SocketAddr, data: &mut [u8], stride: usize, sink: &mut dyn Sink) {
        for bytes in data.chunks_mut(stride.max(1)) {
            self.stats.packets_received += 1;
            let opened = self.unseal(source, bytes);
            let taken = opened.and_then(|bytes| self.handle_packet(source, bytes, &mut [].chunks(1), sink));
            if let Err(reason) = taken {
                self.count_drop(reason);
            }
        }
    }

    /// Opens a packet and returns it without its seal.
    fn unseal<'a>(&mut self, source: SocketAddr, bytes: &'a mut [u8]) -> Result<&'a mut [u8], DropReason> {
        let packet = Packet::new_checked(&*bytes).map_err(DropReason::of)?;
        let (base, flags) = (packet.base(), packet.flags());
        let Some((seal, at)) = packet.seal().zip(packet.seal_offset()) else {
            self.check_unsealed(source, &packet)?;
            return Ok(bytes);
        };
        // There is one key for each sender in this release. A seal makes a checksum useless.
        if flags.intersects(Flags::KEY_PHASE.union(Flags::CHECKSUM)) {
            return Err(DropReason::Unagreed);
        }
        let epoch = match packet.open() {
            Some(open) => open.epoch,
            None => match self.peer_of(base.session, source)? {
                Some(peer) => self.peers[peer as usize].remote_epoch,
                None => return Err(DropReason::UnknownSession),
            },
        };
        let sealing = self.sealing.as_mut().ok_or(DropReason::Unagreed)?;
        sealing.open(bytes, at, &seal, epoch)
    }

    /// A packet without a seal: whether it is one that has none.
    fn check_unsealed(&mut self, source: SocketAddr, packet: &Packet<&[u8]>) -> Result<(), DropReason> {
        let (kind, flags) = (packet.kind(), packet.flags());
        if matches!(kind, Kind::Reset | Kind::Challenge) {
            return if flags.contains(Flags::CHECKSUM) {
                Ok(())
            } else {
                Err(DropReason::Checksum)
            };
        }
        // An opener that does not know seals is told why there is no session.
        if packet.session() == self.contact
            && let Some(open) = opening_of(packet)
        {
            self.refuse_features(address_of(source, &open), open.token, Features::SEALED);
        }
        Err(DropReason::Unsealed)
    }

    /// A packet has a seal, and we have no sealer. If it opens a session, the opener is told that we refuse.
    #[cold]
    pub(super) fn refuse_sealed(&mut self, source: SocketAddr, packet: &Packet<&[u8]>) -> DropReason {
        let first = packet.session() == self.contact || packet.session().index == Token::COOKIE;
        match opening_of(packet) {
            Some(open) if first && packet.flags().contains(Flags::SEAL) => {
                self.refuse_features(address_of(source, &open), open.token, Features::SEALED);
                DropReason::Incompatible
            }
            _ => DropReason::Unagreed,
        }
    }
}
