//! Bodies with bounds: [`inbound`] requests, [`outbound`] answers. [`guarded`]: what is held until an answer is sent.
//! [`ending`]: streams that end with their keys.
//! [`inflate`] and [`deflate`]: gRPC messages that are compressed with gzip.

mod deflate;
pub(crate) mod ending;
pub(crate) mod guarded;
pub(crate) mod inbound;
pub(crate) mod inflate;
pub(crate) mod outbound;
