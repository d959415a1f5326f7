//! Who may use a gateway, and for what: the file of principals, their policies and their API keys.
//!
//! - [`key`]: the text of a key, and what is kept of it
//! - [`policy`]: what a principal may see, call and use
//! - [`key_file`]: all principals, as the file has them
//! - [`file`](mod@file): reading the file, with its bounds and its permissions
//! - [`edit`]: creating and revoking keys in it
//! - [`jwt`]: tokens that others sign, and what their claims allow
//! - [`shares`]: how principals share what runs out
//!
//! Nothing here knows requests: the gateway reads credentials, and its rooms ask the policy.

pub mod edit;
pub mod file;
pub mod jwt;
pub mod key;
pub mod key_file;
pub mod policy;
pub mod shares;
