//! Reads text into a JSON value: strictly, or leniently with a record of what deviated from JSON.

use openskill_proto::json;
use serde_json::Value;

use super::kind::{Kind, Repair};
use super::tree::Tree;

mod errors;
pub(super) mod lenient;
pub(super) mod prose;
mod strict;

pub(crate) use errors::too_many_values;
pub(super) use errors::{StrictError, too_deep};
pub(super) use strict::strict;

/// The maximum size of a text that is read leniently and repaired, in bytes. Also bounds the product of its length
/// and its depth. Models write far less. Larger arguments are validated, but not repaired.
pub(super) const MAX_REPAIRED_BYTES: usize = 256 * 1024;
const MAX_REPAIRED_AREA: usize = 2 * 1024 * 1024;

/// The maximum number of string encodings that are removed.
const MAX_ENCODINGS: usize = 3;

/// Whether a text is small enough to be read leniently and repaired.
pub(super) fn is_small(text: &str) -> bool {
    text.len() <= MAX_REPAIRED_BYTES && text.len() * json::depth(text.as_bytes()) <= MAX_REPAIRED_AREA
}

/// Reads the only object in a text leniently, and records how the text deviated from JSON.
///
/// # Errors
/// The text contains no such object or more than one, or the object is truncated or ambiguous.
pub(super) fn object(text: &str) -> Result<(Tree, Vec<Repair>), String> {
    let mut repairs = Vec::new();
    let mut tree = one_value(text, &mut repairs)?;
    for _ in 0..MAX_ENCODINGS {
        let Tree::Text(inner) = &tree else { break };
        let inner = inner.clone();
        let before = Some(tree.write());
        tree = one_value(&inner, &mut repairs)?;
        repairs.push(Repair::new("", Kind::DoubleEncoded, before, Some(tree.write())));
    }
    match tree {
        Tree::Object(_) => Ok((tree, repairs)),
        other => Err(format!("the arguments must be a single JSON object, not {}", type_name(&other))),
    }
}

/// Reads the value that spans the text, or the only object in prose.
fn one_value(text: &str, repairs: &mut Vec<Repair>) -> Result<Tree, String> {
    let error = match lenient::parse_complete(text) {
        Ok((tree, deviates)) => {
            if deviates {
                repairs.push(Repair::new("", Kind::Syntax, Some(quote(text)), Some(tree.write())));
            }
            return Ok(tree);
        }
        Err(error) => error,
    };
    let Some((tree, deviates)) = prose::in_prose(text)? else { return Err(error) };
    repairs.push(Repair::new("", Kind::Extracted, Some(quote(text)), Some(tree.write())));
    if deviates {
        repairs.push(Repair::new("", Kind::Syntax, None, Some(tree.write())));
    }
    Ok(tree)
}

/// Encodes a text as a JSON string.
fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

fn type_name(tree: &Tree) -> &'static str {
    match tree {
        Tree::Null => "null",
        Tree::Bool(_) => "a boolean",
        Tree::Number(_) => "a number",
        Tree::Text(_) => "a string",
        Tree::List(_) => "an array",
        Tree::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
