//! A skill's schema and rules, compiled once per version of the skill.

use std::borrow::Cow;
use std::sync::Arc;

use openskill_proto::json;
use openskill_proto::limits::{MAX_JSON_DEPTH, MAX_REQUEST_BYTES};
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_skill::defaults::{Defaults, MAX_GROWTH_BYTES};
use openskill_skill::draft;
use openskill_skill::schema::ValidationBounds;
use serde_json::Value;

use super::feedback::{self, Feedback, Violation};
use super::kind::Repair;
use super::parse::{self, StrictError};
use super::repair;
use super::rules::{Policy, Rules};
use super::schema;
use super::secrets::Secrets;

/// The maximum work of validating a call: bytes of the call times subschemas per value.
const MAX_VALIDATION_WORK: u64 = 2_000_000_000;

/// The maximum work of collecting all errors: values in the call times subschemas per value.
const MAX_DIAGNOSIS_WORK: u64 = 200_000;

/// The feedback for an invalid call that is too large to diagnose: diagnosis copies the offending value into each
/// error.
const TOO_LARGE: &str = "the arguments do not match the skill's schema, and are too large to say where";

/// Arguments that match the skill's schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared<'a> {
    /// A JSON object as text. If nothing was repaired or filled in, it is the caller's text, byte for byte.
    pub text: Cow<'a, str>,
    /// What was changed, in order. Empty if and only if the original text is valid.
    pub repairs: Vec<Repair>,
    /// The absent optional parameters that were filled with their defaults, as JSON Pointers.
    pub defaults: Vec<String>,
    /// Why no defaults were filled in, although some parameters are absent.
    pub warning: Option<String>,
}

/// Why a call was rejected.
#[derive(Debug, Clone, PartialEq)]
pub enum Rejected {
    /// The text can't be parsed as JSON. Contains the reason.
    Unreadable(String),
    /// The arguments are JSON, but do not match the schema.
    Unfit(Box<Feedback>),
}

impl From<Rejected> for SkillError {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Unreadable(reason) => Self::new(ErrorCode::InvalidJson, reason),
            Rejected::Unfit(feedback) => {
                Self::new(ErrorCode::InvalidArgument, feedback.message()).with_details(feedback.details().to_string())
            }
        }
    }
}

/// The arguments that a skill accepts, and how invalid ones may be repaired.
#[derive(Debug)]
pub struct Definition {
    /// None if the skill declares no schema.
    schema: Option<CompiledSchema>,
    rules: Rules,
    secrets: Option<Arc<Secrets>>,
}

#[derive(Debug)]
struct CompiledSchema {
    /// The declared schema, closed at its top level if it does not mention additional keys.
    schema: Value,
    validator: jsonschema::Validator,
    /// A valid call, if one is known.
    example: Option<Value>,
    /// What validating a call may cost.
    bounds: ValidationBounds,
    /// The defaults of optional parameters. None if there are none, or the rules leave them out.
    defaults: Option<Defaults>,
}

impl CompiledSchema {
    /// Fills absent optional parameters with their defaults, as far as the arguments remain valid and a worker takes
    /// them.
    fn fill<'a>(&self, prepared: Prepared<'a>) -> Prepared<'a> {
        let Some(defaults) = &self.defaults else { return prepared };
        let mut work: u64 = 0;
        let accepts = |text: &str| {
            // All attempts together may cost what validating one call may.
            work = work.saturating_add(validation_work(&self.bounds, text));
            work <= MAX_VALIDATION_WORK
                && text.len() <= MAX_REQUEST_BYTES
                && may_validate(&self.bounds, text)
                && parse::strict(text).is_ok_and(|value| self.validator.is_valid(&value))
        };
        match defaults.fill(&prepared.text, accepts) {
            Ok(Some(filled)) => Prepared { text: Cow::Owned(filled.text), defaults: filled.paths, ..prepared },
            Ok(None) => prepared,
            Err(_) => {
                let warning = format!(
                    "the call got no defaults: those of its optional parameters are over {MAX_GROWTH_BYTES} bytes together"
                );
                Prepared { warning: Some(warning), ..prepared }
            }
        }
    }
}

