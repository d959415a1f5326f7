//! The one boundary that everything passes which is recorded, logged, exported or shown.
//!
//! ```text
//! lib        what others use
//! redactor   rules, compiled
//! stream     chunks
//! layers     JSON, escapes, base64: one text within another
//! json       names and values of a document          scan   one pass over free text
//! assignment, block, call, element, multipart, prose      names and values in it
//! value, judge, placeholder                               which part of a value is secret
//! values/    secrets by what they look like
//! keys       what a name says                         span   what is replaced
//! known      names that were read
//! ```
//!
//! A secret becomes `***`. The caller's own result never passes here.

mod assignment;
mod block;
mod call;
mod classes;
mod custom;
mod element;
mod endings;
mod escapes;
mod ids;
mod json;
mod judge;
mod keys;
mod known;
mod layers;
mod multipart;
mod placeholder;
mod prose;
mod redactor;
mod rules;
mod scan;
mod span;
mod stream;
pub mod testing;
mod value;
mod values;

pub use redactor::Redactor;
pub use rules::{RuleError, Rules};
pub use stream::Stream;
