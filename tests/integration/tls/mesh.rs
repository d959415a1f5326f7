//! Gateways and workers that authenticate each other.

use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::worker_service_client::WorkerServiceClient;
use openskill_proto::v1::{DescribeRequest, ExecuteRequest, WorkerStatus};
use openskill_tests::certs::{Certs, Client};
use openskill_tests::port::Port;
use openskill_tests::rest;
use openskill_tests::system::{PATIENCE, Process, Setup, System, request};
use openskill_tests::wait::until;
use serde_json::json;

/// What a process of the mesh knows: an authority, and a certificate of a directory.
fn member(setup: Setup, authority: &Certs, own: &Certs, name: &str) -> Setup {
    setup
        .with("OPENSKILL_MESH_CA", authority.file("ca.pem"))
        .with("OPENSKILL_MESH_CERT", own.file(&format!("{name}.pem")))
        .with("OPENSKILL_MESH_KEY", own.file(&format!("{name}.key")))
}

fn bare_worker(port: &Port) -> Setup {
    let skills = openskill_tests::fixtures().display().to_string();
    Setup::command(&["worker", "--listen", &port.address().to_string(), "--id", "one", "--skills-dir", &skills])
}

async fn worker(port: &Port, authority: &Certs, own: &Certs, name: &str) -> Process {
    let process = member(bare_worker(port), authority, own, name).spawn();
    process.log.line(&["worker ready"]).await;
    process
}

async fn gateway(workers: &str, certs: &Certs) -> System {
    let port = Port::reserve();
    let setup = Setup::command(&["gateway", "--listen", &port.address().to_string(), "--workers", workers]);
    let process = member(setup, certs, certs, "gateway").spawn();
    process.log.line(&["gateway listening"]).await;
    let system = System { address: port.address(), process };
    until("the gateway answers", PATIENCE, || async { tokio::net::TcpStream::connect(system.address).await.ok() })
        .await;
    system
}

async fn wait_for_worker(gateway: &System) {
    until("the worker is up", PATIENCE, || async {
        let workers = gateway.workers().await;
        workers.iter().any(|it| it.status() == WorkerStatus::Up).then_some(())
    })
    .await;
}

/// Waits until the gateway has said why it does not use its worker.
async fn reason(gateway: &System, part: &str) {
    let mut last = String::new();
    let what = format!("a reason with {part}");
    until(&what, PATIENCE, || {
        let gateway = &gateway;
        async move {
            let workers = gateway.workers().await;
            let worker = workers.first()?;
            assert_ne!(worker.status(), WorkerStatus::Up);
            worker.reason.contains(part).then(|| worker.reason.clone())
        }
    })
    .await
    .clone_into(&mut last);
    let refused = gateway.skills().await.invoke(request("in_echo", json!({}))).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{last}: {refused:?}");
}

#[tokio::test]
async fn a_worker_and_a_gateway_of_one_authority_find_each_other() {
    let (certs, port) = (Certs::make(), Port::reserve());
    let _worker = worker(&port, &certs, &certs, "worker").await;
    for source in [format!("https://{}", port.address()), format!("dns://localhost:{}", port.number())] {
        let gateway = gateway(&source, &certs).await;
        wait_for_worker(&gateway).await;
        assert!(gateway.invoke(request("in_echo", json!({}))).await.success);
        let endpoint = &gateway.workers().await[0].endpoint;
        assert!(endpoint.starts_with("https://"), "{endpoint}");
    }
}

#[tokio::test]
async fn a_worker_of_another_authority_or_another_name_is_not_used() {
    let (certs, other) = (Certs::make(), Certs::make());
    // It trusts the gateway.
    let port = Port::reserve();
    let _stranger = worker(&port, &certs, &other, "worker").await;
    reason(&gateway(&format!("https://{}", port.address()), &certs).await, "UnknownIssuer").await;
    // A gateway's certificate is for servers too, and has another name.
    let port = Port::reserve();
    let _misnamed = worker(&port, &certs, &certs, "gateway").await;
    reason(&gateway(&format!("https://{}", port.address()), &certs).await, "worker.openskill.internal").await;
    // One that speaks plain text.
    let port = Port::reserve();
    let plain = bare_worker(&port).spawn();
    plain.log.line(&["worker ready"]).await;
    reason(&gateway(&format!("https://{}", port.address()), &certs).await, "corrupt message").await;
}

#[tokio::test]
async fn a_gateway_of_another_authority_is_refused() {
    let (certs, other, port) = (Certs::make(), Certs::make(), Port::reserve());
    let worker = worker(&port, &certs, &certs, "worker").await;
    // It trusts the worker, and the worker does not trust it.
    other.trust(&certs);
    let stranger = gateway(&format!("https://{}", port.address()), &other).await;
    reason(&stranger, "alert").await;
    worker.log.line(&["refused", "not from a gateway of the mesh"]).await;
}

