//! The names of headers and gRPC metadata, and of the environment variables of a skill's process.

/// The caller's own trace id, 1 to 128 visible ASCII characters. Every response returns it.
pub const TRACE_ID: &str = "x-trace-id";

/// The session of a call, as sent to the HTTP backends of skills.
pub const SESSION_ID: &str = "x-session-id";

/// The principal of a call, as sent to the HTTP backends of skills. Absent for an anonymous caller. Two principals may use
/// the same session id.
pub const PRINCIPAL: &str = "x-openskill-principal";

/// The W3C trace context, version 00. <https://www.w3.org/TR/trace-context/>
pub const TRACEPARENT: &str = "traceparent";

/// W3C vendor state. Propagated unchanged if both it and `traceparent` are valid.
pub const TRACESTATE: &str = "tracestate";

/// gRPC's timeout: a number and a unit.
pub const GRPC_TIMEOUT: &str = "grpc-timeout";

/// The compression of the messages in a gRPC stream.
pub const GRPC_ENCODING: &str = "grpc-encoding";

/// The supported compressions of messages in the other direction.
pub const GRPC_ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// The timeout in the REST API, in milliseconds.
pub const TIMEOUT_MS: &str = "x-timeout-ms";

/// The idempotency key in the REST API, for a call whose body has none.
/// <https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// In the REST API: the URL that is told of the end of an operation.
pub const WEBHOOK_URL: &str = "webhook-url";

/// In the metadata of a worker's status: the worker did not start the skill. A status without it may come from any
/// hop between gateway and worker, and the skill may have run.
pub const NOT_STARTED: &str = "openskill-not-started";

/// In the metadata of a worker's rejection: the delay in milliseconds after which the same call may be accepted.
/// <https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback>
pub const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// `google.rpc.ErrorInfo.domain` of every status that the gateway returns.
pub const ERROR_DOMAIN: &str = "openskill.dev";

/// In a skill's environment: the X-Trace-Id of the call.
pub const ENV_TRACE_ID: &str = "OPENSKILL_TRACE_ID";

/// In a skill's environment: the W3C trace context of the call.
pub const ENV_TRACEPARENT: &str = "TRACEPARENT";

/// In a skill's environment: the W3C vendor state of the call, if it has one.
pub const ENV_TRACESTATE: &str = "TRACESTATE";

/// In a skill's environment: the allowed root, the directory with the data that the skill may read and write.
pub const ENV_ALLOWED_ROOT: &str = "OPENSKILL_ALLOWED_ROOT";

/// In a skill's environment: the number of the descriptor that the skill writes events to.
pub const ENV_EVENTS_FD: &str = "OPENSKILL_EVENTS_FD";

/// In a skill's environment: the prefix that marks a line of stderr as an event. Used where no event descriptor is
/// available.
pub const ENV_EVENTS_MARK: &str = "OPENSKILL_EVENTS_MARK";
