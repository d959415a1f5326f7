//! What a worker and the process that parses say to each other, over the process's stdin and stdout.
//!
//! | from | message |
//! |---|---|
//! | worker | [`Request`]: one line of JSON, and then as many bytes of source code as it says |
//! | process | [`Reply`]: one line of JSON |
//!
//! One reply follows each request, in order. Whoever closes its end ends the conversation. Neither side trusts the other: the
//! worker bounds what it reads, and so does the process.

use serde::{Deserialize, Serialize};

use crate::language::Language;

/// The one argument that makes `openskill-readers` a parser.
pub const ARGUMENT: &str = "definitions-parser";

/// The largest source file.
pub const MAX_SOURCE_BYTES: usize = 4 << 20;

/// The longest reply.
pub const MAX_REPLY_BYTES: usize = 4 << 20;

/// The most definitions of one file.
pub const MAX_DEFINITIONS: usize = 10_000;

/// The longest name and the longest signature, in bytes.
pub const MAX_TEXT_BYTES: usize = 240;

/// The longest line that begins a request.
pub const MAX_REQUEST_BYTES: usize = 256;

/// Source code to parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its language.
    pub language: Language,
    /// How many bytes of source follow.
    pub bytes: usize,
}

/// What was found in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// In the order in which they begin.
    pub definitions: Vec<Definition>,
    /// There were more than [`MAX_DEFINITIONS`], or than a reply holds.
    pub truncated: bool,
    /// Parts of the source are not as the grammar has them. What is around them was found.
    pub syntax_errors: bool,
}

/// A definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// What it defines.
    pub kind: Kind,
    /// Its own name.
    pub name: String,
    /// Its name with those of what it is in: `Outer.method`.
    pub qualified_name: String,
    /// Its first line, without its body.
    pub signature: String,
    /// Its first line, from one.
    pub start_line: u32,
    /// Its last line.
    pub end_line: u32,
}

/// What a definition defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "they are the languages' own words")]
pub enum Kind {
    Class,
    Constant,
    Enum,
    Function,
    Interface,
    Macro,
    Method,
    Module,
    Namespace,
    Object,
    Property,
    Struct,
    Trait,
    Type,
    Union,
}
