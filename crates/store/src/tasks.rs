//! Tasks: calls of MCP clients that become operations while they run.

use crate::Store;
use crate::engine::{Row, Statement, StoreError};
use crate::operation::{NewOperation, Operation, StoredEvent};
use crate::operations::removal;
use crate::statements::ADOPT;

/// The ended tasks beyond a number or a size. The newest stay. `$1`: of this principal, or of all if empty.
const EXCESS: &str = "SELECT id FROM (SELECT id, row_number() OVER newest AS place, CAST(sum(bytes) OVER newest AS BIGINT) AS bytes \
                      FROM operations WHERE task_view <> '' AND state >= 3 AND ($1 = '' OR principal = $1) \
                      WINDOW newest AS (ORDER BY ended_ms DESC, id)) ended WHERE place > $2 OR bytes > $3 LIMIT 100";
const LAST_EVENTS: &str =
    "SELECT number, event FROM operation_events WHERE operation_id = $1 ORDER BY number DESC LIMIT $2";

/// A call that runs at a gateway.
#[derive(Debug, Clone)]
pub struct RunningTask<'a> {
    /// The operation that it becomes. Has no idempotency key.
    pub operation: &'a NewOperation,
    /// A slash and the name of the view that it belongs to.
    pub view: &'a str,
    /// The gateway that runs it, and for how long it holds it.
    pub gateway: &'a str,
    /// See `gateway`.
    pub lease_ms: i64,
}

/// How many ended tasks to keep.
#[derive(Debug, Clone, Copy)]
pub struct TaskRetention<'a> {
    /// Only tasks of this principal count. Empty: those of all.
    pub principal: &'a str,
    /// The maximum number.
    pub count: usize,
    /// The maximum size of all results, in bytes.
    pub bytes: usize,
}

impl Store {
    /// Stores a call that runs here as an operation with epoch 1. None if `most` tasks of its principal have not ended.
    ///
    /// # Errors
    /// The store failed.
    pub async fn adopt(&self, task: &RunningTask<'_>, most: usize) -> Result<Option<Operation>, StoreError> {
        let (new, now) = (task.operation, self.now_ms());
        let values = [
            new.id.as_str().into(),
            new.principal.as_str().into(),
            new.credential.as_str().into(),
            new.skill_id.as_str().into(),
            new.session_id.as_str().into(),
            new.trace_id.as_str().into(),
            new.fingerprint.clone().into(),
            new.request.clone().into(),
            new.start_at_ms.into(),
            new.start_before_ms.into(),
            now.into(),
            task.gateway.into(),
            (now + task.lease_ms).into(),
            new.toolset.as_str().into(),
            i64::from(new.destructive).into(),
            task.view.into(),
            i64::try_from(most).unwrap_or(i64::MAX).into(),
        ];
        match self.first(Statement::new(ADOPT, values)).await {
            // The id tells whether it happened.
            Err(StoreError::Unknown(_)) => Ok(self.get(&new.id).await?.map(|(stored, _)| stored)),
            stored => stored?.map(|mut row| Operation::read(&mut row)).transpose(),
        }
    }

    /// Removes the oldest ended tasks beyond these bounds, at most 100.
    ///
    /// # Errors
    /// The store failed.
    pub async fn evict_tasks(&self, keep: TaskRetention<'_>) -> Result<(), StoreError> {
        let [count, bytes] = [keep.count, keep.bytes].map(|it| i64::try_from(it).unwrap_or(i64::MAX));
        let values = [keep.principal.into(), count.into(), bytes.into()];
        let mut excess = self.engine.read(Statement::new(EXCESS, values)).await?;
        let ids = excess.iter_mut().map(Row::text).collect::<Result<Vec<_>, _>>()?;
        if ids.is_empty() {
            return Ok(());
        }
        self.engine.write(ids.iter().flat_map(|id| removal(id)).collect()).await?;
        self.sweep_blobs().await.map(drop)
    }

    /// Returns up to `limit` events of an operation, the newest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn last_events(&self, id: &str, limit: i64) -> Result<Vec<StoredEvent>, StoreError> {
        let mut rows = self.engine.read(Statement::new(LAST_EVENTS, [id.into(), limit.into()])).await?;
        let read = |row: &mut Row| Ok(StoredEvent { number: row.integer()?, event: row.bytes()? });
        rows.iter_mut().map(read).collect()
    }
}
