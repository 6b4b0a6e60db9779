//! A sealer for tests: it really changes and really verifies all bytes, and protects against nobody.

use hikyaku::reliability::{Forged, Sealer, Transmission};

use super::prng::mix;

/// In the test program `sealed`, and in the fuzz target `sealed_pair`, all nodes seal.
pub(crate) const IS_ON: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"sealed" | b"sealed_pair");

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Seals with the same key as all that were made with the same secret.
#[derive(Debug)]
pub(crate) struct TestSealer {
    secret: u64,
    /// The last transmission that was sealed.
    last: Option<Transmission>,
}

impl TestSealer {
    pub(crate) fn new(secret: u64) -> Self {
        Self { secret, last: None }
    }

    /// Adds a keystream that depends on the secret and the transmission.
    fn encrypt(&self, transmission: Transmission, payload: &mut [u8]) {
        let mut key = mix(mix(self.secret ^ transmission.epoch) ^ transmission.number);
        let mut next = || {
            key = key.wrapping_mul(ODD).rotate_left(29) ^ self.secret;
            key
        };
        // (Word by word, as debug builds take long for each byte.)
        let (words, rest) = payload.as_chunks_mut();
        for word in words {
            *word = (u64::from_be_bytes(*word) ^ next()).to_be_bytes();
        }
        for (byte, key) in rest.iter_mut().zip(next().to_be_bytes()) {
            *byte ^= key;
        }
    }

    /// A keyed sum of the transmission's name and all bytes as they are sent. Each step is a permutation, so a change of
    /// one word always changes it.
    fn sum(&self, transmission: Transmission, header: &[u8], payload: &[u8]) -> [u8; 16] {
        let lengths = (header.len() as u64) << 32 | payload.len() as u64;
        let first = [self.secret, transmission.epoch, transmission.number, lengths];
        let (mut one, mut other) = (1_u64, 2_u64);
        let mut add = |word: u64| {
            one = (one ^ word).wrapping_mul(ODD).rotate_left(23);
            other = (other ^ one).wrapping_mul(ODD);
        };
        first.into_iter().for_each(&mut add);
        for bytes in [header, payload] {
            let (words, rest) = bytes.as_chunks();
            for word in words {
                add(u64::from_be_bytes(*word));
            }
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            add(u64::from_be_bytes(last));
        }
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&mix(one ^ self.secret).to_be_bytes());
        tag[8..].copy_from_slice(&mix(other ^ self.secret).to_be_bytes());
        tag
    }
}

impl Sealer for TestSealer {
    fn seal(&mut self, transmission: Transmission, header: &[u8], payload: &mut [u8]) -> [u8; 16] {
        let is_new = self
            .last
            .is_none_or(|last| last.epoch == transmission.epoch && last.number < transmission.number);
        assert!(is_new, "{transmission:?} after {:?}", self.last);
        self.last = Some(transmission);
        self.encrypt(transmission, payload);
        self.sum(transmission, header, payload)
    }

    fn open(
        &mut self,
        transmission: Transmission,
        header: &[u8],
        payload: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), Forged> {
        if self.sum(transmission, header, payload) != *tag {
            return Err(Forged);
        }
        self.encrypt(transmission, payload);
        Ok(())
    }
}
