//! One call: what its caller asked for, what it needs to run, and what came of it.
//!
//! - [`request`]: the request, checked, with its deadline; [`principal`]: on whose behalf it runs
//! - [`door`]: by which way it came
//! - [`reading`]: how a request is read; [`input`]: its arguments as they came; [`aside`]: where large ones are read
//! - [`preparation`]: its arguments, repaired and validated against the skill's schema
//! - [`events`]: the way back to a caller who listens while the call runs
//! - [`outcome`]: how it ended; [`result`]: the same in the form the caller used

pub(crate) mod aside;
pub(crate) mod door;
pub(crate) mod events;
pub(crate) mod input;
pub(crate) mod outcome;
pub(crate) mod preparation;
pub(crate) mod principal;
pub(crate) mod reading;
pub(crate) mod request;
pub(crate) mod result;
