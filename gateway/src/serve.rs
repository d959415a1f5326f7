//! From a socket to a call, and from a result back to the socket.
//!
//! - [`connections`]: accepting, and the bounds of one connection; [`shards`]: a thread and a listener each
//! - [`stack`]: the layers every request passes, in order; [`layers`]: one file each
//! - [`bodies`]: bounds on bodies in both directions
//! - [`faces`]: gRPC and REST; [`streams`]: calls in, events out, for both; [`tools`]: skills as tools of a model;
//!   [`traces`]: recorded calls
//! - [`resource`]: where clients learn whom to ask for a token

pub(crate) mod bodies;
pub(crate) mod connections;
pub(crate) mod faces;
pub(crate) mod layers;
pub(crate) mod resource;
pub(crate) mod shards;
pub(crate) mod stack;
pub(crate) mod streams;
pub(crate) mod tools;
pub(crate) mod traces;
