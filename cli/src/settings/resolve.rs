//! Parses and validates the settings, and reports all problems at once.

use std::net::SocketAddr;
use std::time::Duration;

use openskill_gateway::config::{CircuitRules, SessionRules, SkillRules, Source, SourceError};
use openskill_telemetry::metrics::skills::MOST_SKILLS;

use super::access::{self, Access};
use super::agent::{self, AgentSettings};
use super::operations;
use super::otlp::{self, Destination, Otlp};
use super::problem::{SettingProblems, mask};
use super::raw::RawSettings;
use super::reader::Reader;
use super::recorder::{self, RecorderSettings};
use super::tls::{self, Tls};
#[cfg(feature = "worker")]
use super::worker::{self, WorkerSettings};

/// The time that load balancers have to notice that a gateway is about to shut down. With a drain timeout of 20 s,
/// both fit into the 30 s that Kubernetes allows.
const LAME_DUCK: Duration = Duration::from_secs(5);

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The validated settings of every command.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) base_url: String,
    /// Where clients reach AdminService and TraceService. See [`Settings::for_operators`].
    pub(crate) admin_url: String,
    pub(crate) listen: SocketAddr,
    /// `None`: the public address also serves AdminService.
    pub(crate) admin_listen: Option<SocketAddr>,
    pub(crate) access: Access,
    pub(crate) tls: Tls,
    /// The configuration of a gateway. Each command adds what is in files, and what is for its own addresses.
    pub(crate) gateway: openskill_gateway::Config,
    #[cfg(feature = "worker")]
    pub(crate) worker: WorkerSettings,
    pub(crate) worker_id: String,
    /// `None`: the command's own default.
    pub(crate) shards: Option<usize>,
    pub(crate) debug: bool,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    /// The maximum number of log lines of one kind per second. 0 means no limit.
    pub(crate) log_refusals: u32,
    pub(crate) recorder: RecorderSettings,
    pub(crate) agent: AgentSettings,
    pub(crate) agent_listen: SocketAddr,
    /// `None`: no spans are exported.
    pub(crate) otlp: Option<Otlp>,
    /// `None`: no metrics are exported.
    pub(crate) metrics: Option<Destination>,
    pub(crate) metrics_interval: Duration,
    pub(crate) service_name: String,
}

impl Settings {
    /// Validates all values.
    ///
    /// # Errors
    /// All problems with the settings.
    pub(crate) fn resolve(raw: &RawSettings) -> Result<Self, SettingProblems> {
        let mut reader = Reader::new(raw);
        let tls = tls::read(&mut reader);
        let gateway = reader.gateway(&tls);
        let base_url = reader.url("OPENSKILL_HTTP_BASE_URL");
        let settings = Self {
            admin_url: raw.own_url("OPENSKILL_ADMIN_LISTEN").unwrap_or_else(|| base_url.clone()),
            base_url,
            listen: reader.listen("OPENSKILL_LISTEN", "127.0.0.1:8000"),
            admin_listen: reader.address("OPENSKILL_ADMIN_LISTEN", "127.0.0.1:8001"),
            access: access::read(&mut reader),
            #[cfg(feature = "worker")]
            worker: worker::read(&mut reader, &gateway),
            gateway,
            tls,
            worker_id: reader.worker_id(),
            shards: reader.optional("OPENSKILL_SHARDS", 1, 256),
            debug: reader.flag("OPENSKILL_DEBUG"),
            log: raw.value("OPENSKILL_LOG").to_owned(),
            log_format: reader.one_of("OPENSKILL_LOG_FORMAT", &[("text", LogFormat::Text), ("json", LogFormat::Json)]),
            log_refusals: reader.number("OPENSKILL_LOG_REFUSALS", 0, 1_000_000) as u32,
            recorder: recorder::read(&mut reader),
            agent: agent::read(&mut reader),
            agent_listen: reader.listen("OPENSKILL_AGENT_LISTEN", "127.0.0.1:8010"),
            otlp: otlp::resolve(&mut reader),
            metrics: otlp::metrics(&mut reader),
            metrics_interval: reader.millis("OTEL_METRIC_EXPORT_INTERVAL", 100, 3_600_000),
            service_name: raw.value("OTEL_SERVICE_NAME").to_owned(),
        };
        if reader.problems.is_empty() { Ok(settings) } else { Err(SettingProblems(reader.problems)) }
    }

    /// Returns the settings of a client that calls AdminService or TraceService.
    pub(crate) fn for_operators(&self) -> Self {
        Self { base_url: self.admin_url.clone(), ..self.clone() }
    }
}

