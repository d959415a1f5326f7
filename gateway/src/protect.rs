//! Protects against overload and failures. Each mechanism refuses a call at once, with a reason.
//!
//! - [`admission`]: permits, by concurrency limits and fair shares
//! - [`in_flight`]: the calls that have permits
//! - [`circuit`]: circuit breakers around skills
//! - [`idempotency`]: remembers the keys of earlier calls; [`once`]: runs a call once for its key

pub(crate) mod admission;
pub(crate) mod circuit;
pub(crate) mod idempotency;
pub(crate) mod in_flight;
pub(crate) mod once;
