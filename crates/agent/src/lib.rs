//! An agent: talks with a user, asks a model, and calls skills on the user's behalf.
//!
//! A turn goes one way. Everything it does is written to the conversation's log before it happens, and what clients see is a
//! projection of that log, so a lost client, a lost gateway and a crash are the same thing: read on from the last number.
//!
//! ```text
//! faces (gRPC, REST) -> agent (whose conversation, one turn at a time)
//!   -> turn (state from entries; ask the model, settle its calls) -> context (what the model reads) -> provider
//!                                                                 -> skills (prepare, invoke, answer)
//!   -> journal (append-only) -> events -> faces
//! ```
//!
//! - [`agent`]: whose conversation, and one turn at a time; `turn`: one turn; `feed`: its events as a client reads them
//! - [`delegation`]: what a sub-agent is asked, and with what; pure; `delegates`: those that run
//! - `secrets`: what users gave and nobody may keep; `locks`: one for each conversation
//! - [`router`]: chooses a skill by rules, if there is no model; pure
//! - [`message`]: what a model reads and writes, whatever its provider
//! - [`provider`]: model providers, by wire format
//! - [`entry`]: what a conversation's log holds, and what clients see of it; pure
//! - [`journal`]: the logs, on disk or in memory
//! - [`context`]: what the model reads of a conversation; pure
//! - [`faces`]: gRPC and REST; [`hosted`]: an agent on a thread of its own, which they serve
//! - [`skills`]: the gateway, as an agent sees it; [`remote`]: one elsewhere, over gRPC
//!
//! The crate knows the contract alone: nothing of gateways or workers. It never runs a skill itself.

pub mod agent;
mod clock;
mod concealment;
pub mod config;
pub mod context;
mod delegates;
pub mod delegation;
pub mod entry;
pub mod error;
pub mod faces;
mod feed;
pub mod hosted;
mod input;
pub mod journal;
mod locks;
pub mod message;
pub mod provider;
pub mod remote;
pub mod router;
mod secret_tail;
mod secrets;
pub mod skills;
mod turn;
