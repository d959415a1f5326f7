//! Stable hashes of ids: equal ids have equal hashes, and a hash does not reveal its id.

use sha2::{Digest, Sha256};

/// Hashes ids with a key. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Ids {
    /// The state of the hash after the key, padded to a block.
    keyed: Sha256,
}

impl Ids {
    /// Creates a hasher with this key, or with a random key.
    pub(crate) fn new(key: Option<&[u8]>) -> Self {
        let mut block = [0; 64];
        match key {
            Some(key) => block[..32].copy_from_slice(&Sha256::digest(key)),
            None => block[..32].copy_from_slice(&rand::random::<[u8; 32]>()),
        }
        Self { keyed: Sha256::new_with_prefix(block) }
    }

    /// Returns 128 bits of the hash. Truncation prevents length extension.
    fn bits(&self, kind: &str, id: &[u8]) -> [u8; 16] {
        let mut state = self.keyed.clone();
        state.update([kind.len() as u8]);
        state.update(kind);
        state.update(id);
        let mut bits = [0; 16];
        bits.copy_from_slice(&state.finalize()[..16]);
        bits
    }

    /// Formats the hash as `kind_` and hexadecimal digits.
    pub(crate) fn hash(&self, kind: &str, id: &[u8]) -> String {
        let mut digits = [0; 32];
        // Fails only if the lengths differ.
        let _ = hex::encode_to_slice(self.bits(kind, id), &mut digits);
        [kind, "_", str::from_utf8(&digits).unwrap_or_default()].concat()
    }
}

impl std::fmt::Debug for Ids {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ids(..)")
    }
}
