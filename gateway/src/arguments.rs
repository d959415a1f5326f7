//! Turns what a model wrote into what a skill declared: parse, validate, repair, or feedback that a model can act on.
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
//! text -> parse (strict) -> matches the schema? -------------------------------> the original text, byte for byte
//!               |                 | no
//!               | not JSON        v
//!               +-> lenient --> repair (rounds: wrapper, keys, values, defaults, unknown keys) -> matches? -> new text
//!                                                                                                   | no
//!                                                                                                   v
//!                                                                                                feedback
//! ```
//!
//! - [`Definition`]: a skill's schema and [`Rules`], compiled once
//! - `parse`: text to a value, strictly or leniently; `tool_call`: which skill a raw call names
//! - `repair`: the changes that are allowed, and no others; [`Kind`] lists them
//! - `feedback`: what is wrong, in words for a model, with an example of a correct call
//! - `schema`: how schemas are read and compiled; `fold`: names that differ only in case and separators
//! - `secrets`: parameters that are not kept
//! - `tree`: a JSON value that keeps every digit; `structs`: conversion to and from `google.protobuf.Struct`

mod definition;
mod feedback;
mod fold;
mod kind;
mod parse;
mod prepared;
mod repair;
mod rules;
mod schema;
pub(crate) mod secrets;
pub(crate) mod structs;
mod tool_call;
mod tree;

pub use definition::Definition;
pub use feedback::{Feedback, Violation};
pub(crate) use fold::{fold_key, nearest};
pub use kind::{Kind, Repair};
pub(crate) use parse::too_many_values;
pub use prepared::{Prepared, Rejected};
pub use rules::{Policy, Rules};
pub use schema::{SchemaRefused, compile as compile_schema};
pub use tool_call::{ToolCall, read as read_tool_call};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