impl Definition {
    /// Compiles a schema from JSON text. `examples` are calls that the skill's author declares valid. Feedback
    /// shows the first one that really is.
    ///
    /// # Errors
    /// The schema can't be used, or validating a call against it could take too long.
    pub fn compile(schema: &str, rules: Rules, examples: &[String]) -> Result<Self, String> {
        let declared: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
        let schema = schema::close(draft::to_2020_12(&declared)?);
        let bounds = openskill_skill::schema::check(&schema)?;
        let validator = openskill_skill::schema::compile(&schema)?;
        let given = examples.iter().filter_map(|text| serde_json::from_str(text).ok());
        let example = given
            .chain(feedback::example(&schema))
            .find(|example: &Value| example.is_object() && validator.is_valid(example));
        let secrets = Secrets::from_schema(&schema, rules.aliases.iter()).map(Arc::new);
        let fills = rules.fill_defaults && rules.fill_optional && rules.policy == Policy::Repair;
        let defaults = if fills { Defaults::from_schema(&schema, &validator).0 } else { None };
        Ok(Self { schema: Some(CompiledSchema { schema, validator, example, bounds, defaults }), rules, secrets })
    }

    /// Creates the definition of a skill without a schema, which accepts any JSON object unchanged.
    pub fn without_schema(rules: Rules) -> Self {
        Self { schema: None, rules, secrets: None }
    }

    /// The schema that calls are validated against: the declared one in draft 2020-12, closed at its top level if
    /// it does not mention additional keys.
    pub fn schema(&self) -> Option<&Value> {
        self.schema.as_ref().map(|compiled| &compiled.schema)
    }

    /// The rules for repairs.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The parameters that must not be stored, if any.
    pub(crate) fn secrets(&self) -> Option<&Arc<Secrets>> {
        self.secrets.as_ref()
    }

