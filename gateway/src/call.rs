//! One call: the request, its preparation, and its outcome.
//!
//! - [`request`]: the checked request and its deadline; [`principal`]: on whose behalf it runs;
//!   [`claim`]: for which operation
//! - [`operation`]: the operation that the client called, and over which protocol
//! - [`reading`]: reads a request; [`input`]: the arguments before validation; [`blocking_pool`]: threads for large
//!   ones
//! - [`preparation`]: repairs the arguments and validates them against the skill's schema
//! - [`events`]: relays events to a caller that streams
//! - [`stage`]: how far the call has come; [`outcome`]: how it ended; [`result`]: converts that to the caller's format

pub(crate) mod blocking_pool;
pub(crate) mod claim;
pub(crate) mod events;
pub(crate) mod input;
pub(crate) mod operation;
pub(crate) mod outcome;
pub(crate) mod preparation;
pub(crate) mod principal;
pub(crate) mod reading;
pub(crate) mod request;
pub(crate) mod result;
pub(crate) mod stage;
