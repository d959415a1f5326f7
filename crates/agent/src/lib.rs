//! The models that an agent asks: of any provider, by one interface.
//!
//! - [`message`]: what a model reads and writes, whatever its provider
//! - [`provider`]: model providers, by wire format
//!
//! The crate knows the contract alone: nothing of gateways or workers. The conversations of an agent will stand on it;
//! nothing in the binary uses it yet.

pub mod message;
pub mod provider;
