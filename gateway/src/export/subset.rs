//! What each provider takes of JSON Schema. Where a provider's documents and its behaviour differ, the narrower holds.

use super::Dialect;

/// A subset of JSON Schema.
#[derive(Debug, Clone)]
pub(super) struct Subset {
    /// Whether the schema may stay as it is below its top.
    pub(super) is_whole: bool,
    /// `anyOf`, below the top.
    pub(super) any_of: bool,
    /// `const`.
    pub(super) constant: bool,
    /// `"type": ["string", "null"]`.
    pub(super) null_in_type: bool,
    /// Whether null may be one of an enum's values beside a type that names it.
    pub(super) null_in_enum: bool,
    /// Whether an enum may hold other things than strings.
    pub(super) mixed_enum: bool,
    /// `title`.
    pub(super) title: bool,
    /// `default`.
    pub(super) default: bool,
    /// Keywords for strings, numbers and arrays that may stay.
    pub(super) bounds: &'static [&'static str],
    /// Values of `format` that may stay.
    pub(super) formats: &'static [&'static str],
    /// The largest `minItems` that may stay, if not all may.
    pub(super) most_min_items: Option<u64>,
    /// Whether `additionalProperties: false` is written.
    pub(super) says_closed: bool,
    /// Whether objects may have keys that are not declared.
    pub(super) maps: bool,
    /// Whether every property has to be required; one that is optional then may be null.
    pub(super) all_required: bool,
    /// Whether the order of properties is written beside them.
    pub(super) ordering: bool,
    /// What may stand in a property's name beside letters and digits; nothing said means anything.
    pub(super) key_characters: &'static [char],
    /// How deep schemas may nest.
    pub(super) depth: usize,
}

const OPENAI_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

const ANTHROPIC_FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

impl Subset {
    /// The subset of a dialect.
    pub(super) fn of(dialect: Dialect, strict: bool) -> Self {
        match (dialect, strict) {
            // Structured outputs, as documented in 2026; without strict mode the same, but for what is optional.
            (Dialect::OpenAi | Dialect::OpenAiResponses, _) => Self {
                any_of: true,
                constant: true,
                null_in_type: true,
                null_in_enum: true,
                mixed_enum: true,
                title: true,
                bounds: &[
                    "pattern",
                    "multipleOf",
                    "minimum",
                    "maximum",
                    "exclusiveMinimum",
                    "exclusiveMaximum",
                    "minItems",
                    "maxItems",
                ],
                formats: &OPENAI_FORMATS,
                says_closed: true,
                maps: !strict,
                all_required: strict,
                depth: 10,
                ..Self::narrow()
            },
            // Strict tool use; optional parameters stay optional.
            (Dialect::Anthropic, true) => Self {
                any_of: true,
                constant: true,
                null_in_type: true,
                mixed_enum: true,
                title: true,
                default: true,
                bounds: &["minItems"],
                formats: &ANTHROPIC_FORMATS,
                most_min_items: Some(1),
                says_closed: true,
                key_characters: &['_', '-', '.'],
                depth: 32,
                ..Self::narrow()
            },
            (Dialect::Anthropic, false) => {
                Self { is_whole: true, maps: true, key_characters: &['_', '-', '.'], ..Self::narrow() }
            }
            (Dialect::Mcp, _) => Self { is_whole: true, maps: true, ..Self::narrow() },
            // What both the OpenAPI form of `parameters` and the documented JSON Schema support have in common.
            (Dialect::Gemini, _) => Self {
                title: true,
                bounds: &["minimum", "maximum", "minItems", "maxItems"],
                // The documents name more; the service refuses them.
                formats: &["date-time"],
                ordering: true,
                key_characters: &['_'],
                ..Self::narrow()
            },
            // Nothing is documented: what OpenAI and Gemini have in common.
            (Dialect::DashScope, _) => Self {
                null_in_type: true,
                null_in_enum: true,
                mixed_enum: true,
                title: true,
                bounds: &["minimum", "maximum", "minItems", "maxItems"],
                formats: &["date-time", "date", "time"],
                says_closed: true,
                ..Self::narrow()
            },
        }
    }

    /// Types, descriptions, properties, items and enums of strings.
    fn narrow() -> Self {
        Self {
            is_whole: false,
            any_of: false,
            constant: false,
            null_in_type: false,
            null_in_enum: false,
            mixed_enum: false,
            title: false,
            default: false,
            bounds: &[],
            formats: &[],
            most_min_items: None,
            says_closed: false,
            maps: false,
            all_required: false,
            ordering: false,
            key_characters: &[],
            depth: 10,
        }
    }
}
