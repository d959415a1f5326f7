//! Logs to stderr, and exports traces by OTLP if an endpoint is set.

use opentelemetry::trace::{SpanId, TraceId, TracerProvider as _};
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, Sampler, SdkTracerProvider};
use tokio::runtime::Runtime;
use tracing_subscriber::filter::{EnvFilter, FilterFn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::exit::Failure;
use crate::settings::{LogFormat, Problem, Problems, Settings, names};

mod json;
mod left_out;
mod lines;
mod plain;

use json::Escaped;
use left_out::Reports;
use lines::Writer;
use plain::Plain;

/// The target of the spans that are exported. Spans of libraries have other targets.
const SPANS: &str = "otel";

/// What the process has to shut down at its end.
pub(crate) struct Telemetry {
    exporter: Option<(SdkTracerProvider, Runtime)>,
    /// Dropped before the log, so that its last lines are written.
    _left_out: Reports,
    /// Dropped last, so that it writes every line.
    _log: Writer,
}

/// Sets up logs and traces for the process. `role` becomes part of the service name in traces.
pub(crate) fn start(settings: &Settings, role: &str) -> Result<Telemetry, Failure> {
    let exporter = settings.otlp_endpoint.as_deref().map(|endpoint| exporter(settings, endpoint, role)).transpose()?;
    let (lines, log) = lines::start().map_err(Failure::system("starting the log"))?;
    let (filter, logs) = (log_filter(settings)?, logs(settings.log_format, move || lines.clone()));
    match &exporter {
        // A global filter, so that disabled spans are never created.
        None => tracing_subscriber::registry().with(logs).with(filter).init(),
        Some((provider, _)) => {
            let only_ours = FilterFn::new(|metadata| metadata.is_span() && metadata.target() == SPANS);
            let traces = tracing_opentelemetry::layer().with_tracer(provider.tracer("openskill"));
            tracing_subscriber::registry().with(logs.with_filter(filter)).with(traces.with_filter(only_ours)).init();
        }
    }
    let left_out = left_out::start(settings.log_refusals).map_err(Failure::system("starting the log"))?;
    Ok(Telemetry { exporter, _left_out: left_out, _log: log })
}

/// The filter of log lines.
fn log_filter(settings: &Settings) -> Result<EnvFilter, Failure> {
    let directives = if settings.debug && settings.log == "info" { "debug,h2=info,hyper=info" } else { &settings.log };
    // The MCP library logs what servers write, unbounded and with any secrets in it.
    let directives = format!("rmcp=off,{directives},{SPANS}=off");
    EnvFilter::try_new(directives).map_err(|error| {
        let (name, origin) = (names::LOG.to_owned(), "settings".to_owned());
        Problems(vec![Problem { name, origin, reason: error.to_string() }]).into()
    })
}

fn logs<W>(format: LogFormat, writer: W) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let logs = fmt::layer().with_writer(writer);
    match format {
        LogFormat::Text => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            logs.with_ansi(false).event_format(Plain { colours }).boxed()
        }
        LogFormat::Json => logs.json().flatten_event(true).map_event_format(Escaped).boxed(),
    }
}

fn exporter(settings: &Settings, endpoint: &str, role: &str) -> Result<(SdkTracerProvider, Runtime), Failure> {
    // Exporting has its own thread, apart from those that serve.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("telemetry")
        .enable_all()
        .build()
        .map_err(Failure::system("starting telemetry"))?;
    let guard = runtime.enter();
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
    let exporter = exporter.map_err(|error| {
        Problems(vec![Problem {
            name: names::OTLP_ENDPOINT.to_owned(),
            origin: "settings".to_owned(),
            reason: error.to_string(),
        }])
    })?;
    drop(guard);
    let service = format!("{}-{role}", settings.service_name);
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_id_generator(CallerIds::default())
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sample_ratio))))
        .with_resource(Resource::builder().with_service_name(service).build())
        .build();
    Ok((provider, runtime))
}

impl Telemetry {
    /// Exports the remaining spans.
    pub(crate) fn finish(self) {
        if let Some((provider, runtime)) = self.exporter {
            // An unreachable collector must not delay the exit.
            let _ = provider.shutdown_with_timeout(std::time::Duration::from_secs(2));
            runtime.shutdown_background();
        }
    }
}

/// Generates ids, except for a call's root span: that gets the trace id of the caller's `X-Trace-Id`.
#[derive(Debug, Default)]
struct CallerIds {
    random: RandomIdGenerator,
}

impl IdGenerator for CallerIds {
    fn new_trace_id(&self) -> TraceId {
        match openskill_trace::requested_trace_id() {
            Some(id) => TraceId::from_bytes(id),
            None => self.random.new_trace_id(),
        }
    }

    fn new_span_id(&self) -> SpanId {
        self.random.new_span_id()
    }
}

#[cfg(test)]
mod tests;
