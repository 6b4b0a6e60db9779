//! SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash of a few words, for what strangers must not guess.

/// The hash of `words`, each as 8 bytes with the least significant first.
#[must_use]
pub(crate) fn siphash(key: [u64; 2], words: &[u64]) -> u64 {
    let [k0, k1] = key;
    let mut state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    // The last block has what is left of the message, which is nothing, and its length.
    let last = (words.len() as u64 * 8) << 56;
    for &word in words.iter().chain([&last]) {
        state[3] ^= word;
        rounds(&mut state, 2);
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    rounds(&mut state, 4);
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn rounds(state: &mut [u64; 4], count: u32) {
    let [mut a, mut b, mut c, mut d] = *state;
    for _ in 0..count {
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
    }
    *state = [a, b, c, d];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the reference implementation, of the lengths that are whole words.
    #[test]
    fn reference_vectors() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let words: [u64; 3] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908, 0x1716_1514_1312_1110];
        assert_eq!(siphash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(key, &words[..1]), 0x93f5_f579_9a93_2462);
        assert_eq!(siphash(key, &words[..2]), 0x3f2a_cc7f_57c2_9bdb);
        assert_eq!(siphash(key, &words[..3]), 0xb8ad_50c6_f649_af94);
    }
}
