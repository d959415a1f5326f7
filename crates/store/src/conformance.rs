//! What every engine must do. Tests run [`check_all`] on each of them. Those of a kind of row
//! are in a file of their own.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "for tests")]

mod blobs;
mod conversations;
mod counts;
mod deliveries;
mod keys;
mod questions;
mod steps;

use std::collections::BTreeSet;

use crate::Store;
use crate::operation::{End, NewOperation, OperationFilter, Postponement, State, Submission};
use crate::operations::HeldOperation;
use crate::page::Position;
pub use steps::operation;
use steps::{KEEP_MS, LEASE_MS, claim, claim_one, end, event, recover, state, submit};

/// Runs all checks, each on an empty store of its own.
pub async fn check_all(open: impl AsyncFn() -> Store) {
    submits_once(&open().await).await;
    takes_fair_turns(&open().await).await;
    promotes_in_fair_turns(&open().await).await;
    gives_an_operation_to_one_gateway(&open().await).await;
    follows_an_operation_to_its_result(&open().await).await;
    ignores_claims_that_are_no_longer_valid(&open().await).await;
    keeps_events(&open().await).await;
    postpones_and_schedules(&open().await).await;
    cancels(&open().await).await;
    lists_pages_without_repeats(&open().await).await;
    removes_what_has_ended(&open().await).await;
    takes_many_changes_at_once(&open().await).await;
    keys::one_of_many_claims_of_a_key_succeeds(&open().await).await;
    keys::a_key_answers_later_claims_as_it_ended(&open().await).await;
    keys::a_key_whose_gateway_is_gone_is_unknown_and_not_free(&open().await).await;
    keys::a_key_is_free_after_its_time(&open().await).await;
    counts::check_all(&open().await).await;
    conversations::check(&open).await;
    blobs::check_all(&open).await;
    deliveries::check_all(&open).await;
    questions::check_all(&open).await;
}

async fn submits_once(store: &Store) {
    let new = NewOperation { idempotency_key: Some("k".to_owned()), ..operation("a", "A") };
    assert_eq!(store.submit(&new).await, Ok(Submission::Stored));
    assert_eq!(store.submit(&new).await, Ok(Submission::Stored), "the same id again");
    let again = NewOperation { id: "b".to_owned(), ..new.clone() };
    assert_eq!(store.submit(&again).await, Ok(Submission::Known("a".to_owned())));
    let other = NewOperation { fingerprint: vec![2], ..again.clone() };
    assert_eq!(store.submit(&other).await, Ok(Submission::KeyMismatch));
    let stranger = NewOperation { principal: "B".to_owned(), ..again };
    assert_eq!(store.submit(&stranger).await, Ok(Submission::Stored), "keys belong to principals");
    assert_eq!(store.list(&OperationFilter::default(), &Position::first(), 10).await.unwrap().len(), 2);

    let (stored, result) = store.get("a").await.unwrap().unwrap();
    assert_eq!((stored.principal.as_str(), stored.credential.as_str(), stored.state), ("A", "key", State::Queued));
    assert_eq!((stored.trace_id.as_str(), stored.runs, stored.ended_ms), ("trace-a", 0, None));
    assert_eq!((stored.start_at_ms, stored.start_before_ms), (new.start_at_ms, new.start_before_ms));
    assert!(result.is_empty());
    assert_eq!(store.request("a").await, Ok(Some(new.request)));
    assert_eq!(store.get("none").await, Ok(None));
    assert_eq!(store.request("none").await, Ok(None));
}

async fn takes_fair_turns(store: &Store) {
    for number in 0..100 {
        submit(store, &format!("a{number:03}"), "A").await;
    }
    submit(store, "b0", "B").await;
    submit(store, "b1", "B").await;
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(claim_one(store).await.operation.principal);
    }
    assert_eq!(order, ["A", "B", "A", "B"]);
    let mut waiting = store.waiting().await.unwrap();
    let waiting = waiting.pop().filter(|_| waiting.is_empty()).unwrap();
    assert_eq!((waiting.principal.as_str(), waiting.count), ("A", 98));
    assert!(waiting.oldest_ms <= store.now_ms());
}

