//! Signed tokens (JWT, RFC 7519): who signs them, how they are verified, and which policy their claims select.
//!
//! - [`issuers`]: the file of issuers and rules; [`rules`]: selects a policy by claims
//! - [`token`]: the three parts of a token; [`algorithm`]: signature algorithms; [`jwk`]: public keys
//! - [`verify`]: verifies a token and determines its principal
//!
//! Pure: other modules read or fetch the keys, and the caller passes the time. This module supports only public
//! keys, so it cannot accept a token that is unsigned (`none`) or signed with a shared secret (HMAC).

pub mod algorithm;
pub mod issuers;
pub mod jwk;
pub mod rules;
pub mod token;
pub mod verify;
