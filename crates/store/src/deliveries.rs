//! Webhooks: the end of an operation, on its way to the server that its owner named.
//!
//! ```text
//! submit ──> Idle ──the operation ends──> Waiting ──claim, send──> Delivered | Failed
//!                                            ^             │
//!                                            └──not now────┘ (or the lease ends)
//! ```
//!
//! The row is added with the operation, and set to `Waiting` in the transaction that ends it, so no end is lost. A
//! claim moves the time of the next attempt to the end of its lease: what a gateway does not settle is due again then.
//! A row lives as long as its operation, which is kept until the delivery is over or has taken too long.

use crate::Store;
use crate::engine::{Row, Statement, StoreError, Value};

/// The number of servers in a page of [`Store::delivery_hosts`].
pub const MAX_HOSTS: usize = 100;

/// How long a delivery is tried, from the end of its operation.
const GIVE_UP_MS: i64 = 24 * 3600 * 1000;

const ADD: &str = "INSERT INTO webhook_deliveries (operation_id, url, host, traceparent, state, attempts, epoch, next_ms, give_up_ms, failure) \
                   SELECT id, $2, $3, $4, 0, 0, 0, 0, 0, '' FROM operations WHERE id = $1 ON CONFLICT DO NOTHING";
const BEGIN: &str = "UPDATE webhook_deliveries SET state = 1, next_ms = $2, give_up_ms = $3 \
                     WHERE operation_id = $1 AND state = 0 \
                     AND EXISTS (SELECT 1 FROM operations WHERE id = $1 AND operations.state >= 3)";
/// Jumps from one host to the next in the index, however many deliveries each has.
const HOSTS: &str = "WITH RECURSIVE hosts(host) AS (SELECT min(host) FROM webhook_deliveries WHERE state = 1 AND host > $1 \
                     UNION ALL SELECT (SELECT min(later.host) FROM webhook_deliveries later \
                     WHERE later.state = 1 AND later.host > hosts.host) FROM hosts WHERE hosts.host IS NOT NULL) \
                     SELECT host, (SELECT min(own.next_ms) FROM webhook_deliveries own \
                     WHERE own.state = 1 AND own.host = hosts.host) FROM hosts WHERE host IS NOT NULL LIMIT 100";
const CLAIM: &str = "WITH next AS MATERIALIZED (SELECT operation_id FROM webhook_deliveries \
                     WHERE state = 1 AND host = $1 AND next_ms <= $2 ORDER BY next_ms LIMIT $3 FOR UPDATE SKIP LOCKED) \
                     UPDATE webhook_deliveries SET attempts = attempts + 1, epoch = epoch + 1, next_ms = $4 \
                     WHERE state = 1 AND operation_id IN (SELECT operation_id FROM next) \
                     RETURNING operation_id, url, host, traceparent, attempts, epoch, give_up_ms";
const SETTLE: &str = "UPDATE webhook_deliveries SET state = $3, next_ms = $4, failure = $5 \
                      WHERE operation_id = $1 AND epoch = $2 AND state = 1 RETURNING operation_id";
const GET: &str = "SELECT url, state, attempts, failure FROM webhook_deliveries WHERE operation_id = $1";
/// Removes the delivery of an operation that is gone.
pub(crate) const DELETE_DELIVERY: &str = "DELETE FROM webhook_deliveries WHERE operation_id = $1 AND NOT EXISTS \
                               (SELECT 1 FROM operations WHERE id = $1)";

/// Whom to tell of the end of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The URL, which may be a secret.
    pub url: String,
    /// Its host and port. Gateways share their attempts fairly among these.
    pub host: String,
    /// The span that submitted the operation, as a W3C `traceparent`.
    pub traceparent: String,
}

/// Where a delivery is. The numbers are in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// The operation has not ended.
    Idle = 0,
    /// It waits for its next attempt, or a gateway makes one.
    Waiting = 1,
    /// The server accepted the event.
    Delivered = 2,
    /// It was given up.
    Failed = 3,
}

/// What the store knows about a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The URL, which may be a secret.
    pub url: String,
    /// Where it is.
    pub state: DeliveryState,
    /// How many attempts were begun.
    pub attempts: i64,
    /// Why the last attempt failed. Empty if none has, or once the event is delivered.
    pub failure: String,
}

/// A server with deliveries that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryHost {
    /// [`Webhook::host`].
    pub host: String,
    /// Whether it is time for an attempt.
    pub is_due: bool,
}

/// How many deliveries to claim for a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostShare {
    /// [`Webhook::host`].
    pub host: String,
    /// At most this many.
    pub limit: usize,
}

