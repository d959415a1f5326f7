//! Renders a snapshot as text, in the format that the scraper accepts.

use std::fmt::Write as _;

use crate::metrics::instruments::{BUCKETS, Distribution, Exemplar};
use crate::metrics::metric::{Metric, MetricKind};
use crate::metrics::snapshot::{Series, Snapshot, Value};

/// The upper bounds of the buckets, as text.
const BOUNDS: [&str; BUCKETS] =
    ["0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "1.0", "5.0", "15.0", "60.0", "+Inf"];

/// A text format that scrapers accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0, which has exemplars.
    OpenMetrics,
}

impl Format {
    /// Chooses the format for an `Accept` header: OpenMetrics if the header accepts it by name, otherwise
    /// Prometheus.
    pub fn from_accept(accept: &str) -> Self {
        let names = |range: &str| {
            let mut parts = range.split(';').map(str::trim);
            let is_it = parts.next().is_some_and(|it| it.eq_ignore_ascii_case("application/openmetrics-text"));
            let is_refused = |it: &str| it.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0);
            is_it && !parts.any(is_refused)
        };
        if accept.split(',').any(names) { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Returns the `Content-Type` of the format.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Renders the response body of a scrape.
    pub fn encode(self, snapshot: &Snapshot) -> String {
        let mut text = Text { format: self, out: String::with_capacity(64 * snapshot.series() + 4096) };
        for family in snapshot.families() {
            text.head(family.metric);
            family.series.iter().for_each(|series| text.series(family.metric, series));
        }
        if self == Self::OpenMetrics {
            text.out.push_str("# EOF\n");
        }
        text.out
    }
}

struct Text {
    format: Format,
    out: String,
}

// Writing to a String cannot fail.
impl Text {
    fn head(&mut self, metric: &Metric) {
        let name = match self.format {
            Format::Prometheus => metric.name,
            Format::OpenMetrics => metric.family(),
        };
        let _ = writeln!(self.out, "# HELP {name} {}", escape(&metric.plain_help()));
        let _ = writeln!(self.out, "# TYPE {name} {}", metric.kind.word());
        if let (Format::OpenMetrics, Some(unit)) = (self.format, metric.unit()) {
            let _ = writeln!(self.out, "# UNIT {name} {unit}");
        }
    }

    fn series(&mut self, metric: &Metric, series: &Series) {
        let labels = labels(metric, series);
        match &series.value {
            Value::Count(count) => {
                self.name(metric.name, "", &labels, None);
                let _ = writeln!(self.out, " {count}");
            }
            Value::Number(number) => {
                self.name(metric.name, "", &labels, None);
                let _ = writeln!(self.out, " {}", Number(*number));
            }
            Value::Durations(durations) => self.histogram(metric, &labels, durations),
        }
    }

    fn histogram(&mut self, metric: &Metric, labels: &str, durations: &Distribution) {
        let mut total = 0;
        for (at, count) in durations.counts.iter().enumerate() {
            total += count;
            self.name(metric.name, "_bucket", labels, Some(BOUNDS[at]));
            let _ = write!(self.out, " {total}");
            if let (Format::OpenMetrics, Some(exemplar)) = (self.format, &durations.exemplars[at]) {
                self.exemplar(exemplar);
            }
            self.out.push('\n');
        }
        for (suffix, value) in [("_sum", durations.sum), ("_count", total as f64)] {
            self.name(metric.name, suffix, labels, None);
            let _ = writeln!(self.out, " {}", Number(value));
        }
    }

    /// Writes a series name with its labels. `le` is the upper bound of a bucket, or `None` for other series.
    fn name(&mut self, name: &str, suffix: &str, labels: &str, le: Option<&str>) {
        // Written piece by piece without formatting, because names make up most of a scrape.
        self.out.push_str(name);
        self.out.push_str(suffix);
        if labels.is_empty() && le.is_none() {
            return;
        }
        self.out.push('{');
        self.out.push_str(labels);
        if let Some(bound) = le {
            self.out.push_str(if labels.is_empty() { "le=\"" } else { ",le=\"" });
            self.out.push_str(bound);
            self.out.push('"');
        }
        self.out.push('}');
    }

