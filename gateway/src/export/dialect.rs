//! The shapes in which model providers accept tools.

/// A model provider's shape of a tool definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI chat completions: `{"type": "function", "function": {...}}`.
    OpenAi,
    /// OpenAI Responses: the same, without the inner object.
    OpenAiResponses,
    /// Anthropic Messages: `input_schema`.
    Anthropic,
    /// Google Gemini function declarations: `parameters` in its OpenAPI subset.
    Gemini,
    /// Alibaba DashScope (Qwen): OpenAI's chat shape.
    DashScope,
    /// Model Context Protocol: a tool of `tools/list`.
    Mcp,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 6] =
        [Self::OpenAi, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::DashScope, Self::Mcp];

    /// Whether the provider has a strict mode for tools.
    pub(super) fn has_strict(self) -> bool {
        matches!(self, Self::OpenAi | Self::OpenAiResponses | Self::Anthropic)
    }
}
