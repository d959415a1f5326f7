//! The SQL of [`crate::operations`], which both engines accept.

/// The columns of an operation, in the order in which `Operation::read` reads them.
macro_rules! columns {
    () => {
        "id, principal, credential, skill_id, toolset, destructive, session_id, trace_id, state, start_at_ms, start_before_ms, created_ms, \
         started_ms, ended_ms, remove_ms, runs, cancel_requested, reason, task_view"
    };
}

/// The columns of a claim, in the order in which `Claim::read` reads them.
macro_rules! claim_columns {
    () => {
        concat!(
            columns!(),
            ", request, epoch, may_have_run, \
             (SELECT coalesce(max(number), 0) FROM operation_events WHERE operation_id = id)"
        )
    };
}

/// A page of operations that also meet a condition.
macro_rules! list {
    ($condition:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM operations WHERE ",
            $condition,
            "(created_ms, id) < ($1, $2) AND state >= $3 AND state <= $4 AND ($5 = '' OR skill_id = $5) \
             AND ($6 = '' OR session_id = $6) ORDER BY created_ms DESC, id DESC LIMIT $7"
        )
    };
}

/// The largest turn in a state, of a principal or of all.
macro_rules! last_turn {
    ($state:literal) => {
        concat!("SELECT max(turn) AS turn FROM operations WHERE state = ", $state)
    };
    ($state:literal, $principal:literal) => {
        concat!(last_turn!($state), " AND principal = ", $principal)
    };
}

/// The turn of an operation of a principal that is about to wait. Cancelled ones count as if they had never been.
macro_rules! next_turn {
    ($principal:literal) => {
        concat!(
            "1 + coalesce((SELECT max(known.turn) FROM (",
            last_turn!("1", $principal),
            " UNION ALL ",
            last_turn!("2"),
            " UNION ALL ",
            last_turn!("3"),
            " UNION ALL ",
            last_turn!("4"),
            ") known), 0)"
        )
    };
}

pub(crate) const SUBMIT: &str = concat!(
    "INSERT INTO operations (id, principal, credential, skill_id, session_id, trace_id, idempotency_key, fingerprint, \
     request, state, start_at_ms, start_before_ms, created_ms, turn, gateway, lease_ms, epoch, runs, may_have_run, \
     cancel_requested, reason, token, toolset, destructive) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, ",
    next_turn!("$2"),
    ", '', 0, 0, 0, 0, 0, '', '', $14, $15) ON CONFLICT DO NOTHING RETURNING id"
);
pub(crate) const FIND_KEY: &str =
    "SELECT id, fingerprint FROM operations WHERE principal = $1 AND skill_id = $2 AND idempotency_key = $3";
/// A call that already runs. Its turn does not matter unless its gateway is lost. Not more than `$17` of a principal run.
pub(crate) const ADOPT: &str = concat!(
    "INSERT INTO operations (id, principal, credential, skill_id, session_id, trace_id, fingerprint, request, state, \
     start_at_ms, start_before_ms, created_ms, started_ms, turn, gateway, lease_ms, epoch, runs, may_have_run, \
     cancel_requested, reason, token, toolset, destructive, task_view) SELECT $1, $2, $3, $4, $5, $6, $7, $8, 2, $9, $10, \
     $11, $11, ",
    next_turn!("$2"),
    ", $12, $13, 1, 1, 1, 0, '', '', $14, $15, $16 WHERE (SELECT count(*) FROM operations WHERE principal = $2 \
     AND task_view <> '' AND state < 3) < $17 ON CONFLICT DO NOTHING RETURNING ",
    columns!()
);
/// Each row gets a turn of its own: those of one principal come one after the other.
pub(crate) const PROMOTE: &str = concat!(
    "WITH due AS MATERIALIZED (SELECT id, principal, start_at_ms FROM operations WHERE state = 0 AND start_at_ms <= $1 \
     ORDER BY start_at_ms LIMIT 100 FOR UPDATE SKIP LOCKED), \
     placed AS MATERIALIZED (SELECT id, row_number() OVER (PARTITION BY principal ORDER BY start_at_ms, id) - 1 + ",
    next_turn!("due.principal"),
    " AS turn FROM due) UPDATE operations SET state = 1, turn = placed.turn FROM placed \
     WHERE operations.state = 0 AND operations.id = placed.id RETURNING operations.id"
);
/// The rows are chosen once, however the engine joins them.
pub(crate) const CLAIM: &str = concat!(
    "WITH next AS MATERIALIZED (SELECT id FROM operations WHERE state = 1 ORDER BY turn, created_ms LIMIT $4 \
     FOR UPDATE SKIP LOCKED) UPDATE operations SET state = 2, gateway = $1, lease_ms = $2, epoch = epoch + 1, token = $3 \
     WHERE state = 1 AND id IN (SELECT id FROM next) RETURNING ",
    claim_columns!()
);
pub(crate) const CLAIMED: &str =
    concat!("SELECT ", claim_columns!(), " FROM operations WHERE state = 2 AND token = $1");
pub(crate) const START: &str = "UPDATE operations SET may_have_run = 1, reason = '', runs = runs + 1, started_ms = coalesce(started_ms, $3) \
                     WHERE id = $1 AND epoch = $2 AND state = 2 AND cancel_requested = 0 RETURNING id";
