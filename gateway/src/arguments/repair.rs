//! Repairs: rounds of small changes, each allowed by one rule, until the value fits or no rule applies.
//!
//! The validator says what is wrong and where; a rule may then propose a change. A change is made only if it is the only
//! one proposed for its place, and nothing is handed on that the validator does not accept in the end. So a rule needs no
//! understanding of `$ref`, `allOf` and their like, and can't make a call worse than refused.

use std::collections::HashSet;

use jsonschema::error::ValidationErrorKind as Wrong;
use jsonschema::{ValidationError, Validator};
use openskill_proto::json;
use openskill_proto::limits::MAX_JSON_DEPTH;
use serde_json::Value;

use super::feedback::{self, Violation};
use super::tree::{self, Tree};
use super::{Kind, Repair, Rules, parse};

mod fold;
mod keys;
mod values;

/// How many rounds a repair may take. Each makes at least one change; deeper tangles are not repaired.
const MAX_ROUNDS: usize = 16;

/// How many errors of one round are looked at.
const MAX_ERRORS: usize = 256;

/// How many changes one call may need.
const MAX_REPAIRS: usize = 256;

/// How many trial checks of the whole value one call may cost.
const MAX_TRIALS: usize = 64;

pub(crate) use fold::{key as fold_key, nearest};

/// A value on its way.
struct Repairer<'a> {
    schema: &'a Value,
    validator: &'a Validator,
    rules: &'a Rules,
    tree: Tree,
    repairs: Vec<Repair>,
    trials: usize,
    /// Whether something required was missing and got its default: an unknown key may have been meant for it.
    filled: bool,
    /// Where nulls were left out.
    nulls: HashSet<String>,
}

/// Makes `tree` fit, if the rules can: its text, and all repairs. `repairs` are those made before.
///
/// # Errors
/// It can't be done: what is still wrong after all that could be, and the value as it then was.
pub(super) fn repair(
    schema: &Value,
    validator: &Validator,
    rules: &Rules,
    tree: Tree,
    repairs: Vec<Repair>,
) -> Result<(String, Vec<Repair>), (Vec<Violation>, Value)> {
    let mut it = Repairer { schema, validator, rules, tree, repairs, trials: 0, filled: false, nulls: HashSet::new() };
    let mut before = None;
    for _ in 0..MAX_ROUNDS {
        let value = it.tree.to_value();
        let errors: Vec<_> = validator.iter_errors(&value).take(MAX_ERRORS).collect();
        if errors.is_empty() {
            // What was taken out of strings may nest deeper than what stood there.
            let text = it.tree.write();
            return match json::depth(text.as_bytes()) > MAX_JSON_DEPTH {
                true => Err((vec![Violation::of_whole(&parse::too_deep())], value)),
                false => Ok((text, it.repairs)),
            };
        }
        if let Some(before) = before.filter(|_| it.lacks_what_was_null(&errors)) {
            return Err((violations(schema, validator, rules, &before), before));
        }
        // Strict modes make models write null for all that they leave out.
        let counted = it.repairs.iter().filter(|repair| repair.kind != Kind::NullDropped).count();
        if counted > MAX_REPAIRS || !it.round(&errors) {
            let violations = feedback::violations(schema, rules, &errors);
            drop(errors);
            return Err((violations, value));
        }
        drop(errors);
        before = Some(value);
    }
    let value = it.tree.to_value();
    Err((violations(schema, validator, rules, &value), value))
}

/// What is wrong with a value that is not repaired.
pub(super) fn violations(schema: &Value, validator: &Validator, rules: &Rules, value: &Value) -> Vec<Violation> {
    let errors: Vec<_> = validator.iter_errors(value).take(MAX_ERRORS).collect();
    feedback::violations(schema, rules, &errors)
}

impl Repairer<'_> {
    /// One round: the first rule that changes anything. Whether one did.
    fn round(&mut self, errors: &[ValidationError<'_>]) -> bool {
        keys::unwrap(self, errors)
            || keys::rename(self, errors)
            || self.fix_values(errors)
            || keys::fill_defaults(self, errors)
            || keys::drop_unknown(self, errors)
    }

    /// Whether something required is missing since a null was left out there: null is no value to be replaced.
    fn lacks_what_was_null(&self, errors: &[ValidationError<'_>]) -> bool {
        errors.iter().any(|error| match error.kind() {
            Wrong::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                self.nulls.contains(&tree::join(error.instance_path().as_str(), name))
            }
            _ => false,
        })
    }

    fn fix_values(&mut self, errors: &[ValidationError<'_>]) -> bool {
        let edits = values::edits(self, errors);
        let changed = !edits.is_empty();
        for edit in edits {
            self.apply(edit);
        }
        changed
    }

    fn apply(&mut self, edit: values::Edit) {
        let before = self.tree.at(&edit.path).map(Tree::write);
        let after = edit.new.as_ref().map(Tree::write);
        let repair = Repair::new(edit.path.clone(), edit.kind, before, after);
        if edit.new.is_none() {
            self.nulls.insert(edit.path.clone());
        }
        if edit.put_into(&mut self.tree) {
            self.repairs.push(repair);
        }
    }

    /// Whether there is a trial left; takes it.
    fn may_try(&mut self) -> bool {
        self.trials += 1;
        self.trials <= MAX_TRIALS
    }

    /// Whether a changed value is free of errors at a place and below.
    fn is_clean(&self, changed: &Tree, path: &str) -> bool {
        let value = changed.to_value();
        let within = |error: ValidationError<'_>| {
            error
                .instance_path()
                .as_str()
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.validator.iter_errors(&value).any(within)
    }

    /// The subschema that holds the keyword an error speaks of, if it lies within the schema.
    fn subschema(&self, error: &ValidationError<'_>) -> Option<&Value> {
        subschema(self.schema, error)
    }
}

/// The subschema that holds the keyword an error speaks of, if it lies within `schema`.
pub(super) fn subschema<'a>(schema: &'a Value, error: &ValidationError<'_>) -> Option<&'a Value> {
    let (holder, _) = error.schema_path().as_str().rsplit_once('/')?;
    schema.pointer(holder)
}
