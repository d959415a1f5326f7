//! The names of dialects in URLs and on the command line.

use crate::v1::Dialect;

impl Dialect {
    /// Every dialect with its name.
    pub const NAMES: [(&str, Self); 6] = [
        ("openai", Self::Openai),
        ("openai-responses", Self::OpenaiResponses),
        ("anthropic", Self::Anthropic),
        ("gemini", Self::Gemini),
        ("dashscope", Self::Dashscope),
        ("mcp", Self::Mcp),
    ];

    /// The dialect with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, dialect)| *dialect)
    }

    /// The dialect's name. Unspecified means `openai`.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, dialect)| *dialect == self).map_or("openai", |(name, _)| name)
    }
}
