//! Logs to stderr, and exports traces over OTLP if an endpoint is set. Each writing thread redacts its output.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use openskill_redact::Redactor;
use openskill_telemetry::log::quota;
use openskill_telemetry::trace::Tracer;
use openskill_telemetry::trace::queue::Queue;
use opentelemetry::trace::TracerProvider as _;
use tracing_subscriber::filter::{EnvFilter, FilterFn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::background::BackgroundThread;
use crate::collector::Collector;
use crate::exit::Failure;
use crate::settings::{LogFormat, SettingProblem, SettingProblems, Settings};

mod embedded;
mod export;
mod lines;
mod masked;
mod panics;
mod plain;

use plain::{Escaped, Plain};

/// The target of exported spans. Spans of libraries have other targets.
const SPANS: &str = "otel";

/// The interval between reports of suppressed log lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The parts that shut down at the end of the process, in field order.
pub(crate) struct Telemetry {
    /// Traces calls. `None` if spans are not exported.
    pub(crate) tracer: Option<Tracer>,
    /// Dropped first, to export the remaining spans.
    _exporter: Option<BackgroundThread>,
    /// Dropped before the log, so that its last lines are written.
    _left_out: BackgroundThread,
    /// Dropped last, to write every line.
    _log: BackgroundThread,
}

/// Sets up logs and traces for the process. `role` becomes part of the service name in traces.
pub(crate) fn start(settings: &Settings, role: &str) -> Result<Telemetry, Failure> {
    let redactor = redactor(settings)?;
    let (exporter, queue, tracer) = match export(settings, role, &redactor)? {
        Some((exporter, queue, tracer)) => (Some(exporter), Some(queue), Some(tracer)),
        None => (None, None, None),
    };
    let (lines, log) = lines::start(redactor).map_err(Failure::system("starting the log"))?;
    let (filter, logs) = (log_filter(settings)?, logs(settings.log_format, move || lines.clone()));
    // Only workers run functions that create spans with `tracing`.
    match queue.filter(|_| role == "worker") {
        // A global filter, so that disabled spans are never created.
        None => tracing_subscriber::registry().with(logs).with(filter).init(),
        Some(queue) => {
            let only_ours = FilterFn::new(|metadata| metadata.is_span() && metadata.target() == SPANS);
            let traces = tracing_opentelemetry::layer().with_tracer(embedded::provider(&queue).tracer("openskill"));
            tracing_subscriber::registry().with(logs.with_filter(filter)).with(traces.with_filter(only_ours)).init();
        }
    }
    panics::log();
    if settings.recorder.redaction.is_none() {
        tracing::warn!(
            "TRACE_SANITIZE is false: logs, spans and recorded calls contain the secrets of callers and skills"
        );
    }
    let left_out = report_left_out(settings.log_refusals).map_err(Failure::system("starting the log"))?;
    Ok(Telemetry { tracer, _exporter: exporter, _left_out: left_out, _log: log })
}

/// Reports the number of suppressed log lines of each kind at intervals, and once at the end. `limit` is the maximum
/// number of lines of one kind logged per second. 0 means no limit.
fn report_left_out(limit: u32) -> std::io::Result<BackgroundThread> {
    quota::set_limit(limit);
    let (stop, stopped) = sync_channel::<()>(1);
    let work = move || {
        while stopped.recv_timeout(REPORT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            quota::report();
        }
        quota::report();
    };
    BackgroundThread::start("log-quota", move || drop(stop), work)
}

/// Creates the redactor of all log lines and spans.
pub(crate) fn redactor(settings: &Settings) -> Result<Redactor, Failure> {
    let Some(rules) = settings.recorder.redaction.clone() else { return Ok(Redactor::off()) };
    Redactor::new(rules).map_err(|error| problem("OPENSKILL_REDACT_RULES", &error))
}

/// Builds the filter for log lines.
fn log_filter(settings: &Settings) -> Result<EnvFilter, Failure> {
    let directives = if settings.debug && settings.log == "info" { "debug,h2=info,hyper=info" } else { &settings.log };
    // The MCP library logs servers' messages without limits and with their secrets.
    let directives = format!("rmcp=off,{directives},{SPANS}=off");
    EnvFilter::try_new(directives).map_err(|error| problem("OPENSKILL_LOG", &error))
}

fn problem(setting: &str, error: &dyn std::error::Error) -> Failure {
    SettingProblems::from(SettingProblem::new(setting, "settings", error.to_string())).into()
}

fn logs<W>(format: LogFormat, writer: W) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let logs = fmt::layer().with_writer(writer);
    match format {
        LogFormat::Text => {
            let colours = crate::terminal::has_colours(&std::io::stderr());
            logs.with_ansi(false).event_format(Plain { colours }).boxed()
        }
        LogFormat::Json => logs.json().flatten_event(true).map_event_format(Escaped).boxed(),
    }
}

/// Starts the export of spans if a collector is configured.
fn export(
    settings: &Settings,
    role: &str,
    redactor: &Redactor,
) -> Result<Option<(BackgroundThread, Arc<Queue>, Tracer)>, Failure> {
    let Some(otlp) = &settings.otlp else { return Ok(None) };
    let queue = Arc::new(Queue::new(otlp.queue, otlp.batch));
    let tracer = Tracer::new(otlp.sampler, otlp.slow, Arc::clone(&queue));
    let collector = Collector::new(&otlp.destination)?;
    let service = format!("{}-{role}", settings.service_name);
    let exporter = export::start(collector, service, &queue, otlp.delay, redactor.clone());
    let exporter = exporter.map_err(Failure::system("starting telemetry"))?;
    Ok(Some((exporter, queue, tracer)))
}

#[cfg(test)]
mod tests;