/// A delivery that a gateway must attempt and settle before its lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryClaim {
    /// The operation, whose id is also that of the event.
    pub operation_id: String,
    /// Where to send it.
    pub webhook: Webhook,
    /// Which attempt this is, from 1.
    pub attempt: i64,
    /// Identifies this claim. Writes of an older one have no effect.
    pub epoch: i64,
    /// When to give up, in milliseconds since 1970.
    pub give_up_ms: i64,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// The server accepted the event.
    Delivered,
    /// Try again.
    Later {
        /// After this time.
        pause_ms: i64,
        /// Why, for the owner of the operation.
        failure: String,
    },
    /// Give up, for this reason.
    Failed(String),
}

impl Webhook {
    /// Adds the delivery of an operation that the same transaction inserts. Adds none if that was not inserted.
    pub(crate) fn addition(&self, operation_id: &str) -> Statement {
        let values = [operation_id, &self.url, &self.host, &self.traceparent].map(Value::from);
        Statement::new(ADD, values)
    }
}

/// Begins the delivery of an operation, if it has a webhook and the same transaction ends it.
pub(crate) fn beginning(operation_id: &str, now: i64) -> Statement {
    Statement::new(BEGIN, [operation_id.into(), now.into(), (now + GIVE_UP_MS).into()])
}

impl Store {
    /// Returns the delivery of an operation. None if it has no webhook.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delivery(&self, operation_id: &str) -> Result<Option<Delivery>, StoreError> {
        let row = self.engine.read(Statement::new(GET, [operation_id.into()])).await?.pop();
        let read = |mut row: Row| {
            let (url, state) = (row.text()?, state(row.integer()?)?);
            Ok(Delivery { url, state, attempts: row.integer()?, failure: row.text()? })
        };
        row.map(read).transpose()
    }

    /// Lists servers with deliveries that wait, after a host in the order of their names, at most [`MAX_HOSTS`].
    ///
    /// # Errors
    /// The store failed.
    pub async fn delivery_hosts(&self, after: &str) -> Result<Vec<DeliveryHost>, StoreError> {
        let now = self.now_ms();
        let mut rows = self.engine.read(Statement::new(HOSTS, [after.into()])).await?;
        let read = |row: &mut Row| Ok(DeliveryHost { host: row.text()?, is_due: row.integer()? <= now });
        rows.iter_mut().map(read).collect()
    }

    /// Takes deliveries that are due, for `lease_ms`, and counts an attempt of each.
    ///
    /// # Errors
    /// The store failed. What was taken without an acknowledgement is due again when the lease ends.
    pub async fn claim_deliveries(
        &self,
        shares: &[HostShare],
        lease_ms: i64,
    ) -> Result<Vec<DeliveryClaim>, StoreError> {
        let now = self.now_ms();
        let claim = |share: &HostShare| {
            let limit = i64::try_from(share.limit).unwrap_or(i64::MAX);
            let values = [share.host.as_str().into(), now.into(), limit.into(), (now + lease_ms).into()];
            Statement::new(CLAIM, values)
        };
        let mut rows = self.engine.write(shares.iter().map(claim).collect()).await?;
        rows.iter_mut().flatten().map(DeliveryClaim::read).collect()
    }

    /// Stores how an attempt ended. Returns false if the claim is no longer valid: then nothing changed.
    ///
    /// # Errors
    /// The store failed. Without a settlement, another attempt follows when the lease ends.
    pub async fn settle_delivery(&self, claim: &DeliveryClaim, end: &Settlement) -> Result<bool, StoreError> {
        let (state, next_ms, failure) = match end {
            Settlement::Delivered => (DeliveryState::Delivered, 0, ""),
            Settlement::Later { pause_ms, failure } => {
                (DeliveryState::Waiting, self.now_ms() + pause_ms, failure.as_str())
            }
            Settlement::Failed(failure) => (DeliveryState::Failed, 0, failure.as_str()),
        };
        let values = [
            claim.operation_id.as_str().into(),
            claim.epoch.into(),
            (state as i64).into(),
            next_ms.into(),
            failure.into(),
        ];
        let settled = self.engine.write(vec![Statement::new(SETTLE, values)]).await?;
        Ok(settled.first().is_some_and(|it| !it.is_empty()))
    }
}

impl DeliveryClaim {
    fn read(row: &mut Row) -> Result<Self, StoreError> {
        Ok(Self {
            operation_id: row.text()?,
            webhook: Webhook { url: row.text()?, host: row.text()?, traceparent: row.text()? },
            attempt: row.integer()?,
            epoch: row.integer()?,
            give_up_ms: row.integer()?,
        })
    }
}

fn state(number: i64) -> Result<DeliveryState, StoreError> {
    match number {
        0 => Ok(DeliveryState::Idle),
        1 => Ok(DeliveryState::Waiting),
        2 => Ok(DeliveryState::Delivered),
        3 => Ok(DeliveryState::Failed),
        _ => Err(StoreError::Damaged(format!("a delivery has the unknown state {number}"))),
    }
}
