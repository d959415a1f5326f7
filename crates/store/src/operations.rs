//! What gateways do with operations.
//!
//! ```text
//!            submit ──> Scheduled ──promote──> Queued ──claim──> Running ──finish──> Succeeded | Failed | Cancelled ──> removed
//!                           ^                    ^                 │  │
//!                           └──────postpone──────┼─────────────────┘  │
//!                                                └──recover (lease)───┘      cancel: Scheduled or Queued ──> Cancelled
//! ```
//!
//! A claim is valid while the row has its epoch. Each write of a claim names the epoch, and changes nothing once
//! another gateway has the operation.
//!
//! Turns are those of start-time fair queueing: an operation's turn is one after the last of its principal that
//! waits, or else that of the first of all that wait. So a principal with thousands of operations delays the first one
//! of another principal by one operation.

use crate::Store;
use crate::deliveries::{DELETE_DELIVERY, beginning};
use crate::engine::{Row, Statement, StoreError, Value};
use crate::operation::{
    Claim, End, NewOperation, Operation, OperationFilter, Postponement, State, StoredEvent, Submission,
};
use crate::page::Position;
use crate::statements::{
    APPEND, CANCEL_WAITING, CLAIM, CLAIMED, DELETE, DELETE_EVENTS, DELETE_QUESTIONS, EVENTS, EXPIRED, FIND_KEY, FINISH,
    GET, GET_REQUEST, GET_WITHIN, LAST_EVENT, LIST, LIST_OWN, LOOSEN_BLOBS, NAME_BLOB, POSTPONE, PROMOTE, RECOVER,
    RELEASE, RENEW, REQUEST_CANCEL, START, SUBMIT, WAITING,
};

/// How often an operation is inserted whose outcome is unknown, or whose key was taken and is free again.
const SUBMIT_TRIES: usize = 3;

/// The operations of one principal that wait for their time or their turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCount {
    /// The principal.
    pub principal: String,
    /// How many wait.
    pub count: i64,
    /// Since when the first of them waits. May be in the future.
    pub oldest_ms: i64,
}

/// What [`Store::renew`] says about an operation that its gateway holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldOperation {
    /// The operation.
    pub id: String,
    /// The epoch of the valid claim.
    pub epoch: i64,
    /// Whether its owner wants it to end.
    pub cancel_requested: bool,
}

/// Identifies a claim in writes.
#[derive(Debug, Clone, Copy)]
pub struct Fence<'a> {
    /// The operation.
    pub id: &'a str,
    /// [`Claim::epoch`].
    pub epoch: i64,
}

impl Claim {
    /// Identifies this claim in writes.
    #[must_use]
    pub fn fence(&self) -> Fence<'_> {
        Fence { id: &self.operation.id, epoch: self.epoch }
    }

    fn read(row: &mut Row) -> Result<Self, StoreError> {
        Ok(Self {
            operation: Operation::read(row)?,
            request: row.bytes()?,
            epoch: row.integer()?,
            may_have_run: row.integer()? != 0,
            last_event: row.integer()?,
        })
    }
}

impl Operation {
    pub(crate) fn read(row: &mut Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.text()?,
            principal: row.text()?,
            credential: row.text()?,
            skill_id: row.text()?,
            toolset: row.text()?,
            destructive: row.integer()? != 0,
            session_id: row.text()?,
            trace_id: row.text()?,
            state: state(row.integer()?)?,
            start_at_ms: row.integer()?,
            start_before_ms: row.integer()?,
            created_ms: row.integer()?,
            started_ms: row.optional_integer()?,
            ended_ms: row.optional_integer()?,
            remove_ms: row.optional_integer()?,
            runs: row.integer()?,
            cancel_requested: row.integer()? != 0,
            reason: row.text()?,
            task_view: row.text()?,
        })
    }
}

/// Removes an operation that has ended, and what belongs to it. Its blobs are removed later.
pub(crate) fn removal(id: &str) -> [Statement; 5] {
    [DELETE, DELETE_EVENTS, DELETE_QUESTIONS, DELETE_DELIVERY, LOOSEN_BLOBS].map(|sql| Statement::new(sql, [id.into()]))
}

fn state(number: i64) -> Result<State, StoreError> {
    let known = usize::try_from(number).ok().and_then(|it| State::ALL.get(it)).copied();
    known.ok_or_else(|| StoreError::Damaged(format!("an operation has the unknown state {number}")))
}

