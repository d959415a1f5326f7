//! What every engine must do with idempotency keys.

use crate::Store;
use crate::keys::{KeyFence, KeyName, KeyState, KeyUsage, NewKey};

const LEASE_MS: i64 = 60_000;
const KEEP_MS: i64 = 60_000;

/// A claim of a key by a gateway. The token names both.
fn new(key: &str, gateway: &str) -> NewKey {
    let [principal, session_id, skill_id] = ["A", "", "echo"].map(str::to_owned);
    let name = KeyName { principal, session_id, skill_id, key: key.to_owned() };
    let fence = KeyFence { name, token: format!("{key} {gateway}") };
    NewKey { fence, fingerprint: vec![1], gateway: gateway.to_owned(), expires_ms: i64::MAX }
}

async fn claim(store: &Store, new: &NewKey) -> KeyState {
    store.claim_key(new, LEASE_MS).await.unwrap()
}

pub(super) async fn one_of_many_claims_of_a_key_succeeds(store: &Store) {
    for key in ["a", "b", "c", "d", "e"] {
        let claims = (0..12).map(|number| {
            let store = store.clone();
            // A store that is not shared has one gateway.
            let new = NewKey { gateway: "gateway".to_owned(), ..new(key, &number.to_string()) };
            tokio::spawn(async move { claim(&store, &new).await })
        });
        let mut states = Vec::new();
        for task in claims.collect::<Vec<_>>() {
            states.push(task.await.unwrap());
        }
        let first = states.iter().filter(|it| **it == KeyState::Claimed).count();
        let waiting = states.iter().filter(|it| **it == KeyState::Running).count();
        assert_eq!((first, waiting), (1, 11), "{states:?}");
    }
}

pub(super) async fn a_key_answers_later_claims_as_it_ended(store: &Store) {
    let [first, second] = ["1", "2"].map(|token| {
        let new = new("k", "gateway");
        NewKey { fence: KeyFence { token: token.to_owned(), ..new.fence }, ..new }
    });
    assert_eq!(store.read_key(&first).await, Ok(None));
    assert_eq!(claim(store, &first).await, KeyState::Claimed);
    assert_eq!(store.read_key(&first).await, Ok(Some(KeyState::Claimed)), "a claim in doubt finds itself");
    assert_eq!(claim(store, &second).await, KeyState::Running);
    let other = NewKey { fingerprint: vec![2], ..second.clone() };
    assert_eq!(claim(store, &other).await, KeyState::Mismatch);

    // Another claim can neither end nor free it.
    store.end_key(&second.fence, Some(b"false"), KEEP_MS).await.unwrap();
    store.release_key(&second.fence).await.unwrap();
    assert_eq!(claim(store, &second).await, KeyState::Running);

    store.end_key(&first.fence, Some(b"\x00done"), KEEP_MS).await.unwrap();
    store.end_key(&first.fence, None, KEEP_MS).await.unwrap();
    store.release_key(&first.fence).await.unwrap();
    assert_eq!(claim(store, &second).await, KeyState::Ended(b"\x00done".to_vec()), "it ends once");
    assert_eq!(claim(store, &other).await, KeyState::Mismatch);
    assert_eq!(store.key_usage().await, Ok(KeyUsage { keys: 1, bytes: 5 }));

    for (change, principal, session, skill) in
        [("principal", "B", "", "echo"), ("session", "A", "s", "echo"), ("skill", "A", "", "x")]
    {
        let [principal, session_id, skill_id] = [principal, session, skill].map(str::to_owned);
        let name = KeyName { principal, session_id, skill_id, key: "k".to_owned() };
        let fence = KeyFence { name, token: change.to_owned() };
        let stranger = NewKey { fence, ..first.clone() };
        assert_eq!(claim(store, &stranger).await, KeyState::Claimed, "another {change}");
        store.release_key(&stranger.fence).await.unwrap();
    }
    assert_eq!(store.key_usage().await.unwrap().keys, 1, "what was released is gone");
}

pub(super) async fn a_key_whose_gateway_is_gone_is_unknown_and_not_free(store: &Store) {
    let [first, second] = ["first", "second"].map(|gateway| new("k", gateway));
    assert_eq!(claim(store, &first).await, KeyState::Claimed);
    let seen = if store.is_shared() { KeyState::Running } else { KeyState::Unknown };
    assert_eq!(claim(store, &second).await, seen);
    assert_eq!(store.renew_keys("second", LEASE_MS).await, Ok(Vec::new()));
    // As if its lease had ended.
    assert_eq!(store.renew_keys("first", -1).await, Ok(vec![first.fence.clone()]));
    assert_eq!(claim(store, &second).await, KeyState::Unknown);
    assert_eq!(store.renew_keys("first", LEASE_MS).await.unwrap().len(), 1);
    assert_eq!(claim(store, &second).await, seen);
    // It was only slow.
    store.end_key(&first.fence, Some(b"late"), KEEP_MS).await.unwrap();
    assert_eq!(claim(store, &second).await, KeyState::Ended(b"late".to_vec()));
    assert_eq!(store.renew_keys("first", LEASE_MS).await, Ok(Vec::new()));

    let lost = new("lost", "first");
    assert_eq!(claim(store, &lost).await, KeyState::Claimed);
    store.end_key(&lost.fence, None, KEEP_MS).await.unwrap();
    assert_eq!(claim(store, &new("lost", "second")).await, KeyState::Unknown, "its outcome was not kept");
}

pub(super) async fn a_key_is_free_after_its_time(store: &Store) {
    for number in 0..101 {
        let ended = new(&number.to_string(), "gateway");
        assert_eq!(claim(store, &ended).await, KeyState::Claimed);
        store.end_key(&ended.fence, Some(b"done"), -1).await.unwrap();
    }
    let [kept, running] = ["kept", "running"].map(|key| new(key, "gateway"));
    for kept in [&kept, &running] {
        assert_eq!(claim(store, kept).await, KeyState::Claimed);
    }
    store.end_key(&kept.fence, Some(b"kept"), KEEP_MS).await.unwrap();

    let old = new("0", "gateway");
    assert_eq!(store.read_key(&old).await, Ok(None), "it has expired");
    let again =
        NewKey { fence: KeyFence { token: "again".to_owned(), ..old.fence.clone() }, fingerprint: vec![2], ..old };
    assert_eq!(claim(store, &again).await, KeyState::Claimed);
    store.end_key(&old.fence, Some(b"old"), KEEP_MS).await.unwrap();
    assert_eq!(store.read_key(&again).await, Ok(Some(KeyState::Claimed)), "its new claim holds it");

    assert_eq!(store.prune_keys().await, Ok(100));
    assert_eq!(store.prune_keys().await, Ok(0));
    assert_eq!(store.key_usage().await, Ok(KeyUsage { keys: 3, bytes: 4 }));
}
