//! Names of headers and gRPC metadata, and of the environment variables of a skill's process.

/// The caller's own trace id, 1 to 128 visible ASCII characters. Every response returns it.
pub const TRACE_ID: &str = "x-trace-id";

/// The session of a call, as HTTP back ends of skills get it.
pub const SESSION_ID: &str = "x-session-id";

/// The principal of a call, as HTTP back ends of skills get it. Absent for an anonymous caller. Two principals may use the
/// same session id.
pub const PRINCIPAL: &str = "x-openskill-principal";

/// W3C trace context, version 00. <https://www.w3.org/TR/trace-context/>
pub const TRACEPARENT: &str = "traceparent";

/// W3C vendor state. Passed on unchanged if it and `traceparent` are valid.
pub const TRACESTATE: &str = "tracestate";

/// gRPC's timeout: a number and a unit.
pub const GRPC_TIMEOUT: &str = "grpc-timeout";

/// How the messages of a gRPC stream are compressed.
pub const GRPC_ENCODING: &str = "grpc-encoding";

/// How messages in the other direction may be compressed.
pub const GRPC_ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// The timeout over REST, in milliseconds.
pub const TIMEOUT_MS: &str = "x-timeout-ms";

/// The idempotency key over REST, for a call whose body has none.
/// <https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// In the metadata of a worker's status: the worker did not start the skill. Without it, the status may come from anything
/// between gateway and worker, and the skill may have run.
pub const NOT_STARTED: &str = "openskill-not-started";

/// In the metadata of a worker's refusal: after how many milliseconds the same call may be accepted.
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

/// In a skill's environment: the allowed root, the only directory that the skill may read and write.
pub const ENV_ALLOWED_ROOT: &str = "OPENSKILL_ALLOWED_ROOT";

/// In a skill's environment: the number of the descriptor that the skill writes events to.
pub const ENV_EVENTS_FD: &str = "OPENSKILL_EVENTS_FD";

/// In a skill's environment: the prefix that marks a line of stderr as an event, where no event descriptor is possible.
pub const ENV_EVENTS_MARK: &str = "OPENSKILL_EVENTS_MARK";
