//! What checks of operations do again and again.

use crate::Store;
use crate::operation::{Claim, End, NewOperation, State, StoredEvent, Submission};

pub(super) const LEASE_MS: i64 = 60_000;
pub(super) const KEEP_MS: i64 = 60_000;

/// An operation of a principal that may run now.
pub fn operation(id: &str, principal: &str) -> NewOperation {
    NewOperation {
        id: id.to_owned(),
        principal: principal.to_owned(),
        credential: "key".to_owned(),
        toolset: "tools".to_owned(),
        destructive: true,
        skill_id: "echo".to_owned(),
        session_id: String::new(),
        trace_id: format!("trace-{id}"),
        idempotency_key: None,
        fingerprint: vec![1],
        request: vec![0, 255, 1],
        start_at_ms: 0,
        start_before_ms: i64::MAX,
        webhook: None,
    }
}

pub(super) fn end(state: State, result: &[u8]) -> End {
    End { state, result: result.to_owned(), blobs: Vec::new(), keep_ms: KEEP_MS }
}

pub(super) fn event(number: i64, event: &[u8]) -> StoredEvent {
    StoredEvent { number, event: event.to_owned() }
}

pub(super) async fn submit(store: &Store, id: &str, principal: &str) {
    assert_eq!(store.submit(&operation(id, principal)).await, Ok(Submission::Stored));
}

pub(super) async fn claim(store: &Store, limit: usize) -> Vec<Claim> {
    store.claim("gateway", LEASE_MS, limit).await.unwrap()
}

pub(super) async fn claim_one(store: &Store) -> Claim {
    claim(store, 1).await.pop().unwrap()
}

pub(super) async fn state(store: &Store, id: &str) -> State {
    store.get(id).await.unwrap().unwrap().0.state
}

/// Frees an operation as if the lease of its gateway had ended.
pub(super) async fn recover(store: &Store) -> usize {
    store.renew("gateway", -1).await.unwrap();
    store.recover().await.unwrap()
}
