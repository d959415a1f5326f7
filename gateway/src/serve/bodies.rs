//! Bodies with bounds: [`inbound`] requests, [`outbound`] answers.

pub(crate) mod inbound;
pub(crate) mod outbound;
