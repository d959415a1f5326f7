//! The three parts of a token, decoded but not yet verified.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openskill_proto::json;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The maximum size of a token, in bytes.
pub const MAX_BYTES: usize = 8 * 1024;

/// The accepted values of `typ`. Tokens of other types, such as logout tokens, serve other purposes.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// A decoded token, not yet verified.
#[derive(Debug)]
pub struct Token<'a> {
    /// The name of the signature algorithm.
    pub algorithm: String,
    /// The id of the key that signed it.
    pub key_id: Option<String>,
    /// The claims, not yet verified.
    pub claims: Map<String, Value>,
    /// The signed bytes.
    pub(super) message: &'a [u8],
    pub(super) signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

impl<'a> Token<'a> {
    /// Parses a token. Returns `None` if it is malformed, has another type, or has a `crit` header.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let second_dot = text.iter().rposition(|it| *it == b'.')?;
        let (message, signature) = (text.get(..second_dot)?, text.get(second_dot + 1..)?);
        let first_dot = message.iter().position(|it| *it == b'.')?;
        let (header, claims) = (message.get(..first_dot)?, message.get(first_dot + 1..)?);
        let decode = |part: &[u8]| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Header = json::read(&decode(header)?).ok()?;
        let is_ours = header.typ.is_none_or(|it| TYPES.contains(&it.to_ascii_lowercase().as_str()));
        if !is_ours || header.crit.is_some() {
            return None;
        }
        let claims = serde_json::from_slice(&decode(claims)?).ok()?;
        let signature = decode(signature)?;
        Some(Self { algorithm: header.alg, key_id: header.kid, claims, message, signature })
    }

    /// Returns the issuer that the token claims, unverified.
    pub fn issuer(&self) -> Option<&str> {
        self.claims.get("iss")?.as_str()
    }
}