pub(crate) const RENEW: &str = "UPDATE operations SET lease_ms = $2 WHERE gateway = $1 AND state = 2 \
                     RETURNING id, epoch, cancel_requested";
/// The lock keeps another gateway from taking the operation before the event is there.
pub(crate) const APPEND: &str = "INSERT INTO operation_events (operation_id, number, event) SELECT id, $3, $4 FROM operations \
                      WHERE id = $1 AND epoch = $2 AND state = 2 FOR SHARE ON CONFLICT DO NOTHING";
pub(crate) const POSTPONE: &str = "UPDATE operations SET state = 0, start_at_ms = $3, may_have_run = $4, reason = $5, \
                        runs = CASE WHEN $4 = CAST(0 AS BIGINT) THEN 0 ELSE runs END, \
                        started_ms = CASE WHEN $4 = CAST(0 AS BIGINT) THEN NULL ELSE started_ms END, gateway = '', lease_ms = 0 \
                        WHERE id = $1 AND epoch = $2 AND state = 2 RETURNING id";
pub(crate) const FINISH: &str = "UPDATE operations SET state = $3, result = $4, ended_ms = $5, remove_ms = $6, gateway = '', \
                      lease_ms = 0, bytes = CAST($7 AS BIGINT) + length(request) + coalesce((SELECT sum(length(event)) \
                      FROM operation_events WHERE operation_id = operations.id), 0) \
                      WHERE id = $1 AND epoch = $2 AND state = 2 RETURNING id";
pub(crate) const RELEASE: &str = "UPDATE operations SET state = 1, gateway = '', lease_ms = 0 \
                       WHERE id = $1 AND epoch = $2 AND state = 2 RETURNING id";
pub(crate) const RECOVER: &str = "UPDATE operations SET state = 1, gateway = '', lease_ms = 0, epoch = epoch + 1 \
                       WHERE state = 2 AND lease_ms < $1 RETURNING id";
pub(crate) const REQUEST_CANCEL: &str =
    "UPDATE operations SET cancel_requested = 1 WHERE id = $1 AND state < 3 RETURNING id";
pub(crate) const CANCEL_WAITING: &str = "UPDATE operations SET state = 5, result = $2, ended_ms = $3, remove_ms = $4, \
                              epoch = epoch + 1, bytes = CAST($6 AS BIGINT) + length(request) WHERE id = $1 AND state < 2 AND may_have_run = $5 RETURNING id";
pub(crate) const GET: &str = concat!("SELECT ", columns!(), ", result FROM operations WHERE id = $1");
pub(crate) const GET_WITHIN: &str = concat!(
    "SELECT ",
    columns!(),
    ", CASE WHEN length(result) <= CAST($2 AS BIGINT) THEN result END FROM operations WHERE id = $1"
);
pub(crate) const GET_REQUEST: &str = "SELECT request FROM operations WHERE id = $1";
pub(crate) const LIST: &str = list!("");
pub(crate) const LIST_OWN: &str = list!("principal = $8 AND ");
pub(crate) const EVENTS: &str =
    "SELECT number, event FROM operation_events WHERE operation_id = $1 AND number > $2 ORDER BY number LIMIT $3";
pub(crate) const LAST_EVENT: &str = "SELECT coalesce(max(number), 0) FROM operation_events WHERE operation_id = $1";
pub(crate) const DELETE: &str = "DELETE FROM operations WHERE id = $1 AND state >= 3 RETURNING id";
pub(crate) const DELETE_EVENTS: &str = "DELETE FROM operation_events WHERE operation_id = $1 AND NOT EXISTS \
                             (SELECT 1 FROM operations WHERE id = $1)";
pub(crate) const DELETE_QUESTIONS: &str = "DELETE FROM operation_questions WHERE operation_id = $1 AND NOT EXISTS \
                                           (SELECT 1 FROM operations WHERE id = $1)";
pub(crate) const EXPIRED: &str = "SELECT id FROM operations WHERE remove_ms <= $1 AND NOT EXISTS (SELECT 1 FROM webhook_deliveries \
                       WHERE operation_id = id AND webhook_deliveries.state = 1 AND give_up_ms > $1) \
                       ORDER BY remove_ms LIMIT 100";
/// An operation that is scheduled does not wait before its time.
pub(crate) const WAITING: &str = "SELECT principal, count(*), \
                       min(CASE WHEN start_at_ms > created_ms THEN start_at_ms ELSE created_ms END) \
                       FROM operations WHERE state < 2 GROUP BY principal";
/// Part of the transaction that ends an operation.
pub(crate) const NAME_BLOB: &str = "UPDATE blobs SET named = 1 WHERE id = $1 AND EXISTS (SELECT 1 FROM operations \
                               WHERE operations.id = blobs.operation_id AND operations.epoch = blobs.epoch AND state >= 3)";
/// Part of the transaction that removes an operation.
pub(crate) const LOOSEN_BLOBS: &str = "UPDATE blobs SET named = 0 WHERE operation_id = $1 AND NOT EXISTS \
                                 (SELECT 1 FROM operations WHERE id = $1) RETURNING id";
