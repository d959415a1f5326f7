//! Rules of last resort: changes that are made only if nothing else is wrong, so that they alone make the call valid.

use std::collections::BTreeMap;

use jsonschema::error::ValidationErrorKind as ErrorKind;
use jsonschema::{JsonType, JsonTypeSet, ValidationError};
use serde_json::Value;

use super::state::{Edit, Repairer};
use super::values::{is_declared, is_integer, types};
use crate::arguments::kind::Kind;
use crate::arguments::tree::{self, Tree};

/// Drops optional objects that are empty where their schema does not allow it: `{}` says no more than null. Whether any
/// was dropped. Not for a destructive skill: without its filter it may do more than was meant.
pub(super) fn drop_empty(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    if !repairer.rules.drop_unknown {
        return false;
    }
    let is_empty = |value: &Tree| value.fields().is_some_and(Vec::is_empty);
    apply(repairer, errors, |tree, path, errors| {
        let is_field = tree::split(path).and_then(|(parent, _)| tree.at(parent)?.fields()).is_some();
        let is_candidate = is_field && tree.at(path).is_some_and(is_empty);
        let is_meant = errors.iter().all(|error| is_declared(error) && lacks_content(error));
        (is_candidate && is_meant).then(|| Edit { path: path.to_owned(), kind: Kind::EmptyDropped, new: None })
    })
}

/// Writes integers as strings where only a string is allowed. Whether any was written.
///
/// If another value had the wrong type as well, the two may have been mixed up.
pub(super) fn quote_integers(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    let keeps_values = |kind: Kind| {
        matches!(kind, Kind::Syntax | Kind::Extracted | Kind::DoubleEncoded | Kind::Wrapper | Kind::NullDropped)
    };
    if !repairer.repairs.iter().all(|repair| keeps_values(repair.kind)) {
        return false;
    }
    apply(repairer, errors, |tree, path, errors| {
        let Some(Tree::Number(digits)) = tree.at(path) else { return None };
        let is_meant = is_integer(digits) && errors.iter().all(|error| wants_text(error));
        let new = || Some(Tree::Text(digits.clone()));
        is_meant.then(|| Edit { path: path.to_owned(), kind: Kind::IntegerToString, new: new() })
    })
}

/// Makes the edit that `propose` gives for the errors of each path, if there is one for every path and the result is valid.
/// Whether they were made.
fn apply(
    repairer: &mut Repairer<'_>,
    errors: &[ValidationError<'_>],
    propose: impl Fn(&Tree, &str, &[&ValidationError<'_>]) -> Option<Edit>,
) -> bool {
    let mut by_path: BTreeMap<&str, Vec<&ValidationError<'_>>> = BTreeMap::new();
    for error in errors {
        by_path.entry(error.instance_path().as_str()).or_default().push(error);
    }
    let edits = by_path.into_iter().map(|(path, errors)| propose(&repairer.tree, path, &errors));
    let Some(edits) = edits.collect::<Option<Vec<Edit>>>() else { return false };
    let mut changed = repairer.tree.clone();
    edits.iter().for_each(|edit| {
        edit.clone().apply_to(&mut changed);
    });
    let is_valid = repairer.validator.is_valid(&changed.to_value());
    if is_valid {
        edits.into_iter().for_each(|edit| repairer.apply(edit));
    }
    is_valid
}

/// Whether an error says that an object has too few keys. In a choice, one branch says so.
fn lacks_content(error: &ValidationError<'_>) -> bool {
    let path = error.instance_path().as_str();
    match error.kind() {
        ErrorKind::Required { .. } | ErrorKind::MinProperties { .. } => true,
        ErrorKind::AnyOf { context } | ErrorKind::OneOfNotValid { context } => context.iter().any(|branch| {
            !branch.is_empty() && branch.iter().all(|it| it.instance_path().as_str() == path && lacks_content(it))
        }),
        _ => false,
    }
}

/// Whether an error says that a string is wanted, and nothing else but null. In a choice, every branch must.
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