    fn exemplar(&mut self, exemplar: &Exemplar) {
        let Exemplar { trace_id, value, unix_nanos } = exemplar;
        let (trace_id, millis) = (u128::from_be_bytes(*trace_id), unix_nanos / 1_000_000);
        let (value, seconds) = (Number(*value), millis / 1000);
        let _ = write!(self.out, " # {{trace_id=\"{trace_id:032x}\"}} {value} {seconds}.{:03}", millis % 1000);
    }
}

fn labels(metric: &Metric, series: &Series) -> String {
    debug_assert!(metric.kind != MetricKind::Histogram || !metric.labels.contains(&"le"));
    let mut text = String::new();
    for (name, value) in metric.labels.iter().zip(&series.labels) {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}=\"{}\"", escape(value).replace('"', "\\\""));
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

/// A number in the notation of both formats.
struct Number(f64);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            it if it == f64::INFINITY => f.write_str("+Inf"),
            it if it == f64::NEG_INFINITY => f.write_str("-Inf"),
            it => it.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::instruments::{Counter, Histogram};
    use crate::metrics::metric::ProcessKind;

    const CALLS: &Metric = &metric("calls_total", MetricKind::Counter, &["skill"]);
    const LIMIT: &Metric = &metric("limit", MetricKind::Gauge, &[]);
    const TIME: &Metric = &metric("time_seconds", MetricKind::Histogram, &["skill"]);

    const fn metric(name: &'static str, kind: MetricKind, labels: &'static [&'static str]) -> Metric {
        Metric { name, kind, labels, process: ProcessKind::Both, help: "What `it`\nsays" }
    }

    fn snapshot() -> Snapshot {
        let (mut snapshot, counter, histogram) = (Snapshot::default(), Counter::default(), Histogram::default());
        counter.add(7);
        histogram.observe_traced(Duration::from_millis(2), &[0xab; 16]);
        snapshot.count(CALLS, &["a\"\\\n"], &counter);
        snapshot.number(LIMIT, &[], f64::INFINITY);
        snapshot.durations(TIME, &["b"], &histogram);
        snapshot
    }

    #[test]
    fn prometheus_text_names_counters_as_they_are_sampled() {
        let text = Format::Prometheus.encode(&snapshot());
        for line in [
            "# HELP calls_total What it\\nsays\n",
            "# TYPE calls_total counter\n",
            "calls_total{skill=\"a\\\"\\\\\\n\"} 7\n",
            "# TYPE limit gauge\nlimit +Inf\n",
            "time_seconds_bucket{skill=\"b\",le=\"0.001\"} 0\n",
            "time_seconds_bucket{skill=\"b\",le=\"0.0025\"} 1\n",
            "time_seconds_bucket{skill=\"b\",le=\"60.0\"} 1\n",
            "time_seconds_bucket{skill=\"b\",le=\"+Inf\"} 1\n",
            "time_seconds_sum{skill=\"b\"} 0.002\n",
            "time_seconds_count{skill=\"b\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
        assert!(!text.contains("# UNIT") && !text.contains("# EOF") && !text.contains("trace_id"), "{text}");
    }

    #[test]
    fn open_metrics_has_units_exemplars_and_an_end() {
        let text = Format::OpenMetrics.encode(&snapshot());
        for line in [
            "# TYPE calls counter\n",
            "calls_total{skill=\"a\\\"\\\\\\n\"} 7\n",
            "# UNIT time_seconds seconds\n",
            " 1 # {trace_id=\"abababababababababababababababab\"} 0.002 ",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }

    #[test]
    fn the_bounds_as_text_are_the_bounds() {
        let text = crate::metrics::instruments::SECONDS.map(|bound| format!("{bound:?}"));
        assert_eq!(BOUNDS[..BUCKETS - 1], text);
    }

    #[test]
    fn the_scraper_chooses_the_format() {
        for (accept, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/plain;version=0.0.4", Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1",
                Format::OpenMetrics,
            ),
            ("application/openmetrics-text;q=0,text/plain", Format::Prometheus),
        ] {
            assert_eq!(Format::from_accept(accept), format, "{accept}");
        }
    }

    #[test]
    fn every_bucket_of_a_histogram_is_a_series() {
        assert_eq!(snapshot().series(), 1 + 1 + 15);
    }
}
