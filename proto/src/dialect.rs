//! The names of dialects in URLs and on the command line.

use crate::v1::Dialect;

impl Dialect {
    /// All dialects with their names.
    pub const NAMES: [(&str, Self); 6] = [
        ("openai", Self::Openai),
        ("openai-responses", Self::OpenaiResponses),
        ("anthropic", Self::Anthropic),
        ("gemini", Self::Gemini),
        ("dashscope", Self::Dashscope),
        ("mcp", Self::Mcp),
    ];

    /// Parses the name of a dialect.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, dialect)| *dialect)
    }

    /// Returns the dialect's name. The unspecified dialect is `openai`.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, dialect)| *dialect == self).map_or("openai", |(name, _)| name)
    }
}
