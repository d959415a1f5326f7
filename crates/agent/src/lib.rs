//! An agent: talks to a user, uses a model, and calls skills on the user's behalf.
//!
//! Data flows in one direction. The agent writes each step to the conversation's log before it acts, and clients
//! receive events derived from that log. So a lost client, a lost gateway and a crash are all handled in the same way:
//! by reading the log from the last known number.
//!
//! ```text
//! faces (gRPC, REST) -> agent (owner, one turn at a time)
//!   -> turn (state from entries; ask the model, settle its calls) -> context (what the model reads) -> openskill_model
//!                                                                 -> skills (prepare, invoke, answer)
//!   -> journal (append-only) -> events -> faces
//! ```
//!
//! - [`agent`]: owners of conversations, and one turn at a time; `turn`: a turn; `feed`: the events for a client
//! - [`delegation`]: the task and the limits of a sub-agent; `delegates`: runs sub-agents
//! - `secrets`: users' secrets, in memory only; `locks`: one lock per conversation; `reservation`: limits on turns
//! - [`router`]: chooses a skill by rules if there is no model
//! - [`entry`]: the entries of a conversation's log; [`event`]: the corresponding events for clients
//! - [`journal`]: the logs, in a store that gateways may share
//! - [`context`]: the model's view of a conversation
//! - [`faces`]: gRPC and REST; [`hosted`]: the agent that they serve, on a separate thread
//! - [`skills`]: the interface to a gateway; [`remote`]: a gateway over gRPC
//!
//! The crate depends only on the contract and other libraries, not on gateways or workers. It never runs skills itself.

pub mod agent;
mod concealment;
pub mod config;
pub mod context;
mod delegates;
pub mod delegation;
pub mod entry;
pub mod error;
pub mod event;
pub mod faces;
mod feed;
pub mod hosted;
mod input;
pub mod journal;
mod locks;
pub mod remote;
mod reservation;
pub mod router;
mod secret_tail;
mod secrets;
pub mod skills;
mod turn;
