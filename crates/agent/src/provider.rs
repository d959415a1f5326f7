//! Model providers behind one interface.
//!
//! ```text
//! Request -> wire format: body -> http: one streamed exchange -> frames -> fold: assembler -> Reply
//! ```
//!
//! A provider turns a [`Request`] into one streamed HTTP exchange and its frames into one [`Reply`]. It keeps no state
//! between requests, and repeats none, except one that is refused for what the provider itself gave earlier: see
//! [`ModelCall::opaque`](crate::message::ModelCall::opaque).
//!
//! - [`Models`]: the configured providers
//! - `openai_chat`, `openai_responses`, `anthropic`, `gemini`: the wire formats, without I/O
//! - `assembler`: puts the text and the calls of an answer together, for all of them; `json`, `pieces`: what it reads
//! - `http`, `frames`, `failure`: the exchange

mod anthropic;
mod assembler;
mod calls;
mod endpoint;
mod failure;
mod frames;
mod gemini;
mod http;
mod json;
mod model;
mod models;
mod opaque;
mod openai_chat;
mod openai_responses;
mod pieces;
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
