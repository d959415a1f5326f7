//! Turns a model's text into arguments that match a skill's schema: parses, validates, repairs, or returns feedback
//! that a model can act on.
//!
//! Pure and synchronous: no clock, no I/O, no state. It can be used on its own:
//!
//! ```
//! use openskill_gateway::arguments::{Definition, Policy, Rejected, Rules};
//!
//! let schema = r#"{"type": "object", "properties": {"limit": {"type": "integer"}}, "required": ["limit"]}"#;
//! let definition = Definition::compile(schema, Rules::default(), &[]).unwrap();
//!
//! let prepared = definition.prepare(r#"{"limit": "20"}"#, Policy::Repair).unwrap();
//! assert_eq!(prepared.text, r#"{"limit":20}"#);
//! assert_eq!(prepared.repairs[0].kind.name(), "string_to_integer");
//!
//! let Err(Rejected::Unfit(feedback)) = definition.prepare(r#"{"limit": "many"}"#, Policy::Repair) else { panic!() };
//! assert_eq!(feedback.message(), r#""limit" must be an integer, not "many". Example: {"limit":1}"#);
//! ```
//!
//! ```text
//! text -> parse (strict) -> matches the schema? -----> the original text, byte for byte, and defaults behind it
//!               |                 | no
//!               | not JSON        v
//!               +-> lenient --> repair (rounds: wrapper, keys, values, defaults,     -> matches? -> new text
//!                                             empty values, unknown keys)                | no
//!                                                                                        v
//!                                                                                     feedback
//! ```
//!
//! - [`Definition`]: a skill's schema and [`Rules`], compiled once
//! - `parse`: converts text to a value, strictly or leniently; `tool_call`: reads a model's raw call
//! - `repair`: makes the changes that [`Kind`] lists
//! - `feedback`: explains to a model what is wrong, with an example of a correct call
//! - `schema`: closes and reads schemas; `fold`: compares names that differ only in case and separators
//! - `secrets`: parameters that must not be stored
//! - `tree`: a JSON value that keeps every digit; `structs`: conversion to and from `google.protobuf.Struct`

mod definition;
mod feedback;
mod fold;
mod kind;
mod parse;
mod repair;
mod rules;
mod schema;
pub(crate) mod secrets;
pub(crate) mod structs;
mod tool_call;
mod tree;

pub use definition::{Definition, Prepared, Rejected};
pub use feedback::{Feedback, Violation};
pub(crate) use fold::{fold_key, nearest};
pub use kind::{Kind, Repair};
pub use openskill_skill::schema::compile as compile_schema;
pub(crate) use parse::too_many_values;
pub use rules::{Policy, Rules};
pub use tool_call::{ToolCall, read as read_tool_call};

#[cfg(test)]
mod tests;
