//! Repairs arguments in rounds. Each round applies one rule, until the value is valid or no rule applies.
//!
//! The validator reports what is wrong and where, and a rule may propose a change. The change is made only if it is
//! the only one proposed for its path. The validator then checks the result, so that rules need not understand
//! `$ref`, `allOf` and the like. At worst, a rule leaves the call rejected.

use std::collections::HashSet;

use jsonschema::{ValidationError, Validator};
use openskill_proto::json;
use openskill_proto::limits::MAX_JSON_DEPTH;
use serde_json::Value;

use super::feedback::{self, Violation};
use super::kind::Repair;
use super::parse;
use super::rules::Rules;
use super::tree::Tree;

mod alone;
mod keys;
mod state;
mod values;

use state::{MAX_ERRORS, Repairer};

/// The maximum number of rounds. Each makes at least one change.
const MAX_ROUNDS: usize = 16;

/// Repairs `tree` until it matches the schema. Returns its text and all repairs. `repairs` are those made while
/// parsing.
///
/// # Errors
/// No rule makes it match. The error has the remaining violations, and the value after the last round.
pub(super) fn repair(
    schema: &Value,
    validator: &Validator,
    rules: &Rules,
    tree: Tree,
    repairs: Vec<Repair>,
) -> Result<(String, Vec<Repair>), (Vec<Violation>, Value)> {
    let dropped_nulls = HashSet::new();
    let mut repairer =
        Repairer { schema, validator, rules, tree, repairs, default_filled: false, trials: 0, dropped_nulls };
    let mut previous = None;
    for _ in 0..MAX_ROUNDS {
        let value = repairer.tree.to_value();
        let errors: Vec<_> = validator.iter_errors(&value).take(MAX_ERRORS).collect();
        if errors.is_empty() {
            // Decoded strings may nest deeper than the original text.
            let text = repairer.tree.write();
            return match json::depth(text.as_bytes()) > MAX_JSON_DEPTH {
                true => Err((vec![Violation::unusable(&parse::too_deep())], value)),
                false => Ok((text, repairer.repairs)),
            };
        }
        if let Some(previous) = previous.filter(|_| repairer.misses_dropped_null(&errors)) {
            return Err((violations(schema, validator, rules, &previous), previous));
        }
        if repairer.is_exhausted() || !round(&mut repairer, &errors) {
            let violations = feedback::violations(schema, rules, &errors);
            drop(errors);
            return Err((violations, value));
        }
        drop(errors);
        previous = Some(value);
    }
    let value = repairer.tree.to_value();
    Err((violations(schema, validator, rules, &value), value))
}

/// Returns the violations of a value without trying to repair it.
pub(super) fn violations(schema: &Value, validator: &Validator, rules: &Rules, value: &Value) -> Vec<Violation> {
    let errors: Vec<_> = validator.iter_errors(value).take(MAX_ERRORS).collect();
    feedback::violations(schema, rules, &errors)
}

/// Applies the first rule that changes anything. Returns whether one did.
fn round(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    keys::unwrap(repairer, errors)
        || keys::rename(repairer, errors)
        || values::fix(repairer, errors)
        || keys::fill_defaults(repairer, errors)
        || alone::drop_empty(repairer, errors)
        || alone::quote_integers(repairer, errors)
        || keys::drop_unknown(repairer, errors)
}