/// The same for operations that become ready at the same time.
async fn promotes_in_fair_turns(store: &Store) {
    let soon = store.now_ms() + 1500;
    for (number, principal) in ["A"; 30].into_iter().chain(["B"; 2]).enumerate() {
        let new = operation(&format!("{principal}{number:02}"), principal);
        store.submit(&NewOperation { start_at_ms: soon, ..new }).await.unwrap();
    }
    wait_until(store, soon).await;
    assert_eq!(store.promote().await, Ok(32));
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(claim_one(store).await.operation.principal);
    }
    order.sort();
    assert_eq!(order, ["A", "A", "B", "B"]);
}

async fn gives_an_operation_to_one_gateway(store: &Store) {
    for number in 0..60 {
        submit(store, &format!("{number}"), "A").await;
    }
    let claims = (0..12).map(|number| {
        let store = store.clone();
        tokio::spawn(async move { store.claim(&format!("gateway-{number}"), LEASE_MS, 4).await.unwrap() })
    });
    let (mut claimed, mut ids) = (0, BTreeSet::new());
    for task in claims.collect::<Vec<_>>() {
        let claims = task.await.unwrap();
        assert!(claims.len() <= 4, "a claim takes no more than its limit");
        claimed += claims.len();
        ids.extend(claims.into_iter().map(|it| it.operation.id));
    }
    assert_eq!(claimed, ids.len(), "an operation was claimed twice");
    // Claims that race may skip rows, but leave none behind.
    assert_eq!(claimed + claim(store, 100).await.len(), 60);
    assert!(claim(store, 100).await.is_empty());
}

async fn follows_an_operation_to_its_result(store: &Store) {
    submit(store, "a", "A").await;
    let claim = claim_one(store).await;
    assert_eq!((claim.operation.state, claim.may_have_run, claim.last_event), (State::Running, false, 0));
    assert_eq!(claim.request, [0, 255, 1]);
    assert_eq!(store.start(claim.fence()).await, Ok(true));
    let (running, _) = store.get("a").await.unwrap().unwrap();
    assert_eq!((running.runs, running.started_ms.is_some()), (1, true));
    assert_eq!(store.finish(claim.fence(), &end(State::Succeeded, b"\x00done")).await, Ok(true));
    assert_eq!(store.finish(claim.fence(), &end(State::Failed, b"again")).await, Ok(false), "it ends once");
    let (ended, result) = store.get("a").await.unwrap().unwrap();
    assert_eq!((ended.state, result.as_slice()), (State::Succeeded, &b"\x00done"[..]));
    assert_eq!(ended.remove_ms.unwrap() - ended.ended_ms.unwrap(), KEEP_MS);
    assert_eq!(store.get_within("a", result.len()).await, Ok(Some((ended.clone(), Some(result.clone())))));
    assert_eq!(store.get_within("a", result.len() - 1).await, Ok(Some((ended, None))));
    assert!(store.waiting().await.unwrap().is_empty());
}

async fn ignores_claims_that_are_no_longer_valid(store: &Store) {
    submit(store, "a", "A").await;
    let old = claim_one(store).await;
    assert_eq!(store.start(old.fence()).await, Ok(true));
    store.append(old.fence(), vec![event(1, b"one")]).await.unwrap();
    if store.is_shared() {
        assert_eq!(store.recover().await, Ok(0), "its lease has not ended");
    }
    assert_eq!(recover(store).await, 1);
    let new = claim_one(store).await;
    assert!(new.epoch > old.epoch && new.may_have_run);
    assert_eq!(new.last_event, 1);

    assert_eq!(store.start(old.fence()).await, Ok(false));
    store.append(old.fence(), vec![event(2, b"late")]).await.unwrap();
    assert_eq!(store.postpone(old.fence(), &postponement(0, false)).await, Ok(false));
    assert_eq!(store.finish(old.fence(), &end(State::Failed, b"late")).await, Ok(false));
    assert_eq!(store.events("a", 0, 10).await, Ok(vec![event(1, b"one")]));
    assert_eq!(state(store, "a").await, State::Running);
    assert_eq!(store.finish(new.fence(), &end(State::Succeeded, b"")).await, Ok(true));
}

