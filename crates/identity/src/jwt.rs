//! Signed tokens (JWT, RFC 7519): who signs them, how they are checked, and which policy their claims lead to.
//!
//! - [`issuers`]: the file of issuers and rules; [`rules`]: from claims to a policy
//! - [`token`]: the three parts of a token; [`algorithm`]: how one is signed; [`jwk`]: public keys
//! - [`verify`]: whether a token is valid, and whose it is
//!
//! Pure: keys are read or fetched elsewhere, and the caller says what time it is. Only public keys are known here, so that
//! there is no way to accept a token that is not signed (`none`) or signed with a secret (HMAC).

pub mod algorithm;
pub mod issuers;
pub mod jwk;
pub mod rules;
pub mod token;
pub mod verify;
