//! Each provider's subset of JSON Schema, as `subsets.toml` lists it.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::dialect::Dialect;

/// What a provider accepts of JSON Schema: at least types, descriptions, properties, items and enums of strings.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Subset {
    /// Whether the schema passes through unchanged below its top level.
    pub(super) passes_through: bool,
    /// Whether `anyOf` is allowed below the top level.
    pub(super) any_of: bool,
    /// Whether `const` is allowed.
    pub(super) constant: bool,
    /// Whether `"type": ["string", "null"]` is allowed.
    pub(super) null_in_type: bool,
    /// Whether null may be an enum value next to a type that includes it.
    pub(super) null_in_enum: bool,
    /// Whether an enum may contain values other than strings.
    pub(super) mixed_enum: bool,
    /// Whether `title` is allowed.
    pub(super) title: bool,
    /// Whether `default` is allowed.
    pub(super) default: bool,
    /// The keywords for strings, numbers and arrays that are kept.
    pub(super) bounds: Vec<String>,
    /// The values of `format` that are kept.
    pub(super) formats: Vec<String>,
    /// The maximum `minItems` that is kept. None: all are kept.
    pub(super) max_min_items: Option<u64>,
    /// Whether `additionalProperties: false` is written.
    pub(super) writes_closed: bool,
    /// Whether objects may have undeclared keys.
    pub(super) maps: bool,
    /// Whether every property must be required. Optional ones then accept null.
    pub(super) all_required: bool,
    /// Whether the order of properties is written (`propertyOrdering`).
    pub(super) ordering: bool,
    /// The characters that property names may contain in addition to ASCII letters and digits. If empty, any name
    /// is accepted.
    pub(super) key_characters: String,
    /// The maximum depth of schemas.
    pub(super) depth: usize,
}

/// The tests read every subset.
static SUBSETS: LazyLock<HashMap<String, Subset>> =
    LazyLock::new(|| toml_edit::de::from_str(include_str!("subsets.toml")).unwrap_or_default());

impl Subset {
    /// Returns the subset of a dialect.
    pub(super) fn for_dialect(dialect: Dialect, strict: bool) -> Self {
        let name = match dialect {
            Dialect::OpenAi | Dialect::OpenAiResponses => "openai",
            Dialect::Anthropic if strict => "anthropic_strict",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
            Dialect::DashScope => "dashscope",
            Dialect::Mcp => "mcp",
        };
        let subset = SUBSETS.get(name).cloned().unwrap_or_default();
        match dialect {
            // Without strict mode, optional parameters stay optional.
            Dialect::OpenAi | Dialect::OpenAiResponses => Self { maps: !strict, all_required: strict, ..subset },
            _ => subset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_has_a_subset() {
        for (dialect, strict) in Dialect::ALL.into_iter().flat_map(|it| [(it, false), (it, true)]) {
            assert!(Subset::for_dialect(dialect, strict).depth > 0, "{dialect:?} {strict}");
        }
    }
}
