//! Keys of issuers that change, in a file and at a server.

use std::sync::{Arc, Mutex};

use openskill_tests::backend::{Backend, Reply};
use openskill_tests::system::PATIENCE;
use openskill_tests::tls::{AUTHORITY, Front, path};
use openskill_tests::tokens::{Signer, claims, jwks};
use openskill_tests::wait::until;
use serde_json::{Value, json};

use super::{Issuers, RULES, status};

#[tokio::test]
async fn a_rotated_file_of_keys_is_taken_and_the_old_key_no_longer_counts() {
    let (old, new) = (Signer::p256("old"), Signer::p256("new"));
    let issuers = Issuers::with_keys(&jwks(&[&old]));
    let system = issuers.up().start().await;
    let (of_old, of_new) = (old.token(&claims(&json!({}))), new.token(&claims(&json!({}))));
    assert_eq!((status(&system, &of_old).await, status(&system, &of_new).await), (200, 401));
    issuers.write_keys(&jwks(&[&old, &new]));
    until("the new key counts", PATIENCE, || async { (status(&system, &of_new).await == 200).then_some(()) }).await;
    assert_eq!(status(&system, &of_old).await, 200);
    issuers.write_keys(&jwks(&[&new]));
    until("the old key is gone", PATIENCE, || async { (status(&system, &of_old).await == 401).then_some(()) }).await;
    assert_eq!(status(&system, &of_new).await, 200);
    // Not a document of keys: those that are known stay.
    issuers.write_keys(&json!({"error": "out of order"}));
    system.process.log.line(&["an issuer's keys cannot be read", "not a JSON Web Key Set"]).await;
    let another = new.token(&claims(&json!({"sub": "bob"})));
    assert_eq!((status(&system, &of_new).await, status(&system, &another).await), (200, 200));
    // A document without a usable key: none is valid, and neither is what they signed.
    for keys in [json!([]), json!([{"kty": "oct", "k": "c2VjcmV0", "kid": "new"}])] {
        issuers.write_keys(&json!({ "keys": keys }));
        until("no key is left", PATIENCE, || async { (status(&system, &of_new).await == 401).then_some(()) }).await;
        let never_seen = new.token(&claims(&json!({"sub": "eve"})));
        assert_eq!(status(&system, &never_seen).await, 401);
        issuers.write_keys(&jwks(&[&new]));
        until("the key is back", PATIENCE, || async { (status(&system, &of_new).await == 200).then_some(()) }).await;
    }
    system.process.log.line(&["ERROR", "none can verify signatures"]).await;
}

/// A server of keys that can be changed, and fail.
async fn server(keys: &Arc<Mutex<Option<Value>>>) -> (Backend, Front) {
    let keys = Arc::clone(keys);
    let backend = Backend::start(move |_| match &*keys.lock().unwrap() {
        Some(keys) => Reply::json(200, keys),
        None => Reply::new(503, "text/plain", "out of order"),
    })
    .await;
    let front = Front::of(backend.address).await;
    (backend, front)
}

#[tokio::test]
async fn keys_are_fetched_over_https_kept_in_an_outage_and_read_again_for_an_unknown_key() {
    let (old, new) = (Signer::rsa("old"), Signer::p256("new"));
    let keys = Arc::new(Mutex::new(Some(jwks(&[&old]))));
    let (backend, front) = server(&keys).await;
    let issuers = Issuers::with_keys(&json!({}));
    issuers.write(&format!("jwks = '{}/keys'\nca = '{}'", front.url(), path(AUTHORITY).display()), RULES);
    let system = issuers.up().start().await;
    let (of_old, of_new) = (old.token(&claims(&json!({}))), new.token(&claims(&json!({}))));
    assert_eq!(status(&system, &of_old).await, 200);
    // Signatures are verified once, and keys are fetched seldom.
    for _ in 0..20 {
        assert_eq!(status(&system, &of_old).await, 200);
        assert_eq!(status(&system, &of_new).await, 401, "its key is not known");
    }
    assert_eq!(backend.seen().len(), 1, "unknown keys cause no fetch so soon");
    *keys.lock().unwrap() = None;
    until("an unknown key asks again", PATIENCE, || async {
        let _ = status(&system, &of_new).await;
        (backend.seen().len() >= 2).then_some(())
    })
    .await;
    system.process.log.line(&["an issuer's keys cannot be read", "503"]).await;
    let another = old.token(&claims(&json!({"sub": "bob"})));
    assert_eq!(status(&system, &another).await, 200, "known keys stay in use");
    *keys.lock().unwrap() = Some(jwks(&[&new]));
    until("the rotated keys count", PATIENCE, || async { (status(&system, &of_new).await == 200).then_some(()) }).await;
    assert_eq!(status(&system, &of_old).await, 401, "the old key is gone, and what it signed");
}

#[tokio::test]
async fn a_server_of_keys_that_is_not_trusted_gives_no_keys() {
    let signer = Signer::p256("a");
    let keys = Arc::new(Mutex::new(Some(jwks(&[&signer]))));
    let (backend, front) = server(&keys).await;
    let issuers = Issuers::with_keys(&json!({}));
    let other = openskill_tests::certs::Certs::make();
    issuers.write(&format!("jwks = '{}/keys'\nca = '{}'", front.url(), other.file("ca.pem")), RULES);
    let system = issuers.up().start().await;
    system.process.log.line(&["an issuer's keys cannot be read"]).await;
    assert_eq!(status(&system, &signer.token(&claims(&json!({})))).await, 401);
    assert!(backend.seen().is_empty());
}
