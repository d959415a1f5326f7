//! A skill's schema and rules, compiled once for each version of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use openskill_proto::json;
use openskill_proto::limits::MAX_JSON_DEPTH;
use openskill_skill::schema::Bounds;
use serde_json::Value;

use super::feedback::{self, Feedback, Violation};
use super::parse::{self, Fault};
use super::schema::{self, SchemaRefused};
use super::{Policy, Prepared, Rejected, Repair, repair};

/// The most work that one check of a call may be: bytes times subschemas for one place.
const MAX_WORK: u64 = 2_000_000_000;

/// The same for collecting all that is wrong: values times subschemas for one place.
const MAX_CLOSER: u64 = 200_000;

/// The complaint about a call that does not fit and is too large to be looked at in detail: every error holds a copy of
/// what it complains of.
const TOO_LARGE: &str = "the arguments do not fit the skill's schema, and are too large to say where";

/// What a skill takes, and what may be done to arguments that do not fit.
#[derive(Debug)]
pub struct Definition {
    /// What calls are held to; none if the skill takes anything.
    schema: Option<Compiled>,
    rules: Rules,
}

#[derive(Debug)]
struct Compiled {
    /// As declared, but closed at its top where it is silent.
    schema: Value,
    validator: jsonschema::Validator,
    /// A call that is right.
    example: Option<Value>,
    /// What checking a call may cost.
    bounds: Bounds,
}

/// A skill's own rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The least strict policy that its calls may ask for.
    pub policy: Policy,
    /// Other names that models write, each with the parameter it stands for.
    pub aliases: BTreeMap<String, String>,
    /// Whether keys that the schema does not know may be left out.
    pub drop_unknown: bool,
    /// Whether a missing required parameter may get its declared default.
    pub fill_defaults: bool,
}

impl Default for Rules {
    /// The rules of a skill that destroys nothing and declares no aliases.
    fn default() -> Self {
        Self { policy: Policy::Repair, aliases: BTreeMap::new(), drop_unknown: true, fill_defaults: true }
    }
}

impl Definition {
    /// Compiles a skill's schema, given as JSON text. `examples` are calls that its author calls right; the first that
    /// is serves as example in feedback.
    ///
    /// # Errors
    /// The schema can't be used, or it could take too long to check a call against it.
    pub fn compile(schema: &str, rules: Rules, examples: &[String]) -> Result<Self, SchemaRefused> {
        let declared: Value = serde_json::from_str(schema).map_err(|error| SchemaRefused(error.to_string()))?;
        let schema = schema::closed(declared);
        let bounds = openskill_skill::schema::check(&schema).map_err(SchemaRefused)?;
        let validator = schema::compile(&schema)?;
        let given = examples.iter().filter_map(|text| serde_json::from_str(text).ok());
        let example = given
            .chain(feedback::example(&schema))
            .find(|example: &Value| example.is_object() && validator.is_valid(example));
        Ok(Self { schema: Some(Compiled { schema, validator, example, bounds }), rules })
    }

    /// A skill that declares no schema: its arguments are passed on as they are.
    pub fn without_schema(rules: Rules) -> Self {
        Self { schema: None, rules }
    }

    /// Whether calls are checked at all.
    pub fn has_schema(&self) -> bool {
        self.schema.is_some()
    }

