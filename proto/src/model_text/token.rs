//! What a token is.

/// A part of a text that is not prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind<'a>,
    /// The byte at which it begins.
    pub begin: usize,
    /// The byte after it.
    pub end: usize,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
    /// `<name>`.
    Open(&'a str),
    /// `</name>`.
    Close(&'a str),
    /// The beginning of any other tag, such as one with attributes.
    Markup,
    /// A JSON object, or a list of objects, with all its brackets. What is between them may be wrong.
    Value,
    /// The beginning of a code block that may hold a call, with the name of its language.
    FenceOpen,
    /// The end of such a code block.
    FenceClose,
    /// A whole code block of another kind.
    Code,
    /// A string in prose.
    Quoted,
    /// `<think>...</think>`.
    Reasoning,
    /// The end of reasoning whose beginning the chat template wrote: all the text before it.
    ReasoningEnd,
    /// The rest of the text: a value, a string, a code block or reasoning that does not end.
    Unclosed,
}

impl Token<'_> {
    /// Whether it names no call and holds none that counts: a string or a code block in prose, or a fence.
    pub fn is_prose(&self) -> bool {
        matches!(self.kind, Kind::Quoted | Kind::Code | Kind::FenceOpen | Kind::FenceClose)
    }
}
