//! Signatures of events, as Standard Webhooks specifies them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// The length of a key, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The maximum number of keys: the new one and the old one.
const MAX_KEYS: usize = 2;

/// The keys that sign events. While a key is replaced there are two, and receivers may check either signature.
#[derive(Clone)]
pub struct SigningKeys(Vec<hmac::Key>);

impl SigningKeys {
    /// Parses one or two keys, separated by a comma: each is `whsec_` and the base64 of 24 to 64 bytes. None if one is
    /// not.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let keys = text.split(',').map(|it| key(it.trim())).collect::<Option<Vec<_>>>()?;
        (keys.len() <= MAX_KEYS).then_some(Self(keys))
    }

    /// Returns the value of `webhook-signature`. `sent_s`: seconds since 1970.
    pub(super) fn sign(&self, id: &str, sent_s: i64, body: &str) -> String {
        let signed = format!("{id}.{sent_s}.{body}");
        let sign = |key| format!("v1,{}", STANDARD.encode(hmac::sign(key, signed.as_bytes())));
        self.0.iter().map(sign).collect::<Vec<_>>().join(" ")
    }
}

fn key(text: &str) -> Option<hmac::Key> {
    let bytes = STANDARD.decode(text.strip_prefix("whsec_")?).ok()?;
    KEY_BYTES.contains(&bytes.len()).then(|| hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKeys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn sign(keys: &str) -> String {
        let keys = SigningKeys::parse(keys).unwrap();
        keys.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#)
    }

    #[test]
    fn a_signature_is_that_of_the_specification() {
        assert_eq!(sign(SECRET), SIGNATURE);
    }

    #[test]
    fn two_keys_make_two_signatures() {
        let new = format!("whsec_{}", STANDARD.encode([7; 32]));
        let both = sign(&format!("{new}, {SECRET}"));
        assert_eq!(both, format!("{} {SIGNATURE}", sign(&new)));
    }

    #[test]
    fn what_is_no_key_is_refused_and_none_is_shown() {
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let three = [SECRET; 3].join(",");
        for wrong in
            ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_=", &short, &three, &format!("{SECRET},")]
        {
            assert!(SigningKeys::parse(wrong).is_none(), "{wrong}");
        }
        assert_eq!(format!("{:?}", SigningKeys::parse(SECRET).unwrap()), "SigningKeys { .. }");
    }
}
