//! Credentials that are valid, and whose they are.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use openskill_proto::timestamp::Timestamp;
use tokio_util::sync::CancellationToken;

use super::account::Account;

/// A key or a token that is valid, and its principal.
#[derive(Debug)]
pub(crate) struct Identified {
    /// Names the key or the token, in the log and wherever its rights have to be found again: no secret.
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

static NOBODY: LazyLock<Arc<Identified>> = LazyLock::new(|| {
    let ended = CancellationToken::new();
    ended.cancel();
    let account = Arc::new(Account { name: Arc::from(""), policy: Arc::default(), usage: Arc::default() });
    Arc::new(Identified { credential: Box::from(""), account, ended, expires: None, scopes: None })
});

impl Identified {
    /// A credential that is never valid, of a principal that may do nothing.
    pub(crate) fn nobody() -> Arc<Self> {
        Arc::clone(&NOBODY)
    }

    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }

    /// Whether it has been neither revoked nor expired.
    pub(crate) fn is_valid(&self) -> bool {
        !self.ended.is_cancelled() && self.expires.is_none_or(|end| Timestamp::now() < end)
    }

    /// Waits until it is revoked or expires.
    async fn end(self: Arc<Self>) {
        match self.expires {
            None => self.ended.cancelled().await,
            Some(end) => {
                let left = Duration::from_micros(end.0.saturating_sub(Timestamp::now().0));
                drop(tokio::time::timeout(left, self.ended.cancelled()).await);
            }
        }
    }
}

/// Follows a credential on behalf of a body or a response that must end with it.
pub(crate) struct CredentialWatch {
    identified: Arc<Identified>,
    has_ended: bool,
    /// Made on the first wait: most requests end before that.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl CredentialWatch {
    pub(crate) fn new(identified: Arc<Identified>) -> Self {
        Self { identified, has_ended: false, end: None }
    }

    /// Whether the credential is no longer valid.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended || !self.identified.is_valid()
    }

    /// Ready once the credential is no longer valid.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.has_ended() {
            let end = self.end.get_or_insert_with(|| Box::pin(Arc::clone(&self.identified).end()));
            std::task::ready!(end.as_mut().poll(context));
        }
        self.has_ended = true;
        Poll::Ready(())
    }
}
