//! Maps signed tokens to principals. Caches verified tokens, so that calls rarely verify a signature.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use openskill_identity::jwt::issuers::Issuer;
use openskill_identity::jwt::token::Token;
use openskill_identity::jwt::verify::{TokenRefusal, Verified, choose, verify};
use openskill_proto::timestamp::Timestamp;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::account::Account;
use super::identified::{Identified, Scopes};
use super::issuer::LiveIssuer;
use super::jwks;
use super::usage::{SpentTokens, Usage};
use crate::state::recent::Recent;

/// The minimum number of cached tokens. The maximum is twice as many. Each takes at most a few hundred bytes.
const TOKENS: usize = 4096;

/// The minimum number of principals whose usage is remembered. The maximum is twice as many.
const PRINCIPALS: usize = 4096;

/// The prefix of token names.
pub(super) const TOKEN_PREFIX: &str = "jwt ";

/// The file of issuers, with its content when the gateway started.
#[derive(Debug, Clone)]
pub struct JwtConfig {
    /// The path of the file.
    pub file: PathBuf,
    /// The issuers in the file.
    pub issuers: Vec<Issuer>,
}

/// Verifies tokens, and caches their principals.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(super) file: PathBuf,
    /// The issuers, by their `iss` claims.
    issuers: ArcSwap<HashMap<String, Arc<LiveIssuer>>>,
    /// Verified tokens, by credential name, which contains the hash of the token.
    verified: Mutex<Recent<Arc<Identified>>>,
    /// What each principal uses, by name.
    usages: Mutex<Recent<Arc<Usage>>>,
}

/// Why the caller of a request could not be identified.
#[derive(Debug, Clone)]
pub(crate) enum Unidentified {
    /// The request has no valid credentials. Contains the reason, for the log.
    Invalid(&'static str),
    /// The issuer's keys must be read again, after which identification may succeed.
    Later(Arc<LiveIssuer>),
}

impl From<TokenRefusal> for Unidentified {
    fn from(refusal: TokenRefusal) -> Self {
        Self::Invalid(match refusal {
            TokenRefusal::Malformed => "malformed token",
            TokenRefusal::Issuer => "token of an unknown issuer",
            TokenRefusal::Algorithm => "token with an algorithm that is not allowed",
            TokenRefusal::Key => "token with an unknown key",
            TokenRefusal::Signature => "token with a wrong signature",
            TokenRefusal::Audience => "token for another audience",
            TokenRefusal::Expired => "expired token",
            TokenRefusal::NotYet => "token that is not valid yet",
            TokenRefusal::Subject => "token without a usable subject",
            TokenRefusal::Rule => "token that no rule allows",
        })
    }
}

impl Tokens {
    pub(super) fn new(config: JwtConfig) -> Self {
        Self {
            file: config.file,
            issuers: ArcSwap::from_pointee(live(config.issuers, &HashMap::new())),
            verified: Mutex::new(Recent::new(TOKENS)),
            usages: Mutex::new(Recent::new(PRINCIPALS)),
        }
    }

    pub(super) fn check(&self, text: &[u8], now: Timestamp) -> Result<Arc<Identified>, Unidentified> {
        // The hash distinguishes tokens, but is useless to an attacker.
        let credential =
            format!("{TOKEN_PREFIX}{}", openskill_proto::trace::hex(&<[u8; 32]>::from(Sha256::digest(text))));
        if let Some(known) = self.find(&credential, now) {
            return Ok(known);
        }
        let token = Token::read(text).ok_or(TokenRefusal::Malformed)?;
        let issuers = self.issuers.load();
        let live = token.issuer().and_then(|it| issuers.get(it)).ok_or(TokenRefusal::Issuer)?;
        let keys = live.keys();
        let (at, algorithm) = match choose(&live.issuer, &token, keys.iter().map(|it| &*it.key)) {
            Err(TokenRefusal::Key) if live.may_learn() => return Err(Unidentified::Later(Arc::clone(live))),
            chosen => chosen?,
        };
        let live_key = keys.get(at).ok_or(TokenRefusal::Key)?;
        let verified = verify(&live.issuer, &token, &live_key.key, algorithm, now)?;
        Ok(self.keep(credential, verified, live_key.ended.clone()))
    }

