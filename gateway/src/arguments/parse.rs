//! Text to a JSON object, and what was let pass on the way.

use openskill_proto::json;
use openskill_proto::limits::MAX_JSON_DEPTH;
use serde_json::Value;

use super::tree::Tree;
use super::{Kind, Repair};

pub(super) mod lenient;
mod strict;

/// The longest text that is read leniently and repaired, and the most it may be once its length is multiplied by its depth.
/// Models write far less; more is checked, not changed.
pub(super) const MAX_REPAIRED_BYTES: usize = 256 * 1024;
const MAX_REPAIRED_AREA: usize = 2 * 1024 * 1024;

/// Whether a text is small enough to be read leniently and repaired.
pub(super) fn is_small(text: &str) -> bool {
    text.len() <= MAX_REPAIRED_BYTES && text.len() * json::depth(text.as_bytes()) <= MAX_REPAIRED_AREA
}

/// How often an object may have been written into a string.
const MAX_ENCODINGS: usize = 3;

/// Text as JSON says it should be: valid, no key twice, no deeper than [`MAX_JSON_DEPTH`].
///
/// # Errors
/// What is wrong, in words, and whether a lenient reading may help.
pub(super) fn strict(text: &str) -> Result<Value, strict::Fault> {
    strict::read(text)
}

pub(super) use strict::Fault;

/// The one object in a text, read leniently, with what was let pass.
///
/// # Errors
/// There is no such object, more than one, or one that is cut off or ambiguous.
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
        other => Err(format!("the arguments must be one JSON object, not {}", name_of(&other))),
    }
}

/// A value that fills the text, or the one object that stands in it.
fn one_value(text: &str, repairs: &mut Vec<Repair>) -> Result<Tree, String> {
    let whole = lenient::whole(text);
    let fault = match whole {
        Ok((tree, deviated)) => {
            if deviated {
                repairs.push(Repair::new("", Kind::Syntax, Some(quoted(text)), Some(tree.write())));
            }
            return Ok(tree);
        }
        Err(fault) => fault,
    };
    let (tree, deviated) = lenient::in_prose(text).map_err(|found| match found {
        lenient::NotOne::None => fault.to_string(),
        lenient::NotOne::Broken(inner) => inner.to_string(),
        lenient::NotOne::Several => "there is more than one object: send one call at a time".to_owned(),
    })?;
    repairs.push(Repair::new("", Kind::Extracted, Some(quoted(text)), Some(tree.write())));
    if deviated {
        repairs.push(Repair::new("", Kind::Syntax, None, Some(tree.write())));
    }
    Ok(tree)
}

/// Text as a JSON string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn name_of(tree: &Tree) -> &'static str {
    match tree {
        Tree::Null => "null",
        Tree::Bool(_) => "a boolean",
        Tree::Number(_) => "a number",
        Tree::Text(_) => "a string",
        Tree::List(_) => "a list",
        Tree::Object(_) => "an object",
    }
}

/// The complaint about a text that nests too deep.
pub(super) fn too_deep() -> String {
    format!("the arguments nest deeper than {MAX_JSON_DEPTH} levels")
}

/// The complaint about a key that stands twice.
pub(super) fn twice(key: &str) -> String {
    let shown: String = key.chars().take(60).collect();
    format!("the key {} stands twice in one object: keep one of them", Value::from(shown))
}

#[cfg(test)]
mod tests;
