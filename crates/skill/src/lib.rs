//! The rules for skill definitions, shared by gateway and worker.
//!
//! Workers check manifests with them, and gateways check what workers announce: neither trusts the other's
//! schemas.
//!
//! - [`schema`]: the JSON Schemas that a skill may declare, so that validation takes bounded time
//! - [`answer`]: the answers to the questions of skills
//! - [`defaults`]: completes arguments with the defaults that a schema declares
//! - [`draft`]: translates older drafts to 2020-12
//! - [`patterns`]: drops unusable regular expressions of external schemas
//! - [`versions`]: orders the versions of a skill

pub mod answer;
pub mod defaults;
pub mod draft;
pub mod patterns;
pub mod schema;
pub mod versions;
