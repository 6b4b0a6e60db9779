//! Puts a seal into a finished packet, takes it out, and names the parts that it is computed over.

use super::{Flags, header::SEAL_LEN};

/// Bytes of the number, which is authenticated, before the tag, which is not.
const NUMBER_LEN: usize = 8;

/// The parts of a sealed packet.
pub(crate) struct Parts<'a> {
    /// The bytes before the tag, which are authenticated.
    pub(crate) header: &'a [u8],
    pub(crate) tag: &'a mut [u8; SEAL_LEN - NUMBER_LEN],
    /// The bytes behind the tag, which are encrypted.
    pub(crate) payload: &'a mut [u8],
}

/// Adds a seal with this number and no tag to the finished header in the first `header_len` bytes of `packet`. The
/// payload begins [`SEAL_LEN`] bytes behind them.
pub(crate) fn attach(packet: &mut [u8], header_len: usize, number: u64) {
    set_flags(packet, |flags| flags.union(Flags::SEAL));
    packet[header_len..header_len + NUMBER_LEN].copy_from_slice(&number.to_be_bytes());
}

/// The parts of a packet whose seal begins at `seal`.
pub(crate) fn parts(packet: &mut [u8], seal: usize) -> Option<Parts<'_>> {
    let (header, rest) = packet.split_at_mut_checked(seal + NUMBER_LEN)?;
    let (tag, payload) = rest.split_first_chunk_mut()?;
    Some(Parts { header, tag, payload })
}

/// Takes the seal, which begins at `seal`, out of a packet. The result is the packet as it was before it was sealed.
pub(crate) fn detach(packet: &mut [u8], seal: usize) -> &mut [u8] {
    set_flags(packet, |flags| flags.difference(Flags::SEAL));
    packet.copy_within(..seal, SEAL_LEN);
    &mut packet[SEAL_LEN..]
}

fn set_flags(packet: &mut [u8], change: impl FnOnce(Flags) -> Flags) {
    let flags = Flags::from_bits_retain(u16::from_be_bytes([packet[2], packet[3]]));
    packet[2..4].copy_from_slice(&change(flags).bits().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Base, Builder, Kind, MAX_HEADER_LEN, Packet, Seq, Token},
        *,
    };

    #[test]
    fn a_seal_is_attached_and_detached() {
        let base = Base {
            kind: Kind::Data,
            channel: 3,
            source: 7,
            destination: 9,
            session: Token { index: 3, secret: 5 },
            sequence: Seq(17),
            acknowledgement: Seq(5),
            rail: 0,
            message: Seq(42),
        };
        let mut plain = [0xa5; MAX_HEADER_LEN];
        let mut header = Builder::new(&mut plain, &base);
        header.match_bits(77);
        let len = header.finish(4);
        plain[len..len + 4].copy_from_slice(b"data");
        let plain = &plain[..len + 4];

        let mut sealed = [0; MAX_HEADER_LEN];
        sealed[..len].copy_from_slice(&plain[..len]);
        sealed[len + SEAL_LEN..len + SEAL_LEN + 4].copy_from_slice(b"data");
        let sealed = &mut sealed[..len + SEAL_LEN + 4];
        attach(sealed, len, 0x0102_0304);
        let packet = Packet::new_checked(&sealed[..]).unwrap();
        assert_eq!(packet.seal().map(|seal| seal.number), Some(0x0102_0304));
        assert_eq!(packet.seal_offset(), Some(len));
        assert_eq!((packet.payload(), packet.match_bits()), (&b"data"[..], Some(77)));

        let parts = parts(sealed, len).unwrap();
        assert_eq!((parts.header.len(), &parts.payload[..]), (len + 8, &b"data"[..]));
        assert_eq!(detach(sealed, len), plain);
    }
}
