//! Providers' limits on the number and size of tools and schemas.

use serde_json::Value;

use super::dialect::Dialect;

/// The maximum length of a tool description, in characters, for providers that are known to have a limit.
const MAX_DESCRIPTION_CHARACTERS: usize = 1024;

/// OpenAI's limits for one strict schema. An enum with more than `LARGE_ENUM` values has its own limit.
const MAX_PROPERTIES: usize = 5000;
const MAX_ENUM_VALUES: usize = 1000;
const MAX_NAME_CHARACTERS: usize = 120_000;
const LARGE_ENUM: usize = 250;
const MAX_LARGE_ENUM_CHARACTERS: usize = 15_000;

/// What remains of a provider's limits on all strict tools of one request.
#[derive(Debug)]
pub(super) struct StrictBudget {
    dialect: Dialect,
    tools: usize,
    optional: usize,
    unions: usize,
}

/// What one schema uses of these limits.
#[derive(Debug, Clone, Default)]
pub(super) struct Usage {
    properties: usize,
    optional: usize,
    unions: usize,
    enum_values: usize,
    /// The number of values and their total length, in characters.
    largest_enum: (usize, usize),
    characters: usize,
}

impl StrictBudget {
    /// The full budget for one request.
    pub(super) fn new(dialect: Dialect) -> Self {
        // Anthropic's limits apply to all strict tools of a request together, OpenAI's to each schema.
        let (tools, optional, unions) = match dialect {
            Dialect::Anthropic => (20, 24, 16),
            _ => (usize::MAX, usize::MAX, usize::MAX),
        };
        Self { dialect, tools, optional, unions }
    }

    /// Spends what a schema uses. The error names the limit that it would exceed.
    pub(super) fn spend(&mut self, usage: &Usage) -> Result<(), String> {
        if self.dialect != Dialect::Anthropic {
            return usage.check_openai();
        }
        let limits = [
            (1, self.tools, "strict tools"),
            (usage.optional, self.optional, "optional parameters in strict tools"),
            (usage.unions, self.unions, "parameters with several types in strict tools"),
        ];
        if let Some((_, _, what)) = limits.iter().find(|(used, left, _)| used > left) {
            return Err(format!("the request reached the provider's limit on {what}"));
        }
        self.tools -= 1;
        self.optional -= usage.optional;
        self.unions -= usage.unions;
        Ok(())
    }
}

impl Usage {
    /// Measures what a schema uses.
    pub(super) fn from_schema(schema: &Value) -> Self {
        let mut usage = Self::default();
        usage.count(schema);
        usage
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

    fn check_openai(&self) -> Result<(), String> {
        let (values, characters) = self.largest_enum;
        let over = [
            (self.properties > MAX_PROPERTIES, format!("more than {MAX_PROPERTIES} properties")),
            (self.enum_values > MAX_ENUM_VALUES, format!("more than {MAX_ENUM_VALUES} enum values")),
            (
                self.characters > MAX_NAME_CHARACTERS,
                format!("more than {MAX_NAME_CHARACTERS} characters of names and enum values"),
            ),
            (
                values > LARGE_ENUM && characters > MAX_LARGE_ENUM_CHARACTERS,
                format!("an enum with more than {LARGE_ENUM} values and {MAX_LARGE_ENUM_CHARACTERS} characters"),
            ),
        ];
        over.into_iter().find(|(is_over, _)| *is_over).map_or(Ok(()), |(_, what)| Err(what))
    }
}

/// Returns the maximum number of tools in one request, for providers with a known limit.
pub(super) fn max_tools(dialect: Dialect) -> Option<usize> {
    match dialect {
        Dialect::OpenAi | Dialect::OpenAiResponses | Dialect::DashScope | Dialect::Gemini => Some(128),
        Dialect::Anthropic | Dialect::Mcp => None,
    }
}

/// Builds a tool's description with the remarks about its schema, truncated to what the provider accepts.
pub(super) fn description(text: &str, remarks: &[String], dialect: Dialect, notes: &mut Vec<String>) -> String {
    let all = std::iter::once(text.trim().to_owned()).chain(remarks.iter().cloned());
    let whole = all.filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ");
    let limited = matches!(dialect, Dialect::OpenAi | Dialect::OpenAiResponses | Dialect::DashScope);
    if !limited || whole.chars().count() <= MAX_DESCRIPTION_CHARACTERS {
        return whole;
    }
    notes.push(format!("the description was truncated to {MAX_DESCRIPTION_CHARACTERS} characters"));
    whole.chars().take(MAX_DESCRIPTION_CHARACTERS - 1).chain(['…']).collect()
}
