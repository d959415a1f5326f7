//! What every engine must do with webhooks.

use super::steps::{KEEP_MS, LEASE_MS, claim_one, end, operation, recover, submit};
use crate::Store;
use crate::deliveries::{
    Delivery, DeliveryClaim, DeliveryHost, DeliveryState, HostShare, MAX_HOSTS, Settlement, Webhook,
};
use crate::operation::{End, NewOperation, State, Submission};

pub(super) async fn check_all(open: &impl AsyncFn() -> Store) {
    begins_with_the_end_of_the_operation(&open().await).await;
    begins_when_one_that_waits_is_cancelled(&open().await).await;
    gives_an_attempt_to_one_gateway(&open().await).await;
    takes_hosts_in_turn(&open().await).await;
    keeps_an_operation_until_its_delivery_is_over(&open().await).await;
}

fn with_webhook(id: &str, host: &str) -> NewOperation {
    let webhook =
        Webhook { url: format!("https://{host}/{id}"), host: host.to_owned(), traceparent: "00-1".to_owned() };
    NewOperation { webhook: Some(webhook), ..operation(id, "A") }
}

/// Stores an operation with a webhook, and ends it.
async fn ended(store: &Store, id: &str, host: &str) {
    store.submit(&with_webhook(id, host)).await.unwrap();
    let claim = claim_one(store).await;
    assert_eq!(store.finish(claim.fence(), &end(State::Succeeded, b"done")).await, Ok(true));
}

async fn delivery(store: &Store, id: &str) -> Delivery {
    store.delivery(id).await.unwrap().unwrap()
}

async fn claim(store: &Store, host: &str, lease_ms: i64) -> Vec<DeliveryClaim> {
    store.claim_deliveries(&[HostShare { host: host.to_owned(), limit: 10 }], lease_ms).await.unwrap()
}

async fn begins_with_the_end_of_the_operation(store: &Store) {
    let new = NewOperation { idempotency_key: Some("k".to_owned()), ..with_webhook("a", "h:1") };
    assert_eq!(store.submit(&new).await, Ok(Submission::Stored));
    assert_eq!(store.submit(&new).await, Ok(Submission::Stored), "the same id again");
    let again = NewOperation { id: "b".to_owned(), ..new };
    assert_eq!(store.submit(&again).await, Ok(Submission::Known("a".to_owned())));
    assert_eq!(store.delivery("b").await, Ok(None), "it was not stored");
    let idle =
        Delivery { url: "https://h:1/a".to_owned(), state: DeliveryState::Idle, attempts: 0, failure: String::new() };
    assert_eq!(delivery(store, "a").await, idle);

    let old = claim_one(store).await;
    recover(store).await;
    let new = claim_one(store).await;
    assert_eq!(store.finish(old.fence(), &end(State::Failed, b"")).await, Ok(false));
    assert_eq!(delivery(store, "a").await, idle, "that did not end it");
    assert!(store.delivery_hosts("").await.unwrap().is_empty() && claim(store, "h:1", LEASE_MS).await.is_empty());
    assert_eq!(store.finish(new.fence(), &end(State::Succeeded, b"")).await, Ok(true));
    assert_eq!(store.delivery_hosts("").await, Ok(vec![DeliveryHost { host: "h:1".to_owned(), is_due: true }]));
    let claimed = claim(store, "h:1", LEASE_MS).await.pop().unwrap();
    assert_eq!(store.settle_delivery(&claimed, &Settlement::Delivered).await, Ok(true));
    assert_eq!(store.finish(new.fence(), &end(State::Succeeded, b"")).await, Ok(false), "it ends once");
    assert_eq!(delivery(store, "a").await.state, DeliveryState::Delivered);

    submit(store, "silent", "A").await;
    let claim = claim_one(store).await;
    assert_eq!(store.finish(claim.fence(), &end(State::Succeeded, b"")).await, Ok(true));
    assert_eq!(store.delivery("silent").await, Ok(None));
}

async fn begins_when_one_that_waits_is_cancelled(store: &Store) {
    store.submit(&with_webhook("a", "h:1")).await.unwrap();
    let cancelled = end(State::Cancelled, b"");
    assert_eq!(store.cancel("a", &cancelled, &cancelled).await, Ok(true));
    assert_eq!(delivery(store, "a").await.state, DeliveryState::Waiting);
    store.submit(&with_webhook("runs", "h:2")).await.unwrap();
    claim_one(store).await;
    assert_eq!(store.cancel("runs", &cancelled, &cancelled).await, Ok(true));
    assert_eq!(delivery(store, "runs").await.state, DeliveryState::Idle, "it still runs");
}

