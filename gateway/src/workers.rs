//! The workers that a gateway knows: identity, skills, load.
//!
//! - [`source`]: where to find workers; [`discovery`]: finds them, and follows the state and health of each
//! - [`fleet`]: all workers; [`worker`]: one worker; [`link`]: the connection to it; [`client`]: calls its gRPC
//!   service
//! - [`record`]: how a worker behaved recently: [`ejection`] of outliers, the concurrency [`limit`], [`latency`] by
//!   skill
//! - [`candidate`]: a worker that can run a skill

pub(crate) mod candidate;
pub(crate) mod client;
pub(crate) mod discovery;
pub(crate) mod ejection;
pub(crate) mod fleet;
pub(crate) mod latency;
pub(crate) mod limit;
pub(crate) mod link;
pub(crate) mod record;
pub(crate) mod source;
pub(crate) mod worker;
