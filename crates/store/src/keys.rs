//! The idempotency keys of calls, which gateways share.
//!
//! ```text
//! claim_key ──> running ──end_key──> ended, with an outcome or without ──prune_keys──> removed
//!                  └──release_key (the skill did not start)──────────────────────────> removed
//! ```
//!
//! Of all that claim a key, one succeeds, until the key expires. Nobody takes a running key over: its skill may have
//! run. Each write of a claim names its token, and changes nothing once the key belongs to another one.

use crate::Store;
use crate::engine::{Row, Statement, StoreError, Value};

/// The row of a name.
macro_rules! named {
    () => {
        "principal = $1 AND session_id = $2 AND skill_id = $3 AND idempotency_key = $4"
    };
}

/// A key that has expired is free, even if it has not been removed yet.
const CLAIM: &str = "INSERT INTO idempotency_keys (principal, session_id, skill_id, idempotency_key, fingerprint, state, gateway, \
                     token, lease_ms, expires_ms, bytes) VALUES ($1, $2, $3, $4, $5, 0, $6, $7, $8, $9, 0) \
                     ON CONFLICT (principal, session_id, skill_id, idempotency_key) DO UPDATE SET \
                     fingerprint = excluded.fingerprint, state = 0, gateway = excluded.gateway, token = excluded.token, \
                     lease_ms = excluded.lease_ms, expires_ms = excluded.expires_ms, bytes = 0, outcome = NULL \
                     WHERE idempotency_keys.expires_ms <= $10 RETURNING token";
const READ: &str = concat!(
    "SELECT fingerprint, state, gateway, token, lease_ms, outcome FROM idempotency_keys WHERE ",
    named!(),
    " AND expires_ms > $5"
);
const END: &str = concat!(
    "UPDATE idempotency_keys SET state = 1, outcome = $6, bytes = $7, expires_ms = $8 WHERE ",
    named!(),
    " AND token = $5 AND state = 0 RETURNING token"
);
const RELEASE: &str = concat!("DELETE FROM idempotency_keys WHERE ", named!(), " AND token = $5 AND state = 0");
const RENEW: &str = "UPDATE idempotency_keys SET lease_ms = $2 WHERE gateway = $1 AND state = 0 \
                     RETURNING principal, session_id, skill_id, idempotency_key, token";
const PRUNE: &str = "WITH expired AS MATERIALIZED (SELECT principal, session_id, skill_id, idempotency_key FROM idempotency_keys \
                     WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT 100 FOR UPDATE SKIP LOCKED) \
                     DELETE FROM idempotency_keys WHERE expires_ms <= $1 AND (principal, session_id, skill_id, idempotency_key) \
                     IN (SELECT principal, session_id, skill_id, idempotency_key FROM expired) RETURNING token";
const COUNT: &str = "SELECT count(*), CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM idempotency_keys";

/// How often a key is inserted whose outcome is unknown, or that was taken and is free again.
const CLAIM_TRIES: usize = 3;

/// What a key belongs to, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it")]
pub struct KeyName {
    pub principal: String,
    /// May be empty.
    pub session_id: String,
    pub skill_id: String,
    pub key: String,
}

/// A claim of a key, in writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFence {
    /// The key.
    pub name: KeyName,
    /// Identifies the claim. Not guessable, and never used twice.
    pub token: String,
}

/// A key to claim.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The key, and a new token.
    pub fence: KeyFence,
    /// Tells apart calls with the same key.
    pub fingerprint: Vec<u8>,
    /// The gateway that runs the call.
    pub gateway: String,
    /// When the key is free again if its end is never stored. Until then its call must have ended.
    pub expires_ms: i64,
}

/// What the store knows about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyState {
    /// The claim with this token holds it: its call runs, or is about to.
    Claimed,
    /// Another claim holds it.
    Running,
    /// Its call ended, with this outcome.
    Ended(Vec<u8>),
    /// Its call may have run. Its outcome was not kept, or its gateway is gone.
    Unknown,
    /// It was claimed with another fingerprint.
    Mismatch,
}

/// What all keys take in the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyUsage {
    /// The number of keys.
    pub keys: i64,
    /// The size of their outcomes.
    pub bytes: i64,
}

impl KeyName {
    fn values(&self) -> [Value; 4] {
        [&self.principal, &self.session_id, &self.skill_id, &self.key].map(|it| it.as_str().into())
    }
}

impl KeyFence {
    fn statement<const N: usize>(&self, sql: &'static str, more: [Value; N]) -> Statement {
        let token = Value::from(self.token.as_str());
        Statement { sql, values: self.name.values().into_iter().chain([token]).chain(more).collect() }
    }

    fn read(row: &mut Row) -> Result<Self, StoreError> {
        let name = KeyName { principal: row.text()?, session_id: row.text()?, skill_id: row.text()?, key: row.text()? };
        Ok(Self { name, token: row.text()? })
    }
}

