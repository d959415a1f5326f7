//! Valid credentials and their principals.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use openskill_proto::timestamp::Timestamp;
use tokio_util::sync::CancellationToken;

use super::account::Account;

/// A valid key or token, and its principal.
#[derive(Debug)]
pub(crate) struct Identified {
    /// The name of the key or token, for the log and to look up its rights later. Not a secret.
    pub(crate) credential: Box<str>,
    pub(crate) account: Arc<Account>,
    /// Cancelled when the credential is revoked, or its principal's policy changes.
    pub(crate) ended: CancellationToken,
    /// When it expires. None: never.
    pub(crate) expires: Option<Timestamp>,
    /// The scopes of a token. None for a key, to which only its policy applies.
    pub(crate) scopes: Option<Scopes>,
}

/// The scopes of a token. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Scopes(pub(super) Arc<BTreeSet<String>>);

impl Scopes {
    /// Whether these include all `wanted` scopes.
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
    /// An invalid credential, whose principal has no rights.
    pub(crate) fn nobody() -> Arc<Self> {
        Arc::clone(&NOBODY)
    }

    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }

    /// Whether it is neither revoked nor expired.
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

/// Watches the credential of a body or a response, which must end with it.
pub(crate) struct CredentialWatch {
    identified: Arc<Identified>,
    has_ended: bool,
    /// Created on the first wait, because most requests end before that.
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
