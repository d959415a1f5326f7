//! Parses and validates the settings, and reports all problems at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use openskill_gateway::config::{CircuitRules, SessionRules, Sites, SkillRules, Source, SourceError};
use openskill_metrics::skills::MOST_SKILLS;

use super::access::{self, Access};
use super::agent::{self, AgentSettings};
use super::mcp::{self, McpSettings};
use super::names;
use super::otlp::destination::Destination;
use super::otlp::{self, Otlp};
use super::problem::{SettingProblems, mask};
use super::raw::RawSettings;
use super::reader::Reader;
use super::recorder::{self, RecorderSettings};
use super::sites;
use super::tls::{self, Tls};
#[cfg(feature = "worker")]
use super::worker::{self, WorkerSettings};

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
    pub(crate) listen: SocketAddr,
    /// `None`: the public address also serves AdminService.
    pub(crate) admin_listen: Option<SocketAddr>,
    pub(crate) access: Access,
    pub(crate) tls: Tls,
    /// `None`: only the gateway's own hosts and origins are allowed.
    pub(crate) sites: Option<Arc<Sites>>,
    pub(crate) mcp: McpSettings,
    /// `None`: the gateway's URL is the one in each request.
    pub(crate) public_url: Option<String>,
    pub(crate) workers: Vec<Source>,
    #[cfg(feature = "worker")]
    pub(crate) worker: WorkerSettings,
    pub(crate) worker_id: String,
    pub(crate) timeout: Duration,
    pub(crate) max_in_flight: usize,
    pub(crate) max_in_flight_of_skill: usize,
    pub(crate) adaptive_limit: bool,
    pub(crate) circuits: CircuitRules,
    pub(crate) idempotency_lifetime: Duration,
    pub(crate) max_connections: usize,
    pub(crate) max_connections_of_peer: usize,
    /// `None`: the command's own default.
    pub(crate) shards: Option<usize>,
    /// `None`: the command's own default.
    pub(crate) lame_duck: Option<Duration>,
    pub(crate) drain_timeout: Duration,
    pub(crate) refresh: Duration,
    pub(crate) debug: bool,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    /// The maximum number of log lines of one kind per second. 0 means no limit.
    pub(crate) log_refusals: u32,
    /// The maximum number of skills with their own metrics.
    pub(crate) measured_skills: usize,
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
        let (tls, workers) = (tls::read(&mut reader), reader.sources(names::WORKERS));
        let workers = tls::match_to_mesh(&mut reader, &tls, workers);
        let settings = Self {
            base_url: reader.url(names::HTTP_BASE_URL),
            listen: reader.listen(names::LISTEN, "127.0.0.1:8000"),
            admin_listen: reader.address(names::ADMIN_LISTEN, "127.0.0.1:8001"),
            access: access::read(&mut reader),
            sites: sites::read(&mut reader),
            tls,
            mcp: mcp::read(&mut reader),
            public_url: reader.optional_url(names::PUBLIC_URL),
            workers,
            #[cfg(feature = "worker")]
            worker: worker::read(&mut reader),
            worker_id: reader.worker_id(),
            timeout: reader.millis(names::TIMEOUT_MS, 1, 3_600_000),
            max_in_flight: reader.number(names::MAX_IN_FLIGHT, 1, 1_000_000),
            max_in_flight_of_skill: reader.number(names::MAX_IN_FLIGHT_PER_SKILL, 1, 1_000_000),
            adaptive_limit: reader.flag(names::ADAPTIVE_LIMIT),
            circuits: reader.circuits(),
            idempotency_lifetime: reader.seconds(names::IDEMPOTENCY_LIFETIME, 1, 86_400),
            max_connections: reader.number(names::MAX_CONNECTIONS, 1, 1_000_000),
            max_connections_of_peer: reader.number(names::MAX_CONNECTIONS_PER_PEER, 1, 1_000_000),
            shards: reader.optional(names::SHARDS, 1, 256),
            lame_duck: reader.optional(names::LAME_DUCK_MS, 0, 3_600_000).map(|it| Duration::from_millis(it as u64)),
            drain_timeout: reader.millis(names::DRAIN_TIMEOUT_MS, 0, 3_600_000),
            refresh: reader.millis(names::REFRESH_MS, 10, 3_600_000),
            debug: reader.flag(names::DEBUG),
            log: raw.value(names::LOG).to_owned(),
            log_format: reader.one_of(names::LOG_FORMAT, &[("text", LogFormat::Text), ("json", LogFormat::Json)]),
            log_refusals: reader.number(names::LOG_REFUSALS, 0, 1_000_000) as u32,
            measured_skills: reader.number(names::METRICS_SKILLS, 0, MOST_SKILLS),
            recorder: recorder::read(&mut reader),
            agent: agent::read(&mut reader),
            agent_listen: reader.listen(names::AGENT_LISTEN, "127.0.0.1:8010"),
            otlp: otlp::resolve(&mut reader),
            metrics: otlp::metrics(&mut reader),
            metrics_interval: reader.millis(names::METRIC_INTERVAL, 100, 3_600_000),
            service_name: raw.value(names::SERVICE_NAME).to_owned(),
        };
        if reader.problems.is_empty() { Ok(settings) } else { Err(SettingProblems(reader.problems)) }
    }
}

