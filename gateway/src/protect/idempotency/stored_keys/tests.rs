//! Tests what later calls with a key get, with a store in memory.

use openskill_proto::v1::{ExecuteResult, InvokeRequest};
use openskill_store::Location;

use super::*;
use crate::call::request::RequestContext;

struct Keys {
    keys: Arc<StoredKeys>,
    store: Store,
}

impl Keys {
    async fn new() -> Self {
        let store = Store::open(&Location::Memory).await.unwrap();
        Self { keys: StoredKeys::new(Duration::from_secs(60)), store }
    }

    async fn claim_within(&self, call: &Call, time: Duration) -> StoredClaim {
        let fingerprint = Fingerprint::new("", b"{}");
        self.keys.claim(&self.store, call, fingerprint, Instant::now() + time).await.unwrap()
    }

    async fn claim(&self, key: &str) -> StoredClaim {
        self.claim_within(&call(key), Duration::from_secs(20)).await
    }

    async fn first(&self, key: &str) -> StoredKey {
        let claimed = self.claim(key).await;
        let StoredClaim::First(first) = claimed else { panic!("{claimed:?}") };
        *first
    }
}

fn call(key: &str) -> Call {
    let request =
        InvokeRequest { skill_id: "echo".to_owned(), idempotency_key: key.to_owned(), ..InvokeRequest::default() };
    Call::new(request, RequestContext::unknown())
}

fn ran(bytes: usize) -> Outcome {
    let result = ExecuteResult { success: true, data_json: vec![b' '; bytes].into(), ..ExecuteResult::default() };
    Outcome { may_have_run: true, ..Outcome::from_result(result) }
}

fn is_replay(claimed: &StoredClaim, bytes: usize) -> bool {
    matches!(claimed, StoredClaim::Over(KeyedOutcome::With(outcome)) if outcome.result.data_json.len() == bytes)
}

fn is_unknown(claimed: &StoredClaim) -> bool {
    matches!(claimed, StoredClaim::Over(KeyedOutcome::Unknown))
}

#[tokio::test]
async fn a_later_call_gets_the_outcome_of_the_first_unless_that_did_not_run() {
    let keys = Keys::new().await;
    keys.first("k").await.end(&Outcome::from_error(SkillError::overloaded("full"))).await;
    keys.first("k").await.end(&ran(7)).await;
    assert!(is_replay(&keys.claim("k").await, 7));
    keys.first("large").await.end(&ran(MAX_OUTCOME_BYTES)).await;
    assert!(is_unknown(&keys.claim("large").await));
    assert!(keys.keys.is_idle());
}

#[tokio::test]
async fn a_later_call_waits_until_the_first_ends_or_its_own_deadline_passes_or_it_is_cancelled() {
    let keys = Keys::new().await;
    let first = keys.first("k").await;
    let overdue = keys.claim_within(&call("k"), Duration::from_millis(20)).await;
    assert!(matches!(overdue, StoredClaim::Overdue), "{overdue:?}");
    let cancelled = call("k");
    cancelled.cancellation.notify_one();
    let cancelled = keys.claim_within(&cancelled, Duration::from_secs(20)).await;
    assert!(matches!(cancelled, StoredClaim::Cancelled), "{cancelled:?}");
    let ended = ran(1);
    let (waited, ()) = tokio::join!(keys.claim("k"), first.end(&ended));
    assert!(is_replay(&waited, 1), "{waited:?}");
}

#[tokio::test]
async fn a_key_whose_end_was_not_stored_is_unknown_and_one_whose_call_did_not_run_is_free() {
    let keys = Keys::new().await;
    drop(keys.first("lost").await);
    let unconfirmed = keys.first("unconfirmed").await;
    keys.keys.note_unconfirmed(&unconfirmed.new.fence.token);
    drop(unconfirmed);
    let running = keys.first("running").await;
    keys.keys.renew(&keys.store).await.unwrap();
    assert!(is_unknown(&keys.claim("lost").await));
    keys.first("unconfirmed").await.end(&ran(1)).await;
    running.end(&ran(2)).await;
    assert!(is_replay(&keys.claim("running").await, 2));
    assert!(keys.keys.is_idle());
}
