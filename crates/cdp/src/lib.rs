//! A client of the Chrome DevTools Protocol over a pipe: messages are JSON, each ended by a zero byte.
//!
//! ```text
//! call ──> queue ──> writer ──pipe──> browser ──pipe──> frames ──> message ──> answer of a call
//!                                                                      └─────> handler of events
//! ```
//!
//! It knows the shape of messages and no method: the protocol grows with each release of the browser, so what is not known is
//! passed on or passed over, never an error. What the browser says is not trusted: messages, queues and waits are bounded.
//!
//! - [`client`]: calls and their deadlines; [`mod@message`]: what a message is; [`frames`]: where it ends

pub mod client;
pub mod frames;
pub mod message;
