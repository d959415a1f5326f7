//! A value under repair, with the state that the rules read and change.

use std::collections::HashSet;

use jsonschema::error::ValidationErrorKind as ErrorKind;
use jsonschema::{ValidationError, Validator};
use openskill_skill::schema::join;
use serde_json::Value;

use crate::arguments::kind::{Kind, Repair};
use crate::arguments::rules::Rules;
use crate::arguments::schema::failing_schema;
use crate::arguments::tree::{self, Tree};

/// The maximum number of errors that one round considers.
pub(super) const MAX_ERRORS: usize = 256;

/// The maximum number of changes to one call. Dropped nulls are not counted.
pub(super) const MAX_REPAIRS: usize = 256;

/// The maximum number of trial validations of one call.
const MAX_TRIALS: usize = 64;

pub(super) struct Repairer<'a> {
    pub(super) schema: &'a Value,
    pub(super) validator: &'a Validator,
    pub(super) rules: &'a Rules,
    pub(super) tree: Tree,
    pub(super) repairs: Vec<Repair>,
    /// Whether a default was filled in. An unknown key may have been meant for that parameter.
    pub(super) default_filled: bool,
    pub(super) trials: usize,
    /// The paths of dropped nulls.
    pub(super) dropped_nulls: HashSet<String>,
}

/// A change to the value at one path.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edit {
    pub(super) path: String,
    pub(super) kind: Kind,
    /// The new value. None removes the key.
    pub(super) new: Option<Tree>,
}

impl Edit {
    /// Makes the change. Returns whether the path existed.
    pub(super) fn apply_to(self, tree: &mut Tree) -> bool {
        match self.new {
            Some(new) => tree.at_mut(&self.path).map(|old| *old = new).is_some(),
            None => tree::split(&self.path).and_then(|(parent, key)| tree.at_mut(parent)?.remove(&key)).is_some(),
        }
    }
}

impl<'a> Repairer<'a> {
    /// Makes edits and records them. Returns whether there are any.
    pub(super) fn apply_all(&mut self, edits: Vec<Edit>) -> bool {
        let has_edits = !edits.is_empty();
        edits.into_iter().for_each(|edit| self.apply(edit));
        has_edits
    }

    fn apply(&mut self, edit: Edit) {
        let before = self.tree.at(&edit.path).map(Tree::write);
        let after = edit.new.as_ref().map(Tree::write);
        let repair = Repair::new(edit.path.clone(), edit.kind, before, after);
        if edit.kind == Kind::NullDropped {
            self.dropped_nulls.insert(edit.path.clone());
        }
        if edit.apply_to(&mut self.tree) {
            self.repairs.push(repair);
        }
    }

    /// Whether the call has used up its changes. Dropped nulls do not count: in strict mode, models write null for
    /// every parameter that they omit.
    pub(super) fn is_exhausted(&self) -> bool {
        self.repairs.iter().filter(|repair| repair.kind != Kind::NullDropped).count() > MAX_REPAIRS
    }

    /// Whether a required key is missing because its null was dropped. Such a null must not be replaced.
    pub(super) fn misses_dropped_null(&self, errors: &[ValidationError<'_>]) -> bool {
        errors.iter().any(|error| match error.kind() {
            ErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                self.dropped_nulls.contains(&join(error.instance_path().as_str(), name))
            }
            _ => false,
        })
    }

    /// Counts one trial. Returns false if no more are allowed.
    pub(super) fn take_trial(&mut self) -> bool {
        self.trials += 1;
        self.trials <= MAX_TRIALS
    }

    /// Whether `changed` is valid at `path` and below it.
    pub(super) fn is_valid_at(&self, changed: &Tree, path: &str) -> bool {
        let value = changed.to_value();
        let is_below = |error: ValidationError<'_>| {
            let rest = error.instance_path().as_str().strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.validator.iter_errors(&value).any(is_below)
    }

    /// Returns the subschema that an error refers to, if it lies within the schema.
    pub(super) fn failing_schema(&self, error: &ValidationError<'_>) -> Option<&'a Value> {
        failing_schema(self.schema, error)
    }
}
