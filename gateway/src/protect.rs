//! What protects the gateway, its workers and its skills from too much: each refuses a call at once, with the reason.
//!
//! - [`admission`]: permits, by concurrency limits and fair shares
//! - [`circuit`]: circuit breakers around skills
//! - [`idempotency`]: the keys of earlier calls; [`once`]: a call that runs once for its key

pub(crate) mod admission;
pub(crate) mod circuit;
pub(crate) mod idempotency;
pub(crate) mod once;
