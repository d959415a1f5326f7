//! Names of headers and gRPC metadata, and of the variables a skill process sees.

/// The caller's own id of a trace, any 1 to 128 visible ASCII characters. Sent back on every answer.
pub const TRACE_ID: &str = "x-trace-id";

/// The session of a call, as HTTP back ends of skills get it.
pub const SESSION_ID: &str = "x-session-id";

/// W3C trace context, version 00. <https://www.w3.org/TR/trace-context/>
pub const TRACEPARENT: &str = "traceparent";

/// W3C vendor state; passed on as it came if `traceparent` is valid and it is within bounds.
pub const TRACESTATE: &str = "tracestate";

/// gRPC's own deadline, a number and a unit.
pub const GRPC_TIMEOUT: &str = "grpc-timeout";

/// The deadline over REST, in milliseconds.
pub const TIMEOUT_MS: &str = "x-timeout-ms";

/// Over REST, the idempotency key of a call whose body has none.
/// <https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// In the metadata of a worker's status: the worker says that it did not start the skill. Without it a status may come
/// from anything between gateway and worker, and says nothing of what the worker did.
pub const NOT_STARTED: &str = "openskill-not-started";

/// `google.rpc.ErrorInfo.domain` of every status the gateway makes.
pub const ERROR_DOMAIN: &str = "openskill.dev";

/// In a skill's environment: the X-Trace-Id of the call.
pub const ENV_TRACE_ID: &str = "OPENSKILL_TRACE_ID";

/// In a skill's environment: the W3C trace context of the call.
pub const ENV_TRACEPARENT: &str = "TRACEPARENT";

/// In a skill's environment: the W3C vendor state of the call, if there is any.
pub const ENV_TRACESTATE: &str = "TRACESTATE";

/// In a skill's environment: the only folder it may touch.
pub const ENV_ALLOWED_ROOT: &str = "OPENSKILL_ALLOWED_ROOT";

/// In a skill's environment: the number of the descriptor that takes its events.
pub const ENV_EVENTS_FD: &str = "OPENSKILL_EVENTS_FD";

/// What a line of a skill's stderr begins with if it is an event: where there can be no descriptor for events.
pub const ENV_EVENTS_MARK: &str = "OPENSKILL_EVENTS_MARK";