impl Store {
    /// Claims a key for `lease_ms`, unless another claim has it. The claim is durable once this returns.
    ///
    /// # Errors
    /// The store failed. After [`StoreError::Unknown`] the key may be claimed, and [`Self::renew_keys`] returns it.
    pub async fn claim_key(&self, new: &NewKey, lease_ms: i64) -> Result<KeyState, StoreError> {
        let now = self.now_ms();
        let own = [
            new.fingerprint.clone().into(),
            new.gateway.as_str().into(),
            new.fence.token.as_str().into(),
            (now + lease_ms).into(),
            new.expires_ms.into(),
            now.into(),
        ];
        let insert = Statement { sql: CLAIM, values: new.fence.name.values().into_iter().chain(own).collect() };
        let mut doubt = None;
        for _ in 0..CLAIM_TRIES {
            let found = match self.first(insert.clone()).await {
                Ok(Some(_)) => return Ok(KeyState::Claimed),
                Ok(None) => self.read_key(new).await,
                // The token tells whether it happened.
                Err(error @ StoreError::Unknown(_)) => {
                    doubt = Some(error);
                    self.read_key(new).await
                }
                Err(error) => Err(error),
            };
            match found {
                Ok(Some(state)) => return Ok(state),
                Ok(None) => {}
                Err(error) => return Err(doubt.unwrap_or(error)),
            }
        }
        Err(doubt.unwrap_or_else(|| StoreError::Unavailable("an idempotency key comes and goes".to_owned())))
    }

    /// Reads a key as this claim sees it. None if it is free.
    ///
    /// # Errors
    /// The store failed.
    pub async fn read_key(&self, new: &NewKey) -> Result<Option<KeyState>, StoreError> {
        let now = self.now_ms();
        let values = new.fence.name.values().into_iter().chain([now.into()]).collect();
        let row = self.engine.read(Statement { sql: READ, values }).await?.pop();
        let Some(mut row) = row else { return Ok(None) };
        let (fingerprint, has_ended) = (row.bytes()?, row.integer()? != 0);
        let (gateway, token, lease_ms, outcome) = (row.text()?, row.text()?, row.integer()?, row.bytes()?);
        // A store that is not shared has one gateway at a time.
        let is_lost = lease_ms < now || (!self.is_shared() && gateway != new.gateway);
        Ok(Some(match () {
            () if fingerprint != new.fingerprint => KeyState::Mismatch,
            () if has_ended && outcome.is_empty() => KeyState::Unknown,
            () if has_ended => KeyState::Ended(outcome),
            () if token == new.fence.token => KeyState::Claimed,
            () if is_lost => KeyState::Unknown,
            () => KeyState::Running,
        }))
    }

    /// Stores how the call of a key ended, for `keep_ms`. None: its outcome is unknown, or too large to be kept. Has no
    /// effect if the claim does not hold the key any more, or ended it before.
    ///
    /// # Errors
    /// The store failed. The key stays claimed, except perhaps after [`StoreError::Unknown`].
    pub async fn end_key(&self, fence: &KeyFence, outcome: Option<&[u8]>, keep_ms: i64) -> Result<(), StoreError> {
        let bytes = i64::try_from(outcome.map_or(0, <[u8]>::len)).unwrap_or(i64::MAX);
        let outcome = outcome.map_or(Value::Null, |it| it.to_owned().into());
        let end = fence.statement(END, [outcome, bytes.into(), (self.now_ms() + keep_ms).into()]);
        match self.first(end.clone()).await {
            // Doing it twice does no harm.
            Err(StoreError::Unknown(_)) => self.first(end).await.map(drop),
            ended => ended.map(drop),
        }
    }

    /// Frees a key whose skill did not start. Has no effect if the claim does not hold it any more.
    ///
    /// # Errors
    /// The store failed.
    pub async fn release_key(&self, fence: &KeyFence) -> Result<(), StoreError> {
        self.first(fence.statement(RELEASE, [])).await.map(drop)
    }

    /// Extends the leases of all keys that a gateway holds, and returns them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn renew_keys(&self, gateway: &str, lease_ms: i64) -> Result<Vec<KeyFence>, StoreError> {
        let mut rows = self.rows(Statement::new(RENEW, [gateway.into(), (self.now_ms() + lease_ms).into()])).await?;
        rows.iter_mut().map(KeyFence::read).collect()
    }

    /// Removes keys that have expired. Returns how many, at most 100.
    ///
    /// # Errors
    /// The store failed.
    pub async fn prune_keys(&self) -> Result<usize, StoreError> {
        Ok(self.rows(Statement::new(PRUNE, [self.now_ms().into()])).await?.len())
    }

    /// Measures all keys.
    ///
    /// # Errors
    /// The store failed.
    pub async fn key_usage(&self) -> Result<KeyUsage, StoreError> {
        let row = self.engine.read(Statement::new(COUNT, [])).await?.pop();
        row.map_or(Ok(KeyUsage::default()), |mut row| Ok(KeyUsage { keys: row.integer()?, bytes: row.integer()? }))
    }
}