impl Store {
    /// Stores an operation. It is durable once this returns.
    ///
    /// If the acknowledgement is lost, calling this again with the same id finds out what happened.
    ///
    /// # Errors
    /// The store failed.
    pub async fn submit(&self, new: &NewOperation) -> Result<Submission, StoreError> {
        let now = self.now_ms();
        let state = if new.start_at_ms > now { State::Scheduled } else { State::Queued };
        let insert = Statement::new(
            SUBMIT,
            [
                new.id.as_str().into(),
                new.principal.as_str().into(),
                new.credential.as_str().into(),
                new.skill_id.as_str().into(),
                new.session_id.as_str().into(),
                new.trace_id.as_str().into(),
                new.idempotency_key.as_deref().map_or(Value::Null, Value::from),
                new.fingerprint.clone().into(),
                new.request.clone().into(),
                (state as i64).into(),
                new.start_at_ms.into(),
                new.start_before_ms.into(),
                now.into(),
                new.toolset.as_str().into(),
                i64::from(new.destructive).into(),
            ],
        );
        let mut doubt = None;
        for _ in 0..SUBMIT_TRIES {
            match self.insert_or_find(new, insert.clone()).await {
                Ok(Some(submission)) => return Ok(submission),
                Ok(None) => {}
                // The id tells whether the first one happened.
                Err(error @ StoreError::Unknown(_)) => doubt = Some(error),
                Err(error) => return Err(doubt.unwrap_or(error)),
            }
        }
        let reason = "operations with this idempotency key come and go";
        Err(doubt.unwrap_or_else(|| StoreError::Unavailable(reason.to_owned())))
    }

    /// Finds the operation that a principal submitted with a key and a fingerprint.
    ///
    /// # Errors
    /// The store failed.
    pub async fn find_key(&self, new: &NewOperation) -> Result<Option<Submission>, StoreError> {
        let Some(key) = new.idempotency_key.as_deref() else { return Ok(None) };
        let values = [new.principal.as_str().into(), new.skill_id.as_str().into(), key.into()];
        let Some(mut known) = self.engine.read(Statement::new(FIND_KEY, values)).await?.pop() else { return Ok(None) };
        let (id, fingerprint) = (known.text()?, known.bytes()?);
        Ok(Some(match () {
            () if id == new.id => Submission::Stored,
            () if fingerprint == new.fingerprint => Submission::Known(id),
            () => Submission::KeyMismatch,
        }))
    }

    /// Inserts an operation, or finds the one that has its key. None if that one was removed in between.
    async fn insert_or_find(&self, new: &NewOperation, insert: Statement) -> Result<Option<Submission>, StoreError> {
        let webhook = new.webhook.as_ref().map(|it| it.addition(&new.id));
        let rows = self.engine.write(std::iter::once(insert).chain(webhook).collect()).await?;
        let inserted = rows.first().is_some_and(|it| !it.is_empty());
        if inserted || new.idempotency_key.is_none() {
            return Ok(Some(Submission::Stored));
        }
        self.find_key(new).await
    }

    /// Lets operations wait for their turn whose time has come. Returns how many.
    ///
    /// # Errors
    /// The store failed.
    pub async fn promote(&self) -> Result<usize, StoreError> {
        Ok(self.rows(Statement::new(PROMOTE, [self.now_ms().into()])).await?.len())
    }

    /// Takes up to `limit` operations whose turn it is, for `lease_ms`.
    ///
    /// # Errors
    /// The store failed. What was taken without an acknowledgement is among what [`Self::renew`] returns.
    pub async fn claim(&self, gateway: &str, lease_ms: i64, limit: usize) -> Result<Vec<Claim>, StoreError> {
        let token = format!("{:032x}", rand::random::<u128>());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values = [gateway.into(), (self.now_ms() + lease_ms).into(), token.as_str().into(), limit.into()];
        let mut rows = match self.rows(Statement::new(CLAIM, values)).await {
            Err(StoreError::Unknown(_)) => self.engine.read(Statement::new(CLAIMED, [token.as_str().into()])).await?,
            rows => rows?,
        };
        rows.iter_mut().map(Claim::read).collect()
    }

    /// Records that the skill is about to start. Returns false if it must not: the claim is no longer valid, or the
    /// operation was cancelled.
    ///
    /// # Errors
    /// The store failed.
    pub async fn start(&self, fence: Fence<'_>) -> Result<bool, StoreError> {
        let values = [fence.id.into(), fence.epoch.into(), self.now_ms().into()];
        Ok(self.first(Statement::new(START, values)).await?.is_some())
    }

