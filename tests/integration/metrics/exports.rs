//! Metrics by OTLP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use openskill_tests::backend::{Backend, Reply};
use openskill_tests::system::{PATIENCE, Setup, request};
use openskill_tests::tls::{self, AUTHORITY, Front};
use openskill_tests::wait::until;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{metric::Data, number_data_point::Value};
use prost::Message as _;
use serde_json::json;
use tonic::{Request, Response, Status};

use super::scraped::scrape_gateway;

/// A series: its service, the instance, and what the series is called.
type Key = (String, String, String);

/// A collector that keeps the last value of each series.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<BTreeMap<Key, f64>>>);

fn text(attribute: &KeyValue) -> String {
    match attribute.value.as_ref().and_then(|it| it.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        other => panic!("a text: {other:?}"),
    }
}

fn series(name: &str, attributes: &[KeyValue]) -> String {
    attributes.iter().fold(name.to_owned(), |all, it| format!("{all} {}={}", it.key, text(it)))
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.keep(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

impl Collector {
    async fn listen() -> (Self, SocketAddr) {
        let collector = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = MetricsServiceServer::new(collector.clone());
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        (collector, address)
    }

    /// Listens for HTTP.
    async fn over_http() -> (Self, Backend) {
        let collector = Self::default();
        let kept = collector.clone();
        let server = Backend::start(move |seen| {
            if seen.path() == "/v1/metrics" {
                kept.keep(ExportMetricsServiceRequest::decode(seen.body.clone()).unwrap());
            }
            Reply::new(200, "application/x-protobuf", "")
        });
        (collector, server.await)
    }

    fn keep(&self, request: ExportMetricsServiceRequest) {
        for all in request.resource_metrics {
            let resource = all.resource.unwrap().attributes;
            let of = |key: &str| text(resource.iter().find(|it| it.key == key).expect("it names its process"));
            let (service, instance) = (of("service.name"), of("service.instance.id"));
            for metric in all.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
                let points: Vec<_> = match metric.data.unwrap() {
                    Data::Sum(sum) => sum.data_points.into_iter().map(|it| (it.attributes, it.value)).collect(),
                    Data::Gauge(gauge) => gauge.data_points.into_iter().map(|it| (it.attributes, it.value)).collect(),
                    Data::Histogram(histogram) => {
                        let points = histogram.data_points.into_iter();
                        points.map(|it| (it.attributes, Some(Value::AsInt(it.count as i64)))).collect()
                    }
                    other => panic!("neither sum, gauge nor histogram: {other:?}"),
                };
                let mut kept = self.0.lock().unwrap();
                for (attributes, value) in points {
                    let value = match value.unwrap() {
                        Value::AsInt(number) => number as f64,
                        Value::AsDouble(number) => number,
                    };
                    kept.insert((service.clone(), instance.clone(), series(&metric.name, &attributes)), value);
                }
            }
        }
    }

    /// The values of a series, one of each process that has it.
    fn values(&self, service: &str, series: &str) -> Vec<f64> {
        let kept = self.0.lock().unwrap();
        kept.iter().filter(|((of, _, name), _)| of == service && name == series).map(|(_, value)| *value).collect()
    }
}

/// A call is counted at the collector, by the gateway and by a worker.
async fn sends_what_it_measures(collector: &Collector, setup: Setup) {
    let system = setup.with("OTEL_METRIC_EXPORT_INTERVAL", 100).start().await;
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
    until("the call is exported", PATIENCE, async || {
        let of_workers =
            collector.values("openskill-worker", "openskill_worker_skill_calls skill=in_echo runner=inproc");
        let of_gateway = collector.values("openskill-gateway", "openskill_calls code=OK");
        (of_gateway == [1.0] && of_workers.iter().sum::<f64>() == 1.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn metrics_go_over_http_with_the_headers_of_the_settings() {
    let (collector, server) = Collector::over_http().await;
    let setup = Setup::up()
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", server.url("/"))
        .with("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        .with("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "api-key=s%203cret");
    sends_what_it_measures(&collector, setup).await;
    let exported = server.seen().into_iter().find(|it| it.path() == "/v1/metrics").unwrap();
    assert_eq!((exported.header("api-key"), exported.header("content-type")), ("s 3cret", "application/x-protobuf"));
}

#[tokio::test]
async fn metrics_go_over_grpc_to_a_collector_with_an_authority_of_its_own() {
    let (collector, address) = Collector::listen().await;
    let front = Front::of(address).await;
    let setup = Setup::up()
        .with("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", front.url())
        .with("OTEL_EXPORTER_OTLP_CERTIFICATE", tls::path(AUTHORITY).display());
    sends_what_it_measures(&collector, setup).await;
}

#[tokio::test]
async fn metrics_that_a_collector_does_not_take_are_counted_and_said() {
    let partial = ExportMetricsPartialSuccess { rejected_data_points: 1, error_message: "s3cr3t".to_owned() };
    let answer = ExportMetricsServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    let server = Backend::start(move |_| Reply::new(200, "application/x-protobuf", answer.clone())).await;
    let setup = Setup::up()
        .with("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", server.url("/any"))
        .with("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf")
        .with("OTEL_METRIC_EXPORT_INTERVAL", 100);
    let system = setup.start().await;
    system.process.log.line(&["the metrics could not be exported", "the collector rejected 1 data points"]).await;
    let failed = scrape_gateway(&system).await.value("openskill_metric_exports_total{end=\"failed\"}");
    assert!(failed >= 1.0);
    assert_eq!(server.last().path(), "/any");
    assert!(!system.process.log.text().contains("s3cr3t"), "a collector's words are not for the log");
}

#[tokio::test]
async fn gateway_and_workers_send_what_they_measure() {
    let (collector, address) = Collector::listen().await;
    let endpoint = format!("http://{address}");
    let system = Setup::up()
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .with("OTEL_METRIC_EXPORT_INTERVAL", 100)
        .start()
        .await;
    for _ in 0..4 {
        assert!(system.invoke(request("in_echo", json!({}))).await.success);
    }
    until("all calls are exported", PATIENCE, async || {
        let of_gateway = |series: &str| collector.values("openskill-gateway", series) == [4.0];
        let of_workers = |series: &str| collector.values("openskill-worker", series).iter().sum::<f64>() == 4.0;
        let all = of_gateway("openskill_calls code=OK")
            && of_gateway("openskill_skill_call_duration_seconds skill=in_echo runner=inproc")
            && of_workers("openskill_worker_skill_calls skill=in_echo runner=inproc");
        all.then_some(())
    })
    .await;
    assert_eq!(collector.values("openskill-worker", "openskill_worker_calls_running").len(), 2, "one of each worker");
    assert_eq!(collector.values("openskill-gateway", "openskill_workers_up"), [2.0]);
}
