//! Results, events and skills as JSON text, for REST, for models and for the command line.
//!
//! - `result`: the two envelopes of a result
//! - `event`: what happens during a call
//! - `artifact`: what a skill produced beside its data
//! - `catalog`: skills and exported tools
//! - `prepared`: what a call would run with
//! - `chat`: conversations with the agent, and their events
//! - `tool_result`: what the result of an MCP tool says of its call
//! - `trace`: recorded calls

mod artifact;
mod catalog;
mod chat;
mod event;
mod prepared;
mod result;
mod tool_result;
mod trace;

pub use catalog::{skill, tools};
pub use chat::{chat_event, chat_event_line, conversation, conversations};
pub use event::{event, event_line};
pub use prepared::prepared;
pub use result::{refusal, result, status_envelope};
pub use tool_result::about_call;
pub use trace::{trace, trace_summary, traces};
