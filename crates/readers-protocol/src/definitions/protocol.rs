//! The messages between a worker and the parser process, over the process's stdin and stdout.
//!
//! | from | message |
//! |---|---|
//! | worker | [`Request`]: one line of JSON, followed by the number of source bytes that it states |
//! | process | [`Reply`]: one line of JSON |
//!
//! One reply follows each request, in order. Either side ends the exchange by closing its pipe. Neither side
//! trusts the other: both limit what they read.

use serde::{Deserialize, Serialize};

use crate::definitions::language::Language;

/// The only argument of `openskill-readers` when it runs as the parser.
pub const ARGUMENT: &str = "definitions-parser";

/// The maximum size of a source file, in bytes.
pub const MAX_SOURCE_BYTES: usize = 4 << 20;

/// The maximum length of a reply, in bytes.
pub const MAX_REPLY_BYTES: usize = 4 << 20;

/// The maximum number of definitions in one reply.
pub const MAX_DEFINITIONS: usize = 10_000;

/// The maximum length of a name, and of a signature, in bytes.
pub const MAX_TEXT_BYTES: usize = 240;

/// The maximum length of a request's JSON line, in bytes.
pub const MAX_REQUEST_BYTES: usize = 256;

/// Announces the source code to parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The language of the source.
    pub language: Language,
    /// The number of source bytes that follow.
    pub bytes: usize,
}

/// The definitions in a source file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The definitions, in the order of their first bytes.
    pub definitions: Vec<Definition>,
    /// Whether definitions are missing: the file has more than [`MAX_DEFINITIONS`], or more than fit into a reply.
    pub truncated: bool,
    /// Whether parts of the source do not match the grammar. The definitions around those parts are still
    /// included.
    pub syntax_errors: bool,
}

/// A definition in source code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The kind of the defined item.
    pub kind: Kind,
    /// The unqualified name.
    pub name: String,
    /// The name prefixed with the enclosing scopes: `Outer.method`.
    pub qualified_name: String,
    /// The declaration without the body, on one line.
    pub signature: String,
    /// The 1-based number of the first line.
    pub start_line: u32,
    /// The 1-based number of the last line.
    pub end_line: u32,
}

/// The kind of a defined item.
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
