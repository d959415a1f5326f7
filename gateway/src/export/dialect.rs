//! The formats of tool definitions that model providers accept.

/// A model provider's format for a tool definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI chat completions: `{"type": "function", "function": {...}}`.
    OpenAi,
    /// OpenAI Responses: the same without the inner object.
    OpenAiResponses,
    /// Anthropic Messages: has `input_schema`.
    Anthropic,
    /// Google Gemini function declarations: has `parameters` in Gemini's OpenAPI subset.
    Gemini,
    /// Alibaba DashScope (Qwen): OpenAI's chat format.
    DashScope,
    /// Model Context Protocol: a tool in `tools/list`.
    Mcp,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 6] =
        [Self::OpenAi, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::DashScope, Self::Mcp];

    /// Whether the provider has a strict mode for tools.
    pub(super) fn has_strict(self) -> bool {
        matches!(self, Self::OpenAi | Self::OpenAiResponses | Self::Anthropic)
    }
}