#[tokio::test]
async fn a_worker_of_a_mesh_is_probed_where_its_metrics_are_and_shows_when_its_certificate_ends() {
    let (certs, port, metrics) = (Certs::make(), Port::reserve(), Port::reserve());
    let setup = bare_worker(&port).flag("--metrics-listen", metrics.address());
    let worker = member(setup, &certs, &certs, "worker").spawn();
    worker.log.line(&["worker ready"]).await;
    let probe = |address: String| {
        let mut command = std::process::Command::new(openskill_tests::binary());
        command.args(["health", "--worker", &address]).env_clear().output().unwrap()
    };
    let ready = probe(metrics.address().to_string());
    assert!(ready.status.success() && ready.stdout == b"ready\n", "{ready:?}");
    for address in [port.address().to_string(), "127.0.0.1:1".to_owned(), "nonsense".to_owned()] {
        let failed = probe(address);
        let said = String::from_utf8_lossy(&failed.stderr);
        assert!(failed.status.code() == Some(3) && said.contains("the worker at"), "{failed:?}");
    }
    let scraped = rest::send(metrics.address(), http::Method::GET, "/metrics", &[], "").await;
    let text = String::from_utf8_lossy(&scraped.body).into_owned();
    assert!(text.contains("openskill_certificate_expiry_timestamp_seconds{certificate=\"mesh\"} "), "{text}");
}

/// Calls a worker as a gateway would.
async fn execute(client: Client, port: &Port) -> Result<(), String> {
    let name = "worker.openskill.internal";
    let channel = client.channel_to(port.address(), name).await.map_err(|error| format!("{error:?}"))?;
    let mut worker = WorkerServiceClient::new(channel);
    let described = worker.describe(DescribeRequest {}).await;
    let call = ExecuteRequest { skill_id: "in_echo".to_owned(), timeout_ms: 1000, ..ExecuteRequest::default() };
    let executed = worker.execute(call).await;
    described.map_err(|error| format!("{error:?}"))?;
    executed.map(drop).map_err(|error| format!("{error:?}"))
}

#[tokio::test]
async fn a_client_cannot_call_a_worker_past_the_gateway() {
    let (certs, other, port) = (Certs::make(), Certs::make(), Port::reserve());
    let _worker = worker(&port, &certs, &certs, "worker").await;
    let as_gateway = execute(certs.client_as(Some("gateway")), &port).await;
    assert!(as_gateway.is_ok(), "{as_gateway:?}");
    certs.replace("other.pem", &other.read("gateway.pem"));
    certs.replace("other.key", &other.read("gateway.key"));
    // No certificate; those of a client and of a worker, which lack the name; a gateway's of another authority.
    for name in [None, Some("client"), Some("worker"), Some("other")] {
        let refused = execute(certs.client_as(name), &port).await;
        assert!(refused.is_err(), "{name:?} may call the worker");
    }
    let plain = tonic::transport::Endpoint::from_shared(format!("http://{}", port.address())).unwrap();
    let plain = match plain.connect().await {
        Ok(channel) => WorkerServiceClient::new(channel).describe(DescribeRequest {}).await.is_err(),
        Err(_) => true,
    };
    assert!(plain, "it answers in plain text");
    assert!(!rest::send_raw(port.address(), b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.contains("HTTP/1.1 200"));
}

#[tokio::test]
async fn the_certificates_of_a_mesh_are_replaced_while_calls_run() {
    let (certs, next, port) = (Certs::make(), Certs::make(), Port::reserve());
    let worker = worker(&port, &certs, &certs, "worker").await;
    let gateway = gateway(&format!("https://{}", port.address()), &certs).await;
    wait_for_worker(&gateway).await;
    let mut skills: SkillServiceClient<_> = gateway.skills().await;
    let mut call = async || skills.invoke(request("in_echo", json!({}))).await.unwrap().into_inner().success;
    assert!(call().await);
    // Both trust both, then each gets another certificate.
    certs.trust(&next);
    for log in [&worker.log, &gateway.process.log] {
        log.line(&["for the mesh", "was reloaded"]).await;
    }
    for name in ["worker", "gateway"] {
        for kind in ["pem", "key"] {
            let name = format!("{name}.{kind}");
            certs.replace(&name, &next.read(&name));
            assert!(call().await);
        }
    }
    until("both were read again", PATIENCE, || {
        let count = |log: &str| log.matches("was reloaded").count();
        let are_read = count(&worker.log.text()) >= 2 && count(&gateway.process.log.text()) >= 2;
        std::future::ready(are_read.then_some(()))
    })
    .await;
    assert!(call().await);
    // A new connection, with the new certificates on both sides.
    let as_gateway = execute(certs.client_as(Some("gateway")), &port).await;
    assert!(as_gateway.is_ok(), "{as_gateway:?}");
}

#[tokio::test]
async fn a_worker_address_that_does_not_fit_is_refused_at_the_start() {
    let certs = Certs::make();
    let mut plain =
        member(Setup::command(&["gateway", "--workers", "http://127.0.0.1:1"]), &certs, &certs, "gateway").spawn();
    assert_eq!(plain.ended().await.code(), Some(4));
    plain.log.line(&["OPENSKILL_WORKERS", "https://"]).await;
    let mut bare = Setup::command(&["gateway", "--workers", "https://127.0.0.1:1"]).spawn();
    assert_eq!(bare.ended().await.code(), Some(4));
    bare.log.line(&["OPENSKILL_MESH_CA"]).await;
}
