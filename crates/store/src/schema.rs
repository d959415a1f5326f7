//! The tables, and the steps from each version to the next.

use crate::engine::{Engine, Statement, StoreError};

/// The steps. Step `n` leads to version `n + 1`. Steps that were released never change.
const STEPS: &[&[&str]] = &[OPERATIONS, IDEMPOTENCY_KEYS, QUESTIONS, SHARED_COUNTS, CONVERSATIONS, BLOBS, WEBHOOKS];

const OPERATIONS: &[&str] = &[
    "CREATE TABLE operations (
        id TEXT PRIMARY KEY,
        principal TEXT NOT NULL,
        credential TEXT NOT NULL,
        skill_id TEXT NOT NULL,
        toolset TEXT NOT NULL,
        destructive BIGINT NOT NULL,
        session_id TEXT NOT NULL,
        trace_id TEXT NOT NULL,
        idempotency_key TEXT,
        fingerprint BYTEA,
        request BYTEA NOT NULL,
        state BIGINT NOT NULL,
        turn BIGINT NOT NULL,
        start_at_ms BIGINT NOT NULL,
        start_before_ms BIGINT NOT NULL,
        created_ms BIGINT NOT NULL,
        started_ms BIGINT,
        ended_ms BIGINT,
        remove_ms BIGINT,
        gateway TEXT NOT NULL,
        lease_ms BIGINT NOT NULL,
        epoch BIGINT NOT NULL,
        runs BIGINT NOT NULL,
        may_have_run BIGINT NOT NULL,
        cancel_requested BIGINT NOT NULL,
        reason TEXT NOT NULL,
        token TEXT NOT NULL,
        result BYTEA
    )",
    "CREATE UNIQUE INDEX operations_by_key ON operations (principal, skill_id, idempotency_key)",
    "CREATE INDEX operations_by_turn ON operations (state, turn, created_ms)",
    "CREATE INDEX operations_of_flow ON operations (state, principal, turn)",
    "CREATE INDEX operations_by_start ON operations (state, start_at_ms)",
    "CREATE INDEX operations_by_age ON operations (created_ms, id)",
    "CREATE INDEX operations_of_principal ON operations (principal, created_ms, id)",
    "CREATE INDEX operations_by_removal ON operations (remove_ms)",
    "CREATE TABLE operation_events (
        operation_id TEXT NOT NULL,
        number BIGINT NOT NULL,
        event BYTEA NOT NULL,
        PRIMARY KEY (operation_id, number)
    )",
];

/// The keys that run are few, and the others never change.
const IDEMPOTENCY_KEYS: &[&str] = &[
    "CREATE TABLE idempotency_keys (
        principal TEXT NOT NULL,
        session_id TEXT NOT NULL,
        skill_id TEXT NOT NULL,
        idempotency_key TEXT NOT NULL,
        fingerprint BYTEA NOT NULL,
        state BIGINT NOT NULL,
        gateway TEXT NOT NULL,
        token TEXT NOT NULL,
        lease_ms BIGINT NOT NULL,
        expires_ms BIGINT NOT NULL,
        bytes BIGINT NOT NULL,
        outcome BYTEA,
        PRIMARY KEY (principal, session_id, skill_id, idempotency_key)
    )",
    "CREATE INDEX idempotency_keys_that_run ON idempotency_keys (gateway) WHERE state = 0",
    "CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_ms, bytes)",
];

const QUESTIONS: &[&str] = &[
    "CREATE TABLE operation_questions (
        request_id TEXT PRIMARY KEY,
        operation_id TEXT NOT NULL,
        run BIGINT NOT NULL,
        number BIGINT NOT NULL,
        question BYTEA NOT NULL,
        answer BYTEA
    )",
    "CREATE INDEX operation_questions_by_operation ON operation_questions (operation_id, number)",
    "ALTER TABLE operations ADD COLUMN task_view TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX operations_by_task ON operations (principal, ended_ms) WHERE task_view <> ''",
];

const SHARED_COUNTS: &[&str] = &[
    "CREATE TABLE rates (
        principal TEXT PRIMARY KEY,
        full_at_us BIGINT NOT NULL,
        updated_ms BIGINT NOT NULL
    )",
    "CREATE TABLE circuits (
        name TEXT PRIMARY KEY,
        epoch BIGINT NOT NULL,
        state BIGINT NOT NULL,
        until_ms BIGINT NOT NULL,
        gateway TEXT NOT NULL,
        changed_ms BIGINT NOT NULL
    )",
    "CREATE TABLE circuit_calls (
        name TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        gateway TEXT NOT NULL,
        remove_ms BIGINT NOT NULL,
        calls BIGINT NOT NULL,
        failures BIGINT NOT NULL,
        PRIMARY KEY (name, epoch, gateway, remove_ms)
    )",
];

