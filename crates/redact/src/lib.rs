//! Redaction of secrets: everything that is recorded, logged, exported or shown passes through it.
//!
//! ```text
//! lib        the public API
//! redactor   rules, compiled
//! stream     chunks
//! layers     JSON, escapes, base64: one text within another
//! json       names and values of a document          scan   one pass over free text
//! assignment, block, call, element, multipart, prose      names and values in it
//! value, judge, placeholder                               which part of a value is secret
//! values/    secrets by what they look like
//! shapes     the tables of built-in rules: `shapes.txt`
//! keys, kind what a name says about its value         span   the parts that are replaced
//! ```
//!
//! A secret becomes `***`. The result that a caller gets is not redacted.

mod assignment;
mod block;
mod call;
mod classes;
mod custom;
mod element;
mod escapes;
mod ids;
mod json;
mod judge;
mod keys;
mod kind;
mod layers;
mod letters;
mod multipart;
mod placeholder;
mod prose;
mod redactor;
mod rules;
mod scan;
mod shapes;
mod span;
mod stream;
pub mod testing;
mod value;
mod values;

pub use redactor::Redactor;
pub use rules::{RuleError, Rules};
pub use stream::Stream;
