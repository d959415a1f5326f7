//! Credentials that are valid, and whose they are.

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
}

impl Identified {
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}
