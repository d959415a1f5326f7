//! Everything between the socket and the call, in both directions.
//!
//! - [`connections`]: accepts connections and enforces limits; [`shards`]: run one thread and one listener each
//! - [`stack`]: the steps that every request passes, in order; [`layers`]: what they read and check
//! - [`bodies`]: limits on bodies in both directions
//! - [`faces`]: gRPC, REST and MCP; [`tools`]: exports skills as tools; [`calls`], [`traces`]: running and recorded calls
//! - [`artifacts`]: reads artifacts, wherever they are
//! - [`resource`]: tells clients where to get a token

pub(crate) mod artifacts;
pub(crate) mod bodies;
mod calls;
pub(crate) mod connections;
pub(crate) mod faces;
pub(crate) mod layers;
pub(crate) mod operations;
pub(crate) mod resource;
pub(crate) mod shards;
pub(crate) mod stack;
pub(crate) mod tools;
pub(crate) mod traces;
