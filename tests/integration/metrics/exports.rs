//! Metrics by OTLP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use openskill_tests::system::{PATIENCE, Setup, request};
use openskill_tests::wait::until;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{metric::Data, number_data_point::Value};
use serde_json::json;
use tonic::{Request, Response, Status};

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
        for all in request.into_inner().resource_metrics {
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
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

impl Collector {
    async fn listen() -> (Self, String) {
        let collector = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let service = MetricsServiceServer::new(collector.clone());
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        (collector, address)
    }

    /// The values of a series, one of each process that has it.
    fn values(&self, service: &str, series: &str) -> Vec<f64> {
        let kept = self.0.lock().unwrap();
        kept.iter().filter(|((of, _, name), _)| of == service && name == series).map(|(_, value)| *value).collect()
    }
}

#[tokio::test]
async fn gateway_and_workers_send_what_they_measure() {
    let (collector, address) = Collector::listen().await;
    let system =
        Setup::up().with("OTEL_EXPORTER_OTLP_ENDPOINT", address).with("OTEL_METRIC_EXPORT_INTERVAL", 100).start().await;
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
