//! The table of all metrics. The reference in `docs/metrics.md` is generated from it.
//!
//! The table contains exactly the metrics that some process exposes. Names follow the Prometheus conventions: base
//! units, and `_total` for counters. No label has values that a caller chooses: session ids, trace ids and names
//! that do not belong to a skill are never labels.

use crate::metrics::metric::{Metric, MetricKind, ProcessKind};

macro_rules! metrics {
    ($($konst:ident $name:literal $kind:ident [$($label:literal)*] $of:ident $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $konst: Metric =
                Metric { name: $name, kind: MetricKind::$kind, labels: &[$($label),*], process: ProcessKind::$of, help: $help };
        )*

        /// All metrics, in the order of the reference.
        pub static ALL: &[&Metric] = &[$(&$konst),*];
    };
}

metrics! {
    // Calls at a gateway.
    CALLS "openskill_calls_total" Counter ["code"] Gateway
        "Calls that ended, by error code. `OK` is success.";
    CALL_ERRORS "openskill_call_errors_total" Counter ["code" "blame"] Gateway
        "Calls that failed, by error code and by who must act.";
    CALLS_IN_FLIGHT "openskill_calls_in_flight" Gauge [] Gateway
        "Calls that hold a permit.";
    CALLS_LIMIT "openskill_calls_limit" Gauge [] Gateway
        "Concurrency limit of all workers together. `+Inf` if the limit is not adaptive.";
    CALL_QUEUE "openskill_call_queue_duration_seconds" Histogram [] Gateway
        "How long calls waited at a worker for a slot, as the worker reported it.";
    SKILL_CALLS "openskill_skill_calls_total" Counter ["skill" "runner"] Gateway
        "Calls of a skill that ended, with any outcome.";
    SKILL_DURATION "openskill_skill_call_duration_seconds" Histogram ["skill" "runner"] Gateway
        "Duration of calls that a worker answered, from the arrival of the request to its result. Has exemplars.";
    SKILL_ERRORS "openskill_skill_errors_total" Counter ["skill" "runner" "code" "blame"] Gateway
        "Calls of a skill that failed, by error code and by who must act.";
    SKILL_CIRCUIT "openskill_skill_circuit_state" Gauge ["skill"] Gateway
        "Circuit breaker of a skill for all callers: 0 closed, 1 half-open, 2 open. For `_other`, the worst state of its skills.";
    CIRCUITS "openskill_circuits" Gauge ["scope" "state"] Gateway
        "Circuit breakers that are not closed, by scope (`skill` or `session`) and state.";
    CIRCUIT_CHANGES "openskill_circuit_changes_total" Counter ["scope" "state"] Gateway
        "Circuit breakers that changed their state, by scope and new state.";
    REPAIRS "openskill_argument_repairs_total" Counter ["kind"] Gateway
        "Repairs made to arguments, by kind.";
    REJECTIONS "openskill_argument_rejections_total" Counter [] Gateway
        "Calls whose arguments were rejected.";
    REFUSALS "openskill_refusals_total" Counter ["bound"] Gateway
        "Calls that were shed, by the limit that was reached: `gateway`; `principal` or `session` for a [fair share](limits.md#kept-for-principals) of it; `skill`, or `worker` for the workers' queues; `principal_rate`, `principal_in_flight`, `principal_bytes` or `principal_sessions` for a [policy](identity.md#policies).";
    ATTEMPTS "openskill_attempts_total" Counter ["end"] Gateway
        "Attempts to run a call on a worker, by outcome: `answered`, `not_started`, `lost`, `overdue`, or `dropped` with their call.";
    REROUTES "openskill_reroutes_total" Counter [] Gateway
        "Calls that went to another worker because the first did not start them.";
    RERUNS "openskill_reruns_total" Counter [] Gateway
        "Retries of skills that may have run before.";
    REPLAYS "openskill_replays_total" Counter [] Gateway
        "Calls answered with the result of an earlier call with their idempotency key.";
    JAILED "openskill_jailed_calls_total" Counter ["level"] Gateway
        "Calls that a skill's process answered, by the level of its [jail](runners/jail.md).";
    OPERATIONS "openskill_operations_total" Counter ["state"] Gateway
        "Stored calls ([operations](operations.md)) that ended at this gateway: `succeeded`, `failed` or `cancelled`.";
    OPERATIONS_WAITING "openskill_operations_waiting" Gauge [] Gateway
        "Operations in the store that wait for their time or their turn, at the last look.";
    OPERATIONS_RUNNING "openskill_operations_running" Gauge [] Gateway
        "Operations that run at this gateway.";
    OPERATIONS_OLDEST "openskill_operations_oldest_seconds" Gauge [] Gateway
        "How long the oldest waiting operation has been in the store.";
    LEASES_LOST "openskill_operation_leases_lost_total" Counter [] Gateway
        "Operations that another gateway took while they ran here.";
    STORE_DURATION "openskill_store_transaction_duration_seconds" Histogram ["access"] Gateway
        "Duration of transactions of the store, with the wait for a connection: `read` or `write`.";
    STORE_FAILURES "openskill_store_failures_total" Counter ["access"] Gateway
        "Transactions of the store that failed, or whose outcome is unknown.";
    WEBHOOKS "openskill_webhooks_total" Counter ["outcome"] Gateway
        "Attempts to send the [webhook](operations.md#webhooks) of an operation: `delivered`, `retried` later, or `failed` for good.";
    MCP_REQUESTS "openskill_mcp_requests_total" Counter ["view" "protocol" "method"] Gateway
        "Requests at [`/mcp`](mcp.md), by view (empty at `/mcp` itself), by protocol revision and by method.";
    MCP_VIEW_FAILURES "openskill_mcp_views_failures_total" Counter [] Gateway
        "Changes to the file of [views](mcp.md#views) that could not be used.";
    WORKERS_UP "openskill_workers_up" Gauge [] Gateway
        "Workers that accept calls.";
    WORKERS_KNOWN "openskill_workers_known" Gauge [] Gateway
        "Workers that the gateway knows, whether they are up or not.";
    WORKERS_EJECTED "openskill_workers_ejected" Gauge [] Gateway
        "Workers that are ejected now.";
    EJECTIONS "openskill_worker_ejections_total" Counter [] Gateway
        "Ejections of workers after too many failures.";
    SKILLS "openskill_skills" Gauge ["status"] Gateway
        "Skills of all workers, by whether any worker can run them: `available` or `unavailable`.";
    RECORDINGS "openskill_recordings_total" Counter ["end"] Gateway
        "Calls handed to the recorder, by the outcome of the recording: `ok`, `dropped` because the queue was full, `failed`.";
    RECORDED_BYTES "openskill_recorded_bytes_total" Counter [] Gateway
        "Bytes of recordings that were written.";
    // Calls at a worker.
    WORKER_CALLS "openskill_worker_calls_total" Counter ["code"] Worker
        "Calls that the worker answered, by error code. `OK` is success.";
    WORKER_REFUSALS "openskill_worker_refusals_total" Counter ["reason"] Worker
        "Calls that the worker did not accept: `full` or `late` by its queue, `draining`, `unknown_skill`, `unavailable`, `invalid`, or `superseded` by a later run of its operation.";
    WORKER_RUNNING "openskill_worker_calls_running" Gauge [] Worker
        "Calls that hold a slot.";
    WORKER_QUEUED "openskill_worker_calls_queued" Gauge [] Worker
        "Calls that wait for a slot. Calls that wait for a skill's own limit are not counted.";
    WORKER_SLOTS "openskill_worker_slots" Gauge ["kind"] Worker
        "Slots of the worker: `open` to all calls, or `reserved` for short calls.";
    WORKER_QUEUE_LIMIT "openskill_worker_queue_limit" Gauge [] Worker
        "Maximum number of calls that the worker queues.";
    WORKER_QUEUE "openskill_worker_queue_duration_seconds" Histogram [] Worker
        "How long calls waited for their skill's own limit and for a slot. Has exemplars.";
    WORKER_SKILL_CALLS "openskill_worker_skill_calls_total" Counter ["skill" "runner"] Worker
        "Calls of a skill that the worker answered.";
    WORKER_SKILL_DURATION "openskill_worker_skill_run_duration_seconds" Histogram ["skill" "runner"] Worker
        "How long calls ran, from the slot to the result. Has exemplars.";
    WORKER_SKILL_ERRORS "openskill_worker_skill_errors_total" Counter ["skill" "runner" "code" "blame"] Worker
        "Calls of a skill that failed, by error code and by who must act.";
    WORKER_JAILED "openskill_worker_jailed_calls_total" Counter ["level"] Worker
        "Calls that a skill's process answered, by the level of its [jail](runners/jail.md).";
    WORKER_SKILLS "openskill_worker_skills" Gauge ["status"] Worker
        "Skills of the worker: `available` or `unavailable`.";
    WARM_POOLS "openskill_worker_warm_pools" Gauge ["isolation"] Worker
        "Python skills that have warm processes, by isolation: `fork` or `shared`.";
    WARM_PROCESSES "openskill_worker_warm_processes" Gauge ["isolation"] Worker
        "Fork servers (`fork`) and shared interpreters (`shared`) that are kept.";
    WARM_STARTS "openskill_worker_warm_starts_total" Counter ["isolation"] Worker
        "Fork servers and shared interpreters that were started.";
    WARM_FAILURES "openskill_worker_warm_failures_total" Counter ["isolation"] Worker
        "Fork servers and shared interpreters that could not be started, or ended before they began a call.";
    WARM_CALLS "openskill_worker_warm_calls_total" Counter ["isolation"] Worker
        "Calls of Python skills that ran in a warm pool.";
    COLD_CALLS "openskill_worker_cold_calls_total" Counter ["reason"] Worker
        "Calls of Python skills that got a fresh interpreter: `process` by their manifest, `jail` if their jail allows no fork server, `starting` if the fork server takes long to start, `paused` after it failed repeatedly, or `failed`.";
    COLD_IMPORTS "openskill_worker_cold_imports" Gauge ["leaves"] Worker
        "Import statements of Python skills that each call runs again, because they leave something behind that forks would share: a `thread`, `process` or `descriptor`, another `directory` or `umask`, a `signal` handler, or a changed `environment`.";
    PYTHON_ENVIRONMENTS "openskill_worker_python_environments" Gauge ["status"] Worker
        "Environments of Python skills with [their own packages](runners/python-environments.md): `ready`, `building` or `failed`.";
    SESSIONS "openskill_worker_sessions" Gauge ["state"] Worker
        "Sessions of Python code that are kept ([sessions](runners/sessions.md)): `busy` with a call, or `idle`.";
    SESSION_STARTS "openskill_worker_session_starts_total" Counter [] Worker
        "Sessions of Python code that were started.";
    SESSION_LOSSES "openskill_worker_session_losses_total" Counter [] Worker
        "Sessions of Python code whose state was lost because their process ended or was killed during a call.";
    SESSION_CALLS "openskill_worker_session_calls_total" Counter ["outcome"] Worker
        "Calls that ran code in a session: `ok`, `failed` with an exception or without an end, or `timed_out`.";
    MCP_CONNECTIONS "openskill_worker_mcp_connections" Gauge ["server" "runner"] Worker
        "Connections that the worker keeps to an MCP server, whether they are up or not.";
    MCP_UP "openskill_worker_mcp_connections_up" Gauge ["server" "runner"] Worker
        "Connections to an MCP server that accept calls.";
    MCP_CONNECTS "openskill_worker_mcp_connects_total" Counter ["server" "runner"] Worker
        "Connections to an MCP server that were established; with `mcp:stdio`, its starts.";
    MCP_LOSSES "openskill_worker_mcp_losses_total" Counter ["server" "runner"] Worker
        "Connections to an MCP server that were lost or could not be made. The worker tries again after each.";
    STRAYS "openskill_worker_strays_killed_total" Counter [] Worker
        "Processes that escaped their supervisor and were killed.";
    // Metrics of every process.
    SPANS "openskill_spans_total" Counter ["end"] Both
        "Spans for the collector, by outcome: `ok`; `dropped` because the queue was full or the process ended too soon; `failed` if the collector did not accept them.";
    METRIC_EXPORTS "openskill_metric_exports_total" Counter ["end"] Both
        "Metrics exports by OTLP: `ok` or `failed`.";
    CERTIFICATE_EXPIRY "openskill_certificate_expiry_timestamp_seconds" Gauge ["certificate"] Both
        "When the first certificate of a chain in use expires, in seconds since 1970: `public` for the gateway's addresses, `mesh` for the certificates that gateways and workers present to each other. Absent without [TLS](tls.md).";
    CERTIFICATE_STALE "openskill_certificate_stale" Gauge ["certificate"] Both
        "Whether (1 or 0) the changed files of a certificate cannot be used, for example because it has expired: `public` or `mesh`. Absent without [TLS](tls.md).";
    BUILD "openskill_build_info" Gauge ["version" "process"] Both
        "Always 1. The labels are the version, and `gateway` or `worker`.";
    PROCESS_CPU "process_cpu_seconds_total" Counter [] Both
        "Processor time of the process, without its children.";
    PROCESS_RESIDENT "process_resident_memory_bytes" Gauge [] Both
        "Memory of the process that is in RAM.";
    PROCESS_VIRTUAL "process_virtual_memory_bytes" Gauge [] Both
        "Address space of the process.";
    PROCESS_OPEN_FDS "process_open_fds" Gauge [] Both
        "Open file descriptors.";
    PROCESS_MAX_FDS "process_max_fds" Gauge [] Both
        "Maximum number of open file descriptors.";
    PROCESS_THREADS "process_threads" Gauge [] Both
        "Threads of the process.";
    PROCESS_START "process_start_time_seconds" Gauge [] Both
        "When the process started, in seconds since 1970.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Checks the rules of `promtool check metrics`, and a few additional ones.
    #[test]
    fn names_and_help_follow_prometheus() {
        let is_word = |it: &str| it.chars().all(|it| it.is_ascii_lowercase() || it == '_') && !it.starts_with('_');
        for metric in ALL {
            let name = metric.name;
            assert!(is_word(name) && !name.contains("__"), "{name}");
            assert!(name.starts_with("openskill_") || name.starts_with("process_"), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
            let is_of_histogram = ["_bucket", "_sum", "_count", "_created"].iter().any(|it| name.ends_with(it));
            assert!(!is_of_histogram, "{name}");
            assert!(metric.kind != MetricKind::Histogram || metric.unit() == Some("seconds"), "{name}");
            let foreign =
                ["milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "ms", "kilobytes", "percent"];
            let kinds = ["counter", "gauge", "histogram", "summary"];
            assert!(!name.split('_').any(|it| foreign.contains(&it) || kinds.contains(&it)), "{name}");
            let is_plain =
                metric.labels.iter().all(|it| is_word(it) && !["le", "quantile", "job", "instance"].contains(it));
            assert!(is_plain, "{name}: {:?}", metric.labels);
            assert!(
                metric.help.ends_with('.') && metric.help.starts_with(|it: char| it.is_ascii_uppercase()),
                "{name}"
            );
        }
    }

    #[test]
    fn no_name_is_there_twice_and_none_is_another_with_a_suffix() {
        let names: BTreeSet<_> = ALL.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), ALL.len());
        let families: BTreeSet<_> = ALL.iter().map(|it| it.family()).collect();
        assert_eq!(families.len(), ALL.len(), "OpenMetrics knows a counter without its suffix");
    }

    #[test]
    fn no_label_names_a_caller_or_a_call() {
        for label in ALL.iter().flat_map(|it| it.labels) {
            assert!(!["session", "trace", "principal", "call", "id"].iter().any(|it| label.contains(it)), "{label}");
        }
    }
}