    /// What calls are held to: the declared schema, closed at its top where it is silent about further keys.
    pub fn schema(&self) -> Option<&Value> {
        self.schema.as_ref().map(|compiled| &compiled.schema)
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Turns what was written into what the skill declared.
    ///
    /// A call that fits comes back as it came. One that does not is repaired if `policy` and the skill's own allow it,
    /// by the rules of [`super::Kind`] and by no others.
    ///
    /// # Errors
    /// It can't be read, or it does not fit and no repair makes it fit.
    pub fn prepare<'a>(&self, text: &'a str, policy: Policy) -> Result<Prepared<'a>, Rejected> {
        let strict = policy.max(self.rules.policy) == Policy::Strict;
        let is_small = || parse::is_small(text);
        if self.schema.as_ref().is_some_and(|it| !may_check(&it.bounds, text)) {
            return Err(self.whole("the arguments are too large or nest too deep for this skill's schema"));
        }
        let fault = match parse::strict(text) {
            Ok(value) if value.is_object() && self.fits(&value) => {
                return Ok(Prepared { text: Cow::Borrowed(text), repairs: Vec::new() });
            }
            Ok(value @ Value::Object(_)) if !is_small() || !self.may_look_closer(&value) => {
                return Err(self.whole(TOO_LARGE));
            }
            Ok(value) if strict || !is_small() => return Err(self.reject(&value)),
            Ok(_) => None,
            Err(Fault::Final(reason)) => return Err(self.unreadable(&reason)),
            Err(Fault::Syntax(reason)) if strict || !is_small() => return Err(self.unreadable(&reason)),
            Err(Fault::Syntax(reason)) => Some(reason),
        };
        let (tree, repairs) = parse::object(text).map_err(|reason| match fault {
            // It is JSON, but no object.
            None => self.whole(&reason),
            Some(_) => self.unreadable(&reason),
        })?;
        let (text, repairs) = match &self.schema {
            None => (tree.write(), repairs),
            Some(_) if !self.may_look_closer(&tree.to_value()) => return Err(self.whole(TOO_LARGE)),
            Some(it) => repair::repair(&it.schema, &it.validator, &self.rules, tree, repairs)
                .map_err(|(violations, value)| self.unfit(violations, &value))?,
        };
        Ok(Prepared { text: Cow::Owned(text), repairs })
    }

    /// Says that a call can't be made because of what had to be read past before its arguments could be found.
    pub fn refuse(&self, deviations: &[Repair]) -> Rejected {
        let kinds: Vec<_> = deviations.iter().map(|repair| repair.kind.name()).collect();
        Rejected::Unreadable(format!("the call deviates from plain JSON ({}), and is held to it", kinds.join(", ")))
    }

    /// Whether everything that is wrong with a value may be collected: each error holds a copy of what it complains of, and
    /// of what each branch of a choice has to say.
    fn may_look_closer(&self, value: &Value) -> bool {
        self.schema.as_ref().is_none_or(|it| it.bounds.at_one_place.saturating_mul(count(value)) <= MAX_CLOSER)
    }

    fn fits(&self, value: &Value) -> bool {
        self.schema.as_ref().is_none_or(|it| it.validator.is_valid(value))
    }

    fn reject(&self, value: &Value) -> Rejected {
        match &self.schema {
            Some(it) if value.is_object() => {
                self.unfit(repair::violations(&it.schema, &it.validator, &self.rules, value), value)
            }
            _ => self.whole("the arguments must be one JSON object"),
        }
    }

    fn unreadable(&self, reason: &str) -> Rejected {
        Rejected::Unreadable(feedback::unreadable(reason, self.example()))
    }

    fn whole(&self, reason: &str) -> Rejected {
        Rejected::Unfit(Box::new(Feedback::new(vec![Violation::of_whole(reason)], self.example())))
    }

    fn unfit(&self, violations: Vec<Violation>, value: &Value) -> Rejected {
        let example = self.schema.as_ref().and_then(|it| {
            feedback::adapted(it.example.as_ref()?, value, &violations, |tried| it.validator.is_valid(tried))
        });
        Rejected::Unfit(Box::new(Feedback::new(violations, example.as_ref())))
    }

    /// A call that is right, if one is known.
    pub fn example(&self) -> Option<&Value> {
        self.schema.as_ref()?.example.as_ref()
    }
}

/// How many values there are in one.
fn count(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Whether a call may be checked at all.
fn may_check(bounds: &Bounds, text: &str) -> bool {
    let shallow = bounds.depth >= MAX_JSON_DEPTH || json::depth(text.as_bytes()) <= bounds.depth;
    shallow && bounds.at_one_place.saturating_mul(text.len() as u64) <= MAX_WORK
}
