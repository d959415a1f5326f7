//! API keys: `osk_`, an id, `_`, and a secret of 256 random bits.
//!
//! The file stores the SHA-256 of the whole key. A fast hash is enough: slow hashes, such as Argon2, protect
//! passwords, which people choose and others can guess. Trying 2^256 secrets is impossible, however fast the hash
//! is.

use std::fmt;
use std::str::FromStr;

use openskill_proto::trace::{hex, unhex};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The prefix of every key, which makes keys recognizable to people and to redaction.
pub const PREFIX: &str = "osk_";

const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// The length of a key, in bytes.
pub const KEY_LENGTH: usize = PREFIX.len() + 2 * ID_BYTES + 1 + 2 * SECRET_BYTES;

/// The public part of a key, which identifies it in lists and logs: 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId([u8; ID_BYTES]);

/// The stored part of a key: the SHA-256 of its text.
#[derive(Clone, Copy)]
pub struct KeyHash([u8; 32]);

/// A key as a client sends it.
#[derive(Debug, Clone, Copy)]
pub struct PresentedKey {
    /// The id that the client claims.
    pub id: KeyId,
    /// The hash of the presented key, to compare with the stored hash of this id.
    pub hash: KeyHash,
}

/// A new key. Its text is shown once and never stored.
pub struct NewKey {
    /// The public part of the key.
    pub id: KeyId,
    /// The hash that the file stores.
    pub hash: KeyHash,
    /// The secret text that the client sends.
    pub text: String,
}

impl NewKey {
    /// Generates a key with a cryptographic random number generator seeded by the operating system.
    pub fn generate() -> Self {
        let id = KeyId(rand::random());
        let text = format!("{PREFIX}{id}_{}", hex(&rand::random::<[u8; SECRET_BYTES]>()));
        let hash = KeyHash::digest(text.as_bytes());
        Self { id, hash, text }
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl PresentedKey {
    /// Parses the text of a key. Returns `None` if it is malformed.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX.as_bytes()).filter(|_| text.len() == KEY_LENGTH)?;
        let (id, secret) = rest.split_at(2 * ID_BYTES);
        let id = KeyId(unhex(id)?);
        // Only lower-case digits are accepted, so that each key has exactly one text.
        unhex::<SECRET_BYTES>(secret.strip_prefix(b"_")?)?;
        Some(Self { id, hash: KeyHash::digest(text) })
    }
}

impl KeyHash {
    fn digest(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// A hash that matches no known key, for the comparison if the presented id is unknown.
    pub const NONE: Self = Self([0; 32]);

    /// Whether two hashes are equal, in constant time.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash")
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl FromStr for KeyId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        unhex(text).map(Self).ok_or(())
    }
}

impl FromStr for KeyHash {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        unhex(text).map(Self).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_read_back_and_its_hash_is_that_of_the_file() {
        let key = NewKey::generate();
        assert_eq!(key.text.len(), KEY_LENGTH);
        let presented = PresentedKey::parse(key.text.as_bytes()).unwrap();
        assert_eq!(presented.id, key.id);
        let kept: KeyHash = key.hash.to_string().parse().unwrap();
        assert!(presented.hash.matches(&kept) && !presented.hash.matches(&KeyHash::NONE));
        assert_eq!(key.id.to_string().parse(), Ok(key.id));
    }

    #[test]
    fn a_text_of_another_form_is_no_key() {
        let text = NewKey::generate().text;
        let others = [
            String::new(),
            "osk_".to_owned(),
            text[..KEY_LENGTH - 1].to_owned(),
            format!("{text}0"),
            text.replacen("osk_", "sk__", 1),
            text.to_uppercase(),
            format!("{}g", &text[..KEY_LENGTH - 1]),
            text.replacen('_', "-", 2),
        ];
        for other in others {
            assert!(PresentedKey::parse(other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn one_other_digit_anywhere_makes_another_key() {
        let key = NewKey::generate();
        for at in PREFIX.len()..KEY_LENGTH {
            let mut other = key.text.clone().into_bytes();
            other[at] = if other[at] == b'0' { b'1' } else { b'0' };
            let is_same = PresentedKey::parse(&other).is_some_and(|it| it.id == key.id && it.hash.matches(&key.hash));
            assert!(!is_same, "{at}");
        }
    }

    #[test]
    fn what_is_printed_for_debugging_has_no_secret() {
        let key = NewKey::generate();
        let shown = format!("{key:?} {:?}", PresentedKey::parse(key.text.as_bytes()));
        assert!(!shown.contains(&key.text[21..]) && !shown.contains(&key.hash.to_string()), "{shown}");
    }
}
