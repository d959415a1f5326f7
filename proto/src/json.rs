//! JSON text: what it holds, asked before or without parsing it into values, and how values are read and written.
//!
//! - `read`: into structs, each of which is an object
//! - `depth`, `Survey`: how deep it nests, how many values it has
//! - `repeated_key`: whether an object in it has a key twice
//! - `end_of_string`: where a string in it ends

use serde::Serialize;

mod keys;
mod objects;
mod strings;
mod survey;

pub use keys::repeated_key;
pub use objects::read;
pub use strings::end_of_string;
pub use survey::{Survey, depth};

/// Writes plain data with string keys, which serializes without an error.
pub(crate) fn to_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
