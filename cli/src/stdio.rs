//! MCP over stdin and stdout, one message per line, bridged to a gateway that speaks MCP over HTTP.
//!
//! - [`bridge`]: converts lines to requests, and responses to lines
//! - [`exchange`]: sends one request within its session
//! - [`message`]: the parts of a message that HTTP headers repeat
//! - [`parameters`]: headers that repeat arguments
//! - [`lines`]: lines of limited length
//!
//! Only messages go to stdout. At the end of the input, the bridge answers the calls in flight and exits.

mod bridge;
mod exchange;
mod lines;
mod message;
mod parameters;

pub(crate) use bridge::run;
pub(crate) use lines::{InputLine, next as next_line};
