//! Identifies callers, and decides what they may do.
//!
//! - [`credentials`]: reads credentials from a request; [`registry`]: maps them to principals; [`identified`]:
//!   valid credentials, and their lifetime; [`grant`]: what one request may do; [`reload`]: follows files
//! - [`tokens`]: signed tokens; [`issuer`]: who signs them; [`jwks`]: reads their public keys
//! - [`account`]: a principal with its policy; [`usage`]: its current usage and its limits; [`rate`]: rate limits,
//!   pure
//! - [`audit`]: logs refusals and administrative actions
//!
//! A layer finds a request's credential, and binds the request body and the response to it. Code that lists or
//! calls skills checks its rights through the call's principal. Work without a request, such as an agent's turn,
//! finds the credential again by its name. Without a file of keys or issuers, all of this is inactive: every caller
//! is anonymous and may do everything.

pub(crate) mod account;
pub(crate) mod audit;
pub(crate) mod credentials;
pub(crate) mod grant;
pub(crate) mod identified;
pub(crate) mod issuer;
pub(crate) mod jwks;
pub(crate) mod rate;
pub(crate) mod registry;
pub(crate) mod reload;
pub(crate) mod tokens;
pub(crate) mod usage;