impl Reader<'_> {
    fn gateway(&mut self, tls: &Tls) -> openskill_gateway::Config {
        let workers = self.sources("OPENSKILL_WORKERS");
        let lame_duck = self.optional("OPENSKILL_LAME_DUCK_MS", 0, 3_600_000);
        openskill_gateway::Config {
            workers: tls::match_to_mesh(self, tls, workers),
            refresh_interval: self.millis("OPENSKILL_REFRESH_MS", 10, 3_600_000),
            default_timeout: self.millis("OPENSKILL_TIMEOUT_MS", 1, 3_600_000),
            max_in_flight: self.number("OPENSKILL_MAX_IN_FLIGHT", 1, 1_000_000),
            max_in_flight_of_skill: self.number("OPENSKILL_MAX_IN_FLIGHT_PER_SKILL", 1, 1_000_000),
            adaptive_limit: self.flag("OPENSKILL_ADAPTIVE_LIMIT"),
            circuits: self.circuits(),
            idempotency_lifetime: self.seconds("OPENSKILL_IDEMPOTENCY_LIFETIME_S", 1, 86_400),
            max_connections: self.number("OPENSKILL_MAX_CONNECTIONS", 1, 1_000_000),
            max_connections_of_peer: self.number("OPENSKILL_MAX_CONNECTIONS_PER_PEER", 1, 1_000_000),
            sites: access::sites(self),
            mcp_task_after: self.millis("OPENSKILL_MCP_TASK_AFTER_MS", 0, 86_400_000),
            operations: operations::read(self),
            traffic_file: self.store("OPENSKILL_TRAFFIC_FILE").path_or(None),
            mcp_resumable: self.seconds("OPENSKILL_MCP_RESUMABLE_S", 0, 3600),
            mcp_result_bytes: self.number("OPENSKILL_MCP_RESULT_BYTES", 1024, 64 * 1024 * 1024),
            public_url: self.raw.given("OPENSKILL_PUBLIC_URL").map(|_| self.url("OPENSKILL_PUBLIC_URL")),
            measured_skills: self.number("OPENSKILL_METRICS_SKILLS", 0, MOST_SKILLS),
            lame_duck: lame_duck.map_or(LAME_DUCK, |it| Duration::from_millis(it as u64)),
            drain_timeout: self.millis("OPENSKILL_DRAIN_TIMEOUT_MS", 0, 3_600_000),
            // Each command sets these.
            tls: None,
            mesh: None,
            identity: None,
            mcp_secret: None,
            mcp_views: None,
            recorder: None,
            agent: None,
            tracer: None,
        }
    }

    fn circuits(&mut self) -> CircuitRules {
        let failure_rate = self.ratio("OPENSKILL_CIRCUIT_FAILURE_RATE");
        if failure_rate == 0.0 {
            self.problem(
                "OPENSKILL_CIRCUIT_FAILURE_RATE",
                "0 would open circuit breakers at once; set OPENSKILL_CIRCUIT_MINIMUM_CALLS=0 to disable them",
            );
        }
        CircuitRules {
            session: SessionRules {
                threshold: self.number("CIRCUIT_FAILURE_THRESHOLD", 0, 1_000_000) as u32,
                recovery: self.seconds("CIRCUIT_RECOVERY_TIMEOUT", 1, 86_400),
            },
            skill: SkillRules {
                failure_rate,
                minimum_calls: self.number("OPENSKILL_CIRCUIT_MINIMUM_CALLS", 0, 1_000_000) as u32,
                window: self.seconds("OPENSKILL_CIRCUIT_WINDOW_S", 1, 86_400),
                recovery: self.seconds("OPENSKILL_CIRCUIT_SKILL_RECOVERY_S", 1, 86_400),
            },
        }
    }

    fn url(&mut self, name: &str) -> String {
        let value = self.raw.value(name).trim_end_matches('/').to_owned();
        self.check_url(name, &value);
        value
    }

    fn sources(&mut self, name: &str) -> Vec<Source> {
        let mut sources = Vec::new();
        for text in self.raw.list(name) {
            match text.parse() {
                Ok(source) => sources.push(source),
                Err(_) => self.problem(name, SourceError(mask(text)).to_string()),
            }
        }
        sources
    }

    fn listen(&mut self, name: &str, example: &str) -> SocketAddr {
        self.address(name, example).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(values: &[(&'static str, &str)]) -> Result<Settings, SettingProblems> {
        Settings::resolve(&RawSettings::for_test(values))
    }

    #[test]
    fn the_defaults_are_valid() {
        let settings = resolve(&[]).unwrap();
        assert!(settings.listen.ip().is_loopback());
        assert_eq!(settings.gateway.default_timeout, Duration::from_secs(15));
        assert!(settings.otlp.is_none() && settings.metrics.is_none());
        assert_eq!(settings.admin_listen, None);
        assert_eq!(settings.for_operators().base_url, settings.base_url);
        let settings = resolve(&[("OPENSKILL_ADMIN_LISTEN", "0.0.0.0:8001")]).unwrap();
        assert_eq!(settings.base_url, "http://127.0.0.1:8000");
        assert_eq!(settings.for_operators().base_url, "http://127.0.0.1:8001");
    }

    #[test]
    fn every_problem_is_reported_at_once_with_its_source() {
        let problems = resolve(&[
            ("OPENSKILL_LISTEN", "localhost"),
            ("OPENSKILL_WORKERS", "http://a:1, ftp://b"),
            ("OPENSKILL_TIMEOUT_MS", "0"),
            ("OPENSKILL_DEBUG", "maybe"),
            ("OTEL_TRACES_SAMPLER_ARG", "2"),
            ("OPENSKILL_HTTP_BASE_URL", "ftp://x"),
            ("OPENSKILL_DOCKER_HOST", "ssh://x"),
            ("OPENSKILL_ADMIN_LISTEN", "admin:1"),
        ])
        .unwrap_err();
        let text = problems.to_string();
        assert_eq!(problems.0.len(), 8, "{text}");
        assert!(text.contains("OPENSKILL_WORKERS (flag): 'ftp://b'"), "{text}");
    }
}
