//! Rules of last resort, which apply only if nothing else is wrong: the change itself must make the call valid.

use std::collections::BTreeSet;

use jsonschema::error::ValidationErrorKind as ErrorKind;
use jsonschema::{JsonType, JsonTypeSet, ValidationError};
use serde_json::Value;

use super::state::{Edit, Repairer};
use super::values::{is_declared, is_integer, types};
use crate::arguments::kind::Kind;
use crate::arguments::tree::{self, Tree};

/// The maximum number of empty values that are dropped from one call, and the maximum nesting of `anyOf` around
/// them.
const MAX_EMPTY: usize = 32;
const MAX_NESTING: usize = 3;

/// Drops optional parameters that are empty where their schema does not allow it: `{}`, `[]` and `""` then mean the
/// same as null. Returns whether any was dropped. Does nothing for a destructive skill (`drop_unknown` is off),
/// which might delete more than the model meant without its filter.
pub(super) fn drop_empty(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    if !repairer.rules.drop_unknown {
        return false;
    }
    let mut all = BTreeSet::new();
    errors.iter().for_each(|error| add_empty(&repairer.tree, error, 0, &mut all));
    let is_valid_without = |paths: &[&String]| is_valid_after(&*repairer, paths.iter().map(|path| dropping(path)));
    if all.is_empty() || all.len() > MAX_EMPTY || !is_valid_without(&Vec::from_iter(&all)) {
        return false;
    }
    // The branches of an `anyOf` may report different parameters. Keep a parameter that need not be dropped. If
    // dropping either of two is enough, drop neither.
    let is_needed = |path: &&String| !is_valid_without(&all.iter().filter(|other| other != path).collect::<Vec<_>>());
    let needed: Vec<&String> = all.iter().filter(is_needed).collect();
    is_valid_without(&needed) && repairer.apply_all(needed.into_iter().map(|path| dropping(path)).collect())
}

fn dropping(path: &str) -> Edit {
    Edit { path: path.to_owned(), kind: Kind::EmptyDropped, new: None }
}

/// Adds the paths of empty declared parameters that an error refers to, including errors in the branches of an `anyOf`.
fn add_empty(tree: &Tree, error: &ValidationError<'_>, nesting: usize, found: &mut BTreeSet<String>) {
    let path = error.instance_path().as_str();
    let is_field = tree::split(path).and_then(|(parent, _)| tree.at(parent)?.fields()).is_some();
    if is_field && tree.at(path).is_some_and(Tree::is_empty) && is_declared(error) {
        found.insert(path.to_owned());
    }
    if let ErrorKind::AnyOf { context } | ErrorKind::OneOfNotValid { context } = error.kind()
        && nesting < MAX_NESTING
    {
        context.iter().flatten().for_each(|error| add_empty(tree, error, nesting + 1, found));
    }
}

/// Converts integers to strings where only a string is allowed. Returns whether any was converted.
///
/// Does nothing if another value also has the wrong type: the model may have swapped the two.
pub(super) fn quote_integers(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    let keeps_values = |kind: Kind| {
        matches!(kind, Kind::Syntax | Kind::Extracted | Kind::DoubleEncoded | Kind::Wrapper | Kind::NullDropped)
    };
    if !repairer.repairs.iter().all(|repair| keeps_values(repair.kind)) || !errors.iter().all(wants_text) {
        return false;
    }
    let paths: BTreeSet<&str> = errors.iter().map(|error| error.instance_path().as_str()).collect();
    let edits = paths.into_iter().map(|path| match repairer.tree.at(path) {
        Some(Tree::Number(digits)) if is_integer(digits) => {
            Some(Edit { path: path.to_owned(), kind: Kind::IntegerToString, new: Some(Tree::Text(digits.clone())) })
        }
        _ => None,
    });
    let Some(edits) = edits.collect::<Option<Vec<Edit>>>() else { return false };
    is_valid_after(&*repairer, edits.iter().cloned()) && repairer.apply_all(edits)
}

/// Whether the call is valid after these edits.
fn is_valid_after(repairer: &Repairer<'_>, edits: impl Iterator<Item = Edit>) -> bool {
    let mut changed = repairer.tree.clone();
    for edit in edits {
        edit.apply_to(&mut changed);
    }
    repairer.validator.is_valid(&changed.to_value())
}

/// Whether an error shows that only a string (or null) is allowed. In an `anyOf`, every branch must show it.
fn wants_text(error: &ValidationError<'_>) -> bool {
    match error.kind() {
        ErrorKind::Type { kind } => types(kind).remove(JsonType::Null) == JsonTypeSet::from(JsonType::String),
        ErrorKind::Enum { options } => options.as_array().is_some_and(|it| it.iter().any(Value::is_string)),
        ErrorKind::Constant { expected_value } => expected_value.is_string(),
        ErrorKind::AnyOf { context } | ErrorKind::OneOfNotValid { context } => {
            let wants_null = |error: &ValidationError<'_>| match error.kind() {
                ErrorKind::Type { kind } => types(kind) == JsonTypeSet::from(JsonType::Null),
                _ => false,
            };
            let mut others = context.iter().filter(|branch| !branch.iter().any(wants_null)).peekable();
            others.peek().is_some() && others.all(|branch| !branch.is_empty() && branch.iter().all(wants_text))
        }
        _ => false,
    }
}
