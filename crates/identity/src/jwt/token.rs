//! The three parts of a token, decoded and not yet believed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openskill_proto::json;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The largest token, in bytes.
pub const MAX_BYTES: usize = 8 * 1024;

/// What a token may say that it is. Others, such as logout tokens, are for other purposes.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// A token.
#[derive(Debug)]
pub struct Token<'a> {
    /// The name of its algorithm.
    pub algorithm: String,
    /// Which key signed it.
    pub key_id: Option<String>,
    /// What it says.
    pub claims: Map<String, Value>,
    /// What is signed.
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
    /// Reads a token. None if it is malformed, or demands what is not known here.
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

    /// Who says that it signed the token. Nobody has checked it.
    pub fn issuer(&self) -> Option<&str> {
        self.claims.get("iss")?.as_str()
    }
}
