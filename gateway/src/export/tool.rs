//! A tool before it is exported.

use openskill_proto::v1::Icon;
use serde_json::Value;

/// A skill as a tool, independent of any provider.
#[derive(Debug, Clone, Copy)]
pub struct Tool<'a> {
    /// The skill's id.
    pub name: &'a str,
    /// Its name for people. Empty if it has none.
    pub title: &'a str,
    /// Its pictures.
    pub icons: &'a [Icon],
    /// What the model reads to choose a tool.
    pub description: &'a str,
    /// JSON Schema of the arguments; none if any object is accepted.
    pub schema: Option<&'a Value>,
    /// JSON Schema of the result as text; empty if there is none.
    pub output_schema_json: &'a str,
    /// It may delete or overwrite things.
    pub destructive: bool,
    /// It changes nothing.
    pub read_only: bool,
    /// A second identical call does no harm.
    pub idempotent: bool,
    /// Its argument policy is strict: arguments that deviate from its schema are rejected, not repaired.
    pub refuses_repairs: bool,
}
