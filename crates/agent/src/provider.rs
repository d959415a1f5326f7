//! Model providers behind one interface.
//!
//! ```text
//! Request -> wire format: body -> http: one streamed exchange -> frames -> fold -> Reply
//! ```
//!
//! A provider turns a [`Request`] into one streamed HTTP exchange and its frames into one [`Reply`]. It keeps no state
//! between requests, and repeats none, except one that is refused for what the provider itself gave earlier: see
//! [`ModelCall::opaque`](crate::message::ModelCall::opaque).
//!
//! - [`Models`]: the configured providers
//! - `openai_chat`, `openai_responses`, `anthropic`, `gemini`: the wire formats, without I/O
//! - `http`, `frames`, `failure`: the exchange

mod anthropic;
mod calls;
mod endpoint;
mod failure;
mod frames;
mod gemini;
mod http;
mod model;
mod models;
mod opaque;
mod openai_chat;
mod openai_responses;
mod reader;
mod remote;
mod secret;
mod text_calls;
mod wire;

#[cfg(test)]
mod tests;

pub use model::{Model, ModelError, Reply, Request, Stop};
pub use models::{ConfigError, Kind, Models, NoModel, ProviderConfig};
pub use secret::Secret;