    /// Extends the leases of all operations that a gateway holds, and returns them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn renew(&self, gateway: &str, lease_ms: i64) -> Result<Vec<HeldOperation>, StoreError> {
        let values = [gateway.into(), (self.now_ms() + lease_ms).into()];
        let mut rows = self.rows(Statement::new(RENEW, values)).await?;
        let held = |row: &mut Row| {
            Ok(HeldOperation { id: row.text()?, epoch: row.integer()?, cancel_requested: row.integer()? != 0 })
        };
        rows.iter_mut().map(held).collect()
    }

    /// Stores events. Those of an invalid claim are dropped.
    ///
    /// # Errors
    /// The store failed.
    pub async fn append(&self, fence: Fence<'_>, events: Vec<StoredEvent>) -> Result<(), StoreError> {
        let insert = |it: StoredEvent| {
            let values = [fence.id.into(), fence.epoch.into(), it.number.into(), it.event.into()];
            Statement::new(APPEND, values)
        };
        self.engine.write(events.into_iter().map(insert).collect()).await.map(drop)
    }

    /// Gives an operation back for a while. Returns false if the claim is no longer valid.
    ///
    /// # Errors
    /// The store failed.
    pub async fn postpone(&self, fence: Fence<'_>, until: &Postponement) -> Result<bool, StoreError> {
        let values = [
            fence.id.into(),
            fence.epoch.into(),
            until.start_at_ms.into(),
            i64::from(until.may_have_run).into(),
            until.reason.as_str().into(),
        ];
        Ok(self.first(Statement::new(POSTPONE, values)).await?.is_some())
    }

    /// Stores how an operation ended. Returns false if the claim is no longer valid: then nothing changed.
    ///
    /// Calling this again after an error does no harm: an operation ends once.
    ///
    /// # Errors
    /// The store failed.
    pub async fn finish(&self, fence: Fence<'_>, end: &End) -> Result<bool, StoreError> {
        let now = self.now_ms();
        let values = [
            fence.id.into(),
            fence.epoch.into(),
            (end.state as i64).into(),
            end.result.clone().into(),
            now.into(),
            (now + end.keep_ms).into(),
            end.bytes().into(),
        ];
        let naming = end.blobs.iter().map(|it| Statement::new(NAME_BLOB, [it.id.as_str().into()]));
        let finish = [Statement::new(FINISH, values), beginning(fence.id, now)].into_iter().chain(naming).collect();
        Ok(self.engine.write(finish).await?.first().is_some_and(|it| !it.is_empty()))
    }

    /// Frees operations whose lease has ended, and returns how many. If gateways don't share the store, all that are
    /// held are free: the gateway that held them is gone.
    ///
    /// Call this once before the first [`Self::claim`], and then from time to time if the store is shared.
    ///
    /// # Errors
    /// The store failed.
    pub async fn recover(&self) -> Result<usize, StoreError> {
        let ended = match &self.clock {
            Some(clock) if !clock.is_settled() => return Ok(0),
            Some(_) => self.now_ms(),
            None => i64::MAX,
        };
        Ok(self.rows(Statement::new(RECOVER, [ended.into()])).await?.len())
    }

    /// Gives an operation back at once, as it was when it was claimed or started.
    ///
    /// # Errors
    /// The store failed.
    pub async fn release(&self, fence: Fence<'_>) -> Result<(), StoreError> {
        self.rows(Statement::new(RELEASE, [fence.id.into(), fence.epoch.into()])).await.map(drop)
    }

    /// Cancels an operation that waits: with `end`, or with `uncertain_end` if its skill may have run. Asks the gateway of
    /// one that runs to cancel it. Returns whether it had not ended.
    ///
    /// # Errors
    /// The store failed.
    pub async fn cancel(&self, id: &str, end: &End, uncertain_end: &End) -> Result<bool, StoreError> {
        let now = self.now_ms();
        let cancel = |end: &End, may_have_run: bool| {
            let remove_ms = now + end.keep_ms;
            let may_have_run = i64::from(may_have_run);
            let (result, bytes) = (end.result.clone().into(), end.bytes().into());
            let values = [id.into(), result, now.into(), remove_ms.into(), may_have_run.into(), bytes];
            Statement::new(CANCEL_WAITING, values)
        };
        let request = Statement::new(REQUEST_CANCEL, [id.into()]);
        let statements = vec![request, cancel(end, false), cancel(uncertain_end, true), beginning(id, now)];
        let rows = self.engine.write(statements).await?;
        Ok(rows.first().is_some_and(|it| !it.is_empty()))
    }

    /// Returns an operation, and its encoded result. The result is empty until it ends.
    ///
    /// # Errors
    /// The store failed.
    pub async fn get(&self, id: &str) -> Result<Option<(Operation, Vec<u8>)>, StoreError> {
        let row = self.engine.read(Statement::new(GET, [id.into()])).await?.pop();
        row.map(|mut row| Ok((Operation::read(&mut row)?, row.bytes()?))).transpose()
    }

    /// Like [`Self::get`], but without a result that is empty or has more than `max_bytes`.
    ///
    /// # Errors
    /// The store failed.
    pub async fn get_within(
        &self,
        id: &str,
        max_bytes: usize,
    ) -> Result<Option<(Operation, Option<Vec<u8>>)>, StoreError> {
        let most = i64::try_from(max_bytes).unwrap_or(i64::MAX);
        let row = self.engine.read(Statement::new(GET_WITHIN, [id.into(), most.into()])).await?.pop();
        let read = |mut row: Row| Ok((Operation::read(&mut row)?, Some(row.bytes()?).filter(|it| !it.is_empty())));
        row.map(read).transpose()
    }

    /// Returns what an operation was submitted with.
    ///
    /// # Errors
    /// The store failed.
    pub async fn request(&self, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let row = self.engine.read(Statement::new(GET_REQUEST, [id.into()])).await?.pop();
        row.map(|mut row| row.bytes()).transpose()
    }

    /// Lists operations after a position, the newest first, at most `limit`.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list(
        &self,
        filter: &OperationFilter,
        after: &Position,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError> {
        let (first, last) = filter.states.unwrap_or((State::Scheduled as i64, State::Cancelled as i64));
        let mut values: Vec<Value> = vec![
            after.created_ms.into(),
            after.id.as_str().into(),
            first.into(),
            last.into(),
            filter.skill_id.as_str().into(),
            filter.session_id.as_str().into(),
            i64::try_from(limit).unwrap_or(i64::MAX).into(),
        ];
        let sql = if let Some(principal) = &filter.principal {
            values.push(principal.as_str().into());
            LIST_OWN
        } else {
            LIST
        };
        let mut rows = self.engine.read(Statement { sql, values }).await?;
        rows.iter_mut().map(Operation::read).collect()
    }

    /// Returns up to `limit` events of an operation after a number.
    ///
    /// # Errors
    /// The store failed.
    pub async fn events(&self, id: &str, after: i64, limit: i64) -> Result<Vec<StoredEvent>, StoreError> {
        let mut rows = self.engine.read(Statement::new(EVENTS, [id.into(), after.into(), limit.into()])).await?;
        let read = |row: &mut Row| Ok(StoredEvent { number: row.integer()?, event: row.bytes()? });
        rows.iter_mut().map(read).collect()
    }

    /// Returns the number of the last event of an operation. 0 if it has none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn last_event(&self, id: &str) -> Result<i64, StoreError> {
        let row = self.engine.read(Statement::new(LAST_EVENT, [id.into()])).await?.pop();
        row.map_or(Ok(0), |mut row| row.integer())
    }

    /// Removes an operation that has ended, and its blobs. Returns false if there is none.
    ///
    /// # Errors
    /// The store failed. If it can't remove the blobs, [`Self::sweep_blobs`] does so later.
    pub async fn delete(&self, id: &str) -> Result<bool, StoreError> {
        let rows = self.engine.write(removal(id).into()).await?;
        if rows.last().is_some_and(|blobs| !blobs.is_empty())
            && let Err(error) = self.sweep_blobs().await
        {
            tracing::warn!(%error, "blobs of an operation can't be removed yet");
        }
        Ok(rows.first().is_some_and(|it| !it.is_empty()))
    }

    /// Removes operations that were kept long enough, and whose webhooks need them no more. Returns how many, at most 100.
    ///
    /// # Errors
    /// The store failed.
    pub async fn prune(&self) -> Result<usize, StoreError> {
        let mut expired = self.engine.read(Statement::new(EXPIRED, [self.now_ms().into()])).await?;
        let ids = expired.iter_mut().map(Row::text).collect::<Result<Vec<_>, _>>()?;
        if !ids.is_empty() {
            self.engine.write(ids.iter().flat_map(|id| removal(id)).collect()).await?;
        }
        Ok(ids.len())
    }

    /// Counts the operations that wait, by principal.
    ///
    /// # Errors
    /// The store failed.
    pub async fn waiting(&self) -> Result<Vec<WaitingCount>, StoreError> {
        let mut rows = self.engine.read(Statement::new(WAITING, [])).await?;
        let read = |row: &mut Row| {
            Ok(WaitingCount { principal: row.text()?, count: row.integer()?, oldest_ms: row.integer()? })
        };
        rows.iter_mut().map(read).collect()
    }

    pub(crate) async fn rows(&self, statement: Statement) -> Result<Vec<Row>, StoreError> {
        Ok(self.engine.write(vec![statement]).await?.pop().unwrap_or_default())
    }

    pub(crate) async fn first(&self, statement: Statement) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(statement).await?.pop())
    }
}