async fn keeps_events(store: &Store) {
    submit(store, "a", "A").await;
    let claim = claim_one(store).await;
    let events: Vec<_> = (1..=40).map(|number| event(number, format!("event {number}").as_bytes())).collect();
    store.append(claim.fence(), events.clone()).await.unwrap();
    store.append(claim.fence(), vec![event(40, b"again"), event(41, b"")]).await.unwrap();
    store.append(claim.fence(), Vec::new()).await.unwrap();
    assert_eq!(store.events("a", 0, 2).await, Ok(events[..2].to_vec()));
    assert_eq!(store.events("a", 38, 10).await, Ok(vec![events[38].clone(), events[39].clone(), event(41, b"")]));
    assert_eq!(store.events("a", 41, 10).await, Ok(Vec::new()));
}

async fn postpones_and_schedules(store: &Store) {
    let soon = store.now_ms() + 300;
    store.submit(&NewOperation { start_at_ms: soon, ..operation("later", "A") }).await.unwrap();
    submit(store, "now", "A").await;
    assert_eq!(state(store, "later").await, State::Scheduled);
    let first = claim_one(store).await;
    assert_eq!(first.operation.id, "now");
    assert_eq!(store.promote().await, Ok(0));
    assert_eq!(store.postpone(first.fence(), &postponement(soon, true)).await, Ok(true));
    assert_eq!(store.start(first.fence()).await, Ok(false), "it was given back");
    let postponed = store.get("now").await.unwrap().unwrap().0;
    assert_eq!((postponed.state, postponed.reason.as_str()), (State::Scheduled, "later"));
    assert!(claim(store, 10).await.is_empty());
    wait_until(store, soon).await;
    assert_eq!(store.promote().await, Ok(2));
    let mut ready: Vec<_> = claim(store, 10).await.into_iter().map(|it| (it.operation.id, it.may_have_run)).collect();
    ready.sort();
    assert_eq!(ready, [("later".to_owned(), false), ("now".to_owned(), true)]);
}

fn postponement(start_at_ms: i64, may_have_run: bool) -> Postponement {
    Postponement { start_at_ms, may_have_run, reason: "later".to_owned() }
}

