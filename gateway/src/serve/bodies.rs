//! Bodies with bounds: [`inbound`] requests, [`outbound`] answers. [`guarded`]: what is held until an
//! answer is sent.

pub(crate) mod guarded;
pub(crate) mod inbound;
pub(crate) mod outbound;