    fn keep(&self, credential: String, verified: Verified, ended: CancellationToken) -> Arc<Identified> {
        let Verified { principal, policy, expires, scopes } = verified;
        let mut usages = self.usages.lock();
        let usage = usages.use_mut(&principal).cloned().unwrap_or_default();
        let account = Arc::new(Account { name: Arc::from(principal.as_str()), policy, usage: Arc::clone(&usage) });
        usages.insert(principal, usage);
        drop(usages);
        let identified = Arc::new(Identified {
            credential: credential.as_str().into(),
            account,
            ended,
            expires: Some(expires),
            scopes: Some(Scopes(Arc::new(scopes))),
        });
        self.verified.lock().insert(credential, Arc::clone(&identified));
        identified
    }

    /// Returns the tokens that principals took from their buckets since this was last called.
    pub(super) fn take_spent(&self) -> Vec<SpentTokens> {
        let usages = self.usages.lock();
        usages.iter().filter_map(|(principal, usage)| usage.take_spent(principal)).collect()
    }

    /// Whether the token with this name was verified here, and is remembered.
    pub(super) fn has_seen(&self, credential: &str) -> bool {
        self.verified.lock().peek(credential).is_some()
    }

    /// Returns the token with this name, if it was verified here and is still valid.
    pub(super) fn find(&self, credential: &str, now: Timestamp) -> Option<Arc<Identified>> {
        let found = self.verified.lock().use_mut(credential).cloned()?;
        let is_valid = !found.ended.is_cancelled() && !found.is_expired(now);
        is_valid.then_some(found)
    }

    /// Returns the `iss` claims of the issuers.
    pub(super) fn issuers(&self) -> Vec<String> {
        let mut names: Vec<_> = self.issuers.load().keys().cloned().collect();
        names.sort();
        names
    }

    /// Replaces the issuers with those of a new file. Ends the tokens and streams of issuers that changed or are
    /// gone.
    pub(super) fn replace(&self, issuers: Vec<Issuer>) {
        let before = self.issuers.load_full();
        let after = live(issuers, &before);
        let is_gone = |old: &&Arc<LiveIssuer>| !after.values().any(|new| Arc::ptr_eq(new, old));
        let gone: Vec<_> = before.values().filter(is_gone).cloned().collect();
        self.issuers.store(Arc::new(after));
        gone.iter().for_each(|it| it.ended.cancel());
    }

    /// Starts to read the keys of issuers that are not in `followed` yet.
    pub(super) fn follow_new(&self, followed: &mut Vec<Arc<LiveIssuer>>) -> Vec<impl Future<Output = ()> + use<>> {
        let issuers = self.issuers.load();
        followed.retain(|it| !it.ended.is_cancelled());
        let new = issuers.values().filter(|it| !followed.iter().any(|known| Arc::ptr_eq(known, it)));
        let new: Vec<_> = new.cloned().collect();
        followed.extend(new.iter().cloned());
        new.into_iter().map(jwks::follow).collect()
    }
}

/// Returns the issuers by their `iss` claims. Reuses those that did not change.
fn live(issuers: Vec<Issuer>, before: &HashMap<String, Arc<LiveIssuer>>) -> HashMap<String, Arc<LiveIssuer>> {
    let issuers = issuers.into_iter().map(|issuer| {
        let same = before.get(&issuer.issuer).filter(|old| old.issuer == issuer).cloned();
        (issuer.issuer.clone(), same.unwrap_or_else(|| LiveIssuer::new(issuer)))
    });
    issuers.collect()
}
