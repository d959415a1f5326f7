//! Redirects: each hop must be allowed as if the manifest named it, and other origins get no credentials.

use super::*;

#[tokio::test]
async fn redirects_are_followed_up_to_the_manifests_limit() {
    let backend = Backend::start(|seen| match seen.path() {
        "/303" => Reply::redirect(303, "/there"),
        "/307" => Reply::redirect(307, "there"),
        "/loop" => Reply::redirect(302, "/loop"),
        _ => echo(seen),
    })
    .await;
    let skills = [
        ("see_other", "/303", "ALLOW"),
        ("temporary", "/307", "ALLOW"),
        ("loop", "/loop", "method: GET, ALLOW"),
        ("never", "/303", "redirects: 0, ALLOW"),
    ];
    let system = system(&backend, &skills).await;
    let result = data(&call(&system, "see_other", json!({"a": 1})).await);
    assert_eq!(result, json!({"method": "GET", "target": "/there", "body": ""}));
    let result = data(&call(&system, "temporary", json!({"a": 1})).await);
    assert_eq!(result["method"], "POST");
    assert_eq!(backend.last().json(), json!({"a": 1}));
    let before = backend.seen().len();
    assert_eq!(code(&call(&system, "loop", json!({})).await), "EXECUTION_ERROR");
    assert_eq!(backend.seen().len() - before, 6);
    assert_eq!(code(&call(&system, "never", json!({})).await), "EXECUTION_ERROR");
}

#[tokio::test]
async fn a_redirect_to_a_forbidden_address_is_refused() {
    let inner = Backend::start(echo).await;
    let inner_url = format!("http://127.0.0.1:{}/", inner.address.port());
    let named = format!("http://localhost:{}/", inner.address.port());
    let backend = Backend::start(move |seen| {
        let location = match seen.path() {
            "/loopback" => inner_url.as_str(),
            "/name" => named.as_str(),
            "/metadata" => "http://169.254.169.254/latest/meta-data/",
            "/odd" => "http://0xa9fea9fe/latest/",
            "/mapped" => "http://[::ffff:169.254.169.254]/",
            "/google" => "http://metadata.google.internal/",
            "/private" => "http://10.0.0.1/",
            _ => "file:///etc/passwd",
        };
        Reply::redirect(302, location)
    })
    .await;
    let system = system(&backend, &[("moved", "/{to}", "method: GET, ALLOW")]).await;
    for (to, word) in [
        ("loopback", "loopback"),
        ("name", "loopback"),
        ("metadata", "metadata"),
        ("odd", "metadata"),
        ("mapped", "metadata"),
        ("google", "metadata"),
        ("private", "private"),
        ("file", "file"),
    ] {
        refused(&call(&system, "moved", json!({"to": to})).await, word);
    }
    assert_eq!(inner.connections(), 0);
}

#[tokio::test]
async fn a_cross_origin_redirect_drops_credentials() {
    let other = Backend::start(echo).await;
    let elsewhere = other.url("/elsewhere");
    let backend = Backend::start(move |seen| match seen.path() {
        "/away" | "/away-307" => Reply::redirect(if seen.path() == "/away" { 302 } else { 307 }, &elsewhere),
        "/here" => Reply::redirect(302, "/end"),
        _ => echo(seen),
    })
    .await;
    let settings = format!(
        "method: GET, headers: {{Authorization: 'Bearer ${{TEST_TOKEN}}', Cookie: a=b, X-Key: '${{TEST_TOKEN}}'}}, \
         allow: ['127.0.0.1:PORT', '127.0.0.1:{}']",
        other.address.port()
    );
    let posting = settings.replace("method: GET, ", "");
    let system = system(&backend, &[("moved", "/{to}", &settings), ("posting", "/{to}", &posting)]).await;
    assert!(call(&system, "moved", json!({"to": "away"})).await.success);
    assert_eq!(other.last().path(), "/elsewhere");
    for name in ["authorization", "cookie", "x-key"] {
        assert!(!backend.last().header(name).is_empty(), "{name}");
        assert_eq!(other.last().header(name), "", "{name}");
    }
    assert!(call(&system, "moved", json!({"to": "here"})).await.success);
    assert_eq!(backend.last().header("authorization"), format!("Bearer {SECRET}"), "the origin is the same");
    // A request that changes something is not repeated elsewhere.
    refused(&call(&system, "posting", json!({"to": "away-307", "a": 1})).await, "another origin");
    assert_eq!(other.seen().len(), 1);
}
