//! How many and how large: limits that a schema's keywords don't say.

use serde_json::Value;

use super::Dialect;

/// The longest description of a tool, in characters, where the provider is known to have had a limit.
const MAX_DESCRIPTION: usize = 1024;

/// OpenAI's limits for one strict schema.
const MAX_PROPERTIES: usize = 5000;
const MAX_ENUM_VALUES: usize = 1000;
const MAX_NAME_CHARACTERS: usize = 120_000;
const LARGE_ENUM: usize = 250;
const MAX_LARGE_ENUM_CHARACTERS: usize = 15_000;

/// What is left of a provider's limits for all strict tools of one request.
#[derive(Debug)]
pub(super) struct Left {
    strict: bool,
    dialect: Dialect,
    tools: usize,
    optional: usize,
    unions: usize,
}

/// What a schema takes of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken {
    properties: usize,
    optional: usize,
    unions: usize,
    enum_values: usize,
    largest_enum: (usize, usize),
    characters: usize,
}

impl Left {
    /// Everything, at the beginning.
    pub(super) fn of(dialect: Dialect, strict: bool) -> Self {
        // Anthropic: per request, over all strict tools. OpenAI: per schema.
        let (tools, optional, unions) = match dialect {
            Dialect::Anthropic => (20, 24, 16),
            _ => (usize::MAX, usize::MAX, usize::MAX),
        };
        Self { strict: strict && dialect.has_strict(), dialect, tools, optional, unions }
    }

    /// Whether tools are to be strict at all.
    pub(super) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Takes what a schema needs, or says what there is no place for.
    pub(super) fn take(&mut self, taken: &Taken) -> Result<(), String> {
        if self.dialect != Dialect::Anthropic {
            return taken.fits_openai();
        }
        let wants = [
            (1, self.tools, "strict tools"),
            (taken.optional, self.optional, "optional parameters of strict tools"),
            (taken.unions, self.unions, "parameters of several types"),
        ];
        if let Some((_, _, what)) = wants.iter().find(|(wanted, left, _)| wanted > left) {
            return Err(format!("a request has no place for more {what}"));
        }
        self.tools -= 1;
        self.optional -= taken.optional;
        self.unions -= taken.unions;
        Ok(())
    }
}

impl Taken {
    pub(super) fn of(schema: &Value) -> Self {
        let mut taken = Self::default();
        taken.count(schema);
        taken
    }

    fn count(&mut self, schema: &Value) {
        let Some(object) = schema.as_object() else { return };
        if let Some(properties) = object.get("properties").and_then(Value::as_object) {
            let required = object.get("required").and_then(Value::as_array).map_or(0, Vec::len);
            self.properties += properties.len();
            self.optional += properties.len().saturating_sub(required);
            self.characters += properties.keys().map(|name| name.chars().count()).sum::<usize>();
            properties.values().for_each(|it| self.count(it));
        }
        let is_union = object.contains_key("anyOf") || object.get("type").is_some_and(Value::is_array);
        self.unions += usize::from(is_union);
        if let Some(values) = object.get("enum").and_then(Value::as_array) {
            let characters = values.iter().filter_map(Value::as_str).map(|it| it.chars().count()).sum();
            self.enum_values += values.len();
            self.largest_enum = self.largest_enum.max((values.len(), characters));
            self.characters += characters;
        }
        self.characters += object.get("const").and_then(Value::as_str).map_or(0, |it| it.chars().count());
        object.get("items").into_iter().for_each(|it| self.count(it));
        object.get("anyOf").and_then(Value::as_array).into_iter().flatten().for_each(|it| self.count(it));
    }

    fn fits_openai(&self) -> Result<(), String> {
        let (values, characters) = self.largest_enum;
        let over = [
            (self.properties > MAX_PROPERTIES, format!("more than {MAX_PROPERTIES} properties")),
            (self.enum_values > MAX_ENUM_VALUES, format!("more than {MAX_ENUM_VALUES} enum values")),
            (
                self.characters > MAX_NAME_CHARACTERS,
                format!("names and enum values over {MAX_NAME_CHARACTERS} characters"),
            ),
            (
                values > LARGE_ENUM && characters > MAX_LARGE_ENUM_CHARACTERS,
                format!("an enum of more than {LARGE_ENUM} values over {MAX_LARGE_ENUM_CHARACTERS} characters"),
            ),
        ];
        over.into_iter().find(|(is_over, _)| *is_over).map_or(Ok(()), |(_, what)| Err(what))
    }
}

/// How many tools one request takes, where that is known.
pub(super) fn most_tools(dialect: Dialect) -> Option<usize> {
    match dialect {
        Dialect::OpenAi | Dialect::OpenAiResponses | Dialect::DashScope | Dialect::Gemini => Some(128),
        Dialect::Anthropic | Dialect::Mcp => None,
    }
}

/// A tool's description with the remarks its schema left, cut to what the provider takes.
pub(super) fn description(text: &str, remarks: &[String], dialect: Dialect, notes: &mut Vec<String>) -> String {
    let all = std::iter::once(text.trim().to_owned()).chain(remarks.iter().cloned());
    let whole = all.filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ");
    let limited = matches!(dialect, Dialect::OpenAi | Dialect::OpenAiResponses | Dialect::DashScope);
    if !limited || whole.chars().count() <= MAX_DESCRIPTION {
        return whole;
    }
    notes.push(format!("the description was cut to {MAX_DESCRIPTION} characters"));
    whole.chars().take(MAX_DESCRIPTION - 1).chain(['…']).collect()
}
