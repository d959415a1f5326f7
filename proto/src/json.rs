//! JSON text: checks that do not parse it, and how values are read and written.
//!
//! - `read`: parses structs, which must be objects at any depth
//! - `depth`, `Survey`: the nesting depth and the number of values
//! - `repeated_key`: finds an object with a repeated key
//! - `end_of_string`: finds the end of a string
//! - `RawFields`, `select`: values that are not parsed

use serde::Serialize;

mod keys;
mod objects;
mod raw;
mod strings;
mod survey;

pub use keys::repeated_key;
pub use objects::read;
pub use raw::{RawFields, select};
pub(crate) use strings::end_of_content;
pub use strings::end_of_string;
pub use survey::{Survey, depth};

/// Serializes plain data with string keys, which cannot fail.
pub(crate) fn to_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