async fn wait_until(store: &Store, time_ms: i64) {
    while store.now_ms() < time_ms {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

async fn cancels(store: &Store) {
    let (cancelled, uncertain) = (end(State::Cancelled, b"cancelled"), end(State::Cancelled, b"uncertain"));
    submit(store, "ran", "A").await;
    let ran = claim_one(store).await;
    assert_eq!(store.start(ran.fence()).await, Ok(true));
    store.release(ran.fence()).await.unwrap();
    assert_eq!(store.cancel("ran", &cancelled, &uncertain).await, Ok(true));
    assert_eq!(store.get("ran").await.unwrap().unwrap().1, b"uncertain", "it may have run before it was given back");
    submit(store, "waits", "A").await;
    assert_eq!(store.cancel("waits", &cancelled, &uncertain).await, Ok(true));
    let (ended, result) = store.get("waits").await.unwrap().unwrap();
    assert_eq!(
        (ended.state, result.as_slice(), ended.remove_ms.is_some()),
        (State::Cancelled, &b"cancelled"[..], true)
    );
    assert_eq!(store.cancel("waits", &cancelled, &uncertain).await, Ok(false), "it has ended");
    assert_eq!(store.cancel("none", &cancelled, &uncertain).await, Ok(false));
    assert!(claim(store, 10).await.is_empty());

    submit(store, "runs", "A").await;
    let claim = claim_one(store).await;
    let held = |cancel_requested| vec![HeldOperation { id: "runs".to_owned(), epoch: claim.epoch, cancel_requested }];
    assert_eq!(store.renew("gateway", LEASE_MS).await, Ok(held(false)));
    assert_eq!(store.renew("another", LEASE_MS).await, Ok(Vec::new()));
    assert_eq!(store.cancel("runs", &cancelled, &uncertain).await, Ok(true));
    assert_eq!(state(store, "runs").await, State::Running);
    assert_eq!(store.renew("gateway", LEASE_MS).await, Ok(held(true)));
    assert_eq!(store.start(claim.fence()).await, Ok(false), "it must not start");
    assert_eq!(store.finish(claim.fence(), &cancelled).await, Ok(true));
    assert_eq!(store.renew("gateway", LEASE_MS).await, Ok(Vec::new()));
}

async fn lists_pages_without_repeats(store: &Store) {
    for number in 0..25 {
        let principal = if number % 5 == 0 { "B" } else { "A" };
        let new = operation(&format!("{number:02}"), principal);
        let session_id = if number % 2 == 0 { "even" } else { "odd" }.to_owned();
        store.submit(&NewOperation { session_id, ..new }).await.unwrap();
    }
    let all = OperationFilter::default();
    let (mut after, mut seen) = (Position::first(), Vec::new());
    loop {
        let page = store.list(&all, &after, 4).await.unwrap();
        let Some(last) = page.last() else { break };
        let token = Position { created_ms: last.created_ms, id: last.id.clone() }.token(&all);
        after = Position::parse(&token, &all).unwrap();
        seen.extend(page.into_iter().map(|it| (it.created_ms, it.id)));
    }
    assert_eq!(seen.len(), 25);
    assert!(seen.is_sorted_by(|newer, older| newer > older), "{seen:?}");

    assert_eq!(claim(store, 3).await.len(), 3);
    let count = async |filter: OperationFilter| store.list(&filter, &Position::first(), 100).await.unwrap().len();
    let principal = Some("B".to_owned());
    assert_eq!(count(OperationFilter { principal: principal.clone(), ..OperationFilter::default() }).await, 5);
    assert_eq!(
        count(OperationFilter { principal, session_id: "even".to_owned(), ..OperationFilter::default() }).await,
        3
    );
    assert_eq!(count(OperationFilter { skill_id: "echo".to_owned(), ..OperationFilter::default() }).await, 25);
    assert_eq!(count(OperationFilter { skill_id: "other".to_owned(), ..OperationFilter::default() }).await, 0);
    let running = State::Running as i64;
    assert_eq!(count(OperationFilter { states: Some((running, running)), ..OperationFilter::default() }).await, 3);
}

async fn removes_what_has_ended(store: &Store) {
    for id in ["deleted", "pruned", "kept"] {
        submit(store, id, "A").await;
    }
    assert_eq!(store.delete("deleted").await, Ok(false), "it has not ended");
    for claim in claim(store, 10).await {
        store.append(claim.fence(), vec![event(1, b"event")]).await.unwrap();
        assert_eq!(store.delete(&claim.operation.id).await, Ok(false), "it runs");
        let keep_ms = if claim.operation.id == "pruned" { -1 } else { KEEP_MS };
        store.finish(claim.fence(), &End { keep_ms, ..end(State::Succeeded, b"") }).await.unwrap();
    }
    assert_eq!(store.delete("deleted").await, Ok(true));
    assert_eq!(store.delete("deleted").await, Ok(false));
    assert_eq!(store.prune().await, Ok(1));
    assert_eq!(store.prune().await, Ok(0));
    for (id, events) in [("deleted", 0), ("pruned", 0), ("kept", 1)] {
        assert_eq!(store.get(id).await.unwrap().is_some(), events == 1, "{id}");
        assert_eq!(store.events(id, 0, 10).await.unwrap().len(), events, "{id}");
    }
}

/// Gateways submit, claim, renew, append, finish and recover at the same time: each operation ends once.
async fn takes_many_changes_at_once(store: &Store) {
    const EACH: usize = 25;
    let gateways = (0..4).map(|number| {
        let (store, gateway) = (store.clone(), format!("gateway-{number}"));
        tokio::spawn(async move {
            let mut finished = 0;
            for round in 0..EACH {
                submit(&store, &format!("{number}-{round}"), &format!("{}", round % 3)).await;
                for claim in store.claim(&gateway, LEASE_MS, 2).await.unwrap() {
                    store.renew(&gateway, LEASE_MS).await.unwrap();
                    store.append(claim.fence(), vec![event(1, b"a"), event(2, b"b")]).await.unwrap();
                    let ended = store.finish(claim.fence(), &end(State::Succeeded, b"")).await.unwrap();
                    finished += usize::from(ended);
                }
                if store.is_shared() {
                    store.recover().await.unwrap();
                }
                store.prune().await.unwrap();
            }
            finished
        })
    });
    let mut finished = 0;
    for task in gateways.collect::<Vec<_>>() {
        finished += task.await.unwrap();
    }
    for claim in claim(store, 4 * EACH).await {
        finished += usize::from(store.finish(claim.fence(), &end(State::Succeeded, b"")).await.unwrap());
    }
    assert_eq!(finished, 4 * EACH);
}
