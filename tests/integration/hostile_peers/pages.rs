//! Responses that are no calls: clients that do not read them, and clients that have them already.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use openskill_tests::folder::Folder;
use openskill_tests::rest::{self, Answer};
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::wait::until;
use serde_json::json;
use tokio::net::TcpStream;

const BUNDLE: &str = "/docs/swagger-ui-bundle.js";

/// How many of 256 places a principal gets while it is alone: four fifths.
const SHARE: usize = 205;

/// Requests a path so many times, without room for a byte of a body.
async fn unread(system: &System, path: &str, count: usize) -> Vec<Response<Incoming>> {
    let io = TokioIo::new(TcpStream::connect(system.address).await.unwrap());
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder.initial_stream_window_size(0).handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut responses = Vec::new();
    for _ in 0..count {
        let uri = format!("http://{}{path}", system.address);
        responses.push(sender.send_request(Request::get(uri).body(Full::<Bytes>::default()).unwrap()).await.unwrap());
    }
    responses
}

#[tokio::test]
async fn pages_that_nobody_reads_are_bounded_and_block_nothing_else() {
    let system = Setup::up().start().await;
    let responses = unread(&system, BUNDLE, 230).await;
    let refused = responses.iter().filter(|it| it.status() == 503).count();
    assert_eq!((refused, responses.iter().filter(|it| it.status() == 200).count()), (230 - SHARE, SHARE));
    let page = system.get("/docs/").await;
    assert_eq!((page.status, page.code().as_str(), page.header("retry-after")), (503, "OVERLOADED", "1"));
    for path in ["/skills", "/tools", "/metrics", "/healthz", "/readyz"] {
        assert_eq!(system.get(path).await.status, 200, "{path}");
    }
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
    drop(responses);
    until("pages are served again", PATIENCE, || async { (system.get(BUNDLE).await.status == 200).then_some(()) })
        .await;
}

#[tokio::test]
async fn an_unread_catalog_is_bounded_over_grpc_too() {
    let system = Setup::up().start().await;
    let responses = unread(&system, "/skills", SHARE).await;
    assert!(responses.iter().all(|it| it.status() == 200));
    let refused = system.skills().await.list_skills(openskill_proto::v1::ListSkillsRequest::default()).await;
    let status = refused.unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
    assert_eq!(system.get("/docs/").await.status, 200);
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
}

async fn get_unless(system: &System, path: &str, tag: &str) -> Answer {
    rest::send(system.address, http::Method::GET, path, &[("if-none-match", tag)], "").await
}

#[tokio::test]
async fn a_document_is_sent_again_only_when_it_has_changed() {
    let folder = Folder::new();
    folder.write("one.yaml", "id: one\ntype: inproc\nentry: echo\n");
    let system = Setup::with_skills(&[folder.path()]).start().await;
    system.has_skill("one").await;
    let bundle = system.get(BUNDLE).await;
    let again = get_unless(&system, BUNDLE, bundle.header("etag")).await;
    assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, bundle.header("etag")));
    assert_eq!(get_unless(&system, BUNDLE, "\"another\"").await.body, bundle.body);

    let document = system.get("/openapi.json").await;
    assert_eq!(document.header("cache-control"), "no-cache");
    assert_eq!(get_unless(&system, "/openapi.json", document.header("etag")).await.status, 304);
    folder.write("two.yaml", "id: two\ntype: inproc\nentry: echo\n");
    system.has_skill("two").await;
    let changed = get_unless(&system, "/openapi.json", document.header("etag")).await;
    assert_eq!(changed.status, 200);
    assert!(changed.json()["paths"]["/skills/two:invoke"].is_object());
}

#[tokio::test]
async fn browsers_may_neither_guess_a_type_nor_move_the_page() {
    let system = Setup::up().start().await;
    for path in ["/skills", "/tools", "/openapi.json", "/docs/", "/docs/nope", "/nope", "/metrics", "/healthz"] {
        assert_eq!(system.get(path).await.header("x-content-type-options"), "nosniff", "{path}");
    }
    for (headers, status) in [(&[][..], 200), (&[("origin", "http://evil.example")], 403)] {
        let answer = system.post("/skills/in_echo:invoke", headers, "{}").await;
        assert_eq!((answer.status, answer.header("x-content-type-options")), (status, "nosniff"));
    }
    let page = system.get("/docs/").await;
    let policy = page.header("content-security-policy");
    for part in ["default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"] {
        assert!(policy.split("; ").any(|it| it.trim() == part), "{part}: {policy}");
    }
}
