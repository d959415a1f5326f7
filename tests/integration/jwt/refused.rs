//! Tokens that do not count.

use openskill_tests::system::Setup;
use openskill_tests::tokens::{Signer, claims, hs256, jwks, seconds, unsigned};
use serde_json::{Value, json};

use super::{Issuers, get, status};

#[tokio::test]
async fn what_is_not_signed_for_this_gateway_now_is_refused_and_the_log_says_why() {
    let (signer, ec, stranger) = (Signer::rsa("a"), Signer::p256("b"), Signer::p256("b"));
    let keys = jwks(&[&signer, &ec]);
    let issuers = Issuers::with_keys(&keys);
    let system = issuers.up().with("OPENSKILL_LOG_REFUSALS", 0).start().await;
    let good = claims(&json!({}));
    assert_eq!(status(&system, &signer.token(&good)).await, 200);
    let but = |more: Value| signer.token(&claims(&more));
    let header = |header: Value| signer.token_with(&header, &good);
    let public = &keys["keys"][0];
    let modulus = public["n"].as_str().unwrap().as_bytes();
    let whole = signer.token(&good);
    let cases = [
        ("expired", but(json!({"exp": seconds(-1)})), "expired token"),
        ("without an end", but(json!({"exp": null})), "expired token"),
        ("not valid yet", but(json!({"nbf": seconds(60)})), "not valid yet"),
        ("from the future", but(json!({"iat": seconds(60)})), "not valid yet"),
        ("for others", but(json!({"aud": "billing"})), "another audience"),
        ("for other others", but(json!({"aud": ["billing", "mail"]})), "another audience"),
        ("for nobody", but(json!({"aud": null})), "another audience"),
        ("of another issuer", but(json!({"iss": "https://evil.example"})), "unknown issuer"),
        ("of no issuer", but(json!({"iss": null})), "unknown issuer"),
        ("without a subject", but(json!({"sub": null})), "usable subject"),
        ("with an odd subject", but(json!({"sub": "a\nb"})), "usable subject"),
        ("that no rule allows", but(json!({"groups": ["others"]})), "no rule allows"),
        ("alg none", unsigned(&good), "not allowed"),
        ("HS256 with the public key's JSON", hs256("a", public.to_string().as_bytes(), &good), "not allowed"),
        ("HS256 with the public modulus", hs256("a", modulus, &good), "not allowed"),
        ("signed by a stranger with a known key id", stranger.token(&good), "wrong signature"),
        ("with another algorithm of the key", header(json!({"alg": "PS256", "kid": "a"})), "not allowed"),
        ("with the id of a key of another kind", header(json!({"alg": "RS256", "kid": "b"})), "unknown key"),
        ("with a key inside", header(json!({"alg": "RS256", "kid": "x", "jwk": public})), "unknown key"),
        ("with an unknown extension", header(json!({"alg": "RS256", "kid": "a", "crit": ["x"]})), "malformed"),
        ("a token for logging out", header(json!({"alg": "RS256", "kid": "a", "typ": "logout+jwt"})), "malformed"),
        ("cut", whole[..whole.len() - 10].to_owned(), "wrong signature"),
        ("no token", "a.b.c".to_owned(), "malformed"),
        ("too long", signer.token(&claims(&json!({"pad": "x".repeat(9000)}))), "malformed"),
    ];
    for (what, token, reason) in cases {
        let answer = get(&system, &token, "/skills/in_echo").await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "UNAUTHENTICATED"), "{what}");
        system.process.log.line(&["unauthenticated", reason]).await;
        assert!(!system.process.log.text().contains(&token), "{what}: the token is in the log");
    }
    // Claims of another token under a good signature.
    let forged = signer.token(&claims(&json!({"sub": "eve", "groups": ["operators"]})));
    let parts: Vec<_> = whole.split('.').collect();
    let claims = forged.split('.').nth(1).unwrap();
    assert_eq!(status(&system, &format!("{}.{claims}.{}", parts[0], parts[2])).await, 401);
    assert_eq!(status(&system, &whole).await, 200, "the good one still counts");
}

#[tokio::test]
async fn without_a_file_of_issuers_no_token_counts_and_a_bad_file_is_named() {
    let signer = Signer::p256("a");
    let issuers = Issuers::with_keys(&jwks(&[&signer]));
    let (path, jwt) = (issuers.0.path().join("keys.toml"), issuers.0.path().join("jwt.toml"));
    std::fs::copy(&jwt, &path).unwrap();
    std::fs::write(&path, "[principals.a]\n").unwrap();
    let system = Setup::up().with("OPENSKILL_KEYS", path.display()).start().await;
    assert_eq!(status(&system, &signer.token(&claims(&json!({})))).await, 401);
    for (keys, word) in [
        ("jwks = 'keys.json'\nalgorithms = ['HS256']", "HS256"),
        ("jwks = 'keys.json'\nalgorithms = ['none']", "none"),
        ("jwks = 'http://keys.example'", "https URL"),
    ] {
        issuers.write(keys, super::RULES);
        let mut process = issuers.up().spawn();
        assert_eq!(process.ended().await.code(), Some(4), "{keys}");
        process.log.line(&["OPENSKILL_JWT", word]).await;
    }
}
