//! Requests to gRPC methods that are no gRPC.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use openskill_tests::rest;
use openskill_tests::system::{Setup, request};
use serde_json::json;
use tokio::net::TcpStream;

const METHODS: [&str; 5] = [
    "/openskill.v1.SkillService/Invoke",
    "/openskill.v1.SkillService/ListSkills",
    "/openskill.v1.AdminService/ListWorkers",
    "/grpc.health.v1.Health/Check",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
];

#[tokio::test]
async fn only_a_post_of_grpc_over_http2_is_a_grpc_call() {
    let system = Setup::up().start().await;
    let io = TokioIo::new(TcpStream::connect(system.address).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let empty = || Bytes::from_static(&[0; 5]);
    for path in METHODS {
        for (method, kind, status) in [
            (Method::GET, "application/grpc", 405),
            (Method::PUT, "application/grpc+proto", 405),
            (Method::POST, "text/plain", 415),
            (Method::POST, "application/json", 415),
            (Method::POST, "application/grpc-web+proto", 415),
            (Method::POST, "application/grpc+json", 415),
            (Method::POST, "application/grpc+proto", 200),
        ] {
            let uri = format!("http://{}{path}", system.address);
            let request = Request::builder().method(&method).uri(uri).header("content-type", kind);
            let answer = sender.send_request(request.body(Full::new(empty())).unwrap()).await.unwrap();
            assert_eq!(answer.status(), status, "{method} {path} with {kind}");
            let allowed = answer.headers().get("allow").map(|it| it.to_str().unwrap().to_owned());
            assert_eq!(allowed.as_deref(), (status == 405).then_some("POST"), "{method} {path}");
        }
        let kind = [("content-type", "application/grpc")];
        let answer = rest::send(system.address, Method::POST, path, &kind, empty()).await;
        assert_eq!(answer.status, 505, "{path}");
        assert!(String::from_utf8_lossy(&answer.body).contains("HTTP/2"), "{answer:?}");
    }
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
}