async fn gives_an_attempt_to_one_gateway(store: &Store) {
    ended(store, "a", "h:1").await;
    let racing = (0..4).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { claim(&store, "h:1", -1).await })
    });
    let mut claims = Vec::new();
    for task in racing.collect::<Vec<_>>() {
        claims.extend(task.await.unwrap());
    }
    // Each lease ended at once, so there may be more than one, with different epochs.
    claims.sort_by_key(|it| it.epoch);
    assert!(claims.windows(2).all(|it| it[0].epoch < it[1].epoch), "{claims:?}");
    let old = claims.pop().unwrap();
    let new = claim(store, "h:1", LEASE_MS).await.pop().unwrap();
    assert_eq!((new.attempt, new.webhook.url.as_str()), (old.attempt + 1, "https://h:1/a"));
    assert_eq!(new.webhook.traceparent, "00-1");
    assert!(claim(store, "h:1", LEASE_MS).await.is_empty(), "it has a lease");
    assert_eq!(store.settle_delivery(&old, &Settlement::Failed("late".to_owned())).await, Ok(false));

    let later = |pause_ms| Settlement::Later { pause_ms, failure: "refused".to_owned() };
    assert_eq!(store.settle_delivery(&new, &later(LEASE_MS)).await, Ok(true));
    let waiting = delivery(store, "a").await;
    assert_eq!(
        (waiting.state, waiting.attempts, waiting.failure.as_str()),
        (DeliveryState::Waiting, new.attempt, "refused")
    );
    assert_eq!(store.delivery_hosts("").await, Ok(vec![DeliveryHost { host: "h:1".to_owned(), is_due: false }]));
    assert!(claim(store, "h:1", LEASE_MS).await.is_empty());
    // Its claim stays valid until the next one.
    assert_eq!(store.settle_delivery(&new, &later(-1)).await, Ok(true));
    let last = claim(store, "h:1", LEASE_MS).await.pop().unwrap();
    assert_eq!(store.settle_delivery(&last, &Settlement::Failed("gone".to_owned())).await, Ok(true));
    let failed = delivery(store, "a").await;
    assert_eq!((failed.state, failed.attempts, failed.failure.as_str()), (DeliveryState::Failed, last.attempt, "gone"));
    assert!(store.delivery_hosts("").await.unwrap().is_empty());
}

async fn takes_hosts_in_turn(store: &Store) {
    for number in 0..3 {
        ended(store, &format!("dead-{number}"), "dead:1").await;
    }
    for number in 0..MAX_HOSTS {
        ended(store, &format!("{number:03}"), &format!("{number:03}:1")).await;
    }
    let first = store.delivery_hosts("").await.unwrap();
    let second = store.delivery_hosts(&first.last().unwrap().host).await.unwrap();
    let names: Vec<_> = first.iter().chain(&second).map(|it| it.host.as_str()).collect();
    assert!(first.len() == MAX_HOSTS && names.len() == MAX_HOSTS + 1 && names.is_sorted(), "{names:?}");
    let share = |host: &str, limit| HostShare { host: host.to_owned(), limit };
    let shares = [share("dead:1", 2), share("007:1", 2), share("none:1", 2)];
    let claims = store.claim_deliveries(&shares, LEASE_MS).await.unwrap();
    let mut hosts: Vec<_> = claims.iter().map(|it| it.webhook.host.as_str()).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["007:1", "dead:1", "dead:1"]);
    assert_eq!(store.claim_deliveries(&[], LEASE_MS).await, Ok(Vec::new()));
}

async fn keeps_an_operation_until_its_delivery_is_over(store: &Store) {
    for id in ["expired", "deleted"] {
        store.submit(&with_webhook(id, "h:1")).await.unwrap();
        let claim = claim_one(store).await;
        let keep_ms = if id == "expired" { -1 } else { KEEP_MS };
        store.finish(claim.fence(), &End { keep_ms, ..end(State::Succeeded, b"") }).await.unwrap();
    }
    assert_eq!(store.prune().await, Ok(0));
    assert_eq!(store.delete("deleted").await, Ok(true), "its owner wants it to go");
    assert_eq!(store.delivery("deleted").await, Ok(None));
    let claimed = claim(store, "h:1", LEASE_MS).await.pop().unwrap();
    assert_eq!(store.settle_delivery(&claimed, &Settlement::Delivered).await, Ok(true));
    assert_eq!(store.prune().await, Ok(1));
    assert_eq!(store.delivery("expired").await, Ok(None));
    assert_eq!(store.settle_delivery(&claimed, &Settlement::Delivered).await, Ok(false));
}
