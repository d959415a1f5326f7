//! Tokens that a client keeps for the gateway and can't forge: base64url of a payload and its HMAC-SHA-256.
//!
//! Tokens are authenticated, not encrypted: clients can read them. A token for one purpose does not work for
//! another.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

/// The length of the truncated HMAC, in bytes.
const TAG: usize = 16;

/// The maximum length of a text to open, in bytes.
const MAX_TEXT: usize = 4096;

/// What a sealed text is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Session = 1,
    Cursor = 2,
    /// The ticket of a parked call.
    State = 3,
}

/// Seals and opens texts.
#[derive(Debug)]
pub(crate) struct Key(hmac::Key);

impl Key {
    /// Derives the key that replicas share.
    pub(crate) fn from_secret(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Creates a key that only this process knows.
    pub(crate) fn random() -> Self {
        Self::from_secret(&rand::random::<[u8; 32]>())
    }

    /// Seals a payload. It can be opened only for the same `owner`.
    pub(crate) fn seal(&self, purpose: Purpose, owner: &str, payload: &[u8]) -> String {
        let tag = self.tag(purpose, owner, payload);
        let kept = tag.as_ref().get(..TAG).unwrap_or_default();
        URL_SAFE_NO_PAD.encode([payload, kept].concat())
    }

    /// Opens a text, and returns its payload. None if this key did not seal it for this purpose and this owner.
    pub(crate) fn open(&self, purpose: Purpose, owner: &str, text: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Some(text).filter(|it| it.len() <= MAX_TEXT).and_then(|it| URL_SAFE_NO_PAD.decode(it).ok())?;
        let tag = bytes.split_off(bytes.len().checked_sub(TAG)?);
        let expected = self.tag(purpose, owner, &bytes);
        let is_ours = expected.as_ref().get(..TAG).is_some_and(|expected| is_equal(expected, &tag));
        is_ours.then_some(bytes)
    }

    fn tag(&self, purpose: Purpose, owner: &str, payload: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&[purpose as u8]);
        // The length prefix separates the owner from the payload.
        context.update(&(owner.len() as u64).to_be_bytes());
        context.update(owner.as_bytes());
        context.update(payload);
        context.sign()
    }
}

/// Compares two values in constant time.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_purpose_and_owner_open_a_text() {
        let (key, replica, other) =
            (Key::from_secret(&[1; 32]), Key::from_secret(&[1; 32]), Key::from_secret(&[2; 32]));
        let text = key.seal(Purpose::Session, "alice", b"payload");
        let open = |key: &Key, purpose, owner: &str| key.open(purpose, owner, text.as_bytes());
        assert_eq!(open(&replica, Purpose::Session, "alice").as_deref(), Some(&b"payload"[..]));
        assert_eq!(open(&other, Purpose::Session, "alice"), None);
        assert_eq!(open(&key, Purpose::Cursor, "alice"), None);
        assert_eq!(open(&key, Purpose::Session, "bob"), None);
    }

    #[test]
    fn a_changed_text_does_not_open() {
        let key = Key::random();
        let text = key.seal(Purpose::Cursor, "", b"echo").into_bytes();
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(key.open(Purpose::Cursor, "", &changed), None, "{at}");
        }
        for text in ["", "A", "!!!!", &"A".repeat(5000)] {
            assert_eq!(key.open(Purpose::Cursor, "", text.as_bytes()), None);
        }
    }
}
