//! API keys: `osk_` + an id + `_` + a secret of 256 random bits.
//!
//! The file keeps SHA-256 of the whole text. A fast hash is right here: slow ones, such as Argon2, protect passwords, which
//! people choose and others can guess. Nobody can try 2^256 secrets, however fast the hash is.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// How a key begins, so that people and redaction recognize it.
pub const PREFIX: &str = "osk_";

const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// The length of a key, in bytes.
pub const KEY_LENGTH: usize = PREFIX.len() + 2 * ID_BYTES + 1 + 2 * SECRET_BYTES;

/// The public part of a key: what lists and logs name it by. 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId([u8; ID_BYTES]);

/// What is kept of a key: SHA-256 of its text.
#[derive(Clone, Copy)]
pub struct KeyHash([u8; 32]);

/// A key as a client sends it.
#[derive(Debug, Clone, Copy)]
pub struct Presented {
    /// Which key it says it is.
    pub id: KeyId,
    /// What the file must have for it.
    pub hash: KeyHash,
}

/// A key that was just made. Its text is shown once and kept nowhere.
pub struct NewKey {
    /// The public part.
    pub id: KeyId,
    /// What the file keeps.
    pub hash: KeyHash,
    /// The key.
    pub text: String,
}

impl NewKey {
    /// A key from a cryptographic generator that the operating system seeds.
    pub fn generate() -> Self {
        let id = KeyId(rand::random());
        let text = format!("{PREFIX}{id}_{}", hex(&rand::random::<[u8; SECRET_BYTES]>()));
        let hash = KeyHash::of(text.as_bytes());
        Self { id, hash, text }
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Presented {
    /// Reads the text of a key. None if it has another form.
    pub fn read(text: &[u8]) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX.as_bytes()).filter(|_| text.len() == KEY_LENGTH)?;
        let (id, secret) = rest.split_at(2 * ID_BYTES);
        let id = KeyId(bytes(id)?);
        let secret = secret.strip_prefix(b"_")?;
        secret.iter().all(is_digit).then(|| Self { id, hash: KeyHash::of(text) })
    }
}

impl KeyHash {
    fn of(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// A hash that no key is known to have, to compare with when there is no key of an id.
    pub const NONE: Self = Self([0; 32]);

    /// Whether both are the same. Takes the same time wherever they differ.
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
        bytes(text.as_bytes()).map(Self).ok_or(())
    }
}

impl FromStr for KeyHash {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        bytes(text.as_bytes()).map(Self).ok_or(())
    }
}

/// Lower-case hexadecimal digits only: each key has one text.
fn is_digit(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn hex(bytes: &[u8]) -> String {
    openskill_proto::trace::hex(bytes)
}

fn bytes<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.iter().all(is_digit) {
        return None;
    }
    let value = |digit: u8| if digit <= b'9' { digit - b'0' } else { digit - b'a' + 10 };
    let mut read = [0; N];
    for (byte, pair) in read.iter_mut().zip(text.as_chunks::<2>().0) {
        *byte = value(pair[0]) << 4 | value(pair[1]);
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_read_back_and_its_hash_is_that_of_the_file() {
        let key = NewKey::generate();
        assert_eq!(key.text.len(), KEY_LENGTH);
        let presented = Presented::read(key.text.as_bytes()).unwrap();
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
            assert!(Presented::read(other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn one_other_digit_anywhere_makes_another_key() {
        let key = NewKey::generate();
        for at in PREFIX.len()..KEY_LENGTH {
            let mut other = key.text.clone().into_bytes();
            other[at] = if other[at] == b'0' { b'1' } else { b'0' };
            let is_same = Presented::read(&other).is_some_and(|it| it.id == key.id && it.hash.matches(&key.hash));
            assert!(!is_same, "{at}");
        }
    }

    #[test]
    fn what_is_printed_for_debugging_has_no_secret() {
        let key = NewKey::generate();
        let shown = format!("{key:?} {:?}", Presented::read(key.text.as_bytes()));
        assert!(!shown.contains(&key.text[21..]) && !shown.contains(&key.hash.to_string()), "{shown}");
    }
}
