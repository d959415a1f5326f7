//! A client of the Chrome DevTools Protocol over a pipe: JSON messages, each terminated by a zero byte.
//!
//! ```text
//! call ──> queue ──> writer ──pipe──> browser ──pipe──> frames ──> message ──> answer of a call
//!                                                                      └─────> handler of events
//! ```
//!
//! The crate knows the shape of messages but no methods. The protocol grows with each browser release, so unknown
//! messages are passed on or ignored, and are never errors. The browser is untrusted: messages, queues and waits
//! are limited.
//!
//! - [`client`]: calls and their deadlines; [`mod@message`]: parses messages; [`frames`]: splits the stream into
//!   messages

pub(crate) mod client;
pub(crate) mod frames;
pub(crate) mod message;
