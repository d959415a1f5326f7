//! Credentials that are valid, and whose they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use openskill_proto::timestamp::Timestamp;
use tokio_util::sync::CancellationToken;

use super::account::Account;

/// A key or a token that is valid, and its principal.
#[derive(Debug)]
pub(crate) struct Identified {
    /// What the log calls the key or the token: no secret.
    pub(crate) credential: Box<str>,
    pub(crate) account: Arc<Account>,
    /// Cancelled when it is revoked, or its principal's policy is another.
    pub(crate) ended: CancellationToken,
    /// When it expires. None: never.
    pub(crate) expires: Option<Timestamp>,
    /// What a token may be used for. None for a key: its policy says all.
    pub(crate) scopes: Option<Scopes>,
}

/// The scopes of a token. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Scopes(Arc<BTreeSet<String>>);

impl Scopes {
    pub(super) fn new(scopes: BTreeSet<String>) -> Self {
        Self(Arc::new(scopes))
    }

    /// Whether all of these are among them.
    pub(crate) fn have<'a>(&self, wanted: impl IntoIterator<Item = &'a String>) -> bool {
        wanted.into_iter().all(|it| self.0.contains(it))
    }
}

impl Identified {
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}
