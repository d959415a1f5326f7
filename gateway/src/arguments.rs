//! From what a model wrote to what a skill declared: parse, repair, validate, or feedback that a model can act on.
//!
//! Pure and synchronous: no clock, no I/O, no state. Usable on its own:
//!
//! ```
//! use openskill_gateway::arguments::{Definition, Policy, Rules};
//!
//! let schema = r#"{"type": "object", "properties": {"limit": {"type": "integer"}}, "required": ["limit"]}"#;
//! let definition = Definition::compile(schema, Rules::default(), &[]).unwrap();
//! let prepared = definition.prepare(r#"{"limit": "20"}"#, Policy::Repair).unwrap();
//! assert_eq!(prepared.text, r#"{"limit":20}"#);
//! assert_eq!(prepared.repairs[0].kind.name(), "string_to_integer");
//! ```
//!
//! ```text
//! text -> parse: strict -> fits the schema? ---------------------------------> as it came, byte for byte
//!               |              | no
//!               | no           v
//!               +-> lenient -> repair (rounds: wrapper, keys, values, defaults, unknown keys) -> fits? -> new text
//!                                                                                 | no
//!                                                                                 v
//!                                                                              feedback
//! ```
//!
//! - [`Definition`]: a skill's schema and rules, compiled once
//! - `parse`: text to a value, and what was let pass; `tool_call`: which skill a raw call names
//! - `repair`: what may be changed, and nothing else; [`Kind`] lists it all
//! - `feedback`: what is wrong, in words for a model, with a call that would be right
//! - `schema`: which schemas are taken; `tree`: a JSON value that keeps every digit; `structs`: `google.protobuf.Struct`

use std::borrow::Cow;

use openskill_proto::v1::ArgumentPolicy;

mod definition;
mod feedback;
mod parse;
mod repair;
mod schema;
pub(crate) mod structs;
mod tool_call;
mod tree;

pub use definition::{Definition, Rules};
pub use feedback::{Feedback, Violation};
pub(crate) use repair::{fold_key, nearest};
pub use schema::{SchemaRefused, compile as compile_schema};
pub use tool_call::{ToolCall, read as read_tool_call};

/// Arguments that may go to the skill.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared<'a> {
    /// A JSON object as text. What was valid is here byte for byte as it came.
    pub text: Cow<'a, str>,
    /// What was changed, in order. Empty if and only if `text` is what came.
    pub repairs: Vec<Repair>,
}

/// What may be done to arguments that do not fit. Ordered: the greater is the stricter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// The repairs of [`Kind`] are made.
    #[default]
    Repair,
    /// Nothing is changed: what deviates is rejected.
    Strict,
}

impl From<ArgumentPolicy> for Policy {
    fn from(policy: ArgumentPolicy) -> Self {
        match policy {
            ArgumentPolicy::Strict => Self::Strict,
            ArgumentPolicy::Repair | ArgumentPolicy::Unspecified => Self::Repair,
        }
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Repair {
    /// JSON Pointer to the place that changed, in the repaired arguments.
    pub path: String,
    /// The rule that applied.
    pub kind: Kind,
    /// What was there, as JSON text: the value, or the name of a renamed key. Long ones are cut.
    pub before: Option<String>,
    /// What is there now, in the same form.
    pub after: Option<String>,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:literal,)*) => {
        /// Every change that may be made. There are no others.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[doc = $doc])+ $kind,)* }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The name on the wire.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }
    };
}

kinds! {
    /// Trailing commas, comments, single quotes, Python literals or line breaks within strings, read for what they mean.
    Syntax "syntax",
    /// Prose or a code fence around the one object was let be.
    Extracted "extracted",
    /// The object had been written into a string.
    DoubleEncoded "double_encoded",
    /// The arguments stood in a sole undeclared key such as `arguments`.
    Wrapper "wrapper",
    /// A key was written in another case: `maxSteps` for `max_steps`.
    KeyFold "key_fold",
    /// A key was written under another name that the manifest declares.
    Alias "alias",
    /// A null stood where the parameter is optional and may not be null.
    NullDropped "null_dropped",
    /// `"true"` where only a boolean fits.
    StringToBoolean "string_to_boolean",
    /// `"20"` where only an integer fits.
    StringToInteger "string_to_integer",
    /// `"0.5"` where only a number fits.
    StringToNumber "string_to_number",
    /// `"['a', 'b']"` where only an array fits.
    StringToArray "string_to_array",
    /// `"{...}"` where only an object fits.
    StringToObject "string_to_object",
    /// `"like new"` where only `Like New` is allowed.
    EnumFold "enum_fold",
    /// A required parameter was missing and its schema declares a default.
    DefaultFilled "default_filled",
    /// A key that the schema does not know was left out.
    UnknownDropped "unknown_dropped",
}

/// Why a call can't be made.
#[derive(Debug, Clone, PartialEq)]
pub enum Rejected {
    /// The text is no JSON that could be read, and why.
    Unreadable(String),
    /// It is JSON that does not fit.
    Unfit(Box<Feedback>),
}

impl Repair {
    /// A repair whose values are shown as they are, cut where they are long.
    fn new(path: impl Into<String>, kind: Kind, before: Option<String>, after: Option<String>) -> Self {
        Self { path: path.into(), kind, before: before.map(cut), after: after.map(cut) }
    }
}

/// The longest value that a repair shows whole, in bytes.
const SHOWN_BYTES: usize = 512;

/// JSON text as a repair shows it: whole, or its beginning as a string.
fn cut(json: String) -> String {
    if json.len() <= SHOWN_BYTES {
        return json;
    }
    let beginning = &json[..json.floor_char_boundary(SHOWN_BYTES / 2)];
    serde_json::Value::from(format!("{beginning}…")).to_string()
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
