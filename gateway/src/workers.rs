//! The workers a gateway knows: who they are, what they offer, how busy they are.
//!
//! - [`source`]: where to look for workers; [`discovery`]: finding them, following each one's state and health
//! - [`fleet`]: all of them; [`worker`]: one; [`link`]: the connection to it; [`client`]: its service
//!   over that
//! - [`record`]: how one behaved recently: [`ejection`] of outliers, the concurrency [`limit`], [`latency`] by skill
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