const CONVERSATIONS: &[&str] = &[
    "CREATE TABLE conversations (
        id TEXT PRIMARY KEY,
        principal TEXT NOT NULL,
        used_us BIGINT NOT NULL,
        last_number BIGINT NOT NULL,
        room_bytes BIGINT NOT NULL,
        phase BIGINT NOT NULL,
        gateway TEXT NOT NULL,
        lease_ms BIGINT NOT NULL,
        cancel_requested BIGINT NOT NULL,
        token TEXT NOT NULL,
        metadata BYTEA NOT NULL
    )",
    "CREATE INDEX conversations_by_use ON conversations (principal, used_us, id)",
    "CREATE INDEX conversations_by_age ON conversations (used_us)",
    "CREATE INDEX conversations_by_lease ON conversations (phase, lease_ms)",
    "CREATE INDEX conversations_by_room ON conversations (principal, room_bytes)",
    "CREATE TABLE conversation_entries (
        conversation_id TEXT NOT NULL,
        number BIGINT NOT NULL,
        entry BYTEA NOT NULL,
        PRIMARY KEY (conversation_id, number)
    )",
];

const BLOBS: &[&str] = &[
    "ALTER TABLE operations ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0",
    "CREATE INDEX operations_kept ON operations (principal, ended_ms, id, bytes) WHERE ended_ms IS NOT NULL",
    "CREATE TABLE blobs (
        id TEXT PRIMARY KEY,
        operation_id TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        in_file BIGINT NOT NULL,
        named BIGINT NOT NULL,
        size BIGINT NOT NULL,
        sha256 BYTEA
    )",
    "CREATE INDEX blobs_of_operation ON blobs (operation_id)",
    "CREATE INDEX loose_blobs ON blobs (id) WHERE named = 0",
    "CREATE TABLE blob_chunks (
        blob_id TEXT NOT NULL,
        number BIGINT NOT NULL,
        bytes BYTEA NOT NULL,
        PRIMARY KEY (blob_id, number)
    )",
];

const WEBHOOKS: &[&str] = &[
    "CREATE TABLE webhook_deliveries (
        operation_id TEXT PRIMARY KEY,
        url TEXT NOT NULL,
        host TEXT NOT NULL,
        traceparent TEXT NOT NULL,
        state BIGINT NOT NULL,
        attempts BIGINT NOT NULL,
        epoch BIGINT NOT NULL,
        next_ms BIGINT NOT NULL,
        give_up_ms BIGINT NOT NULL,
        failure TEXT NOT NULL
    )",
    "CREATE INDEX webhook_deliveries_by_host ON webhook_deliveries (state, host, next_ms)",
];

const CREATE_VERSIONS: &str = "CREATE TABLE IF NOT EXISTS openskill_schema (version BIGINT PRIMARY KEY)";
const READ_VERSION: &str = "SELECT coalesce(max(version), 0) FROM openskill_schema";
/// Of several gateways that start at once, one inserts the version. The others wait for it, and then fail.
const CLAIM_VERSION: &str = "INSERT INTO openskill_schema (version) VALUES ($1)";

/// How often a gateway tries again while others create the same tables.
const TRIES: usize = 5;

/// Creates the tables, or brings them to the newest version.
///
/// # Errors
/// The tables can't be changed, or have a version that this program does not know.
pub(crate) async fn migrate(engine: &dyn Engine) -> Result<(), StoreError> {
    let mut tries = 0;
    loop {
        match step(engine).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error @ StoreError::Newer { .. }) => return Err(error),
            Err(error) => {
                tries += 1;
                if tries == TRIES || !engine.is_shared() {
                    return Err(error);
                }
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        }
    }
}

/// Takes one step. Returns true if there was none left.
async fn step(engine: &dyn Engine) -> Result<bool, StoreError> {
    engine.write(vec![Statement::new(CREATE_VERSIONS, [])]).await?;
    let mut rows = engine.read(Statement::new(READ_VERSION, [])).await?;
    let found = rows.first_mut().map_or(Ok(0), crate::engine::Row::integer)?;
    let known = STEPS.len() as i64;
    let Some(steps) = usize::try_from(found).ok().and_then(|it| STEPS.get(it)) else {
        return if found == known { Ok(true) } else { Err(StoreError::Newer { found, known }) };
    };
    let claim = Statement::new(CLAIM_VERSION, [(found + 1).into()]);
    let steps = steps.iter().map(|sql| Statement::new(sql, []));
    engine.write(std::iter::once(claim).chain(steps).collect()).await?;
    Ok(false)
}
