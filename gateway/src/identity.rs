//! Who calls, and what that allows.
//!
//! - [`credentials`]: what a request shows; [`registry`]: whose it is; [`identified`]: what is valid, and for how long; [`grant`]: what
//!   one request may do; [`reload`]: follows files
//! - [`tokens`]: signed tokens; [`issuer`]: who signs them; [`jwks`]: reads their public keys
//! - [`account`]: a principal with its policy; [`usage`]: what it uses now, against its limits; [`rate`]: calls in time, pure
//! - [`audit`]: a log line for each decision that refuses or administers
//!
//! A request's layer finds the credential, and binds both halves of the request to it; whatever lists or calls skills asks it,
//! by the call's principal. Work without a request, such as an agent's turn, finds it again by its name. Without a file of keys or issuers none of this is there, and every caller is anonymous and may do everything.

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
