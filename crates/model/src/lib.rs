//! Model providers behind one interface, for the agent and for tools that use a model.
//!
//! ```text
//! ModelRequest -> wire format: body -> http: one streamed exchange -> frames -> fold: assembler -> ModelResponse
//! ```
//!
//! A provider turns a [`ModelRequest`] into one streamed HTTP exchange, and the frames of the answer into one
//! [`ModelResponse`]. It keeps no state between requests. It repeats a request only if the provider rejects an optional
//! part, such as opaque data that it returned earlier: see [`ModelCall::opaque`].
//!
//! - [`Models`]: the configured models, selected by name; [`Provider`]: a configured provider
//! - `config`: the parsed settings; `message`: a model's messages, independent of the provider
//! - `openai_chat`, `openai_responses`, `anthropic`, `gemini`: the wire formats, without I/O
//! - `assembler`: assembles the text and the calls of an answer, for all formats; `json`, `pieces`: its input
//! - `http`, `frames`, `failure`: the exchange

mod anthropic;
mod assembler;
mod calls;
mod config;
mod endpoint;
mod failure;
mod frames;
mod gemini;
mod http;
mod json;
mod message;
mod model;
mod models;
mod opaque;
mod openai_chat;
mod openai_responses;
mod pieces;
mod provider;
mod text_calls;
mod wire;

#[cfg(test)]
mod tests;

pub use config::{AnswerLimits, ConfigError, NoModel, ProviderConfig, Secret, WireFormat};
pub use message::{Message, ModelCall, ModelResult, Picture, Tokens};
pub use model::{Model, ModelError, ModelRequest, ModelResponse, StopReason};
pub use models::Models;
pub use provider::Provider;
