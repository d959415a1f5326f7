//! Whether a token is valid, and whose it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use openskill_proto::timestamp::Timestamp;
use serde_json::Value;

use super::algorithm::Algorithm;
use super::issuers::Issuer;
use super::jwk::Key;
use super::rules::{claim, scopes};
use super::token::Token;
use crate::policy::Policy;

/// The name of a principal within its issuer, in bytes.
const MAX_SUBJECT_BYTES: usize = 128;

/// Why a token is refused. For the log: who sent it learns only that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Refusal {
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

/// A token that is valid.
#[derive(Debug, Clone)]
pub struct Verified {
    /// Whose it is: the issuer's name and the subject. No name of a principal in a file of keys has a colon.
    pub principal: String,
    /// What the principal may do.
    pub policy: Arc<Policy>,
    /// When it ends, with the tolerance for clocks.
    pub expires: Timestamp,
    /// What its holder may use it for, by the names of the issuer.
    pub scopes: BTreeSet<String>,
}

/// The key that a token says it is signed with, by its position. A token that names none fits if only one key does.
///
/// # Errors
/// The algorithm is not allowed, or there is no such key.
pub fn choose<'a>(
    issuer: &Issuer,
    token: &Token<'_>,
    keys: impl Iterator<Item = &'a Key>,
) -> Result<(usize, Algorithm), Refusal> {
    let algorithm: Algorithm = token.algorithm.parse().map_err(|_| Refusal::Algorithm)?;
    if !issuer.algorithms.contains(&algorithm) {
        return Err(Refusal::Algorithm);
    }
    let is_named = |key: &Key| token.key_id.is_none() || token.key_id == key.id;
    let mut fitting = keys.enumerate().filter(|(_, key)| key.is_for(algorithm) && is_named(key));
    match (fitting.next(), fitting.next()) {
        (Some((at, _)), None) => Ok((at, algorithm)),
        _ => Err(Refusal::Key),
    }
}

/// Checks everything about a token but its issuer, which the caller found by [`Token::issuer`].
///
/// # Errors
/// Why it is refused.
pub fn verify(
    issuer: &Issuer,
    token: &Token<'_>,
    (key, algorithm): (&Key, Algorithm),
    now: Timestamp,
) -> Result<Verified, Refusal> {
    if token.issuer() != Some(issuer.issuer.as_str()) {
        return Err(Refusal::Issuer);
    }
    // First: what nobody signed is not looked at.
    if !key.verifies(algorithm, token.message, &token.signature) {
        return Err(Refusal::Signature);
    }
    let claims = &token.claims;
    let is_ours = |value: &Value| value.as_str().is_some_and(|it| issuer.audiences.iter().any(|own| own == it));
    let has_audience = match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(is_ours),
        Some(one) => is_ours(one),
        None => false,
    };
    if !has_audience {
        return Err(Refusal::Audience);
    }
    let skew = u64::try_from(issuer.clock_skew.as_micros()).unwrap_or(u64::MAX);
    let expires = time(claims.get("exp")).ok_or(Refusal::Expired)?.0.saturating_add(skew);
    if expires <= now.0 {
        return Err(Refusal::Expired);
    }
    for name in ["nbf", "iat"] {
        let Some(value) = claims.get(name) else { continue };
        let begins = time(Some(value)).ok_or(Refusal::NotYet)?;
        if begins.0 > now.0.saturating_add(skew) {
            return Err(Refusal::NotYet);
        }
    }
    let subject = claim(claims, &issuer.principal).and_then(Value::as_str).ok_or(Refusal::Subject)?;
    let is_visible = subject.bytes().all(|it| it.is_ascii_graphic());
    if subject.is_empty() || subject.len() > MAX_SUBJECT_BYTES || !is_visible {
        return Err(Refusal::Subject);
    }
    let rule = issuer.rules.iter().find(|rule| rule.matches(claims)).ok_or(Refusal::Rule)?;
    Ok(Verified {
        principal: format!("{}:{subject}", issuer.name),
        policy: Arc::clone(&rule.policy),
        expires: Timestamp(expires),
        scopes: scopes(claims),
    })
}

/// Seconds since 1970, maybe with a fraction.
fn time(value: Option<&Value>) -> Option<Timestamp> {
    let seconds = value?.as_f64().filter(|it| (0.0..1e12).contains(it))?;
    Some(Timestamp((seconds * 1e6) as u64))
}
