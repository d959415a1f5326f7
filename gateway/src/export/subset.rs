//! Each provider's subset of JSON Schema. Where documentation and behaviour differ, the narrower one is used.

use super::dialect::Dialect;

/// A subset of JSON Schema.
#[derive(Debug, Clone)]
pub(super) struct Subset {
    /// Whether the schema is passed through below its top level.
    pub(super) passes_through: bool,
    /// `anyOf` below the top level.
    pub(super) any_of: bool,
    /// `const`.
    pub(super) constant: bool,
    /// `"type": ["string", "null"]`.
    pub(super) null_in_type: bool,
    /// Whether null may be an enum value next to a type that includes it.
    pub(super) null_in_enum: bool,
    /// Whether an enum may contain values other than strings.
    pub(super) mixed_enum: bool,
    /// `title`.
    pub(super) title: bool,
    /// `default`.
    pub(super) default: bool,
    /// Keywords for strings, numbers and arrays that are kept.
    pub(super) bounds: &'static [&'static str],
    /// Values of `format` that are kept.
    pub(super) formats: &'static [&'static str],
    /// The largest `minItems` that is kept; none if all are.
    pub(super) max_min_items: Option<u64>,
    /// Whether `additionalProperties: false` is written.
    pub(super) writes_closed: bool,
    /// Whether objects may have undeclared keys.
    pub(super) maps: bool,
    /// Whether every property must be required. Optional ones then accept null.
    pub(super) all_required: bool,
    /// Whether the order of properties is written (`propertyOrdering`).
    pub(super) ordering: bool,
    /// Characters of property names besides ASCII letters and digits. If empty, any name is accepted.
    pub(super) key_characters: &'static [char],
    /// How deep schemas may be nested.
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
            // Structured outputs as documented in 2026. Without strict mode, optional parameters stay optional.
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
                // The documentation lists more; the service refuses them.
                formats: &["date-time"],
                ordering: true,
                key_characters: &['_'],
                ..Self::narrow()
            },
            // Undocumented: the intersection of OpenAI and Gemini.
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
        Self {
            passes_through: false,
            any_of: false,
            constant: false,
            null_in_type: false,
            null_in_enum: false,
            mixed_enum: false,
            title: false,
            default: false,
            bounds: &[],
            formats: &[],
            max_min_items: None,
            writes_closed: false,
            maps: false,
            all_required: false,
            ordering: false,
            key_characters: &[],
            depth: 10,
        }
    }
}