    /// Turns the text that a model wrote into arguments that the skill accepts.
    ///
    /// Arguments that match the schema are returned unchanged. Others are repaired if `policy` and the skill's own
    /// policy allow it, only by the rules that [`Kind`](super::Kind) lists. Then, absent optional parameters get their
    /// defaults, unless the policy is strict.
    ///
    /// # Errors
    /// The text can't be read, or no repair makes it match the schema.
    pub fn prepare<'a>(&self, text: &'a str, policy: Policy) -> Result<Prepared<'a>, Rejected> {
        let strict = policy.max(self.rules.policy) == Policy::Strict;
        let (text, repairs) = self.fit(text, strict)?;
        let prepared = Prepared { text, repairs, defaults: Vec::new(), warning: None };
        match &self.schema {
            Some(compiled) if !strict => Ok(compiled.fill(prepared)),
            _ => Ok(prepared),
        }
    }

    /// Validates arguments, and repairs them if `strict` does not forbid it. Returns their text and the repairs.
    fn fit<'a>(&self, text: &'a str, strict: bool) -> Result<(Cow<'a, str>, Vec<Repair>), Rejected> {
        let is_small = || parse::is_small(text);
        if self.schema.as_ref().is_some_and(|compiled| !may_validate(&compiled.bounds, text)) {
            let reason = "the arguments are too large or nested too deeply for this skill's schema";
            return Err(self.reject_whole(reason));
        }
        let syntax_error = match parse::strict(text) {
            Ok(value) if value.is_object() && self.is_valid(&value) => {
                return Ok((Cow::Borrowed(text), Vec::new()));
            }
            Ok(value @ Value::Object(_)) if !is_small() || !self.may_diagnose(&value) => {
                return Err(self.reject_whole(TOO_LARGE));
            }
            Ok(value) if strict || !is_small() => return Err(self.reject(&value)),
            Ok(_) => None,
            Err(StrictError::Fatal(reason)) => return Err(self.reject_unreadable(&reason)),
            Err(StrictError::Syntax(reason)) if strict || !is_small() => return Err(self.reject_unreadable(&reason)),
            Err(StrictError::Syntax(reason)) => Some(reason),
        };
        let (tree, repairs) = parse::object(text).map_err(|reason| match syntax_error {
            // The text is valid JSON, but not an object.
            None => self.reject_whole(&reason),
            Some(_) => self.reject_unreadable(&reason),
        })?;
        let (text, repairs) = match &self.schema {
            None => (tree.write(), repairs),
            Some(_) if !self.may_diagnose(&tree.to_value()) => return Err(self.reject_whole(TOO_LARGE)),
            Some(compiled) => repair::repair(&compiled.schema, &compiled.validator, &self.rules, tree, repairs)
                .map_err(|(violations, value)| self.reject_violations(violations, &value))?,
        };
        Ok((Cow::Owned(text), repairs))
    }

    /// Rejects a raw call under the strict policy, because its arguments could be found only by these repairs.
    pub fn refuse(&self, deviations: &[Repair]) -> Rejected {
        let kinds: Vec<_> = deviations.iter().map(|repair| repair.kind.name()).collect();
        let kinds = kinds.join(", ");
        Rejected::Unreadable(format!("the call is not plain JSON ({kinds}), and its argument policy is strict"))
    }

    /// Whether collecting all errors of a value is affordable. Each error copies its value, and each branch of an
    /// `anyOf` adds errors.
    fn may_diagnose(&self, value: &Value) -> bool {
        let within =
            |bounds: &ValidationBounds| bounds.at_one_location.saturating_mul(count(value)) <= MAX_DIAGNOSIS_WORK;
        self.schema.as_ref().is_none_or(|compiled| within(&compiled.bounds))
    }

    fn is_valid(&self, value: &Value) -> bool {
        self.schema.as_ref().is_none_or(|compiled| compiled.validator.is_valid(value))
    }

    fn reject(&self, value: &Value) -> Rejected {
        match &self.schema {
            Some(compiled) if value.is_object() => {
                let violations = repair::violations(&compiled.schema, &compiled.validator, &self.rules, value);
                self.reject_violations(violations, value)
            }
            _ => self.reject_whole("the arguments must be a single JSON object"),
        }
    }

    fn reject_unreadable(&self, reason: &str) -> Rejected {
        Rejected::Unreadable(feedback::with_example(reason, self.example()))
    }

    fn reject_whole(&self, reason: &str) -> Rejected {
        Rejected::Unfit(Box::new(Feedback::new(vec![Violation::unusable(reason)], self.example())))
    }

    fn reject_violations(&self, violations: Vec<Violation>, value: &Value) -> Rejected {
        let example = self.schema.as_ref().and_then(|compiled| {
            let is_valid = |candidate: &Value| compiled.validator.is_valid(candidate);
            feedback::adapted_example(compiled.example.as_ref()?, value, &violations, is_valid)
        });
        Rejected::Unfit(Box::new(Feedback::new(violations, example.as_ref())))
    }

    /// A valid call, if one is known.
    pub fn example(&self) -> Option<&Value> {
        self.schema.as_ref()?.example.as_ref()
    }
}

/// Counts the values within a value, including itself.
fn count(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Whether validating a call is affordable.
fn may_validate(bounds: &ValidationBounds, text: &str) -> bool {
    let is_shallow = bounds.depth >= MAX_JSON_DEPTH || json::depth(text.as_bytes()) <= bounds.depth;
    is_shallow && validation_work(bounds, text) <= MAX_VALIDATION_WORK
}

fn validation_work(bounds: &ValidationBounds, text: &str) -> u64 {
    bounds.at_one_location.saturating_mul(text.len() as u64)
}
