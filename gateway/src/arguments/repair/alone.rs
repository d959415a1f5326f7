//! Rules of last resort: changes that are made only if nothing else is wrong, so that they alone make the call valid.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::error::ValidationErrorKind as ErrorKind;
use jsonschema::{JsonType, JsonTypeSet, ValidationError};
use serde_json::Value;

use super::state::{Edit, Repairer};
use super::values::{is_declared, is_integer, types};
use crate::arguments::kind::Kind;
use crate::arguments::tree::{self, Tree};

/// How many empty values of one call may be dropped, and how deep choices may nest around them.
const MAX_EMPTY: usize = 32;
const MAX_NESTING: usize = 3;

/// Drops optional parameters that are empty where their schema does not allow it: `{}`, `[]` and `""` say no more than null.
/// Whether any was dropped. Not for a destructive skill: without its filter it may do more than was meant.
pub(super) fn drop_empty(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    if !repairer.rules.drop_unknown {
        return false;
    }
    let mut all = BTreeSet::new();
    errors.iter().for_each(|error| add_empty(&repairer.tree, error, 0, &mut all));
    let is_valid_without = |paths: &[&String]| {
        let mut changed = repairer.tree.clone();
        for path in paths {
            dropping(path).apply_to(&mut changed);
        }
        repairer.validator.is_valid(&changed.to_value())
    };
    if all.is_empty() || all.len() > MAX_EMPTY || !is_valid_without(&Vec::from_iter(&all)) {
        return false;
    }
    // The branches of a choice may complain about different ones: those that may stay do. If one of two would do, neither is
    // dropped.
    let is_needed = |path: &&String| !is_valid_without(&all.iter().filter(|other| other != path).collect::<Vec<_>>());
    let needed: Vec<&String> = all.iter().filter(is_needed).collect();
    let is_enough = is_valid_without(&needed);
    if is_enough {
        needed.into_iter().for_each(|path| repairer.apply(dropping(path)));
    }
    is_enough
}

fn dropping(path: &str) -> Edit {
    Edit { path: path.to_owned(), kind: Kind::EmptyDropped, new: None }
}

/// Adds the paths of declared parameters that are empty and that an error is about, in the branches of choices too.
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
