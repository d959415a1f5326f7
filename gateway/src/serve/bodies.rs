//! Bodies with limits.
//!
//! - [`inbound`]: requests; [`outbound`]: responses
//! - [`guarded`]: keeps a guard until a response is sent
//! - [`credential_bound`]: streams that end when their credential does
//! - [`inflate`], [`deflate`]: gzip compression of gRPC messages

pub(crate) mod credential_bound;
mod deflate;
pub(crate) mod guarded;
pub(crate) mod inbound;
pub(crate) mod inflate;
pub(crate) mod outbound;
