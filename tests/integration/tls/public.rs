//! The gateway's addresses: both protocols, and who gets in.

use http::Method;
use openskill_proto::v1::ListWorkersRequest;
use openskill_proto::v1::admin_service_client::AdminServiceClient;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_tests::certs::Certs;
use openskill_tests::port::Port;
use openskill_tests::rest;
use openskill_tests::system::request;
use serde_json::json;

use super::up;

const CALL: &str = r#"{"input": {"n": 1}}"#;

#[tokio::test]
async fn grpc_and_rest_share_one_encrypted_port() {
    let certs = Certs::make();
    let system = up(&certs).start().await;
    let client = certs.client();
    let mut skills = SkillServiceClient::new(client.channel(system.address).await.unwrap());
    let called = skills.invoke(request("in_echo", json!({"n": 1}))).await.unwrap().into_inner();
    assert!(called.success, "{called:?}");
    let path = "/skills/in_echo:invoke";
    let answer = client.send(system.address, Method::POST, path, &[], CALL).await;
    assert_eq!((answer.status, &answer.json()["data"]["n"]), (200, &json!(1)));
    for (offered, chosen) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1", "h2"], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&[], None),
    ] {
        let stream = client.connect(system.address, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen.map(str::as_bytes), "{offered:?}");
    }
    system.process.log.line(&["the TLS certificate", "localhost", "valid until"]).await;
}

#[tokio::test]
async fn the_address_of_administrators_is_encrypted_too() {
    let (certs, port) = (Certs::make(), Port::reserve());
    let system = up(&certs).flag("--admin-listen", port.address()).start().await;
    let channel = certs.client().channel(port.address()).await.unwrap();
    let workers = AdminServiceClient::new(channel).list_workers(ListWorkersRequest {}).await.unwrap().into_inner();
    assert_eq!(workers.workers.len(), 2);
    assert!(certs.client().channel(system.address).await.is_ok());
}

#[tokio::test]
async fn a_client_in_plain_text_is_told_and_gets_nothing() {
    let certs = Certs::make();
    let system = up(&certs).start().await;
    let answer = rest::send(system.address, Method::GET, "/skills", &[], "").await;
    assert_eq!(answer.status, 400);
    assert!(String::from_utf8_lossy(&answer.body).contains("https"), "{answer:?}");
    let http2 = rest::send_raw(system.address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(!http2.contains("in_echo"), "{http2}");
    assert_eq!(rest::send_raw(system.address, &[0; 64]).await, "");
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_trusted() {
    let (certs, other) = (Certs::make(), Certs::make());
    let system = up(&certs).start().await;
    let refused = other.client().connect(system.address, &["h2"]).await.unwrap_err();
    assert!(refused.to_string().contains("UnknownIssuer"), "{refused}");
    let refused = certs.client().connect_to(system.address, "gateway.example", &["h2"]).await.unwrap_err();
    assert!(refused.to_string().contains("not valid for name"), "{refused}");
}

#[tokio::test]
async fn with_an_authority_for_clients_only_their_certificates_get_in() {
    let (certs, other) = (Certs::make(), Certs::make());
    let system = up(&certs).with("OPENSKILL_TLS_CLIENT_CA", certs.file("ca.pem")).spawn();
    system.output.line(&["openskill is ready"]).await;
    let line = system.output.text();
    let address = line.split("https://").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    let call = async |client: openskill_tests::certs::Client| {
        let channel = client.channel(address).await.map_err(|error| format!("{error:?}"))?;
        let call = SkillServiceClient::new(channel).invoke(request("in_echo", json!({}))).await;
        call.map(|it| it.into_inner().success).map_err(|error| format!("{error:?}"))
    };
    assert_eq!(call(certs.client_as(Some("client"))).await, Ok(true));
    // One that is for servers alone, and one of another authority; the server's is trusted in all cases.
    certs.replace("other.pem", &other.read("client.pem"));
    certs.replace("other.key", &other.read("client.key"));
    for name in [None, Some("worker"), Some("other")] {
        let refused = call(certs.client_as(name)).await;
        assert!(refused.is_err(), "{name:?}: {refused:?}");
    }
}
