//! What gateway and worker both know of a skill's definition.
//!
//! Workers check manifests with it, and gateways check what workers announce: neither trusts the other's schemas.
//!
//! - [`schema`]: which JSON Schemas a skill may declare, so that validation takes bounded time
//! - [`draft`]: older drafts, translated to 2020-12
//! - [`patterns`]: regular expressions of others that can't be used

pub mod draft;
pub mod patterns;
pub mod schema;
