//! Each provider's subset of JSON Schema. Where documentation and behaviour differ, the narrower one applies.

use super::dialect::Dialect;

/// What a provider accepts of JSON Schema.
#[derive(Debug, Clone, Default)]
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
    pub(super) bounds: &'static [&'static str],
    /// The values of `format` that are kept.
    pub(super) formats: &'static [&'static str],
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
    pub(super) key_characters: &'static [char],
    /// The maximum depth of schemas.
    pub(super) depth: usize,
}

const OPENAI_BOUNDS: [&str; 8] =
    ["pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"];

const OPENAI_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

const ANTHROPIC_FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

impl Subset {
    /// Returns the subset of a dialect.
    pub(super) fn for_dialect(dialect: Dialect, strict: bool) -> Self {
        match (dialect, strict) {
            // Structured outputs, as documented in 2026. Without strict mode, optional parameters stay optional.
            (Dialect::OpenAi | Dialect::OpenAiResponses, _) => Self {
                any_of: true,
                constant: true,
                null_in_type: true,
                null_in_enum: true,
                mixed_enum: true,
                title: true,
                bounds: &OPENAI_BOUNDS,
                formats: &OPENAI_FORMATS,
                writes_closed: true,
                maps: !strict,
                all_required: strict,
                depth: 10,
                ..Self::narrow()
            },
            // Strict tool use. Optional parameters stay optional.
            (Dialect::Anthropic, true) => Self {
                any_of: true,
                constant: true,
                null_in_type: true,
                mixed_enum: true,
                title: true,
                default: true,
                bounds: &["minItems"],
                formats: &ANTHROPIC_FORMATS,
                max_min_items: Some(1),
                writes_closed: true,
                key_characters: &['_', '-', '.'],
                depth: 32,
                ..Self::narrow()
            },
            (Dialect::Anthropic, false) => {
                Self { passes_through: true, maps: true, key_characters: &['_', '-', '.'], ..Self::narrow() }
            }
            (Dialect::Mcp, _) => Self { passes_through: true, maps: true, ..Self::narrow() },
            // The intersection of the OpenAPI form of `parameters` and the documented JSON Schema support.
            (Dialect::Gemini, _) => Self {
                title: true,
                bounds: &["minimum", "maximum", "minItems", "maxItems"],
                // The documentation lists more formats, but the service rejects them.
                formats: &["date-time"],
                ordering: true,
                key_characters: &['_'],
                ..Self::narrow()
            },
            // DashScope documents no subset. This is the intersection of OpenAI's and Gemini's.
            (Dialect::DashScope, _) => Self {
                null_in_type: true,
                null_in_enum: true,
                mixed_enum: true,
                title: true,
                bounds: &["minimum", "maximum", "minItems", "maxItems"],
                formats: &["date-time", "date", "time"],
                writes_closed: true,
                ..Self::narrow()
            },
        }
    }

    /// The narrowest subset: types, descriptions, properties, items and enums of strings.
    fn narrow() -> Self {
        Self { depth: 10, ..Self::default() }
    }
}
