//! Exports the metrics of this process over OTLP at intervals: the same series as `GET /metrics`.
//!
//! OpenTelemetry's SDK cannot export histograms that other code recorded, so this builds the messages. A separate
//! thread takes the snapshots and sends them. An unreachable collector delays only that thread.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use openskill_telemetry::metrics::instruments::{Distribution, Exemplar, SECONDS};
use openskill_telemetry::metrics::snapshot::{Family, Series, Value};
use openskill_telemetry::metrics::telemetry::TELEMETRY;
use openskill_telemetry::metrics::{Metric, MetricKind, Snapshot, process, source};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    self as otlp, AggregationTemporality, HistogramDataPoint, NumberDataPoint, ResourceMetrics, ScopeMetrics, exemplar,
    metric::Data, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use tokio_util::sync::CancellationToken;

use crate::background::BackgroundThread;
use crate::collector::{Collector, Rejection};
use crate::exit::Failure;
use crate::settings::Settings;

/// The maximum number of data points in one request. A data point takes at most about a kilobyte, and collectors
/// reject messages above 4 MiB.
const MAX_POINTS: usize = 2000;

/// Starts the export if the settings configure it. `role` becomes part of the service name. Dropping the thread stops
/// the export. Changes since the last export are not sent.
///
/// # Errors
/// The collector's certificates are unusable, or the system cannot start a thread.
pub(crate) fn start(settings: &Settings, role: &str) -> Result<Option<BackgroundThread>, Failure> {
    let Some(destination) = &settings.metrics else { return Ok(None) };
    let collector = Collector::new(destination)?;
    let sender = Sender { service: format!("{}-{role}", settings.service_name), instance: settings.worker_id.clone() };
    let (interval, stop) = (settings.metrics_interval, CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::system("starting the metrics export"))?;
    let stopped = stop.clone();
    let work = move || {
        let export = keep_exporting(&collector, &sender, interval);
        runtime.block_on(stopped.run_until_cancelled(export));
    };
    let thread = BackgroundThread::start("metrics-export", move || stop.cancel(), work);
    thread.map(Some).map_err(Failure::system("starting the metrics export"))
}

async fn keep_exporting(collector: &Collector, sender: &Sender, interval: Duration) {
    let mut ticks = tokio::time::interval_at((Instant::now() + interval).into(), interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        ticks.tick().await;
        let Some(snapshot) = source::snapshot() else { continue };
        let failure = export(collector, sender, &snapshot).await.err();
        TELEMETRY.metrics_exported(failure.is_none());
        // Only the first of consecutive failures is logged. The counter counts all of them.
        if let (false, Some(reason)) = (failing, &failure) {
            tracing::warn!(reason, "the metrics could not be exported");
        }
        failing = failure.is_some();
    }
}

/// Sends a snapshot. The error contains no text from the collector, so it may be logged at any level.
async fn export(collector: &Collector, sender: &Sender, snapshot: &Snapshot) -> Result<(), String> {
    for request in sender.requests(snapshot) {
        let rejected = collector.send(request).await.map_err(|error| {
            tracing::debug!(?error, "metrics export failed");
            error.to_string()
        })?;
        let Some(Rejection { count, reason }) = rejected else { continue };
        tracing::debug!(count, reason, "the collector's message about metrics");
        if count > 0 {
            return Err(format!("the collector rejected {count} data points"));
        }
    }
    Ok(())
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Identifies the process that sends metrics.
struct Sender {
    service: String,
    /// Distinguishes this process from others of the same service.
    instance: String,
}

/// The start of counting and the time of the snapshot, in nanoseconds since 1970.
#[derive(Clone, Copy)]
struct PointTimes {
    start: u64,
    now: u64,
}

impl Sender {
    /// Splits a snapshot into requests within the size limit of collectors.
    fn requests(&self, snapshot: &Snapshot) -> Vec<ExportMetricsServiceRequest> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let times =
            PointTimes { start: process::start_time().map_or(now, |seconds| (seconds * 1e9) as u64).min(now), now };
        let (mut requests, mut metrics, mut points) = (Vec::new(), Vec::new(), 0);
        for family in snapshot.families() {
            for part in family.series.chunks(MAX_POINTS) {
                if points + part.len() > MAX_POINTS {
                    requests.push(self.request(std::mem::take(&mut metrics)));
                    points = 0;
                }
                points += part.len();
                metrics.push(metric(family, part, times));
            }
        }
        requests.push(self.request(metrics));
        requests
    }

    fn request(&self, metrics: Vec<otlp::Metric>) -> ExportMetricsServiceRequest {
        let attributes = [
            ("service.name", self.service.as_str()),
            ("service.instance.id", &self.instance),
            ("service.version", VERSION),
        ];
        let resource = Resource {
            attributes: attributes.into_iter().map(|(key, value)| attribute(key, value)).collect(),
            ..Resource::default()
        };
        let scope = InstrumentationScope {
            name: "openskill".to_owned(),
            version: VERSION.to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, schema_url: String::new() }];
        let all = ResourceMetrics { resource: Some(resource), scope_metrics, schema_url: String::new() };
        ExportMetricsServiceRequest { resource_metrics: vec![all] }
    }
}

