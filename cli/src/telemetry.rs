//! Logs to stderr, and traces by OTLP if there is somewhere to send them.

use opentelemetry::trace::{SpanId, TraceId, TracerProvider as _};
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, Sampler, SdkTracerProvider};
use tokio::runtime::Runtime;
use tracing_subscriber::filter::{EnvFilter, FilterFn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::exit::Failure;
use crate::settings::{LogFormat, Problem, Problems, Settings, names};

mod lines;
mod plain;

use lines::{Lines, Writer};
use plain::Plain;

/// The target of the spans that are traces. All others are a library's own.
const SPANS: &str = "otel";

/// What has to be ended in order.
pub(crate) struct Telemetry {
    exporter: Option<(SdkTracerProvider, Runtime)>,
    /// Last, so that all is logged before it goes.
    _log: Writer,
}

/// Sets up the process's logs and traces. `role` is what the process is in traces.
pub(crate) fn start(settings: &Settings, role: &str) -> Result<Telemetry, Failure> {
    let exporter = settings.otlp_endpoint.as_deref().map(|endpoint| exporter(settings, endpoint, role)).transpose()?;
    let (lines, log) = lines::start().map_err(Failure::system("starting the log"))?;
    let (wanted, logs) = (wanted(settings)?, logs(settings.log_format, lines));
    match &exporter {
        // One filter before all: no span is made that nobody looks at.
        None => tracing_subscriber::registry().with(logs).with(wanted).init(),
        Some((provider, _)) => {
            let only_ours = FilterFn::new(|metadata| metadata.is_span() && metadata.target() == SPANS);
            let traces = tracing_opentelemetry::layer().with_tracer(provider.tracer("openskill"));
            tracing_subscriber::registry().with(logs.with_filter(wanted)).with(traces.with_filter(only_ours)).init();
        }
    }
    Ok(Telemetry { exporter, _log: log })
}

/// What is logged.
fn wanted(settings: &Settings) -> Result<EnvFilter, Failure> {
    let wanted = if settings.debug && settings.log == "info" { "debug,h2=info,hyper=info" } else { &settings.log };
    // The MCP library logs what servers write, as long as it is, with whatever secrets they send back.
    let directives = format!("rmcp=off,{wanted},{SPANS}=off");
    EnvFilter::try_new(directives).map_err(|error| {
        let (name, origin) = (names::LOG.to_owned(), "settings".to_owned());
        Problems(vec![Problem { name, origin, reason: error.to_string() }]).into()
    })
}

fn logs(format: LogFormat, lines: Lines) -> Box<dyn Layer<Registry> + Send + Sync> {
    let logs = fmt::layer().with_writer(move || lines.clone());
    match format {
        LogFormat::Text => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            logs.with_ansi(false).event_format(Plain { colours }).boxed()
        }
        LogFormat::Json => logs.json().flatten_event(true).boxed(),
    }
}

fn exporter(settings: &Settings, endpoint: &str, role: &str) -> Result<(SdkTracerProvider, Runtime), Failure> {
    // Sending has a thread of its own, away from the threads that serve.
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
        .with_id_generator(CallersIds::default())
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sample_ratio))))
        .with_resource(Resource::builder().with_service_name(service).build())
        .build();
    Ok((provider, runtime))
}

impl Telemetry {
    /// Sends what is left.
    pub(crate) fn finish(self) {
        if let Some((provider, runtime)) = self.exporter {
            // A collector that is away must not keep the process.
            let _ = provider.shutdown_with_timeout(std::time::Duration::from_secs(2));
            runtime.shutdown_background();
        }
    }
}

/// Gives a call's root span the trace id that the caller's `X-Trace-Id` names.
#[derive(Debug, Default)]
struct CallersIds {
    random: RandomIdGenerator,
}

impl IdGenerator for CallersIds {
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
