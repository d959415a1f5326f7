//! MCP over stdin and stdout, before a gateway that speaks it over HTTP: one message a line.
//!
//! - [`bridge`]: lines to requests, and answers to lines
//! - [`exchange`]: one request; the session it belongs to
//! - [`message`]: what a line has to say for that
//! - [`parameters`]: headers that repeat arguments
//! - [`events`]: server-sent events to messages
//! - [`lines`]: bounded lines
//!
//! Nothing but messages goes to stdout. At the end of the input, calls in flight are answered, and then the bridge ends.

mod bridge;
mod events;
mod exchange;
mod lines;
mod message;
mod parameters;

pub(crate) use bridge::run;
