//! Verifies tokens and determines their principals.

use std::collections::BTreeSet;
use std::sync::Arc;

use openskill_proto::timestamp::Timestamp;
use serde_json::Value;

use super::algorithm::Algorithm;
use super::issuers::Issuer;
use super::jwk::PublicKey;
use super::rules::{claim, scopes};
use super::token::Token;
use crate::policy::Policy;

/// The maximum length of a principal's name within its issuer, in bytes.
const MAX_SUBJECT_BYTES: usize = 128;

/// Why a token is rejected. Only the log gets the reason, never the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TokenRefusal {
    #[error("malformed")]
    Malformed,
    #[error("unknown issuer")]
    Issuer,
    #[error("algorithm not allowed")]
    Algorithm,
    #[error("unknown key")]
    Key,
    #[error("wrong signature")]
    Signature,
    #[error("other audience")]
    Audience,
    #[error("expired")]
    Expired,
    #[error("not valid yet")]
    NotYet,
    #[error("no usable subject")]
    Subject,
    #[error("no rule allows it")]
    Rule,
}

/// A valid token.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The principal: `issuer:subject`. Principal names in a key file never contain a colon.
    pub principal: String,
    /// What the principal may do.
    pub policy: Arc<Policy>,
    /// The expiry, including the tolerated clock skew.
    pub expires: Timestamp,
    /// The scopes, with the issuer's names.
    pub scopes: BTreeSet<String>,
}

/// Returns the index of the key that a token refers to, and the algorithm. A token without a key id is accepted if
/// exactly one key fits.
///
/// # Errors
/// The algorithm is not allowed, or no key matches.
pub fn choose<'a>(
    issuer: &Issuer,
    token: &Token<'_>,
    keys: impl Iterator<Item = &'a PublicKey>,
) -> Result<(usize, Algorithm), TokenRefusal> {
    let algorithm: Algorithm = token.algorithm.parse().map_err(|_| TokenRefusal::Algorithm)?;
    if !issuer.algorithms.contains(&algorithm) {
        return Err(TokenRefusal::Algorithm);
    }
    let is_named = |key: &PublicKey| token.key_id.is_none() || token.key_id == key.id;
    let mut fitting = keys.enumerate().filter(|(_, key)| key.is_for(algorithm) && is_named(key));
    match (fitting.next(), fitting.next()) {
        (Some((at, _)), None) => Ok((at, algorithm)),
        _ => Err(TokenRefusal::Key),
    }
}

/// Verifies a token. The caller has found the issuer and its key with [`Token::issuer`] and [`choose`].
///
/// # Errors
/// The reason why the token is rejected.
pub fn verify(
    issuer: &Issuer,
    token: &Token<'_>,
    key: &PublicKey,
    algorithm: Algorithm,
    now: Timestamp,
) -> Result<Verified, TokenRefusal> {
    if token.issuer() != Some(issuer.issuer.as_str()) {
        return Err(TokenRefusal::Issuer);
    }
    // Check the signature first: unverified claims are meaningless.
    if !key.verifies(algorithm, token.message, &token.signature) {
        return Err(TokenRefusal::Signature);
    }
    let claims = &token.claims;
    let is_ours = |value: &Value| value.as_str().is_some_and(|it| issuer.audiences.iter().any(|own| own == it));
    let has_audience = match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(is_ours),
        Some(one) => is_ours(one),
        None => false,
    };
    if !has_audience {
        return Err(TokenRefusal::Audience);
    }
    let skew = u64::try_from(issuer.clock_skew.as_micros()).unwrap_or(u64::MAX);
    let expires = time(claims.get("exp")).ok_or(TokenRefusal::Expired)?.0.saturating_add(skew);
    if expires <= now.0 {
        return Err(TokenRefusal::Expired);
    }
    for name in ["nbf", "iat"] {
        let Some(value) = claims.get(name) else { continue };
        let begins = time(Some(value)).ok_or(TokenRefusal::NotYet)?;
        if begins.0 > now.0.saturating_add(skew) {
            return Err(TokenRefusal::NotYet);
        }
    }
    let subject = claim(claims, &issuer.principal).and_then(Value::as_str).ok_or(TokenRefusal::Subject)?;
    let is_visible = subject.bytes().all(|it| it.is_ascii_graphic());
    if subject.is_empty() || subject.len() > MAX_SUBJECT_BYTES || !is_visible {
        return Err(TokenRefusal::Subject);
    }
    let rule = issuer.rules.iter().find(|rule| rule.matches(claims)).ok_or(TokenRefusal::Rule)?;
    Ok(Verified {
        principal: format!("{}:{subject}", issuer.name),
        policy: Arc::clone(&rule.policy),
        expires: Timestamp(expires),
        scopes: scopes(claims),
    })
}

/// Parses seconds since 1970, possibly with a fraction.
fn time(value: Option<&Value>) -> Option<Timestamp> {
    let seconds = value?.as_f64().filter(|it| (0.0..1e12).contains(it))?;
    Some(Timestamp((seconds * 1e6) as u64))
}
