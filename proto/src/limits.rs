//! Bounds that no configuration can lift. Sizes are in bytes.

/// The largest request, over gRPC and REST. A larger one is rejected before it is read.
pub const MAX_REQUEST_BYTES: usize = 4 * 1024 * 1024;

/// The largest output of a skill. A skill that writes more is killed: `OUTPUT_TOO_LARGE`.
pub const MAX_OUTPUT_BYTES: usize = 10 * 1024 * 1024;

/// The largest message between worker and gateway, and the largest result: an output and what goes with it.
pub const MAX_RESULT_BYTES: usize = MAX_OUTPUT_BYTES + 1024 * 1024;

/// How much of a skill's stderr is kept: its end, where the reason usually is.
pub const MAX_STDERR_BYTES: usize = 64 * 1024;

/// The longest line that a skill may write to its event descriptor. A longer one is dropped.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;

/// How many events one call may send. More are dropped, with a warning in the result.
pub const MAX_EVENTS: usize = 10_000;

/// How deep arguments and results may nest.
pub const MAX_JSON_DEPTH: usize = 64;

/// How many values the arguments of a call may hold: numbers, strings, arrays, objects and so on, each counted once. In memory,
/// a value takes up to a hundred times its text. A result that becomes a `google.protobuf.Value` has the same bound.
pub const MAX_JSON_VALUES: usize = 100_000;

/// How many messages within messages a result may have, its event included: what standard protobuf clients read.
pub const MAX_MESSAGE_DEPTH: usize = 100;

/// The longest `X-Trace-Id`.
pub const MAX_TRACE_ID_BYTES: usize = 128;

/// The longest `tracestate` that is passed on. W3C requires at least 512.
pub const MAX_TRACESTATE_BYTES: usize = 512;

/// The longest call id, session id and idempotency key.
pub const MAX_ID_BYTES: usize = 128;

/// The longest skill id.
pub const MAX_SKILL_ID_BYTES: usize = 64;

/// How many skills one worker may serve.
pub const MAX_SKILLS: usize = 20_000;

/// The largest `WorkerState` message: all skills of a worker with their schemas.
pub const MAX_STATE_BYTES: usize = 64 * 1024 * 1024;

/// Prompts, resources and templates of a worker, and changes of resources that it tells.
pub const MAX_OFFERINGS: usize = 10_000;

/// How many calls of one `InvokeMany` stream run at a time. Beyond that, the gateway stops reading the stream.
pub const MAX_CALLS_PER_STREAM: usize = 64;

/// All headers of one request, together.
pub const MAX_HEADER_BYTES: u32 = 16 * 1024;

/// The longest timeout that a call or a manifest may set: an hour.
pub const MAX_TIMEOUT_MS: u32 = 3_600_000;

/// The largest artifact. A larger one is dropped, with a warning in the result.
pub const MAX_ARTIFACT_BYTES: usize = 10 * 1024 * 1024;

/// All artifacts of one call, together. One that does not fit is dropped, with a warning in the result.
pub const MAX_CALL_ARTIFACTS_BYTES: usize = 32 * 1024 * 1024;

/// How many artifacts one call may produce. More are dropped, with a warning in the result.
pub const MAX_CALL_ARTIFACTS: usize = 64;

/// The largest artifact that travels by value. A larger one travels as a handle.
pub const MAX_INLINE_ARTIFACT_BYTES: usize = 256 * 1024;

/// The artifacts of one result that travel by value, together. Those past it travel as handles.
pub const MAX_INLINE_ARTIFACTS_BYTES: usize = 1024 * 1024;

/// The largest range of an artifact that one response carries.
pub const MAX_RANGE_BYTES: usize = 1024 * 1024;

/// How many questions of one call may wait for an answer. A further one is answered as unavailable.
pub const MAX_CALL_QUESTIONS: usize = 16;

/// The largest answer to a question, as JSON text.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;
