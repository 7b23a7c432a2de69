//! A keyed hash: numbers that follow from a name and a secret, and tell nobody without the secret anything.

use std::fmt;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::Seed;
use crate::error::Result;

/// The secret of a keyed hash. Wiped from memory on drop, never printed.
///
/// The hash is the cascade of ChaCha20: with `k` the key and `m_0 m_1 …` the message in pieces of eight bytes, its length
/// first, `k ← ChaCha20(k, nonce m_i)` piece after piece. The length makes messages prefix-free, for which the cascade of a
/// pseudorandom function is one again: without the key, hashes of different messages look independent and uniform.
///
/// # Complexity
/// One ChaCha20 block per eight bytes, and one more.
///
/// # Example
/// ```
/// use dp_mechanisms::noise::HashKey;
/// let key = HashKey::from_bytes([7; 32]);
/// assert_eq!(key.number(b"tea"), key.number(b"tea"));
/// assert_ne!(key.number(b"tea"), key.number(b"coffee"));
/// assert_ne!(key.number(b"tea"), HashKey::from_bytes([8; 32]).number(b"tea"));
/// ```
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct HashKey([u8; 32]);

/// The last block of a ChaCha20 stream, in 32-bit words: no noise is ever read there, so that what is derived from a seed
/// shares nothing with its noise.
const LAST_BLOCK: u128 = (1 << 68) - 16;

impl HashKey {
    /// A fresh secret from the operating system.
    ///
    /// # Errors
    /// When the operating system has no randomness to give.
    pub fn from_system() -> Result<Self> {
        Ok(Self(*Seed::from_system()?.expose()))
    }

    /// A secret for one purpose that follows from a seed: independent of its noise, and of what follows for another
    /// purpose.
    pub(crate) fn derive(seed: &Seed, purpose: &str) -> Self {
        Self(*seed.expose()).step(0, LAST_BLOCK).child(purpose.as_bytes())
    }

    /// The secret with these bytes, as [`Self::as_bytes`] gave them for a sealed state.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret bytes, for a sealed state only.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hash of a message, itself a secret: the hash of a sequence is a chain of children.
    #[must_use]
    pub fn child(&self, message: &[u8]) -> Self {
        let mut key = self.step(message.len() as u64, 0);
        for piece in message.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(piece);
            key = key.step(u64::from_le_bytes(bytes), 0);
        }
        key
    }

    /// The first 64 bits of the hash of a message.
    pub fn number(&self, message: &[u8]) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.child(message).0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// As many numbers of 64 bits as are asked for, which follow from a message: the stream of ChaCha20 under its hash, at a nonce
    /// that no message has as its length.
    pub fn numbers(&self, message: &[u8]) -> impl Iterator<Item = u64> + use<> {
        let mut generator = ChaCha20Rng::from_seed(self.child(message).0);
        generator.set_stream(u64::MAX);
        std::iter::repeat_with(move || generator.next_u64())
    }

    fn step(&self, nonce: u64, position: u128) -> Self {
        let mut generator = ChaCha20Rng::from_seed(self.0);
        generator.set_stream(nonce);
        generator.set_word_pos(position);
        let mut next = Self([0; 32]);
        generator.fill_bytes(&mut next.0);
        next
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HashKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn messages_that_differ_in_anything_have_different_hashes() {
        let key = HashKey::derive(&Seed::reproducible(1), "test");
        let mut seen = HashSet::new();
        // Padding, order, and where one message ends and the next begins.
        for message in [&b""[..], b"\0", b"\0\0\0\0\0\0\0\0", b"a", b"ab", b"ba", b"abcdefgh", b"abcdefgh\0"]
        {
            assert!(seen.insert(key.number(message)), "{message:?}");
        }
        assert_ne!(key.child(b"a").number(b"b"), key.child(b"ab").number(b""));
        assert_ne!(key.number(b"a"), HashKey::derive(&Seed::reproducible(1), "other").number(b"a"));
        assert_ne!(key.number(b"a"), HashKey::derive(&Seed::reproducible(2), "test").number(b"a"));
        assert_eq!(format!("{key:?}"), "HashKey(secret)");
    }

    /// n = 2^14 hashes; under uniform bits each of the 64 counts is Binomial(n, 1/2) with standard deviation 64, and one of
    /// them is off by 5.2 deviations with probability below 64 · 2e-7 = 1.3e-5.
    #[test]
    fn every_bit_is_balanced() {
        let key = HashKey::derive(&Seed::reproducible(3), "bits");
        let hashes: Vec<u64> = (0..1_u64 << 14).map(|i| key.number(&i.to_le_bytes())).collect();
        for bit in 0..64 {
            let ones = hashes.iter().filter(|hash| *hash >> bit & 1 == 1).count().cast_signed();
            assert!((ones - (1 << 13)).abs() < 333, "bit {bit}: {ones}");
        }
    }
}