impl Reader<'_> {
    fn circuits(&mut self) -> CircuitRules {
        let failure_rate = self.ratio(names::SKILL_FAILURE_RATE);
        if failure_rate == 0.0 {
            self.problem(
                names::SKILL_FAILURE_RATE,
                "0 would open circuit breakers at once; set OPENSKILL_CIRCUIT_MINIMUM_CALLS=0 to disable them"
                    .to_owned(),
            );
        }
        CircuitRules {
            session: SessionRules {
                threshold: self.number(names::FAILURE_THRESHOLD, 0, 1_000_000) as u32,
                recovery: self.seconds(names::RECOVERY_TIMEOUT, 1, 86_400),
            },
            skill: SkillRules {
                failure_rate,
                minimum_calls: self.number(names::SKILL_MINIMUM_CALLS, 0, 1_000_000) as u32,
                window: self.seconds(names::SKILL_WINDOW, 1, 86_400),
                recovery: self.seconds(names::SKILL_RECOVERY, 1, 86_400),
            },
        }
    }

    fn url(&mut self, name: &str) -> String {
        let value = self.raw.value(name).trim_end_matches('/').to_owned();
        let valid = value
            .parse::<tonic::transport::Uri>()
            .is_ok_and(|it| matches!(it.scheme_str(), Some("http" | "https")) && it.host().is_some());
        if !valid {
            self.problem(name, format!("'{}' is not an http:// or https:// URL", mask(&value)));
        }
        value
    }

    /// Parses an optional URL.
    fn optional_url(&mut self, name: &str) -> Option<String> {
        (!self.raw.value(name).is_empty()).then(|| self.url(name))
    }

    fn sources(&mut self, name: &str) -> Vec<Source> {
        let mut sources = Vec::new();
        for text in self.raw.value(name).split(',').map(str::trim).filter(|text| !text.is_empty()) {
            match text.parse() {
                Ok(source) => sources.push(source),
                Err(_) => self.problem(name, SourceError(mask(text)).to_string()),
            }
        }
        sources
    }

    fn worker_id(&mut self) -> String {
        let value = self.raw.value(names::WORKER_ID);
        if value.is_empty() {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            return format!("{host}-{}", std::process::id());
        }
        if value.len() > 128 || !value.chars().all(|it| it.is_ascii_graphic()) {
            self.problem(names::WORKER_ID, "must be at most 128 visible ASCII characters".to_owned());
        }
        value.to_owned()
    }

    fn listen(&mut self, name: &str, example: &str) -> SocketAddr {
        self.parse(name, &format!("HOST:PORT with a numeric host, such as {example}"))
            .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn resolve(values: &[(&'static str, &str)]) -> Result<Settings, SettingProblems> {
        let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Settings::resolve(&RawSettings::read(&flags, |_| None, Path::new("/nonexistent")))
    }

    #[test]
    fn the_defaults_are_valid() {
        let settings = resolve(&[]).unwrap();
        assert!(settings.listen.ip().is_loopback());
        assert_eq!(settings.timeout, Duration::from_secs(15));
        assert!(settings.otlp.is_none() && settings.metrics.is_none());
        assert_eq!(settings.admin_listen, None);
    }

    #[test]
    fn every_problem_is_reported_at_once_with_its_source() {
        let problems = resolve(&[
            (names::LISTEN, "localhost"),
            (names::WORKERS, "http://a:1, ftp://b"),
            (names::TIMEOUT_MS, "0"),
            (names::DEBUG, "maybe"),
            (names::SAMPLER_ARG, "2"),
            (names::HTTP_BASE_URL, "ftp://x"),
            (names::DOCKER_HOST, "ssh://x"),
            (names::ADMIN_LISTEN, "admin:1"),
        ])
        .unwrap_err();
        let text = problems.to_string();
        assert_eq!(problems.0.len(), 8, "{text}");
        assert!(text.contains("OPENSKILL_WORKERS (flag): 'ftp://b'"), "{text}");
    }
}
