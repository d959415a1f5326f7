//! The tokens of a model's text.

/// A part of a text that is not prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// The kind of the token.
    pub kind: Kind<'a>,
    /// The position of its first byte.
    pub begin: usize,
    /// The position after its last byte.
    pub end: usize,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
    /// An opening tag: `<name>`.
    Open(&'a str),
    /// A closing tag: `</name>`.
    Close(&'a str),
    /// The beginning of any other tag, such as one with attributes.
    Markup,
    /// A JSON object, or a list of objects, with all its brackets. The content may be invalid.
    Value,
    /// The beginning of a code block that may contain a call, with the name of its language.
    FenceOpen,
    /// The end of such a code block.
    FenceClose,
    /// A whole code block that cannot contain a call.
    Code,
    /// A string in prose.
    Quoted,
    /// Complete reasoning: `<think>...</think>`.
    Reasoning,
    /// The end of reasoning that the chat template opened: all text before it is reasoning.
    ReasoningEnd,
    /// The rest of the text: an unclosed value, string, code block or reasoning.
    Unclosed,
}

impl Token<'_> {
    /// Whether the token cannot contain a call: a string or a code block in prose, or a fence.
    pub fn is_prose(&self) -> bool {
        matches!(self.kind, Kind::Quoted | Kind::Code | Kind::FenceOpen | Kind::FenceClose)
    }
}