fn metric(family: &Family, series: &[Series], times: PointTimes) -> otlp::Metric {
    let metric = family.metric;
    let aggregation_temporality = AggregationTemporality::Cumulative.into();
    let numbers = || series.iter().filter_map(|it| number(metric, it, times)).collect();
    let data = match metric.kind {
        MetricKind::Counter => {
            Data::Sum(otlp::Sum { data_points: numbers(), aggregation_temporality, is_monotonic: true })
        }
        MetricKind::Gauge => Data::Gauge(otlp::Gauge { data_points: numbers() }),
        MetricKind::Histogram => {
            let data_points = series.iter().filter_map(|it| histogram(metric, it, times)).collect();
            Data::Histogram(otlp::Histogram { data_points, aggregation_temporality })
        }
    };
    let unit = match metric.unit() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "",
    };
    // Without `_total`, because collectors append it when they export to Prometheus.
    let (name, description) = (metric.family().to_owned(), metric.plain_help());
    otlp::Metric { name, description, unit: unit.to_owned(), metadata: Vec::new(), data: Some(data) }
}

fn number(metric: &Metric, series: &Series, PointTimes { start, now }: PointTimes) -> Option<NumberDataPoint> {
    let value = match series.value {
        Value::Count(count) => number_data_point::Value::AsInt(i64::try_from(count).unwrap_or(i64::MAX)),
        Value::Number(number) => number_data_point::Value::AsDouble(number),
        Value::Durations(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(metric, series),
        start_time_unix_nano: start,
        time_unix_nano: now,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn histogram(metric: &Metric, series: &Series, PointTimes { start, now }: PointTimes) -> Option<HistogramDataPoint> {
    let Value::Durations(durations) = &series.value else { return None };
    let Distribution { counts, sum, exemplars } = durations.as_ref();
    Some(HistogramDataPoint {
        attributes: attributes(metric, series),
        start_time_unix_nano: start,
        time_unix_nano: now,
        count: durations.count(),
        sum: Some(*sum),
        bucket_counts: counts.to_vec(),
        explicit_bounds: SECONDS.to_vec(),
        exemplars: exemplars.iter().flatten().map(exemplar).collect(),
        ..HistogramDataPoint::default()
    })
}

fn exemplar(kept: &Exemplar) -> otlp::Exemplar {
    otlp::Exemplar {
        time_unix_nano: kept.unix_nanos,
        trace_id: kept.trace_id.to_vec(),
        value: Some(exemplar::Value::AsDouble(kept.value)),
        ..otlp::Exemplar::default()
    }
}

fn attributes(metric: &Metric, series: &Series) -> Vec<KeyValue> {
    metric.labels.iter().zip(&series.labels).map(|(key, value)| attribute(key, value)).collect()
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

#[cfg(test)]
mod tests {
    use openskill_telemetry::metrics::{Counter, SkillMetrics, table};

    use super::*;

    fn sender() -> Sender {
        Sender { service: "openskill-gateway".to_owned(), instance: "here".to_owned() }
    }

    #[test]
    fn a_snapshot_keeps_its_values_labels_and_buckets() {
        let (mut snapshot, calls, skills) = (Snapshot::default(), Counter::default(), SkillMetrics::new(1));
        calls.add(7);
        snapshot.count(&table::CALLS, &["OK"], &calls);
        let skill = skills.get("a", "http");
        skill.durations.observe_traced(std::time::Duration::from_millis(2), &[9; 16]);
        snapshot.durations(&table::SKILL_DURATION, &skill.labels(), &skill.durations);
        let [request] = <[_; 1]>::try_from(sender().requests(&snapshot)).unwrap();
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let (Some(Data::Sum(sum)), Some(Data::Histogram(times))) = (&metrics[0].data, &metrics[1].data) else {
            panic!("a sum and a histogram: {metrics:?}")
        };
        assert_eq!(metrics[0].name, "openskill_calls");
        assert!(sum.is_monotonic && sum.aggregation_temporality == i32::from(AggregationTemporality::Cumulative));
        assert_eq!(sum.data_points[0].value, Some(number_data_point::Value::AsInt(7)));
        assert_eq!(sum.data_points[0].attributes, [attribute("code", "OK")]);
        let point = &times.data_points[0];
        assert_eq!((metrics[1].unit.as_str(), point.count, point.bucket_counts[1]), ("s", 1, 1));
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!(point.exemplars[0].trace_id, [9; 16]);
    }

    #[test]
    fn many_series_go_into_several_requests() {
        let (mut snapshot, counter) = (Snapshot::default(), Counter::default());
        for number in 0..2 * MAX_POINTS + 1 {
            snapshot.count(&table::CALLS, &[&number.to_string()], &counter);
        }
        let requests = sender().requests(&snapshot);
        let points = |request: &ExportMetricsServiceRequest| {
            let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
            metrics
                .iter()
                .map(|it| match &it.data {
                    Some(Data::Sum(sum)) => sum.data_points.len(),
                    _ => 0,
                })
                .sum::<usize>()
        };
        assert_eq!(requests.iter().map(points).collect::<Vec<_>>(), [MAX_POINTS, MAX_POINTS, 1]);
    }
}
