//! Limits that no configuration can raise. Sizes are in bytes.

/// The maximum size of a request over gRPC and REST. A larger request is rejected before it is read.
pub const MAX_REQUEST_BYTES: usize = 4 * 1024 * 1024;

/// The maximum output of a skill. A skill that writes more is killed: `OUTPUT_TOO_LARGE`.
pub const MAX_OUTPUT_BYTES: usize = 10 * 1024 * 1024;

/// The maximum size of a message between worker and gateway, and of a result: an output and its metadata.
pub const MAX_RESULT_BYTES: usize = MAX_OUTPUT_BYTES + 1024 * 1024;

/// The maximum length of a skill's recorded stderr. Its end is kept, which usually contains the reason.
pub const MAX_STDERR_BYTES: usize = 64 * 1024;

/// The maximum length of a line that a skill writes to its event descriptor. A longer line is dropped.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;

/// The maximum number of events from one call. More are dropped, with a warning in the result.
pub const MAX_EVENTS: usize = 10_000;

/// The maximum nesting depth of arguments and results.
pub const MAX_JSON_DEPTH: usize = 64;

/// The maximum number of values in a call's arguments: numbers, strings, arrays, objects and so on, each counted
/// once. In memory, a value takes up to a hundred times its text. The same limit applies to a result that becomes
/// a `google.protobuf.Value`.
pub const MAX_JSON_VALUES: usize = 100_000;

/// The maximum nesting depth of messages in a result, including its event. This is the limit of standard protobuf
/// clients.
pub const MAX_MESSAGE_DEPTH: usize = 100;

/// The maximum length of `X-Trace-Id`.
pub const MAX_TRACE_ID_BYTES: usize = 128;

/// The maximum length of a `tracestate` that is propagated. W3C requires at least 512.
pub const MAX_TRACESTATE_BYTES: usize = 512;

/// The maximum length of a call id, session id or idempotency key.
pub const MAX_ID_BYTES: usize = 128;

/// The maximum length of a skill id.
pub const MAX_SKILL_ID_BYTES: usize = 64;

/// The maximum number of skills of one worker.
pub const MAX_SKILLS: usize = 20_000;

/// The maximum number of refused files that a worker reports.
pub const MAX_REFUSED_FILES: usize = 100;

/// The maximum size of the path of a refused file, and of the reason, in bytes.
pub const MAX_REFUSAL_BYTES: usize = 1024;

/// The maximum size of a `WorkerState` message: all skills of a worker with their schemas.
pub const MAX_STATE_BYTES: usize = 64 * 1024 * 1024;

/// The maximum number of a worker's prompts, resources and templates, and of the resource changes that it reports.
pub const MAX_OFFERINGS: usize = 10_000;

/// The maximum number of concurrent calls of one `InvokeMany` stream. At this limit, the gateway stops reading the
/// stream.
pub const MAX_CALLS_PER_STREAM: usize = 64;

/// The maximum total size of all headers of one request.
pub const MAX_HEADER_BYTES: u32 = 16 * 1024;

/// The maximum timeout of a call or a manifest: an hour.
pub const MAX_TIMEOUT_MS: u32 = 3_600_000;

/// The maximum size of an artifact. A larger artifact is dropped, with a warning in the result.
pub const MAX_ARTIFACT_BYTES: usize = 10 * 1024 * 1024;

/// The maximum total size of one call's artifacts. An artifact that exceeds it is dropped, with a warning in the
/// result.
pub const MAX_CALL_ARTIFACTS_BYTES: usize = 32 * 1024 * 1024;

/// The maximum number of artifacts from one call. More are dropped, with a warning in the result.
pub const MAX_CALL_ARTIFACTS: usize = 64;

/// The maximum size of an artifact that is included in its result. A larger artifact is returned as a handle.
pub const MAX_INLINE_ARTIFACT_BYTES: usize = 256 * 1024;

/// The maximum total size of the artifacts that are included in a result. The others are returned as handles.
pub const MAX_INLINE_ARTIFACTS_BYTES: usize = 1024 * 1024;

/// The maximum size of an artifact range in one response.
pub const MAX_RANGE_BYTES: usize = 1024 * 1024;

/// The maximum number of one call's questions that wait for an answer. More are answered as unavailable.
pub const MAX_CALL_QUESTIONS: usize = 16;

/// The maximum size of an answer to a question, as JSON text.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;
