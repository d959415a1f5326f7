//! The table of all settings. The reference in `docs/configuration.md` is generated from it.

use std::sync::LazyLock;

pub(crate) use super::setting::{Setting, file_key, is_credential, settings};

mod agent;

pub(crate) use agent::*;

/// All settings, in the order of the reference.
pub(crate) static ALL: LazyLock<Vec<Setting>> = LazyLock::new(|| [PROGRAM_SETTINGS, agent::AGENT_SETTINGS].concat());

settings! { PROGRAM_SETTINGS
    HTTP_BASE_URL "OPENSKILL_HTTP_BASE_URL" "http://127.0.0.1:8000" "client, agent"
        "URL of the gateway, `http://` or `https://`, for `invoke`, `skills`, `health` and the other client commands.";
    LISTEN "OPENSKILL_LISTEN" "127.0.0.1:8000" "gateway, up"
        "Address that the gateway listens on, `HOST:PORT`. An address that other machines can reach needs `OPENSKILL_KEYS` or `OPENSKILL_JWT`, or `OPENSKILL_ANONYMOUS=allow`.";
    ADMIN_LISTEN "OPENSKILL_ADMIN_LISTEN" "" "gateway, up"
        "Separate address for `AdminService` and [recorded calls](recorder.md), `HOST:PORT`. If set, the public address does not serve them. Default: same as `OPENSKILL_LISTEN`.";
    KEYS "OPENSKILL_KEYS" "" "gateway, up, agent, keys"
        "File of principals, their policies and their API keys; see [identity](identity.md). Requests without a valid key are refused. Default: no key is required.";
    JWT "OPENSKILL_JWT" "" "gateway, up, agent"
        "File of issuers whose [tokens](identity.md#tokens) (JWT) are accepted, and of rules that map their claims to policies. Requests without a valid token or key are refused. Default: no tokens.";
    ANONYMOUS "OPENSKILL_ANONYMOUS" "loopback" "gateway, up, agent"
        "On which addresses callers need no key if neither `OPENSKILL_KEYS` nor `OPENSKILL_JWT` is set. `loopback`: only on loopback addresses; the server does not start on others. `allow`: everywhere. Set it only if a proxy in front of the server controls access.";
    TOKEN "OPENSKILL_TOKEN" "" "client, agent"
        "API key or token for the gateway. `openskill config` masks it.";
    TOKEN_FILE "OPENSKILL_TOKEN_FILE" "" "client, agent"
        "File with the API key or token for the gateway, instead of `OPENSKILL_TOKEN`. Only its owner and its group may read it.";
    ALLOWED_HOSTS "OPENSKILL_ALLOWED_HOSTS" "" "gateway, up, agent"
        "Host names that requests may use, besides IP addresses and `localhost`, separated by commas: `skills.example.com`, or with a port. A [proxy](proxies.md) on the same machine that passes the client's `Host` on needs it. Default: none, so that no web page can reach a gateway on loopback under its own name.";
    ALLOWED_ORIGINS "OPENSKILL_ALLOWED_ORIGINS" "" "gateway, up, agent"
        "Origins of web pages that may call the gateway, separated by commas, such as `https://app.example.com`. The gateway answers their CORS requests. Default: its own pages only.";
    TLS_CERT "OPENSKILL_TLS_CERT" "" "gateway, up, agent"
        "File with the certificate (PEM) of the server, followed by its issuers' certificates; see [TLS](tls.md). All its addresses then use TLS. Changes are read without a restart. Default: plain text.";
    TLS_KEY "OPENSKILL_TLS_KEY" "" "gateway, up, agent"
        "File with the private key (PEM) of that certificate.";
    TLS_CLIENT_CA "OPENSKILL_TLS_CLIENT_CA" "" "gateway, up, agent"
        "File with certificate authorities (PEM). Clients must present a certificate that one of them signed. Default: clients need no certificate.";
    MESH_CA "OPENSKILL_MESH_CA" "" "gateway, worker"
        "File with the authorities (PEM) of the [mesh](tls.md#between-gateways-and-workers): gateways and workers authenticate each other with certificates signed by these authorities. Needs `OPENSKILL_MESH_CERT` and `OPENSKILL_MESH_KEY`. Default: no TLS between gateways and workers.";
    MESH_CERT "OPENSKILL_MESH_CERT" "" "gateway, worker"
        "File with the certificate (PEM) of this gateway or worker in the mesh, followed by its issuers' certificates.";
    MESH_KEY "OPENSKILL_MESH_KEY" "" "gateway, worker"
        "File with the private key (PEM) of that certificate.";
    MESH_GATEWAY_NAME "OPENSKILL_MESH_GATEWAY_NAME" "gateway.openskill.internal" "worker"
        "DNS name that a gateway's certificate must contain for a worker to accept its calls.";
    MESH_WORKER_NAME "OPENSKILL_MESH_WORKER_NAME" "worker.openskill.internal" "gateway"
        "DNS name that a worker's certificate must contain for a gateway to use the worker, whatever its address.";
    CA "OPENSKILL_CA" "" "client, agent"
        "File with the authorities (PEM) that may sign the gateway's certificate. Default: the system's certificates.";
    CLIENT_CERT "OPENSKILL_CLIENT_CERT" "" "client, agent"
        "File with the client certificate (PEM) to present to the gateway, followed by its issuers' certificates. Needs `OPENSKILL_CLIENT_KEY`.";
    CLIENT_KEY "OPENSKILL_CLIENT_KEY" "" "client, agent"
        "File with the private key (PEM) of that certificate.";
    CONTEXT "OPENSKILL_CONTEXT" "" "client"
        "[Context](tls.md#contexts) of client commands. It overrides all gateway settings except flags. Default: the context chosen with `openskill context use`, unless `OPENSKILL_HTTP_BASE_URL` is set.";
    HEADERS "OPENSKILL_HEADERS" "" "client"
        "Headers for each request to the gateway, `name=value` separated by commas, values percent-encoded. `openskill config` masks the values.";
    MCP_KEY_FILE "OPENSKILL_MCP_KEY_FILE" "" "gateway, up"
        "File with the key that seals the sessions of [MCP](mcp.md) clients: at least 32 random bytes as text. Replicas with the same key serve each other's sessions. Only its owner and its group may read it. Default: a random key that is lost when the process ends.";
    MCP_TASK_AFTER "OPENSKILL_MCP_TASK_AFTER_MS" "5000" "gateway, up"
        "After how long a call becomes a [task](mcp.md#tasks), in milliseconds, if its MCP client supports tasks and its skill does not set another time.";
    MCP_TASK_LIFETIME "OPENSKILL_MCP_TASK_LIFETIME_S" "3600" "gateway, up"
        "How long a task of an MCP client is kept after it was created, in seconds.";
    MCP_TASKS "OPENSKILL_MCP_TASKS_FILE" "" "gateway, up"
        "File that tasks of MCP clients are kept in. One process at a time can use it. `memory`: they are lost when the process ends. Default: `memory`; with `up`, `$XDG_STATE_HOME/openskill/tasks.redb` or `~/.local/state/openskill/tasks.redb`, or `memory` if that cannot be opened.";
    MCP_VIEWS_FILE "OPENSKILL_MCP_VIEWS_FILE" "" "gateway, up"
        "TOML file with [views](mcp.md#views) for MCP clients, each at `/mcp/NAME`. Only its owner may write it. The gateway reads changes to it without a restart.";
    MCP_RESUMABLE "OPENSKILL_MCP_RESUMABLE_S" "60" "gateway, up"
        "How long a call in a session of an [MCP](mcp.md#resuming) client continues after its stream breaks, in seconds, at most 3600, and how long its stream is kept after its end. `0`: a closed stream ends its call.";
    MCP_RESULT_BYTES "OPENSKILL_MCP_RESULT_BYTES" "131072" "gateway, up"
        "How much text of a result an [MCP](mcp.md#long-results) client gets at once, in bytes. For a longer result, it gets the beginning and a link to the whole.";
    PUBLIC_URL "OPENSKILL_PUBLIC_URL" "" "gateway, up"
        "URL under which clients reach the gateway, such as `https://tools.example.com`, as the gateway gives it to [OAuth clients](mcp.md#authorization). Default: the host that their requests name.";
    WORKERS "OPENSKILL_WORKERS" "http://127.0.0.1:9000" "gateway"
        "Worker addresses, separated by commas: `http://host:port`, `https://host:port` (in a [mesh](tls.md#between-gateways-and-workers)), `unix:/path`, `unix:/folder/*.sock`, `dns://name:port` (resolved periodically to all addresses of the name).";
    WORKER_LISTEN "OPENSKILL_WORKER_LISTEN" "127.0.0.1:9000" "worker"
        "Address that a worker listens on, `HOST:PORT` or `unix:/path`.";
    WORKER_ID "OPENSKILL_WORKER_ID" "" "worker"
        "Id of a worker, as returned in `meta.worker_id`. Default: host name and process id.";
    WORKER_METRICS_LISTEN "OPENSKILL_WORKER_METRICS_LISTEN" "" "worker, up"
        "Address on which a worker serves `GET /metrics` and `GET /healthz`, `HOST:PORT`. With `up`, the first worker uses this port and the next workers use the next ports. There is no authentication, so use loopback or a private network. Default: a worker serves no metrics.";
    CLI_DIR "OPENSKILL_CLI_DIR" "./worker/skills" "worker, up, check, doctor"
        "Directories with manifests and scripts, separated by colons.";
    ALLOWED_ROOT "OPENSKILL_ALLOWED_ROOT" "./data" "worker, up, check, doctor"
        "Allowed root: the only directory that skills may read and write. Skills run in its parent directory, so `data/docs` is the same path for callers and skills.";
    TIMEOUT_MS "OPENSKILL_TIMEOUT_MS" "15000" "gateway, up, check"
        "Default timeout of a call, in milliseconds. A manifest's `timeout_ms` takes precedence.";
    MAX_IN_FLIGHT "OPENSKILL_MAX_IN_FLIGHT" "4096" "gateway, up"
        "Concurrency limit of the gateway. The gateway refuses further calls with `OVERLOADED`.";
    MAX_IN_FLIGHT_PER_SKILL "OPENSKILL_MAX_IN_FLIGHT_PER_SKILL" "2048" "gateway, up"
        "Concurrency limit of the gateway for each skill.";
    ADAPTIVE_LIMIT "OPENSKILL_ADAPTIVE_LIMIT" "1" "gateway, up"
        "`1`: the gateway lowers a worker's concurrency limit while calls wait in the worker's queue for more than a second. `0`: only the workers' own queues limit calls.";
    FAILURE_THRESHOLD "CIRCUIT_FAILURE_THRESHOLD" "3" "gateway, up"
        "Consecutive failures that open a skill's circuit breaker for a session. `0` disables these circuit breakers.";
    RECOVERY_TIMEOUT "CIRCUIT_RECOVERY_TIMEOUT" "300" "gateway, up"
        "Recovery timeout of a session's circuit breaker, in seconds: how long the circuit breaker stays open before a half-open probe.";
    SKILL_FAILURE_RATE "OPENSKILL_CIRCUIT_FAILURE_RATE" "0.5" "gateway, up"
        "Failure rate in the sliding window at which a skill's circuit breaker opens for all callers, above 0 and up to 1.";
    SKILL_MINIMUM_CALLS "OPENSKILL_CIRCUIT_MINIMUM_CALLS" "20" "gateway, up"
        "Minimum number of calls in the sliding window before a skill's circuit breaker for all callers can open. `0` disables this circuit breaker.";
    SKILL_WINDOW "OPENSKILL_CIRCUIT_WINDOW_S" "30" "gateway, up"
        "Length of the sliding window, in seconds.";
    SKILL_RECOVERY "OPENSKILL_CIRCUIT_SKILL_RECOVERY_S" "30" "gateway, up"
        "Recovery timeout of a skill's circuit breaker for all callers, in seconds.";
    IDEMPOTENCY_LIFETIME "OPENSKILL_IDEMPOTENCY_LIFETIME_S" "600" "gateway, up"
        "How long the gateway keeps an idempotency key after its call has ended, in seconds.";
    MAX_CONNECTIONS "OPENSKILL_MAX_CONNECTIONS" "1024" "gateway, up"
        "Maximum number of open connections to the gateway. A further connection replaces the one that has been idle longest, or waits while none is idle.";
    MAX_CONNECTIONS_PER_PEER "OPENSKILL_MAX_CONNECTIONS_PER_PEER" "256" "gateway, up"
        "Maximum number of open connections of one IPv4 address or IPv6 /64 network, except loopback. Further connections are closed unless one of the peer's own is idle. Raise it behind a proxy, which is one peer.";
    WORKER_CONCURRENCY "OPENSKILL_WORKER_CONCURRENCY" "16" "worker, up"
        "Maximum number of calls that a worker runs concurrently.";
    WORKER_RESERVE "OPENSKILL_WORKER_RESERVE" "" "worker, up"
        "Slots beyond the concurrency limit, reserved for short calls of callers that hold less than an even share. Default: a quarter of `OPENSKILL_WORKER_CONCURRENCY`, rounded down. `0`: none.";
    WORKER_QUEUE "OPENSKILL_WORKER_QUEUE" "1024" "worker, up"
        "Maximum number of calls that a worker queues. The worker rejects further calls.";
    SHARDS "OPENSKILL_SHARDS" "" "gateway, worker, up"
        "Number of serving threads in a process, each with its own runtime. Default: one per core; with `up`, one per process.";
    LAME_DUCK_MS "OPENSKILL_LAME_DUCK_MS" "" "gateway, up, agent"
        "How long the gateway still accepts connections and calls after SIGTERM, in milliseconds, while its health is `NOT_SERVING` and `/readyz` answers 503: the time that load balancers need to notice. Then it drains. Default: 5000; with `up`, 0.";
    DRAIN_TIMEOUT_MS "OPENSKILL_DRAIN_TIMEOUT_MS" "20000" "gateway, worker, up"
        "How long in-flight calls may take to finish after SIGTERM, in milliseconds. With `OPENSKILL_LAME_DUCK_MS` it must fit into the grace period of the container or pod.";
    REFRESH_MS "OPENSKILL_REFRESH_MS" "1000" "gateway, up"
        "How often the gateway resolves worker names and socket directories again, in milliseconds.";
    RELOAD_MS "OPENSKILL_RELOAD_MS" "500" "worker, up"
        "How often a worker checks the skill directories for changes, in milliseconds.";
    IDLE_MS "OPENSKILL_IDLE_MS" "300000" "worker, up"
        "How long a worker keeps idle warm interpreters, in milliseconds.";
    PYTHON "OPENSKILL_PYTHON" "python3" "worker, up, check, doctor"
        "Interpreter of `cli:python` skills. Resolved once, at startup.";
    PYTHON_ENVIRONMENTS "OPENSKILL_PYTHON_ENVIRONMENTS" "" "worker, up, check, doctor"
        "Directory of the [environments](runners/python-environments.md) of Python skills that have their own packages. Default: `/var/cache/openskill/python` for root, otherwise `$XDG_CACHE_HOME/openskill/python` or `~/.cache/openskill/python`.";
    PYTHON_INSTALLER "OPENSKILL_PYTHON_INSTALLER" "auto" "worker, up, check, doctor"
        "Package installer: `uv`, `pip`, or `auto`, which is `uv` if it is on `PATH` and otherwise the interpreter's pip.";
    PYTHON_INDEX_URL "OPENSKILL_PYTHON_INDEX_URL" "" "worker, up, check, doctor"
        "Package index, such as `https://pypi.example.com/simple`. `none`: packages come only from `OPENSKILL_PYTHON_FIND_LINKS`. Default: the installer's own configuration. `openskill config` masks credentials.";
    PYTHON_FIND_LINKS "OPENSKILL_PYTHON_FIND_LINKS" "" "worker, up, check, doctor"
        "Directory with wheels, or URL of a page that links to them, in addition to the package index.";
    PYTHON_BUILD_TIMEOUT "OPENSKILL_PYTHON_BUILD_TIMEOUT_S" "600" "worker, up, check"
        "Maximum time for building one environment, in seconds.";
    PYTHON_KEEP_DAYS "OPENSKILL_PYTHON_KEEP_DAYS" "30" "worker, up"
        "How long an environment is kept that no skill uses, in days. `0`: for ever.";
    SESSIONS "OPENSKILL_SESSIONS" "32" "worker, up"
        "Maximum number of [sessions](runners/sessions.md) that a worker keeps.";
    SESSIONS_PER_CALLER "OPENSKILL_SESSIONS_PER_CALLER" "8" "worker, up"
        "Maximum number of sessions of one caller. A further one replaces the caller's idle session that was used least recently.";
    SESSION_IDLE_S "OPENSKILL_SESSION_IDLE_S" "900" "worker, up"
        "How long a session is kept without a call, in seconds.";
    SESSION_AGE_S "OPENSKILL_SESSION_AGE_S" "14400" "worker, up"
        "How long a session is kept in total, in seconds. It ends between two calls.";
    SESSION_PACKAGES "OPENSKILL_SESSION_PACKAGES" "" "worker, up, check, doctor"
        "[Packages that calls may install in sessions](runners/session-packages.md): names with optional versions between spaces, such as `numpy pandas>=2,<3`. Unset: `microsandbox_install_package` is unavailable.";
    TOOL_INSTALL "OPENSKILL_TOOL_INSTALL" "ask" "worker, up, check"
        "Who installs [tools of the index](tool-index.md). `ask`: the operator; `search_and_install_tools` answers with candidates and the operator's command. `listed`: that skill installs them as well.";
    TOOL_INDEX "OPENSKILL_TOOL_INDEX" "" "worker, up, tools"
        "File with the MCP servers that can be installed. It must be outside the allowed root. Default: the index that ships, which is part of the program.";
    TOOLS_DIR "OPENSKILL_TOOLS_DIR" "./installed-tools" "worker, up, check, doctor, tools"
        "Directory of installed tools, which need not exist: a skill directory after those of `OPENSKILL_CLI_DIR`. It must be outside the allowed root, and only its owner may write to it.";
    SKILL_USER "OPENSKILL_SKILL_USER" "own" "worker, up, check, doctor"
        "User of skill processes if the worker runs as root: `own`, or a numeric `UID:GID`. `own` gives each run its own user where the kernel can map the files of the allowed root to it, otherwise 65534:65534. If the worker is not root, they run as its user.";
    LEAST_JAIL "OPENSKILL_LEAST_JAIL" "auto" "worker, up, check, doctor"
        "Minimum jail of every skill: `auto` requires nothing; `standard` and `strict` make a skill unavailable where the worker cannot provide that jail. A manifest that says `jail: off` is not affected.";
    DOCKER_HOST "OPENSKILL_DOCKER_HOST" "unix:///var/run/docker.sock" "worker, up, check, doctor"
        "Container engine for `docker` skills: `unix:///path`, or `tcp://host:port` without TLS. The worker contacts it only if there are such skills.";
    BROWSER "OPENSKILL_BROWSER" "" "worker, up, check, doctor"
        "Path of the Chromium program for the [browser tools](browser.md). Default: the system's Chromium.";
    BROWSER_ALLOW "OPENSKILL_BROWSER_ALLOW" "" "worker, up, check, doctor"
        "Hosts outside the public internet that browsers may load pages from, separated by commas: `host:port`, `address:port`, or a network such as `10.1.0.0/16`. A host or address without a port means the ports 80 and 443. Default: none.";
    BROWSER_SEARCH_URL "OPENSKILL_BROWSER_SEARCH_URL" "https://www.google.com/search?q={query}" "worker, up, check, doctor"
        "URL of the search that `browser_search_google` opens, with `{query}` in place of the search terms.";
    BROWSER_SESSIONS "OPENSKILL_BROWSER_SESSIONS" "8" "worker, up, check, doctor"
        "Maximum number of browsers of a worker. Each session has one.";
    BROWSER_SPARES "OPENSKILL_BROWSER_SPARES" "1" "worker, up, check, doctor"
        "Number of browsers that a worker starts in advance for new sessions, while the browser tools are used.";
    BROWSER_TABS "OPENSKILL_BROWSER_TABS" "10" "worker, up, check, doctor"
        "Maximum number of tabs of one browser.";
    BROWSER_MEMORY_MB "OPENSKILL_BROWSER_MEMORY_MB" "2048" "worker, up, check, doctor"
        "Memory of one browser with all its processes, in MiB. A browser that needs more is killed.";
    BROWSER_IDLE "OPENSKILL_BROWSER_IDLE_S" "600" "worker, up, check, doctor"
        "How long a browser is kept without a call, in seconds.";
    BROWSER_MAX_AGE "OPENSKILL_BROWSER_MAX_AGE_S" "3600" "worker, up, check, doctor"
        "How long a browser is kept, in seconds. It ends between two calls.";
    BROWSER_DOWNLOAD_MB "OPENSKILL_BROWSER_DOWNLOAD_MB" "32" "worker, up, check, doctor"
        "The largest file that a browser downloads, in MiB.";
    BROWSER_MODEL_URL "OPENSKILL_BROWSER_MODEL_URL" "" "worker, up, check, doctor"
        "URL of a model with OpenAI's API, to which `/chat/completions` is added. [`browser_extract_content`](browser.md#values) sends it parts of pages. Unset: the tool returns only the parts.";
    BROWSER_MODEL "OPENSKILL_BROWSER_MODEL" "" "worker, up, check, doctor"
        "Name of that model.";
    BROWSER_MODEL_API_KEY "OPENSKILL_BROWSER_MODEL_API_KEY" "" "worker, up, check, doctor"
        "Key for that model. `openskill config` masks it.";
    BROWSER_MODEL_API_KEY_FILE "OPENSKILL_BROWSER_MODEL_API_KEY_FILE" "" "worker, up, check, doctor"
        "File with that key, instead of `OPENSKILL_BROWSER_MODEL_API_KEY`.";
    RESEARCH_PROVIDER "OPENSKILL_RESEARCH_PROVIDER" "" "worker, up, check, doctor"
        "Where the [research tools](research.md) find pages: `searxng`, `brave`, `tavily`, `folder` or `site`. Unset: they are unavailable.";
    RESEARCH_URL "OPENSKILL_RESEARCH_URL" "" "worker, up, check, doctor"
        "With `searxng`, the URL of the instance. With `site`, the pages to begin with, separated by commas; only pages of their origins are read. With `brave` and `tavily`, the URL of the API if it is not the provider's own.";
    RESEARCH_API_KEY "OPENSKILL_RESEARCH_API_KEY" "" "worker, up, check, doctor"
        "Key for `brave` or `tavily`. `openskill config` masks it.";
    RESEARCH_API_KEY_FILE "OPENSKILL_RESEARCH_API_KEY_FILE" "" "worker, up, check, doctor"
        "File with that key, instead of `OPENSKILL_RESEARCH_API_KEY`.";
    RESEARCH_FOLDER "OPENSKILL_RESEARCH_FOLDER" "" "worker, up, check, doctor"
        "With `folder`, the directory of the documents.";
    RESEARCH_ALLOW "OPENSKILL_RESEARCH_ALLOW" "" "worker, up, check, doctor"
        "Hosts outside the public internet that pages may be read from, separated by commas: `host:port`, `address:port`, or a network such as `10.1.0.0/16`. The provider may always connect to the host of `OPENSKILL_RESEARCH_URL`. Default: none.";
    RESEARCH_SITE_PAGES "OPENSKILL_RESEARCH_SITE_PAGES" "1000" "worker, up, check, doctor"
        "With `site`, the maximum number of pages that are read and kept in memory.";
    RESEARCH_SITE_FRESH "OPENSKILL_RESEARCH_SITE_FRESH_S" "86400" "worker, up, check, doctor"
        "With `site`, how long pages are kept until they are read again, in seconds.";
    RESEARCH_MAX_LOOPS "OPENSKILL_RESEARCH_MAX_LOOPS" "5" "worker, up, check, doctor"
        "Maximum number of search rounds of one research call.";
    RESEARCH_MAX_PAGES "OPENSKILL_RESEARCH_MAX_PAGES" "32" "worker, up, check, doctor"
        "Maximum number of pages that one research call requests.";
    RESEARCH_MAX_BYTES "OPENSKILL_RESEARCH_MAX_BYTES" "33554432" "worker, up, check, doctor"
        "Maximum number of bytes that one research call receives.";
    RESEARCH_MAX_SECONDS "OPENSKILL_RESEARCH_MAX_SECONDS" "60" "worker, up, check, doctor"
        "Maximum duration of one research call, in seconds. A call with a shorter timeout ends earlier.";
    RESEARCH_MAX_TOKENS "OPENSKILL_RESEARCH_MAX_TOKENS" "32000" "worker, up, check, doctor"
        "Maximum number of tokens of the model that one research call uses, in requests and replies together.";
    RESEARCH_MODEL_URL "OPENSKILL_RESEARCH_MODEL_URL" "" "worker, up, check, doctor"
        "URL of a model with OpenAI's API, to which `/chat/completions` is added, such as `http://127.0.0.1:8080/v1`. Unset: research answers consist only of quotes.";
    RESEARCH_MODEL "OPENSKILL_RESEARCH_MODEL" "" "worker, up, check, doctor"
        "Name of that model. The argument `reasoning_model` takes precedence.";
    RESEARCH_MODEL_API_KEY "OPENSKILL_RESEARCH_MODEL_API_KEY" "" "worker, up, check, doctor"
        "Key for that model. `openskill config` masks it.";
    RESEARCH_MODEL_API_KEY_FILE "OPENSKILL_RESEARCH_MODEL_API_KEY_FILE" "" "worker, up, check, doctor"
        "File with that key, instead of `OPENSKILL_RESEARCH_MODEL_API_KEY`.";
    DEBUG "OPENSKILL_DEBUG" "0" "all"
        "`1`: log more, and return the stderr of failing skills in `error.details`. The stderr of a skill may contain paths and secrets.";
    LOG "OPENSKILL_LOG" "info" "all"
        "Log level: `error`, `warn`, `info`, `debug`, or directives such as `info,h2=warn`.";
    LOG_FORMAT "OPENSKILL_LOG_FORMAT" "text" "all"
        "Log format: `text` or `json`. Logs go to stderr.";
    LOG_REFUSALS "OPENSKILL_LOG_REFUSALS" "10" "gateway, worker, up"
        "Maximum number of log lines a second for each kind of refused call and of other events that clients, skills and servers can cause at will. Further lines are counted, and a line each second says how many were left out. `0`: no limit.";
    METRICS_SKILLS "OPENSKILL_METRICS_SKILLS" "1000" "gateway, worker, up"
        "Number of skills that have their own metrics, at most 4000. All other skills share the label `skill=\"_other\"`.";
    TRACE_DIR "OPENSKILL_TRACE_DIR" "" "gateway, up"
        "Directory of the [recorder](recorder.md): the events of each call as JSON lines. `memory`: only the latest calls, in memory. `off`: nothing. Default: `memory`; with `up`, `$XDG_STATE_HOME/openskill/traces` or `~/.local/state/openskill/traces`.";
    TRACE_MAX_MB "OPENSKILL_TRACE_MAX_MB" "256" "gateway, up"
        "Maximum size of all files in the trace directory, in megabytes. The oldest files are removed.";
    TRACE_MAX_AGE_HOURS "OPENSKILL_TRACE_MAX_AGE_HOURS" "168" "gateway, up"
        "How long a file of the trace directory is kept after its last call, in hours.";
    TRACE_SANITIZE "TRACE_SANITIZE" "true" "gateway, worker, agent, up"
        "`true`: log lines, spans and recorded calls are [redacted](redaction.md). `false`: nothing is redacted, and all of them may contain the secrets of callers and skills.";
    TRACE_MD_RAW "TRACE_MD_INCLUDE_RAW_RESPONSE" "false" "client"
        "`true`: `openskill trace --markdown` includes arguments, results and messages.";
    REDACT_RULES "OPENSKILL_REDACT_RULES" "" "gateway, worker, agent, up"
        "File with further rules for redaction. Default: the built-in rules only.";
    REDACT_CONTACTS "OPENSKILL_REDACT_CONTACTS" "0" "gateway, worker, agent, up"
        "`1`: e-mail addresses and telephone numbers are redacted too.";
    OTLP_ENDPOINT "OTEL_EXPORTER_OTLP_ENDPOINT" "" "gateway, worker, up"
        "Collector for traces and metrics, such as `http://127.0.0.1:4317` for gRPC or `http://127.0.0.1:4318` for HTTP, where traces go to `/v1/traces` and metrics to `/v1/metrics`. `https` uses TLS. Default: nothing is sent.";
    OTLP_TRACES_ENDPOINT "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" "" "gateway, worker, up"
        "Collector for traces only. Over HTTP, the whole URL.";
    OTLP_METRICS_ENDPOINT "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" "" "gateway, worker, up"
        "Collector for metrics only. Over HTTP, the whole URL.";
    OTLP_PROTOCOL "OTEL_EXPORTER_OTLP_PROTOCOL" "grpc" "gateway, worker, up"
        "OTLP protocol: `grpc` or `http/protobuf`.";
    OTLP_TRACES_PROTOCOL "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL" "" "gateway, worker, up"
        "The same, for traces only.";
    OTLP_METRICS_PROTOCOL "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL" "" "gateway, worker, up"
        "The same, for metrics only.";
    OTLP_HEADERS "OTEL_EXPORTER_OTLP_HEADERS" "" "gateway, worker, up"
        "Headers for the collector, `name=value` separated by commas, values percent-encoded. `openskill config` masks the values.";
    OTLP_TRACES_HEADERS "OTEL_EXPORTER_OTLP_TRACES_HEADERS" "" "gateway, worker, up"
        "The same, for traces only.";
    OTLP_METRICS_HEADERS "OTEL_EXPORTER_OTLP_METRICS_HEADERS" "" "gateway, worker, up"
        "The same, for metrics only.";
    OTLP_TIMEOUT "OTEL_EXPORTER_OTLP_TIMEOUT" "10000" "gateway, worker, up"
        "Maximum time for one export, in milliseconds.";
    OTLP_TRACES_TIMEOUT "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT" "" "gateway, worker, up"
        "The same, for traces only.";
    OTLP_METRICS_TIMEOUT "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT" "" "gateway, worker, up"
        "The same, for metrics only.";
    OTLP_CERTIFICATE "OTEL_EXPORTER_OTLP_CERTIFICATE" "" "gateway, worker, up"
        "File with the certificate authorities (PEM) for the collector's certificate. If set, no other authorities are trusted. Default: the system's certificates.";
    OTLP_TRACES_CERTIFICATE "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE" "" "gateway, worker, up"
        "The same, for traces only.";
    OTLP_METRICS_CERTIFICATE "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE" "" "gateway, worker, up"
        "The same, for metrics only.";
    OTLP_CLIENT_CERTIFICATE "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE" "" "gateway, worker, up"
        "File with the certificate (PEM) that this process presents to the collector, followed by its issuers' certificates. Requires the key.";
    OTLP_TRACES_CLIENT_CERTIFICATE "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE" "" "gateway, worker, up"
        "The same, for traces only.";
    OTLP_METRICS_CLIENT_CERTIFICATE "OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE" "" "gateway, worker, up"
        "The same, for metrics only.";
    OTLP_CLIENT_KEY "OTEL_EXPORTER_OTLP_CLIENT_KEY" "" "gateway, worker, up"
        "File with the private key (PEM) of that certificate.";
    OTLP_TRACES_CLIENT_KEY "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY" "" "gateway, worker, up"
        "The same, for traces only.";
    OTLP_METRICS_CLIENT_KEY "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY" "" "gateway, worker, up"
        "The same, for metrics only.";
    SERVICE_NAME "OTEL_SERVICE_NAME" "openskill" "gateway, worker, up"
        "Service name in traces and metrics, with `-gateway` or `-worker` appended.";
    METRICS_EXPORTER "OTEL_METRICS_EXPORTER" "" "gateway, worker, up"
        "`otlp`: send metrics to the OTLP endpoint, or to `http://127.0.0.1:4317` (gRPC) or `http://127.0.0.1:4318` (HTTP) if none is set. `none`: send no metrics. Default: `otlp` if the endpoint is set, otherwise `none`.";
    METRIC_INTERVAL "OTEL_METRIC_EXPORT_INTERVAL" "60000" "gateway, worker, up"
        "How often metrics are sent, in milliseconds.";
    SAMPLER "OTEL_TRACES_SAMPLER" "parentbased_traceidratio" "gateway, worker, up"
        "Sampler: `always_on`, `always_off`, `traceidratio`, or one of them with `parentbased_` before it, which follows the caller's sampling decision if there is one. Workers follow the gateway. `always_off` turns tracing off, even for failed calls.";
    SAMPLER_ARG "OTEL_TRACES_SAMPLER_ARG" "1.0" "gateway, worker, up"
        "Fraction of traces that `traceidratio` samples, from 0 to 1.";
    TRACE_SLOW_MS "OPENSKILL_TRACE_SLOW_MS" "1000" "gateway, up"
        "The gateway exports the spans of calls that take longer than this, in milliseconds, even if they were not sampled. `0`: it does not.";
    BSP_QUEUE "OTEL_BSP_MAX_QUEUE_SIZE" "32768" "gateway, worker, up"
        "Maximum number of spans that wait to be exported. Further spans are dropped, counted and logged.";
    BSP_BATCH "OTEL_BSP_MAX_EXPORT_BATCH_SIZE" "512" "gateway, worker, up"
        "Maximum number of spans in one export.";
    BSP_DELAY "OTEL_BSP_SCHEDULE_DELAY" "5000" "gateway, worker, up"
        "How long spans wait for an export to fill, in milliseconds.";
    AGENT "OPENSKILL_AGENT" "on" "gateway, up"
        "`on`: the gateway serves the [agent](agent.md). `off`: it does not.";
}

/// Returns the default of a setting. Empty if the setting has no default.
pub(crate) fn default_value(name: &str) -> &'static str {
    ALL.iter().find(|setting| setting.name == name).map_or("", |setting| setting.default)
}
