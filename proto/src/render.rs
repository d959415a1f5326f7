//! Results, events and skills as JSON text, for REST, for models and for the command line.
//!
//! - `result`: the two envelopes of a result, its artifacts, its metadata in an MCP tool result, and prepared calls
//! - `event`: events during a call
//! - `catalog`: skills and exported tools
//! - `chat`: conversations with the agent, and their events
//! - `operation`: operations and their events
//! - `trace`: running and recorded calls

mod catalog;
mod chat;
mod event;
mod operation;
mod result;
mod trace;

pub use catalog::{skill, skill_status, tools, version};
pub use chat::{chat_event, chat_event_line, conversation, conversations};
pub use event::{event, event_line};
pub use operation::{
    operation, operation_event, operation_event_line, operation_metadata, operation_result, operation_state, operations,
};
pub use result::{call_meta, prepared_call, refusal, result, status_envelope};
pub use trace::{call_state, calls, cancelled_calls, running_call, trace, trace_summary, traces};
