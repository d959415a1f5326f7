//! Collectors behind TLS, whose authority the system does not know.

use std::net::SocketAddr;

use openskill_tests::system::{PATIENCE, Setup};
use openskill_tests::tls::{self, AUTHORITY, CLIENT, CLIENT_KEY, Front};
use openskill_tests::wait::until_true;

use super::collector::Collector;
use super::{PARENT, parent, traced};

/// A collector that listens, and what keeps it listening.
struct Plain<T> {
    collector: Collector,
    address: SocketAddr,
    protocol: &'static str,
    _server: T,
}

async fn over_grpc() -> Plain<()> {
    let (collector, endpoint) = Collector::listen().await;
    let address = endpoint.strip_prefix("http://").unwrap().parse().unwrap();
    Plain { collector, address, protocol: "grpc", _server: () }
}

async fn over_http() -> Plain<openskill_tests::backend::Backend> {
    let (collector, server) = Collector::over_http().await;
    Plain { collector, address: server.address, protocol: "http/protobuf", _server: server }
}

fn trusting(front: &Front, protocol: &str) -> Setup {
    traced(Setup::up(), &front.url())
        .with("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        .with("OTEL_EXPORTER_OTLP_CERTIFICATE", tls::path(AUTHORITY).display())
}

/// A call's whole trace arrives.
async fn exports<T>(plain: &Plain<T>, setup: Setup) {
    let system = setup.start().await;
    system.post("/skills/in_echo:invoke", &[("traceparent", PARENT)], "{}").await;
    plain.collector.trace(parent().trace_id, 5).await.is_whole(&parent());
    assert!(!system.process.log.text().contains("spans were lost"));
}

#[tokio::test]
async fn spans_go_over_grpc_to_a_collector_with_an_authority_of_its_own() {
    let plain = over_grpc().await;
    let front = Front::of(plain.address).await;
    exports(&plain, trusting(&front, plain.protocol)).await;
}

#[tokio::test]
async fn spans_go_over_http_to_a_collector_with_an_authority_of_its_own() {
    let plain = over_http().await;
    let front = Front::of(plain.address).await;
    exports(&plain, trusting(&front, plain.protocol)).await;
}

#[tokio::test]
async fn a_collector_that_asks_who_calls_is_shown_a_certificate() {
    let plain = over_grpc().await;
    let front = Front::for_known_clients(plain.address).await;
    let known = trusting(&front, plain.protocol)
        .with("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", tls::path(CLIENT).display())
        .with("OTEL_EXPORTER_OTLP_CLIENT_KEY", tls::path(CLIENT_KEY).display());
    exports(&plain, known).await;
}

#[tokio::test]
async fn a_collector_that_nobody_vouches_for_gets_nothing_and_the_log_says_why() {
    let plain = over_grpc().await;
    let front = Front::of(plain.address).await;
    let setup = traced(Setup::up(), &front.url()).with("OPENSKILL_LOG", "info,openskill::traces=debug");
    let system = setup.start().await;
    system.post("/skills/in_echo:invoke", &[("traceparent", PARENT)], "{}").await;
    system.process.log.line(&["spans were lost", "dropped=0"]).await;
    until_true("the reason is logged", PATIENCE, || system.process.log.text().contains("UnknownIssuer")).await;
    assert_eq!(plain.collector.count(), 0);
}

#[tokio::test]
async fn a_file_without_certificates_is_refused_at_the_start() {
    let nothing = tls::path(CLIENT_KEY);
    let setup = traced(Setup::up(), "https://localhost:1").with("OTEL_EXPORTER_OTLP_CERTIFICATE", nothing.display());
    let mut process = setup.spawn();
    assert_eq!(process.ended().await.code(), Some(4));
    process.log.line(&["OTEL_EXPORTER_OTLP_CERTIFICATE", "contains no PEM certificates"]).await;
}
