//! Every setting there is. The reference in `docs/configuration.md` is generated from this table.

/// A setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// The environment variable.
    pub(crate) name: &'static str,
    /// The value if nobody gives one. Empty means none.
    pub(crate) default: &'static str,
    /// Who reads it.
    pub(crate) readers: &'static str,
    /// What it does, for the reference.
    pub(crate) about: &'static str,
}

macro_rules! settings {
    ($($konst:ident $name:literal $default:literal $readers:literal $about:literal;)*) => {
        $(pub(crate) const $konst: &str = $name;)*

        /// All settings, in the order of the reference.
        pub(crate) const ALL: &[Setting] = &[
            $(Setting { name: $name, default: $default, readers: $readers, about: $about }),*
        ];
    };
}

settings! {
    HTTP_BASE_URL "OPENSKILL_HTTP_BASE_URL" "http://127.0.0.1:8000" "client"
        "The gateway that `invoke`, `skills` and `health` talk to.";
    LISTEN "OPENSKILL_LISTEN" "127.0.0.1:8000" "gateway, up"
        "Where the gateway listens, `HOST:PORT`. There is no password: keep it on loopback or a private network.";
    WORKERS "OPENSKILL_WORKERS" "http://127.0.0.1:9000" "gateway"
        "Where workers are, separated by commas: `http://host:port`, `unix:/path`, `unix:/folder/*.sock`, `dns://name:port` (every address of the name, looked up again and again).";
    WORKER_LISTEN "OPENSKILL_WORKER_LISTEN" "127.0.0.1:9000" "worker"
        "Where a worker listens: `HOST:PORT` or `unix:/path`.";
    WORKER_ID "OPENSKILL_WORKER_ID" "" "worker"
        "What a worker calls itself, in `meta.worker_id`. Default: host name and process id.";
    CLI_DIR "OPENSKILL_CLI_DIR" "./worker/skills" "worker, up, check, doctor"
        "Folders of manifests and scripts, separated by colons.";
    ALLOWED_ROOT "OPENSKILL_ALLOWED_ROOT" "./data" "worker, up, check, doctor"
        "The only folder skills may touch. Skills run in the folder that holds it, so that `data/docs` means the same to callers and skills.";
    TIMEOUT_MS "OPENSKILL_TIMEOUT_MS" "15000" "gateway, up, check"
        "The longest a call may take, unless its manifest says otherwise, in milliseconds.";
    MAX_IN_FLIGHT "OPENSKILL_MAX_IN_FLIGHT" "4096" "gateway, up"
        "Calls the gateway has at once. More are refused: `OVERLOADED`.";
    MAX_IN_FLIGHT_PER_SKILL "OPENSKILL_MAX_IN_FLIGHT_PER_SKILL" "2048" "gateway, up"
        "The same for each skill.";
    ADAPTIVE_LIMIT "OPENSKILL_ADAPTIVE_LIMIT" "1" "gateway, up"
        "`1`: workers get fewer calls when calls wait there for more than a second. `0`: only their own queues bound them.";
    FAILURE_THRESHOLD "CIRCUIT_FAILURE_THRESHOLD" "3" "gateway, up"
        "So many failures of a skill in a row open its circuit for the session. `0`: sessions have no circuits.";
    RECOVERY_TIMEOUT "CIRCUIT_RECOVERY_TIMEOUT" "300" "gateway, up"
        "How long a session's circuit is open before one call tries again, in seconds.";
    SKILL_FAILURE_RATE "OPENSKILL_CIRCUIT_FAILURE_RATE" "0.5" "gateway, up"
        "This share of failures within the window opens a skill's circuit for all callers, above 0 and up to 1.";
    SKILL_MINIMUM_CALLS "OPENSKILL_CIRCUIT_MINIMUM_CALLS" "20" "gateway, up"
        "Fewer calls than this within the window open nothing. `0`: skills have no circuits for all callers.";
    SKILL_WINDOW "OPENSKILL_CIRCUIT_WINDOW_S" "30" "gateway, up"
        "The window, in seconds.";
    SKILL_RECOVERY "OPENSKILL_CIRCUIT_SKILL_RECOVERY_S" "30" "gateway, up"
        "How long a skill's circuit is open before one call tries again, in seconds.";
    IDEMPOTENCY_LIFETIME "OPENSKILL_IDEMPOTENCY_LIFETIME_S" "600" "gateway, up"
        "How long an idempotency key is remembered after its call ended, in seconds.";
    MAX_CONNECTIONS "OPENSKILL_MAX_CONNECTIONS" "1024" "gateway, up"
        "Connections the gateway has at once. More wait.";
    WORKER_CONCURRENCY "OPENSKILL_WORKER_CONCURRENCY" "16" "worker, up"
        "Calls one worker runs at once.";
    WORKER_QUEUE "OPENSKILL_WORKER_QUEUE" "1024" "worker, up"
        "Calls that may wait in one worker. More are refused.";
    SHARDS "OPENSKILL_SHARDS" "" "gateway, worker, up"
        "Threads that serve, each with a runtime of its own. Default: one for each core; under `up`, one for each process.";
    DRAIN_TIMEOUT_MS "OPENSKILL_DRAIN_TIMEOUT_MS" "20000" "gateway, worker, up"
        "How long calls may take to finish after SIGTERM, in milliseconds.";
    REFRESH_MS "OPENSKILL_REFRESH_MS" "1000" "gateway, up"
        "How often worker names and folders are looked up again, in milliseconds.";
    RELOAD_MS "OPENSKILL_RELOAD_MS" "500" "worker, up"
        "How often skill folders are looked at for changes, in milliseconds.";
    IDLE_MS "OPENSKILL_IDLE_MS" "300000" "worker, up"
        "What a worker keeps warm for a skill (interpreters) goes when the skill has had no call for this long, in milliseconds.";
    PYTHON "OPENSKILL_PYTHON" "python3" "worker, up, check, doctor"
        "The interpreter of `cli:python` skills. Looked up once, at start.";
    SKILL_USER "OPENSKILL_SKILL_USER" "65534:65534" "worker, up, check, doctor"
        "The user that skills' processes have, `UID:GID` by number, where the worker is root. Another worker runs them under its own.";
    DOCKER_HOST "OPENSKILL_DOCKER_HOST" "unix:///var/run/docker.sock" "worker, up, check, doctor"
        "The container engine of `docker` skills: `unix:///path`, or `tcp://host:port` without TLS. Asked only if there are such skills.";
    DEBUG "OPENSKILL_DEBUG" "0" "all"
        "`1` logs more, and puts the stderr of failing skills into `error.details`. It may hold paths and secrets.";
    LOG "OPENSKILL_LOG" "info" "all"
        "What is logged: `error`, `warn`, `info`, `debug`, or directives such as `info,h2=warn`.";
    LOG_FORMAT "OPENSKILL_LOG_FORMAT" "text" "all"
        "`text` or `json`. Logs go to stderr.";
    OTLP_ENDPOINT "OTEL_EXPORTER_OTLP_ENDPOINT" "" "gateway, worker, up"
        "Where traces are sent by OTLP over gRPC, such as `http://127.0.0.1:4317`. Empty: nowhere.";
    OTLP_PROTOCOL "OTEL_EXPORTER_OTLP_PROTOCOL" "grpc" "gateway, worker, up"
        "Only `grpc`.";
    SERVICE_NAME "OTEL_SERVICE_NAME" "openskill" "gateway, worker, up"
        "The service's name in traces; `-gateway` or `-worker` is added.";
    SAMPLER_ARG "OTEL_TRACES_SAMPLER_ARG" "1.0" "gateway, worker, up"
        "The share of traces that are sent, 0 to 1, unless the caller has decided.";
}

/// The key of a setting in `openskill.toml`: `OPENSKILL_TIMEOUT_MS` is `timeout_ms`.
pub(crate) fn file_key(name: &str) -> String {
    name.strip_prefix("OPENSKILL_").unwrap_or(name).to_ascii_lowercase()
}
