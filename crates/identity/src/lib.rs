//! Access control of a gateway: principals, their policies, and their API keys.
//!
//! - [`key`]: the text of a key, and its stored hash
//! - [`policy`]: what a principal may see, call and use
//! - [`key_file`]: the content of a key file
//! - [`file`](mod@file): reads a file within its size limit, and checks its permissions; replaces a file
//! - [`edit`]: creates and revokes keys in a key file
//! - [`jwt`]: tokens that other issuers sign, and the policies that their claims select
//! - [`shares`]: how principals share limited resources
//!
//! This crate is independent of requests: the gateway reads credentials and applies the policies.

pub mod edit;
pub mod file;
pub mod jwt;
pub mod key;
pub mod key_file;
pub mod policy;
pub mod shares;
