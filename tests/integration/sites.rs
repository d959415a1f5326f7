//! Which hosts requests may name, and whose web pages may call the gateway.

use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_tests::rest;
use openskill_tests::system::{Setup, System, request};
use serde_json::json;
use tonic::transport::Endpoint;

/// The status and the message of a request that names this host.
async fn ask(system: &System, host: &str, headers: &[&str]) -> (u16, String) {
    let lines: String = headers.iter().map(|it| format!("{it}\r\n")).collect();
    let head = format!("GET /skills HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{lines}\r\n");
    let answer = rest::send_raw(system.address, head.as_bytes()).await;
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

/// A call over gRPC, as a proxy passes it on that keeps its own name.
async fn invoke_as(system: &System, host: &str) -> Result<(), tonic::Status> {
    let endpoint = Endpoint::from_shared(system.url()).unwrap().origin(format!("http://{host}").parse().unwrap());
    let mut client = SkillServiceClient::new(endpoint.connect().await.unwrap());
    client.invoke(request("in_echo", json!({}))).await.map(|_| ())
}

const HOST: &str = "skills.example.com";
const APP: &str = "origin: https://app.example.com";
const CROSS_SITE: &str = "sec-fetch-site: cross-site";

#[tokio::test]
async fn another_host_on_loopback_is_refused_with_the_setting_that_allows_it() {
    let system = Setup::up().start().await;
    for headers in [&[][..], &["origin: https://skills.example.com"]] {
        let (status, answer) = ask(&system, HOST, headers).await;
        assert_eq!(status, 403, "{answer}");
        assert!(answer.contains("PERMISSION_DENIED") && answer.contains("OPENSKILL_ALLOWED_HOSTS"), "{answer}");
    }
    let refused = invoke_as(&system, HOST).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused:?}");
    assert!(refused.message().contains("OPENSKILL_ALLOWED_HOSTS"), "{refused:?}");
    let (status, answer) = ask(&system, "localhost", &[APP]).await;
    assert!(status == 403 && answer.contains("OPENSKILL_ALLOWED_ORIGINS"), "{answer}");
}

#[tokio::test]
async fn an_allowed_host_is_served_to_programs_and_its_own_pages() {
    let system = Setup::up().with("OPENSKILL_ALLOWED_HOSTS", format!("other.example, {HOST}")).start().await;
    for (host, headers) in [
        (HOST, &[][..]),
        ("Skills.Example.com:443", &[]),
        (HOST, &["origin: https://skills.example.com", "sec-fetch-site: same-origin"]),
    ] {
        let (status, answer) = ask(&system, host, headers).await;
        assert_eq!(status, 200, "{host} {headers:?}: {answer}");
    }
    invoke_as(&system, HOST).await.unwrap();
    for (host, headers) in [
        ("evil.example", &[][..]),
        ("evil.example", &["origin: http://evil.example"]),
        ("skills.example.com.evil.example", &[]),
        (HOST, &["origin: http://evil.example"]),
        (HOST, &[CROSS_SITE]),
    ] {
        let (status, answer) = ask(&system, host, headers).await;
        assert_eq!(status, 403, "{host} {headers:?}: {answer}");
    }
}

#[tokio::test]
async fn pages_of_an_allowed_origin_may_call_and_read_the_answer() {
    let system = Setup::up().with("OPENSKILL_ALLOWED_ORIGINS", "https://app.example.com").start().await;
    let preflight = rest::send(
        system.address,
        http::Method::OPTIONS,
        "/skills/in_echo:invoke",
        &[
            ("origin", "https://app.example.com"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type"),
        ],
        "",
    )
    .await;
    assert_eq!(preflight.status, 200);
    assert_eq!(preflight.header("access-control-allow-headers"), "content-type");
    let headers =
        [("origin", "https://app.example.com"), ("sec-fetch-site", "cross-site"), ("content-type", "application/json")];
    let answer = system.post("/skills/in_echo:invoke", &headers, r#"{"input": {}}"#).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, "https://app.example.com"));
    for (host, headers) in [
        ("localhost", &["origin: https://evil.example"][..]),
        ("localhost", &["origin: http://app.example.com"]),
        ("localhost", &[CROSS_SITE]),
        ("evil.example", &[APP]),
    ] {
        let (status, answer) = ask(&system, host, headers).await;
        assert_eq!(status, 403, "{host} {headers:?}: {answer}");
    }
}
