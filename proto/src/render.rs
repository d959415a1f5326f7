//! Results, events and skills as JSON text, for REST, for models and for the command line.
//!
//! - `result`: the two envelopes of a result
//! - `event`: events during a call
//! - `artifact`: files that a skill produced in addition to its data
//! - `catalog`: skills and exported tools
//! - `prepared_call`: the prepared arguments of a call
//! - `chat`: conversations with the agent, and their events
//! - `tool_result`: the metadata of a call in an MCP tool result
//! - `trace`: recorded calls

mod artifact;
mod catalog;
mod chat;
mod event;
mod prepared_call;
mod result;
mod tool_result;
mod trace;

pub use catalog::{skill, tools};
pub use chat::{chat_event, chat_event_line, conversation, conversations};
pub use event::{event, event_line};
pub use prepared_call::prepared_call;
pub use result::{refusal, result, status_envelope};
pub use tool_result::call_meta;
pub use trace::{trace, trace_summary, traces};
